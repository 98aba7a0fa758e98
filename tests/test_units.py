"""Targets in any units, and targets of which most are equal."""

import warnings
from functools import cache

import numpy as np
import pytest

from data import cases, relative_error
from ulmus import (
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMRegressor,
    OSELMRegressor,
    RobustELMRegressor,
    RobustNKELMRegressor,
    streaming,
)
from ulmus.losses import LOSSES
from ulmus.solvers.ridge import Leverage
from ulmus.solvers.robust import Units, deviations, gross, tempered
from ulmus.statistics import refuse_sizes, root_mean_square

ROBUST = [RobustELMRegressor, RobustNKELMRegressor]
REGRESSORS = [*ROBUST, ELMRegressor, KELMRegressor, NKELMRegressor, OSELMRegressor, AdaptiveRegressor]
#: Round-off moves the coordinates of adaptive models, kept in float32, by a last bit; the transition of robust ones
#: comes from a solution whose last step was below 1e-4, and so its square from the end.
TOLERANCE = {AdaptiveRegressor: 1e-6, RobustELMRegressor: 1e-6, RobustNKELMRegressor: 1e-6}


def smooth(n=100, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def answers(model, X):
    mean, deviation = model.predict(X, return_std=True)
    return mean, deviation, model.predict_interval(X)


@cache
def plain_answers(make):
    """Those of the model of smooth rows in their own units."""
    X, y = smooth()
    return answers(make(random_state=0).fit(X, y), X)


# c · y gives c times the fit


@pytest.mark.parametrize("power", cases([-498, -40, 40, 498], -498))
@pytest.mark.parametrize("make", cases(REGRESSORS, *REGRESSORS[2:]))
def test_a_power_of_two_on_the_targets_is_one_on_the_answers(make, power):
    X, y = smooth()
    plain = plain_answers(make)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = answers(make(random_state=0).fit(X, 2.0**power * y), X)
    for here, there in zip(plain, scaled, strict=True):
        np.testing.assert_array_equal(there, 2.0**power * here)


@pytest.mark.parametrize("c", cases([1e-150, 1e-12, 1e-3, 1e7, 1e150], 1e7))
@pytest.mark.parametrize("make", cases(REGRESSORS, REGRESSORS[0], *REGRESSORS[2:]))
def test_any_factor_on_the_targets_is_one_on_the_answers(make, c):
    X, y = smooth()
    scaled = answers(make(random_state=0).fit(X, c * y), X)
    for here, there in zip(plain_answers(make), scaled, strict=True):
        assert relative_error(there / c, here) < TOLERANCE.get(make, 1e-9)


@pytest.mark.parametrize("c", cases([1e-289, 1e-160, 1e160, 1e289], 1e-289))
@pytest.mark.parametrize("make", cases(ROBUST, RobustNKELMRegressor))
def test_robust_models_fit_targets_whose_squares_are_no_numbers(make, c):
    X, y = smooth()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = answers(make(random_state=0).fit(X, c * y), X)
    for here, there in zip(plain_answers(make), scaled, strict=True):
        assert relative_error(there / c, here) < TOLERANCE[make]


@pytest.mark.parametrize("c", [1e-160, 1e160, 1e300])
@pytest.mark.parametrize("make", [make for make in REGRESSORS if make not in ROBUST])
def test_other_models_refuse_targets_whose_squares_are_no_numbers(make, c):
    X, y = smooth()
    with pytest.raises(ValueError, match=r"the largest target is \S+, and float64 holds .*; fit y / "):
        make().fit(X, c * y)


def test_a_block_of_small_targets_is_learned_and_one_of_large_ones_refused():
    X, y = smooth()
    model = OSELMRegressor(20, C=1.0, slope=1.0, scale=1.0, random_state=0).partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="the largest target"):
        model.partial_fit(X, 1e200 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert relative_error(model.partial_fit(X, 1e-200 * y).predict(X), before) > 0.1


@pytest.mark.parametrize("make", ROBUST)
@pytest.mark.parametrize("loss", list(LOSSES))
def test_given_scales_of_a_robust_loss_are_in_the_units_of_the_targets(make, loss):
    """c = 1/h or √τ grows with the targets, and so does C (but for squares); then the weights do."""
    X, y = smooth()
    s, name = 1e-6, LOSSES[loss].parameter
    width = {"gamma": 0.3} if make is RobustNKELMRegressor else {"slope": 1.0}

    def fitted(scale):
        given = {} if name is None else {name: 0.5 / scale if name == "h" else 0.5 * scale**2}
        C = 10.0 * (1.0 if name is None else scale)
        return make(30, loss=loss, C=C, **width, **given, random_state=0).fit(X, scale * y)

    plain, small = fitted(1.0), fitted(s)
    assert relative_error(small.beta_ / s, plain.beta_) < 1e-8
    assert pytest.approx(10.0 * (s if name else 1.0)) == small.C_
    for here, there in zip(answers(plain, X), answers(small, X), strict=True):
        assert relative_error(there / s, here) < 1e-8


@pytest.mark.parametrize("make", cases(ROBUST, RobustNKELMRegressor))
@pytest.mark.usefixtures("unscored")
def test_a_constant_on_the_targets_of_robust_models_is_one_on_the_answers(make):
    X, y = smooth()
    plain, moved = (make(random_state=0).fit(X, y + b).predict(X) for b in (0.0, 1e6))
    assert np.abs(moved - 1e6 - plain).max() < 1e-7


@pytest.mark.parametrize("make", cases(ROBUST, RobustNKELMRegressor))
def test_a_streamed_robust_fit_does_not_know_its_units(make):
    X, y = smooth(300)
    width = {"gamma": 0.3} if make is RobustNKELMRegressor else {"slope": 1.0}

    def fitted(c):
        return streaming.fit(make(20, **width, random_state=0), (X, c * y), progress=False).predict(X)

    assert relative_error(1e40 * fitted(1e-40), fitted(1.0)) < 1e-6


def test_the_units_of_several_outputs_have_no_say_in_a_C_chosen_for_squares():
    """Every output counts in its own deviations, so that one of a thousandfold size does not choose for all."""
    X, y = smooth()
    Y = np.column_stack([y, np.random.RandomState(1).normal(size=len(y))])
    model = RobustELMRegressor(16, slope=1.0, loss="squared", random_state=0)
    found = [model.fit(X, Y * u).C_ for u in (1.0, 1.5, 2.0, 3.0, [1.0, 3.0], [1.0, 1e3])]
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], (6, 2)))


