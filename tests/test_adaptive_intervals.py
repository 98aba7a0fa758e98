"""Intervals of adaptive models are those of rows left out, however closely the model follows its own rows."""

import pickle
from dataclasses import replace

import numpy as np

from data import regression
from ulmus import AdaptiveRegressor
from ulmus.calibration import Spread
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.models.base import Model


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
    assert model.map_.n_features_out == len(X)
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


def test_errors_of_rows_left_out_of_both_stages_are_those_of_new_rows():
    """Without noise, errors fall fast with the rows: a model that lacks some of them would have larger ones."""
    rng = np.random.RandomState(3)
    X = rng.uniform(-1, 1, (4700, 2))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1])
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X[:700], y[:700])
    assert model.local_ is not None
    rows = model.spread_.rows
    assert len(rows.T) == 700
    left_out, new = (np.median(np.abs(e)) for e in (rows.T - rows.P, model.predict(X[700:]) - y[700:]))
    # two medians of 700 and of 4,000 errors, whose logarithm has a deviation of about 2
    assert abs(np.log(left_out / new)) < 0.3


def test_rows_behind_intervals_are_left_out_of_both_stages_by_formula():
    rng = np.random.RandomState(4)
    X = rng.uniform(-1, 1, (500, 2))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.02 * rng.normal(size=500)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    assert model.local_ is not None
    rows = model.spread_.rows
    landmarks = (rows.X[:, None] == X).all(axis=2).argmax(axis=1)
    others = ~np.isin(model.coordinates(rows.X)[:, 0], model.map_.landmarks_[:, 0])  # landmarks leave with their rows
    told = (
        model.predict(rows.X[others])
        - model.influences(rows.X[others], X, y)[np.arange(others.sum()), landmarks[others]]
    )
    np.testing.assert_allclose(rows.P[others, 0], told, rtol=1e-5, atol=1e-5)


def test_rows_behind_intervals_lie_where_new_rows_of_their_values_would():
    """Training rows have target means of other parts of the rows; a new row has those of all of them."""
    rng = np.random.RandomState(5)
    level, x = rng.randint(8, size=3400), rng.uniform(-1, 1, 3400)
    y = np.sin(5 * x + level) + 0.3 * level
    X = np.column_stack([level, x])
    model = AdaptiveRegressor(effort="fast", categorical_features=[0], random_state=0).fit(X[:400], y[:400])
    assert model.view_.preparation.has_means
    rows = model.spread_.rows
    left_out, new = (np.median(np.abs(e)) for e in (rows.T - rows.P, model.predict(X[400:]) - y[400:]))
    assert abs(np.log(left_out / new)) < 0.4


def test_a_reader_beside_another_that_leaves_rows_out_sees_what_that_found(monkeypatch):
    X, y = regression(200, noise=0.1)
    model, other = (AdaptiveRegressor(effort="fast", random_state=0).fit(X, y) for _ in range(2))
    expected, plain, found = other.predict_interval(X[:5]), Model._now, []

    def meanwhile(self, *needs):
        """Another thread ends after this one has looked at what was fitted."""
        seen = plain(self, *needs)
        if not found:
            found.append(replace(seen, weights=replace(seen.weights, later=None), certainty=other.fitted_.certainty))
            self.fitted_ = found[0]
        return seen

    monkeypatch.setattr(Model, "_now", meanwhile)
    np.testing.assert_array_equal(model.predict_interval(X[:5]), expected)
    assert model.fitted_ is found[0]


def test_a_reader_that_leaves_rows_out_does_not_undo_a_refit_meanwhile(monkeypatch):
    X, y = regression(200, noise=0.1)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    expected, plain = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y).predict_interval(X[:5]), Spread.of

    def meanwhile(held_out):
        monkeypatch.setattr(Spread, "of", plain)
        model.fit(X, -y)
        return plain(held_out)

    monkeypatch.setattr(Spread, "of", meanwhile)
    np.testing.assert_array_equal(model.predict_interval(X[:5]), expected)  # of the fit that was asked
    np.testing.assert_array_equal(
        model.predict(X[:5]), AdaptiveRegressor(effort="fast", random_state=0).fit(X, -y).predict(X[:5])
    )


def test_rows_are_left_out_when_intervals_are_asked_for_and_not_before():
    rng = np.random.RandomState(3)
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)
    X_new, given, weight = rng.normal(size=(20, 3)), X.copy(), np.ones(300)
    at_once, later = (AdaptiveRegressor(effort="fast", random_state=0).fit(data, y, weight) for data in (X, given))
    expected = at_once.predict_interval(X_new)
    assert later.fitted_.certainty is None
    given[:], weight[:] = 0.0, 7.0  # what was given is no longer read
    files = pickle.loads(pickle.dumps(later)), later
    for model in files:
        np.testing.assert_array_equal(model.predict_interval(X_new), expected)
        assert model.fitted_.weights.later is None
