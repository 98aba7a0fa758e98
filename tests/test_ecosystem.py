"""Conventions of the ecosystem hold for every public estimator: inspection, names of outputs, routing, tensors."""

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import ulmus
from data import cases

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ESTIMATORS = sorted(
    name for name in ulmus.__all__ if inspect.isclass(getattr(ulmus, name)) and hasattr(getattr(ulmus, name), "fit")
)
MODELS = [name for name in ESTIMATORS if hasattr(getattr(ulmus, name), "predict")]
TRANSFORMERS = [name for name in ESTIMATORS if hasattr(getattr(ulmus, name), "transform")]
X = pd.DataFrame(np.random.RandomState(0).normal(size=(90, 3)), columns=list("abc"))
NUMBERS = (X["a"] ** 2 + X["b"]).to_numpy()
RANKS = np.digitize(NUMBERS, [0.0, 1.5])


def made(name):
    """An estimator that is quick to fit, and targets for it."""
    model = getattr(ulmus, name)()
    known = model.get_params()
    quick = {"random_state": 0, "effort": "fast", "n_hidden": 20, "n_landmarks": 20, "n_jobs": 1, "max_iter": 20}
    quick |= {"C": 1.0, "gamma": 0.5, "slope": 1.0, "n_members": 2}
    model.set_params(**{key: value for key, value in quick.items() if key in known})
    return model, NUMBERS if name.endswith("Regressor") else RANKS


@pytest.mark.parametrize("name", MODELS)
def test_inspection_of_scikit_learn_takes_every_model(name):
    model, y = made(name)
    model.fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
    assert np.isfinite(found.importances_mean).all()
    assert found.importances_mean[:2].max() > abs(found.importances_mean[2])  # the third input says nothing
    shown = partial_dependence(model, X, ["a"], grid_resolution=5, kind="average")
    assert np.isfinite(shown["average"]).all()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_name_their_outputs_in_frames_of_both_libraries(name):
    model, y = made(name)
    names = model.fit(X, y).get_feature_names_out().tolist()
    plain = np.asarray(model.transform(X))
    assert len(names) == len(set(names)) == plain.shape[1]
    for library in ("pandas", "polars"):
        frame = model.set_output(transform=library).transform(X)
        assert list(frame.columns) == names
        np.testing.assert_array_equal(np.asarray(frame), plain)


#: Those that take weights; one adaptive model stands for all in ``make test``.
WEIGHED = [name for name in MODELS if name != "NNDA"]
DEAR = ("AdaptiveRegressor", "AdaptiveClassifier", "ENDAEnsemble")


@pytest.mark.parametrize("name", cases(WEIGHED, *(name for name in WEIGHED if name not in DEAR)))
def test_weights_are_routed_through_pipelines_and_searches(name):
    model, y = made(name)
    weight = np.r_[np.ones(60), np.zeros(30)]
    key = next(iter(model.get_params(deep=False)))
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        search = GridSearchCV(asked, {key: [model.get_params()[key]]}, cv=2)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), search)
        piped.fit(X, y, sample_weight=weight)
    scaled = StandardScaler().fit_transform(X)
    alone = clone(model).fit(scaled, y, sample_weight=weight)
    np.testing.assert_array_equal(piped.predict(X), alone.predict(scaled))


def test_groups_are_routed_to_the_splitter_and_to_the_model():
    groups = np.repeat(np.arange(9), 10)
    with sklearn.config_context(enable_metadata_routing=True):
        model = ulmus.NKELMRegressor(20, random_state=0).set_fit_request(groups=True)
        found = cross_validate(model, X, NUMBERS, cv=GroupKFold(3), params={"groups": groups}, return_estimator=True)
        left = groups[GroupKFold(3).split(X, NUMBERS, groups).__next__()[0]]
    rows = np.isin(groups, left)
    alone = ulmus.NKELMRegressor(20, random_state=0).fit(X[rows], NUMBERS[rows], groups=groups[rows])
    np.testing.assert_array_equal(found["estimator"][0].predict(X), alone.predict(X))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_tensors_are_taken_for_arrays_and_the_tag_promises_no_more(name):
    torch = pytest.importorskip("torch", reason="PyTorch comes with make test-gpu")
    model, y = made(name)
    ask = "predict" if name in MODELS else "transform"
    inputs = X.to_numpy()
    by_array = getattr(clone(model).fit(inputs, y), ask)(inputs)
    rows, targets = torch.tensor(inputs), torch.tensor(y)
    by_tensor = getattr(clone(model).fit(rows, targets), ask)(rows)
    assert isinstance(by_tensor, np.ndarray)  # no array API: tensors go in, arrays come out
    np.testing.assert_allclose(by_tensor, by_array, atol=1e-10)


def test_arrays_of_cupy_are_taken_where_they_lie():
    cupy = pytest.importorskip("cupy", reason="CuPy needs a GPU")
    rows, targets = X.to_numpy(), made("NKELMRegressor")[1]
    there = cupy.asarray(rows)
    for model in (ulmus.NKELMRegressor(30, gamma=0.5, C=10.0), ulmus.AdaptiveRegressor(effort="fast")):
        model.set_params(device="cuda", random_state=0)
        found = clone(model).fit(there, cupy.asarray(targets)).predict(there)
        np.testing.assert_allclose(found, clone(model).fit(rows, targets).predict(rows), atol=1e-8)
        with pytest.raises(ValueError, match=r"X\.get\(\)"):
            clone(model).set_params(device="cpu").fit(there, targets)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_estimator_claims_the_array_api(name):
    assert not get_tags(made(name)[0]).array_api_support
