"""Ordinal metrics: against scikit-learn, SciPy and sums by hand; scorers that know the order of strings."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import accuracy_score, cohen_kappa_score, mean_absolute_error
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from test_ordinal import GRADES, noisy
from ulmus import KELMOrdinalClassifier, metrics

METRICS = [metrics.mean_zero_one_error, metrics.mean_rank_error, metrics.macro_absolute_error, metrics.quadratic_kappa]


def pairs(n=200, classes=4, seed=0):
    rng = np.random.RandomState(seed)
    true = rng.randint(classes, size=n)
    return true, np.clip(true + rng.randint(-1, 2, size=n), 0, classes - 1)


def test_on_ranks_they_are_those_of_other_libraries():
    true, predicted = pairs()
    assert metrics.mean_zero_one_error(true, predicted) == pytest.approx(1 - accuracy_score(true, predicted))
    assert metrics.mean_rank_error(true, predicted) == pytest.approx(mean_absolute_error(true, predicted))
    kappa = cohen_kappa_score(true, predicted, weights="quadratic")
    assert metrics.quadratic_kappa(true, predicted) == pytest.approx(kappa)
    assert metrics.kendall_tau(true, predicted) == pytest.approx(kendalltau(true, predicted).statistic)


def test_the_macro_average_is_the_mean_over_true_classes():
    true, predicted = pairs()
    by_hand = np.mean([np.abs(true - predicted)[true == k].mean() for k in range(4)])
    assert metrics.macro_absolute_error(true, predicted) == pytest.approx(by_hand)
    assert metrics.macro_absolute_error([0, 0, 2], [0, 0, 2], labels=[0, 1, 2]) == 0


@pytest.mark.parametrize("metric", [*METRICS, metrics.kendall_tau])
def test_strings_have_the_ranks_of_their_labels(metric):
    true, predicted = pairs()
    names = np.array(GRADES)
    assert metric(names[true], names[predicted], labels=GRADES) == pytest.approx(metric(true, predicted))
    series = pd.Series(pd.Categorical(names[true], GRADES, ordered=True))
    assert metric(series, names[predicted], labels=GRADES) == pytest.approx(metric(true, predicted))


@pytest.mark.parametrize("metric", METRICS)
def test_weights_are_repetitions(metric):
    true, predicted = pairs(50)
    weight = np.random.RandomState(1).randint(0, 3, 50)
    weighted = metric(true, predicted, sample_weight=weight)
    assert weighted == pytest.approx(metric(np.repeat(true, weight), np.repeat(predicted, weight)))


def test_errors_say_what_is_missing():
    with pytest.raises(ValueError, match=r"no order of their own.*pass labels="):
        metrics.mean_rank_error(["a", "b"], ["b", "b"])
    with pytest.raises(ValueError, match=r"\['c'\] are not among the labels"):
        metrics.mean_rank_error(["a", "c"], ["b", "b"], labels=["a", "b"])
    with pytest.raises(ValueError, match="inconsistent"):
        metrics.mean_rank_error([1, 2], [1])
    with pytest.raises(ValueError, match="neither one of"):
        metrics.get_scorer("no_such_scorer")


def test_a_constant_answer_has_no_rank_correlation():
    assert metrics.kendall_tau([1, 2, 3], [2, 2, 2]) == 0


@pytest.mark.parametrize("name", metrics.SCORERS)
def test_scorers_rank_strings_by_the_order_of_the_model(name):
    X, y = noisy(90, classes=4)
    grades = np.array(GRADES)[y - 1]
    cv = [(np.arange(30, 90), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    strings = make_pipeline(StandardScaler(), KELMOrdinalClassifier(gamma=0.3, C=10.0, categories=GRADES))
    numbers = make_pipeline(StandardScaler(), KELMOrdinalClassifier(gamma=0.3, C=10.0))
    scorer = metrics.get_scorer(name)
    expected = cross_val_score(numbers, X, y, scoring=scorer, cv=cv)
    np.testing.assert_allclose(cross_val_score(strings, X, grades, scoring=scorer, cv=cv), expected)
    by_metric = scorer.sign * scorer.metric(y[:30], numbers.fit(X[30:], y[30:]).predict(X[:30]))
    assert expected[0] == pytest.approx(by_metric)


def test_grid_search_takes_a_scorer():
    X, y = noisy(90, classes=4)
    grades = np.array(GRADES)[y - 1]
    model = KELMOrdinalClassifier(gamma=0.3, categories=GRADES)
    search = GridSearchCV(model, {"C": [1e-6, 1.0]}, scoring=metrics.get_scorer("neg_mean_rank_error"), cv=3)
    assert search.fit(X, grades).best_params_ == {"C": 1.0}


def test_other_names_are_those_of_scikit_learn():
    assert "accuracy" in str(metrics.get_scorer("accuracy"))
