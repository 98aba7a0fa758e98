"""Copies of rows leave together: a weight, or a table pasted twice, does not let models be scored on rows they know."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from data import cases
from ulmus import (
    ENDA,
    AdaptiveClassifier,
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    NystromMap,
    RobustNKELMRegressor,
    engine,
)
from ulmus.engine import Rows
from ulmus.features import sampling
from ulmus.features.sampling import distinct_count, gathered, left_out_together, merged, row_keys
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


@pytest.mark.parametrize("name", cases(REGRESSORS, "NKELM", "KELM"))
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMClassifier(random_state=0),
        lambda: ENDA(random_state=0),
        lambda: AdaptiveClassifier(effort="fast", random_state=0),
    ],
)
def test_copies_do_not_spoil_the_choices_of_classifiers(noisy, make):
    X, y = noisy
    labels = (y > 0.2).astype(int) + (y > 0.8)
    plain = make().fit(X[:300], labels[:300]).score(X[300:], labels[300:])
    weighted = make().fit(X[:300], labels[:300], sample_weight=np.full(300, 5.0)).score(X[300:], labels[300:])
    assert weighted > plain - 0.03


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_leaves_is_counted_over_equal_rows(form):
    many = np.random.RandomState(0).normal(size=(40, 2))
    X, T = np.concatenate([many, many[[0, 1]]]), np.concatenate([many[:, :1], [many[0, :1], [7.0]]])
    weight = np.ones(42)
    # most rows with copies agree (by weight): those that do leave together
    weight[[0, 40]] = 2.0
    expected = np.ones(42)
    expected[[0, 40]] = 4.0
    assert_array_equal(left_out_together(form(X), T, weight), expected)
    # most differ: they are observations of their own
    weight[[0, 1, 40]] = 0.5, 2.0, 0.5
    assert_array_equal(left_out_together(form(X), T, weight), np.minimum(weight, 1.0))
    # without weights
    assert_array_equal(left_out_together(form(X[:41]), T[:41], None)[[0, 1, 40]], [2, 1, 2])
    assert left_out_together(form(many), many, None) is None
    # without copies a row leaves with its weight
    weight = np.linspace(0.2, 3, 40)
    assert_array_equal(left_out_together(form(many), many, weight), weight)


def test_rows_of_few_levels_meet_by_chance_and_leave_one_at_a_time():
    X = np.random.RandomState(0).randint(0, 3, size=(400, 5)).astype(float)
    T = X[:, :1] + X[:, 1:2]
    assert left_out_together(X, T, None) is None
    assert_array_equal(left_out_together(X, T, np.full(400, 3.0)), np.ones(400))
    # one column of measurements, and equal rows are copies
    X[:, 0] = np.random.RandomState(1).normal(size=400)
    assert_array_equal(left_out_together(X, T, np.full(400, 3.0)), np.full(400, 3.0))


def test_gathered_rows_cannot_distinguish_weights_from_copies():
    rng = np.random.RandomState(0)
    X, T = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    count = rng.randint(1, 4, 40)
    order = rng.permutation(np.repeat(np.arange(40), count))
    weighed = gathered(Rows(X, T, count.astype(float), count.astype(float)))
    copied = gathered(Rows(X[order], T[order], None, count[order].astype(float)))
    assert_array_equal(np.sort(weighed.X[:, 0]), np.sort(X[:, 0]))
    assert_array_equal(weighed.weight, [count[np.flatnonzero(X[:, 0] == x)[0]] for x in weighed.X[:, 0]])
    for name in ("X", "T", "weight", "unit"):
        assert_array_equal(getattr(weighed, name), getattr(copied, name))
    # equal inputs with other targets are rows of their own; rows that weigh 1 and have no copies are left alone
    assert len(gathered(Rows(X[[0, 0, 0]], T[[0, 1, 1]]))) == 2
    assert gathered(Rows(X, T, np.ones(40), np.ones(40))).weight is None


def test_leaving_out_all_copies_equals_refits():
    rng = np.random.RandomState(0)
    first = rng.normal(size=(40, 3))
    X, T = np.repeat(first, 2, axis=0), np.repeat(np.sin(first[:, :1]), 2, axis=0)
    weight = rng.uniform(0.5, 3, 80)
    unit = left_out_together(X, T, weight)
    assert_allclose(unit, np.repeat(weight.reshape(40, 2).sum(axis=1), 2))
    F = np.tanh(X @ rng.normal(size=(3, 8)))
    predictions, _ = RidgePath(Statistics.of(F, T, weight)).leave_one_out(np.array([5.0]))(F, T, unit)
    for k in range(40):
        kept = np.arange(80) // 2 != k
        A = F[kept].T @ (weight[kept, None] * F[kept]) + np.eye(8) / 5.0
        beta = np.linalg.solve(A, F[kept].T @ (weight[kept, None] * T[kept]))
        assert_allclose(predictions[0, 2 * k : 2 * k + 2], F[~kept] @ beta, rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_rows_as_landmarks_are_the_distinct_ones_in_their_order(form):
    X = np.round(np.random.RandomState(0).normal(size=(30, 2)), 1)
    again = np.concatenate([X, X[::-1]])
    kept = NystromMap(landmarks="all", gamma=5.0).fit(form(again))
    assert_array_equal(np.unique(kept.landmarks_, axis=0), np.unique(X, axis=0))
    assert kept.n_dropped_ == 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_kmeans_centre_of_a_row_alone_is_that_row(form):
    """To the last digit: whether a landmark leaves with its row hangs on it."""
    rng = np.random.RandomState(0)
    far = 100.0 + 10.0 * np.arange(6)[:, None] + rng.normal(size=(6, 3))
    X = np.concatenate([far, rng.normal(size=(20, 3))])
    Z = NystromMap(8, landmarks="kmeans", gamma=0.1, random_state=0).fit(form(X)).landmarks_
    nearest = np.abs(Z[:, None] - X).max(axis=2).min(axis=1)  # distance of each centre from the row next to it
    assert (nearest == 0).sum() >= 4
    assert not ((nearest > 0) & (nearest < 1e-10)).any()


def test_keys_of_pairs_are_those_of_both_side_by_side():
    rng = np.random.RandomState(0)
    X, T = rng.normal(size=(300, 3)), rng.normal(size=(300, 2))
    assert_array_equal(row_keys(sampling._Pairs(X, T), 5), row_keys(np.concatenate([X, T], axis=1), 5))


@pytest.mark.parametrize("n", [1, 64, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_keys_of_many_tiles_are_those_of_the_rows_one_by_one(monkeypatch, n, n_jobs):
    monkeypatch.setattr(engine, "TILE_BYTES", 16 * 8 * 3)
    monkeypatch.setattr(sampling, "TILES_EACH", 3)
    X = np.random.RandomState(0).normal(size=(n, 3))
    one_by_one = np.concatenate([row_keys(X[i : i + 1], 5) for i in range(n)])
    assert_array_equal(row_keys(X, 5, n_jobs), one_by_one)


def test_distinct_rows_are_counted_up_to_the_limit():
    X = np.repeat(np.random.RandomState(0).normal(size=(50, 2)), 30, axis=0)
    for enough in (10, 49, 50, 51, 10_000):
        found = distinct_count(X, enough)
        assert found == 50 or enough <= found < 50


def test_merged_rows_have_one_order_with_copies_and_without():
    rng = np.random.RandomState(0)
    rows = Rows(rng.normal(size=(50, 2)), rng.normal(size=(50, 1)), rng.uniform(1, 2, 50), place=np.arange(50))
    once = merged(rows, np.random.RandomState(1))
    twice = merged(rows.take(np.repeat(np.arange(50), 2)), np.random.RandomState(1))
    assert_array_equal(twice.place, once.place)
    assert_array_equal(rows.X[once.place], once.X)
    assert_array_equal(rows.weight[once.place], once.weight)
    assert_allclose(twice.weight, 2 * once.weight)
    assert_allclose(twice.T, once.T)


def test_samples_of_very_many_rows_are_drawn_from_one(monkeypatch):
    rng = np.random.RandomState(0)
    rows = Rows(rng.normal(size=(2_000, 2)), np.arange(2_000.0)[:, None])
    assert sampling.fewer(rows, rng) is rows
    monkeypatch.setattr(sampling, "DRAWN_FROM", 300)
    monkeypatch.setattr(sampling, "MANY_TIMES", 2)
    some = sampling.fewer(rows, np.random.RandomState(1))
    assert len(np.unique(some.T)) == len(some) == 300
    mixed = rng.permutation(2_000)
    again = sampling.fewer(rows.take(mixed), np.random.RandomState(1))
    assert_array_equal(again.T, some.T)
    assert abs(some.T.mean() - 1_000) < 4 * 2_000 / np.sqrt(12 * 300)


def test_degrees_of_freedom_per_row_are_the_same_for_a_weight_and_for_copies():
    rng = np.random.RandomState(0)
    X, k = rng.normal(size=(40, 2)), rng.randint(1, 4, 40)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    model = ELMRegressor(12, slope=1.0, C=10.0, random_state=0)
    weighed = clone(model).fit(X, y, sample_weight=k.astype(float))
    copied = clone(model).fit(np.repeat(X, k, axis=0), np.repeat(y, k))
    freedom = [m.fitted_.certainty.rows.freedom for m in (weighed, copied)]
    assert freedom[0] == pytest.approx(freedom[1], rel=1e-9)
