"""Quantiles of scores with the correction for a new row, and how intervals are asked for."""

import numpy as np
import pytest

from ulmus import NKELMRegressor
from ulmus.calibration.conformal import Tails, borne, coverages, lower, upper


@pytest.mark.parametrize("n", [9, 20, 99])
def test_upper_and_lower_are_order_statistics(n):
    r = np.random.RandomState(n).normal(size=n)
    ranked = np.sort(r)
    for level in (0.3, 0.5, 0.8, 0.9):
        k = int(np.ceil(level * (n + 1) - 1e-9))
        if k <= n:
            assert upper(r, np.ones(n), np.array([level]))[0, 0] == ranked[k - 1]
            assert lower(r, np.ones(n), np.array([1.0 - level]))[0, 0] == ranked[n - k]


def test_both_ends_together_miss_what_they_may():
    rng = np.random.RandomState(0)
    missed = []
    for _ in range(4000):
        r = rng.normal(size=20)
        low, high = lower(r[:-1], np.ones(19), np.array([0.1])), upper(r[:-1], np.ones(19), np.array([0.9]))
        missed.append(not low[0, 0] <= r[-1] <= high[0, 0])
    assert abs(np.mean(missed) - 0.2) < 0.02  # both levels are multiples of 1/20, so that equality holds


def test_rows_with_scores_of_their_own_get_what_they_would_get_alone():
    rng = np.random.RandomState(1)
    R, w, levels = rng.normal(size=(7, 30)), rng.randint(0, 3, 30).astype(float), np.array([0.2, 0.7, 0.9])
    for end in (lower, upper):
        together = end(R, w, levels)
        np.testing.assert_array_equal(together, np.concatenate([end(r, w, levels) for r in R]))


def test_the_weight_of_the_new_row_counts():
    r, w, levels = np.arange(10.0), np.ones(10), np.array([0.5])
    assert upper(r, w, levels, np.array([0.0, 5.0, 9.9]))[:, 0].tolist() == [4.0, 7.0, 9.0]


@pytest.mark.parametrize("given", [0.0, 1.5, [], [0.9, 1.0], "much", [[0.5]]])
def test_coverages_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        coverages(given)


@pytest.mark.parametrize("given", [-0.1, 2, True, "even"])
def test_tails_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match="tails must be"):
        Tails(given)


def test_what_rows_bear():
    levels = Tails().levels(np.array([0.8]))
    assert borne(9, levels)
    assert not borne(8, levels)
    assert borne(4, Tails("symmetric").levels(np.array([0.8])))


@pytest.fixture(scope="module")
def skewed():
    rng = np.random.RandomState(2)
    X = rng.uniform(-1, 1, (1200, 2))
    y = X[:, 0] + rng.exponential(size=1200)
    return NKELMRegressor(40, random_state=0).fit(X[:800], y[:800]), X[800:], y[800:]


def test_several_coverages_in_one_call_are_those_of_single_calls(skewed):
    model, X, _ = skewed
    levels = [0.5, 0.8, 0.9, 0.95]
    together = model.predict_interval(X, levels)
    assert together.shape == (400, 4, 2)
    for k, level in enumerate(levels):
        np.testing.assert_array_equal(together[:, k], model.predict_interval(X, level))
    assert (np.diff(together[..., 1] - together[..., 0], axis=1) >= 0).all()


def test_tails_share_the_misses_out(skewed):
    model, X, y = skewed
    for share in (0.0, 0.2, 1.0):
        low, high = model.predict_interval(X, 0.8, tails=share).T
        assert abs(np.mean(y < low) - 0.2 * share) < 0.06
        assert abs(np.mean(y > high) - 0.2 * (1 - share)) < 0.06
    assert np.isinf(model.predict_interval(X, 0.8, tails=0)[:, 0]).all()
    low, high = model.predict_interval(X, 0.8, tails="symmetric").T
    np.testing.assert_allclose((low + high) / 2, model.predict(X))
    assert abs(np.mean((y < low) | (y > high)) - 0.2) < 0.06


def test_an_unknown_method_is_refused(skewed):
    with pytest.raises(ValueError, match=r"method must be one of .*got 'exact'"):
        skewed[0].predict_interval(skewed[1], method="exact")
