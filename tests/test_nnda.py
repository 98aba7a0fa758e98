"""NNDA: what it says of rows that its network has not seen."""

import numpy as np
import pytest

from data import cases
from ulmus import NNDA

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("seeds", cases([(0,), (0, 1, 2)]), ids=len)
def test_by_class_means_it_is_as_sure_of_new_rows_as_it_is_right(seeds):
    """The network nearly passes through rows that it has seen: they say nothing of how sure it may be of others."""
    above_accuracy, above_frequencies = [], []
    for seed in seeds:
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(1060, 3))
        y = (X[:, 0] + rng.normal(size=1060) > 0).astype(int)
        model = NNDA(15, activation="tanh", max_iter=100, head="mean", random_state=0).fit(X[:60], y[:60])
        P, new = model.predict_proba(X[60:]), y[60:]
        above_accuracy.append(P.max(axis=1).mean() - (P.argmax(axis=1) == new).mean())
        above_frequencies.append(-np.log(P[np.arange(1000), new]).mean() - np.log(2))
    assert abs(np.mean(above_accuracy)) < 0.08
    assert np.mean(above_frequencies) < 0.0


def test_a_class_of_one_row_is_missing_where_that_is_left_out():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(41, 2)), np.append(np.arange(40) % 2, 2)
    P = NNDA(5, max_iter=5, head="mean", random_state=0).fit(X, y).predict_proba(X)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