def test_leverages_scale_with_their_system():
    """In primal, spectral and dual form, against (A/s)⁻¹."""
    rng = np.random.RandomState(0)
    Phi, V = rng.normal(size=(8, 4)), rng.normal(size=(5, 4))
    A, C = Phi.T @ Phi + np.eye(4) / 3.0, 3.0
    values, U = np.linalg.eigh(A)
    forms = (
        Leverage(np.linalg.cholesky(A), np.zeros(4), 0.5),
        Leverage(U / np.sqrt(values), np.zeros(4), 0.5, spectral=True),
        Leverage(np.linalg.cholesky(Phi @ Phi.T + np.eye(8) / C), np.zeros(4), 0.5, rows=Phi, C=C),
    )
    expected = 16.0 * (np.einsum("ij,jk,ik->i", V, np.linalg.inv(A), V) + 0.5)
    for form in forms:
        np.testing.assert_allclose(form.scaled(16.0)(V), expected, rtol=1e-10)


def test_units_are_powers_of_four_near_the_deviation():
    T = 1e-20 * np.random.RandomState(0).normal(size=(500, 2)) + 3e-20
    units = Units.of(T, None, centred=True)
    np.testing.assert_array_equal(np.log2(units.size) % 2, 0)
    assert (deviations(units.inside(T), None) > 0.4).all()
    assert (deviations(units.inside(T), None) < 2.1).all()


