"""Adaptive models on a device: partitions, leaves, the log loss, and whole fits, beside the CPU's."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ulmus
from data import relative_error
from gpu import DEVICE, accelerator, torch
from ulmus.backend import Host
from ulmus.codings import Plain
from ulmus.devices import (
    differences,
    inverses,
    leaf_batches,
    log_leaves,
    softmax,
    trials,
    triton_directions,
    triton_moments,
)
from ulmus.devices.direct import Driver
from ulmus.devices.inverses import Inverses
from ulmus.devices.leaves import answers, leaves_of
from ulmus.devices.partition import DeviceLevel
from ulmus.engine import Rows
from ulmus.features import kept
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import grown, random_partition
from ulmus.models import _global, _log_stage
from ulmus.models._effort import EFFORTS
from ulmus.solvers import local
from ulmus.solvers.cells import CellSolver
from ulmus.solvers.local import LeafProblem
from ulmus.solvers.softmax import LogProblem, fit_softmax
from ulmus.tuning.leaf_metric import HostCut, LeafMetric, tasks_of
from ulmus.tuning.local import LOG, SQUARES, LocalChoice, LocalSearch, Remainder

LEAF_KERNELS = ("laplacian_l1", "matern32", "rbf", "laplacian")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    """Several leaves in a batch, and several batches."""
    monkeypatch.setattr(leaf_batches, "BATCH_BYTES", 8 * 4 * 60**2)


def plain(rng, n, d):
    return rng.normal(size=(n, d))


def levels(rng, n, d):
    return rng.randint(0, 4, (n, d)).astype(float)


def mostly_zero(rng, n, d):
    return np.where(rng.uniform(size=(n, d)) < 0.9, 0.0, rng.normal(size=(n, d)))


def equal(rng, n, d):
    return np.ones((n, d))


@pytest.mark.parametrize("rows", [plain, levels, mostly_zero, equal], ids=lambda rows: rows.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_partitions_have_the_cuts_of_the_cpu(rows, seed):
    rng = np.random.RandomState(seed)
    U, size = rows(rng, rng.randint(1, 900), rng.randint(1, 5)), rng.randint(1, 100)
    here = random_partition(U, size, np.random.RandomState(seed))
    there = grown(DeviceLevel.root(accelerator(), accelerator().tensor(U)), size, np.random.RandomState(seed))
    for name in ("feature", "children", "starts"):
        assert_array_equal(getattr(here, name), getattr(there, name))
    assert_allclose(there.threshold, here.threshold, rtol=1e-12, atol=1e-14)
    for leaf in range(here.n_leaves):
        assert_array_equal(np.sort(here.rows(leaf)), np.sort(there.rows(leaf)))
    queries = rows(rng, 200, U.shape[1])
    assert_array_equal(leaves_of(accelerator(), here, accelerator().tensor(queries)).cpu(), here.leaves(queries))


@pytest.mark.parametrize("rows", [plain, levels, mostly_zero, equal], ids=lambda rows: rows.__name__)
@pytest.mark.parametrize("fused", [False, True])
def test_deviations_of_nodes_are_those_of_numpy(monkeypatch, rows, fused):
    monkeypatch.setattr(triton_moments, "ROWS", 16)
    rng = np.random.RandomState(0)
    U, sizes = rows(rng, 90, 3), np.array([40, 1, 30, 19])
    order = rng.permutation(90)
    a = accelerator()
    level = DeviceLevel(a, a.tensor(U.T.copy()), a.tensor(order, a.torch.int64), sizes)
    nodes = np.array([0, 1, 3])
    expected = np.array([U[part].std(axis=0) for part in np.split(order, np.cumsum(sizes)[:-1])])[nodes]
    found = level.deviations(nodes, fused=fused)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert_array_equal(
        found == 0,
        [[len(np.unique(U[part, j])) == 1 for j in range(3)] for part in (order[:40], order[40:41], order[71:])],
    )


@pytest.mark.parametrize("kernel", LEAF_KERNELS)
@pytest.mark.parametrize("fused", [False, True])
def test_batched_kernel_values_are_those_of_the_formula(kernel, fused):
    a, rng = accelerator(), np.random.RandomState(0)
    A, B = rng.normal(size=(3, 5, 70)), rng.normal(size=(3, 5, 90))
    found = differences.values(a, kernel, a.tensor(A), a.tensor(B), fused=fused).cpu().numpy()
    D = A[:, :, :, None] - B[:, :, None, :]
    r = np.abs(D).sum(1) if kernel == "laplacian_l1" else np.sqrt((D**2).sum(1))
    formula = {"rbf": np.exp(-(r**2)), "matern32": (1 + r) * np.exp(-r)}.get(kernel, np.exp(-r))
    assert_allclose(found, formula, rtol=1e-12, atol=1e-300)


def stage(seed=0, n=600, outputs=2, size=60):
    rng = np.random.RandomState(seed)
    U, R, weight = rng.normal(size=(n, 3)), rng.normal(size=(n, outputs)), rng.uniform(0.5, 3, n)
    return rng, U, R, weight, tuple(random_partition(U, size, rng) for _ in range(2))


@pytest.mark.parametrize("kernel", LEAF_KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_have_the_weights_of_the_cpu(kernel, weighted):
    _, U, R, weight, partitions = stage()
    weight = weight if weighted else None
    here = local.fit_leaves(LeafProblem(kernel, 0.7, 0.01, U, R, weight, partitions))
    there = Driver(accelerator()).fit_leaves(LeafProblem(kernel, 0.7, 0.01, U, R, weight, partitions))
    assert max(map(relative_error, there, here)) < 1e-10


def test_a_leaf_without_a_factor_gets_a_larger_penalty():
    _, U, R, _, partitions = stage()
    U[::2] = U[1::2]
    (there, _) = Driver(accelerator()).fit_leaves(LeafProblem("rbf", 1e-4, 1e-18, U, R, None, partitions))
    assert np.isfinite(there).all()


@pytest.mark.parametrize("panel", [7, 128])
def test_panels_of_factors_solve_as_one(monkeypatch, panel):
    monkeypatch.setattr(leaf_batches, "PANEL", panel)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(3, 50, 60, generator=generator, dtype=torch.float64)
    A, B = A @ A.transpose(1, 2), torch.randn(3, 50, 2, generator=generator, dtype=torch.float64)
    found = leaf_batches.Factors(torch, torch.linalg.cholesky(A)).solve(B)
    assert_allclose(found, torch.linalg.solve(A, B), rtol=1e-9)


@pytest.mark.parametrize("queries", [1, 40, 3000])
def test_queries_are_answered_as_by_the_cpu(monkeypatch, queries):
    monkeypatch.setattr("ulmus.devices.leaves.QUERIES", 50)
    rng, U, R, _, partitions = stage()
    for kernel in ("laplacian_l1", "matern32"):
        alphas = tuple(local.fit_leaves(LeafProblem(kernel, 0.7, 0.1, U, R, None, partitions)))
        found = local.LocalKernels(kernel, 0.7, U, partitions, alphas)
        Q, a = rng.normal(size=(queries, 3)), accelerator()
        assert relative_error(answers(a, found, a.tensor(U), a.tensor(Q)), found.predict(Q)) < 1e-10


def codes(U, n_classes, rng):
    label = np.digitize(U[:, 0] + rng.normal(size=len(U)), [0.0] if n_classes == 2 else [-0.5, 0.5])
    return (2.0 * label - 1)[:, None] if n_classes == 2 else 2.0 * np.eye(3)[label] - 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("steps", [1, 40])
def test_leaves_of_the_log_loss_have_the_weights_of_the_cpu(monkeypatch, n_classes, weighted, steps):
    """After one step no leaf has arrived: then they are solved on the CPU."""
    monkeypatch.setattr(log_leaves, "MAX_STEPS", steps)
    rng, U, _, weight, partitions = stage(n=300)
    T = codes(U, n_classes, rng)
    offset = 0.5 * rng.normal(size=T.shape)
    weight = weight if weighted else None
    here = local.fit_leaves(LeafProblem("matern32", 0.7, 0.1, U, T, weight, partitions, offset), tol=1e-14)
    there = Driver(accelerator()).fit_leaves(LeafProblem("matern32", 0.7, 0.1, U, T, weight, partitions, offset), 1e-14)
    assert max(map(relative_error, there, here)) < 1e-6


def test_leaves_that_begin_near_their_minimum_arrive_sooner(monkeypatch):
    made = []

    class Counted(Inverses):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(log_leaves, "Inverses", Counted)
    monkeypatch.setattr(log_leaves, "RENEWED", 0)  # every step makes its own
    rng, U, _, weight, (partition, _) = stage(n=300)
    T, a = codes(U, 3, rng), accelerator()
    rows, inside = leaf_batches.padded([partition.rows(leaf) for leaf in range(partition.n_leaves)])
    there, sizes = a.tensor(inside, torch.bool), inside.sum(axis=1)
    X = leaf_batches.scaled_columns(torch, a.tensor(U[rows]), there, 0.7)
    Y, offset = a.tensor(0.5 + 0.5 * T[rows]), a.tensor(0.3 * rng.normal(size=T[rows].shape))
    w = a.tensor(np.where(inside, weight[rows], 0.0))
    given = (a, "laplacian_l1", X, Y, offset, w, sizes, 0.1, 1e-10)
    alpha, image, arrived = log_leaves.log_minimum(*given)
    far, made[:] = len(made), []
    again, same, _ = log_leaves.log_minimum(*given, near=offset + image + 0.01)
    assert bool(arrived.all())
    assert len(made) < far
    for found, expected in ((again, alpha), (same, image)):
        assert relative_error(a.numpy(found[there]), a.numpy(expected[there])) < 1e-4
    K = a.numpy(differences.values(a, "laplacian_l1", X, X))
    assert_allclose(a.numpy(same[there]), (K @ a.numpy(again))[inside], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fused_leaves_of_the_log_loss_have_the_weights_of_the_cpu(monkeypatch, n_classes):
    monkeypatch.setattr(log_leaves, "Inverses", partial(Inverses, fused=True))
    monkeypatch.setattr(triton_directions, "ROWS", 16)
    rng, U, _, weight, partitions = stage(n=30, size=20)
    T = codes(U, n_classes, rng)
    offset = 0.5 * rng.normal(size=T.shape)
    here = local.fit_leaves(LeafProblem("matern32", 0.7, 0.1, U, T, weight, partitions, offset), tol=1e-14)
    there = Driver(accelerator()).fit_leaves(LeafProblem("matern32", 0.7, 0.1, U, T, weight, partitions, offset), 1e-14)
    assert max(map(relative_error, there, here)) < 1e-6


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 18])
def test_inverses_of_many_orders_are_those_of_each(monkeypatch, fused, columns):
    monkeypatch.setattr(inverses, "FEW", 2)
    monkeypatch.setattr(leaf_batches, "PANEL", 7)
    rng, sizes, a = np.random.RandomState(0), np.array([40, 39, 20, 19, 18, 5, 1]), accelerator()
    A = rng.normal(size=(7, 40, 60))
    A = A @ A.transpose(0, 2, 1)
    for matrix, n in zip(A, sizes, strict=True):
        matrix[n:], matrix[:, n:] = 0.0, 0.0
        matrix[np.arange(n, 40), np.arange(n, 40)] = 1.0

    def factors(some, n):
        return torch.linalg.cholesky(a.tensor(A[some, :n, :n]))

    made = Inverses(a, sizes, factors, fused)
    assert len(made.parts) == 3
    V, active = rng.normal(size=(7, 40, columns)), np.array([1, 1, 1, 0, 1, 1, 1], bool)
    expected = np.zeros_like(V)
    for number, n in enumerate(sizes):
        if active[number]:
            expected[number, :n] = np.linalg.solve(A[number, :n, :n], V[number, :n])
            V[number, n:] = 0.0
    some = np.array([1, 3, 5, 6])
    for chosen, which in ((made, np.arange(7)), (made.some(some), some)):
        found = chosen.times(a.tensor(V[which]), a.tensor(active[which], torch.bool)).cpu().numpy()
        assert_allclose(found, expected[which], rtol=1e-9, atol=1e-12)


def centred(F):
    """Scores of several classes may all rise together."""
    return F - F.mean(axis=1, keepdims=True) if F.shape[1] > 1 else F


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_log_loss_has_the_weights_of_the_cpu(monkeypatch, n_classes, fit_intercept):
    monkeypatch.setattr(softmax, "SMALL", 0)
    rng = np.random.RandomState(0)
    X, weight = rng.normal(size=(400, 3)), rng.uniform(0.5, 2, 400)
    rows, driver = Rows(X, codes(X, n_classes, rng), weight), Driver(accelerator())
    features = NystromMap(30, kernel="laplacian_l1", gamma=0.5, random_state=0).fit(X)
    there = replace(driver.log_problem(features, rows, np.inf), C=2.0, fit_intercept=fit_intercept)
    here = LogProblem.nystrom(features, rows, 2.0, fit_intercept=fit_intercept)
    assert isinstance(there, softmax.DeviceLogProblem)
    expected, found = fit_softmax(here, tol=1e-14), fit_softmax(there, tol=1e-14)
    assert relative_error(found.beta, expected.beta) < 1e-6
    assert relative_error(centred(found.F), centred(expected.F)) < 1e-6
    again = fit_softmax(
        there, tol=1e-14, start=np.vstack([found.beta, found.intercept][: 1 + fit_intercept]), gram=found.gram
    )
    assert relative_error(centred(again.F), centred(expected.F)) < 1e-6


def test_many_features_are_in_single_precision_unless_weights_are_to_be_exact(monkeypatch):
    monkeypatch.setattr(softmax, "SMALL", 0)
    monkeypatch.setattr("ulmus.devices.direct.SMALL", 0)
    monkeypatch.setattr(softmax, "MANY", 1_000)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 3))
    rows, driver = Rows(X, codes(X, 3, rng)), Driver(accelerator())
    features = NystromMap(30, kernel="laplacian_l1", gamma=0.5, random_state=0).fit(X)
    many, exact = driver.log_problem(features, rows, np.inf), driver.exact_log_problem(features, rows, 2.0, True)
    assert [problem.rows.X.tensor.dtype for problem in (many, exact)] == [torch.float32, torch.float64]
    single, double = (fit_softmax(replace(problem, C=2.0), tol=1e-10) for problem in (many, exact))
    assert relative_error(single.F, double.F) < 1e-4


def table(n=900):
    """Numbers, a category, some numbers missing, waves that leaves find."""
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.randint(0, 5, n)])
    y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + (X[:, 3] % 3) * np.cos(3 * X[:, 1]) + 0.05 * rng.normal(size=n)
    X[rng.uniform(size=n) < 0.1, 2] = np.nan
    return X, y


def fitted(kind, y, device, trees=False, **given):
    model = getattr(ulmus, kind)(
        effort="fast", categorical_features=[3], device=device, random_state=0, n_jobs=1, **given
    )
    parts = EFFORTS["fast"].tree_parts if trees else 0  # trees are grown on the CPU
    model._plan = replace(
        EFFORTS["fast"], landmarks=60, leaf_rows=150, wide_leaf_rows=150, grows=False, tree_parts=parts
    )
    return model.fit(table()[0][:700], y[:700])


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("AdaptiveRegressor", {}),
        ("AdaptiveClassifier", {"loss": "squared"}),
        ("AdaptiveClassifier", {"loss": "log"}),
        ("AdaptiveOrdinalClassifier", {}),
    ],
    ids=["regressor", "squares", "log", "ordinal"],
)
def test_fits_have_the_predictions_of_the_cpu(monkeypatch, kind, given):
    monkeypatch.setattr(softmax, "SMALL", 0)
    for module, name in ((_log_stage, "LEAF_TOLERANCE"), (_global, "LOG_KEPT")):
        monkeypatch.setattr(module, name, 1e-14)
    monkeypatch.setattr(LocalChoice, "pays", True)
    X, y = table()
    y = y if kind == "AdaptiveRegressor" else np.digitize(y, [0.0, 1.0])
    here, there = (fitted(kind, y, device, **given) for device in ("cpu", DEVICE))
    assert there.local_ is not None
    scores = here._scores_of(X[700:])
    assert relative_error(there._scores_of(X[700:]), scores) < 1e-6
    on_cpu = there.set_params(device="cpu")
    assert relative_error(on_cpu._scores_of(X[700:]), scores) < 1e-6
    for values in (there.beta_, there.intercept_, *there.local_.alphas, there.local_.U, there.map_.whitening_):
        assert type(values) is np.ndarray
    assert_array_equal(fitted(kind, y, DEVICE, **given).local_.alphas[0], there.local_.alphas[0])


@pytest.mark.parametrize("kind", ["AdaptiveRegressor", "AdaptiveClassifier"])
def test_trees_stand_beside_kernels_of_a_device_in_about_the_same_share(kind):
    X, y = table()
    y = y if kind == "AdaptiveRegressor" else np.digitize(y, [0.0, 1.0])
    here, there = (fitted(kind, y, device, trees=True) for device in ("cpu", DEVICE))
    assert here.trees_ is not None
    assert there.tree_weight_ == pytest.approx(here.tree_weight_, abs=2e-3)  # sought to 1e-3
    assert relative_error(there._scores_of(X[700:]), here._scores_of(X[700:])) < 1e-2


def test_groups_and_weights_are_those_of_the_cpu(monkeypatch):
    monkeypatch.setattr(kept, "KEPT_BYTES", 0)  # where kernel values are kept, landmarks stay when their fold leaves
    X, y = table(500)
    rng = np.random.RandomState(1)
    weight, groups = rng.uniform(0.5, 2, 500), rng.randint(0, 9, 500)
    found = []
    for device in ("cpu", DEVICE):
        model = ulmus.AdaptiveRegressor(effort="fast", device=device, random_state=0, n_jobs=1)
        found.append(model.fit(X, y, sample_weight=weight, groups=groups).predict(X, return_std=True))
    for here, there in zip(*found, strict=True):
        assert relative_error(there, here) < 1e-6


@pytest.mark.skipif(DEVICE == "cuda", reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_do():
    X, y = table(100)
    with pytest.raises(RuntimeError, match='device="auto"'):
        ulmus.AdaptiveRegressor(device="cuda").fit(X, y)
    assert ulmus.AdaptiveRegressor(effort="fast", device="auto").fit(X, y).predict(X).shape == (100,)


@pytest.mark.parametrize("by_log", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_are_scored_as_by_the_cpu(monkeypatch, by_log, weighted):
    monkeypatch.setattr(trials, "BATCH_BYTES", 8 * 3 * 60**2)
    rng, U, R, weight, (partition, _) = stage()
    R = codes(U, 3, rng) if by_log else R
    Q = rng.normal(size=(80, 3))
    T, P = (R[:80], 0.3 * rng.normal(size=(80, R.shape[1])))
    offset = 0.3 * rng.normal(size=R.shape)
    data = Remainder(U, R, weight if weighted else None, Q, T, P, None, offset)
    search = LocalSearch("matern32", 0.4, data, Plain.of(T, None), "log_loss" if by_log else "auto", 1, SQUARES)
    search = replace(search, stage=replace(LOG, tolerance=1e-14)) if by_log else search
    monkeypatch.setattr("ulmus.tuning.local.LOG_TOLERANCE", 1e-14)
    here, there = (
        each.leaves(partition, 5) for each in (search, replace(search, trials=Driver(accelerator()).leaf_trials))
    )
    for leaves in (here, there):
        leaves.score(2, [1, 3])
    for key, (loss, found) in here.tried.items():
        assert relative_error(there.tried[key][1], found) < 1e-6
        assert there.tried[key][0] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("tolerance", [None, 1e-6])
def test_cells_of_a_stream_are_solved_as_on_the_cpu(tolerance):
    rng = np.random.RandomState(0)
    U = rng.normal(size=(200, 3))
    T = np.where(rng.uniform(size=(200, 1)) < 0.5, 1.0, -1.0)
    rows = Rows(U, np.hstack([T, 0.3 * rng.normal(size=(200, 1))]), place=np.arange(200))
    solver = CellSolver("matern32", 0.5, 0.1, 60, 0, tolerance)
    here, there = (solver.solve(rows, 0, 0, backend) for backend in (Host(1), Driver(accelerator())))
    assert_array_equal(np.sort(there.numbers), np.sort(here.numbers))
    assert_array_equal(there.partition.starts, here.partition.starts)
    orders = np.argsort(here.numbers), np.argsort(there.numbers)
    assert relative_error(there.alpha[orders[1]], here.alpha[orders[0]]) < (1e-8 if tolerance is None else 1e-2)


def sampled(weighted, n=1_500):
    """Rows with a wave along the second of four columns, some of them equal."""
    rng = np.random.RandomState(3)
    X = rng.normal(size=(n, 4))
    X[::50] = X[1::50]
    T = np.column_stack([np.sin(6 * X[:, 1]) + 0.2 * X[:, 0], X[:, 2] ** 2])
    return Rows(X, T / T.std(axis=0), rng.uniform(0.5, 3, n) if weighted else None)


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32", "rbf"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_that_teach_a_metric_say_what_those_of_the_cpu_say(monkeypatch, kernel, weighted):
    monkeypatch.setattr(leaf_batches, "BATCH_BYTES", 8 * 5 * 6 * 500**2)
    rows, A = sampled(weighted), np.array([1.0, 0.5, 0.7, 0.0])
    here, there = HostCut.of(rows, kernel, A, 5, 1), Driver(accelerator()).metric_cut(rows, kernel, A, 5)
    tasks, same = (tasks_of(cut.partition, rows.X[:9] * A) for cut in (here, there))
    for ours, theirs in zip(tasks, same, strict=True):
        assert_array_equal(np.concatenate(ours), np.concatenate(theirs))
    here, there = (cut.leaves(tasks) for cut in (here, there))
    grid = (0.5, 1.0, 2.0), (1e-3, 1e-1)
    assert there.answers(*grid).shape == (3, 2, sum(len(held) for _, held in tasks), 2)
    assert relative_error(there.answers(*grid), here.answers(*grid)) < 1e-9
    assert relative_error(there.slopes(1.0, 1e-2), here.slopes(1.0, 1e-2)) < 1e-9


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32"])
def test_the_metric_of_leaves_is_that_of_the_cpu(kernel):
    rows, A = sampled(weighted=True, n=3_000), np.array([1.0, 0.3, 1.0, 0.0])
    told_by = (rows, kernel, Plain.of(rows.T, rows.weight), "auto", 0, 1)
    (here, losses), (there, same) = (
        LeafMetric(*told_by, elsewhere).search(A) for elsewhere in (None, Driver(accelerator()).metric_cut)
    )
    assert not np.array_equal(here, A)
    assert_allclose(there, here, rtol=1e-9)
    assert_allclose(same, losses, rtol=1e-9)


def test_equal_rows_teach_no_metric_on_the_device():
    rows = Rows(np.ones((50, 3)), np.arange(50.0)[:, None])
    A = np.ones(3)
    found = LeafMetric(rows, "matern32", Plain(np.ones(1)), "auto", 0, 1, Driver(accelerator()).metric_cut).search(A)
    assert found[0] is A


def test_leaves_teach_the_metric_of_a_fit_where_it_is_fitted(monkeypatch):
    monkeypatch.setattr("ulmus.models._effort.MANY_ROWS", 500)
    X, y = table()
    cut, asked = Driver.metric_cut, []
    monkeypatch.setattr(Driver, "metric_cut", lambda *given: asked.append(1) or cut(*given))
    found = []
    for device in ("cpu", DEVICE):
        model = ulmus.AdaptiveRegressor(categorical_features=[3], device=device, random_state=0, n_jobs=1)
        model._plan = replace(EFFORTS["fast"], landmarks=60, leaf_rows=150, wide_leaf_rows=150, quick=False)
        found.append(model.fit(X[:700], y[:700]).predict(X[700:]))
        assert bool(asked) == (device == DEVICE)
    assert relative_error(found[1], found[0]) < 1e-6
