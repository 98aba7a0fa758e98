"""The size of errors, row by row: what it minimises, how rows leave it, and intervals that follow the noise."""

import numpy as np
import pytest
from scipy.optimize import minimize

from ulmus import (
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMRegressor,
    OSELMRegressor,
    RobustNKELMRegressor,
)
from ulmus.calibration.scale import LAMBDAS, Scale, _fit, _scoring, deviance
from ulmus.engine import Precomputed

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def sizes(rng, n, d=4):
    X = rng.normal(size=(n, d))
    return X, np.exp(0.8 * X[:, 0] + 0.3) * np.abs(rng.normal(size=n)), rng.uniform(0.5, 2.0, n)


def fanning(rng, n):
    """Targets whose noise grows elevenfold from left to right."""
    X = rng.uniform(-2, 2, (n, 3))
    noise = np.exp(0.6 * X[:, 0]) * 0.2
    return X, np.sin(2 * X[:, 1]) + noise * rng.normal(size=n), noise


@pytest.mark.parametrize("place", [2, 6, 10])
def test_the_size_minimises_the_penalised_deviance(place):
    X, a, w = sizes(np.random.RandomState(0), 200)
    Psi = X - np.average(X, axis=0, weights=w)
    beta, m = (found[..., place] for found in _scoring(Psi, a, w)[:2])

    def objective(b):
        return w @ deviance(a, Psi @ b[1:] + b[0]) + LAMBDAS[place] / 2 * b[1:] @ b[1:]

    best = minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    assert objective(np.append(m, beta)) <= best.fun + 1e-6
    np.testing.assert_allclose(np.append(m, beta), best.x, atol=1e-4)


def test_an_outlier_counts_as_five_times_its_size_at_most():
    a, g, step = np.array([0.1, 4.0, 1e6]), np.array([0.3, 0.0, 0.0]), 1e-6
    slope = (deviance(a, g + step) - deviance(a, g - step)) / (2 * step)
    np.testing.assert_allclose(slope, 1.0 - np.minimum(a * np.exp(-g), 5.0), atol=1e-6)


def test_an_error_beyond_all_measure_does_not_decide_all_sizes():
    """A row whose leverage is nearly 1 has a left-out error of any size."""
    X, a, w = sizes(np.random.RandomState(3), 500)
    far = a.copy()
    far[7] = 1e15
    without, found = (Scale.of(Precomputed(4), X, each, w) for each in (a, far))
    np.testing.assert_allclose(found(X), without(X), rtol=0.2)


def test_few_rows_leave_the_size_by_fits_without_their_part():
    X, a, w = sizes(np.random.RandomState(1), 150)
    fold = np.arange(150) % 3
    found = Scale.of(Precomputed(4), X, a, w, fold)
    Psi = X - np.average(X, axis=0, weights=w)
    Psi /= np.sqrt(np.average(np.sum(Psi**2, axis=1), weights=w))
    left = np.empty((150, len(LAMBDAS)))
    for k in range(3):
        rest = fold != k
        beta, m = _scoring(Psi[rest], a[rest], w[rest])[:2]
        left[~rest] = Psi[~rest] @ beta + m
    best = np.argmin(w @ deviance(a[:, None], left))
    np.testing.assert_allclose(found.left_out, np.exp(left[:, best]), rtol=1e-8)


def test_a_row_leaves_by_formula_as_it_does_by_a_fit_without_it():
    X, a, w = sizes(np.random.RandomState(2), 800)
    Psi = X - np.average(X, axis=0, weights=w)
    beta, m, g, shifts = _fit(Psi, a, w, None)
    place = int(np.argmin(np.abs(_scoring(Psi, a, w)[0] - beta[:, None]).sum(axis=0)))
    for i in range(0, 800, 80):
        rest = np.arange(800) != i
        refit, constant = (found[..., place] for found in _scoring(Psi[rest], a[rest], w[rest])[:2])
        moved = refit @ Psi[i] + constant - (beta @ Psi[i] + m)
        assert abs(g[i] - (refit @ Psi[i] + constant)) <= 0.2 * abs(moved) + 1e-3
        assert abs(shifts[i] - (constant - m)) <= 0.2 * abs(constant - m) + 1e-3


