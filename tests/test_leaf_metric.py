"""The metric of leaves finds what many rows tell and few landmarks do not see."""

from dataclasses import replace

import numpy as np
import pytest

from data import cases, classification
from ulmus.codings import OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.models._effort import EFFORTS, MANY_ROWS
from ulmus.tuning import leaf_metric
from ulmus.tuning.leaf_metric import HostCut, Leaf, LeafMetric, searched, tasks_of
from ulmus.tuning.view_budget import Budget
from ulmus.tuning.views import ViewSearch


def rough(n=6_000, seed=0, weight=None):
    """A slow wave along the first of six columns, a fast one along the second, which landmarks hardly see."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, 6))
    T = (np.sin(2 * X[:, 0]) + np.sin(25 * X[:, 1]))[:, None]
    return Rows(X, T / T.std(), weight)


def looking(rows, kernel="matern32", **options):
    return LeafMetric(rows, kernel, Plain(rows.T.std(axis=0)), "auto", 0, **options)


@pytest.mark.parametrize("kernel", cases(["laplacian_l1", "matern32"], "matern32"))
def test_leaves_give_weight_to_a_column_that_varies_fast(kernel):
    A, (first, last) = looking(rough(), kernel).search(np.array([1.0, 0.2, 0.2, 0.2, 0.2, 0.2]))
    assert np.argmax(A) == 1
    assert A[2:].max() < 0.5
    assert last < 0.5 * first


def test_what_leaves_come_to_teaches_again_while_it_helps(monkeypatch):
    begin = np.array([1.0, 0.2, 0.2, 0.2, 0.2, 0.2])
    last = []
    for times in (1, leaf_metric.AGAIN):
        monkeypatch.setattr(leaf_metric, "AGAIN", times)
        A, losses = looking(rough()).search(begin)
        last.append(losses[1])
        assert losses[1] < (1 - leaf_metric.CLEAR) * losses[0]
    assert last[1] < (1 - leaf_metric.CLEAR) * last[0]
    assert A[[0, 2, 3, 4, 5]].max() < A[1]


def test_views_that_look_alike_are_searched_once(monkeypatch):
    asked, search = [], LeafMetric.search
    monkeypatch.setattr(LeafMetric, "search", lambda self, A: [asked.append(self.kernel), search(self, A)][1])
    A, rows = np.full(6, 0.5), rough(1_500)
    looks = [("laplacian_l1", A), ("matern32", A), ("laplacian_l1", A.copy())]
    found = searched(looks, rows, Plain(rows.T.std(axis=0)), "auto", 0, 1, None)
    assert sorted(asked) == ["laplacian_l1", "matern32"]
    np.testing.assert_array_equal(found[0][0], found[2][0])


@pytest.mark.parametrize("by_log", [True, False])
def test_a_log_model_whose_leaves_tell_far_more_needs_fewer_landmarks(monkeypatch, by_log):
    monkeypatch.setattr(LeafMetric, "search", lambda self, A: (A, (1e-9, 1e-9)))
    X, _ = classification(4_000, classes=2)
    targets = OneVsAll(np.arange(2))
    rows = Rows(X, targets.encode((np.sin(25 * X[:, 1]) > 0).astype(int)))
    budget = Budget(600, 80, 800, 100, rounds=1, final_landmarks=(100, 100), cuts=False, leaves=True)
    given = (rows, targets, np.zeros(X.shape[1], bool), np.random.RandomState(0))
    search = ViewSearch(*given, fit_intercept=False, budget=budget, by_log=by_log)
    search.choose()
    assert search.saturated == by_log


def test_leaves_whose_metric_is_refused_do_not_say_how_many_landmarks_there_are(monkeypatch):
    """They lose more than landmarks in their own metric, and half of what these lose in that of leaves."""
    X, _ = classification(4_000, classes=2)
    blind = (np.arange(X.shape[1]) > 0).astype(float)
    monkeypatch.setattr(LeafMetric, "search", lambda self, A: (blind, (0.2, 0.2)))
    targets = OneVsAll(np.arange(2))
    rows = Rows(X, targets.encode((X[:, 0] > 0).astype(int)))
    budget = Budget(600, 80, 800, 100, rounds=1, final_landmarks=(100, 100), cuts=False, leaves=True)
    given = (rows, targets, np.zeros(X.shape[1], bool), np.random.RandomState(0))
    search = ViewSearch(*given, fit_intercept=False, budget=budget, by_log=True)
    assert not np.array_equal(search.choose().metric, blind)
    assert not search.saturated


@pytest.mark.parametrize("helps", [True, False])
def test_landmarks_take_the_metric_of_leaves_that_lose_more_where_it_helps_them(monkeypatch, helps):
    """Leaves of a sample are coarse: that landmarks lose less says nothing against their metric."""
    known = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0] if helps else [1e-3, 1e-3, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(LeafMetric, "search", lambda self, A: (known, (1e9, 1e8)))
    rows = rough(4_000)
    budget = Budget(600, 80, 800, 100, rounds=1, final_landmarks=(100, 100), cuts=False, leaves=True)
    given = (rows, Plain(rows.T.std(axis=0)), np.zeros(6, bool), np.random.RandomState(0))
    view = ViewSearch(*given, fit_intercept=True, budget=budget).choose()
    assert np.array_equal(view.metric, known) == helps


def test_a_metric_stays_where_leaves_have_nothing_to_add():
    rows = rough()
    noise = replace(rows, T=np.random.RandomState(1).standard_normal(rows.T.shape))
    A = np.array([1.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert looking(noise).search(A)[0] is A


def test_columns_that_were_left_out_stay_out():
    A, _ = looking(rough()).search(np.array([1.0, 0.2, 0.0, 0.2, 0.0, 0.2]))
    assert np.flatnonzero(A == 0).tolist() == [2, 4]


def test_slopes_are_those_of_kernel_ridge_by_finite_differences():
    rows, A = rough(1_500), np.array([0.5, 1.0, 0.3, 0.3, 0.3, 0.3])
    cut = HostCut.of(rows, "matern32", A, 0, 1)
    leaves = cut.leaves(tasks_of(cut.partition, rows.X[:1] * A))
    found = leaves.slopes(1.0, 1e-2)
    (leaf,), step = leaves._leaves, 1e-6
    centred = leaf.T - leaf.T.mean(axis=0)
    cross, K = leaf._kernel(1.0)
    alpha = np.linalg.solve(K + 1e-2 * np.eye(len(K)), centred)

    def answers(U):
        out = np.empty((len(U), len(leaf.U)))
        cross.transform_block(U, out)
        return out @ alpha

    for j in range(6):
        moved = step * np.eye(6)[j]
        slope = (answers(leaf.U_held + moved) - answers(leaf.U_held - moved)) / (2 * step)
        assert found[j] == pytest.approx((slope**2).mean(), rel=1e-4)


@pytest.mark.parametrize(("kernel", "power"), [("matern32", 1), ("laplacian", 1), ("rbf", 2)])
def test_the_unit_of_a_leaf_is_the_median_distance(kernel, power):
    U = np.random.RandomState(0).normal(size=(31, 3))
    U[4] = U[3]
    away = np.linalg.norm(U[:, None] - U, axis=2)[np.triu_indices(31, 1)]
    leaf = Leaf(kernel, U, np.zeros((31, 1)), None, U, None)
    assert leaf.unit == pytest.approx(np.quantile(away[away > 0], 0.5, method="lower") ** -power)


def test_a_leaf_of_equal_rows_is_no_larger_than_others():
    """Rows that cannot be cut stay together, however many: a kernel matrix of all of them would fill the memory."""
    rows = rough(4_000)
    X = np.where(np.arange(4_000)[:, None] < 3_000, 0.5, rows.X)[np.random.RandomState(0).permutation(4_000)]
    cut = HostCut.of(replace(rows, X=X), "laplacian_l1", np.ones(6), 0, 1)
    assert np.diff(cut.partition.starts).max() >= 3_000
    sizes = [len(a) + len(b) for a, b in tasks_of(cut.partition, X[:100])]
    assert max(sizes) == leaf_metric.LEAF_ROWS


def test_threads_change_nothing():
    A = np.full(6, 0.5)
    one, two = (looking(rough(1_500), n_jobs=jobs).search(A)[0] for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_rows_that_are_all_equal_teach_no_metric():
    rows = Rows(np.ones((50, 3)), np.arange(50.0)[:, None])
    A = np.ones(3)
    assert looking(rows).search(A)[0] is A


def test_the_view_of_many_rows_is_that_of_their_leaves():
    """The default effort asks leaves from so many rows on; their metric is part of the view."""
    assert EFFORTS["default"].search(MANY_ROWS, numbers=True).leaves
    assert not EFFORTS["default"].search(MANY_ROWS - 1, numbers=True).leaves
    assert not EFFORTS["fast"].search(MANY_ROWS, numbers=True).leaves
    rows = rough(8_000)
    budget = Budget(600, 80, 800, 100, final_landmarks=(100, 100), cuts=False)
    views = []
    for leaves in (False, True):
        rng = np.random.RandomState(0)
        given = (rows, Plain(rows.T.std(axis=0)), np.zeros(6, bool), rng)
        search = ViewSearch(*given, fit_intercept=True, budget=replace(budget, leaves=leaves))
        views.append(search.choose())
    weights = [view.metric[1] / view.metric[0] for view in views]
    assert weights[1] > 2 * weights[0]


def test_folds_keep_the_metric_of_landmarks(monkeypatch):
    """Rows of a group that are held out must not be told by others of it, and leaves know no groups."""
    monkeypatch.setattr(leaf_metric.LeafMetric, "search", lambda *_: pytest.fail("leaves were asked"))
    rows = rough(2_000)
    rows = replace(rows, fold=np.arange(2_000) % 5)
    budget = Budget(400, 60, 500, 60, rounds=1, final_landmarks=(60, 60), cuts=False, leaves=True)
    given = (rows, Plain(rows.T.std(axis=0)), np.zeros(6, bool), np.random.RandomState(0))
    ViewSearch(*given, fit_intercept=True, budget=budget).choose()
