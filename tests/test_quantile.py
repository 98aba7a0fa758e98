"""Quantile regression against linear and quadratic programmes, real refits and simulated truth."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import KFold

import ulmus
from data import cases
from ulmus import AdaptiveRegressor, ELMRegressor, NKELMRegressor
from ulmus.calibration import PredictiveDistribution
from ulmus.calibration.curves import Curves, Knots
from ulmus.engine import Rows
from ulmus.losses import pinball
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.quantile import LAST, continued, fit_quantiles
from ulmus.solvers.robust import deviations, tikhonov

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
LEVELS = np.array([0.05, 0.5, 0.95])


def posed(n, D, C, seed=0, weight=None):
    """Rows with noise that grows along a feature, a start, and the deviation of its errors."""
    rng = np.random.RandomState(seed)
    Phi = rng.normal(size=(n, D))
    t = Phi[:, :1] + np.exp(0.5 * Phi[:, 1:2]) * rng.normal(size=(n, 1))
    rows = HeldRows(Phi, Rows(Phi, t, weight), fit_intercept=True, n_jobs=1)
    start = tikhonov(rows, np.array([C]), NewtonOptions(tol=1e-4))
    return rows, start, deviations(start.residual, weight)


def objective(rows, beta, b, q, C):
    r = rows.rows.T[:, 0] - rows.Phi @ beta - b
    return beta @ beta / (2 * C) + np.maximum(q * r, (q - 1) * r).sum()


@pytest.mark.parametrize("q", [0.05, 0.3, 0.9])
def test_pinball_has_the_derivatives_that_it_says_and_is_the_pinball_loss_beyond_its_corner(q):
    loss, e, c = pinball(q), np.linspace(-3, 3, 61) + 1e-3, 0.7
    step = 1e-6
    slope = (loss.value(e + step, c) - loss.value(e - step, c)) / (2 * step)
    np.testing.assert_allclose(loss.slope(e, c), slope, atol=1e-8)
    bend = (loss.slope(e + step, c) - loss.slope(e - step, c)) / (2 * step)
    np.testing.assert_allclose(loss.curvature(e, c), bend, atol=1e-5)
    far = np.abs(e) > c
    np.testing.assert_allclose(loss.value(e, c)[far], np.maximum(-q * e, (1 - q) * e)[far])


def test_without_a_penalty_quantiles_are_those_of_the_linear_programme():
    rows, start, unit = posed(60, 4, 1e7)
    found = fit_quantiles(rows, LEVELS, 1e7, start, unit)
    n, D = rows.Phi.shape
    for q, one in zip(LEVELS, found.solutions, strict=True):
        cost = np.r_[np.zeros(D + 1), np.full(n, q), np.full(n, 1 - q)]
        A = np.c_[rows.Phi, np.ones(n), np.eye(n), -np.eye(n)]
        best = linprog(cost, A_eq=A, b_eq=rows.rows.T[:, 0], bounds=[(None, None)] * (D + 1) + [(0, None)] * 2 * n)
        mine = objective(rows, one.beta[:, 0], one.intercept[0], q, np.inf)
        assert best.fun <= mine * (1 + 1e-9)
        assert mine <= 1.001 * best.fun
        np.testing.assert_allclose(one.beta[:, 0], best.x[:D], atol=0.02)


def test_with_a_penalty_quantiles_are_those_of_the_quadratic_programme():
    rows, start, unit = posed(30, 3, 0.2)
    found = fit_quantiles(rows, LEVELS, 0.2, start, unit)
    n, D = rows.Phi.shape
    C = 0.2 * unit[0]
    for q, one in zip(LEVELS, found.solutions, strict=True):
        # min ‖β‖²/2C + Σ u, u ≥ q r, u ≥ (q − 1) r
        at = np.r_[one.beta[:, 0], one.intercept[0], np.zeros(n)]
        t = rows.rows.T[:, 0]

        def r(v, t=t):
            return t - rows.Phi @ v[:D] - v[D]

        def below(v, q=q, r=r):
            return np.r_[v[D + 1 :] - q * r(v), v[D + 1 :] - (q - 1) * r(v)]

        at[D + 1 :] = np.maximum(q * r(at), (q - 1) * r(at)) + 0.1
        best = minimize(
            lambda v: v[:D] @ v[:D] / (2 * C) + v[D + 1 :].sum(),
            at,
            constraints={"type": "ineq", "fun": below},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        mine = objective(rows, one.beta[:, 0], one.intercept[0], q, C)
        assert mine == pytest.approx(best.fun, rel=1e-3)
        np.testing.assert_allclose(one.beta[:, 0], best.x[:D], atol=0.02)


def test_smaller_corners_come_nearer_to_the_loss_without_one():
    rows, start, unit = posed(80, 4, 1.0)
    C = unit[0]
    values = []
    for last in (1 / 8, 1 / 32, LAST):
        found = fit_quantiles(rows, LEVELS, 1.0, start, unit, last=last)
        values.append(
            sum(
                objective(rows, s.beta[:, 0], s.intercept[0], q, C)
                for q, s in zip(LEVELS, found.solutions, strict=True)
            )
        )
    assert values[0] > values[1] > values[2]
    assert values[1] - values[2] < 0.3 * (values[0] - values[1])


def test_without_a_penalty_linear_nodes_give_the_quantiles_of_scikit_learn():
    rng = np.random.RandomState(1)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, -2.0] + (1 + 0.5 * X[:, 0]) * rng.gumbel(size=300)
    model = ELMRegressor(
        2, activation="identity", C=1e6, loss="quantile", quantiles=[0.1, 0.5, 0.8], random_state=0
    ).fit(X, y)
    curves = model.spread_.curves
    P = curves(X, model.predict(X)[:, None], model.map_)[:, 0]
    for k, q in enumerate(curves.levels):
        theirs = QuantileRegressor(quantile=q, alpha=0).fit(X, y).predict(X)
        np.testing.assert_allclose(P[:, k], theirs, atol=0.05)


def test_weights_are_repetitions():
    rng = np.random.RandomState(2)
    weight = rng.randint(1, 4, 50).astype(float)
    rows, start, unit = posed(50, 3, 1.0, weight=weight)
    many = np.repeat(np.arange(50), weight.astype(int))
    copies = HeldRows(rows.Phi[many], Rows(rows.Phi[many], rows.rows.T[many]), fit_intercept=True, n_jobs=1)
    one = fit_quantiles(rows, LEVELS, 1.0, start, unit)
    begin = tikhonov(copies, np.array([1.0]), NewtonOptions(tol=1e-4))
    other = fit_quantiles(copies, LEVELS, 1.0, begin, unit)
    np.testing.assert_allclose(one.beta, other.beta, atol=1e-4)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=1e-4)


def test_rows_left_out_by_a_step_are_near_those_of_real_refits():
    rows, start, unit = posed(150, 20, 0.05)
    found = fit_quantiles(rows, LEVELS, 0.05, start, unit)
    step = found.left_out(rows.Phi, rows.rows.T, None)[:, 0]
    trained = rows.Phi @ found.beta + found.intercept
    real = np.empty_like(step)
    for i in range(150):
        without = continued(rows.without(np.arange(150) == i), found)
        real[i] = rows.Phi[i] @ without.beta + without.intercept
    off, moved = np.abs(step - real).mean(axis=0), np.abs(trained - real).mean(axis=0)
    assert (off < 0.35 * moved).all()
    below = (real >= rows.rows.T).mean(axis=0)
    np.testing.assert_allclose((step >= rows.rows.T).mean(axis=0), below, atol=0.02)


def noisy(n, seed, outputs=1):
    """Skewed noise that grows along the second input, and the true quantile of levels."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (n, 2))
    size = 0.1 + 0.2 * (X[:, 1] + 2)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + size * (rng.exponential(size=n) - 1)

    def truth(X, q):
        return np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + 0.2 * (X[:, 1] + 2)) * (-np.log(1 - q) - 1)

    return X, y if outputs == 1 else np.column_stack([y, -3 * y]), truth


