"""Intervals of adaptive models are those of rows left out, however closely the model follows its own rows."""

import numpy as np

from data import regression
from ulmus import AdaptiveRegressor
from ulmus.features.kernels import KernelParameters, gram_matrix


def left_out_residuals(model, X, y):
    """By the exact formula for kernel ridge with a constant: every row is a landmark."""
    view, n = model.view_, len(y)
    K = gram_matrix(view.kernel, view.transform(X), KernelParameters(view.gamma))
    A = np.block([[K + np.eye(n) / model.C_, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(A)
    return inverse[:n, :n] @ y / np.diag(inverse)[:n]


def test_residuals_behind_intervals_are_those_of_rows_left_out():
    X, y = regression(80, noise=0.3)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    assert model.local_ is None
    assert model.map_.n_lifted == len(X)
    np.testing.assert_allclose(model.spread_.residuals[:, 0], np.sort(left_out_residuals(model, X, y)), rtol=1e-6)


def test_intervals_cover_what_they_promise_for_rows_that_are_nearly_interpolated():
    covered = []
    for seed in range(4):
        X, y = regression(80, 5, noise=0.3, seed=seed)
        Q, t = regression(400, 5, noise=0.3, seed=seed + 100)
        low, high = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y).predict_interval(Q, coverage=0.9).T
        covered.append(((low <= t) & (t <= high)).mean())
    assert 0.8 < np.mean(covered) < 0.97


def test_errors_behind_intervals_are_no_smaller_than_targets_that_nothing_explains():
    """Of few rows a view adapts to the very errors that choose it, unless rows are left out of the choice as well."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 30)), rng.normal(size=40)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    assert np.sqrt(np.mean(model.spread_.residuals**2)) >= y.std()


def test_errors_of_few_rows_left_out_are_those_of_new_rows():
    """With a local stage they come from models of nine tenths of the rows, not from one of half of them."""
    rng = np.random.RandomState(3)
    X = rng.uniform(-1, 1, (2700, 2))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.02 * rng.normal(size=2700)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X[:700], y[:700])
    assert model.local_ is not None
    rows = model.spread_.rows
    assert len(rows.T) == 700
    left_out, new = np.abs(rows.T - rows.P).mean(), np.abs(model.predict(X[700:]) - y[700:]).mean()
    assert 0.75 * new < left_out < 1.35 * new
