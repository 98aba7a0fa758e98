"""Conjugate gradients, their preconditioner, the iterative route on the CPU, and the table of routes."""

import numpy as np
import pytest

from data import classification, regression, relative_error
from ulmus import NKELMClassifier, NKELMRegressor, NumericalWarning
from ulmus.devices.routes import RATES, choose_route, direct_bytes, estimates, iterative_bytes, largest
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, gram_matrix
from ulmus.solvers.conjugate_gradients import conjugate_gradients
from ulmus.solvers.nystrom_iterative import HostNormal, LandmarkTriangles

GIVEN = {"n_landmarks": 60, "gamma": 0.3, "C": 1.0, "random_state": 0}


def dense_system(kernel="matern32", gamma=0.3, n=600, L=60, C=1.0, weight=None, outputs=1):
    """A problem with its normal equations written out."""
    X, T = regression(n, outputs=outputs)
    T = T.reshape(n, -1)
    cross = CrossKernel(kernel, X[:L].copy(), KernelParameters(gamma))
    K = np.empty((n, L))
    cross.transform_block(X, K)
    w = np.ones(n) if weight is None else weight
    H = K.T @ (w[:, None] * K) + gram_matrix(kernel, X[:L], KernelParameters(gamma)) / C
    return cross, Rows(X, T, weight), H, K.T @ (w[:, None] * T)


def test_the_preconditioner_is_its_formula_in_one_matrix():
    cross, _, _, _ = dense_system()
    Kzz = gram_matrix("matern32", cross.Z, cross.parameters)
    triangles = LandmarkTriangles(cross, 7.0, 3.0)
    M = 7.0 * Kzz @ Kzz + Kzz / 3.0
    B = np.random.RandomState(0).normal(size=(60, 3))
    assert relative_error(M @ triangles.solve(B), B) < 1e-9
    half = triangles.half(B)
    assert relative_error((half**2).sum(axis=0), np.einsum("ij,ij->j", B, np.linalg.solve(M, B))) < 1e-9
    arrays = [v for v in vars(triangles).values() if isinstance(v, np.ndarray) and v.ndim == 2]
    assert [a.shape for a in arrays] == [(60, 60)]


@pytest.mark.parametrize("outputs", [1, 3])
def test_it_solves_the_normal_equations_of_every_output(outputs):
    weight = np.random.RandomState(1).randint(1, 4, 600).astype(float)
    cross, rows, H, b = dense_system(weight=weight, outputs=outputs)
    found, intercept = HostNormal(cross, rows, 1.0).solve(1e-9, 300)
    assert found.converged
    assert relative_error(found.a, np.linalg.solve(H, b)) < 1e-6
    assert not intercept.any()


def test_the_reported_residual_is_the_true_one():
    cross, rows, H, b = dense_system()
    system = HostNormal(cross, rows, 1.0)
    found, _ = system.solve(1e-5, 300)
    M = 600 / 60 * np.linalg.matrix_power(gram_matrix("matern32", cross.Z, cross.parameters), 2)
    M += gram_matrix("matern32", cross.Z, cross.parameters)

    def norm(r):
        return float(np.sqrt(np.sum(r * np.linalg.solve(M, r))))

    assert found.residual == pytest.approx(norm(b - H @ found.a) / norm(b), rel=1e-3)
    assert found.residual <= 1e-5


def test_float32_products_do_not_degrade_when_run_ten_times_longer():
    cross, rows, _, _ = dense_system("rbf", 0.1)
    system = HostNormal(cross, rows, 1.0)
    system.widen = lambda: False
    short = conjugate_gradients(system, tolerance=1e-15, max_iter=30)
    long = conjugate_gradients(system, tolerance=1e-15, max_iter=300)
    assert long.residual <= short.residual < 0.5
    assert min(long.history) > 0


def test_products_that_lose_their_digits_are_taken_in_float64():
    cross, rows, _, _ = dense_system("rbf", 0.02)
    system = HostNormal(cross, rows, 1.0)
    found, _ = system.solve(1e-6, 300)
    assert system.dtype == np.float64
    assert found.converged


def test_what_did_not_converge_says_so_with_the_number():
    X, y = regression(400)
    with pytest.warns(NumericalWarning, match=r"after 2 iterations at a relative residual of \d\.\de-\d+, above"):
        model = NKELMRegressor(**GIVEN, solver="iterative", max_iter=2).fit(X, y)
    assert model.n_iter_ == 2
    assert model.residual_ > 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32"])
