"""The local stage by cells is that of whole partitions, and passes over rows find the minimum of rows in memory."""

import numpy as np
import pytest

from data import relative_error
from ulmus.backend import Host
from ulmus.engine import Precomputed, Rows
from ulmus.features.category import Category
from ulmus.features.partition import grafted, random_partition
from ulmus.features.sampling import joint_keys, label_keys, row_keys
from ulmus.solvers.cells import Cell, CellSolver
from ulmus.solvers.local import LeafProblem, LocalKernels, fit_leaves
from ulmus.solvers.log_passes import log_sums, minimise_by_passes
from ulmus.solvers.softmax import FeatureObjective, LogProblem, fit_softmax
from ulmus.streaming.batches import Batch
from ulmus.streaming.shelves import divided, records
from ulmus.streaming.survey import Survey


def rows_of(n=600, ties=False):
    rng = np.random.RandomState(0)
    U = rng.randint(0, 4, (n, 3)).astype(float) if ties else rng.standard_normal((n, 3))
    U = U.astype(np.float32).astype(float)  # the digits that coordinates have
    return Rows(U, rng.standard_normal((n, 2)), place=np.arange(n))


def cells_of(solver, rows, top, number=0):
    leaf = top.leaves(rows.X)
    return [solver.solve(rows.take(np.flatnonzero(leaf == k)), number, k, Host(1)) for k in range(top.n_leaves)]


@pytest.mark.parametrize("ties", [False, True])
def test_a_grafted_tree_sends_rows_to_the_leaves_of_their_part(ties):
    U = rows_of(ties=ties).X
    rng = np.random.RandomState(1)
    top = random_partition(U, 150, rng)
    parts = [random_partition(U[top.rows(k)], 20 if k % 2 else 1_000, rng) for k in range(top.n_leaves)]
    tree = grafted(top, parts)
    assert tree.n_leaves == sum(part.n_leaves for part in parts)
    first, cell = np.append(0, np.cumsum([part.n_leaves for part in parts])), top.leaves(U)
    expected = [first[k] + parts[k].leaves(u[None])[0] for k, u in zip(cell, U, strict=True)]
    np.testing.assert_array_equal(tree.leaves(U), expected)
    np.testing.assert_array_equal(np.bincount(expected, minlength=tree.n_leaves), np.diff(tree.starts))


def test_a_tree_of_one_cell_is_the_tree_of_the_cell():
    U = rows_of().X
    top, part = random_partition(U, 10_000, np.random.RandomState(0)), random_partition(U, 50, np.random.RandomState(0))
    for name, value in vars(grafted(top, [part])).items():
        np.testing.assert_array_equal(value, getattr(part, name))


def test_cells_together_are_the_leaves_of_their_partitions():
    rows = rows_of()
    solver = CellSolver("matern32", 0.5, 0.1, 60, seed=3)
    tops = [random_partition(rows.X, 200, np.random.RandomState(k)) for k in range(2)]
    both = [cells_of(solver, rows, top, k) for k, top in enumerate(tops)]
    local = solver.together(tops, both, len(rows))
    assert isinstance(local, LocalKernels)
    T, P = rows.T[:, :1], rows.T[:, 1:]
    order = np.concatenate([cell.numbers for cell in both[0]])
    np.testing.assert_array_equal(local.U, rows.X[order])
    alphas = fit_leaves(LeafProblem("matern32", 0.5, 0.1, local.U, (T - P)[order], None, local.partitions), single=True)
    for found, expected in zip(local.alphas, alphas, strict=True):
        assert relative_error(found, expected) < 1e-10
    dumped = [[Cell.restored(cell.dump()) for cell in several] for several in both]
    again = solver.together(tops, dumped, len(rows))
    np.testing.assert_array_equal(again.predict(rows.X), local.predict(rows.X))


def test_copies_in_a_cell_are_one_row_with_their_mean_and_weight():
    rows, solver = rows_of(80), CellSolver("laplacian_l1", 0.5, 0.1, 200, seed=0)
    top = random_partition(rows.X, 1_000, np.random.RandomState(0))
    twice = Rows(np.vstack([rows.X, rows.X]), np.vstack([rows.T, rows.T + 2.0]), None, place=np.arange(160))
    mean = Rows(rows.X, rows.T + 1.0, np.full(80, 2.0), place=np.arange(80))
    (one,), (other,) = cells_of(solver, twice, top), cells_of(solver, mean, top)
    np.testing.assert_array_equal(np.sort(one.numbers), np.arange(80))
    np.testing.assert_array_equal(one.numbers, other.numbers)
    assert relative_error(one.alpha, other.alpha) < 1e-10


