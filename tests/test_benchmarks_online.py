"""The arithmetic of the benchmarks of streams."""

import sys
from pathlib import Path

import numpy as np
import pytest

from data import regression

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import online_accuracy
from ulmus import OSELMRegressor


def test_the_scaler_has_the_moments_of_the_rows_so_far():
    X = regression(50)[0]
    scaler = online_accuracy.Scaler(3)
    scaler.learn(X[:30])
    expected = (X - X[:30].mean(axis=0)) / X[:30].std(axis=0)
    np.testing.assert_allclose(scaler.transform(X), expected, atol=1e-12)


def test_errors_are_shares_of_the_deviation_or_of_the_rows():
    y = np.array([0.0, 2.0, 0.0, 2.0])
    assert online_accuracy.error(y, np.ones(4), True) == pytest.approx(100.0)
    assert online_accuracy.error(y, np.zeros(4), False) == pytest.approx(50.0)


def test_every_row_is_predicted_before_it_is_learned():
    seen = []

    class Spy(OSELMRegressor):
        def predict(self, X):
            seen.append(("predict", len(X)))
            return np.zeros(len(X))

        def partial_fit(self, X, y):
            seen.append(("learn", len(X)))
            return self

    X, y = regression(60)
    online_accuracy.in_blocks(Spy(), None)(X, y)
    assert seen[0] == ("learn", 1)
    assert seen[1::2] == [("predict", n) for n in [1] * 19 + [20, 20]]
    assert seen[2::2] == [("learn", n) for n in [1] * 19 + [20, 20]]
