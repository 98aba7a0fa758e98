"""All routes of the Nyström ridge lead to the same predictions, and keep their digits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import reference
from data import cases, regression, relative_error, rows
from fixed import NKELMRegressor
from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.whitening import PartialWhitening, residual_condition
from ulmus.solvers import nystrom_ridge
from ulmus.solvers.nystrom_ridge import (
    ROUTES,
    SAFEST,
    NystromProblem,
    Route,
    nystrom_statistics,
    partly_whitened,
    route_for,
)
from ulmus.solvers.ridge import DOUBLE, NormalEquations, Problem, fit_gram
from ulmus.solvers.round_off import RoundOff
from ulmus.statistics import Statistics

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

#: γ that makes the kernel matrix of the 40 landmarks as ill-conditioned as each line of the float64 table expects.
LADDER = {8.0: (0, 1e5, "gram float64"), 0.2: (1e5, 1e6, "gram float64"), 0.03: (1e6, np.inf, "partial float64")}


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
    assert model.route_ == str(route_for("float64", model.map_.condition_)) == name


def test_condition_number_is_that_of_the_landmark_kernel():
    _, _, Z, _ = problem()
    for gamma in (8.0, 0.7, 0.2):
        K = reference.kernel_matrix("rbf", Z, Z, gamma)
        assert NystromMap(gamma=gamma, landmarks=Z).fit(Z).condition_ == pytest.approx(np.linalg.cond(K), rel=0.2)


def test_eigenvector_whitening_is_never_squared_first():
    for dtype in ("float32", "float64"):
        for condition in (1.0, 1e6, 1e20):
            assert route_for(dtype, condition, triangular=False).name == "whiten"


def test_single_precision_is_never_chosen_for_double_rows():
    for condition in (1.0, 1e6, 1e12, np.inf):
        assert route_for("float64", condition).precision.dtype == np.float64


# ----------------------------------------------------------------------------------------- every route, same answer


@pytest.mark.parametrize("fit_intercept", cases([False, True], True))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("line", ROUTES, ids=lambda line: f"{line[0]} rows {line[1]:.0e} {line[2]}")
def test_every_route_reproduces_the_dense_formula_up_to_its_limit(monkeypatch, line, weighted, fit_intercept):
    row_type, limit, route = line
    dtype = np.dtype(row_type).type
    X, T, Z, Q = problem(dtype)
    weight = np.random.RandomState(3).uniform(0.2, 3.0, len(X)) if weighted else None
    # what the tolerance of the route promises for fitted values, times ten for new rows
    tolerance = 10 * route.precision.tolerance if row_type == "float32" else 1e-8
    monkeypatch.setattr(nystrom_ridge, "route_for", lambda *_, **__: route)
    maps = (NystromMap(gamma=g, landmarks=Z).fit(X) for g in (8.0, 2.0, 0.55, 0.3, 0.2, 0.16, 0.15, 0.1, 0.03))
    mild, *_, hard = (phi for phi in maps if phi.condition_ <= limit)
    for phi in (mild, hard):
        for C in (1.0, 2.0**10):
            solution = NystromProblem(phi, Rows(X, T, weight), C, fit_intercept=fit_intercept).solve()
            assert solution.form == str(route)
            actual = phi.transform(Q.astype(np.float64)) @ solution.beta + solution.intercept
            truth = expected(T, phi.gamma, C, weight, fit_intercept, dtype=dtype)
            assert relative_error(actual, truth) < tolerance


def test_partly_whitened_rows_are_white_but_for_the_factor_that_is_left():
    X, _, Z, _ = problem()
    phi = NystromMap(gamma=0.1, landmarks=Z).fit(X)
    for leading in (1, 7, 39):
        partial = PartialWhitening.of(phi.cross_kernel_, phi.whitening_, leading)
        E = np.empty((len(X), 40))
        partial.transform_block(X, E)
        F = phi.transform(X)
        np.testing.assert_allclose(E[:, :leading], F[:, :leading], atol=1e-13)
        np.testing.assert_allclose(np.linalg.solve(partial.remaining, E.T).T, F, atol=1e-9)
        K = landmark_kernels("rbf", 0.1, np.float64)[1]
        rest = (K - K[:, :leading] @ np.linalg.solve(K[:leading, :leading], K[:leading]))[leading:, leading:]
        unit = np.sqrt(np.diag(rest))
        truth = np.linalg.cond(rest / np.outer(unit, unit))
        assert truth / 3 < partial.condition <= 1.01 * truth


def test_as_few_features_are_whitened_first_as_leave_a_sound_rest(monkeypatch):
    X, _, Z, _ = problem()
    phi = NystromMap(gamma=0.03, landmarks=Z).fit(X)
    counts = sorted({int(share * 40) for share in nystrom_ridge.LEADING} - {0})
    conditions = [residual_condition(phi.whitening_, count) for count in counts]
    assert conditions == sorted(conditions, reverse=True)
    for sound, limit, chosen in (
        (1.1 * conditions[1], np.inf, counts[1]),
        (0.9 * conditions[-1], 1.1 * conditions[2], counts[2]),
        (0.9 * conditions[-1], 1.1 * conditions[0], counts[0]),
    ):
        assert len(partly_whitened(phi, sound, limit).R11) == chosen
    assert partly_whitened(phi, 0.9 * conditions[-1], 0.9 * conditions[-1]) is None


def test_fewer_features_are_whitened_first_where_a_correction_is_less_work(monkeypatch):
    X, _, Z, _ = problem()
    phi = NystromMap(gamma=0.03, landmarks=Z).fit(X)
    counts = sorted({int(share * 40) for share in nystrom_ridge.LEADING} - {0})
    conditions = [residual_condition(phi.whitening_, count) for count in counts]
    monkeypatch.setattr(nystrom_ridge, "ONE_CORRECTION", 1.1 * conditions[0])
    sound = 1.1 * conditions[2]
    spared = (2 * counts[2] - counts[2] ** 2 / 40) - (2 * counts[0] - counts[0] ** 2 / 40)
    for correction, chosen in ((0.9 * spared, counts[0]), (1.1 * spared, counts[2]), (np.inf, counts[2])):
        assert len(partly_whitened(phi, sound, np.inf, correction).R11) == chosen


def test_what_partial_whitening_leaves_unsound_is_whitened_as_a_whole(monkeypatch):
    X, T, Z, Q = problem()
    monkeypatch.setattr(nystrom_ridge, "GRAM_LIMIT", 10.0)
    monkeypatch.setattr(nystrom_ridge, "SOUND", 10.0)
    model = NKELMRegressor(gamma=0.1, C=64.0, landmarks=Z).fit(X, T)
    assert model.route_ == str(SAFEST)
    assert relative_error(model.predict(Q), expected(T, 0.1, 64.0)) < 1e-8


@pytest.mark.parametrize("gamma", [0.1, 0.03])
def test_partly_whitened_sums_are_those_of_whitened_rows(monkeypatch, gamma):
    X, T, Z, _ = problem()
    phi = NystromMap(gamma=gamma, landmarks=Z).fit(X)
    assert phi.condition_ > nystrom_ridge.SUM_LIMIT
    monkeypatch.setattr(nystrom_ridge, "LEADING", (0.8,))
    assert partly_whitened(phi, nystrom_ridge.SUM_LIMIT, nystrom_ridge.SUM_LIMIT) is not None
    truth = Statistics.of(phi.transform(X), T)
    assert relative_error(nystrom_statistics(phi, Rows(X, T)).moments, truth.moments) < 1e-9


# ------------------------------------------------------------------------------------------- round-off, measured


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_measured_round_off_is_that_of_the_solution(weighted, fit_intercept):
    """Sums of raw kernel values over the whole ladder of condition numbers; whitened rows and corrections are judge."""
    X, T = regression(6000, outputs=2)
    weight = np.random.RandomState(3).uniform(0.2, 3.0, len(X)) if weighted else None
    seen = []
    for gamma in (0.6, 0.3, 0.15, 0.1, 0.07):
        phi = NystromMap(gamma=gamma, landmarks=X[:60]).fit(X)
        white = Problem(phi, Rows(X, T, weight), 2.0**12, fit_intercept)
        exact = fit_gram(white, replace(DOUBLE, correct=0.0))
        raw = replace(white, features=phi.cross_kernel_, whitening=phi.whitening_)
        sums = engine.gram_statistics(raw.features, raw.rows)
        system = NormalEquations(raw.whitened(sums), raw.C, fit_intercept)
        found = system.solution()
        measured = RoundOff(raw, sums, DOUBLE, raw)(system, found)
        F = phi.transform(X)
        off = F @ (found.beta - exact.beta) + found.intercept - exact.intercept
        true = np.linalg.norm(off) / np.linalg.norm(F @ exact.beta)
        assert true < measured < 1e4 * true
        seen.append(true)
    assert max(seen) > 1e-9
    assert min(seen) < 1e-11


def test_a_loss_that_was_measured_to_be_small_is_left_and_any_other_is_corrected(monkeypatch):
    X, T = regression(3000, outputs=2)
    phi = NystromMap(gamma=0.2, landmarks=X[:40]).fit(X)
    assert route_for("float64", phi.condition_).precision.correct == 0.0
    exact = fit_gram(Problem(phi, Rows(X, T), 64.0), replace(DOUBLE, correct=0.0))
    for negligible, corrections in ((1e-7, 0), (1e-16, 1)):
        line = Route("gram", replace(DOUBLE, correct=0.0, negligible=negligible))
        monkeypatch.setattr(nystrom_ridge, "route_for", lambda *_, line=line, **__: line)
        found = NystromProblem(phi, Rows(X, T), 64.0).solve()
        assert found.n_corrections >= corrections > found.n_corrections - 4
        assert (
            relative_error(phi.transform(X) @ found.beta, phi.transform(X) @ exact.beta) < (negligible or 1e-10) + 1e-9
        )
    few = NystromProblem(phi, Rows(X[:1000], T[:1000]), 64.0).solve()
    assert few.n_corrections > 0


def test_partly_white_sums_corrected_by_raw_kernel_values_predict_as_well_as_corrected_by_white_ones(monkeypatch):
    X, T = regression(3000, outputs=2)
    phi = NystromMap(gamma=0.03, landmarks=X[:60]).fit(X)
    assert route_for("float64", phi.condition_).name == "partial"
    exact = fit_gram(Problem(phi, Rows(X, T), 2.0**12), replace(DOUBLE, correct=0.0))
    white = phi.transform(X) @ exact.beta

    def off(beta):
        return relative_error(engine.apply(phi.cross_kernel_, X, phi.weight_to_landmarks(beta)), white)

    monkeypatch.setattr("ulmus.solvers.round_off.worth_measuring", lambda *_, **__: False)
    found = NystromProblem(phi, Rows(X, T), 2.0**12).solve()
    assert found.n_corrections > 0
    monkeypatch.setattr(nystrom_ridge, "RAW_LIMIT", 0.0)
    by_partly_white = NystromProblem(phi, Rows(X, T), 2.0**12).solve()
    assert (found.beta != by_partly_white.beta).any()
    assert off(found.beta) < 3 * max(off(by_partly_white.beta), off(exact.beta))


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
    hopeless = replace(ROUTES[-4][2], precision=replace(DOUBLE, give_up=0.0))
    monkeypatch.setattr(nystrom_ridge, "route_for", lambda *_, **__: hopeless)
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
@pytest.mark.parametrize("C", cases([2.0**-5, 1.0, 2.0**10, 2.0**20], 1.0, 2.0**20))
def test_predictions_agree_with_the_dense_reference_to_eight_digits(kernel, gamma, C):
    X, T, Z, Q = problem()
    for fit_intercept in (False, True):
        options = {"kernel": kernel, "gamma": gamma, "C": C, "fit_intercept": fit_intercept}
        model = NKELMRegressor(landmarks=Z, **options).fit(X, T)
        truth = expected(T, gamma, C, fit_intercept=fit_intercept, kernel=kernel)
        assert relative_error(model.predict(Q), truth) < 1e-8


@pytest.mark.parametrize("gamma", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("C", cases([1.0, 2.0**10, 2.0**20], 1.0, 2.0**20))
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
        found = NystromProblem(features, Rows(X, T), C, n_jobs=1).solve()
        from_sums += found.form == "gram float64"
        F = features.transform(X)
        exact, _ = reference.ridge(F, T, C)
        # what is estimated to be below it is left as it is
        assert np.abs(F @ (found.beta - exact)).max() < DOUBLE.correct * np.abs(T).max()
    assert from_sums > 20


@pytest.mark.parametrize(("gamma", "C"), [(1e-2, 1e8), (0.1, 1e8), (0.1, 1e12), (0.01, 1e12)])
def test_weights_on_kernel_values_predict_as_exactly_as_whitened_rows(gamma, C):
    X, T, _, Q = problem(n=600)
    found = NKELMRegressor(120, gamma=gamma, C=C, fit_intercept=False, random_state=0).fit(X, T).fitted_.weights
    assert np.finfo(float).eps * np.abs(found.landmark_weights).sum() > 1e-9  # there are digits to lose
    features = found.features
    R, a = features.whitening_.astype(np.longdouble), found.beta.astype(np.longdouble)
    for i in reversed(range(len(R))):
        a[i] = (a[i] - R[i + 1 :, i] @ a[i + 1 :]) / R[i, i]
    apart = Q[:, None].astype(np.longdouble) - features.landmarks_[None]
    truth = np.exp(-np.longdouble(gamma) * (apart**2).sum(axis=2)) @ a
    folded, white = (
        np.abs(engine.apply(map_, Q, weights) - truth).max()
        for map_, weights in ((found.cross, found.landmark_weights), (features, found.beta))
    )
    assert np.float64 in found.folds_in
    assert folded < 8 * white