def test_cells_of_different_fits_are_refused():
    rows, solver = rows_of(), CellSolver("matern32", 0.5, 0.1, 60, seed=3)
    tops = [random_partition(rows.X, 200, np.random.RandomState(k)) for k in range(2)]
    both = [cells_of(solver, rows, tops[0], 0), cells_of(solver, rows[:500], tops[1], 1)]
    with pytest.raises(RuntimeError, match="different rows"):
        solver.together(tops, both, len(rows))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("sampled", [60, 300])
def test_passes_with_the_curvature_of_a_sample_find_the_minimum_of_all_rows(classes, sampled):
    rng = np.random.RandomState(0)
    Phi = rng.standard_normal((1_200, 12))
    label = (Phi @ rng.standard_normal((12, classes)) + 2 * rng.standard_normal((1_200, classes))).argmax(axis=1)
    T = np.where(label[:, None] == np.arange(classes), 1.0, -1.0)[:, 1 if classes == 2 else 0 :]
    w = rng.uniform(0.5, 2.0, 1_200)
    whole = LogProblem.of(Phi, T, 10.0, w)
    few = LogProblem.of(Phi[:sampled], T[:sampled], 10.0, w[:sampled] * (w.sum() / w[:sampled].sum()))
    passes = []

    def sweep(v):
        passes.append(1)
        parts = [log_sums(Precomputed(12), whole.rows[k : k + 500], v[:-1], v[-1]) for k in range(0, 1_200, 500)]
        total = sum(parts)
        return float(total[0, 0]), total[1:]

    start = np.zeros((13, T.shape[1]))
    found = minimise_by_passes(FeatureObjective(few), start, sweep, tol=1e-8, max_passes=60)
    assert found.converged
    assert found.n_passes == len(passes)
    assert found.value == pytest.approx(fit_softmax(whole).value, rel=1e-7)


def test_what_parts_say_of_a_category_adds_up():
    rng = np.random.RandomState(0)
    codes, T, w = rng.randint(0, 9, 200).astype(float), rng.standard_normal((200, 2)), rng.uniform(0, 2, 200)
    whole = Category.of(codes, T, w)
    parts = Category.of(codes[:50], T[:50], w[:50]) + Category.of(codes[50:], T[50:], w[50:])
    for name in ("levels", "mass", "sums", "overall"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)


@pytest.mark.parametrize("labels", [False, True])
def test_keys_of_pairs_distinguish_targets(labels):
    y = np.array(["a", "b", "a", "c"]) if labels else np.array([0.0, 1.5, 0.0, 2.0])
    keys = joint_keys(row_keys(np.ones((4, 2)), 0), label_keys(y))
    assert keys[0] == keys[2]
    assert len(set(keys.tolist())) == 3
    as_objects = joint_keys(row_keys(np.ones((4, 2)), 0), label_keys(y.astype(object))) if labels else keys
    np.testing.assert_array_equal(as_objects, keys)


def test_the_keys_of_the_sample_give_the_number_of_distinct_rows():
    rng = np.random.RandomState(0)
    X = np.repeat(rng.standard_normal((20_000, 2)), 2, axis=0)
    survey = Survey(1_000, 7, False)
    survey.add(survey.look(Batch(X, np.zeros(len(X)), None, 0, "here")))
    survey.merge_pending()
    assert survey.n_rows == 40_000
    assert survey.n_distinct == pytest.approx(20_000, rel=0.12)  # four of its deviations, 1/√1000
    assert (survey.number % 2 == 0).all()


def test_rows_are_divided_among_cells_in_the_order_in_which_they_came():
    rng = np.random.RandomState(0)
    rows = records(Rows(rng.normal(size=(50, 2)), rng.normal(size=(50, 1))), rng.normal(size=(50, 1)), np.arange(50))
    cell = rng.randint(0, 9, 50)
    cell[cell == 4] = 5
    found = divided(rows, cell, 12)
    assert len(found) == 12
    for number, part in enumerate(found):
        np.testing.assert_array_equal(part, rows[cell == number])
        assert part.base is None
