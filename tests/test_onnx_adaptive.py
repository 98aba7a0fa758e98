"""An exported adaptive model says what ours says: columns of every kind, the metric, and the leaf of every row."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import ulmus
from data import cases, examples
from test_onnx import TOLERANCE, assert_equal_outputs, opened, run
from ulmus.features.partition import random_partition
from ulmus.features.preparation import PREPARATIONS, Preparation
from ulmus.models import _effort
from ulmus.onnx.adaptive import _leaves, local_kernels
from ulmus.onnx.graph import Graph
from ulmus.onnx.tables import _curves
from ulmus.solvers.local import LeafProblem, LocalKernels, fit_leaves
from ulmus.tuning.local import LocalChoice
from ulmus.tuning.views import Budget

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

#: Small enough that a thousand rows have several leaves.
SMALL = _effort.Effort(Budget(300, 40, 400, 60, rounds=1, cuts=False), 60, 80, 80, 3, 8)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(_effort.EFFORTS, "fast", SMALL)


def evaluated(X, make, dtype=np.float64):
    """What ``make(g, X)`` computes under ONNX Runtime."""
    g = Graph(dtype)
    value, kind = make(g, g.declare("X", dtype, [None, X.shape[1]]))
    g.result(value, "out", kind, [None, None])
    return opened(g.model()).run(None, {"X": X.astype(dtype)})[0]


def wavy(n, seed=0):
    """Two numbers of different scale, a category of twelve levels; too fine a pattern for the global model."""
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.uniform(-3, 3, n), rng.gamma(1, 1000, n), rng.randint(0, 12, n)])
    return X, np.sin(6 * X[:, 0]) + 0.3 * np.log1p(X[:, 1]) + 0.5 * (X[:, 2] % 3)


def model_of(task, X, y, **options):
    thirds = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    kind, target = {
        "number": (ulmus.AdaptiveRegressor, y),
        "outputs": (ulmus.AdaptiveRegressor, np.column_stack([y, -y])),
        "classes": (ulmus.AdaptiveClassifier, np.array(["low", "mid", "high"])[thirds]),
        "order": (ulmus.AdaptiveOrdinalClassifier, thirds),
    }[task]
    return kind(effort="fast", random_state=0, **options).fit(X, target)


def digits_lost(model):
    """Kernel values have round-off, by which the weights on them are multiplied: f(x) = κ(x, Z) a."""
    a = model.map_.weight_to_landmarks(model.beta_)
    lost = 4 * np.finfo(float).eps * np.abs(a).sum(axis=0).max() * getattr(model, "temperature_", 1.0)
    assert lost < 1e-8
    return lost


@pytest.mark.parametrize("task", cases(["number", "outputs", "classes", "order"], "number", "classes"))
def test_every_task_is_exported_with_its_local_stage(task, monkeypatch):
    monkeypatch.setattr(LocalChoice, "pays", True)
    X, y = wavy(900)
    model = model_of(task, X, y, categorical_features=[2])
    assert model.local_ is not None
    Q = np.vstack([wavy(100, 1)[0], X[:200], 10 * X[:20]])
    Q[:5, 2] = 77  # never seen
    lost = digits_lost(model)
    for dtype in TOLERANCE:
        assert_equal_outputs(model, Q, dtype, lost)


def test_cuts_are_exported():
    X, _ = wavy(600)
    y = (X[:, 0] > 0.3) & (X[:, 1] < 800)
    X[::11, 1] = np.nan
    model = ulmus.AdaptiveClassifier(effort="fast", random_state=1)
    model._plan = replace(SMALL, budget=replace(SMALL.budget, cuts=True))
    cuts = model.fit(X, y).view_.preparation.cuts
    assert cuts is not None
    Q = X[:200].copy()
    Q[: len(cuts), 0] = cuts.at  # on a cut, and right beside it
    Q[len(cuts) : 2 * len(cuts), 0] = np.nextafter(cuts.at, np.inf)
    assert_equal_outputs(model, Q, "float64", digits_lost(model))


@pytest.mark.parametrize("rows", [1, 7])
def test_a_model_without_a_local_stage_and_single_rows_are_exported(rows):
    X, y = wavy(100)
    model = model_of("number", X, y)
    assert model.local_ is None
    assert_equal_outputs(model, X[:rows], "float64")


@pytest.mark.parametrize("kind", PREPARATIONS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_prepared_numbers_are_equal_to_the_last_bit(kind, data):
    column = st.one_of(st.floats(-1e6, 1e6, allow_subnormal=False), st.integers(-3, 3).map(float))
    X = data.draw(arrays(float, st.tuples(st.integers(2, 30), st.integers(1, 3)), elements=column))
    weight = np.ones(len(X))
    columns = Preparation.of(kind, X, weight[:, None], weight, np.zeros(X.shape[1], bool)).columns
    Q = np.vstack([X, X + 0.1, X.max(axis=0) + 1, X.min(axis=0) - 1, (X[1:] + X[:-1]) / 2])
    found = evaluated(Q, lambda g, x: (_curves(g, x, columns), np.float64))
    np.testing.assert_array_equal(found, columns.transform(Q))


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10_000), m=st.integers(1, 4), levels=st.integers(1, 50), leaf=st.integers(1, 40))
def test_every_row_finds_its_leaf(seed, m, levels, leaf):
    rng = np.random.RandomState(seed)
    U = rng.randint(levels, size=(80, m)).astype(np.float32).astype(float)  # ties, so that directions are cut too
    partitions = [random_partition(U, leaf, rng) for _ in range(3)]
    Q = np.vstack([U, rng.normal(scale=levels, size=(40, m)).astype(np.float32)])
    found = evaluated(Q, lambda g, x: (_leaves(g, x, partitions), np.int64))
    first = np.cumsum([0] + [p.n_leaves for p in partitions[:-1]])
    np.testing.assert_array_equal(found, np.column_stack([p.leaves(Q) for p in partitions]) + first)


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32", "laplacian", "rbf"])
def test_leaves_answer_alike_whatever_the_kernel(kernel):
    rng = np.random.RandomState(0)
    U = rng.normal(size=(300, 3)).astype(np.float32).astype(float)
    partitions = tuple(random_partition(U, 40, rng) for _ in range(2))
    alphas = tuple(fit_leaves(LeafProblem(kernel, 0.7, 0.1, U, rng.normal(size=(300, 2)), None, partitions)))
    local = LocalKernels(kernel, 0.7, U, partitions, alphas)
    Q = np.vstack([U, rng.normal(size=(50, 3)).astype(np.float32)])
    found = evaluated(Q, lambda g, x: (local_kernels(g, x, local), np.float64))
    assert np.abs(found - local.predict(Q)).max() < 1e-10


def people(n=400, seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Rom", "Köln", "Oslo", "Bonn", "Ulm"], n).astype(object),
            "size": rng.normal(size=n),
            "vip": rng.random_sample(n) < 0.5,
            "code": pd.Categorical(rng.choice([3, 7, 9], n)),
            "year": 2000 + rng.randint(20, size=n),
        }
    )
    y = np.where(frame["town"] == "Rom", 2.0, 0.0) + frame["size"] ** 2 + frame["vip"] + (frame["code"] == 7)
    frame.loc[::9, "town"] = None
    return frame, y.to_numpy()


def inputs_of(model, frame, dtype):
    """Inputs of the graph: levels as text, the rest as numbers."""
    text = [reader.name for reader in model.encoder_.readers_ if reader.levels is not None]
    inputs = {c: frame[[c]].to_numpy(dtype) for c in frame if c not in text}
    return inputs | {c: np.array([["" if pd.isna(v) else str(v)] for v in frame[c]], dtype=object) for c in text}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
@pytest.mark.parametrize("dtype", cases(TOLERANCE, "float32"))
def test_frames_with_text_are_exported_with_a_column_each(library, dtype):
    frame, y = people()
    y = y + np.where(frame["town"] == "Rom", np.sin(3 * frame["size"]), 0.0) * (1 + frame["vip"].to_numpy())
    # weights, and their round-off, are large for what is additive and has little noise
    y += 0.2 * np.random.RandomState(3).normal(size=len(y))
    numbers = ["size", "year"]
    frame[numbers] = frame[numbers].astype(dtype).astype(float)
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(library(frame), y)
    new = people(60, seed=1)[0]
    new[numbers] = new[numbers].astype(dtype).astype(float)
    new.loc[:3, "town"] = "Paris"  # never seen
    new.loc[4:8, "town"] = ["n/a", "-", "none", "NaN", "#N/A"]  # as missing as None
    found = run(model, inputs_of(model, new, dtype), dtype=dtype)["prediction"]
    expected = model.predict(library(new))
    lost = digits_lost(model) if dtype == "float64" else 0.0
    assert np.abs(found - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max() + lost


def test_levels_are_known_however_they_are_spelled():
    rng, day = np.random.RandomState(0), pd.Timestamp("2024-01-01")
    level, size = rng.randint(0, 3, 90), rng.normal(size=90)
    frame = pd.DataFrame({"size": size, "kind": [[5.0, day, "x"][k] for k in level]})
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(frame, level + np.sin(size))
    plain = model.predict(pd.DataFrame({"size": size[:3], "kind": [5, day, "x"]}))
    for words in (["5", "2024-01-01", "x"], ["5.0", "2024-01-01 00:00:00", "x"]):
        new = pd.DataFrame({"size": size[:3], "kind": words})
        np.testing.assert_array_equal(model.predict(new), plain)
        found = run(model, inputs_of(model, new, "float64"), dtype="float64")["prediction"]
        np.testing.assert_allclose(found, plain, atol=1e-6)


def test_an_adaptive_model_may_stand_behind_other_steps():
    X, y = wavy(300)
    model = make_pipeline(MinMaxScaler(), ulmus.AdaptiveRegressor(effort="fast", random_state=0)).fit(X[:, :2], y)
    assert_equal_outputs(model, X[:, :2], "float64")


def test_text_in_place_of_numbers_is_refused():
    frame, y = people()
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    with pytest.raises(TypeError, match="'size' held numbers in training"):
        ulmus.onnx.export(model, columns={"size": "string"})
    with pytest.raises(TypeError, match="'town' held text in training"):
        ulmus.onnx.export(model, columns={"town": "number"})


def test_a_model_larger_than_a_file_can_be_is_refused(monkeypatch):
    X, y = wavy(200)
    model = model_of("number", X, y)
    monkeypatch.setattr("ulmus.onnx.graph.LARGEST", 1000)
    with pytest.raises(ValueError, match="an ONNX file can hold 2"):
        ulmus.onnx.export(model)
