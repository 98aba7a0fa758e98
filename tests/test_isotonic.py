"""Isotonic answers on a grid: the projection against other solvers, and models that are made monotone by it."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, minimize

from ulmus.models.monotone_grid import POINTS, MonotoneGrid
from ulmus.solvers.isotonic import between_envelopes, isotonic, isotonic_lines, largest_step_down


def test_lines_are_what_scipy_finds():
    rng = np.random.RandomState(0)
    F = rng.normal(size=(40, 9)) + 0.3 * np.arange(9)
    F[0] = np.arange(9)
    found = isotonic_lines(F)
    for before, after in zip(F, found, strict=True):
        np.testing.assert_allclose(after, isotonic_regression(before).x, atol=1e-12)
    assert largest_step_down(found) == 0.0


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 3)])
def test_tensors_are_nearly_the_projection_that_a_general_solver_finds_and_never_fall(shape):
    rng = np.random.RandomState(1)
    F = rng.normal(size=(3, *shape)) + sum(np.indices(shape))
    found = isotonic(F)
    assert largest_step_down(found) == 0.0
    for before, after in zip(F, found, strict=True):

        def rises(x):
            return np.concatenate([np.diff(x.reshape(shape), axis=axis).ravel() for axis in range(len(shape))])

        best = minimize(
            lambda x, f=before: ((x - f.ravel()) ** 2).sum(),
            sum(np.indices(shape)).ravel().astype(float),
            constraints={"type": "ineq", "fun": rises},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert rises(best.x).min() >= -1e-8
        nearest = np.sqrt(best.fun)
        assert nearest - 1e-6 <= np.linalg.norm(after - before) <= 1.01 * nearest


def test_a_rising_truth_is_nearer_to_the_projection_than_to_what_was_projected():
    rng = np.random.RandomState(2)
    truth = np.sqrt(sum(np.indices((6, 5, 4))))
    F = truth + 0.4 * rng.normal(size=(50, 6, 5, 4))
    before, after = (((G - truth) ** 2).mean(axis=(1, 2, 3)) for G in (F, isotonic(F)))
    assert (after < before).all()


def test_what_rises_stays_as_it_is():
    F = np.add.outer(np.arange(3.0), np.add.outer(np.arange(4.0), np.arange(5.0)))
    for each in (isotonic, between_envelopes):
        np.testing.assert_array_equal(each(F), F)
    np.testing.assert_array_equal(isotonic(np.arange(3.0)), np.arange(3.0))  # rows of no axis


def waves(X):
    """A function that rises and falls along every column, with a jump in the first."""
    filled = np.nan_to_num(X, nan=-1.0)
    return np.sin(3 * filled[:, 0]) + (filled[:, 0] > 0.3) + np.cos(2 * filled[:, 1] + filled[:, 2]) + filled[:, 2]


def ask(X, columns, V):
    points = np.repeat(X, len(V), axis=0)
    points[:, columns] = np.tile(V, (len(X), 1))
    return waves(points).reshape(len(X), len(V))


def test_answers_on_a_grid_are_monotone_everywhere_also_where_a_value_is_missing():
    rng = np.random.RandomState(3)
    X = rng.uniform(-1, 1, (300, 3))
    grid = MonotoneGrid.of(ask, X, X[:100], np.array([1, -1, 0]))
    assert grid.n_points <= POINTS
    assert grid.fall(ask, X) == 0.0
    low = rng.uniform(-2, 2, (700, 3))  # beyond the data as well
    low[::7, 1] = np.nan
    for column, sign in ((0, 1), (1, -1)):
        high = low.copy()
        high[:, column] += rng.exponential(size=len(low)) * rng.choice([1e-3, 1.0], len(low))
        rise = sign * (grid.answers(ask, high) - grid.answers(ask, low))
        assert rise.min() >= -1e-12
    beyond = np.array([[5.0, 0.2, 0.1], [1.5, 0.2, 0.1]])
    np.testing.assert_array_equal(*grid.answers(ask, beyond)[:, None])


def test_knots_are_where_lines_would_lose_most_and_rising_functions_are_kept():
    def steps(X, columns, V):
        return np.floor(2 * (V.T if len(columns) else X)) * np.ones((len(X), 1))

    X = np.linspace(-1, 1, 400)[:, None]
    grid = MonotoneGrid.of(steps, X, X[::9], np.array([1]))
    assert grid.n_points <= 12  # both sides of three jumps, the ends, and one beyond
    new = np.linspace(-0.99, 0.99, 77)[:, None]
    near = np.abs(2 * new - np.round(2 * new))[:, 0] < 0.02  # between the knots of a jump
    np.testing.assert_allclose(grid.answers(steps, new)[~near], np.floor(2 * new[~near, 0]), atol=1e-12)


def test_columns_of_one_value_have_no_direction_and_too_many_directions_are_refused():
    X = np.c_[np.zeros(50), np.random.RandomState(4).uniform(-1, 1, (50, 2))]
    none = MonotoneGrid.of(ask, X, X, np.array([1, 0, 0]))
    assert none.n_points == 1
    np.testing.assert_array_equal(none.answers(ask, X), waves(X))
    many = np.random.RandomState(5).uniform(size=(30, 12))
    with pytest.raises(ValueError, match="at most 10 columns, got 12"):
        MonotoneGrid.of(ask, many, many, np.ones(12, int))


def test_rows_do_not_hang_on_those_beside_them():
    F = np.random.RandomState(6).normal(size=(8, 5, 4)) * np.logspace(-3, 3, 8)[:, None, None]
    np.testing.assert_array_equal(isotonic(F)[3], isotonic(F[3:4])[0])
