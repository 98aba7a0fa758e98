"""One word for one value: categories know numbers and moments whatever type, batch or file they come in."""

import datetime
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from ulmus import AdaptiveRegressor, TableEncoder, UnseenLevelWarning
from ulmus.features.spelling import codes_of, of_number, other_spellings, spelled
from ulmus.tables.kinds import Kind, values
from ulmus.tables.objects import table_of

DAY, NOON = pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02 12:30", tz="Europe/Berlin")
MIXTURES = {
    "numbers": [5.0, 7.5, "x", "y"],
    "moments": [DAY, NOON, "x", "y"],
    "dates": [datetime.date(2024, 1, 1), np.datetime64("2024-01-02T05:00"), "x", "y"],
    "truth and numbers": [True, 7, "x", "y"],
    "lengths": [datetime.timedelta(1.5), pd.Timedelta("2h"), "x", "y"],
    "times": [datetime.time(14, 5), datetime.time(1, 2, 3), "x", "y"],
    "periods": [pd.Period("2024-01", "M"), Decimal("5.00"), "x", "y"],
}


def column(levels, n=60):
    found = np.empty(n, dtype=object)
    found[:] = [levels[i % len(levels)] for i in range(n)]
    return found


def encoded(column, **options):
    X = pd.DataFrame({"b": np.arange(len(column)) % 7.5, "a": column})
    return TableEncoder(prepared=False, kinds={"a": "category"}, **options).fit(X), X


@pytest.mark.parametrize("name", MIXTURES)
def test_a_row_alone_is_read_as_in_a_batch(name):
    encoder, X = encoded(column(MIXTURES[name]))
    together = encoder.transform(X)
    assert_array_equal(np.vstack([encoder.transform(X[i : i + 1]) for i in range(4)]), together[:4])
    assert len(np.unique(together[:, 1])) == 4
    array = X.to_numpy()
    by_array = TableEncoder(prepared=False, kinds={"x1": "category"}).fit(array)
    assert_array_equal(
        np.vstack([by_array.transform(array[i : i + 1]) for i in range(4)]), by_array.transform(array)[:4]
    )


def test_a_row_of_polars_is_read_as_in_a_batch():
    X = pl.DataFrame({"a": pl.Series("a", column([5.0, 7.5, "x", "y"]).tolist(), dtype=pl.Object)})
    encoder = TableEncoder(prepared=False, kinds={"a": "category"}).fit(X)
    assert_array_equal(np.vstack([encoder.transform(X[i : i + 1]) for i in range(4)]), encoder.transform(X)[:4])


def test_a_model_answers_a_row_alone_as_in_a_batch():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 150)
    X = pd.DataFrame({"b": rng.normal(size=150), "a": [[5.0, 7.5, "x", "y"][k] for k in level]})
    y = level + 0.1 * rng.normal(size=150)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(12)])
    np.testing.assert_allclose(alone, model.predict(X)[:12], atol=1e-9)


@pytest.mark.parametrize("fitted", [pd.Categorical, list])
@pytest.mark.parametrize("given", [float, int, str])
def test_levels_survive_a_change_of_type(fitted, given):
    numbers = [0.0, 1.0, 2.0, 3.0] * 5
    encoder, X = encoded(fitted([*numbers, "x"]) if fitted is list else fitted(numbers))
    other = X[:20].assign(a=np.array(numbers).astype(given))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(encoder.transform(other), encoder.transform(X)[:20])


def test_levels_of_files_by_earlier_versions_are_known():
    encoder, X = encoded(column([5.0, DAY, "5.5", "y"]))
    (b, a) = encoder.readers_
    codes = encoder.transform(X)
    assert a.levels == ("2024-01-01", "5", "5.5", "y")
    encoder.readers_ = (b, replace(a, levels=("2024-01-01 00:00:00", "5.0", "5.5", "y")))
    assert_array_equal(encoder.transform(X), codes)


def test_a_spelling_that_is_a_level_itself_is_that_level():
    assert codes_of(("1", "1.0", "x")) == {"1": 0, "1.0": 1, "x": 2}
    assert other_spellings("007.0") == other_spellings("v1.0") == other_spellings("1.20") == ()


def test_every_spelling_of_a_number_is_that_of_its_value():
    for value in (5, 5.0, np.float32(5), np.int8(5), Decimal("5.00")):
        assert spelled(value) == of_number("number", 5.0) == "5"
    assert spelled(DAY) == spelled(DAY.date()) == spelled(np.datetime64("2024-01-01")) == "2024-01-01"
    assert spelled(10**18 + 1) == "1000000000000000001"
    assert spelled(" x ") == "x"


def test_rows_of_json_are_read_alone_as_in_a_batch():
    rows = [{"a": 5.0}, {"a": 7.5}, {"a": "x"}, {"a": 5}, {"a": ["x", 5.0]}]
    together = values(table_of(rows[:4], {"a": None}).column("a"), Kind("category")).values
    alone = [values(table_of([row], {"a": None}).column("a"), Kind("category")).values[0] for row in rows[:4]]
    assert together.tolist() == alone == ["5", "7.5", "x", "5"]
    assert table_of(rows[4:], {"a": None}).column("a").to_pylist() == [["x", "5"]]


def test_a_row_alone_says_that_its_level_is_unseen():
    encoder, X = encoded(column(["u", "v", "x", "y"]))
    with pytest.warns(UnseenLevelWarning, match="1 of 1 values were not seen in training, starting with 'z'"):
        encoder.transform(X[:1].assign(a="z"))
    rare, Y = encoded(np.array([f"name {i}" if i % 3 else "x" for i in range(60)], dtype=object))
    with warnings.catch_warnings():  # where every other row had a level of its own, a new one is no news
        warnings.simplefilter("error")
        rare.transform(Y[:1].assign(a="z"))
