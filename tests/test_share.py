"""Intervals believe of the prior's variances what errors of rows left out bear out."""

import numpy as np
import pytest

from ulmus import NKELMRegressor, load, save
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.intervals import Spread, share_borne_out


def drawn(share, n, rng, outputs=1):
    """Rows left out whose errors have the variances ``1 + share v``."""
    variance = 10.0 ** rng.uniform(-2, 6, n)
    T = rng.laplace(size=(n, outputs)) * np.sqrt(1.0 + share * variance)[:, None]
    return HeldOut(T, np.zeros_like(T), variance, np.ones(n))


@pytest.mark.parametrize("share", [1.0, 16.0**-2, 16.0**-4])
@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_that_of_which_errors_were_drawn_or_the_next_larger(share, seed):
    held_out = drawn(share, 300, np.random.default_rng(seed))
    found = share_borne_out(held_out, np.ones((300, 1)))[0]
    assert found in (share, min(16 * share, 1.0))


def test_few_errors_refute_nothing():
    held_out = drawn(16.0**-1, 8, np.random.default_rng(0))
    assert share_borne_out(held_out, np.ones((8, 1)))[0] == 1.0


def test_every_output_has_a_share_of_its_own_whatever_its_unit():
    rng = np.random.default_rng(0)
    right, less = drawn(1.0, 200, rng), drawn(16.0**-3, 200, rng)
    both = HeldOut(np.column_stack([right.T, 1e-200 * less.T]), np.zeros((200, 2)), right.variance, right.weight)
    both.T[:, 1] *= np.sqrt((1 + 16.0**-3 * right.variance) / (1 + 16.0**-3 * less.variance))
    shares = share_borne_out(both, np.ones((200, 2)))
    assert shares[0] == 1.0
    assert shares[1] in (16.0**-3, 16.0**-2)


def test_a_weight_of_three_is_three_errors():
    held_out = drawn(16.0**-2, 12, np.random.default_rng(3))
    thrice = HeldOut(*(np.repeat(a, 3, axis=0) for a in (held_out.T, held_out.P, held_out.variance, held_out.weight)))
    weighed = share_borne_out(held_out, np.full((12, 1), 3.0))
    np.testing.assert_array_equal(weighed, share_borne_out(thrice, np.ones((36, 1))))


def test_no_error_and_no_variance_leave_the_share_as_it_is():
    zeros, ones = np.zeros((9, 1)), np.ones((9, 1))
    for T, variance in ((zeros, np.full(9, 5.0)), (ones, np.zeros(9))):
        held_out = HeldOut(T, zeros, variance, np.ones(9))
        np.testing.assert_array_equal(share_borne_out(held_out, ones), [1.0])
        assert np.isfinite(Spread.of(held_out).residuals).all()
    T = np.where(np.arange(9) == 3, 1.0, 0.0)[:, None]  # an error that does not count
    held_out = HeldOut(T, zeros, np.arange(9.0), np.ones(9))
    np.testing.assert_array_equal(share_borne_out(held_out, 1.0 - T), [1.0])


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("method", ["normalised", "plain"])
def test_a_c_that_is_orders_too_large_does_not_blow_up_intervals(method, tmp_path):
    """25 rows of few levels, half of which are landmarks: C r alone made them 25 times as wide as all targets."""
    rng, widths, covered = np.random.default_rng(0), [], []
    for _ in range(12):
        X = (rng.integers(0, 3, (625, 3)) - 1.0) / 0.8
        y = np.round(np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=625))
        model = NKELMRegressor(12, gamma=0.15, C=1e6, random_state=0).fit(X[:25], y[:25])
        save(model, tmp_path / "model")
        low, high = load(tmp_path / "model").predict_interval(X[25:], method=method).T
        np.testing.assert_array_equal(model.predict_interval(X[25:], method=method).T, [low, high])
        widths.append(np.median(high - low) / np.ptp(y[:25]))
        covered.append(np.mean((low <= y[25:]) & (y[25:] <= high)))
    assert np.median(widths) < 3.0
    assert np.mean(covered) > 0.85
