"""The robust losses: what section 3 of the document asks of them, and the facts that solvers rely on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ulmus.losses import LOSSES

ROBUST = [name for name, loss in LOSSES.items() if loss.parameter]
SMOOTH = [name for name in ROBUST if LOSSES[name].twice]
LINEAR = [name for name in ROBUST if np.isfinite(LOSSES[name].linear_beyond)]
transitions = st.floats(1e-3, 1e3)
ratios = st.lists(st.floats(-6, 6), min_size=1, max_size=20).map(np.array)


@pytest.mark.parametrize("name", LOSSES)
@given(c=transitions, t=ratios)
def test_losses_are_even_and_not_negative(name, c, t):
    loss = LOSSES[name]
    x = c * t
    np.testing.assert_array_equal(loss.value(x, c), loss.value(-x, c))
    np.testing.assert_array_equal(loss.slope(x, c), -loss.slope(-x, c))
    assert (loss.value(x, c) >= 0).all()


@pytest.mark.parametrize("name", LOSSES)
@given(c=transitions, t=ratios)
def test_derivatives_are_those_of_the_value(name, c, t):
    loss = LOSSES[name]
    step = 1e-5 * c
    x = c * t
    slope = (loss.value(x + step, c) - loss.value(x - step, c)) / (2 * step)
    np.testing.assert_allclose(slope, loss.slope(x, c), atol=2e-5)  # Huber's kink in f' costs step/4c
    if loss.twice:
        bend = (loss.slope(x + step, c) - loss.slope(x - step, c)) / (2 * step)
        # f'' of the piecewise losses has kinks: a difference across one is off by half the step's share of f'''
        np.testing.assert_allclose(bend * c, loss.curvature(x, c) * c, atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
@given(c=transitions, t=st.floats(-3, 3))
def test_curvature_is_continuous(name, c, t):
    # Lipschitz with constant 6/c² at most (the document's polynomial loss)
    loss = LOSSES[name]
    near = loss.curvature(c * (t + 1e-6), c) - loss.curvature(c * t, c)
    assert abs(near) * c <= 6e-6 * (1 + 1e-6)


@pytest.mark.parametrize("name", LOSSES)
@given(c=transitions, t=ratios)
def test_losses_are_convex_with_bounded_slope_and_curvature(name, c, t):
    loss = LOSSES[name]
    c = c if loss.parameter else 1.0
    x = c * t
    bend = c * loss.curvature(x, c)
    assert (bend >= 0).all()
    assert (bend <= c * loss.bound(x, c) * (1 + 1e-12)).all()
    assert (np.abs(loss.slope(x, c)) <= loss.steepest).all()
    assert (loss.relative_weight(x, c) <= 1 + 1e-12).all()


@pytest.mark.parametrize(("name", "least"), [("polynomial", 0.5), ("cubic", 1 / 3), ("quartic", 3 / 8), ("huber", 0.5)])
def test_piecewise_losses_meet_the_absolute_error_at_the_transition(name, least):
    loss, h = LOSSES[name], 4.0
    c = loss.transition(h)
    assert c == 1 / h
    assert loss.value(1 / h, c) == pytest.approx(1 / h)
    assert loss.slope(1 / h, c) == pytest.approx(1)
    assert loss.value(0.0, c) == pytest.approx(least / h)
    x = np.array([-3.0, 0.25, 7.0])
    np.testing.assert_allclose(loss.value(x, c), np.abs(x))
    assert not loss.curvature(x[[0, 2]], c).any()


def test_the_polynomial_loss_is_the_documents():
    # f = h²|x|³ − h³x⁴/2 + 1/(2h); f'' = 6h t(1 − t) with its maximum 3h/2 at |x| = 1/(2h); 0 ≤ f − |x| ≤ 1/(2h)
    h = 2.5
    loss, c = LOSSES["polynomial"], 1 / h
    x = np.linspace(-0.999 / h, 0.999 / h, 101)
    f = h**2 * np.abs(x) ** 3 - h**3 * x**4 / 2 + 1 / (2 * h)
    np.testing.assert_allclose(loss.value(x, c), f)
    assert loss.curvature(1 / (2 * h), c) == pytest.approx(1.5 * h)
    excess = loss.value(np.linspace(-2, 2, 401), c) - np.abs(np.linspace(-2, 2, 401))
    assert (excess >= -1e-12).all()
    assert excess.max() == pytest.approx(1 / (2 * h))
    assert loss.curvature(0.0, c) == 0


def test_the_square_root_loss_is_the_documents():
    tau = 0.3
    loss = LOSSES["sqrt"]
    c = loss.transition(tau)
    x = np.linspace(-4, 4, 81)
    np.testing.assert_allclose(loss.value(x, c), np.sqrt(x**2 + tau))
    np.testing.assert_allclose(loss.slope(x, c), x / np.sqrt(x**2 + tau), atol=1e-15)
    np.testing.assert_allclose(loss.curvature(x, c), tau / (x**2 + tau) ** 1.5)
    # |x| + τ/(2|x|) for large errors
    assert loss.value(100.0, c) == pytest.approx(100 + tau / 200, abs=1e-6)


@pytest.mark.parametrize("name", ROBUST)
def test_robust_losses_are_nearly_linear_for_large_errors(name):
    loss = LOSSES[name]
    assert loss.slope(50.0) == pytest.approx(1, abs=1e-3)
    assert loss.curvature(50.0) < 1e-4


@pytest.mark.parametrize("name", LOSSES)
def test_reweighting_is_legitimate_where_the_weight_never_rises(name):
    loss = LOSSES[name]
    weight = loss.weight(np.linspace(0, 5, 2001))
    assert bool((np.diff(weight) <= 1e-12).all()) == loss.reweightable


def test_the_weight_of_the_polynomial_loss_vanishes_at_zero_and_peaks_at_three_quarters():
    t = np.linspace(0, 2, 20001)
    weight = LOSSES["polynomial"].weight(t)
    assert weight[0] == 0
    assert t[weight.argmax()] == pytest.approx(0.75, abs=1e-3)


@pytest.mark.parametrize("name", LOSSES)
def test_weight_times_error_is_the_slope(name):
    x = np.linspace(-5, 5, 101)
    loss = LOSSES[name]
    np.testing.assert_allclose(loss.weight(x, 1.0) * x, loss.slope(x, 1.0), atol=1e-14)


@pytest.mark.parametrize("name", ROBUST)
def test_estimates_are_95_per_cent_efficient_at_the_stated_transition(name):
    # (E f'')² / E f'² under the normal distribution
    loss = LOSSES[name]
    x = np.linspace(-10, 10, 100_001)
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    efficiency = (density @ loss.curvature(x, loss.efficient)) ** 2 / (density @ loss.slope(x, loss.efficient) ** 2)
    assert efficiency == pytest.approx(0.95, abs=1e-4)


@pytest.mark.parametrize("name", ROBUST)
@given(value=st.floats(1e-3, 1e3))
def test_the_parameter_and_the_transition_belong_together(name, value):
    loss = LOSSES[name]
    assert loss.parameter_at(loss.transition(value)) == pytest.approx(value)


@pytest.mark.parametrize("name", LOSSES)
def test_huge_and_tiny_errors_stay_finite(name):
    loss = LOSSES[name]
    x = np.array([0.0, 1e-300, 1e-12, 1e12, 1e150])
    for function in (loss.value, loss.slope, loss.curvature, loss.weight):
        assert np.isfinite(function(x, 1e-3 if loss.parameter else 1.0)).all()
