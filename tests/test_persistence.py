"""A saved model is the same model, and a file can only hold data."""

import json
import os
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
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
    LabelEncoder,
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
from ulmus.persistence.budget import allowance
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


def forged(objects, root=-1, arrays=None):
    """The bytes of a file that somebody made who knows the format."""
    content = {
        "format": FORMAT,
        "versions": {"ulmus": ulmus.__version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "model": "forged",
        "schema": {},
        "notes": {},
        "body": {"root": {"object": root % len(objects)}, "objects": objects},
    }
    return pack(content, arrays or {})


def state_of(model):
    return _open(to_bytes(model))[1]["objects"]


PARAMETERS = {"class": "ulmus.features.kernels.KernelParameters", "state": {"gamma": 1.0, "degree": 3, "coef0": 1.0}}


def kernel_of(shape, data="0"):
    array = {"array": {"dtype": "<f8", "shape": shape, "order": "C", "data": data}}
    return {"class": "ulmus.features.kernels.CrossKernel", "arguments": ["rbf", array, {"object": 0}]}


def text(width, values):
    array = {"array": {"dtype": f"<U{width}", "shape": [len(values)], "values": values}}
    return [{"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]


def wide(cell, n):
    """A LabelEncoder whose classes are n copies of a piece of JSON."""
    array = {"array": {"dtype": "|O", "shape": [n], "values": [cell] * n}}
    return [{"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]


GREEDY = {
    "no rows of 2²⁷ columns": lambda: forged([PARAMETERS] + [kernel_of([0, 2**27])] * 3, arrays={"0": np.empty(0)}),
    "one long text": lambda: forged(text(100_000, ["x" * 100_000] + [""] * 5000)),
    "a wide type": lambda: forged(text(10**8, [""])),
    "kernels of the same rows": lambda: forged(
        [PARAMETERS] + [kernel_of([500, 500])] * 500, arrays={"0": np.zeros(250_000)}
    ),
    "an array many times": lambda: forged(
        wide({"array": {"dtype": "<f8", "shape": [50_000], "order": "C", "data": "0"}}, 2_000),
        arrays={"0": np.zeros(50_000)},
    ),
    "many columns of a sparse matrix": lambda: forged(
        [
            {
                "class": "sklearn.preprocessing.LabelEncoder",
                "state": {
                    "classes_": {
                        "csr": [
                            "csr_matrix",
                            *(
                                {"array": {"dtype": "<i8", "shape": [n], "order": "C", "data": name}}
                                for n, name in ((0, "0"), (0, "0"), (1, "1"))
                            ),
                            [0, 2**40],
                        ]
                    }
                },
            }
        ],
        arrays={"0": np.zeros(0, np.int64), "1": np.zeros(1, np.int64)},
    ),
    "empty lists": lambda: forged(wide([], 400_000)),
    "lists in lists": lambda: forged(wide([[[[]]]], 300_000)),
    "empty sets": lambda: forged(wide({"set": []}, 200_000)),
    "sets": lambda: forged(wide({"set": [1000, 2000, 3000, 4000, 5000]}, 50_000)),
    "generators": lambda: forged(
        wide(
            {"random": ["MT19937", {"array": {"dtype": "<u4", "shape": [624], "order": "C", "data": "0"}}, 0, 0, 0.0]},
            5_000,
        ),
        arrays={"0": np.zeros(624, np.uint32)},
    ),
    "letters of four bytes": lambda: forged(wide("🌳", 300_000)),
}


@pytest.mark.parametrize("case", GREEDY)
def test_loading_takes_at_most_the_stated_multiple_of_the_file(case):
    data = GREEDY[case]()
    tracemalloc.start()
    try:
        with suppress(ulmus.LoadError):
            from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= allowance(len(data))


def test_what_needs_more_memory_than_its_file_may_take_is_refused_at_saving():
    labels = np.array(["x" * 50_000, *(f"{i}" for i in range(200))])
    model = LabelEncoder().fit(labels)
    with pytest.raises(ValueError, match="more memory than a file of this size may"):
        to_bytes(model)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (make_pipeline(StandardScaler()), {"memory": "/tmp/elsewhere"}, "nor folders to write to; memory must be None"),
        (FunctionTransformer(), {"func": {"number": "object"}}, "func must be None"),
        (TransformedTargetRegressor(), {"inverse_func": {"number": "float"}}, "inverse_func must be None"),
        (StandardScaler(), {"with_mean": "yes"}, "'with_mean' parameter of StandardScaler must be"),
        (ulmus.KELMRegressor(), {"kernel": 3}, "kernel"),
        (StandardScaler(), {"_doc_link_template": "javascript:alert(1)"}, "_doc_link_template"),
        (StandardScaler(), {"_anything": 1}, "_anything"),
        (StandardScaler(), {"_sklearn_output_config": {"dict": [["transform", "os"]]}}, "_sklearn_output_config"),
        (StandardScaler(), {"n_features_in_": -1}, "n_features_in_"),
        (ulmus.KELMRegressor(), {"_parameter_constraints": {"dict": []}}, "_parameter_constraints"),
        (ulmus.NKELMRegressor(cv=StratifiedKFold(3)), {"split": 1}, "lacks|cannot have"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else None,
)
def test_a_forged_state_is_refused(model, change, message):
    objects = state_of(model)
    place = 0 if "split" in change else -1
    objects[place]["state"].update(change)
    with pytest.raises(ulmus.LoadError, match=message):
        from_bytes(forged(objects))


def test_a_forged_field_of_another_type_is_refused():
    model, _, _ = fitted(ulmus.NKELMRegressor(5, random_state=0))
    _, body, arrays = _open(to_bytes(model))
    tuning = next(o for o in body["objects"] if o["class"] == "ulmus.tuning.search.Tuning")
    tuning["state"]["trials"] = {"tuple": [1, 2]}
    with pytest.raises(ulmus.LoadError, match=r"Tuning\.trials must be"):
        from_bytes(forged(body["objects"], arrays=arrays))


def test_a_pipeline_that_would_write_to_a_folder_is_not_saved(tmp_path):
    model = make_pipeline(StandardScaler(), ulmus.KELMRegressor(), memory=str(tmp_path))
    with pytest.raises(TypeError, match="memory must be None"):
        to_bytes(model)


def test_keys_that_hold_objects_are_refused():
    """Their hash could take exponentially long."""
    array = {"array": {"dtype": "|O", "shape": [1], "values": [{"set": [{"tuple": [{"object": 0}]}]}]}}
    objects = [PARAMETERS, {"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]
    with pytest.raises(ulmus.LoadError, match="cannot be a key"):
        from_bytes(forged(objects))


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
        KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
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
    with pytest.raises(ulmus.LoadError, match=r"model\.ulmus: the checksum does not fit"):
        ulmus.load(path)
    path.write_bytes(data[: len(data) // 4])
    with pytest.raises(ulmus.LoadError, match="truncated"):
        ulmus.load(path)
    for other in (b"", b"PK\x03\x04 not ours at all", struct.pack("<Q", 2) + b"{}", struct.pack("<Q", 2**60) + b"{}"):
        path.write_bytes(other)
        with pytest.raises(ulmus.LoadError):
            ulmus.load(path)


def test_another_version_of_scikit_learn_is_told(parts):
    model = make_pipeline(StandardScaler(), ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(*regression(30))
    description, body, arrays = _open(to_bytes(model))
    content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
    content["versions"]["scikit-learn"] = "0.1"
    with pytest.warns(InconsistentVersionWarning):
        from_bytes(pack(content, arrays))


def test_ten_thousand_mutated_files_are_refused_or_load_to_the_same():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.fuzz._model_files", "7000", "3500"]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root)
    assert run.returncode == 0, run.stderr[-2000:]
    count = json.loads(run.stdout)
    assert count["damaged refused"] + count.get("damaged same", 0) == 7000
    assert sum(count.values()) == 10_500
    assert count["crafted refused"] > 1000
