"""A row of weight 0 is a row that is not there: neither its values nor its target, class or words are seen."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold

from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    ELMClassifier,
    ELMRegressor,
    KELMRegressor,
    NKELMRegressor,
    TableEncoder,
)

N, GONE = 120, 15
RNG = np.random.default_rng(0)
LEVEL, NOISE = RNG.integers(0, 4, N), RNG.normal(size=N)
W = np.where(np.arange(N) < GONE, 0.0, 1.0 + np.arange(N) % 2)
HERE = W > 0
Y = LEVEL + 0.1 * NOISE


def odd(values, others):
    """A column whose rows of weight 0 hold what no other has."""
    column = np.array(values, dtype=object)
    column[:GONE] = others
    return column


COLUMNS = {
    "a level": odd(np.array(list("bcde"))[LEVEL], "a"),
    "texts": odd(np.array(list("bcde"))[LEVEL], [f"word{i} of some text {i}" for i in range(GONE)]),
    "another constant": odd(np.ones(N), 2.0),
    "words among numbers": odd([f"{x:.3f}" for x in NOISE], "refused"),
    "holes": odd(NOISE, None),
    "long numbers": odd(LEVEL, 10**16),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_read_without_them(name):
    X = pd.DataFrame({"b": NOISE, "c": COLUMNS[name]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "1 of 2 columns are left out")
        weighed = AdaptiveRegressor(effort="fast", random_state=0).fit(X, Y, sample_weight=W)
    without = AdaptiveRegressor(effort="fast", random_state=0).fit(X[HERE], Y[HERE], sample_weight=W[HERE])
    assert_array_equal(weighed.predict(X[HERE]), without.predict(X[HERE]))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, lambda c: np.column_stack(list(c.values()))])
def test_an_encoder_learns_nothing_of_them(frame):
    columns = {"b": NOISE.astype(object), "c": odd(np.array(list("bcde"))[LEVEL], "a")}
    X, part = frame(columns), frame({name: column[HERE] for name, column in columns.items()})
    weighed, without = TableEncoder().fit(X, sample_weight=W), TableEncoder().fit(part, sample_weight=W[HERE])
    assert_array_equal(weighed.transform(part), without.transform(part))


@pytest.mark.parametrize(
    "model",
    [
        ELMRegressor(20, random_state=0, cv=4),
        NKELMRegressor(20, random_state=0, cv=KFold(3)),
        KELMRegressor(gamma=1.0),
        AdaptiveRegressor(effort="fast", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_holes_and_targets_that_are_not_there_do_not_matter(model):
    X, y = np.column_stack([NOISE, LEVEL]), Y.copy()
    X[:GONE], y[:GONE] = np.nan, np.nan
    answers = model.fit(X, y, sample_weight=W).predict(X[HERE])
    assert_array_equal(answers, model.fit(X[HERE], y[HERE], sample_weight=W[HERE]).predict(X[HERE]))


@pytest.mark.parametrize("model", [ELMClassifier(20, random_state=0), AdaptiveClassifier(effort="fast")])
def test_their_classes_are_none(model):
    X, y = np.column_stack([NOISE, LEVEL]), np.where(HERE, (Y > 1.5).astype(float), np.nan)
    assert_array_equal(model.fit(X, y, sample_weight=W).classes_, [0, 1])


def test_splits_that_are_given_as_rows_count_all_rows():
    X = np.column_stack([NOISE, LEVEL])
    splits = list(KFold(4).split(X))
    number = {int(i): k for k, (_, test) in enumerate(splits) for i in test}
    kept = np.array([number[int(i)] for i in np.flatnonzero(HERE)])
    fewer = [(np.flatnonzero(kept != k), np.flatnonzero(kept == k)) for k in range(4)]
    weighed = ELMRegressor(20, random_state=0, cv=splits).fit(X, Y, sample_weight=W)
    without = ELMRegressor(20, random_state=0, cv=fewer).fit(X[HERE], Y[HERE], sample_weight=W[HERE])
    assert_array_equal(weighed.predict(X), without.predict(X))


def test_lengths_that_differ_are_told_as_ever():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ELMRegressor(5).fit(np.zeros((N, 2)), Y[:-1], sample_weight=W)