def test_a_weight_is_as_many_copies_for_the_size_of_errors():
    rng = np.random.RandomState(3)
    X, a, _ = sizes(rng, 120)
    w = rng.randint(1, 4, 120)
    one = Scale.of(Precomputed(4), X, a, w.astype(float))
    copies = Scale.of(Precomputed(4), *(np.repeat(v, w, axis=0) for v in (X, a)), np.ones(w.sum()))
    np.testing.assert_allclose(copies.left_out, np.repeat(one.left_out, w), rtol=1e-8)
    np.testing.assert_allclose(copies(X), one(X), rtol=1e-8)


def test_errors_of_one_size_have_one_size():
    rng = np.random.RandomState(4)
    X = rng.normal(size=(1000, 4))
    found = Scale.of(Precomputed(4), X, np.abs(rng.normal(size=1000)), np.ones(1000))
    assert np.ptp(np.log(found(X))) < 0.25


def test_new_rows_far_away_have_no_size_that_no_row_had():
    X, a, w = sizes(np.random.RandomState(5), 300)
    found = Scale.of(Precomputed(4), X, a, w)
    far = found(1e6 * X)
    assert found.left_out.min() <= far.min() <= far.max() <= found.left_out.max()


@pytest.mark.parametrize(
    "model",
    [
        NKELMRegressor(100, random_state=0),
        pytest.param(KELMRegressor(random_state=0), marks=pytest.mark.slow),
        ELMRegressor(100, random_state=0),
        OSELMRegressor(100, random_state=0),
        RobustNKELMRegressor(100, random_state=0),
        AdaptiveRegressor(effort="fast", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_intervals_follow_the_noise(model):
    rng = np.random.RandomState(6)
    (X, y, _), (Q, t, noise) = fanning(rng, 1500), fanning(rng, 4000)
    model.fit(X, y)
    found = {}
    for method in ("normalised", "plain"):
        low, high = model.predict_interval(Q, 0.9, method=method).T
        inside = (low <= t) & (t <= high)
        by_noise = [inside[part].mean() for part in np.array_split(np.argsort(noise), 5)]
        found[method] = inside.mean(), min(by_noise), np.corrcoef(np.log(high - low), np.log(noise))[0, 1]
    assert 0.86 < found["normalised"][0] < 0.94
    assert found["normalised"][1] > 0.84
    assert found["normalised"][2] > 0.8
    assert found["plain"][1] < 0.75


def test_the_size_of_an_error_does_not_know_the_error():
    below = []
    for seed in range(6):
        rng = np.random.RandomState(seed)
        X = rng.uniform(-1, 1, (2800, 2))
        y = X[:, 0] + rng.exponential(size=2800)
        model = NKELMRegressor(40, random_state=0).fit(X[:800], y[:800])
        below.append(np.mean(y[800:] < model.predict_interval(X[800:], 0.8, tails=1.0)[:, 0]))
    assert abs(np.mean(below) - 0.2) < 0.03  # 0.10 when the left-out prediction was among the features


def test_two_outputs_have_sizes_of_their_own():
    rng = np.random.RandomState(7)
    (X, y, _), (Q, t, _) = fanning(rng, 1000), fanning(rng, 2000)
    even = X[:, 1] + 0.2 * rng.normal(size=1000)
    ends = NKELMRegressor(80, random_state=0).fit(X, np.column_stack([y, even])).predict_interval(Q)
    width = np.log(ends[..., 1] - ends[..., 0])
    assert width[:, 0].std() > 3 * width[:, 1].std()
    inside = (ends[:, 0, 0] <= t) & (t <= ends[:, 0, 1])
    assert 0.86 < inside.mean() < 0.94


def test_which_rows_of_equal_errors_leave_together_is_for_no_units_and_no_order_to_say():
    class InUnits:
        n_features_out = 3

        def __init__(self, unit):
            self.unit = unit

        def transform_block(self, X, out):
            out[:] = X / self.unit

    rng = np.random.RandomState(0)
    X, a, _ = sizes(rng, 100, 3)
    a[rng.choice(100, 40, replace=False)] = 0.5  # equal errors, and two that count as no larger than the same
    a[:2] = 1e9, 2e9
    for unit in (2.0**-12, 2.0**7, 1.0):
        order = rng.permutation(100)
        here = Scale.of(InUnits(1.0), X, a, np.ones(100))
        there = Scale.of(InUnits(unit), unit * X[order], a[order], np.ones(100))
        np.testing.assert_allclose(there.left_out, here.left_out[order], rtol=1e-9)
