"""Fits to hardly any rows, or to weights that leave hardly any, end soon: losses without a minimum are not chased."""

import warnings

import numpy as np
import pytest

from ulmus import AdaptiveClassifier, AdaptiveOrdinalClassifier, ELMClassifier, NKELMClassifier
from ulmus.engine import Precomputed, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.solvers import line_search, softmax
from ulmus.solvers.softmax import LogProblem
from ulmus.tuning.log_path import held_path

RNG = np.random.default_rng(3)
X = RNG.normal(size=(100, 3))
Y = (X[:, 0] + 0.1 * RNG.normal(size=100) > 0).astype(int)
CASES = {
    "two rows": (np.eye(2), [0, 1], {}),
    "two weights": (X, np.arange(100) % 2, {"sample_weight": np.arange(100) < 2}),
    "a group is a class": (X, Y, {"groups": Y}),
    "one weight is nearly all": (X, Y, {"sample_weight": np.where(np.arange(100) == np.argmax(Y), 1e12, 1.0)}),
}


@pytest.fixture
def evaluations(monkeypatch):
    """How often line searches looked at the objective."""
    counted = []
    search = line_search.WolfePowell.search

    def counting(self, phi):
        return search(self, lambda t: counted.append(t) or phi(t))

    monkeypatch.setattr(line_search.WolfePowell, "search", counting)
    return counted


@pytest.mark.parametrize("name", CASES)
def test_a_tiny_fit_is_a_little_work(name, evaluations):
    X, y, more = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = AdaptiveClassifier(random_state=0, n_jobs=1).fit(X, y, **more)
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(evaluations) < 40_000  # of some 20 µs each; 150,000 and more were made


def test_rows_of_one_class_are_answered_by_frequencies():
    Phi, T = RNG.normal(size=(20, 2)), np.where(np.arange(20) < 10, 1.0, -1.0)[:, None]
    problem = LogProblem(Precomputed(2), Rows(Phi, T), 1.0, fit_intercept=True)
    held = [(np.arange(20) < 10).astype(float), (np.arange(20) >= 10).astype(float), (np.arange(20) % 4 == 0) * 1.0]
    (trial,) = held_path(problem, [1.0], held)
    for solution in trial.solutions[:2]:
        assert not solution.beta.any()
        assert np.isfinite(solution.F).all()
    assert trial.solutions[2].beta.any()


def test_a_path_ends_where_round_off_keeps_a_model_from_its_minimum(monkeypatch):
    Phi, T = RNG.normal(size=(20, 2)), np.where(RNG.random(20) < 0.5, 1.0, -1.0)[:, None]
    problem = LogProblem(Precomputed(2), Rows(Phi, T), 1.0, fit_intercept=True)
    held = [(np.arange(20) % 4 == k) * 1.0 for k in range(4)]
    assert len(held_path(problem, [0.5, 1.0, 2.0], held, criterion="error", patience=np.inf)) == 3
    monkeypatch.setattr(softmax, "warn_unfinished", lambda *_: None)
    found = softmax.minimise
    monkeypatch.setattr(softmax, "minimise", lambda *a, **k: found(*a, **{**k, "max_passes": 2, "tol": 1e-30}))
    assert len(held_path(problem, [0.5, 1.0, 2.0], held, criterion="error", patience=np.inf)) == 1


@pytest.mark.parametrize("model", [AdaptiveClassifier, AdaptiveOrdinalClassifier, ELMClassifier, NKELMClassifier])
def test_class_weights_that_leave_one_class_are_refused_as_sample_weights_are(model):
    with pytest.raises(ValueError, match="needs at least two classes") as one:
        model().fit(X, Y, sample_weight=Y)
    with pytest.raises(ValueError, match="have only one class, 1") as other:
        model(class_weight={0: 0, 1: 1}).fit(X, Y)
    assert str(one.value) == str(other.value)
