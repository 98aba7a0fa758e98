"""Boosted trees beside the kernels of adaptive models, in a share by rows left out."""

import threading
from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss

import ulmus
from data import cases
from test_onnx import TOLERANCE, assert_equal_outputs
from ulmus._threads import aside
from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.explain.game import Comparison
from ulmus.explain.tree_tables import tree_values
from ulmus.features import distances
from ulmus.models import _effort, _trees
from ulmus.models._reasons import TrainingRows
from ulmus.models._stages import Stages
from ulmus.models._trees import PRIOR, SURE, best_share, parts_for_trees
from ulmus.persistence.checks import StateError, check_state
from ulmus.solvers import boosted, tree_bins, tree_steps
from ulmus.solvers.boosted import DEPTH, PENALTY, BoostedTrees, Boosting, grown_trees
from ulmus.solvers.tree_bins import Bins, rounded_down
from ulmus.tuning.views import Budget

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
#: Few landmarks and no cuts, so that trees have something to add, and the same view with them and without.
SMALL = _effort.Effort(Budget(300, 40, 400, 60, rounds=1, cuts=False, additive=False), 60, 80, 80, 2, 8, tree_parts=3)
#: Where there is a C compiler, as CI has one, it is built; what it computes NumPy computes elsewhere.
COMPILED = pytest.mark.skipif(tree_steps.core is None, reason="the compiled core was not built")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(_effort.EFFORTS, "fast", SMALL)
    monkeypatch.setattr(boosted, "MOST", 100)