def test_the_root_mean_square_needs_no_squares():
    v = np.random.RandomState(0).normal(size=(50, 2))
    w = np.random.RandomState(1).uniform(size=50)
    expected = np.sqrt((w[:, None] * v**2).sum(axis=0) / w.sum())
    for c in (1e-300, 1.0, 1e300):
        np.testing.assert_allclose(root_mean_square(c * v, w), c * expected)
    np.testing.assert_array_equal(root_mean_square(np.zeros((3, 1))), [0.0])


def test_a_refusal_names_the_output():
    with pytest.raises(ValueError, match="largest target of output 1 is 1e-200"):
        refuse_sizes(np.column_stack([np.ones(3), np.full(3, 1e-200)]), 1e-151, 1e151)
    refuse_sizes(np.zeros((3, 2)), 1e-151, 1e151)


# Targets of which most are equal


def censored(n, rng):
    X = rng.normal(size=(n, 2))
    return X, np.maximum(0.0, np.sin(X[:, 0]) + X[:, 1] - 0.5 + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize("seed", cases(range(3)))
@pytest.mark.parametrize("make", cases(ROBUST, RobustNKELMRegressor))
@pytest.mark.usefixtures("unscored")
def test_robust_models_fit_targets_that_are_mostly_zero(make, seed):
    rng = np.random.RandomState(seed)
    X, y = censored(300, rng)
    Q, t = censored(1000, rng)
    assert np.mean(y == 0) > 0.6
    assert make(random_state=0).fit(X, y).score(Q, t) > 0.9
    y[rng.permutation(300)[:30]] += 50.0
    assert make(random_state=0).fit(X, y).score(Q, t) > 0.85


@pytest.mark.parametrize("make", ROBUST)
@pytest.mark.usefixtures("unscored")
def test_zeros_that_nothing_explains_leave_a_robust_model_between_median_and_mean(make):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 2))
    y = np.where(rng.uniform(size=300) < 0.6, 0.0, rng.lognormal(size=300))
    predicted = make(random_state=0).fit(X, y).predict(X)
    assert predicted.min() > -0.05
    assert predicted.mean() < y.mean()
    assert np.abs(predicted - y).mean() < np.abs(y - y.mean()).mean()


@pytest.mark.parametrize("make", cases(ROBUST, RobustELMRegressor))
@pytest.mark.usefixtures("unscored")
def test_several_mostly_zero_outputs_leave_rows_to_choose_by(make):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 2))
    Y = np.where(rng.uniform(size=(200, 6)) < 0.6, 0.0, rng.lognormal(size=(200, 6)))
    assert np.isfinite(make(random_state=0).fit(X, Y).predict(X)).all()


def test_the_noise_of_tied_targets_is_that_of_the_others_times_their_share():
    rng = np.random.RandomState(0)
    T = np.r_[np.zeros(600), rng.normal(5.0, 1.0, 400)][:, None]
    E = np.r_[1e-9 * rng.normal(size=600), rng.normal(0.0, 1.0, 400)][:, None]
    assert deviations(E, None, T)[0] == pytest.approx(0.4, rel=0.1)
    weight = np.r_[np.full(600, 2.0), np.ones(400)]
    copies = np.repeat(np.arange(1000), weight.astype(int))
    assert deviations(E, weight, T)[0] == pytest.approx(deviations(E[copies], None, T[copies])[0])
    assert deviations(E, None, rng.normal(size=(1000, 1))) == deviations(E, None)


def test_the_nearest_half_is_never_gross():
    """The middle of the errors may lie farther from 0 than many deviations."""
    rng = np.random.RandomState(0)
    T = np.r_[1.0 + 1e-6 * rng.normal(size=60), rng.lognormal(size=40)][:, None]
    far = gross(T, None, np.zeros((100, 1)), 10.0)
    assert not far[:60].any()
    assert far[60:].all()
    Y = np.where(rng.uniform(size=(100, 12)) < 0.6, 0.0, 1e3)
    assert (~gross(Y, None, 0.01 * rng.normal(size=Y.shape), 0.1)).mean() >= 0.5
    assert np.abs(tempered(T, None, np.zeros((100, 1)), 3.0) - 1.0).max() < 1e-4
