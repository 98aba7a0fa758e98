"""Classifiers by the log loss on a device, beside the CPU's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ulmus
from gpu import DEVICE
from test_log_models import scores, spots
from ulmus.devices import direct, softmax

MODELS = {
    "elm": lambda **more: ulmus.ELMClassifier(25, slope=1.0, loss="log", random_state=0, **{"C": 10.0, **more}),
    "nkelm": lambda **more: ulmus.NKELMClassifier(25, gamma=0.5, loss="log", random_state=0, **{"C": 10.0, **more}),
    "kelm": lambda **more: ulmus.KELMClassifier(gamma=0.5, loss="log", random_state=0, **{"C": 10.0, **more}),
}


@pytest.fixture(autouse=True)
def _all_is_large(monkeypatch):
    monkeypatch.setattr(direct, "SMALL", 0)
    monkeypatch.setattr(softmax, "SMALL", 0)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_and_probabilities_are_those_of_the_cpu(name, k, fit_intercept):
    X, y = spots(400, k)
    w = np.random.RandomState(1).uniform(0.3, 2.0, 400)
    here, there = (MODELS[name](device=device, fit_intercept=fit_intercept).fit(X, y, w) for device in ("cpu", DEVICE))
    assert_allclose(scores(there, X), scores(here, X), atol=1e-6)
    assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-6)
    assert isinstance(there.decision_function(X), np.ndarray)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_left_to_the_data_is_chosen_alike(name):
    X, y = spots(300, 3)
    here, there = (MODELS[name](C="auto", device=device).fit(X, y) for device in ("cpu", DEVICE))
    assert here.C_ == there.C_
    assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("name", ["elm", "nkelm"])
def test_folds_are_left_out_on_the_device_too(name):
    X, y = spots(200, 3)
    here, there = (MODELS[name](cv=4, device=device).fit(X, y) for device in ("cpu", DEVICE))
    assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-4)


def test_a_model_without_arguments_has_good_probabilities():
    X, y = spots(400, 3)
    model = ulmus.NKELMClassifier(loss="log", random_state=0, device=DEVICE).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.loss_ == "log"
