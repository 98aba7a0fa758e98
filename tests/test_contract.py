"""Every estimator keeps scikit-learn's contract."""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

import ulmus
from ulmus import (
    ENDA,
    KLDA,
    NNDA,
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    ELMClassifier,
    ELMOrdinalClassifier,
    ELMRegressor,
    ENDAEnsemble,
    KELMClassifier,
    KELMOrdinalClassifier,
    KELMRegressor,
    LearnedMetric,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    NystromMap,
    OSELMClassifier,
    OSELMOrdinalClassifier,
    OSELMRegressor,
    RandomLayer,
    RobustELMRegressor,
    RobustNKELMRegressor,
    TableEncoder,
)
from ulmus.models import _adaptive
from ulmus.models._effort import EFFORTS, Effort
from ulmus.tuning.view_budget import Budget

#: Every estimator, once, with fits that cost little.
ESTIMATORS = [
    RandomLayer(20),
    NystromMap(20),
    TableEncoder(),
    LearnedMetric(),
    ELMRegressor(20, slope=1.0),
    ELMClassifier(20, slope=1.0),
    KELMRegressor(gamma=0.1),
    KELMClassifier(gamma=0.005),
    NKELMRegressor(50, gamma=0.1),
    NKELMClassifier(50, gamma=0.005),
    AdaptiveRegressor(effort="fast"),
    AdaptiveClassifier(effort="fast", loss="squared"),
    ENDA(20, slope=1.0, n_neighbors=5),
    KLDA(gamma=1.0, n_neighbors=5),
    NNDA(10, max_iter=10, n_neighbors=5),
    ENDAEnsemble(ENDA(20, slope=1.0, C=1.0, n_neighbors=5), n_members=2),
    OSELMRegressor(20, slope=1.0),
    OSELMClassifier(20, slope=1.0),
    RobustELMRegressor(20, slope=1.0, C=1.0),
    RobustNKELMRegressor(20, gamma=0.05, C=10.0),
    ELMOrdinalClassifier(20, slope=1.0),
    KELMOrdinalClassifier(gamma=0.005),
    NKELMOrdinalClassifier(50, gamma=0.005),
    OSELMOrdinalClassifier(20, slope=1.0),
    AdaptiveOrdinalClassifier(effort="fast"),
]
#: Parameters that lead to other code: other losses, routes and codings, and what a model chooses for itself. Beside it
#: they are given what others choose already, and choose among few: every check fits a model or two.
VARIANTS = [
    TableEncoder(prepared=False),
    NKELMClassifier(20, metric="auto"),
    ELMClassifier(20, slope=1.0, loss="log"),
    KELMClassifier(gamma=0.005, loss="log"),
    NKELMClassifier(20, gamma=0.005, loss="log"),
    AdaptiveClassifier(effort="fast"),
    AdaptiveRegressor(),
    KELMRegressor(metric="auto"),
    ELMRegressor(C=None, n_hidden=10),
    ENDA(features="nystrom", head="mean"),
    OSELMRegressor(10, slope=1.0, C=1.0, form="covariance"),
    KELMOrdinalClassifier(gamma=0.005, loss="logistic"),
    ELMClassifier(),
    NKELMRegressor(),
    NKELMOrdinalClassifier(),
    OSELMClassifier(20),
    ENDA(),
    KLDA(),
    RobustNKELMRegressor(),
]


STRINGS = {"check_classifiers_classes": "ordinal models take no strings without an order (see test_ordinal.py)"}
MEDIAN = {"check_classifiers_train": "predict is the median of the probabilities, the check wants the mode"}


BLOCKS = dict.fromkeys(
    ("check_n_features_in_after_fitting", "check_estimators_partial_fit_n_features"),
    "a metric is learned by fit, so partial_fit cannot come first",
)


PASSES = dict.fromkeys(
    ("check_n_features_in_after_fitting", "check_estimators_partial_fit_n_features", "check_fit_score_takes_y"),
    "weights by the log loss come from passes over all rows, so partial_fit says what to do instead",
)


def expected_to_fail(estimator):
    if estimator.get_params().get("loss") == "log" and hasattr(estimator, "partial_fit"):
        return PASSES
    if isinstance(estimator.get_params().get("metric"), str) and hasattr(estimator, "partial_fit"):
        return BLOCKS
    if "Ordinal" not in type(estimator).__name__:
        return {}
    return {**STRINGS, **MEDIAN} if estimator.get_params().get("loss") == "logistic" else STRINGS


pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")]


def test_every_estimator_is_here_once():
    estimators = [
        v for v in map(vars(ulmus).get, ulmus.__all__) if isinstance(v, type) and issubclass(v, BaseEstimator)
    ]
    assert sorted(type(e).__name__ for e in ESTIMATORS) == sorted(e.__name__ for e in estimators)


@pytest.fixture
def small(monkeypatch):
    """Adaptive models with one leaf of a few landmarks, which calibrate without further fits."""
    budget = Budget(100, 20, 100, 20, 1, 0, (20, 20), 1, additive=False, cuts=False, preparations=("standard",))
    plan = Effort(budget, 20, 100, 100, 1, 4, grows=False, quick=True)
    monkeypatch.setitem(EFFORTS, "fast", plan)
    monkeypatch.setattr(_adaptive.AdaptiveModel, "_parts", lambda self, rows: None)


def broken_by(estimator):
    """Names and errors of the checks that fail and should not; one case for all of them, which is set up once."""
    found = check_estimator(estimator, expected_failed_checks=expected_to_fail(estimator), on_fail=None, on_skip=None)
    assert len(found) > 40
    return [(one["check_name"], one["exception"]) for one in found if one["status"] == "failed"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_scikit_learn_contract(estimator):
    assert not broken_by(estimator)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("estimator", VARIANTS, ids=lambda one: " ".join(str(one).split()))
def test_scikit_learn_contract_of_variants(estimator):
    assert not broken_by(estimator)
