"""Models of the iterative route beside the rest of the library: streams, refits, files, ONNX, and who may iterate."""

import numpy as np
import pytest

import ulmus
from data import classification, regression, relative_error
from ulmus import NKELMRegressor

GIVEN = {"n_landmarks": 60, "gamma": 0.3, "C": 1.0, "random_state": 0}
NEVER_CUDA = [
    "OSELMRegressor",
    "OSELMClassifier",
    "OSELMOrdinalClassifier",
    "RobustELMRegressor",
    "RobustNKELMRegressor",
]


def iterative(n=300):
    X, y = regression(n)
    return NKELMRegressor(**GIVEN, solver="iterative", tol=1e-9).fit(X, y), X, y


@pytest.mark.parametrize("what", ["partial_fit", "unlearn"])
def test_an_iterative_model_says_that_it_cannot_learn_on(what):
    model, X, y = iterative()
    expected = model.predict(X)
    with pytest.raises(
        ValueError, match=r'keeps no sums.*solver="direct"|got solver="iterative"; set solver="auto" or'
    ):
        getattr(model, what)(X[:10], y[:10])
    assert (model.predict(X) == expected).all()


def test_rows_in_blocks_take_the_direct_route_where_the_solver_is_open(monkeypatch):
    monkeypatch.setattr("ulmus.models.families.route_of", lambda *_: "iterative")
    X, y = regression(700)
    models = [NKELMRegressor(**GIVEN, solver=solver) for solver in ("direct", "auto")]
    for model in models:
        for block in (slice(0, 550), slice(550, 700)):
            model.partial_fit(X[block], y[block])
    assert not models[1].route_.startswith("iterative")
    assert relative_error(models[1].predict(X), models[0].predict(X)) == 0.0


def test_a_refit_by_the_other_route_leaves_nothing_behind():
    model, X, y = iterative()
    model.set_params(solver="direct").fit(X, y)
    assert model.n_iter_ == 1
    assert not hasattr(model, "residual_")
    assert relative_error(model.predict(X), NKELMRegressor(**GIVEN).fit(X, y).predict(X)) == 0.0
    model.set_params(solver="iterative").fit(X, y)
    assert not hasattr(model, "beta_")
    assert model.n_iter_ > 1


def test_an_iterative_model_is_saved_and_loaded(tmp_path):
    model, X, _ = iterative()
    ulmus.save(model, tmp_path / "model.ulmus")
    loaded = ulmus.load(tmp_path / "model.ulmus")
    assert (loaded.predict(X) == model.predict(X)).all()
    assert (loaded.predict_interval(X) == model.predict_interval(X)).all()


def test_the_graph_of_an_iterative_model_uses_all_landmarks(monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    from ulmus.onnx import export

    monkeypatch.setattr("ulmus.models.iterative.COMPANION", 20)
    model, X, _ = iterative()
    assert model.map_.n_features_out == 20
    found = onnxruntime.InferenceSession(export(model, dtype="float64").SerializeToString()).run(None, {"X": X})[0]
    assert relative_error(np.ravel(found), model.predict(X)) < 1e-9


@pytest.mark.parametrize("name", NEVER_CUDA)
def test_models_without_a_device_refuse_one(name):
    X, y = classification(60)
    with pytest.raises(ValueError, match="'device' parameter"):
        getattr(ulmus, name)(device="cuda").fit(X, y)


@pytest.mark.parametrize("name", ["NKELMOrdinalClassifier", "RobustNKELMRegressor"])
def test_only_nkelm_iterates_when_the_table_would(monkeypatch, name):
    monkeypatch.setattr("ulmus.models.families.route_of", lambda *_: "iterative")
    X, y = classification(150)
    given = {"gamma": 0.3, "C": 1.0, "random_state": 0}
    assert NKELMRegressor(30, **given).fit(X, y).route_ == "iterative cpu"
    model = getattr(ulmus, name)(30, **given).fit(X, y)
    assert model.map_.n_features_out == 30
    assert hasattr(model, "beta_")


def test_rows_in_blocks_refuse_the_iterative_solver_and_leave_the_model_as_it_was():
    X, y = regression(100)
    model = ulmus.NKELMRegressor(10, gamma=0.3, C=1.0, solver="iterative", random_state=0)
    with pytest.raises(ValueError, match=r'got solver="iterative"; set solver="auto" or "direct", or call fit'):
        model.partial_fit(X, y)
    assert not hasattr(model, "stream_")
    model.set_params(solver="direct").fit(X, y).partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match='got solver="iterative"'):
        model.set_params(solver="iterative").partial_fit(X, y)
    assert (model.predict(X) == before).all()