@pytest.fixture(scope="module")
def fitted():
    X, y, truth = noisy(1200, 0)
    made = {
        "elm": ELMRegressor(100, loss="quantile", random_state=0),
        "nkelm": NKELMRegressor(100, loss="quantile", random_state=0),
        "adaptive": AdaptiveRegressor(effort="fast", loss="quantile", random_state=0),
    }
    return {name: model.fit(X, y) for name, model in made.items()}, truth


@pytest.mark.parametrize("name", cases(["elm", "nkelm", "adaptive"], "nkelm", "adaptive"))
def test_quantiles_cover_what_they_promise_do_not_cross_and_follow_the_truth(fitted, name):
    models, truth = fitted
    model = models[name]
    X, y, _ = noisy(4000, 1)
    q = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
    Q = model.predict_quantiles(X, q)
    np.testing.assert_allclose((y[:, None] <= Q).mean(axis=0), q, atol=0.035)
    assert (np.diff(Q, axis=1) > 0).all()
    plain = model.predict_quantiles(X, q, method="plain")
    for k in (0, 1, 5, 6):
        off, off_plain = (np.abs(told[:, k] - truth(X, q[k])).mean() for told in (Q, plain))
        assert off < 0.7 * off_plain
    assert np.abs(model.predict(X) - truth(X, 0.5)).mean() < 0.12
    np.testing.assert_array_equal(Q[:, [0, -1]], model.predict_interval(X, 0.9))
    narrow, wide = (model.predict_interval([[0.0, at]], 0.9)[0] for at in (-1.8, 1.8))
    assert np.diff(wide) > 2 * np.diff(narrow)
    assert model.predict_interval(X[:3], [0.5, 0.9], method="plain").shape == (3, 2, 2)


