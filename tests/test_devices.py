"""The whole GPU path, on CPU tensors where there is no GPU: same features, sums, choices and predictions as the CPU."""

import gc
import sys

import numpy as np
import pytest
from scipy import sparse

import ulmus
from data import classification, regression, relative_error, rows, sparse_rows
from gpu import DEVICE, accelerator, torch
from ulmus import engine
from ulmus.devices import accelerator as accelerators
from ulmus.devices import direct, tensors, triangles, whitening
from ulmus.devices.accelerator import Accelerator, resolve
from ulmus.devices.feature_maps import map_on
from ulmus.devices.kernel_ridge import fit_on_device
from ulmus.devices.scorer import TensorPath
from ulmus.devices.statistics import DeviceSums, TensorStatistics, gram_statistics
from ulmus.devices.tensors import DeviceRows, HostView
from ulmus.engine import Rows
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters, gram_matrix
from ulmus.features.nystrom import decompose
from ulmus.features.sampling import distinct_rows
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics

SAME = 1e-11


@pytest.fixture(autouse=True)
def _without_tiles(monkeypatch):
    """Triton's tiles have tests of their own, and are slow in the interpreter."""
    if DEVICE != "cuda":
        monkeypatch.setattr(Accelerator, "fuses", False)


def transformed(features, X):
    out = np.empty((X.shape[0], features.n_features_out))
    features.transform_block(X, out)
    return out


def on_device_transformed(features, X):
    a = accelerator()
    return a.numpy(map_on(a, features)(a.tensor(X)))


# Features


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_have_the_same_values(kernel):
    X = rows(60, 4)
    cross = CrossKernel(kernel, X[:20].copy(), KernelParameters(0.3, 3, 1.0))
    assert relative_error(on_device_transformed(cross, X), transformed(cross, X)) < SAME


def test_a_callable_kernel_is_evaluated_on_the_cpu():
    X = rows(30, 3)
    cross = CrossKernel(lambda A, B: (A @ B.T + 1.0) ** 2, X[:5].copy(), KernelParameters())
    assert relative_error(on_device_transformed(cross, X), transformed(cross, X)) < SAME


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32"])
def test_distances_far_from_the_origin_keep_their_digits(kernel):
    X = rows(50, 3) * 1e-3 + 1e4
    cross = CrossKernel(kernel, X[:20].copy(), KernelParameters(1e3))
    assert relative_error(on_device_transformed(cross, X), transformed(cross, X)) < 1e-8


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("direct_links", [False, True])
def test_hidden_nodes_have_the_same_values(activation, direct_links):
    X = rows(50, 3)
    layer = ulmus.RandomLayer(10, activation=activation, direct_links=direct_links, random_state=0).fit(X)
    assert relative_error(on_device_transformed(layer, X), transformed(layer, X)) < SAME


@pytest.mark.parametrize("rank", [None, 5])
def test_nystrom_features_have_the_same_values(rank):
    X = rows(80, 3)
    features = ulmus.NystromMap(15, gamma=0.4, rank=rank, random_state=0).fit(X)
    assert relative_error(on_device_transformed(features, X), transformed(features, X)) < 1e-9


