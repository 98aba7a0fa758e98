"""Ordinal models on streams: batch equality, classes that come later, unlearning and merging."""

import numpy as np
import pytest

from test_ordinal import GRADES, noisy
from ulmus import ELMOrdinalClassifier, NKELMOrdinalClassifier, OSELMOrdinalClassifier

LAYER = {"scale": 1.0, "slope": 1.0, "C": 10.0, "random_state": 0}
FORMS = ["root", "covariance", "information"]


def learned(model, X, y, size=20, **options):
    for start in range(0, len(X), size):
        model.partial_fit(X[start : start + size], y[start : start + size], **options)
    return model


def batch(X, y, **options):
    return ELMOrdinalClassifier(25, **LAYER, **options).fit(X, y)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_give_the_batch_model(form):
    X, y = noisy(300)
    streamed = learned(OSELMOrdinalClassifier(25, form=form, **LAYER), X, y)
    expected = batch(X, y)
    np.testing.assert_allclose(streamed._scores_of(X), expected._scores_of(X), atol=1e-7)
    np.testing.assert_array_equal(streamed.predict(X), expected.predict(X))
    np.testing.assert_allclose(streamed.predict_proba(X), expected.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("last", [5, 1, 3], ids=["on top", "at the bottom", "between"])
def test_a_class_that_comes_later_is_as_if_it_had_been_expected(form, last):
    X, y = noisy(300)
    order = np.argsort(y == last, kind="stable")  # its rows come last
    X, y = X[order], y[order]
    model = OSELMOrdinalClassifier(25, form=form, **LAYER)
    learned(model, X[:200], y[:200])
    assert last not in model.classes_
    learned(model, X[200:], y[200:])
    assert model.classes_.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(model._scores_of(X), batch(X, y)._scores_of(X), atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), batch(X, y).predict(X))


def test_a_new_top_class_starts_from_the_regression_of_minus_one():
    X, y = noisy(200, classes=3)
    model = learned(OSELMOrdinalClassifier(25, form="information", **LAYER), X, y)
    H = model.map_.transform(X)
    P = np.linalg.inv(H.T @ H + np.eye(25) / 10.0)
    q = H.sum(axis=0)
    learner = model.stream_
    learner.recode(*learner.targets.grown(np.array([4])))
    del model.fitted_
    np.testing.assert_allclose(model.beta_[:, -1], -P @ q, atol=1e-9)  # B8


def test_a_class_that_was_only_announced_is_not_predicted():
    X, y = noisy(200, classes=4)
    some = y != 3
    model = OSELMOrdinalClassifier(25, **LAYER)
    learned(model, X[some], y[some], classes=[1, 2, 3, 4, 5])
    assert model.classes_.tolist() == [1, 2, 3, 4, 5]
    assert set(model.predict(X)) <= {1, 2, 4}
    np.testing.assert_array_equal(model.predict_proba(X)[:, [2, 4]], 0.0)
    model.partial_fit(X[~some], y[~some])
    np.testing.assert_array_equal(model.predict(X), batch(X, y, categories=[1, 2, 3, 4, 5]).predict(X))


def test_strings_need_an_order_from_the_first_row_on():
    X, y = noisy(120, classes=4)
    grades = np.array(GRADES)[y - 1]
    with pytest.raises(ValueError, match="strings have none"):
        OSELMOrdinalClassifier(25, **LAYER).partial_fit(X, grades)
    model = learned(OSELMOrdinalClassifier(25, categories=GRADES, **LAYER), X, grades)
    numbers = learned(OSELMOrdinalClassifier(25, **LAYER), X, y)
    np.testing.assert_array_equal(model.predict(X), np.array(GRADES)[numbers.predict(X) - 1])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="not among the categories"):
        model.partial_fit(X[:2], ["poor", "awful"])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_one_class_at_first_is_not_an_error():
    X, y = noisy(120, classes=3)
    order = np.argsort(y, kind="stable")
    model = OSELMOrdinalClassifier(25, categories=[1, 2, 3], **LAYER)
    model.partial_fit(X[order[:20]], y[order[:20]])
    assert set(model.predict(X)) == {1}
    learned(model, X[order[20:]], y[order[20:]])
    np.testing.assert_array_equal(model.predict(X), batch(X, y).predict(X))


def test_unlearned_rows_leave_no_trace():
    X, y = noisy(200)
    model = learned(OSELMOrdinalClassifier(25, **LAYER), X, y)
    model.unlearn(X[150:], y[150:])
    np.testing.assert_allclose(model._scores_of(X), batch(X[:150], y[:150])._scores_of(X), atol=1e-7)


def test_merged_models_are_one_even_when_each_saw_other_classes():
    X, y = noisy(300)
    low, high = y <= 3, y > 3
    first = OSELMOrdinalClassifier(25, **LAYER).partial_fit(X[low], y[low])
    second = first.blank_copy().partial_fit(X[high], y[high])
    first.merge(second)
    assert first.classes_.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(first.present_, np.arange(5))
    np.testing.assert_allclose(first._scores_of(X), batch(X, y)._scores_of(X), atol=1e-7)


def test_forgetting_follows_a_drifting_order():
    X, y = noisy(2000, noise=0.2)
    turned = np.where(np.arange(2000) < 1000, y, 6 - y)
    errors = {}
    for forgetting in (1.0, 0.99):
        model = learned(OSELMOrdinalClassifier(40, forgetting=forgetting, **LAYER), X[:1600], turned[:1600], 50)
        errors[forgetting] = np.abs(model.predict(X[1600:]) - turned[1600:]).mean()
    assert errors[0.99] < 0.6 * errors[1.0]


def test_nystrom_models_learn_on():
    X, y = noisy(400)
    model = NKELMOrdinalClassifier(40, gamma=0.3, C=10.0, random_state=0).fit(X[:200], y[:200])
    learned(model, X[200:], y[200:])
    whole = NKELMOrdinalClassifier(gamma=0.3, C=10.0, landmarks=model.map_.landmarks_).fit(X, y)
    np.testing.assert_allclose(model._scores_of(X), whole._scores_of(X), atol=1e-5)


def test_logistic_bits_do_not_learn_on():
    X, y = noisy(60)
    model = ELMOrdinalClassifier(25, loss="logistic", **LAYER).fit(X, y)
    for act in (model.partial_fit, model.unlearn):
        with pytest.raises(ValueError, match=r'needs loss="squared"'):
            act(X, y)
