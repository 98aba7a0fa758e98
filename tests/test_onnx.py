"""An exported model says under ONNX Runtime what ours says."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import ulmus
from data import cases, classification, regression
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import KERNELS
from ulmus.onnx import export

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
#: Digits that single precision keeps of kernel and hidden features whose weights cancel.
SINGLE = 1e-2


def opened(made):
    """A session of one thread: graphs of tests are small, and threads that wait for work take it from others."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(made.SerializeToString(), options)


def session(model, **options):
    return opened(export(model, **options))


def run(model, inputs, **options):
    """Outputs by name."""
    s = session(model, **options)
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, inputs), strict=True))


def assert_equal_outputs(model, X, dtype, lost=0.0, **options):
    """Outputs agree to the digits of the type, or to those that a model has ``lost`` by itself."""
    X = X.astype(dtype)
    found = run(model, {"X": X}, dtype=dtype, **options)
    given = X.astype(np.float64)  # the same numbers, so that only the evaluation differs
    tolerance = max(TOLERANCE[dtype], lost) if options.get("compute") != "float32" else SINGLE
    if "prediction" in found:
        expected = model.predict(given)
        assert found["prediction"].shape == expected.shape
        assert found["prediction"].dtype == dtype
        assert np.abs(found["prediction"] - expected).max() <= tolerance * np.abs(expected).max()
    else:
        expected = model.predict_proba(given)
        assert found["probabilities"].dtype == dtype
        assert np.abs(found["probabilities"] - expected).max() <= tolerance
        sure = np.diff(np.sort(expected, axis=1)[:, -2:])[:, 0] > tolerance
        np.testing.assert_array_equal(found["label"][sure], model.predict(given)[sure])


FAMILIES = {"ELM": {"n_hidden": 40}, "KELM": {}, "NKELM": {"n_landmarks": 40}}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "task", cases(["one output", "two outputs", "two classes", "four classes"], "two outputs", "four classes")
)
def test_every_family_and_task_is_exported(family, task, dtype):
    X, y = {
        "one output": lambda: regression(100),
        "two outputs": lambda: regression(100, outputs=2),
        "two classes": lambda: classification(100, classes=2),
        "four classes": lambda: classification(100, classes=4),
    }[task]()
    kind = "Classifier" if "classes" in task else "Regressor"
    model = getattr(ulmus, family + kind)(**FAMILIES[family], random_state=0).fit(X, y)
    assert_equal_outputs(model, regression(50, seed=1)[0], dtype)


@pytest.mark.parametrize("metric", cases(["auto", "full", "low_rank"], "auto", "low_rank"))
@pytest.mark.parametrize("model", [ulmus.KELMRegressor, ulmus.NKELMClassifier, ulmus.NKELMOrdinalClassifier])
def test_a_learned_metric_comes_along(model, metric):
    X, y = regression(100) if model is ulmus.KELMRegressor else classification(100, classes=3)
    assert_equal_outputs(model(metric=metric, C=1.0, random_state=0).fit(X, y), regression(50, seed=1)[0], "float64")
    step = make_pipeline(ulmus.LearnedMetric(form="diagonal" if metric == "auto" else metric, random_state=0))
    step.steps.append(("model", model(C=1.0, random_state=0)))
    assert_equal_outputs(step.fit(X, y), regression(50, seed=1)[0], "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_of_the_table_is_exported(kernel, m, dtype):
    X, y = regression(80, m)
    # a firm penalty: large weights that cancel lose digits, in both evaluations alike
    model = ulmus.NKELMRegressor(20, kernel=kernel, gamma=0.3, C=10.0, random_state=0).fit(X, y)
    assert_equal_outputs(model, np.vstack([regression(50, m, seed=1)[0], X, np.zeros((1, m))]), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direct", cases([False, True], True))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_of_the_table_is_exported(activation, direct, dtype):
    X, y = regression(80)
    model = ulmus.ELMRegressor(20, activation=activation, direct_links=direct, C=100.0, random_state=0).fit(X, y)
    away = np.abs(model.map_.weights_.T @ X.T).T.min(axis=1) > 1e-3 if activation == "hardlim" else slice(None)
    assert_equal_outputs(model, X[away], dtype)


@pytest.mark.parametrize("labels", [["no", "yes", "peut-être"], [False, True], [10, 20, 30]])
def test_labels_come_back_in_their_own_type(labels):
    X, y = classification(90, classes=len(labels))
    y = np.array(labels)[y]
    model = ulmus.KELMClassifier().fit(X, y)
    found = run(model, {"X": X}, dtype="float64")["label"]
    np.testing.assert_array_equal(found.astype(y.dtype), model.predict(X))


@pytest.mark.parametrize("rank", [None, 8])
def test_features_of_whitened_maps_are_exported(rank):
    X, _ = regression(60)
    features = ulmus.NystromMap(50, gamma=0.3, rank=rank, random_state=0).fit(X)
    found = run(features, {"X": X}, dtype="float64")["features"]
    assert np.abs(found - features.transform(X)).max() < 1e-8  # the condition number of the landmarks is 1e8


def test_weights_of_earlier_models_are_applied_behind_the_whitening():
    X, y = regression(100, noise=0.0)
    model = ulmus.NKELMRegressor(80, gamma=0.02, C=1e8, random_state=0).fit(X, y)
    fitted = model.fitted_
    model.fitted_ = replace(fitted, weights=replace(fitted.weights, folds_in=()))
    found = run(model, {"X": X}, dtype="float64")["prediction"]
    # the round-off of kernel values, 1e-16, times the root of the condition number, 1e14, times |β|
    assert np.abs(found - model.predict(X)).max() < 1e-7


def test_single_precision_throughout_is_available():
    X, y = regression(100)
    model = ulmus.ELMRegressor(20, C=1.0, random_state=0).fit(X, y)
    assert_equal_outputs(model, X, "float32", compute="float32")
    graph = export(model, compute="float32").graph
    assert all(c.data_type != onnx.TensorProto.DOUBLE for c in graph.initializer)


SCALERS = [
    StandardScaler(),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    "passthrough",
    PCA(),
]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scalers_are_exported(scaler, dtype):
    X, y = regression(80)
    X = X * [1.0, 1e3, 1e-3] + [0.0, 1e6, 5.0]
    model = make_pipeline(scaler, StandardScaler(), ulmus.KELMRegressor(gamma=0.3, C=10.0)).fit(X, y)
    assert_equal_outputs(model, X, dtype)


def table(n=120):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "year": 2000.0 + rng.randint(20, size=n),
            "size": np.where(rng.random_sample(n) < 0.2, np.nan, rng.normal(size=n)),
            "never": np.nan,
            "town": rng.choice(["Rom", "Köln", "Oslo", "Bonn", "Ulm"], n, p=[0.4, 0.3, 0.2, 0.06, 0.04]),
            "kind": rng.choice(["a", "b", ""], n),
            "code": rng.choice([1.0, 2.0, np.nan], n),
        }
    )
    return frame, np.where(frame["town"] == "Rom", 2.0, 0.0) + np.nan_to_num(frame["size"]) + (frame["kind"] == "a")