@pytest.mark.parametrize(
    ("n", "repeats", "gamma"), [(60, 1, 5.0), (60, 3, 1.0), (150, 1, 0.01)], ids=["sound", "copies", "smooth"]
)
def test_landmarks_are_factored_in_the_same_order(monkeypatch, n, repeats, gamma):
    monkeypatch.setattr(whitening, "SMALL", 0)
    monkeypatch.setattr(whitening, "_PANEL", 32)
    Z = np.tile(rows(n // repeats, 3), (repeats, 1))
    parameters = KernelParameters(gamma)
    _, there, condition = whitening.DeviceDecomposition(accelerator())("rbf", Z, parameters)
    K, here, expected = decompose("rbf", Z, parameters)
    assert (there.order[: n // 3] == here.order[: n // 3]).all()
    assert len(there.order) == pytest.approx(len(here.order), abs=2)  # what is left at round-off may differ
    kept = K[np.ix_(there.order, there.order)]
    assert relative_error(there.R @ there.R.T, kept) < 1e-12
    assert condition == pytest.approx(expected, rel=0.5)


# Sums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_sums_are_those_of_the_engine(monkeypatch, weighted, keep, kind):
    monkeypatch.setattr("ulmus.devices.statistics.PANEL", 7)
    monkeypatch.setattr("ulmus.devices.statistics.block_rows", lambda _: 64)
    X = sparse_rows(300, 4) if kind == "csr" else rows(300, 4).astype(kind)
    T = rows(300, 2, seed=1)
    weight = np.random.RandomState(0).uniform(0.5, 2, 300) if weighted else None
    cross = CrossKernel("rbf", X[:20].astype(np.float64), KernelParameters(0.3))
    given = Rows(sparse.csr_array(X) if kind == "csr" else X, T, weight)
    a = accelerator()
    there = gram_statistics(map_on(a, cross), 20, DeviceRows(a, given, keep=keep))
    here = engine.gram_statistics(cross, given)
    assert relative_error(there.to_host().moments, here.moments) < 1e-12
    assert relative_error(there.prefix(8).to_host().moments, here.prefix(8).moments) < 1e-12
    assert relative_error(there.centred().to_host().moments, here.centred().moments) < 1e-11
    R = np.linalg.cholesky(gram_matrix("rbf", cross.Z, cross.parameters) + np.eye(20))
    assert relative_error(there.whitened(a.tensor(R)).to_host().moments, here.whitened(R).moments) < 1e-11
    assert relative_error((there + there - there).to_host().moments, here.moments) < 1e-11


def test_batches_of_a_parquet_file_are_summed_as_the_table_is(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table
    X, T = rows(500, 3), rows(500, 1, seed=1)
    parquet.write_table(table({**dict(zip("abc", X.T, strict=True)), "y": T[:, 0]}), tmp_path / "rows.parquet")
    cross = CrossKernel("rbf", X[:20].copy(), KernelParameters(0.3))
    a = accelerator()
    sums = DeviceSums(a, map_on(a, cross), 20, 1)
    for batch in parquet.ParquetFile(tmp_path / "rows.parquet").iter_batches(batch_size=64):
        columns = np.column_stack([batch[name].to_numpy() for name in "abcy"])
        sums.add(Rows(columns[:, :3], columns[:, 3:]))
    there = sums.statistics().to_host()
    assert there.n_rows == 500
    assert relative_error(there.moments, engine.gram_statistics(cross, Rows(X, T)).moments) < 1e-12


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_C_has_the_predictions_and_leverages_of_the_path_on_the_cpu(fit_intercept):
    Phi, T = rows(100, 12), rows(100, 2, seed=1)
    stats = Statistics.of(Phi, T)
    a = accelerator()
    there = TensorPath(TensorStatistics(a.tensor(stats.moments), 2, 100, accelerator=a), fit_intercept=fit_intercept)
    C = 2.0 ** np.arange(-5, 10)
    fitted, h = there.predictions(a.tensor(Phi), C)
    here = RidgePath(stats, fit_intercept=fit_intercept)
    beta, intercept = here.weights(C)
    assert relative_error(fitted, np.tensordot(Phi, beta, axes=1).transpose(1, 0, 2) + intercept[:, None]) < 1e-10
    assert relative_error(h, here.leave_one_out(C)(Phi, T, None)[1]) < 1e-10


# Models


def options(name):
    return {
        "NKELM": {"n_landmarks": 40, "gamma": 0.3},
        "KELM": {"gamma": 0.3},
        "ELM": {"n_hidden": 30, "slope": 1.0},
    }[name]


def outputs(model, X):
    return model.predict(X) if hasattr(model, "spread_") else model.decision_function(X)


@pytest.mark.parametrize("family", ["NKELM", "KELM", "ELM"])
@pytest.mark.parametrize("task", ["Regressor", "Classifier"])
@pytest.mark.parametrize("C", ["auto", 10.0])
def test_fits_agree_with_those_of_the_cpu(family, task, C):
    X, y = regression(300, outputs=2) if task == "Regressor" else classification(300)
    kind = getattr(ulmus, family + task)
    weight = np.random.RandomState(0).randint(1, 4, 300)
    here, there = (
        kind(**options(family), C=C, random_state=0, device=device).fit(X, y, sample_weight=weight)
        for device in ("cpu", DEVICE)
    )
    assert here.C_ == there.C_
    assert relative_error(outputs(there, X), outputs(here, X)) < 1e-8
    held_out = [m.predict_interval(X) if task == "Regressor" else m.predict_proba(X) for m in (here, there)]
    assert relative_error(held_out[1], held_out[0]) < 1e-6


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ulmus.NKELMRegressor, {}),
        (ulmus.NKELMRegressor, {"n_landmarks": 60, "gamma": 0.001, "C": 1e4}),
        (ulmus.NKELMRegressor, {"n_landmarks": 30, "gamma": 0.3, "cv": 3}),
        (ulmus.NKELMRegressor, {"n_landmarks": 30, "gamma": 0.3, "C": 1.0, "rank": 10}),
        (ulmus.NKELMRegressor, {"n_landmarks": 400, "gamma": 0.3, "C": 1.0}),
        (ulmus.NKELMRegressor, {"kernel": "laplacian", "n_landmarks": 30, "C": 1.0}),
        (ulmus.ELMRegressor, {"n_hidden": 20, "slope": 1.0, "C": None}),
        (ulmus.ELMRegressor, {"n_hidden": 300, "slope": 1.0, "C": 1.0}),
    ],
    ids=["nothing given", "smooth", "folds", "rank", "more than rows", "laplacian", "least squares", "dual"],
)
def test_harder_cases_agree_too(kind, given):
    X, y = regression(250)
    here, there = (kind(**given, random_state=0, device=device).fit(X, y) for device in ("cpu", DEVICE))
    assert relative_error(there.predict(X), here.predict(X)) < 1e-6


def test_the_intercept_of_weights_of_all_sizes_keeps_its_digits():
    rng, n, C = np.random.default_rng(0), 6, 8e5
    for _ in range(40):
        X, T, w = np.abs(rng.normal(size=(n, 1))), rng.normal(size=n), 10.0 ** rng.uniform(-4, 3, n)
        X[4], T[0] = -1.0, 100.0
        cross = CrossKernel("cosine", X, KernelParameters(1.0))
        found = fit_on_device(accelerator(), cross, Rows(X, T[:, None], w), C, fit_intercept=True, n_last=1, n_jobs=1)
        A = np.sign(X @ X.T) + np.diag(1 / (C * w))
        # what is left of the equations is the round-off of a solve, and of this sum
        left = A @ found.alpha[:, 0] + found.intercept - T
        size = np.linalg.norm(A, 2) * np.linalg.norm(found.alpha)
        assert np.abs(left).max() <= 4 * n * np.finfo(float).eps * size


def test_an_indefinite_kernel_goes_to_the_indefinite_solver_of_the_cpu():
    X, y = regression(60)
    cross = CrossKernel("sigmoid", X, KernelParameters(1.0, 3, -1.0))
    with pytest.warns(ulmus.NumericalWarning, match="not positive definite"):
        found = fit_on_device(accelerator(), cross, Rows(X, y[:, None]), 1e3, fit_intercept=False, n_last=10, n_jobs=1)
    K = transformed(cross, X) + np.eye(60) / 1e3
    assert relative_error(K @ found.alpha, y[:, None]) < 1e-6


@pytest.mark.parametrize("moments", [False, True])
def test_the_iterative_route_agrees_with_the_direct_one(monkeypatch, moments):
    monkeypatch.setattr("ulmus.devices.iterative.SAMPLE", 5 if moments else 0)
    monkeypatch.setattr("ulmus.devices.iterative.BLOCK", 16)
    X, y = regression(500)
    given = {"n_landmarks": 50, "gamma": 0.3, "C": 1.0, "fit_intercept": True, "random_state": 0}
    here = ulmus.NKELMRegressor(**given, solver="direct").fit(X, y)
    there = ulmus.NKELMRegressor(**given, solver="iterative", tol=1e-9, device=DEVICE).fit(X, y)
    assert there.route_ == f"iterative {DEVICE}"
    assert there.residual_ <= 1e-9
    assert relative_error(there.predict(X), here.predict(X)) < 1e-6


@pytest.mark.parametrize("block", [5, 8, 40])
def test_two_triangles_share_one_matrix(block):
    X = rows(37, 3)
    K = torch.from_numpy(gram_matrix("rbf", X, KernelParameters(0.5))) + 1e-3 * torch.eye(37, dtype=torch.float64)
    made = triangles.TwoTriangles(torch, K.clone, 3.0, 2.0, block)
    B = torch.from_numpy(rows(37, 2, seed=1))
    assert relative_error((3.0 * K @ K + K / 2.0) @ made.solve(B), B) < 1e-9
    G = torch.from_numpy(np.diag(np.arange(1.0, 38.0)))
    given = triangles.TwoTriangles(torch, K.clone, 3.0, 2.0, block, lambda R: G)
    R = torch.linalg.cholesky(K)
    assert relative_error(R @ (G + torch.eye(37, dtype=torch.float64) / 2.0) @ R.T @ given.solve(B), B) < 1e-9
    assert not triangles.cholesky_in_place(torch, -K.clone(), block)


def test_a_fitted_model_is_made_of_arrays_and_predicts_without_a_gpu():
    X, y = regression(200)
    for given in ({}, {"solver": "iterative"}):
        model = ulmus.NKELMRegressor(30, gamma=0.3, C=1.0, random_state=0, device=DEVICE, **given).fit(X, y)
        assert not _tensors_in(model)
        there = model.predict(X)
        assert relative_error(model.set_params(device="cpu").predict(X), there) < 1e-10
        model.set_params(device="cuda")  # few rows, or no GPU: the CPU does
        assert relative_error(model.predict(X), there) < 1e-10


def _tensors_in(thing, depth=0):
    if torch.is_tensor(thing) or isinstance(thing, (direct.Driver, Accelerator)):
        return True
    if depth > 5 or isinstance(thing, (str, bytes, type, np.ndarray)):
        return False
    values = thing if isinstance(thing, (list, tuple)) else getattr(thing, "__dict__", {}).values()
    return any(_tensors_in(value, depth + 1) for value in values)


# Tensors


def test_tensors_in_memory_are_arrays():
    X, y = regression(150)
    given = {"n_landmarks": 20, "gamma": 0.3, "C": 1.0, "random_state": 0}
    arrays = ulmus.NKELMRegressor(**given).fit(X, y)
    model = ulmus.NKELMRegressor(**given).fit(torch.from_numpy(X), torch.from_numpy(y), torch.ones(150))
    assert (model.predict(torch.from_numpy(X)) == arrays.predict(X)).all()


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_rows_on_a_device_are_sampled_as_rows_in_memory(kind):
    X = rows(2000, 3).astype(kind)
    X[:300] = X[300:600]
    X[5, 1], X[6] = -0.0, X[5]
    X[6, 1] = 0.0
    weight = np.random.RandomState(0).randint(0, 3, 2000).astype(float)
    view = HostView(torch.from_numpy(X).to(accelerator().device))
    for w in (None, weight):
        for count in (10, 500, 3000):
            here = distinct_rows(X, count, w, np.random.RandomState(1))
            there = distinct_rows(view, count, w, np.random.RandomState(1))
            assert (X[here[0]] == X[there[0]]).all()
            assert (here[1] == there[1]).all()


def test_a_view_of_a_tensor_fits_as_its_array(monkeypatch):
    monkeypatch.setattr("ulmus.models.base.received", lambda X, device: HostView(X) if torch.is_tensor(X) else X)
    X, y = regression(300)
    for kind in (ulmus.NKELMRegressor, ulmus.ELMRegressor, ulmus.KELMRegressor):
        here, there = (
            kind(C=1.0, random_state=0, device=DEVICE).fit(given, y)
            for given in (X, torch.from_numpy(X).to(accelerator().device))
        )
        assert relative_error(there.predict(X), here.predict(X)) < 1e-10
        view = torch.from_numpy(X).to(accelerator().device)
        assert relative_error(there.predict(view), here.predict(X)) < 1e-10
        with pytest.raises(ValueError, match="X has 2 features, but"):
            there.predict(view[:, :2])


# What goes wrong


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "ulmus\[gpu\]"'):
        ulmus.NKELMRegressor(10, device="cuda").fit(*regression(50))


@pytest.mark.skipif(DEVICE == "cuda", reason="there is a GPU")
def test_a_missing_gpu_is_said_to_be_missing():
    with pytest.raises(RuntimeError, match='device="cuda" needs a CUDA GPU, and PyTorch sees none'):
        ulmus.NKELMRegressor(10, device="cuda").fit(*regression(50))
    assert resolve("auto", 1e20) == "cpu"


def test_auto_stays_on_the_cpu_for_small_fits(monkeypatch):
    monkeypatch.setattr(accelerators, "import_torch", lambda: pytest.fail("PyTorch was asked for"))
    assert resolve("auto", accelerators.WORTH_IT / 2) == "cpu"
    ulmus.NKELMRegressor(10, device="auto").fit(*regression(50))


def test_a_tensor_elsewhere_says_where_it_should_be():
    X = torch.empty((50, 3), device="meta")
    with pytest.raises(ValueError, match=r"X is a tensor on 'meta' and the model has device='cpu'; .* X\.cpu\(\)"):
        ulmus.NKELMRegressor(10).fit(X, np.zeros(50))


@pytest.mark.parametrize("route", ["direct", "iterative"])
def test_too_little_memory_is_said_before_anything_is_allocated(monkeypatch, route):
    monkeypatch.setattr(Accelerator, "free_bytes", lambda self: 2**29)
    with pytest.raises(MemoryError, match=r"needs \d+\.\d GiB on the .* device and 0\.5 GiB are free; .*(fewer|fit)"):
        ulmus.NKELMRegressor(30, gamma=0.3, C=1.0, device=DEVICE, solver=route).fit(*regression(100))
    with pytest.raises(MemoryError, match=r"exact kernel model of 100 rows needs .* rows would fit; use the NKELM"):
        ulmus.KELMRegressor(gamma=0.3, C=1.0, device=DEVICE).fit(*regression(100))


def test_memory_that_runs_out_on_the_way_is_an_error_that_says_so(monkeypatch):
    def fail(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nMore lines.")

    monkeypatch.setattr(direct, "gram_statistics", fail)
    with pytest.raises(MemoryError, match=r"ran out of memory: CUDA out of memory\. Tried to allocate 20\.00 GiB\. O"):
        ulmus.NKELMRegressor(30, gamma=0.3, C=1.0, device=DEVICE).fit(*regression(100))


def test_what_is_not_finite_on_the_device_is_an_error():
    X, y = regression(100)
    spoiled = torch.from_numpy(X).clone()
    spoiled[3, 1] = float("nan")
    with pytest.raises(ValueError, match="contains NaN or infinity"):
        tensors.checked(HostView(spoiled))
    a = accelerator()
    cross = CrossKernel("linear", X[:5].copy(), KernelParameters())
    with pytest.raises(ValueError, match="the sums over the rows are not finite on the device"):
        gram_statistics(map_on(a, cross), 5, DeviceRows(a, Rows(spoiled.numpy(), y[:, None])))
    with pytest.raises(ValueError, match="kernel values overflow on the device"):
        on_device_transformed(CrossKernel("rbf", X[:5].copy(), KernelParameters(1.0)), X * 1e200)


def test_nothing_is_left_on_the_device_after_a_fit_or_an_error(monkeypatch):
    before = _alive()
    X, y = regression(200)
    model = ulmus.NKELMRegressor(30, gamma=0.3, device=DEVICE, random_state=0).fit(X, y)
    assert model.route_ == f"gram float64 {DEVICE}"
    monkeypatch.setattr(direct.DeviceNormalEquations, "solution", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ulmus.NKELMRegressor(30, gamma=0.3, device=DEVICE, random_state=0).fit(X, y)
    if DEVICE != "cuda":
        del model  # its arrays are views of tensors in memory
    assert _alive() == before


def _alive():
    gc.collect()
    if DEVICE == "cuda":
        return torch.cuda.memory_allocated()
    return sum(1 for thing in gc.get_objects() if type(thing) is torch.Tensor)
