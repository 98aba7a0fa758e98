"""Few rows and much to choose: intervals stand on whole fits that never saw the rows they are judged on."""

import numpy as np
import pytest

import ulmus
from ulmus.calibration import HeldOut, RobustSpread, parts_of_few, refitted
from ulmus.engine import Rows
from ulmus.models.families import RandomFamily

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
        other = ulmus.ELMRegressor(10, random_state=3).fit(some.X, some.T[:, 0])
        return lambda Q: (other.predict(Q)[:, None], other._variance_factors(Q)[0])

    found = refitted(rows, part, fit)
    for k in range(5):
        expected = ulmus.ELMRegressor(10, random_state=3).fit(X[part != k], y[part != k])
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
