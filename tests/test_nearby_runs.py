"""Rows for runs of Newton's method that lie near each other, and exact kernels for a few C: the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

import reference
from test_newton import EXACT, ROBUST, problem, solve
from ulmus import RobustNKELMRegressor
from ulmus.engine import Rows
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.losses import LOSSES
from ulmus.models import _robust
from ulmus.solvers.dual_rows import DualRows, slice_of
from ulmus.solvers.nearby import NearbyRows
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.objective import Request
from ulmus.solvers.path import ExactPath
from ulmus.solvers.remembered import Remembered
from ulmus.solvers.span import minimise


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [NearbyRows, DualRows])
@pytest.mark.parametrize("name", ROBUST)
def test_runs_from_one_penalty_to_the_next_end_where_runs_of_their_own_do(name, kind, intercept, weighted, penalty):
    posed, options = problem(120, D=80, intercept=intercept, weighted=weighted), replace(EXACT, bias_penalty=penalty)
    near, held, start = kind.of(posed), HeldRows.of(posed), None
    for C in (5.0, 20.0, 2.0):
        a, b = (solve(rows, name, C=C, options=options, start=start)[0] for rows in (near, held))
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-8 * np.abs(b.beta).max())
        assert a.intercept == pytest.approx(b.intercept, abs=1e-8)
        start = a.beta[:, None], np.array([a.intercept])
        lagging = np.abs(held.Phi @ a.lag[0] + a.lag[1]).max()
        for some in (slice(None), slice(None, None, 2), np.array([3, 70, 11])):
            expected = b.leverage(held.Phi[some])
            np.testing.assert_allclose(a.leverage(near.Phi[some]), expected, rtol=1e-6 + 1e3 * lagging, atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [NearbyRows, DualRows, lambda *rows: Remembered(DualRows(*rows))])
def test_a_penalty_beyond_the_digits_of_sums_takes_all_rows_to_their_span(kind, intercept):
    held = HeldRows.of(problem(120, D=80, intercept=intercept))
    near, start = kind(held.Phi, held.rows, intercept, 1), (np.zeros((80, 1)), np.zeros(1))
    for C in (5.0, 1e9, 2.0, 1e11):  # what was kept of the features does not stand for their span, nor that for them
        a, b = (minimise(rows, LOSSES["huber"], np.ones(1), np.array([C]), *start, EXACT)[0] for rows in (near, held))
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-9 * np.abs(b.beta).max())
        np.testing.assert_allclose(a.leverage(held.Phi), b.leverage(held.Phi), atol=1e-9)


def test_rows_are_known_as_a_slice_only_where_they_are_one():
    rows = np.arange(60.0).reshape(12, 5)
    for some in (slice(None), slice(2, 9), slice(1, None, 3), slice(4, 5)):
        np.testing.assert_array_equal(rows[slice_of(rows[some], rows)], rows[some])
    for other in (rows[::-1], rows[:, :4], rows[:, ::-1], rows[[1, 2]], rows.copy(), rows[:0], rows.T[:, :5].T):
        known = slice_of(other, rows)
        assert known is None or np.array_equal(rows[known], other)
    assert slice_of(rows[::-1], rows) is None
    assert slice_of(rows.reshape(-1)[2:52].reshape(10, 5), rows) is None  # begins in the middle of a row


@pytest.mark.parametrize("intercept", [False, True])
def test_leverages_by_rows_are_those_by_features_in_other_units_and_directions_too(intercept):
    posed = problem(120, D=80, intercept=intercept)
    a, b = (solve(kind.of(posed), "huber", C=5.0, options=EXACT)[0].leverage for kind in (DualRows, HeldRows))
    Phi = HeldRows.of(posed).Phi
    np.testing.assert_allclose(a.scaled(3.0)(Phi[::-1]), b.scaled(3.0)(Phi[::-1]), atol=1e-9)
    V = np.random.RandomState(0).normal(size=(80, 2))
    np.testing.assert_allclose(a.inverse(V), b.inverse(V), atol=1e-7 * np.abs(b.inverse(V)).max())


def test_rows_of_a_point_that_is_known_are_not_swept_again():
    held = HeldRows.of(problem())
    rows, swept = Remembered(held), []
    original = HeldRows.sweep
    rows.rows = type("Counted", (), {"sweep": lambda _, *a: swept.append(len(a[2])) or original(held, *a)})()
    at = Request(np.ones(20), 0.5, "curvature")
    first, second = (rows.sweep(LOSSES["huber"], np.ones(1), {0: request}) for request in (at, replace(at)))
    assert first[0] is second[0]
    assert swept == [1]
    rows.sweep(LOSSES["huber"], np.ones(1), {0: replace(at, intercept=0.6)})
    assert swept == [1, 1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_kernels_leave_rows_out_as_refits_do(intercept, weighted):
    rng = np.random.RandomState(0)
    X, C = rng.normal(size=(30, 3)), np.array([0.5, 8.0, 300.0])
    T, w = rng.normal(size=(30, 2)) + 3.0, rng.randint(1, 4, 30).astype(float) if weighted else None
    K = gram_matrix("rbf", X, KernelParameters(0.3, 3, 1.0))
    found = ExactPath(K, Rows(X, T, w, w), fit_intercept=intercept).left_out(C)
    Phi = np.linalg.cholesky(K + 1e-12 * np.eye(30))
    for k, c in enumerate(C):
        for i in range(0, 30, 7):
            others = np.arange(30) != i
            beta, b = reference.ridge(Phi[others], T[others], c, None if w is None else w[others], intercept)
            np.testing.assert_allclose(found[k, i], Phi[i] @ beta + b, atol=1e-7)


def test_a_row_takes_its_landmark_along_where_all_rows_are_landmarks(monkeypatch):
    rng = np.random.RandomState(1)
    X = rng.normal(size=(80, 3))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=80)
    y[:5] += 10
    models = [RobustNKELMRegressor(80, gamma=0.2, C=20.0, random_state=0)]
    short = models[0].fit(X, y).predict_interval(X, coverage=0.9)
    assert models[0].n_landmarks_ == 80
    monkeypatch.setattr(_robust, "only_landmarks", lambda *_: None)
    np.testing.assert_allclose(models[0].fit(X, y).predict_interval(X, coverage=0.9), short, rtol=1e-9)
