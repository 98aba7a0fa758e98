"""The local stage: partitions, leaves, and the smooth return to nothing far away."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import pairwise_kernels

from data import examples
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features import partition as partition_of_rows
from ulmus.features.partition import grown, random_partition
from ulmus.models._stages import held_sets
from ulmus.solvers.local import LeafProblem, LocalKernels, fit_leaves, leaf_kernel, solve_leaf
from ulmus.tuning import local as tuning_local
from ulmus.tuning.folds import held_count
from ulmus.tuning.local import (
    FIRST_RIDGES,
    FIRST_WIDTH,
    GAIN,
    LOG,
    LOG_RIDGES,
    RIDGES,
    SQUARES,
    WIDTHS,
    LeavesOfSets,
    LocalSearch,
    Remainder,
    _Leaves,
    chosen_by_all,
)


def matern32(x, z, gamma):
    r = np.sqrt(3) * gamma * np.linalg.norm(x - z)
    return (1 + r) * np.exp(-r)


#: Independent kernels: scikit-learn's Laplacian, and the formula.
KERNEL_OF = {"laplacian_l1": "laplacian", "matern32": matern32}


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 300), st.integers(1, 4), st.integers(1, 60), st.integers(1, 5), st.integers(0, 1000))
def test_a_partition_holds_every_row_once_and_finds_it_again(n, d, leaf_rows, levels, seed):
    rng = np.random.RandomState(seed)
    U = rng.randint(0, levels, (n, d)).astype(float)
    partition = random_partition(U, leaf_rows, rng)
    assert_array_equal(np.sort(partition.order), np.arange(n))
    found = partition.leaves(U)
    for leaf in range(partition.n_leaves):
        rows = partition.rows(leaf)
        assert (found[rows] == leaf).all()
        assert len(rows) <= leaf_rows or (U[rows] == U[rows[0]]).all()


class PlainLevel:
    """Nodes by the numbers of their rows, one after the other: deviations by np.std, thresholds by np.quantile."""

    dtype = np.float64

    def __init__(self, U, nodes):
        self.U, self.nodes, self.n_columns, self.right = U, nodes, U.shape[1], {}

    @property
    def sizes(self):
        return np.array([len(rows) for rows in self.nodes], np.intp)

    def deviations(self, nodes):
        return np.array([self.U[self.nodes[node]].std(axis=0) for node in nodes]).reshape(-1, self.n_columns)

    def cut(self, nodes, column, quantile):
        return self._cut(nodes, [self.U[self.nodes[node], j] for node, j in zip(nodes, column)], quantile, 0.0)

    def turn(self, nodes, directions, quantile):
        return self._cut(nodes, [self.U[self.nodes[node]] @ way for node, way in zip(nodes, directions)], quantile, 0.5)

    def _cut(self, nodes, values, quantile, towards):
        thresholds, left = np.empty(len(nodes)), np.empty(len(nodes), np.intp)
        for i, (node, v, q) in enumerate(zip(nodes, values, quantile)):
            below = np.quantile(v, q, method="lower")
            if below == v.max():
                below = v[v < below].max(initial=-np.inf) if (v < below).any() else below
            above = v[v > below].min(initial=np.inf)
            thresholds[i] = below if not towards else (below + above) / 2
            self.right[node], left[i] = v > below, (v <= below).sum()
        return thresholds, left

    def rows(self, nodes):
        return [self.nodes[node] for node in nodes]

    def divided(self, nodes):
        sides = [(self.nodes[node], self.right[node]) for node in nodes]
        return PlainLevel(self.U, [half for rows, right in sides for half in (rows[~right], rows[right])])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 5), st.integers(20, 400), st.integers(0, 8), st.integers(0, 1000))
def test_a_partition_is_that_of_plain_levels(n, d, leaf_rows, levels, seed):
    rng = np.random.RandomState(seed)
    U = rng.normal(size=(n, d)) * rng.uniform(0, 2, d) + rng.normal(size=d) * 100
    U[:, 0] = rng.randint(0, levels + 1, n)
    expected = grown(PlainLevel(U, [np.arange(n)]), leaf_rows, np.random.RandomState(seed))
    with pytest.MonkeyPatch.context() as patch:  # several pieces of a node, and several tasks
        patch.setattr(partition_of_rows, "PIECE_CELLS", 97)
        patch.setattr(partition_of_rows, "TASK_CELLS", 500)
        found = random_partition(U, leaf_rows, np.random.RandomState(seed), n_jobs=2)
    for name in ("feature", "children", "order", "starts"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("threshold", "directions"):  # products along directions are rounded in another order
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-9)


def test_rows_are_left_as_they_were():
    U = np.random.RandomState(0).normal(size=(500, 3))
    before = U.copy()
    for rows in (U, np.asfortranarray(U)):
        random_partition(rows, 50, np.random.RandomState(0))
        assert_array_equal(rows, before)


def test_leaves_of_many_queries_are_those_of_each(monkeypatch):
    monkeypatch.setattr(partition_of_rows, "QUERIES", 7)
    rng = np.random.RandomState(0)
    partition = random_partition(rng.normal(size=(200, 2)), 10, rng)
    queries = rng.normal(size=(50, 2))
    assert_array_equal(partition.leaves(queries), np.concatenate([partition.leaves(q[None]) for q in queries]))
    assert partition.leaves(queries[:0]).shape == (0,)


def test_leaves_are_balanced_and_the_deviation_decides_which_column_is_cut():
    rng = np.random.RandomState(0)
    U = rng.normal(size=(4000, 3)) * [1.0, 1.0, 1e-9]
    partition = random_partition(U, 500, rng)
    sizes = np.diff(partition.starts)
    assert sizes.min() >= 0.4 * 250
    assert sizes.max() <= 500
    assert set(partition.feature.tolist()) <= {0, 1}


def test_one_leaf_with_all_rows_is_kernel_ridge():
    rng = np.random.RandomState(0)
    U, R, Q = rng.normal(size=(60, 3)), rng.normal(size=(60, 2)), rng.normal(size=(9, 3))
    partition = random_partition(U, 60, rng)
    (alpha,) = fit_leaves(LeafProblem("matern32", 0.7, 0.3, U, R, None, [partition]))
    stage = LocalKernels("matern32", 0.7, U, (partition,), (alpha,))
    r = np.sqrt(3) * 0.7 * np.linalg.norm(Q[:, None] - U[None], axis=2)
    rr = np.sqrt(3) * 0.7 * np.linalg.norm(U[:, None] - U[None], axis=2)
    reference = (1 + r) * np.exp(-r) @ np.linalg.solve((1 + rr) * np.exp(-rr) + 0.3 * np.eye(60), R)
    assert_allclose(stage.predict(Q), reference, rtol=1e-9)


def test_several_partitions_are_averaged_and_threads_do_not_matter():
    rng = np.random.RandomState(0)
    U, R, Q = rng.normal(size=(500, 2)), rng.normal(size=(500, 1)), rng.normal(size=(300, 2))
    partitions = tuple(random_partition(U, 100, rng) for _ in range(3))
    alphas = tuple(fit_leaves(LeafProblem("laplacian_l1", 1.0, 0.1, U, R, None, partitions)))
    stage = LocalKernels("laplacian_l1", 1.0, U, partitions, alphas)
    each = [LocalKernels("laplacian_l1", 1.0, U, (p,), (a,)).predict(Q) for p, a in zip(partitions, alphas)]
    assert_allclose(stage.predict(Q), np.mean(each, axis=0), rtol=1e-12)
    assert_array_equal(stage.predict(Q, n_jobs=1), stage.predict(Q, n_jobs=4))
    for alone, together in zip(partitions, alphas, strict=True):
        assert_array_equal(
            fit_leaves(LeafProblem("laplacian_l1", 1.0, 0.1, U, R, None, [alone]), n_jobs=1)[0], together
        )


def test_answers_fade_far_from_the_rows():
    rng = np.random.RandomState(0)
    U, R = rng.normal(size=(200, 2)), np.ones((200, 1))
    partition = random_partition(U, 50, rng)
    stage = LocalKernels(
        "matern32", 1.0, U, (partition,), tuple(fit_leaves(LeafProblem("matern32", 1.0, 0.1, U, R, None, [partition])))
    )
    near, edge, far = stage.predict(np.array([[0.0, 0.0], [8.0, 8.0], [80.0, 80.0]]))[:, 0]
    assert near > 0.8
    assert abs(edge) < 0.01
    assert abs(far) < 1e-12


def test_a_weight_is_a_repetition():
    rng = np.random.RandomState(0)
    U, R, w = rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), rng.randint(1, 4, 30)
    weighted = solve_leaf(leaf_kernel("matern32", 1.0, U), R, w.astype(float), 0.2)
    again = np.repeat(np.arange(30), w)
    repeated = solve_leaf(leaf_kernel("matern32", 1.0, U[again]), R[again], None, 0.2)
    Q = rng.normal(size=(5, 2))
    r = np.sqrt(3) * np.linalg.norm(Q[:, None] - U[None], axis=2)
    K = (1 + r) * np.exp(-r)
    assert_allclose(K @ weighted, K[:, again] @ repeated, rtol=1e-9)


def test_duplicates_without_a_penalty_still_give_an_answer():
    U = np.zeros((20, 2))
    alpha = solve_leaf(leaf_kernel("matern32", 1.0, U), np.ones((20, 1)), None, 1e-300)
    assert_allclose(leaf_kernel("matern32", 1.0, U) @ alpha, 1.0, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_leaf_that_is_no_more_after_a_failure_is_evaluated_again(dtype):
    rng = np.random.RandomState(0)
    U, R = np.repeat(rng.normal(size=(60, 2)), 5, axis=0), rng.normal(size=(300, 1))  # singular: the first factor fails
    asked = []

    def again(K):
        asked.append(leaf_kernel("laplacian_l1", 0.3, U, K, mirrored=False))

    half = leaf_kernel("laplacian_l1", 0.3, U, np.full((300, 300), np.nan, dtype), mirrored=False)
    whole = leaf_kernel("laplacian_l1", 0.3, U, np.empty((300, 300), dtype))
    assert np.isnan(half[-1, 0])
    assert_array_equal(np.triu(half), np.triu(whole))
    found = solve_leaf(half, R, None, 0.0, again)
    assert asked
    assert_array_equal(found, solve_leaf(whole, R, None, 0.0))


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32", "rbf"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("error")
def test_rows_beyond_single_precision_are_far_from_all_others(kernel, dtype):
    U = np.random.RandomState(0).normal(size=(200, 2))
    near = leaf_kernel(kernel, 0.7, U[:-2], np.empty((198, 198), dtype))
    U[-2], U[-1, 0] = 1e25, -1e60
    K = leaf_kernel(kernel, 0.7, U, np.empty((200, 200), dtype))
    assert_array_equal(K[:, -2:], np.eye(200)[:, -2:])
    assert np.isfinite(K).all()
    if kernel == "laplacian_l1":  # products lose what is near beside what is so far
        assert_allclose(K[:-2, :-2], near, atol=1e-5)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        solve_leaf(-np.eye(5), np.ones((5, 1)), None, 1e-12)


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_widths_and_penalties_are_sought_only_where_something_is_left_to_find(signal):
    rng = np.random.RandomState(0)
    U, noise = rng.uniform(-1, 1, size=(900, 2)), rng.normal(size=(900, 1))
    R = noise + signal * np.sin(5 * U[:, :1])
    data = Remainder(U[:600], R[:600], None, U[600:], R[600:], np.zeros((300, 1)), None)
    search = LocalSearch("matern32", 1.0, data, Plain(np.ones(1)))
    leaves = _Leaves(search, random_partition(data.U, 150, rng), 8)
    width, ridge = leaves.climb()
    first = {(FIRST_WIDTH, step) for step in FIRST_RIDGES}
    assert (set(leaves.tried) == first) == (signal == 0.0)
    assert (leaves.tried[width, ridge][0] < leaves.without) == (signal == 1.0)


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_width_and_a_penalty_are_scored_by_ridge_in_every_leaf(monkeypatch, kernel, kept):
    monkeypatch.setattr(tuning_local, "KEPT_BYTES", 2**28 if kept else 0)
    rng = np.random.RandomState(0)
    U, R, P = rng.normal(size=(300, 3)), rng.normal(size=(300, 2)), rng.normal(size=(80, 2))
    weight = rng.uniform(0.5, 2.0, 220)
    data = Remainder(U[:220], R[:220], weight, U[220:], R[220:], P, None)
    partition = random_partition(data.U, 60, rng)
    leaves = _Leaves(LocalSearch(kernel, 0.4, data, Plain(np.ones(2))), partition, 100)
    for width in (3, 1):  # distances of the first are seen again by the second
        leaves.score(width, [5])
        expected = P.copy()
        held_leaf = partition.leaves(data.U_held)
        for leaf in np.unique(held_leaf):
            rows, held, gamma = partition.rows(leaf), held_leaf == leaf, WIDTHS[width] * 0.4
            K = pairwise_kernels(data.U[rows], data.U[rows], metric=KERNEL_OF[kernel], gamma=gamma)
            k = pairwise_kernels(data.U_held[held], data.U[rows], metric=KERNEL_OF[kernel], gamma=gamma)
            expected[held] += k @ np.linalg.solve(K + np.diag(RIDGES[5] / weight[rows]), data.R[rows])
        loss, found = leaves.tried[width, 5]
        assert_allclose(found, expected[leaves.rows], rtol=1e-8, atol=1e-10)
        assert loss == pytest.approx(np.mean((expected - data.T_held) ** 2), rel=1e-8)


@pytest.mark.parametrize(
    ("valley", "seen"), [(4, {2, 3, 4}), (3, {2, 3, 4}), (2, {1, 2, 3}), (1, {0, 1, 2, 3}), (0, {0, 1, 2, 3})]
)
def test_widths_are_sought_on_the_side_that_gets_better(valley, seen):
    leaves = object.__new__(_Leaves)
    leaves.tried, leaves.without = {}, 1.0

    def score(width, steps):
        for step in steps:
            leaves.tried[width, step] = (0.5 + 0.05 * abs(width - valley) + 0.01 * abs(step - 6), None)

    leaves.score = score
    assert leaves.climb() == (valley, 6)
    assert {width for width, _ in leaves.tried} == seen


@pytest.mark.parametrize(("small", "large"), [(1 - 2 * GAIN, 8), (1.0, 0)])
def test_large_leaves_are_tried_where_small_ones_gain(monkeypatch, small, large):
    rng, made = np.random.RandomState(0), []
    U, R = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    data = Remainder(U[:150], R[:150], None, U[150:], R[150:], np.zeros((50, 1)), None)
    search = LocalSearch("matern32", 1.0, data, Plain(np.ones(1)))
    leaves = search.leaves(random_partition(data.U, 50, rng), 8)
    leaves.tried[2, 5] = (small * leaves.without, data.P_held[leaves.rows])
    monkeypatch.setattr(tuning_local, "_Leaves", lambda *given: made.append(given[2]) or _Leaves(*given))
    choice = search.on_full_leaves(leaves, (2, 5), random_partition(data.U, 150, rng), 8)
    assert made == [large] * (large > 0)
    assert large or not choice.pays


def test_the_more_rows_there_are_the_more_of_them_score_the_local_stage():
    assert [held_count(n) for n in (1_000, 20_000, 60_000, 10**5, 10**6)] == [500, 2_000, 5_000, 5_000, 50_000]


def test_few_rows_are_each_held_out_once_and_all_sets_choose_the_stage():
    rng = np.random.RandomState(0)
    U = rng.normal(size=(700, 3))
    T = np.sin(2 * U[:, :1]) + 0.3 * rng.normal(size=(700, 1))
    rows = Rows(U, T)
    held = held_sets(rows, np.random.RandomState(0))
    assert_array_equal(np.sum(held, axis=0), 1)
    assert len(held) == 5
    assert len(held_sets(Rows(np.repeat(U, 2, axis=0), np.repeat(T, 2, axis=0)), rng)) == 5  # copies are no more rows
    assert len(held_sets(Rows(rng.normal(size=(1_200, 3)), np.ones((1_200, 1))), rng)) == 1
    searches, small, whole = [], [], []
    for mask in held:
        data = Remainder(U[~mask], T[~mask], None, U[mask], T[mask], np.zeros((mask.sum(), 1)), None)
        searches.append(LocalSearch("matern32", 1.0, data, Plain(np.ones(1))))
        small.append(random_partition(data.U, 150, rng))
        whole.append(random_partition(data.U, 600, rng))
    choices = chosen_by_all(searches, small, whole, 8)
    assert len({(one.width, one.ridge) for one in choices}) == 1
    for choice, search, partition in zip(choices, searches, whole, strict=True):
        assert choice.loss == pytest.approx(search.scored(choice, partition, 8).loss)

    def mean_loss(width, ridge):
        asked = [replace(choices[0], width=width, ridge=float(ridge)) for _ in searches]
        found = [search.scored(one, part, 16) for search, one, part in zip(searches, asked, small, strict=True)]
        return np.average([one.loss for one in found], weights=[len(one.rows) for one in found])

    # no width beside the chosen one is clearly better on all sets together, whatever its penalty
    here = WIDTHS.index(choices[0].width)
    best = min(mean_loss(WIDTHS[here], ridge) for ridge in RIDGES)
    for width in WIDTHS[max(0, here - 1) : here + 2]:
        assert min(mean_loss(width, ridge) for ridge in RIDGES) >= 0.99 * best


def imagined(stage, losses, without=1.0):
    """Leaves whose losses are given by width and penalty."""
    leaves = object.__new__(_Leaves)
    leaves.stage, leaves.tried, leaves.without = stage, {}, without
    leaves.score = lambda width, steps: leaves.tried.update({(width, s): (losses(width, s), None) for s in steps})
    return leaves


@pytest.mark.parametrize("stage", [SQUARES, LOG])
def test_leaves_that_gain_nothing_with_any_penalty_are_given_up_at_once(stage):
    leaves = imagined(stage, lambda width, step: 2.0 - 0.9 * step / len(stage.ridges))
    assert leaves.climb() == (stage.first_width, stage.first_ridges[-1])
    assert set(leaves.tried) == {(stage.first_width, step) for step in stage.first_ridges}


@pytest.mark.parametrize("stage", [SQUARES, LOG])
def test_a_valley_of_weak_penalties_is_climbed_even_where_strong_ones_lose_less(stage):
    weak, other, last = stage.first_ridges[0] - 1, stage.first_width + 1, len(stage.ridges) - 1

    def losses(width, step):
        return 0.8 if (width, step) == (other, weak) else 1.3 - 0.2 / (1 + abs(step - weak)) - 0.25 * (step == last)

    leaves = imagined(stage, losses)
    assert leaves.climb() == (other, weak)


@pytest.mark.parametrize(("gain", "widths"), [(0.1, 1), (0.3, 3)])
@pytest.mark.parametrize("stage", [SQUARES, LOG])
def test_other_widths_are_tried_only_where_strong_penalties_gain_a_part_of_what_it_takes(stage, gain, widths):
    last = len(stage.ridges) - 1
    leaves = imagined(stage, lambda width, step: 1.0 - stage.gain * (gain - 0.01 * (last - step)))
    assert leaves.climb() == (stage.first_width, last)
    assert len({width for width, _ in leaves.tried}) == widths


@pytest.mark.parametrize(("ridge", "large"), [(len(LOG_RIDGES) - 1, False), (len(LOG_RIDGES) - 2, True)])
def test_large_log_leaves_are_not_tried_where_the_strongest_penalty_is_too_weak(ridge, large):
    asked, small = [], imagined(LOG, lambda width, step: 1.005)
    sets = LeavesOfSets.__new__(LeavesOfSets)
    small.rows, small.choice = np.arange(3), lambda best: best
    sets.each, sets.stage, sets.without, sets.tried = [small], LOG, 1.0, {(3, ridge): (1.005, None)}
    sets.at_full_size((3, ridge), lambda: asked.append(True) or sets)
    assert bool(asked) == large
