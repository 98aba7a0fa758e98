"""Rows left out of robust models, which leave as landmarks too, against models that never had them."""

import numpy as np
import pytest
from scipy.linalg import null_space

from data import cases
from ulmus.engine import Precomputed, Rows
from ulmus.features.nystrom import NystromMap
from ulmus.losses import LOSSES
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import Penalty, fit_robust

ROBUST = [name for name, loss in LOSSES.items() if loss.parameter]
TRANSITION = np.array([0.3])


def spoilt(seed, n=60):
    """Smooth targets, every tenth far off."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)
    bad = rng.permutation(n)[: n // 10]
    y[bad] += rng.choice([-1, 1], len(bad)) * rng.uniform(10, 50, len(bad))
    return X, y


def solved(features, X, y, loss, C):
    rows = Rows(X, y[:, None])
    problem = Problem(features, rows, None, fit_intercept=True)
    return fit_robust(problem, loss, TRANSITION, Penalty(C), NewtonOptions(), None), rows


def left_out_and_refitted(name, C, seed):
    """Residuals of all rows: one Newton step away, and of fits without the row and without the landmark that it is."""
    (X, y), loss = spoilt(seed), LOSSES[name]
    features = NystromMap(20, gamma=0.5, random_state=0).fit(X)
    solution, rows = solved(features, X, y, loss, C)
    Phi, own = features.transform(X), OwnLandmarks.of(features, rows)
    exact = np.empty(len(X))
    for i in range(len(X)):
        v, rest = own.V[:, own.index == i], np.arange(len(X)) != i
        F = Phi @ (null_space(v.T) if v.size else np.eye(20))
        found, _ = solved(Precomputed(F.shape[1]), F[rest], y[rest], loss, C)
        exact[i] = (F[i] @ found.beta + found.intercept - y[i])[0]
    return solution.leave_one_out(Phi, solution.residual, None, own)[0][:, 0], exact, y


@pytest.mark.parametrize("name", cases(ROBUST, "sqrt"))
def test_rows_that_leave_as_landmarks_too_are_left_out_as_by_a_refit(name):
    for seed in range(2):
        found, exact, _ = left_out_and_refitted(name, 100.0, seed)
        # a single step: exact where f'' is constant, so compared by what it is used for, the loss
        losses = [LOSSES[name].value(e, TRANSITION).mean() for e in (found, exact)]
        assert losses[0] == pytest.approx(losses[1], rel=0.05)
        assert np.quantile(np.abs(found - exact), 0.9) <= 0.15


@pytest.mark.parametrize("name", cases(ROBUST, "huber"))
def test_no_row_is_thrown_farther_than_targets_reach_where_others_hardly_hold_it(name):
    """Under a large C the curvature at the fitted residual and the one without the landmark differ by orders."""
    for seed in range(2):
        found, exact, y = left_out_and_refitted(name, 1e4, seed)
        assert np.abs(found - exact).max() <= np.ptp(y)


def test_rows_that_nothing_else_holds_are_thrown_no_farther_than_the_penalty_allows():
    """More features than rows, and a C of 1e9: all that is left beside leverages of 1 is round-off."""
    loss, C = LOSSES["huber"], 1e9
    for seed in range(4):
        X, y = spoilt(seed)
        Phi = np.tanh(X @ np.random.RandomState(seed).normal(size=(2, 80)) + np.linspace(-2, 2, 80))
        solution, _ = solved(Precomputed(80), Phi, y, loss, C)
        e = solution.residual[:, 0]
        moved = np.abs(solution.leave_one_out(Phi, solution.residual, None)[0][:, 0] - e)
        # the others leave a row at most a leverage of C‖φ − mean‖², about the mean of the others
        others = (Phi.sum(axis=0) - Phi) / (len(Phi) - 1)
        most = C * ((Phi - others) ** 2).sum(axis=1)
        assert (moved <= 4 * most * np.abs(loss.slope(e, 0.3))).all()


def test_the_only_row_that_holds_the_constant_can_leave():
    """All others are beyond the transition, where the loss has no curvature."""
    Phi, y = np.array([[0.1], [0.2], [0.3]]), np.array([0.0, 100.0, -100.0])
    solution, _ = solved(Precomputed(1), Phi, y, LOSSES["huber"], 1e-3)
    assert np.isfinite(solution.leave_one_out(Phi, solution.residual, None)[0]).all()