def steps(n, seed=0):
    """A rule of hard thresholds, with little noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, 4))
    rule = 2.0 * (X[:, 0] > 0.13) + (X[:, 1] > -0.41) * (X[:, 2] > 0.37) - 1.5 * (X[:, 3] > 0.62)
    return X, rule + 0.05 * rng.normal(size=n)


def coded(labels, k):
    return np.where(labels[:, None] == np.arange(k), 1.0, -1.0)[:, slice(None) if k > 2 else slice(1, None)]


def single(X):
    return X.astype(np.float32).astype(np.float64)


def boosting(rows, known, by_log):
    """A model that knows these of the rows."""
    bins = Bins.of(rows.X, rows.weights, 1)[0]
    return Boosting(rows, known, by_log, np.random.RandomState(0), bins, np.arange(len(bins)))


@pytest.fixture(params=[pytest.param("compiled", marks=COMPILED), "numpy"])
def form(request, monkeypatch):
    """Steps of trees in either form."""
    if request.param == "numpy":
        monkeypatch.setattr(tree_steps, "core", None)
    return request.param


def sides(x, cut, ordered):
    """Which rows are above a cut of a column."""
    return x > cut if ordered else (x == cut) & (cut > 0)


def brute_tree(table, rows, columns, g, h, size=1.0):
    """Column and cut of every level, sought among all: the first of the best."""
    found, nodes = [], [rows]
    for _ in range(DEPTH):
        gains = {}
        for j in columns:
            for cut in range(table.sizes[j]):
                above = sides(table.place[:, j], cut, table.ordered[j])
                parts = [some[above[some] == side] for some in nodes for side in (False, True)]
                gains[j, cut] = sum(g[part].sum() ** 2 / (h[part].sum() + PENALTY) for part in parts)
        j, cut = max(
            gains, key=lambda key: round(gains[key] / size, 9 if size == 1 else 6)
        )  # of heavy rows sums have fewer digits
        found.append((j, cut))
        above = sides(table.place[:, j], cut, table.ordered[j])
        nodes = [some[above[some] == side] for some in nodes for side in (False, True)]
    return found


def drawn_rows(levels, n, seed):
    """Rows in so many cells a column, of which every third has levels without an order, and derivatives."""
    rng = np.random.RandomState(seed)
    place = np.array([[rng.randint(k) for k in levels] for _ in range(n)], np.uint8)
    ordered = np.array([j % 3 != seed % 3 for j in range(len(levels))], np.int64)
    table = tree_steps.Table(place, np.ascontiguousarray(place.T), np.array(levels, np.int64), ordered)
    return table, rng.normal(size=n), rng.uniform(0.1, 1, n)


def one_tree(table, columns, rows, g, h, penalty, depth):
    """The tree that these derivatives of squares give, by some of the rows; and what it moves all rows by."""
    n, fitted = len(g), np.zeros((1, len(g)))
    digits = np.where(np.isin(np.arange(n), rows), 0, 1).astype(np.uint16)
    drawn = tree_steps.Drawn(np.arange(n), digits[None], np.array(columns)[None], np.ones((1, 1)), 1)
    losses = tree_steps.Losses(-(g / h)[None], h, False)
    found = tree_steps.boosted(table, drawn, losses, fitted, 1.0, penalty, depth)
    return found.column[0], found.cut[0], found.value[0, :, 0], fitted[0]


@pytest.mark.parametrize(
    "levels", [(2, 5, 9, 30), (2, 2, 2, 7, 2, 2, 2, 4, 2), (2,) * 9], ids=["few", "flags", "all flags"]
)
@pytest.mark.parametrize("seed", range(5))
def test_a_tree_has_the_best_cut_of_every_level(form, seed, levels):
    table, g, h = drawn_rows(levels, 90, seed)
    some, columns = np.arange(0, 90, 2), np.arange(len(levels))[1:]
    for rows, asked in ((np.arange(90), np.arange(len(levels))), (some, columns)):
        column, cut, value, moved = one_tree(table, asked, rows, g, h, PENALTY, DEPTH)
        assert list(zip(column, cut, strict=True)) == brute_tree(table, rows, asked, g, h)
        answers = [sides(table.place[:, j], at, table.ordered[j]) for j, at in zip(column, cut, strict=True)]
        leaf = 2 ** np.arange(DEPTH)[::-1] @ answers
        np.testing.assert_array_equal(moved, value[leaf])
        expected = [-g[leaf == k].sum() / (h[leaf == k].sum() + PENALTY) for k in range(2**DEPTH)]
        np.testing.assert_allclose(value, expected, atol=1e-12)


@pytest.mark.parametrize("size", [1e4, 1e9, 1e15])
def test_heavy_rows_leave_a_penalty_that_is_too_small_for_single_precision(form, size):
    table, g, h = drawn_rows((2, 5, 9, 30), 90, 0)
    rows, columns = np.arange(90), np.arange(4)
    column, cut, *_ = one_tree(table, columns, rows, size * g, size * h, PENALTY, 2)
    expected = brute_tree(table, rows, columns, size * g, size * h, size)[:2]
    assert list(zip(column, cut, strict=True)) == expected


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_cuts_do_not_hang_on_what_rows_weigh(form, size):
    table, g, h = drawn_rows((2, 5, 9, 30), 90, 0)
    columns, rows = np.arange(4), np.arange(90)
    expected = one_tree(table, columns, rows, g, h, PENALTY, DEPTH)
    found = one_tree(table, columns, rows, size * g, size * h, size * PENALTY, DEPTH)
    np.testing.assert_array_equal(found[:2], expected[:2])
    np.testing.assert_allclose(found[2], expected[2], atol=1e-12)


def test_exponentials_of_trees_are_those_of_numpy():
    x = np.concatenate([np.linspace(-750, 750, 100_001), np.random.RandomState(0).normal(size=1_000), [0.0, -0.0]])
    expected = np.exp(np.clip(x, -700, 700))
    assert np.abs(tree_steps.exponential(x) / expected - 1).max() < 1e-14


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_tree_by_log_loss_is_a_step_of_newton_from_where_scores_are(form, outputs):
    rng, n = np.random.RandomState(outputs), 60
    table, *_ = drawn_rows((2, 5, 9, 30), n, 0)
    F, w = rng.normal(size=(outputs, n)), rng.uniform(0.1, 2, n)
    labels = rng.randint(2 if outputs == 1 else outputs, size=n)
    Y = 1.0 * (labels[None] == np.arange(outputs)[:, None]) if outputs > 1 else 1.0 * labels[None]
    every = np.arange(n)
    drawn = tree_steps.Drawn(every, np.zeros((1, n), np.uint16), np.arange(4)[None], rng.normal(size=(1, outputs)), 1)
    moved = F.copy()
    column, cut, value = tree_steps.boosted(table, drawn, tree_steps.Losses(Y, w, True), moved, 0.1, 0.3, 3)
    p = 1 / (1 + np.exp(-F)) if outputs == 1 else np.exp(F) / np.exp(F).sum(axis=0)
    answers = [sides(table.place[:, j], at, table.ordered[j]) for j, at in zip(column[0], cut[0], strict=True)]
    leaf = 2 ** np.arange(3)[::-1] @ answers
    for k in range(outputs):
        g, h = w * (p[k] - Y[k]), w * p[k] * (1 - p[k])
        for own in np.unique(leaf):
            step = -0.1 * g[leaf == own].sum() / (h[leaf == own].sum() + 0.3)
            step *= (outputs - 1) / outputs if outputs > 1 else 1.0
            np.testing.assert_allclose(value[0, own, k], step, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(moved, F + value[0, leaf].T)


def test_flags_that_exclude_each_other_are_levels_of_one_column():
    rng = np.random.RandomState(0)
    level, other = rng.randint(0, 6, 200), rng.uniform(size=200)
    U = np.column_stack([other, *(2.5 * (level == k) for k in range(1, 6)), other > 0.5, np.ones(200), level == 3])
    for model, bins in enumerate(Bins.of(U, np.ones(200), 2)):
        assert bins.table.ordered.tolist() == [1, 0, 0, 0]  # the number, five levels, and two that are none of them
        assert bins.table.sizes.tolist() == [tree_bins.BINS, 6, 2, 2]
        np.testing.assert_array_equal(bins.table.place[:, 1], level)
        assert [list(each) for each in bins.features[1:]] == [[1, 1, 2, 3, 4, 5], [6, 6], [8, 8]]
        for column in range(4):
            for cut in range(bins.table.sizes[column]):
                (feature,), (threshold,) = bins.at(np.array([column]), np.array([cut]))
                above = sides(bins.table.place[:, column], cut, bins.table.ordered[column])
                np.testing.assert_array_equal(U[:, feature] > threshold, above, err_msg=f"{model} {column} {cut}")
    few = tree_bins.LEVELS + 3
    flags = np.eye(few)[rng.randint(0, few, 900)]
    assert [len(each) - 1 for each in Bins.of(flags, np.ones(900), 1)[0].features] == [tree_bins.LEVELS, 3]


@COMPILED
@pytest.mark.parametrize("labels", [None, "two numbers", 2, 3])
@pytest.mark.parametrize("n", cases([7, 70, 1_000, 9_000], 70, 1_000))
def test_the_compiled_core_and_numpy_grow_the_same_trees_to_the_last_bit(n, labels, monkeypatch):
    rng = np.random.RandomState(n)
    X = np.where(rng.uniform(size=(n, 9)) < 0.1, 0.0, rng.normal(size=(n, 9)) ** 3)
    X[:, 4:] = np.round(X[:, 4:])
    X[:, 6:] = np.eye(4)[rng.randint(0, 4, n), 1:]
    y = X[:, 0] + np.abs(X[:, 5]) + rng.normal(size=n)
    by_log = isinstance(labels, int)
    T = np.column_stack([y, y**2])[:, : 2 if labels else 1]
    if by_log:
        T = coded(np.digitize(y, [0.5, 1.5][: labels - 1]), labels)
    rows = Rows(single(X), T, rng.uniform(0.0, 2.0, n))
    monkeypatch.setattr(boosted, "COLUMNS", 6)
    found, known = [], np.arange(n) % 5 != 1
    for core in (tree_steps.core, None):
        monkeypatch.setattr(tree_steps, "core", core)
        model = boosting(rows, known, by_log)
        model.grow(30)
        trees = boosted._together([model], 30)
        found.append((trees.feature, trees.threshold, trees.value, model.fitted, trees.predict(X, 1)))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(found[0][4], model.fitted.T, atol=1e-12 * (1 + np.abs(model.fitted).max()))


@COMPILED
@pytest.mark.parametrize("kind", [ulmus.AdaptiveRegressor, ulmus.AdaptiveClassifier])
def test_a_model_does_not_depend_on_whether_the_core_was_built(kind, monkeypatch):
    X, y = steps(500)
    asked, found = steps(100, 1)[0], []
    for core in (tree_steps.core, None):
        monkeypatch.setattr(tree_steps, "core", core)
        monkeypatch.setattr(distances, "core", core)
        model = kind(effort="fast", random_state=0).fit(X, y if kind is ulmus.AdaptiveRegressor else y > 1)
        assert model.trees_ is not None
        found.append(model.predict(asked) if kind is ulmus.AdaptiveRegressor else model.decision_function(asked))
    np.testing.assert_array_equal(*found)


@COMPILED
def test_the_compiled_core_refuses_arrays_that_it_would_read_beyond():
    core, n = tree_steps.core, 10
    (place, turned, sizes, ordered), g, h = drawn_rows((3, 4), n, 0)
    given = {"place": place, "turned": turned, "sizes": sizes, "ordered": ordered, "learned": np.arange(n)}
    given |= {"digits": np.zeros((2, n), np.uint16), "columns": np.array([[0, 1]] * 2), "direction": np.ones((2, 1))}
    given |= {"target": g[None], "weight": h, "fitted": np.zeros((1, n)), "column": np.empty((2, 5), np.int64)}
    given |= {"cut": np.empty((2, 5), np.int64), "value": np.empty((2, 32, 1))}

    def boost(**changed):
        core.boost(*(given | changed).values(), 1, False, 0.1, 0.3)

    boost()
    boost(place=np.full_like(place, 255))  # cells that there are not
    boost(columns=np.array([[1, 1, 1]] * 2))
    for wrong, words in (
        ({"learned": np.arange(n) + 1}, "learned has 10, beyond 0 to 9"),
        ({"columns": np.array([[0, 2]] * 2)}, "columns has 2, beyond 0 to 1"),
        ({"sizes": np.array([3, 300])}, "sizes has 300, beyond 1 to 256"),
        ({"target": g[None, :9]}, "target should have 10, got 9"),
        ({"weight": h[:9]}, "weight should have 10, got 9"),
        ({"fitted": np.zeros((2, n))}, "fitted should have 1, got 2"),
        ({"digits": np.zeros((1, n), np.uint16)}, "digits should have 2, got 1"),
        ({"direction": np.ones((2, 2))}, "direction should have 1, got 2"),
        ({"value": np.empty((2, 16, 1))}, "leaves should have 32, got 16"),
        ({"ordered": ordered[:1]}, "ordered should have 2, got 1"),
        ({"turned": place}, "turned should have 2, got 10"),
        ({"turned": np.ascontiguousarray(turned[:, :9])}, "turned should have 10, got 9"),
        ({"target": np.full((1, n), np.nan)}, "derivatives do not add up to a finite number"),
        ({"weight": np.full(n, 1e308)}, "derivatives do not add up to a finite number"),
        ({"columns": np.zeros((2, 300), np.int64)}, "ask 1 to 255 columns"),
        ({name: np.empty((2, 9), np.int64) for name in ("column", "cut")}, "1 to 8 levels"),
    ):
        with pytest.raises((IndexError, ValueError), match=words):
            boost(**wrong)
    for wrong in (
        *({"weight": h.astype(np.float32)}, {"place": place.ravel()}, {"weight": "text"}),
        *({"place": place.astype(int)}, {"digits": np.zeros((2, n), np.int16)}),
    ):
        with pytest.raises(TypeError):
            boost(**wrong)
    with pytest.raises((BufferError, ValueError)):
        boost(place=np.asfortranarray(place))
    with pytest.raises(TypeError, match="expected 18 arguments, got 1"):
        core.boost(place)
    with pytest.raises(IndexError, match="feature has 7, beyond 0 to 1"):
        core.answer(np.full((1, 2), 7), np.zeros((1, 2)), np.zeros((1, 4, 1)), np.zeros((3, 2)), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="leaves should have 2147483648, got 2"):
        core.answer(np.zeros((1, 31), int), np.zeros((1, 31)), np.ones((1, 2, 1)), np.zeros((3, 1)), np.zeros((3, 1)))


@pytest.mark.parametrize("task", cases(["number", "numbers", "two", "three"], "three"))
def test_the_member_is_the_mean_of_models_without_each_part(task):
    X, y = steps(300)
    X, part, weight = single(X), np.arange(300) % 3, np.random.RandomState(1).uniform(0.5, 2.0, 300)
    labels = {"two": (y > 1).astype(int), "three": np.digitize(y, [0.5, 1.5])}.get(task)
    by_log = labels is not None
    T = coded(labels, labels.max() + 1) if by_log else np.column_stack([y, -(y**2)])[:, : 2 if task == "numbers" else 1]
    trees, answers = grown_trees(Rows(X, T, weight), part, by_log, 0, 1)
    asked, total = single(steps(200, 1)[0]), 0.0
    for k, own in enumerate(trees.apart()):
        _, one = grown_trees(Rows(X, T, weight), np.where(part == k, 0, -1), by_log, 0, 1)
        np.testing.assert_allclose(answers[part == k], own.predict(X[part == k]), atol=1e-9)
        total = total + own.predict(asked) / 3
        assert np.isnan(one[part != k]).all()
    np.testing.assert_allclose(trees.predict(asked), total, atol=1e-9)
    factor = np.arange(1.0, T.shape[1] + 1)
    np.testing.assert_allclose(trees.scaled(factor).predict(asked), factor * trees.predict(asked), atol=1e-12)


def test_trees_of_another_form_are_refused_by_files_too():
    state = {"constant": np.zeros(1), "feature": np.zeros((2, 3), int), "threshold": np.zeros((2, 3)), "models": 1}
    check_state(BoostedTrees, {**state, "value": np.zeros((2, 8, 1))})
    with pytest.raises(StateError, match=r"2 trees of 3 questions need as many thresholds and 2\^3 leaves each"):
        check_state(BoostedTrees, {**state, "value": np.zeros((2, 4, 1))})
    with pytest.raises(StateError, match="2 trees are not those of 3 models"):
        check_state(BoostedTrees, {**state, "models": 3, "value": np.zeros((2, 8, 1))})
    with pytest.raises(ValueError, match="trees have arrays"):
        BoostedTrees(**state, value=np.zeros((2, 8)))


@pytest.mark.parametrize("by_log", [False, True])
def test_every_tree_is_a_step_of_newton_in_its_leaves(form, by_log):
    X, y = steps(400)
    T = coded(np.digitize(y, [0.5, 1.5]), 3) if by_log else y[:, None]
    known = np.arange(400) % 3 != 0
    model = boosting(Rows(single(X), T), known, by_log)
    before = model.fitted.T.copy()
    model.grow(1)
    feature, threshold, value = (each[0] for each in model.first(1))
    leaf = (single(X)[:, feature] > threshold) @ np.array([16, 8, 4, 2, 1])
    p = np.exp(before) / np.exp(before).sum(axis=1, keepdims=True)
    G, H = (p - (T + 1) / 2, p * (1 - p)) if by_log else (before - T, np.ones_like(T))
    for one in np.unique(leaf):
        g, h = (D[(leaf == one) & known].sum(axis=0) for D in (G, H))
        step = -boosted.RATE * g / (h + PENALTY)
        np.testing.assert_allclose(value[one], step * (2 / 3 if by_log else 1), atol=1e-12)
    np.testing.assert_allclose(model.fitted.T, before + value[leaf], atol=1e-12)


@pytest.mark.parametrize("telling", [False, True])
def test_trees_ask_means_of_targets_only_where_rows_left_out_gain_by_it(telling):
    rng = np.random.RandomState(0)
    level = rng.randint(0, 100, 1_200)
    y = rng.normal(size=100)[level] + 0.3 * rng.normal(size=1_200)
    told = np.array([y[level == k].mean() for k in range(100)])[level] if telling else rng.normal(size=1_200)
    X = np.column_stack([*(level == k for k in range(20)), rng.normal(size=1_200), told])
    rows, part, means = Rows(single(X), y[:, None]), rng.permutation(1_200) % 3, np.arange(22) == 21
    trees, answers = grown_trees(rows, part, False, 0, 1, means)
    without = grown_trees(replace(rows, X=rows.X * ~means), part, False, 0, 1)[1]
    gained = np.mean((without[:, 0] - y) ** 2) - np.mean((answers[:, 0] - y) ** 2)
    assert (trees.feature == 21).any() == telling
    assert gained > 0.1 if telling else abs(gained) < 0.01
    bins = Bins.of(rows.X, rows.weights, 1, means)[0]  # and where they may be cut
    steps_of_means = np.diff(bins.thresholds[1][:-1])
    assert steps_of_means.min() > 0.99 * tree_bins.MEAN_STEP * told.std()
    np.testing.assert_array_equal(bins.table.place[:, 1], np.searchsorted(bins.thresholds[1], rows.X[:, 21]))


def test_models_are_grown_on_threads_of_their_own_to_the_same_bits():
    X, y = steps(300)
    rows, part = Rows(single(X), y[:, None]), np.arange(300) % 3
    (one, first), (two, second) = (grown_trees(rows, part, False, 0, n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(one.value, two.value)


def test_trees_learn_from_some_of_very_many_rows_and_answer_those_left_out(monkeypatch):
    monkeypatch.setattr(boosted, "LEARNED", 100)
    X, y = steps(400)
    part = np.where(np.arange(400) < 50, 0, -1)
    trees, answers = grown_trees(Rows(single(X), y[:, None]), part, False, 0, 1)
    np.testing.assert_array_equal(np.isnan(answers[:, 0]), part < 0)
    np.testing.assert_allclose(trees.predict(single(X[:50])), answers[:50], atol=1e-9)
    first = np.lexsort((y, boosted.row_keys(single(X), 0)))
    learned = first[part[first] < 0][:100]
    assert trees.constant[0] == pytest.approx(y[learned].mean())


@pytest.mark.parametrize("labels", cases([None, 2, 3], None, 3))
def test_trees_answer_new_rows_about_as_well_as_scikit_learns(labels):
    X, y = steps(2_000)
    X, asked, beyond = single(X[:1_500]), single(X[1_500:]), y[1_500:]
    rival = {"max_iter": 100, "early_stopping": False, "max_bins": tree_bins.BINS, "random_state": 0}
    if labels is None:
        T, loss = y[:1_500, None], lambda answers: np.mean((answers - beyond) ** 2)
        theirs = loss(HistGradientBoostingRegressor(**rival).fit(X, y[:1_500]).predict(asked))
    else:
        label = np.digitize(y, [0.5, 1.5] if labels == 3 else [0.5])
        T, new = coded(label[:1_500], labels), coded(label[1_500:], labels)
        fitted = HistGradientBoostingClassifier(**rival).fit(X, label[:1_500])
        theirs = np.mean(boosted.answer_losses(new, fitted.decision_function(asked).reshape(500, -1), True))
    both = Rows(np.concatenate([X, asked]), np.concatenate([T, np.zeros((500, T.shape[1]))]))
    model = boosting(both, np.arange(2_000) < 1_500, labels is not None)
    model.grow(100)
    answers = model.fitted[:, 1_500:].T
    ours = loss(answers[:, 0]) if labels is None else np.mean(boosted.answer_losses(new, answers, True))
    assert ours < 1.2 * theirs


def test_growing_ends_where_rows_left_out_are_best_answered():
    X, y = steps(300)
    y = y + np.random.RandomState(0).normal(size=300) * 3
    rows, part = Rows(X, y[:, None]), np.arange(300) % 3
    trees, answers = grown_trees(rows, part, False, 0, 1)
    own = np.mean((answers[:, 0] - y) ** 2)
    assert len(trees) < 3 * boosted.MOST
    order = np.lexsort((y, boosted.row_keys(X, 0)))
    rows, part = rows.take(order), part[order]
    bins = Bins.of(rows.X, rows.weights, 3)
    rngs = [np.random.RandomState((0, k)) for k in range(3)]
    every = np.arange(len(bins[0]))
    models = [
        Boosting(rows, part != k, False, rng, own, every) for k, (rng, own) in enumerate(zip(rngs, bins, strict=True))
    ]
    for count in range(boosted.FIRST, len(trees) // 3 + boosted.PATIENCE * boosted.CHUNK + 1, boosted.CHUNK):
        for each in models:
            each.grow(count)
        loss = np.mean([(models[k].fitted[0, i] - rows.T[i, 0]) ** 2 for i, k in enumerate(part)])
        assert own <= loss * (1 + 1e-9)
        assert (len(trees) == 3 * count) == (abs(own / loss - 1) < 1e-9)
    assert grown_trees(rows, np.full(300, -1), False, 0, 1) is None


def test_after_many_trees_growing_goes_on_for_what_is_worth_it_alone(monkeypatch):
    X = steps(900)[0]
    y = np.sin(5 * X).sum(axis=1)  # smooth, so that many trees are wanted
    rows, part = Rows(X, y[:, None]), np.arange(900) % 3
    monkeypatch.setattr(boosted, "MANY", 30)
    found = {}
    for worth in (1.0, 0.2, 0.0):
        monkeypatch.setattr(boosted, "WORTH", worth)
        trees, answers = grown_trees(rows, part, False, 0, 1)
        found[worth] = len(trees) // 3, np.mean((answers[:, 0] - y) ** 2)
    (few, first), (some, second), (most, third) = found.values()
    assert few == boosted.MANY + boosted.PATIENCE * boosted.CHUNK < some < most
    assert first > second > third  # all of them are the best that was seen


def test_no_trees_are_grown_where_one_part_holds_all_rows():
    X, y = steps(50)
    rows = Rows(single(X), y[:, None])
    assert grown_trees(rows, np.zeros(50, int), False, 0, 1) is None
    X = np.zeros((400, 1))
    X[0] = 1.0
    for seed in range(3):
        model = ulmus.AdaptiveRegressor(effort="fast", random_state=seed).fit(X, y[:1].repeat(400) + X[:, 0])
        assert np.isfinite(model.predict(X)).all()


def test_thresholds_of_few_digits_divide_numbers_of_few_digits_alike():
    rng = np.random.RandomState(0)
    x = np.sort(rng.normal(size=500).astype(np.float32)).astype(np.float64)
    for t in (*(x[:-1] + x[1:]) / 2, *x, 1e300, np.inf, -1e-60):
        few = rounded_down(np.array([t]))
        assert np.float64(np.float32(few[0])) == few[0]
        np.testing.assert_array_equal(x <= few[0], x <= t)


def test_parts_keep_copies_and_groups_together_and_no_class_away():
    X = steps(400)[0]
    X[200:] = X[:200]
    labels = np.zeros(400, int)
    labels[:3], labels[50:] = 2, 1
    labels[200:203] = 2
    every = np.arange(400)
    part = parts_for_trees(Rows(X, coded(labels, 3)), every, 5, True, 0)
    np.testing.assert_array_equal(part[:200], part[200:])
    fold = np.arange(400) // 30
    grouped = parts_for_trees(Rows(X, coded(labels, 3), fold=fold), every, 5, True, 0)
    assert all(len(np.unique(grouped[(fold == k) & (grouped >= 0)])) <= 1 for k in range(14))
    for parts in (part, grouped):
        assert all(set(labels[parts != k]) == {0, 1, 2} for k in range(5))
    few = parts_for_trees(Rows(X, X[:, :1]), np.arange(40), 5, False, 0)
    assert set(few) == set(range(5))  # every row is left out of one model, and known to the others


def test_of_very_many_rows_one_model_leaves_out_what_kernels_did(monkeypatch):
    X, every = steps(400)[0], np.arange(400)
    monkeypatch.setattr(_trees, "IN_PARTS", 399)
    few = parts_for_trees(Rows(X, X[:, :1]), np.arange(40), 5, False, 0)
    np.testing.assert_array_equal(few, np.where(every < 40, 0, -1))


def test_sums_of_two_numbers_in_one_are_those_of_each():
    rng = np.random.RandomState(0)
    unit = 2.0**tree_steps.BITS
    g, h = rng.normal(size=5_000), rng.uniform(0, 0.25, 5_000)
    g, h = g * unit / np.abs(g).sum() * 1.4, h * unit / h.sum() * 1.4  # as large as they may be
    both = tree_steps.packed(g, h)
    for some in (slice(0, 1), slice(0, 700), slice(None)):
        total = np.array([both[some].sum()])
        assert total[0] == both[some][::-1].sum()  # whatever the order: nothing is rounded
        for found, each in zip(tree_steps.unpacked(total), (g[some], h[some]), strict=True):
            assert found[0] == pytest.approx(np.rint(each).sum(), rel=1e-7)
            assert abs(found[0] - each.sum()) <= len(each)


def test_no_trees_are_grown_where_rows_left_out_lose_less_than_a_nat():
    X = steps(600)[0]
    rows = Rows(X, np.where(X[:, :1] > 0, 1.0, -1.0))
    for confidence, grown in ((20.0, False), (2.0, True)):
        held_out = HeldOut(rows.T, confidence * rows.T, np.zeros(600), np.ones(600), place=np.arange(600))
        stages = Stages(*[None] * 6, loss="log")
        stages = replace(stages, beta=np.ones((1, 1)), intercept=np.zeros(1), held_out=held_out)
        said = []
        _trees.with_trees(stages, rows, _trees.Growing(rows, 3, True, 0, 1), said.append)
        assert bool(said) == grown


@pytest.mark.parametrize("labels", [None, 2, 3])
def test_trees_that_another_thread_grows_meanwhile_are_the_same(labels, monkeypatch):
    X, y = steps(500)
    target, kind = (y, ulmus.AdaptiveRegressor) if labels is None else (y > 1, ulmus.AdaptiveClassifier)
    if labels == 3:
        target = np.digitize(y, [0.5, 1.5])
    threads, grown_trees = [], _trees.grown_trees

    def grown(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return grown_trees(*given)

    monkeypatch.setattr(_trees, "grown_trees", grown)
    one, two = (kind(effort="fast", random_state=0, n_jobs=n_jobs).fit(X, target) for n_jobs in (1, 2))
    # several classes have a use for every thread themselves; and whoever comes first may do it
    assert threads[0]
    assert threads[1] or labels != 3
    assert one.trees_ is not None
    np.testing.assert_array_equal(one.trees_.value, two.trees_.value)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.tree_weight_ == two.tree_weight_


def test_what_is_done_aside_is_begun_at_once_and_its_errors_come_with_the_result():
    begun, go = threading.Event(), threading.Event()

    def work():
        begun.set()
        go.wait(10)
        return threading.current_thread() is threading.main_thread()

    with aside(work, 2) as result:
        assert begun.wait(10)
        go.set()
        assert result() is False
    with aside(work, 1) as result:
        assert result() is True
    for n_jobs in (1, 2):
        with aside(lambda: 1 / 0, n_jobs) as result, pytest.raises(ZeroDivisionError):
            result()
    with pytest.raises(KeyError), aside(work, 2):  # what nobody asks for ends all the same
        raise KeyError


def held(T, P, w=None):
    """Rows left out, without variances."""
    return HeldOut(T, P, np.zeros(len(T)), np.ones(len(T)) if w is None else w)


def test_the_share_goes_from_the_prior_to_that_of_least_squares_as_far_as_it_leads():
    rng = np.random.RandomState(0)
    T, P, Q = rng.normal(size=(3, 200, 1))
    w = rng.uniform(1, 2, 200)
    P, Q = T + P, T + 1.3 * Q
    Q[:9] = np.nan
    found = best_share(held(T, P, w), Q, False)
    d, e, v = (Q - P)[9:, 0], (T - P)[9:, 0], w[9:]
    best = (v * d) @ e / ((v * d) @ d)
    lead = (e - PRIOR * d) ** 2 - (e - best * d) ** 2
    mean = np.average(lead, weights=v)
    error = np.sqrt(np.sum(v * (lead - mean) ** 2)) / v.sum()
    assert 0 < mean < SURE * error  # within chance
    expected = PRIOR + (best - PRIOR) * mean / (SURE * error)
    assert found.share == pytest.approx(expected, abs=2e-3)  # the search ends at 1e-3
    assert found.without == pytest.approx(np.average(e**2, weights=v))
    assert found.loss == pytest.approx(np.average((e - found.share * d) ** 2, weights=v))


def test_what_is_clearly_better_gets_all_of_its_share_and_nothing_is_told_by_none():
    rng = np.random.RandomState(0)
    T, P = rng.normal(size=(2, 200, 1))
    P = P + T
    assert best_share(held(T, P), P + 2 * (P - T), False).share < 2e-3  # trees err on the same side, by more
    assert best_share(held(T, P), T, False).share == pytest.approx(1.0, abs=2e-3)
    assert best_share(held(T, P), np.full_like(P, np.nan), False).share == 0
    # two rows of 200 are all that errs: within chance, but more than a fifth of the loss
    P = T.copy()
    P[:2] += 1.0
    assert best_share(held(T, P), T, False).share == pytest.approx(1.0, abs=2e-3)


def test_models_that_are_as_good_as_each_other_share():
    rng = np.random.RandomState(0)
    T, P = rng.normal(size=(2, 200, 1))
    assert best_share(held(T, T + P), T + P, False).share == pytest.approx(PRIOR, abs=1e-6)


def test_scores_that_are_too_weak_lose_nothing_to_others_by_that():
    rng = np.random.RandomState(0)
    F = rng.normal(scale=3, size=(2_000, 1))
    T = np.where(rng.uniform(size=(2_000, 1)) < 1 / (1 + np.exp(-F)), 1.0, -1.0)
    found = best_share(HeldOut(T, F, np.zeros(2_000), np.ones(2_000)), F / 4, True)
    assert found.loss == pytest.approx(found.without, rel=1e-3)


@pytest.mark.parametrize("labels", cases([None, 2, 3], 3))
def test_trees_join_where_they_help_and_are_reported(labels, tmp_path):
    X, y = steps(900)
    kind, target = ulmus.AdaptiveRegressor, y
    if labels:
        kind = ulmus.AdaptiveClassifier
        target = np.array(["low", "mid", "high"])[np.digitize(y, [0.5, 1.5] if labels == 3 else [0.5])]
    model = kind(effort="fast", random_state=0, n_jobs=1).fit(X[:600], target[:600])
    plan, asked = replace(SMALL, tree_parts=0), X[600:]
    without = kind(effort="fast", random_state=0, n_jobs=1)
    without._plan = plan
    without.fit(X[:600], target[:600])
    assert model.trees_ is not None
    assert without.trees_ is None
    assert model.tree_losses_[0] < model.tree_losses_[1]
    assert "boosted trees, weight" in str(model.summary())
    ours, plain = (m.predict(asked) if labels is None else m.decision_function(asked) for m in (model, without))
    trees = model.trees_.predict(model.fitted_.weights.coordinates(asked), 1)
    mean = (1 - model.tree_weight_) * plain.reshape(len(asked), -1) + trees
    np.testing.assert_allclose(ours.reshape(len(asked), -1), mean, atol=1e-9)
    if labels is None:
        assert np.mean((ours - y[600:]) ** 2) < np.mean((plain - y[600:]) ** 2)
    else:
        known = model.classes_
        assert log_loss(target[600:], model.predict_proba(asked), labels=known) < log_loss(
            target[600:], without.predict_proba(asked), labels=known
        )
    ulmus.save(model, tmp_path / "model.ulmus")
    again = ulmus.load(tmp_path / "model.ulmus")
    np.testing.assert_array_equal(again.predict(asked), model.predict(asked))
    for dtype in TOLERANCE:
        assert_equal_outputs(model, asked, dtype, 1e-8)
    assert model.memory_ > model.trees_.nbytes > 0


def test_reasons_count_trees():
    X, y = steps(600)
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    found = model.explain(X[:5], X[100:120])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:5]), atol=1e-8)


@pytest.mark.parametrize("labels", cases([None, 2, 3], 2))
def test_rows_leave_the_kernels_and_trees_are_held_fixed(labels):
    X, y = steps(600)
    kind, target = ulmus.AdaptiveRegressor, y
    if labels:
        kind, target = ulmus.AdaptiveClassifier, np.digitize(y, [0.5, 1.5] if labels == 3 else [0.5])
    model, without = kind(effort="fast", random_state=0), kind(effort="fast", random_state=0)
    without._plan = replace(SMALL, tree_parts=0)  # the same kernels, which tests of influences compare with refits
    for each in (model, without):
        each.fit(X, target)
    assert model.trees_ is not None
    with pytest.warns(ulmus.PartWarning, match=f"boosted trees, {100 * model.tree_weight_:.0f} % of the scores"):
        found = model.influences(X[:5], X, target)
    expected = (1 - model.tree_weight_) * without.influences(X[:5], X, target)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(X[:5], X, np.roll(target, 300))


@pytest.mark.parametrize("labels", cases([None, 2, 3], 2))
def test_rows_are_missed_by_trees_that_did_not_see_them(labels):
    X, y = steps(600)
    rng = np.random.RandomState(1)
    wrong = rng.choice(600, 30, replace=False)
    kind, target = ulmus.AdaptiveRegressor, y.copy()
    if labels:
        kind, target = ulmus.AdaptiveClassifier, np.digitize(y, [0.5, 1.5] if labels == 3 else [0.5])
        target[wrong] = (target[wrong] + 1) % labels
    else:
        target[wrong] += 2.0
    model = kind(effort="fast", random_state=0).fit(X, target)
    assert model.trees_ is not None
    known = TrainingRows.of(model, X, target)
    beside, U = known.leaving, known.rows.X
    unseen = beside.grown()
    answers = unseen(U, np.arange(600))
    centre, scale = model._units(known.rows)
    rows = replace(known.rows, T=(known.rows.T - centre) / scale)
    seed = model.fitted_.weights.part_seed
    part = parts_for_trees(rows, np.arange(600), SMALL.tree_parts, bool(labels), seed)
    _, expected = grown_trees(rows, part, bool(labels), seed, 1)
    np.testing.assert_allclose(answers, expected * scale + centre, atol=1e-9)
    mixed = (1 - beside.share) * (known.rows.T - beside.kernels.left_out) + beside.share * answers
    np.testing.assert_allclose(known.rows.T - beside.left_out, mixed, atol=1e-9)
    shuffled = U[::-1]  # other rows, by the models without the first ones
    effects = beside.own_effects(np.arange(600))(shuffled)
    alone = beside.kernels.effects(shuffled)[np.arange(600), np.arange(600)]
    heart = beside.trees(shuffled) - unseen(shuffled, np.arange(600))
    np.testing.assert_allclose(effects, (1 - beside.share) * alone + beside.share * heart, atol=1e-9)
    found = model.left_out_importances(X, target, n_repeats=1).importances_mean
    assert (found > 0).all()
    assert found.argmax() == 0
    pairs, alone = beside.left_out_pairs(slice(3, 9)), beside.kernels.left_out_pairs(slice(3, 9))
    through = (1 - beside.share) * (alone - beside.kernels.left_out[3:9, None])
    np.testing.assert_allclose(pairs - beside.left_out[3:9, None], through, atol=1e-9)
    values = model.row_values(X, target)
    assert len(np.intersect1d(np.argsort(values)[:30], wrong)) >= 24
    missed = [np.abs(known.rows.T - each)[wrong].mean() for each in (answers, beside.trees(U))]  # which saw targets
    assert missed[0] > missed[1]


@pytest.mark.parametrize("labels", cases([None, 3], 3))
def test_shapley_values_through_trees_are_those_of_all_subsets(labels, monkeypatch):
    monkeypatch.setattr("ulmus.tuning.views.KERNELS", ("laplacian_l1", "laplacian_l1"))  # a product, as trees are
    X, y = steps(700)
    kind, target = (
        (ulmus.AdaptiveRegressor, y) if labels is None else (ulmus.AdaptiveClassifier, np.digitize(y, [0.5, 1.5]))
    )
    model = kind(effort="fast", random_state=0).fit(X[:600], target[:600])
    assert model.trees_ is not None
    asked, background = X[600:604], X[:7]
    answer = model.predict if labels is None else model.decision_function
    value = {}
    for S in range(16):
        inside = np.array([bool(S >> j & 1) for j in range(4)])
        mixed = np.where(inside, asked[:, None], background[None]).reshape(-1, 4)
        value[S] = answer(mixed).reshape(4, 7, -1).mean(axis=1)
    brute = np.zeros((4, 4, value[0].shape[1]))
    for j in range(4):
        for S in (S for S in range(16) if not S >> j & 1):
            size = S.bit_count()
            brute[:, j] += factorial(size) * factorial(3 - size) / 24 * (value[S | 1 << j] - value[S])
    found = model.explain(asked, background)
    np.testing.assert_allclose(found.values.reshape(brute.shape), brute, atol=1e-9)
    assert not np.any(found.errors)


def test_tables_of_leaves_give_the_values_and_interactions_of_all_subsets():
    rng = np.random.RandomState(0)
    depth, k = 4, 2
    feature, threshold = rng.randint(0, 6, (9, depth)), rng.normal(size=(9, depth))
    trees = BoostedTrees(np.zeros(k), feature, threshold, rng.normal(size=(9, 2**depth, k)))
    groups = [
        np.array([0]),
        np.array([1, 3]),
        np.array([2]),
        np.array([4, 5]),
    ]  # some with several columns
    U, B, w = rng.normal(size=(3, 6)), rng.normal(size=(5, 6)), rng.dirichlet(np.ones(5))

    def worth(S):
        columns = np.concatenate([[], *(groups[g] for g in S)]).astype(int)
        mixed = np.repeat(B[None], 3, axis=0)
        mixed[:, :, columns] = U[:, None, columns]
        return np.einsum("b,nbk->nk", w, trees.predict(mixed.reshape(-1, 6)).reshape(3, 5, k))

    values, pairs = (tree_values(trees, Comparison(groups, U, B, w), order) for order in (1, 2))
    for g in range(4):
        others = [h for h in range(4) if h != g]
        found = sum(
            factorial(r) * factorial(3 - r) / 24 * (worth((*S, g)) - worth(S))
            for r in range(4)
            for S in combinations(others, r)
        )
        np.testing.assert_allclose(values[:, g], found, atol=1e-12)
        for h in others:
            rest = [i for i in others if i != h]
            found = sum(
                factorial(r) * factorial(2 - r) / 6 * (worth((*S, g, h)) - worth((*S, g)) - worth((*S, h)) + worth(S))
                for r in range(3)
                for S in combinations(rest, r)
            )
            np.testing.assert_allclose(pairs[:, g, h], found, atol=1e-12)
    assert not pairs[:, np.arange(4), np.arange(4)].any()


def test_partial_dependence_counts_trees(monkeypatch):
    monkeypatch.setattr("ulmus.tuning.views.KERNELS", ("laplacian_l1", "laplacian_l1"))
    X, y = steps(600)
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    assert model.trees_ is not None
    found = model.partial_dependence(X[:40], 1, resolution=7)
    for value, mean in zip(found.grid[0], found.average, strict=True):
        moved = X[:40].copy()
        moved[:, 1] = value
        np.testing.assert_allclose(mean, model.predict(moved).mean(), atol=1e-9)


@pytest.mark.parametrize("kind", cases([ulmus.AdaptiveRegressor, ulmus.AdaptiveClassifier], ulmus.AdaptiveClassifier))
def test_weights_are_copies_with_trees(kind):
    X, y = steps(400)
    y = y if kind is ulmus.AdaptiveRegressor else (y > 0.5).astype(int)
    times = np.random.RandomState(1).randint(1, 4, 400)
    weighed = kind(effort="fast", random_state=0).fit(X, y, sample_weight=times)
    copied = kind(effort="fast", random_state=0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighed.trees_ is not None
    asked = steps(100, 5)[0]
    answers = [
        m.predict(asked) if kind is ulmus.AdaptiveRegressor else m.decision_function(asked) for m in (weighed, copied)
    ]
    np.testing.assert_allclose(*answers, rtol=1e-6, atol=1e-6)


def test_groups_leave_trees_together():
    rng = np.random.RandomState(0)
    X, groups = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    X[:, 0] = groups + 0.01 * rng.normal(size=600)
    y = rng.normal(size=60)[groups] + 0.05 * rng.normal(size=600)  # a group is told by its rows alone
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X, y, groups=groups)
    assert min(model.tree_losses_) > 0.9  # in units of the variance: left out with their group, rows are not known


def test_monotone_models_have_no_trees_nor_those_that_are_to_have_none():
    X, y = steps(300)
    for given in ({"monotonic_cst": [1, 0, 0, 0]}, {"trees": False}):
        model = ulmus.AdaptiveRegressor(effort="fast", random_state=0, **given).fit(X, y)
        assert model.trees_ is None
    model = ulmus.AdaptiveClassifier(effort="fast", trees=False, random_state=0).fit(X, y > 1)
    assert model.trees_ is None


@pytest.mark.parametrize("labels", [False, True])
def test_fifty_rows_are_enough_for_trees(labels):
    rng = np.random.RandomState(1)
    X = rng.normal(size=(50, 3))
    y = (X[:, 0] > 0) + (X[:, 1] > 0.5) + 0.3 * rng.normal(size=50)
    kind, target = (ulmus.AdaptiveClassifier, y > 0.8) if labels else (ulmus.AdaptiveRegressor, y)
    with_trees, without = (kind(effort="fast", random_state=0).fit(X[:n], target[:n]) for n in (50, 49))
    assert without.trees_ is None
    assert with_trees.tree_losses_[0] < with_trees.tree_losses_[1]
    assert 0.3 < with_trees.tree_weight_ < 0.6


def test_quantiles_and_intervals_stand_on_rows_that_both_left_out():
    X, y = steps(1200)
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X[:700], y[:700])
    assert model.trees_ is not None
    low, high = model.predict_interval(X[700:]).T
    assert 0.85 < np.mean((low <= y[700:]) & (y[700:] <= high)) < 0.95
    curves = ulmus.AdaptiveRegressor(effort="fast", loss="quantile", random_state=0).fit(X[:700], y[:700])
    Q = curves.predict_quantiles(X[700:])
    assert 0.83 < np.mean((Q[:, 0] <= y[700:]) & (y[700:] <= Q[:, -1])) < 0.97
