"""Tables with holes: adaptive models take them as they are."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.impute import SimpleImputer

import ulmus
from data import regression
from test_onnx import assert_equal_outputs
from test_onnx_adaptive import digits_lost
from ulmus import AdaptiveClassifier, AdaptiveRegressor
from ulmus.features.preparation import MISSING, PREPARATIONS, Preparation

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def holey(n, seed=0):
    """Two numbers and a code; the first number is missing where it would be large, which tells by itself."""
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.normal(size=n), rng.gamma(1, 100, n), rng.randint(0, 5, n)])
    y = np.where(X[:, 0] > 1, 3.0, X[:, 0]) + 0.5 * (X[:, 2] == 2) + 0.1 * rng.normal(size=n)
    X[X[:, 0] > 1, 0] = np.nan
    X[rng.uniform(size=n) < 0.1, 2] = np.nan
    return X, y


@pytest.mark.parametrize("kind", PREPARATIONS)
def test_missing_numbers_become_the_median_beside_a_mark(kind):
    X, y = holey(300)
    numbers = np.array([False, False, False])
    plain = SimpleImputer(strategy="median", add_indicator=True).fit(X)
    ours = Preparation.of(kind, X, y[:, None], None, numbers)
    filled = plain.transform(X)
    assert_array_equal(ours.gaps.shown, [0, 2])
    assert_allclose(ours.gaps.fills[0], plain.statistics_[0], atol=0.02 * np.nanstd(X[:, 0]))
    assert_allclose(ours.gaps.fills[2], plain.statistics_[2], atol=0.2)  # whole numbers: ours lies between them
    assert_allclose(ours.gaps.fills[1], plain.statistics_[1], rtol=1e-12)  # for rows that are still to come
    assert_array_equal(ours.transform(X)[:, 3:], filled[:, 3:])
    assert_array_equal(ours.sources(), [0, 1, 2, 0, 2])
    whole = Preparation.of(kind, ours.gaps.filled(X), y[:, None], None, numbers)
    assert_array_equal(ours.transform(X)[:, :3], whole.transform(ours.gaps.filled(X)))


def test_a_missing_category_is_a_level():
    X, y = holey(300)
    ours = Preparation.of("standard", X, y[:, None], None, np.array([False, False, True]))
    named = X.copy()
    named[np.isnan(X[:, 2]), 2] = MISSING
    known = Preparation.of("standard", named, y[:, None], None, np.array([False, False, True]))
    assert_array_equal(ours.transform(X), known.transform(named))


def test_no_code_that_somebody_uses_stands_for_missing():
    codes = np.array([[-2.0], [-1.0], [0.0], [np.nan]] * 10)
    ours = Preparation.of("standard", codes, np.arange(40.0)[:, None], None, np.array([True]))
    assert len(ours.categories[0].levels) == 4


def test_that_a_number_is_missing_is_learned():
    X, y = holey(1200)
    model = AdaptiveRegressor(effort="fast", categorical_features=[2], random_state=0).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > 0.95
    assert len(model.feature_importances_) == 3
    assert model.feature_importances_[0] > model.feature_importances_[1]


def test_weights_are_repetitions_in_tables_with_holes():
    X, y = holey(240)
    times = np.random.RandomState(1).randint(0, 3, 240)
    options = {"effort": "fast", "categorical_features": [2], "random_state": 0}
    weighted = AdaptiveRegressor(**options).fit(X, y, sample_weight=times)
    repeated = AdaptiveRegressor(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)


@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame])
def test_frames_with_holes(frames):
    X, y = holey(400)
    table = frames({"a": X[:, 0], "b": X[:, 1], "c": np.array(["x", "y", None], object)[(X[:, 1] % 3).astype(int)]})
    if frames is pl.DataFrame:
        table = table.with_columns(pl.col("a").fill_nan(None))
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(table[:300], y[:300] > 0)
    assert model.score(table[300:], y[300:] > 0) > 0.8


def test_a_hole_where_none_was_in_training_is_the_median():
    X, y = holey(341)
    model = AdaptiveRegressor(effort="fast", categorical_features=[2], random_state=0).fit(X, y)
    new, filled = X[:20].copy(), X[:20].copy()
    new[:, 1], filled[:, 1] = np.nan, np.median(X[:, 1])
    assert_array_equal(model.predict(new), model.predict(filled))
    assert_array_equal(model.predict_interval(new), model.predict_interval(filled))
    assert_equal_outputs(model, new, "float64", digits_lost(model))


@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame])
def test_a_frame_with_holes_where_none_was_in_training(frames):
    X, y = regression(241)
    kind = np.array(["a", "b", "c"])[np.arange(241) % 3]
    table = frames({"x": X[:, 0], "z": X[:, 1], "kind": kind})
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(table, y + (kind == "a"))
    new = frames({"x": [None, 0.5, None], "z": [0.1, None, 0.2], "kind": ["a", "b", None]})
    middle = [float(np.median(X[:, j])) for j in (0, 1)]
    filled = frames({"x": [middle[0], 0.5, middle[0]], "z": [0.1, middle[1], 0.2], "kind": ["a", "b", "never seen"]})
    assert_array_equal(model.predict(new), model.predict(filled))
    nothing = frames({"x": [None], "z": [None], "kind": [None]})
    nowhere = frames({"x": [middle[0]], "z": [middle[1]], "kind": ["never seen"]})
    assert_array_equal(model.predict(nothing), model.predict(nowhere))


def test_files_of_models_that_kept_no_medians_ask_for_numbers():
    X, y = holey(300)
    kind = Preparation.of("standard", X, y[:, None], None, np.zeros(3, bool))
    old = replace(kind, gaps=replace(kind.gaps, fills=np.where([False, True, False], np.nan, kind.gaps.fills)))
    assert_array_equal(old.transform(X), kind.transform(X))
    X[0, 1] = np.nan
    with pytest.raises(ValueError, match="fill them in, or fit the model again"):
        old.transform(X)


def test_a_column_without_any_number_changes_nothing():
    X, y = holey(300)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(np.column_stack([X, np.full(300, np.nan)]), y)
    assert np.isfinite(model.predict(np.column_stack([X, np.full(300, np.nan)]))).all()
    with pytest.raises(ValueError, match="infinity"):
        AdaptiveRegressor().fit(np.where(np.isnan(X), np.inf, X), y)


def test_files_keep_what_fills_the_holes(tmp_path):
    X, y = holey(300)
    model = AdaptiveRegressor(effort="fast", categorical_features=[2], random_state=0).fit(X, y)
    ulmus.save(model, tmp_path / "holes.ulmus")
    assert_array_equal(ulmus.load(tmp_path / "holes.ulmus").predict(X), model.predict(X))
    assert_equal_outputs(model, X, "float64", digits_lost(model))
