"""Streams: every row is predicted before it is learned, and errors are those of that."""

import numpy as np
import pytest

from data import cases, classification, regression
from experiments.contestants.streams import BLOCK, STREAMS, InBlocks, Scaler, prequential
from experiments.suites.suite import stream
from experiments.tasks import Task, load_stream
from ulmus import OSELMRegressor


def task_of(X, y, kind):
    return Task("little", kind, X, y, X, y)


def test_the_scaler_has_the_moments_of_the_rows_so_far():
    X = regression(50)[0]
    scaler = Scaler(3)
    scaler.learn(X[:30])
    expected = (X - X[:30].mean(axis=0)) / X[:30].std(axis=0)
    np.testing.assert_allclose(scaler.transform(X), expected, atol=1e-12)


def test_every_row_is_predicted_before_it_is_learned():
    seen = []

    class Spy(OSELMRegressor):
        def predict(self, X):
            seen.append(("predict", len(X)))
            return np.zeros(len(X))

        def partial_fit(self, X, y):
            seen.append(("learn", len(X)))
            return self

    prequential(InBlocks(Spy()), *regression(60))
    assert seen[0] == ("learn", 1)
    assert seen[1::2] == [("predict", n) for n in [1] * (BLOCK - 1) + [BLOCK, BLOCK]]
    assert seen[2::2] == [("learn", n) for n in [1] * (BLOCK - 1) + [BLOCK, BLOCK]]


def test_a_model_that_must_begin_on_many_rows_gets_all_of_them_at_once():
    learned = []

    class Spy:
        def partial_fit(self, X, y):
            learned.append(y)

        def predict(self, X):
            return np.zeros((len(X), 1))

    X, y = regression(100)
    predicted, _, _ = prequential(InBlocks(Spy(), first=50), X, y)
    assert [len(part) for part in learned] == [60, 20, 20]
    np.testing.assert_array_equal(np.concatenate(learned), y)
    np.testing.assert_array_equal(predicted[1:60], y[0])


@pytest.mark.parametrize(("kind", "rows"), [("regression", regression), ("classification", classification)])
@pytest.mark.parametrize(
    "name", cases(STREAMS, *(name for name in STREAMS if "ARF" not in name and "forgetting" not in name))
)
def test_every_contestant_learns_from_a_stream(kind, rows, name):
    if name.startswith("pyoselm"):
        pytest.importorskip("pyoselm")  # not part of the test extra
    X, y = rows(600)
    answer = stream(STREAMS[name](task_of(X, y, kind), 0), task_of(X, y, kind))
    # a constant has RMSE 1 in units of the deviation, and is wrong on half of two equal classes
    assert np.isfinite(answer["error"])
    if "river" not in name and "pyoselm" not in name:
        assert answer["error"] < (0.9 if kind == "regression" else 40)
    assert answer["rows_per_second"] == pytest.approx(600 / (answer["fit_seconds"] + answer["predict_seconds"]))


def test_a_stream_is_the_whole_set_in_another_order_for_every_seed():
    one, other = load_stream("wine", 0), load_stream("wine", 1)
    assert len(one.y) == 178
    assert (one.y != other.y).any()
    np.testing.assert_array_equal(np.sort(one.X, axis=0), np.sort(other.X, axis=0))
    short = one.first(50)
    assert len(short.y_test) == 50