def inputs_of(frame, dtype="float64"):
    return {c: frame[[c]].to_numpy(object if frame[c].dtype.kind not in "fib" else dtype) for c in frame}


ENCODERS = {
    "plain": OneHotEncoder(handle_unknown="ignore"),
    "sparse off": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "rare together": OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3),
    "first dropped": OneHotEncoder(drop="first"),
    "numbered": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_table_of_mixed_columns_is_exported(encoder):
    frame, y = table()
    columns = ColumnTransformer(
        [
            (
                "number",
                make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
                ["year", "size", "never"],
            ),
            ("text", ENCODERS[encoder], ["town", "kind"]),
            ("code", OneHotEncoder(handle_unknown="ignore"), ["code"]),
        ],
        sparse_threshold=0,
    )
    model = make_pipeline(columns, ulmus.NKELMRegressor(30, C=10.0, random_state=0)).fit(frame, y)
    if ENCODERS[encoder].handle_unknown != "error":
        frame.loc[:3, "town"] = "Paris"
        frame.loc[:3, "code"] = 7.0
    found = run(model, inputs_of(frame), dtype="float64")["prediction"]
    expected = model.predict(frame)
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()


def test_columns_that_are_dropped_need_not_be_given():
    frame, y = table()
    columns = ColumnTransformer([("text", OneHotEncoder(), ["town"]), ("year", "passthrough", [0])])
    model = make_pipeline(columns, StandardScaler(with_mean=False), ulmus.KELMRegressor()).fit(frame, y)
    s = session(model, dtype="float64")
    assert {i.name for i in s.get_inputs()} == {"town", "year"}
    found = s.run(None, {k: v for k, v in inputs_of(frame).items() if k in ("town", "year")})[0]
    assert np.abs(found - model.predict(frame)).max() < 1e-10


def test_unions_and_missing_text_are_exported():
    frame, y = table()
    text = make_pipeline(SimpleImputer(missing_values="", strategy="constant", fill_value="?"), OneHotEncoder())
    numbers = make_pipeline(SimpleImputer(), FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())]))
    columns = ColumnTransformer([("t", text, ["kind", "town"]), ("n", numbers, ["year", "size"])])
    model = make_pipeline(columns, StandardScaler(with_mean=False), ulmus.ELMRegressor(20, random_state=0)).fit(
        frame, y
    )
    wanted = [i.name for i in session(model).get_inputs()]
    found = run(model, {k: v for k, v in inputs_of(frame).items() if k in wanted}, dtype="float64")["prediction"]
    assert np.abs(found - model.predict(frame)).max() < 1e-10


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ulmus.KELMRegressor(kernel=lambda X, Z: X @ Z.T, C=1.0), "callable kernel"),
        (make_pipeline(FunctionTransformer(np.abs), ulmus.KELMRegressor()), "no Python functions"),
        (make_pipeline(StandardScaler(), MinMaxScaler()), "MinMaxScaler cannot be exported"),
    ],
    ids=["callable", "function", "no model"],
)
def test_what_cannot_be_exported_says_why(model, message):
    X, y = regression(30)
    with pytest.raises(TypeError, match=message):
        export(model.fit(X, y))


