"""Predictive distributions against brute force, and their agreement with intervals."""

import numpy as np
import pytest

from ulmus import AdaptiveRegressor, NKELMRegressor
from ulmus.calibration import PredictiveDistribution

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


@pytest.fixture
def small():
    rng = np.random.RandomState(0)
    return PredictiveDistribution(
        rng.normal(size=(5, 2)),
        rng.uniform(0.5, 2, (5, 2)),
        rng.normal(size=(40, 2)),
        rng.randint(0, 3, (40, 2)).astype(float),
        single=False,
    )


def test_cdf_and_crps_are_those_of_the_points(small):
    y = np.random.RandomState(1).normal(size=(5, 2))
    cdf, crps = small.cdf(y), small.crps(y)
    for i in range(5):
        for j in range(2):
            points = small.location[i, j] + small.width[i, j] * small.scores[:, j]
            p = small.weight[:, j] / small.weight[:, j].sum()
            assert cdf[i, j] == pytest.approx(p[points <= y[i, j]].sum())
            away = p @ np.abs(points - y[i, j])
            among = p @ np.abs(points[:, None] - points) @ p
            assert crps[i, j] == pytest.approx(away - among / 2)
            assert small.mean()[i, j] == pytest.approx(p @ points)
            assert small.std()[i, j] == pytest.approx(np.sqrt(p @ (points - p @ points) ** 2))


def test_samples_have_the_moments(small):
    drawn = small.sample(20_000, random_state=0)
    assert drawn.shape == (5, 2, 20_000)
    np.testing.assert_allclose(drawn.mean(axis=-1), small.mean(), atol=0.06)
    np.testing.assert_allclose(drawn.std(axis=-1), small.std(), rtol=0.03)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(2)
    X = rng.uniform(-2, 2, (4000, 2))
    y = np.sin(X[:, 0]) + np.exp(0.5 * X[:, 1]) * 0.3 * rng.exponential(size=4000)
    return NKELMRegressor(80, random_state=0).fit(X[:1500], y[:1500]), X[1500:], y[1500:]


def test_quantiles_are_the_ends_of_intervals_and_never_cross(fitted):
    model, X, _ = fitted
    Q = model.predict_quantiles(X, [0.05, 0.1, 0.5, 0.9, 0.95])
    np.testing.assert_array_equal(Q[:, [0, -1]], model.predict_interval(X, 0.9))
    np.testing.assert_array_equal(Q[:, [1, -2]], model.predict_interval(X, 0.8))
    assert (np.diff(Q, axis=1) > 0).all()
    assert model.predict_quantiles(X, 0.5).shape == (2500,)


def test_targets_lie_below_quantiles_as_often_as_they_say(fitted):
    model, X, y = fitted
    q = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    below = (y[:, None] <= model.predict_quantiles(X, q)).mean(axis=0)
    np.testing.assert_allclose(below, q, atol=0.03)
    rank = model.predict_distribution(X).cdf(y)
    assert abs(np.sort(rank) - np.linspace(0, 1, len(y))).max() < 0.04


def test_a_distribution_that_follows_the_noise_scores_better(fitted):
    model, X, y = fitted
    follows, plain = (model.predict_distribution(X, method=m).crps(y).mean() for m in ("normalised", "plain"))
    assert follows < 0.97 * plain


def test_two_outputs_and_adaptive_models_have_distributions():
    rng = np.random.RandomState(3)
    X = rng.normal(size=(200, 3))
    Y = X[:, :2] + rng.normal(size=(200, 2))
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, Y)
    told = model.predict_distribution(X[:7])
    assert told.crps(Y[:7]).shape == told.mean().shape == (7, 2)
    assert told.ppf([0.1, 0.9]).shape == (7, 2, 2)


@pytest.mark.parametrize("q", [0.0, 1.0, [0.5, 2.0], [[0.5]]])
def test_quantiles_that_are_none_are_refused(fitted, q):
    with pytest.raises(ValueError, match="quantiles must lie between 0 and 1"):
        fitted[0].predict_quantiles(fitted[1], q)


def test_there_is_no_distribution_by_jackknife(fitted):
    with pytest.raises(ValueError, match='"normalised" or "plain"'):
        fitted[0].predict_distribution(fitted[1], method="jackknife+")
