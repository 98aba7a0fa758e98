"""A saved model is the same model, and a file can only hold data."""

import struct

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import ulmus
from data import classification, regression
from test_contract import ESTIMATORS
from ulmus.persistence import describe
from ulmus.persistence.file import FORMAT, _open, from_bytes, pack, to_bytes
from ulmus.persistence.registry import CLASSES, class_of

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def fitted(estimator):
    """The estimator, fitted to a small problem of its kind, and its rows."""
    X, y = classification(60) if is_classifier(estimator) or not is_regressor(estimator) else regression(60)
    return estimator.fit(X, y), X, y


def answers(model, X):
    """Everything a model says about rows."""
    asked = ("predict", "predict_proba", "decision_function", "transform", "predict_interval", "residual_kernel")
    return {name: getattr(model, name)(X) for name in asked if hasattr(model, name)}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


MODELS = [
    *ESTIMATORS,
    ulmus.ELMOrdinalClassifier(),
    ulmus.KELMOrdinalClassifier(loss="logistic"),
    ulmus.RobustELMRegressor(20),
    ulmus.RobustNKELMRegressor(20),
    ulmus.NKELMOrdinalClassifier(cost_matrix=[[0, 1, 2], [1, 0, 1], [2, 1, 0]]),
]


@pytest.mark.parametrize("estimator", MODELS, ids=str)
def test_a_loaded_model_gives_the_same_answers_bit_for_bit(estimator):
    model, X, _ = fitted(estimator)
    data = to_bytes(model)
    again = from_bytes(data)
    assert type(again) is type(model)
    assert str(again) == str(model)
    assert_same(answers(model, X), answers(again, X))
    assert to_bytes(again) == data


@pytest.mark.parametrize("estimator", [e for e in MODELS if hasattr(e, "partial_fit")], ids=str)
def test_a_loaded_online_model_continues_exactly(estimator):
    model, X, y = fitted(estimator)
    again = from_bytes(to_bytes(model))
    for each in (model, again):
        each.partial_fit(X[:20] + 0.1, y[:20])
    assert_same(answers(model, X), answers(again, X))
    assert to_bytes(again) == to_bytes(model)


def test_every_public_estimator_is_in_the_table():
    public = {getattr(ulmus, name) for name in ulmus.__all__}
    estimators = {c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)}
    assert estimators <= {class_of(name) for name in CLASSES}
    assert estimators <= {type(model) for model in MODELS}, "add the new model to the list, so that it is tried"


def test_the_table_names_classes_that_exist_and_carry_no_functions():
    classes = {class_of(name) for name in CLASSES}
    assert len(classes) == len(CLASSES)


@pytest.mark.parametrize("remainder", ["passthrough", "drop", StandardScaler()], ids=str)
def test_columns_that_pass_through_are_saved(remainder):
    X = mixed().fillna({"weight": 0.0})
    columns = ColumnTransformer(
        [("name", OneHotEncoder(), ["colour"]), ("none", "drop", ["shape"]), ("same", "passthrough", ["weight"])],
        remainder=remainder,
    )
    model = make_pipeline(columns, ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(X, X["length"])
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).predict(X), model.predict(X))
    target = TransformedTargetRegressor(ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(X[["length"]], X["weight"])
    again = from_bytes(to_bytes(target))
    np.testing.assert_array_equal(again.predict(X[["length"]]), target.predict(X[["length"]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["laplacian", "poly", "laplacian_l1"])
def test_kernels_and_types_of_rows_survive(kernel, dtype):
    X, y = regression(50)
    model = ulmus.NKELMRegressor(10, kernel=kernel, rank=5, random_state=0).fit(X.astype(dtype), y)
    again = from_bytes(to_bytes(model))
    assert_same(answers(model, X.astype(dtype)), answers(again, X.astype(dtype)))
    np.testing.assert_array_equal(model.tuning_.surface()["loss"], again.tuning_.surface()["loss"])


@pytest.mark.parametrize(
    "labels", [np.array([True, False]), np.array(["été", "✓"]), np.array(["a", "b"], object), [3, 7]]
)
def test_labels_of_every_kind_survive(labels):
    X, y = classification(50, classes=2)
    model = ulmus.KELMClassifier().fit(X, np.asarray(labels)[y])
    again = from_bytes(to_bytes(model))
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def mixed(n=80):
    rng = np.random.RandomState(0)
    return pd.DataFrame(
        {
            "length": rng.normal(size=n),
            "weight": np.where(rng.random_sample(n) < 0.2, np.nan, rng.normal(size=n)),
            "colour": rng.choice(["red", "green", "blue", "grey"], n),
            "shape": pd.Series(rng.choice(["round", "flat", ""], n)).replace("", None),
        }
    )


def test_a_pipeline_with_its_preprocessing_survives():
    X = mixed()
    columns = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["length", "weight"]),
            (
                "name",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="missing"),
                    OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist", sparse_output=False),
                ),
                ["colour", "shape"],
            ),
        ]
    )
    model = make_pipeline(columns, ulmus.NKELMRegressor(random_state=np.random.RandomState(5)))
    model.fit(X, X["length"] + X["weight"].fillna(0))
    again = from_bytes(to_bytes(model))
    X.loc[0, "colour"] = "unseen"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again[-1].random_state.random_sample() == model[-1].random_state.random_sample()