def test_a_wrong_type_is_named():
    with pytest.raises(ValueError, match=r"dtype must be one of .* got 'half'"):
        export(ulmus.KELMRegressor(), dtype="half")


def test_the_file_carries_the_version(tmp_path):
    X, y = regression(30)
    export(ulmus.KELMRegressor().fit(X, y), tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx")
    assert {p.key: p.value for p in loaded.metadata_props} == {
        "ulmus_version": ulmus.__version__,
        "model": "KELMRegressor",
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", ["RobustELMRegressor", "RobustNKELMRegressor"])
@pytest.mark.usefixtures("unscored")
def test_robust_models_are_exported(family, dtype):
    X, y = regression(100)
    model = getattr(ulmus, family)(random_state=0).fit(X, y)
    assert_equal_outputs(model, regression(50, seed=1)[0], dtype)


def grades(n=120):
    """Five ordered classes."""
    X, score = regression(n, noise=0.5)
    return X, np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("decoding", ["loss", "hamming", "threshold"])
@pytest.mark.parametrize("absent", cases([False, True], True))
@pytest.mark.parametrize("costs", cases([False, True], True))
def test_ordered_classes_are_exported(loss, decoding, absent, costs):
    X, y = grades()
    order = [0, 1, 9, 2, 3, 4, 8] if absent else [0, 1, 2, 3, 4]
    matrix = np.abs(np.subtract.outer(np.arange(len(order)), np.arange(len(order)))) if costs else None
    model = ulmus.NKELMOrdinalClassifier(
        20, loss=loss, decoding=decoding, categories=order, cost_matrix=matrix, C=10.0, random_state=0
    ).fit(X, y)
    assert_equal_outputs(model, 3 * regression(200, seed=1)[0], "float64")
    assert_equal_outputs(model, 3 * regression(200, seed=1)[0], "float32")


@pytest.mark.parametrize("family", ["ELM", "KELM"])
def test_the_other_ordinal_families_are_exported(family):
    X, y = grades()
    model = getattr(ulmus, f"{family}OrdinalClassifier")(C=10.0, random_state=0).fit(X, y)
    assert_equal_outputs(model, regression(200, seed=1)[0], "float64")


PROJECTIONS = {
    "ENDA": ulmus.ENDA(random_state=0),
    "ENDA, class means": ulmus.ENDA(features="nystrom", head="mean", random_state=0),
    "ENDA, metric": ulmus.ENDA(features="nystrom", metric="full", random_state=0),
    "KLDA, metric": ulmus.KLDA(metric="auto", random_state=0),
    "ensemble": ulmus.ENDAEnsemble(random_state=0),
    "ensemble, metric": ulmus.ENDAEnsemble(ulmus.ENDA(features="nystrom", metric="auto"), 3, random_state=0),
    "KLDA": ulmus.KLDA(head="mean"),
    "NNDA": ulmus.NNDA(random_state=0),
}


@pytest.mark.parametrize("dtype", cases(["float32", "float64"], "float32"))
@pytest.mark.parametrize("name", PROJECTIONS)
def test_discriminant_projections_are_exported_and_class_means_too(name, dtype):
    X, y = classification(120, classes=4)
    model = PROJECTIONS[name].fit(X, y)
    Q = regression(50, seed=1)[0].astype(dtype)
    found = run(model, {"X": Q}, dtype=dtype)
    expected = model.transform(Q.astype(np.float64))
    assert np.abs(found["projection"] - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()
    assert ("label" in found) == (getattr(model, "head", None) == "mean")
    if "label" in found:
        assert np.abs(found["probabilities"] - model.predict_proba(Q.astype(np.float64))).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["root", "covariance", "information"])
@pytest.mark.parametrize("rows", [60, 300], ids=["in the warm-up", "after it"])
def test_models_that_go_on_learning_are_exported_as_they_stand(form, rows, dtype):
    X, y = regression(rows)
    model = ulmus.OSELMRegressor(40, C=10.0, form=form, warm_up=100, random_state=0).partial_fit(X, y)
    for _ in range(2):
        assert_equal_outputs(model, regression(50, seed=1)[0], dtype)
        model.partial_fit(*regression(30, seed=2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [2, 4])
def test_online_classes_are_exported_late_ones_too(classes, dtype):
    X, y = classification(200, classes=classes)
    model = ulmus.OSELMClassifier(40, C=10.0, warm_up=50, random_state=0).partial_fit(X[y > 0], np.minimum(y[y > 0], 2))
    assert_equal_outputs(model.partial_fit(X, y), regression(50, seed=1)[0], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("decoding", ["loss", "hamming", "threshold"])
def test_online_ordered_classes_are_exported(decoding, dtype):
    X, y = grades()
    model = ulmus.OSELMOrdinalClassifier(40, C=10.0, warm_up=50, decoding=decoding, random_state=0)
    assert_equal_outputs(model.partial_fit(X, y), regression(100, seed=1)[0], dtype)
