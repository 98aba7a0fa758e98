"""Few rows and much to choose: intervals stand on whole fits that never saw the rows they are scored on."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss

import ulmus
from data import cases
from ulmus import ELMClassifier, ELMRegressor, NumericalWarning
from ulmus.calibration import HeldOut, RobustSpread, leave_one_out, parts_of_few, refitted
from ulmus.engine import Rows
from ulmus.features.sampling import keys_in_any_order
from ulmus.models.families import RandomFamily
from ulmus.solvers.ridge import Solution

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "before"),
    [("ELMRegressor", 30, 0.83), ("RobustELMRegressor", 60, 0.85), ("RobustNKELMRegressor", 60, 0.87)],
)
def test_models_that_choose_much_cover_on_few_rows(name, n, before):
    covered, widths = [], []
    for seed in range(12):
        X, y = drawn(seed, n + 500)
        low, high = getattr(ulmus, name)(random_state=0, n_jobs=1).fit(X[:n], y[:n]).predict_interval(X[n:]).T
        covered.append(((low <= y[n:]) & (y[n:] <= high)).mean())
        widths.append(np.median(high - low) / np.ptp(y[:n]))
    assert np.mean(covered) >= 0.89 > before  # by rows left out one by one
    assert np.median(widths) <= 1


def test_predictions_are_those_of_models_fitted_to_the_other_parts():
    X, y = drawn(0, 40)
    rows = Rows(X, y[:, None])
    part = parts_of_few(rows, 200, 5)
    assert sorted(np.bincount(part)) == [8] * 5

    def fit(some):
        other = ulmus.ELMRegressor(10, slope=1.0, C=10.0, random_state=3).fit(some.X, some.T[:, 0])
        return lambda Q: (other.predict(Q)[:, None], other._variance_factors(Q)[0])

    found = refitted(rows, part, fit)
    for k in range(5):
        expected = ulmus.ELMRegressor(10, slope=1.0, C=10.0, random_state=3).fit(X[part != k], y[part != k])
        np.testing.assert_array_equal(found.P[part == k, 0], expected.predict(X[part == k]))
    scaled = refitted(rows, part, fit, HeldOut.by_others(rows, y[:, None], np.full(40, 3.0)))
    for k in range(5):  # the middle deviation is that of the model of all rows
        assert np.median(1 + scaled.variance[part == k]) == pytest.approx(4.0)
    one_by_one = HeldOut.by_others(rows, y[:, None] + 1.0, np.zeros(40))
    worse = refitted(rows, part, fit, one_by_one)
    assert (np.abs(worse.studentised) >= 1.0 - 1e-12).all()
    assert (np.abs(worse.studentised) > 1.1).any()


def test_only_a_model_that_chooses_is_fitted_again(monkeypatch):
    X, y = drawn(0, 40)
    fits = []
    fit = RandomFamily.fit
    monkeypatch.setattr(RandomFamily, "fit", lambda self, model, t: fits.append(len(t.rows)) or fit(self, model, t))
    ulmus.ELMRegressor(10, C=10.0, slope=1.0, random_state=0).fit(X, y)
    assert fits == [40]
    ulmus.ELMRegressor(10, random_state=0).fit(X, y)
    assert fits == [40, 40, 32, 32, 32, 32, 32]


def test_parts_hold_targets_of_all_sizes_and_know_neither_units_nor_order():
    X, y = drawn(0, 50)
    part = parts_of_few(Rows(X, y[:, None]), 200, 5)
    np.testing.assert_array_equal(part[np.argsort(y)], np.arange(50) % 5)
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(parts_of_few(Rows(8 * X[order], 1e9 * y[order, None]), 200, 5), part[order])
    labels = Rows(X, np.sign(y)[:, None])
    other_units = Rows(X * [3.0, 0.1, 7e5], labels.T)
    by_label = parts_of_few(labels, 200, 5, by_label=True)
    np.testing.assert_array_equal(parts_of_few(other_units, 200, 5, by_label=True), by_label)
    np.testing.assert_array_equal(parts_of_few(Rows(X, -labels.T), 200, 5, by_label=True), by_label)
    np.testing.assert_array_equal(parts_of_few(Rows(X[:, ::-1], labels.T), 200, 5, by_label=True), by_label)
    counts = np.bincount(by_label[y > 0], minlength=5)
    assert counts.max() - counts.min() <= 1  # each part has as many of a class


def test_copies_of_a_row_stand_in_one_part_and_many_rows_in_none():
    X = np.random.default_rng(0).normal(size=(20, 2))
    T = X[:, :1]
    twice = Rows(np.repeat(X, 2, axis=0), np.repeat(T, 2, axis=0))
    part = parts_of_few(twice, 200, 5)
    np.testing.assert_array_equal(part[::2], part[1::2])
    np.testing.assert_array_equal(part[::2], parts_of_few(Rows(X, T), 200, 5))
    assert parts_of_few(twice, 40, 5) is None
    assert parts_of_few(Rows(X[:9], T[:9]), 200, 5) is None


def test_robust_residuals_that_lie_close_together_far_from_0_are_no_outliers():
    T = np.array([[1.0], [2.0], [3.0], [4.0]])
    away = np.array([[1.0], [1.001], [0.999], [1.0005]])
    spread = RobustSpread.of(HeldOut(T, T - away, np.zeros(4), np.ones(4)))
    assert spread.quantile(0.5) == pytest.approx([1.0], abs=1e-2)


@pytest.mark.parametrize("fit_intercept", cases([True, False], True))
@pytest.mark.parametrize("nodes", cases([30, 60], 30))
def test_rows_that_weights_pass_through_are_left_out_as_refits_leave_them_out(nodes, fit_intercept):
    rng = np.random.RandomState(0)
    X, w = rng.normal(size=(30, 3)), rng.choice([0.5, 1.0], size=30)
    y = np.sin(X[:, 0]) + rng.normal(size=30)

    def fitted(some):
        model = ELMRegressor(nodes, C=None, slope=1.0, scale=1.0, fit_intercept=fit_intercept, random_state=0)
        return model.fit(X[some], y[some], sample_weight=w[some])

    model, others = fitted(np.arange(30)), [np.delete(np.arange(30), i) for i in range(30)]
    weights, rows = model.fitted_.weights, Rows(X, y[:, None], w, np.minimum(w, 1.0))
    solution = Solution(weights.beta, weights.intercept, "svd", 1.0, weights.leverage)
    found = leave_one_out(weights.features, rows, solution, None)
    by_refits = [fitted(some).predict(X[[i]])[0] for i, some in enumerate(others)]
    np.testing.assert_allclose(found.P[:, 0], by_refits, rtol=1e-6, atol=1e-6)
    # the variance is the sum of squares of what targets of others count for, each over its weight
    counts = np.array([fitted_to_one(fitted, others[0], y, j).predict(X[[0]])[0] for j in others[0]])
    assert found.variance[0].item() == pytest.approx((counts**2 / w[others[0]]).sum(), rel=1e-5)


def fitted_to_one(fitted, some, y, j):
    """The model of targets that are 0 but for one."""
    kept = y.copy()
    try:
        y[:] = np.arange(len(y)) == j
        return fitted(some)
    finally:
        y[:] = kept


@pytest.mark.parametrize("C", [None, 1e6])
def test_intervals_of_weights_that_nearly_pass_through_their_targets_come_with_a_warning(C):
    rng = np.random.RandomState(0)
    X, Q = rng.normal(size=(60, 3)), rng.normal(size=(300, 3))
    y, t = (np.sin(Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.3 * rng.normal(size=len(Z)) for Z in (X, Q))
    with pytest.warns(NumericalWarning, match="degrees of freedom per row"):
        low, high = ELMRegressor(120, C=C, slope=1.0, random_state=0).fit(X, y).predict_interval(Q).T
    assert ((low <= t) & (t <= high)).mean() > 0.75
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ELMRegressor(20, C=C, slope=1.0, random_state=0).fit(X, y).predict_interval(Q)


def test_probabilities_of_few_rows_come_from_whole_fits_without_them():
    rng = np.random.RandomState(1)
    X, Q = rng.normal(size=(80, 4)), rng.normal(size=(500, 4))
    label, t = (Z.sum(axis=1) > 3.0 for Z in (X, Q))
    P = ELMClassifier(random_state=0).fit(X, label).predict_proba(Q)
    assert log_loss(t, P[:, 1]) < log_loss(t, np.full(len(t), label.mean()))


def test_columns_of_the_same_levels_are_told_apart_in_any_order():
    """Rows (0, 1) and (1, 0) are no copies, although either column has the same values."""
    rng = np.random.RandomState(0)
    X = (rng.uniform(size=(30, 6)) < [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]).astype(float)
    keys = keys_in_any_order(X)
    order = rng.permutation(6)
    np.testing.assert_array_equal(keys_in_any_order(X[:, order]), keys)
    np.testing.assert_array_equal(keys_in_any_order(np.repeat(X, 2, axis=0)), np.repeat(keys, 2))
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))


def test_crowded_weights_are_not_believed_for_lucky_labels():
    """As many nodes as rows: leave-one-out errors are made of the few directions that nodes hardly have.

    Labels that happen to be orthogonal to these look as if they were known; new rows tell that they are not.
    """
    rng = np.random.RandomState(0)
    X, new = rng.normal(size=(520, 5)), rng.normal(size=(400, 5))
    model = ELMClassifier(520, slope=16.0, C=1e7, random_state=0)
    Phi = model.fit(X, rng.randint(0, 2, 520)).map_.transform(X)
    inverse, T = np.linalg.inv(Phi @ Phi.T + 1e-7 * np.eye(520)), rng.choice([-1.0, 1.0], (520, 3_000))
    # t − (K⁻¹t)ᵢ / (K⁻¹)ᵢᵢ are the scores of rows left out
    right = (T * (T - inverse @ T / inverse.diagonal()[:, None]) > 0).mean(axis=0)
    assert right.max() > 0.75
    model.fit(X, T[:, right.argmax()])
    assert model.predict_proba(new).max(axis=1).mean() < 0.6
