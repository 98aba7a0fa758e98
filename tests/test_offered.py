"""What a model offers it can do, and looking at a model never fails."""

import numpy as np
import pytest

import ulmus
from data import cases, classification, regression
from test_contract import ESTIMATORS

X, Y = regression(80)
LABELS = np.digitize(Y, np.quantile(Y, [0.33, 0.67]))
ON_SUMS = ("partial_fit", "unlearn", "merge", "blank_copy")
MODELS = [model for model in ESTIMATORS if hasattr(model, "predict")]


def fitted(model):
    return model.fit(X, Y if model.__sklearn_tags__().regressor_tags is not None else LABELS)


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize(
    "model",
    cases(MODELS, MODELS[-1], *(m for m in MODELS if "Ordinal" not in type(m).__name__)),
    ids=str,
)
def test_a_model_can_be_looked_at_before_and_after_fit(model):
    assert "fit" in dir(model)
    names = dir(fitted(model))
    assert "predict" in names
    assert type(model).__name__ in model._repr_html_()


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_class_offers_what_its_instances_do(model):
    for name in ON_SUMS:
        assert hasattr(type(model), name) == hasattr(model, name), name


@pytest.mark.parametrize(
    "model",
    [
        ulmus.AdaptiveOrdinalClassifier,
        ulmus.AdaptiveRegressor,
        ulmus.KELMOrdinalClassifier,
        ulmus.KELMRegressor,
        ulmus.KLDA,
        ulmus.RobustELMRegressor,
        ulmus.RobustNKELMRegressor,
    ],
)
def test_models_that_do_not_live_on_sums_offer_none_of_what_does(model):
    assert not [name for name in ON_SUMS if hasattr(model, name) or hasattr(model(), name)]


def test_robust_models_say_why_they_have_no_partial_fit():
    for model in (ulmus.RobustELMRegressor, ulmus.RobustELMRegressor()):
        with pytest.raises(AttributeError, match="use OSELMRegressor"):
            model.partial_fit  # noqa: B018


def test_merged_ordinal_models_know_the_classes_of_both():
    options = {"n_hidden": 10, "random_state": 0, "C": 1.0, "slope": 1.0, "categories": [0, 1, 2]}
    whole = ulmus.ELMOrdinalClassifier(**options).fit(X, LABELS)
    first = ulmus.ELMOrdinalClassifier(**options).fit(X[LABELS < 2], LABELS[LABELS < 2])
    second = first.blank_copy().partial_fit(X[LABELS == 2], LABELS[LABELS == 2])
    np.testing.assert_array_equal(first.merge(second).present_, whole.present_)


@pytest.mark.parametrize(
    "model",
    [
        ulmus.OSELMClassifier(10),
        ulmus.ELMClassifier(10),
        ulmus.NKELMClassifier(10),
        ulmus.OSELMOrdinalClassifier(10),
        ulmus.ENDA(10),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("rows", [1, 100])
def test_continuous_targets_are_no_classes_in_any_block(model, rows):
    Q, labels = classification(120)
    model.fit(Q, labels)
    known = model.classes_.copy()
    with pytest.raises(ValueError, match="continuous"):
        model.partial_fit(Q[:rows], Q[:rows, 0].copy())
    np.testing.assert_array_equal(model.classes_, known)
    model.partial_fit(Q, labels.astype(float))  # whole numbers are labels, whatever their type
    np.testing.assert_array_equal(model.classes_, known)
