"""Rows unlike those of the training are told, and deviations grow there."""

import numpy as np
import pytest

from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    OSELMRegressor,
    RobustNKELMRegressor,
)
from ulmus.calibration.far import far

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
]


def rows(seed, n):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_few_rows_of_the_same_place_are_far_and_all_of_another(model):
    (X, y), (Q, _) = rows(0, 1000), rows(1, 3000)
    model.fit(X, y if hasattr(model, "predict_interval") else np.digitize(y, [-1, 0, 1]))
    for rate in (0.01, 0.1):
        assert model.is_far(Q, rate).mean() < rate + 3 * np.sqrt(rate / 1000) + 0.03 * rate**0.5
    if not isinstance(model, ELMRegressor | OSELMRegressor):  # nodes that are flat far away leave the leverage small
        assert model.is_far(Q + 30).all()


def test_the_limit_is_a_conformal_quantile():
    held, w = np.arange(99.0), np.ones(99)
    assert far(np.array([94.0, 95.5]), held, w, 0.05).tolist() == [False, True]
    with pytest.raises(ValueError, match="rate must lie between 0 and 1"):
        far(held, held, w, 5)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[4], MODELS[5]], ids=lambda model: type(model).__name__)
def test_deviations_far_away_are_those_of_targets(model):
    X, y = rows(2, 800)
    near, at_far = (model.fit(X, y).predict(Q, return_std=True)[1] for Q in (X, X + 30))
    assert np.median(near) < 0.3 * y.std()
    assert np.median(at_far) > 0.6 * y.std()


def test_classes_by_log_loss_say_that_they_keep_no_leverages():
    X, y = rows(3, 100)
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match="is_far needs leverages"):
        model.is_far(X)