def test_both_routes_give_the_same_model(kernel, fit_intercept):
    X, y = regression(500)
    given = {**GIVEN, "kernel": kernel, "fit_intercept": fit_intercept}
    direct = NKELMRegressor(**given, solver="direct").fit(X, y + 3)
    iterative = NKELMRegressor(**given, solver="iterative", tol=1e-9).fit(X, y + 3)
    assert iterative.route_ == "iterative cpu"
    assert iterative.n_landmarks_ == 60
    assert relative_error(iterative.predict(X), direct.predict(X)) < 1e-6
    lengths = [np.diff(m.predict_interval(X, 0.8), axis=1) for m in (direct, iterative)]
    assert np.median(lengths[1] / lengths[0]) == pytest.approx(1.0, abs=0.1)  # leverages are estimates there


def test_weights_are_repetitions_on_the_iterative_route():
    X, y = regression(300)
    weight = np.random.RandomState(2).randint(1, 3, 300)
    given = {**GIVEN, "solver": "iterative", "tol": 1e-9}
    weighted = NKELMRegressor(**given).fit(X, y, sample_weight=weight)
    repeated = NKELMRegressor(**given).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert relative_error(weighted.predict(X), repeated.predict(X)) < 1e-6


def test_classifiers_iterate_too():
    X, y = classification(400)
    direct, iterative = (
        NKELMClassifier(**GIVEN, solver=solver, tol=1e-8).fit(X, y) for solver in ("direct", "iterative")
    )
    assert relative_error(iterative.decision_function(X), direct.decision_function(X)) < 1e-6
    assert relative_error(iterative.predict_proba(X), direct.predict_proba(X)) < 0.05


def test_parameters_are_chosen_on_fewer_landmarks_when_all_are_too_many():
    X, y = regression(500)
    model = NKELMRegressor(100, max_landmarks=40, solver="iterative", random_state=0).fit(X, y)
    assert {trial.size for trial in model.tuning_.trials if trial.stage == "C"} == {40}
    assert model.landmark_weights_.shape == (100, 1)
    assert model.score(X, y) > 0.95


def test_the_residual_kernel_of_an_iterative_model_is_on_the_safe_side(monkeypatch):
    monkeypatch.setattr("ulmus.models.iterative.COMPANION", 20)
    X, y = regression(300)
    direct, iterative = (NKELMRegressor(**GIVEN, solver=solver).fit(X, y) for solver in ("direct", "iterative"))
    assert (iterative.residual_kernel(X) >= direct.residual_kernel(X) - 1e-12).all()
    assert np.isfinite(iterative.predict(X, return_std=True)[1]).all()
    with pytest.raises(ValueError, match="error_bound needs the direct route"):
        iterative.error_bound(X)


@pytest.mark.parametrize("bad", [{"n_landmarks": 500}, {"rank": 5}, {"kernel": "sigmoid"}, {"n_landmarks": "auto"}])
def test_the_iterative_route_says_what_it_needs(bad):
    X, y = regression(100)
    with pytest.raises(ValueError, match='solver="iterative" needs'):
        NKELMRegressor(**{**GIVEN, "solver": "iterative", **bad}).fit(X, y)


# Routes


def test_the_table_takes_the_faster_route_that_fits():
    for device in RATES:
        for n in (10**4, 10**6, 10**8):
            for L in (500, 5_000, 50_000):
                plans = estimates(n, L, 1, device)
                chosen = choose_route(n, L, 1, device)
                fastest = min(plans.values(), key=lambda plan: plan.seconds)
                assert chosen.route == ("direct" if L <= 2048 else fastest.route)
                assert chosen.reason


def test_few_landmarks_and_a_path_go_the_direct_way():
    assert choose_route(10**9, 1_000, device="cuda").route == "direct"
    assert choose_route(10**7, 10_000, device="cuda").route == "iterative"
    assert choose_route(10**7, 10_000, device="cuda", path=True).route == "direct"
    assert choose_route(10**9, 10_000, device="cuda", path=True).route == "iterative"  # half an hour is too long


def test_memory_decides_before_anything_is_allocated():
    between = (direct_bytes(30_000) + iterative_bytes(30_000)) / 2
    assert choose_route(10**6, 30_000, device="cuda", memory=between, path=True).route == "iterative"
    with pytest.raises(MemoryError, match=r"30000 landmarks need .* GiB on the CUDA device .* landmarks would fit"):
        choose_route(10**6, 30_000, device="cuda", memory=2**32)
    assert choose_route(1_000, 50, memory=2**29).route == "direct"  # few landmarks need no gibibytes
    for memory in (2**33, 2**36):
        assert iterative_bytes(largest(memory)) <= memory < iterative_bytes(largest(memory) + 100)
