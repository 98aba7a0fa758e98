"""Rows unlike those of the training are told, and deviations grow there."""

import numpy as np
import pytest

from data import cases
from ulmus import (
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    OSELMRegressor,
    RobustNKELMRegressor,
)
from ulmus.calibration.far import far, log_variance
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.kernel_ridge import KernelVariance

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

MODELS = [
    NKELMRegressor(80, random_state=0),
    KELMRegressor(random_state=0),
    ELMRegressor(80, activation="gaussian", random_state=0),
    OSELMRegressor(80, random_state=0),
    RobustNKELMRegressor(80, random_state=0),
    AdaptiveRegressor(effort="fast", random_state=0),
    NKELMClassifier(80, random_state=0),
    NKELMOrdinalClassifier(80, random_state=0),
    NKELMClassifier(80, loss="log", random_state=0),
    KELMClassifier(loss="log", random_state=0),
    AdaptiveClassifier(effort="fast", random_state=0),
    AdaptiveClassifier(effort="fast", loss="squared", random_state=0),
    AdaptiveOrdinalClassifier(effort="fast", random_state=0),
]


def rows(seed, n):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize(
    "model",
    cases(MODELS, *(m for m in MODELS if m not in MODELS[9:13:2])),
    ids=lambda model: f"{type(model).__name__}, {getattr(model, 'loss', '')}",
)
def test_few_rows_of_the_same_place_are_far_and_all_of_another(model):
    (X, y), (Q, _) = rows(0, 500), rows(1, 3000)
    model.fit(X, y if hasattr(model, "predict_interval") else np.digitize(y, [-1, 0, 1]))
    for rate in (0.01, 0.1):
        assert model.is_far(Q, rate).mean() < rate + 3 * np.sqrt(rate / 500) + 0.03 * rate**0.5
    if not isinstance(model, ELMRegressor | OSELMRegressor):  # nodes that are flat far away leave the leverage small
        assert model.is_far(Q + 30).all()


def test_the_limit_is_a_conformal_quantile():
    held, w = np.arange(99.0), np.ones(99)
    assert far(np.array([94.0, 95.5]), held, w, 0.05).tolist() == [False, True]
    with pytest.raises(ValueError, match="rate must lie between 0 and 1"):
        far(held, held, w, 5)


@pytest.mark.parametrize(
    "model",
    cases([MODELS[0], MODELS[1], MODELS[4], MODELS[5]], MODELS[0], MODELS[5]),
    ids=lambda model: type(model).__name__,
)
def test_deviations_far_away_are_those_of_targets(model):
    X, y = rows(2, 800)
    near, at_far = (model.fit(X, y).predict(Q, return_std=True)[1] for Q in (X, X + 30))
    assert np.median(near) < 0.3 * y.std()
    assert np.median(at_far) > 0.6 * y.std()


def test_variances_of_rows_left_out_of_an_exact_log_model_are_those_of_models_without_them():
    X, _ = rows(3, 60)
    weight = np.linspace(1, 2, 60)
    for intercept in (False, True):
        cross = CrossKernel("rbf", X, KernelParameters(0.5))
        told = KernelVariance.of(cross, 3.0, weight, intercept).left_out(20, weight)
        for k in (0, 7, 19):
            keep = np.delete(np.arange(60), 40 + k)
            without = KernelVariance.of(CrossKernel("rbf", X[keep], cross.parameters), 3.0, weight[keep], intercept)
            assert told[k] == pytest.approx(without(X[40 + k : 41 + k])[0], rel=1e-8)


def test_leverages_of_a_log_model_are_those_of_squares_with_its_curvature_and_all_the_weight():
    X, y = rows(4, 50)
    features = NystromMap(20, gamma=0.5, random_state=0).fit(X)
    leverage, held = log_variance(features, Rows(X, y[:, None]), 3.0, fit_intercept=True, total=500.0, n_jobs=1)
    Phi = features.transform(X)
    centred = Phi - Phi.mean(axis=0)
    A = 0.25 * 10 * centred.T @ centred + np.eye(20) / 3.0
    np.testing.assert_allclose(
        leverage(Phi), np.einsum("ij,ji->i", centred, np.linalg.solve(A, centred.T)) + 1 / (0.25 * 500), rtol=1e-8
    )
    assert held.shape == (50,)