def test_rough_solutions_do_not_depend_on_how_far_targets_are_from_zero():
    """Few rows, C and left-out curves by rough solutions: their tolerance must not grow with the constant."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(36, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=36)
    near, far = (
        NKELMRegressor(12, gamma=0.3, loss="quantile", quantiles=(0.1, 0.5, 0.9), random_state=0).fit(X, y + b)
        for b in (0.0, 300.0)
    )
    off = far.predict_interval(X) - 300.0 - near.predict_interval(X)
    assert np.abs(off).max() <= 1e-6 * np.ptp(near.predict_interval(X))


def test_quantiles_move_with_the_units_of_targets():
    X, y, _ = noisy(600, 3)
    given = {"n_landmarks": 40, "gamma": 0.5, "C": 1.0, "loss": "quantile", "random_state": 0}
    Q = NKELMRegressor(**given).fit(X, y).predict_quantiles(X)
    scaled = NKELMRegressor(**given).fit(X, 1000 * y + 5e4).predict_quantiles(X)
    np.testing.assert_allclose((scaled - 5e4) / 1000, Q, atol=2e-3)


def test_several_outputs_are_fitted_as_each_alone():
    X, Y, _ = noisy(600, 4, outputs=2)
    given = {"n_landmarks": 40, "gamma": 0.5, "C": 1.0, "loss": "quantile", "random_state": 0}
    both = NKELMRegressor(**given).fit(X, Y).predict_quantiles(X)
    assert both.shape == (600, 2, 3)
    for j in range(2):
        alone = NKELMRegressor(**given).fit(X, Y[:, j]).predict_quantiles(X)
        np.testing.assert_allclose(both[:, j], alone, atol=2e-3 * np.abs(alone).max())


@pytest.mark.parametrize(("n", "cv"), [(80, None), (600, KFold(5))], ids=["few", "folds"])
def test_folds_and_few_rows_calibrate_by_other_fits(n, cv):
    X_new, y_new, _ = noisy(2000, 6)
    inside = []
    for seed in range(4):
        X, y, _ = noisy(n, 20 + seed)
        model = NKELMRegressor(30, gamma=0.5, loss="quantile", cv=cv, random_state=0).fit(X, y)
        low, high = model.predict_interval(X_new, 0.8).T
        inside.append(((low <= y_new) & (y_new <= high)).mean())
    assert 0.76 < np.mean(inside) < 0.87


def test_one_level_gives_its_curve_and_valid_intervals():
    X, y, truth = noisy(900, 7)
    model = NKELMRegressor(40, loss="quantile", quantiles=[0.9], random_state=0).fit(X, y)
    assert np.abs(model.predict(X) - truth(X, 0.9)).mean() < 0.5 * np.abs(truth(X, 0.5) - truth(X, 0.9)).mean()
    X_new, y_new, _ = noisy(3000, 8)
    assert (y_new <= model.predict_quantiles(X_new, 0.9)).mean() == pytest.approx(0.9, abs=0.03)


def test_saved_quantiles_come_back(tmp_path, fitted):
    for name, model in fitted[0].items():
        X = noisy(50, 9)[0]
        ulmus.save(model, tmp_path / f"{name}.ulmus")
        again = ulmus.load(tmp_path / f"{name}.ulmus")
        np.testing.assert_allclose(again.predict_quantiles(X), model.predict_quantiles(X))


def test_reasons_add_up_to_the_median(fitted):
    X = noisy(200, 10)[0]
    for model in fitted[0].values():
        told = model.explain(X[:3], X[:20])
        np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, model.predict(X[:3]), atol=1e-8)


def test_what_quantiles_cannot_do_is_refused_with_words(fitted):
    models, _ = fitted
    X, y, _ = noisy(100, 11)
    with pytest.raises(ValueError, match="quantiles depend on every residual"):
        models["nkelm"].partial_fit(X, y)
    with pytest.raises(ValueError, match="quantiles leave rows out approximately"):
        models["elm"].predict_interval(X, method="jackknife+")
    with pytest.raises(ValueError, match="pinball loss"):
        models["adaptive"].influences(X[:2], X, y)
    with pytest.raises(ValueError, match="needs a penalty"):
        ELMRegressor(20, C=None, loss="quantile").fit(X, y)
    with pytest.raises(ValueError, match="iterative"):
        NKELMRegressor(20, solver="iterative", loss="quantile").fit(X, y)
    for wrong in ((0.0, 0.5), (0.5, 1.2), (), 0.5):
        with pytest.raises(ValueError, match="quantiles"):
            NKELMRegressor(20, loss="quantile", quantiles=wrong).fit(X, y)


def test_a_distribution_on_broken_lines_has_the_moments_and_scores_of_its_points():
    rng = np.random.RandomState(12)
    at = np.sort(rng.normal(size=(5, 1, 3)), axis=2)
    knots = Knots.of(LEVELS, at, np.zeros((1, 2)), 1)
    scores, weight = rng.normal(size=(40, 1)), rng.randint(1, 3, (40, 1)).astype(float)
    told = PredictiveDistribution(at[:, :, 1], np.ones((5, 1)), scores, weight, knots=knots)
    y = rng.normal(size=5)
    p = weight[:, 0] / weight.sum()
    for i in range(5):
        points = np.interp(scores[:, 0], knots.z, at[i, 0])
        slopes = np.diff(at[i, 0]) / np.diff(knots.z)
        low, high = scores[:, 0] < knots.z[0], scores[:, 0] > knots.z[-1]
        points[low] = at[i, 0, 0] + slopes[0] * (scores[low, 0] - knots.z[0])
        points[high] = at[i, 0, -1] + slopes[-1] * (scores[high, 0] - knots.z[-1])
        assert told.mean()[i] == pytest.approx(p @ points)
        assert told.std()[i] == pytest.approx(np.sqrt(p @ (points - p @ points) ** 2))
        assert told.cdf(y)[i] == pytest.approx(p[points <= y[i]].sum())
        away, among = p @ np.abs(points - y[i]), p @ np.abs(points[:, None] - points) @ p
        assert told.crps(y)[i] == pytest.approx(away - among / 2)
    np.testing.assert_allclose(knots.scores(0, knots.targets(0, scores[:5])[:, 0]), scores[:5, 0])


def test_knots_that_cross_are_sorted_and_kept_apart():
    knots = Knots.of(LEVELS, np.array([[[3.0, 1.0, 1.0]]]), np.array([[0.5, 0.5]]), 1)
    np.testing.assert_allclose(knots.at, [[[0.5, 1.0, 3.0]]])
    curves = Curves(LEVELS, np.zeros((1, 3)), np.zeros(3), np.array([[[0.0, 25.0, 50.0]]]), np.ones(3))
    np.testing.assert_allclose(curves.knots(np.array([[[3.0, 2.0, 1.0]]]), np.ones(1)).at, [[[1.5, 2.0, 2.5]]])


def test_how_far_knots_stay_apart_counts_rows_by_their_weight():
    """The distance that is kept is a share of the middle one of rows left out; a weight of 3 is three of them."""
    left_out = np.array([[[0.0, 1.0]], [[0.0, 2.0]], [[0.0, 5.0]]])
    curves = Curves(np.array([0.1, 0.9]), np.zeros((1, 2)), np.zeros(2), left_out, np.ones(2))
    at = np.zeros((1, 1, 2))
    weighed = curves.knots(at, np.array([1.0, 1.0, 3.0])).at
    copied = replace(curves, left_out=np.repeat(left_out, [1, 1, 3], axis=0)).knots(at, np.ones(5)).at
    np.testing.assert_array_equal(weighed, copied)
    assert np.ptp(weighed) == pytest.approx(0.02 * 5.0)