@pytest.mark.parametrize(
    "transformer",
    [
        KBinsDiscretizer(3, encode="ordinal", strategy="uniform"),
        OrdinalEncoder(),
        PolynomialFeatures(),
        PowerTransformer(),
        QuantileTransformer(n_quantiles=10),
        RobustScaler(),
        TargetEncoder(),
    ],
    ids=str,
)
def test_scikit_learn_transformers_of_the_table_survive(transformer):
    X, y = regression(60)
    X = np.round(X)
    model = make_pipeline(transformer, ulmus.ELMRegressor(5, random_state=0)).fit(X, y)
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).predict(X), model.predict(X))


def test_parameters_that_are_objects_survive():
    X, y = regression(60)
    inner = ulmus.NKELMRegressor(5, cv=StratifiedKFold(3), landmarks=X[:5], random_state=0)
    model = TransformedTargetRegressor(inner.set_params(cv=3), transformer=StandardScaler()).fit(X, y)
    again = from_bytes(to_bytes(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.regressor.landmarks, X[:5])


def test_sparse_rows_that_a_model_keeps_survive():
    X, y = classification(60)
    X[np.abs(X) < 0.5] = 0.0
    model = ulmus.ENDA(20, random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).predict_proba(X), model.predict_proba(X))


def test_what_is_shared_stays_shared():
    model, _, _ = fitted(ulmus.NKELMRegressor(10, random_state=0))
    assert model.map_.landmarks_ is model.map_.cross_kernel_.Z
    again = from_bytes(to_bytes(model))
    assert again.map_.landmarks_ is again.map_.cross_kernel_.Z
    assert again.map_.landmarks_.flags.writeable


def test_an_unfitted_model_can_be_saved():
    again = from_bytes(to_bytes(ulmus.NKELMRegressor(7, gamma=0.5)))
    assert again.get_params() == ulmus.NKELMRegressor(7, gamma=0.5).get_params()


def test_a_file_describes_itself(tmp_path):
    X = mixed()[["length", "weight"]].fillna(0)
    model = make_pipeline(StandardScaler(), ulmus.KELMClassifier()).fit(X, np.where(X["length"] > 0, "long", "short"))
    ulmus.save(model, tmp_path / "model.ulmus", notes={"target": "kind"})
    found = describe(tmp_path / "model.ulmus")
    assert found.model == "KELMClassifier"
    assert found.schema == {"n_features": 2, "features": ["length", "weight"], "classes": ["long", "short"]}
    assert found.notes == {"target": "kind"}
    assert found.versions["ulmus"] == ulmus.__version__
    assert [p.name for p in tmp_path.iterdir()] == ["model.ulmus"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.ulmus"
    ulmus.save(ulmus.KELMRegressor(), path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"KELMRegressor\.kernel"):
        ulmus.save(ulmus.KELMRegressor(kernel=lambda X, Z: X @ Z.T), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(FunctionTransformer(np.log), ulmus.KELMRegressor()),
        np.zeros(3),
        print,
        {"a": ulmus.KELMRegressor()},
    ],
)
def test_what_a_file_cannot_hold_is_refused_at_saving(model):
    with pytest.raises(TypeError, match="save"):
        to_bytes(model)


@pytest.fixture
def parts():
    model, _, _ = fitted(ulmus.KELMRegressor(gamma=1.0, C=1.0))
    description, body, arrays = _open(to_bytes(model))
    return {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}, arrays


def test_a_newer_format_is_refused_by_name(parts):
    content, arrays = parts
    with pytest.raises(ulmus.LoadError, match=f"format {FORMAT + 1}.*update"):
        from_bytes(pack({**content, "format": FORMAT + 1, "versions": {"ulmus": "9.0"}}, arrays))


def test_an_unknown_type_is_refused_by_name(parts):
    content, arrays = parts
    content["body"]["objects"][0]["class"] = "os.system"
    with pytest.raises(ulmus.LoadError, match=r"'os\.system', which is not a type that may be loaded"):
        from_bytes(pack(content, arrays))


def test_a_state_cannot_replace_a_method(parts):
    content, arrays = parts
    content["body"]["objects"][-1]["state"]["predict"] = 1
    with pytest.raises(ulmus.LoadError, match="predict"):
        from_bytes(pack(content, arrays))


def test_a_changed_byte_and_a_cut_are_named(tmp_path):
    path = tmp_path / "model.ulmus"
    ulmus.save(fitted(ulmus.KELMRegressor())[0], path)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ulmus.LoadError, match=r"model\.ulmus: the checksum does not match"):
        ulmus.load(path)
    path.write_bytes(data[: len(data) // 4])
    with pytest.raises(ulmus.LoadError, match="truncated"):
        ulmus.load(path)
    for other in (b"", b"PK\x03\x04 not ours at all", struct.pack("<Q", 2) + b"{}", struct.pack("<Q", 2**60) + b"{}"):
        path.write_bytes(other)
        with pytest.raises(ulmus.LoadError):
            ulmus.load(path)


def test_another_version_of_scikit_learn_is_reported(parts):
    model = make_pipeline(StandardScaler(), ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(*regression(30))
    description, body, arrays = _open(to_bytes(model))
    content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
    content["versions"]["scikit-learn"] = "0.1"
    with pytest.warns(InconsistentVersionWarning):
        from_bytes(pack(content, arrays))
