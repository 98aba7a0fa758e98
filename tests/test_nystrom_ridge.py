"""All routes of the Nyström ridge lead to the same predictions, and keep their digits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import reference
from data import regression, relative_error, rows
from fixed import NKELMRegressor
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers import nystrom_ridge
from ulmus.solvers.nystrom_ridge import ROUTES, SAFEST, choose_route, fit_nystrom_ridge
from ulmus.solvers.ridge import DOUBLE

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

#: γ that makes the kernel matrix of the 40 landmarks as ill-conditioned as each line of the float64 table expects.
LADDER = {8.0: (0, 1e5, "gram float64"), 0.2: (1e5, 1e8, "gram float64"), 0.03: (1e8, np.inf, "whiten float64")}


def problem(dtype=np.float64, n=300, L=40):
    X, T = regression(n, outputs=2)
    X = X.astype(dtype)
    return X, T, X[:L], rows(50, 3, seed=9).astype(dtype)


@cache
def landmark_kernels(kernel, gamma, dtype):
    X, _, Z, Q = problem(dtype)
    return tuple(reference.kernel_matrix(kernel, A, Z, gamma) for A in (X, Z, Q))


def expected(T, gamma, C, weight=None, fit_intercept=False, kernel="rbf", dtype=np.float64):
    """Predictions of the dense formula for the queries of ``problem``."""
    K_xz, K_zz, K_qz = landmark_kernels(kernel, gamma, dtype)
    W, beta, b = reference.nkelm(K_xz, K_zz, T, C, weight, fit_intercept)
    return K_qz @ W @ beta + b


# -------------------------------------------------------------------------------------- the table, and what it says


@pytest.mark.parametrize("gamma", LADDER)
def test_each_line_of_the_float64_table_is_reached(gamma):
    X, T, Z, _ = problem()
    low, high, name = LADDER[gamma]
    model = NKELMRegressor(gamma=gamma, C=16.0, landmarks=Z).fit(X, T)
    assert low <= model.map_.condition_ <= high
    assert model.route_ == str(choose_route("float64", model.map_.condition_)) == name


def test_condition_number_is_that_of_the_landmark_kernel():
    _, _, Z, _ = problem()
    for gamma in (8.0, 0.7, 0.2):
        K = reference.kernel_matrix("rbf", Z, Z, gamma)
        assert NystromMap(gamma=gamma, landmarks=Z).fit(Z).condition_ == pytest.approx(np.linalg.cond(K), rel=0.2)


def test_eigenvector_whitening_is_never_squared_first():
    for dtype in ("float32", "float64"):
        for condition in (1.0, 1e6, 1e20):
            assert choose_route(dtype, condition, triangular=False).name == "whiten"


def test_single_precision_is_never_chosen_for_double_rows():
    for condition in (1.0, 1e6, 1e12, np.inf):
        assert choose_route("float64", condition).precision.dtype == np.float64


# ----------------------------------------------------------------------------------------- every route, same answer


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("line", ROUTES, ids=lambda line: f"{line[0]} rows {line[1]:.0e} {line[2]}")
def test_every_route_reproduces_the_dense_formula_up_to_its_limit(monkeypatch, line, weighted, fit_intercept):
    row_type, limit, route = line
    dtype = np.dtype(row_type).type
    X, T, Z, Q = problem(dtype)
    weight = np.random.RandomState(3).uniform(0.2, 3.0, len(X)) if weighted else None
    # what the tolerance of the route promises for fitted values, times ten for new rows
    tolerance = 10 * route.precision.tolerance if row_type == "float32" else 1e-8
    monkeypatch.setattr(nystrom_ridge, "choose_route", lambda *_, **__: route)
    maps = (NystromMap(gamma=gamma, landmarks=Z).fit(X) for gamma in (8.0, 2.0, 0.55, 0.3, 0.2, 0.15, 0.1, 0.03))
    mild, *_, hard = (phi for phi in maps if phi.condition_ <= limit)
    for phi in (mild, hard):
        for C in (1.0, 2.0**10):
            solution = fit_nystrom_ridge(phi, Rows(X, T, weight), C, fit_intercept=fit_intercept)
            assert solution.form == str(route)
            actual = phi.transform(Q.astype(np.float64)) @ solution.beta + solution.intercept
            truth = expected(T, phi.gamma, C, weight, fit_intercept, dtype=dtype)
            assert relative_error(actual, truth) < tolerance


@pytest.mark.parametrize("rank", [None, 15])
def test_triangular_form_is_the_last_resort_and_agrees(monkeypatch, rank):
    X, T, Z, Q = problem()
    monkeypatch.setattr(nystrom_ridge, "fit_gram", lambda *_: None)
    model = NKELMRegressor(gamma=0.7, C=1024.0, landmarks=Z, rank=rank).fit(X, T)
    assert model.route_ == "triangular"
    monkeypatch.undo()
    other = NKELMRegressor(gamma=0.7, C=1024.0, landmarks=Z, rank=rank).fit(X, T)
    assert other.route_ != "triangular"
    assert relative_error(model.predict(Q), other.predict(Q)) < 1e-9


def test_dual_form_serves_fewer_rows_than_landmarks():
    X, T, Z, Q = problem()
    X, T = X[:15], T[:15]
    model = NKELMRegressor(gamma=0.7, C=64.0, landmarks=Z).fit(X, T)
    assert model.route_ == "dual"
    K_xz, K_zz, K_qz = landmark_kernels("rbf", 0.7, np.float64)
    W, beta, _ = reference.nkelm(K_xz[:15], K_zz, T, 64.0)
    assert relative_error(model.predict(Q), K_qz @ W @ beta) < 1e-9


def test_a_route_that_cannot_keep_the_digits_hands_over(monkeypatch):
    X, T, Z, Q = problem()
    hopeless = replace(ROUTES[-3][2], precision=replace(DOUBLE, give_up=0.0))
    monkeypatch.setattr(nystrom_ridge, "choose_route", lambda *_, **__: hopeless)
    model = NKELMRegressor(gamma=0.7, C=64.0, landmarks=Z).fit(X, T)
    assert model.route_ == str(SAFEST)
    assert relative_error(model.predict(Q), expected(T, 0.7, 64.0)) < 1e-9


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rank_reproduces_the_dense_formula(fit_intercept):
    X, T, Z, Q = problem()
    K_xz, K_zz, K_qz = landmark_kernels("rbf", 0.7, np.float64)
    for rank in (1, 10, 40, 1000):
        W, beta, b = reference.nkelm(K_xz, K_zz, T, 64.0, fit_intercept=fit_intercept, rank=rank)
        model = NKELMRegressor(gamma=0.7, C=64.0, landmarks=Z, rank=rank, fit_intercept=fit_intercept).fit(X, T)
        assert relative_error(model.predict(Q), K_qz @ W @ beta + b) < 1e-8


# ------------------------------------------------------------------------------------------------------ the digits

CASES = [
    ("rbf", 1.0),
    ("rbf", 8.0),
    ("laplacian", 0.1),
    ("laplacian", 2.0),
    ("laplacian_l1", 0.3),
    ("matern32", 0.1),
    ("matern32", 1.0),
    ("poly", 0.3),
    ("arcsine", 0.5),
    ("cosine", 1.0),
    ("linear", 1.0),
]


@pytest.mark.parametrize(("kernel", "gamma"), CASES)
@pytest.mark.parametrize("C", [2.0**-5, 1.0, 2.0**10, 2.0**20])
def test_predictions_agree_with_the_dense_reference_to_eight_digits(kernel, gamma, C):
    X, T, Z, Q = problem()
    for fit_intercept in (False, True):
        options = {"kernel": kernel, "gamma": gamma, "C": C, "fit_intercept": fit_intercept}
        model = NKELMRegressor(landmarks=Z, **options).fit(X, T)
        truth = expected(T, gamma, C, fit_intercept=fit_intercept, kernel=kernel)
        assert relative_error(model.predict(Q), truth) < 1e-8


@pytest.mark.parametrize("gamma", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("C", [1.0, 2.0**10, 2.0**20])
def test_smooth_kernels_are_as_exact_as_float64_allows(gamma, C):
    """Where K_zz is singular in float64, round-off of κ times C is in every answer: the formula in 60 digits is judge.

    Nobody who starts from float64 kernel values comes closer than the dense reference does, give or take; the library
    has to come as close, or within 1e-8.
    """
    X, T = regression(60, m=2)
    Z, Q = X[:25], 0.5 * rows(10, 2, seed=9)
    exact = reference.exact_nkelm(X, Z, Q, T, gamma, C)
    K_xz, K_zz, K_qz = (reference.kernel_matrix("rbf", A, Z, gamma) for A in (X, Z, Q))
    W, beta, _ = reference.nkelm(K_xz, K_zz, T, C)
    attainable = relative_error((K_qz @ W @ beta)[:, 0], exact)
    actual = NKELMRegressor(gamma=gamma, C=C, landmarks=Z).fit(X, T).predict(Q)
    assert relative_error(actual, exact) < max(1e-8, 2 * attainable)


def test_round_off_of_whitened_sums_is_counted_where_a_large_penalty_is_to_multiply_it():
    """Landmarks far from most rows: K_zz is sound and so is the system, but the sum of squares is not."""
    from_sums = 0
    for seed in range(60):
        rng = np.random.RandomState(seed)
        X = rng.uniform(-1, 1) + 10 ** rng.uniform(-4, 0) * rng.normal(size=(60, 1))
        T = np.sin(5 * X) + 0.1 * rng.normal(size=X.shape)
        Z = rng.uniform(-1, 1, size=(3, 1))
        features = NystromMap(landmarks=Z, gamma=10 ** rng.uniform(-2, 0)).fit(X)
        if features.condition_ > 1e5:
            continue
        C = 10 ** rng.uniform(2, 8)
        found = fit_nystrom_ridge(features, Rows(X, T), C, n_jobs=1)
        from_sums += found.form == "gram float64"
        F = features.transform(X)
        exact, _ = reference.ridge(F, T, C)
        # what is estimated to be below it is left as it is
        assert np.abs(F @ (found.beta - exact)).max() < DOUBLE.correct * np.abs(T).max()
    assert from_sums > 20
