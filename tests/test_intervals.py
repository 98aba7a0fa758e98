"""Intervals: the residual kernel is in their width and in what they are calibrated on."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from data import cases
from ulmus import KELMRegressor, NKELMRegressor, NystromMap, RobustNKELMRegressor
from ulmus.calibration import leave_one_out
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.intervals import RobustSpread, Spread
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.solvers.nystrom_ridge import NystromProblem

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def wavy(rng, n, d=10, noise=0.01):
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + noise * rng.normal(size=n)


def covered(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage).T
    return float(((low <= y) & (y <= high)).mean())


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_landmarks_give_the_intervals_of_the_exact_model(intercept, weighted):
    rng = np.random.RandomState(0)
    (X, y), (Q, _) = wavy(rng, 50), wavy(rng, 200)
    w = rng.uniform(0.3, 1.0, 50) if weighted else None
    given = {"gamma": 0.05, "C": 1e4, "fit_intercept": intercept}
    exact = KELMRegressor(**given).fit(X, y, w)
    nystrom = NKELMRegressor(landmarks="all", **given).fit(X, y, w)
    for coverage in (0.5, 0.9):
        np.testing.assert_allclose(
            nystrom.predict_interval(Q, coverage), exact.predict_interval(Q, coverage), rtol=1e-6
        )
    np.testing.assert_allclose(nystrom.predict(Q, return_std=True)[1], exact.predict(Q, return_std=True)[1], rtol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_landmark_is_left_out_as_a_landmark_too(intercept):
    rng = np.random.RandomState(1)
    X, y = wavy(rng, 60, d=3, noise=0.1)
    T, C = np.column_stack([y, X[:, 0] ** 2]), 1e3
    features = NystromMap(20, gamma=0.3, random_state=0).fit(X)
    rows = Rows(X, T)
    found = leave_one_out(features, rows, NystromProblem(features, rows, C, fit_intercept=intercept).solve(), C)
    own = (features.landmarks_[:, None] == X).all(axis=2)
    assert own.any(axis=0).sum() == 20
    for i in range(60):
        rest = np.arange(60) != i
        others = NystromMap(landmarks=features.landmarks_[~own[:, i]], gamma=0.3).fit(X)
        refit = NystromProblem(others, rows.take(rest), C, fit_intercept=intercept).solve()
        F = others.transform(X[[i]])
        np.testing.assert_allclose(found.P[[i]], F @ refit.beta + refit.intercept, atol=1e-8)
        variance = refit.leverage(F) + C * others.residual_kernel(X[[i]])
        np.testing.assert_allclose(found.variance[[i]], variance, rtol=1e-7)


def test_a_landmark_stays_while_a_copy_of_its_row_does():
    rng = np.random.RandomState(2)
    X, y = wavy(rng, 40, d=3, noise=0.3)
    X, T = np.vstack([X, X]), np.concatenate([y, y + rng.normal(size=40)])[:, None]
    rows = Rows(X, T, None, left_out_together(X, T, None))
    features = NystromMap(12, gamma=0.3, random_state=0).fit(X)
    found = leave_one_out(features, rows, NystromProblem(features, rows, 50.0).solve(), 50.0)
    for i in range(0, 80, 7):
        refit = NystromProblem(features, rows.take(np.arange(80) != i), 50.0).solve()
        np.testing.assert_allclose(found.P[[i]], features.transform(X[[i]]) @ refit.beta, atol=1e-8)


def test_a_weight_of_two_is_two_copies_for_intervals():
    rng = np.random.RandomState(3)
    (X, y), (Q, _) = wavy(rng, 80, d=3, noise=0.2), wavy(rng, 20, d=3)
    w = rng.randint(1, 4, 80)
    for model in (NKELMRegressor(30, gamma=0.2, C=100.0, random_state=0), KELMRegressor(gamma=0.2, C=100.0)):
        weighted = model.fit(X, y, w).predict_interval(Q)
        np.testing.assert_allclose(model.fit(np.repeat(X, w, 0), np.repeat(y, w)).predict_interval(Q), weighted)


@pytest.mark.parametrize(
    "options", cases([{}, {"n_landmarks": 15}, {"n_landmarks": 12, "solver": "iterative"}, {"cv": 5}], {}, {"cv": 5})
)
def test_thirty_rows_of_a_real_table_are_enough_for_intervals_that_cover(options):
    X, y = load_diabetes(return_X_y=True)
    X = X / X.std(axis=0)
    shares = []
    for seed in range(8):
        order = np.random.RandomState(seed).permutation(len(y))
        train, test = order[:30], order[30:]
        model = NKELMRegressor(random_state=0, **options).fit(X[train], y[train])
        shares.append(covered(model, X[test], y[test]))
    assert 0.82 < np.mean(shares) < 0.97  # it was 0.1; one share has a deviation of √(0.9·0.1/32) ≈ 0.05


@pytest.mark.parametrize("make", [NKELMRegressor, RobustNKELMRegressor])
@pytest.mark.parametrize("C", [1e2, 1e6])
def test_half_of_the_rows_as_landmarks_neither_narrow_nor_blow_up_intervals(make, C):
    shares, widths = [], []
    for seed in range(6):
        rng = np.random.RandomState(seed)
        (X, y), (Q, t) = wavy(rng, 100, noise=0.3), wavy(rng, 500, noise=0.3)
        model = make(50, C=C, gamma=0.05, random_state=0).fit(X, y)
        shares.append(covered(model, Q, t))
        widths.append(np.diff(model.predict_interval(Q)).mean() / np.quantile(np.abs(t - model.predict(Q)), 0.9))
    assert 0.82 < np.mean(shares) < 0.97
    assert np.mean(widths) < 4.0  # 2 is the least that could do


def test_a_refit_forgets_the_kernel_system_of_the_rows_before():
    rng = np.random.RandomState(4)
    (X, y), (Q, _) = wavy(rng, 40), wavy(rng, 30)
    model = KELMRegressor(gamma=0.1, C=10.0).fit(X, y)
    model.predict_interval(Q)
    for n in (40, 25):
        other, z = wavy(rng, n)
        fresh = KELMRegressor(gamma=0.1, C=10.0).fit(other, z)
        model.fit(other, z)
        np.testing.assert_array_equal(model.predict_interval(Q), fresh.predict_interval(Q))
        np.testing.assert_array_equal(model.predict(Q, return_std=True)[1], fresh.predict(Q, return_std=True)[1])


def test_quantiles_of_weights_are_those_of_copies():
    rng = np.random.RandomState(5)
    T, w = rng.standard_t(2, size=(60, 2)), rng.randint(1, 5, 60)
    for spread in (Spread, RobustSpread):
        one = spread.of(HeldOut(T, np.zeros_like(T), np.zeros(60), w.astype(float)))
        copies = spread.of(HeldOut(np.repeat(T, w, 0), np.zeros((w.sum(), 2)), np.zeros(w.sum()), np.ones(w.sum())))
        for level in (0.001, 0.05, 0.4, 0.6, 0.95, 0.999):
            np.testing.assert_allclose(one.quantile(level), copies.quantile(level))


def test_robust_intervals_end_before_outliers_and_reach_heavy_tails():
    rng = np.random.RandomState(6)
    E = rng.standard_t(3, size=(2000, 1))
    E[:100] += 1e3
    spread = RobustSpread.of(HeldOut(E, np.zeros_like(E), np.zeros(2000), np.ones(2000)))
    low, high = (spread.quantile(level)[0] for level in (0.05, 0.95))
    assert 0.88 < np.mean((low <= E[100:]) & (E[100:] <= high)) < 0.92
