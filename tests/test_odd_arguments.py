"""Rows, targets and groups of odd types: taken for what they are, or refused in words that say what to do."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from ulmus import (
    ENDA,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    ELMOrdinalClassifier,
    ELMRegressor,
    LearnedMetric,
    NKELMRegressor,
    TableEncoder,
)

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = X[:, 0]
MASK = RNG.random((N, 2)) < 0.2
LABELS = np.array([0.0, 0.5, 1.0])[np.arange(N) % 3]
DAYS = pd.date_range("2020", periods=N)


def quick():
    return AdaptiveRegressor(effort="fast", random_state=0)


def test_masked_numbers_are_missing():
    holes, masked = np.where(MASK, np.nan, X), np.ma.masked_array(X, mask=MASK)
    model = quick().fit(masked, Y)
    assert_array_equal(model.predict(masked), quick().fit(holes, Y).predict(holes))
    encoder = TableEncoder().fit(masked)
    assert_array_equal(encoder.transform(masked), TableEncoder().fit(holes).transform(holes))
    words = np.ma.masked_array(np.array([["a"], ["b"]] * 30, dtype=object), mask=np.arange(N)[:, None] < 10)
    assert np.isnan(TableEncoder(prepared=False).fit(words).transform(words)[:10]).all()


@pytest.mark.parametrize("model", [ELMRegressor(5), NKELMRegressor(5), ENDA(), LearnedMetric()], ids=str)
def test_models_that_know_no_holes_refuse_masked_rows(model):
    masked, y = np.ma.masked_array(X, mask=MASK), (Y > 0).astype(int)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(masked, y)
    model.fit(np.ma.masked_array(X), y)
    with pytest.raises(ValueError, match="contains NaN"):
        getattr(model, "predict", model.transform if hasattr(model, "transform") else None)(masked)


@pytest.mark.parametrize("model", [ELMRegressor(5), ENDA(), ELMOrdinalClassifier(5), LearnedMetric()], ids=str)
def test_masked_targets_are_refused(model):
    y = np.ma.masked_array((Y > 0).astype(int), mask=np.arange(N) == 3)
    with pytest.raises(ValueError, match=r"y is masked in 1 of 60 rows, first in row 3 .* X\[~y.mask\]"):
        model.fit(X, y)


def test_complex_columns_of_frames_are_refused():
    with pytest.raises(ValueError, match=r"Complex data not supported.*two columns"):
        quick().fit(pd.DataFrame({"a": X[:, 0], "b": X[:, 1] + 1j}), Y)


@pytest.mark.parametrize("fit", [quick().fit, ELMRegressor(5).fit, lambda X, y: TableEncoder().fit(X)])
def test_rows_that_have_not_been_read_are_refused(fit):
    with pytest.raises(TypeError, match=r"X is a LazyFrame.*X.collect\(\)"):
        fit(pl.DataFrame({"a": X[:, 0]}).lazy(), Y)


@pytest.mark.parametrize("model", [quick(), ELMRegressor(5)], ids=str)
@pytest.mark.parametrize(
    "y",
    [DAYS, DAYS.tz_localize("UTC"), DAYS.to_numpy(), DAYS - DAYS[0], [datetime.date(2020, 1, 1)] * N],
    ids=["dates", "with a zone", "an array", "lengths", "a list"],
)
def test_moments_are_no_targets_of_regressors(model, y):
    with pytest.raises(ValueError, match=r"y holds moments.*pd.Timedelta\(days=1\)"):
        model.fit(X, y)


@pytest.mark.parametrize("model", [quick(), ELMRegressor(5)], ids=str)
def test_groups_must_be_there_and_of_one_type(model):
    with pytest.raises(ValueError, match=r"groups is missing \(None\) in 5 of 60 rows, first in row 0"):
        model.fit(X, Y, groups=np.array([None if i < 5 else i % 7 for i in range(N)], dtype=object))
    with pytest.raises(TypeError, match="groups must be of one type, got int and str; pass them as strings"):
        model.fit(X, Y, groups=np.array([1, "a"] * 30, dtype=object))


@pytest.mark.parametrize("model", [AdaptiveOrdinalClassifier(effort="fast"), ELMOrdinalClassifier(5)], ids=str)
def test_ordered_labels_may_have_fractions_where_they_are_named(model):
    with pytest.raises(ValueError, match=r"continuous. y has 3 different values, \[0.0, 0.5, 1.0\].*categories="):
        model.fit(X, LABELS)
    named = model.set_params(categories=[0, 0.5, 1]).fit(X, LABELS)
    assert_array_equal(named.classes_, [0, 0.5, 1])
    assert set(named.predict(X)) <= {0.0, 0.5, 1.0}
    with pytest.raises(ValueError, match=r"0\.25"):
        named.fit(X, np.where(LABELS == 0.5, 0.25, LABELS))


def test_a_cost_matrix_is_checked_before_the_fit(monkeypatch):
    model = ELMOrdinalClassifier(5, cost_matrix=np.eye(2))
    monkeypatch.setattr(type(model), "_train", lambda *_: pytest.fail("it was fitted"))
    with pytest.raises(ValueError, match="cost_matrix must be 3 × 3 finite numbers"):
        model.fit(X, np.arange(N) % 3)
