"""Copies of rows leave together: a weight, or a table pasted twice, does not let models be judged on rows they know."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ulmus import (
    ENDA,
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    RobustNKELMRegressor,
)
from ulmus.features.sampling import left_out_together
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(600, 4))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=600)


REGRESSORS = {
    "NKELM": lambda: NKELMRegressor(random_state=0),
    "KELM": lambda: KELMRegressor(random_state=0),
    "ELM": lambda: ELMRegressor(random_state=0),
    "robust": lambda: RobustNKELMRegressor(random_state=0),
    "adaptive": lambda: AdaptiveRegressor(effort="fast", random_state=0),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("how", ["weights of 5", "weights from 1 to 50", "every row twice"])
def test_copies_do_not_spoil_the_choices_of_regressors(noisy, name, how):
    X, y = noisy
    weight = None if how == "every row twice" else np.full(300, 5.0)
    if how == "weights from 1 to 50":
        weight = np.random.RandomState(1).uniform(1, 50, 300)
    times = 2 if weight is None else 1
    model = REGRESSORS[name]().fit(np.repeat(X[:300], times, axis=0), np.repeat(y[:300], times), weight)
    assert model.score(X[300:], y[300:]) > 0.68  # 0.72 to 0.83 without copies; one at a time gives down to -1500
    low, high = model.predict_interval(X[300:], coverage=0.9).T
    assert 0.8 < np.mean((low <= y[300:]) & (y[300:] <= high)) < 0.97


@pytest.mark.parametrize("make", [lambda: NKELMClassifier(random_state=0), lambda: ENDA(random_state=0)])
def test_copies_do_not_spoil_the_choices_of_classifiers(noisy, make):
    X, y = noisy
    labels = (y > 0.2).astype(int) + (y > 0.8)
    plain = make().fit(X[:300], labels[:300]).score(X[300:], labels[300:])
    weighted = make().fit(X[:300], labels[:300], sample_weight=np.full(300, 5.0)).score(X[300:], labels[300:])
    assert weighted > plain - 0.03


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_leaves_is_counted_over_equal_rows(form):
    X, T = np.array([[1.0, 0], [2, 0], [1, 0], [3, 5], [3, 5]]), np.array([[0.0], [1], [0], [4], [7]])
    # most rows with copies agree (three of five by weight): those that do leave together
    assert_array_equal(left_out_together(form(X), T, np.array([2.0, 1, 2, 1, 1])), [4, 1, 4, 1, 1])
    # most differ: they are observations of their own
    assert_array_equal(left_out_together(form(X), T, np.array([0.5, 1, 1, 2, 2])), [0.5, 1, 1, 1, 1])
    # without weights
    assert_array_equal(left_out_together(form(X[:3]), T[:3], None), [2, 1, 2])
    assert left_out_together(form(X[1:4]), T[1:4], None) is None
    assert_array_equal(left_out_together(form(X[1:4]), T[1:4], np.array([3.0, 0.2, 1])), [3, 0.2, 1])


def test_leaving_out_all_copies_equals_refits():
    rng = np.random.RandomState(0)
    first = rng.normal(size=(20, 3))
    X, T = np.repeat(first, 2, axis=0), np.repeat(np.sin(first[:, :1]), 2, axis=0)
    weight = rng.uniform(0.5, 3, 40)
    unit = left_out_together(X, T, weight)
    assert_allclose(unit, np.repeat(weight.reshape(20, 2).sum(axis=1), 2))
    F = np.tanh(X @ rng.normal(size=(3, 8)))
    predictions, _ = RidgePath(Statistics.of(F, T, weight)).leave_one_out(np.array([5.0]))(F, T, unit)
    for k in range(20):
        kept = np.arange(40) // 2 != k
        A = F[kept].T @ (weight[kept, None] * F[kept]) + np.eye(8) / 5.0
        beta = np.linalg.solve(A, F[kept].T @ (weight[kept, None] * T[kept]))
        assert_allclose(predictions[0, 2 * k : 2 * k + 2], F[~kept] @ beta, rtol=1e-9)
