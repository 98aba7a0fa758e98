"""The choice of a view: kernels are compared with landmarks enough for the rougher one."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from data import cases
from ulmus import AdaptiveClassifier, AdaptiveRegressor
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.tuning import views
from ulmus.tuning.metric import MetricSearch
from ulmus.tuning.neighbours import told_by_neighbours
from ulmus.tuning.view_budget import Budget
from ulmus.tuning.views import ADDITIVE, KERNELS, View, ViewSearch


def search(X, T, final_landmarks=(600, 800), **budget):
    final = (final_landmarks, final_landmarks) if isinstance(final_landmarks, int) else final_landmarks
    numbers, rng = np.zeros(X.shape[1], bool), np.random.RandomState(0)
    spent = Budget(**budget, final_landmarks=final, cuts=False)
    return ViewSearch(Rows(X, T), Plain(T.std(axis=0)), numbers, rng, fit_intercept=True, budget=spent)


def rough(n=900):
    """A smooth surface and the fields of a board: the rougher kernel is better, once it has landmarks enough."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    board = np.floor(2 * X).sum(axis=1, keepdims=True) % 2
    return X, np.sin(3 * X[:, :1]) + X[:, 1:] ** 2 + 0.5 * board + 0.02 * rng.normal(size=(n, 1))


def test_the_rougher_kernel_wins_when_there_are_landmarks_enough():
    X, T = rough()
    few = {"rows": 900, "landmarks": 120, "metric_rows": 900, "metric_landmarks": 120, "rounds": 1}
    as_few, as_many = (search(X, T, **few, final_landmarks=count) for count in (120, 450))
    assert as_few.choose().kernel == "matern32"
    assert as_many.choose().kernel == "laplacian_l1" == KERNELS[0]
    # before the last trial, with half of the landmarks, come those of the two kernels with more of them
    few_losses, many_losses = ([trial.best_loss for trial in found.trials[-3:-1]] for found in (as_few, as_many))
    assert max(many_losses) < min(few_losses)


def test_losses_with_more_landmarks_are_those_of_refits_without_the_row():
    X, T = rough(120)
    found = search(X, T, rows=120, landmarks=60, metric_rows=120, metric_landmarks=60, rounds=1, final_landmarks=400)
    view = View(found.whole, np.array([1.0, 0.5]), "laplacian_l1", 0.7)
    climb = found.search.climb(Rows(X * view.metric, T), view.kernel, 1.0, 60, 1)
    trial = found._trials(Rows(X, T), [view], [climb], 400)[0]
    assert trial is found.trials[-1]
    C, U, rest = trial.best_C, X * view.metric, ~np.eye(120, dtype=bool)
    K = np.exp(-view.gamma * np.abs(U[:, None] - U).sum(axis=-1))
    errors = []
    for i in range(120):
        A = np.ones((120, 120))
        A[:119, :119], A[119, 119] = K[rest[i]][:, rest[i]] + np.eye(119) / C, 0.0
        solved = np.linalg.solve(A, np.append(T[rest[i]], 0.0))
        errors.append(T[i, 0] - K[i, rest[i]] @ solved[:-1] - solved[-1])
    assert trial.best_loss == pytest.approx(np.mean(np.square(errors)) / T.var(), rel=1e-5)


def additive(n, d=12):
    """Steps in every feature, and noise: what an additive model finds with the fewest rows."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, d))
    return X, np.sign(X).sum(axis=1, keepdims=True) + 2.0 * rng.normal(size=(n, 1))


@pytest.mark.parametrize("candidate", [True, False])
def test_an_additive_target_gets_a_flat_kernel_where_that_is_a_candidate(candidate):
    X, T = additive(3000)
    few = {"rows": 1000, "landmarks": 150, "metric_rows": 1500, "metric_landmarks": 200, "rounds": 1}
    found = search(X, T, **few, final_landmarks=400, additive=candidate)
    view = found.choose()
    unit = found.search.unit(KERNELS[0], found._posed(view.preparation.columns.kind, found.rows, None)[1])
    flat = view.kernel == KERNELS[0] and view.gamma < 4 * ADDITIVE * unit
    assert flat == candidate


@pytest.mark.parametrize("apart", [True, False])
def test_the_comparison_of_kernels_is_scored_on_rows_that_no_metric_knows(monkeypatch, apart):
    X, T = rough(900)
    few = {"rows": 300, "landmarks": 30, "metric_rows": 400, "metric_landmarks": 30, "rounds": 1}
    found = search(X, T, **few, final_landmarks=(150, 200), fresh=apart)
    known, fresh, asked = set(), set(), set()
    sharpest, trials = MetricSearch.sharpest, ViewSearch._trials

    def learns(self, rows, *others):
        known.update(rows.T[:, 0])
        return sharpest(self, rows, *others)

    def scores(self, rows, *others):
        if others[-1] > 30:  # fewer are half of those of the metric, on its rows: would more of them tell anything?
            fresh.update(rows.T[:, 0])
        asked.add(others[-1])
        return trials(self, rows, *others)

    monkeypatch.setattr(MetricSearch, "sharpest", learns)
    monkeypatch.setattr(ViewSearch, "_trials", scores)
    monkeypatch.setattr(views, "_enough", lambda *_: False)
    found.choose()
    assert len(known) == len(fresh) == 400
    assert max(asked) == (200 if apart else 150)
    assert (known == fresh) != apart
    assert not apart or not known & fresh


def test_landmarks_are_the_same_rows_whatever_metric_shows_them():
    X, T = rough(200)
    found = search(X, T, rows=200, landmarks=20, metric_rows=200, metric_landmarks=20, rounds=1)
    rows = found._sample(200)
    for metric in (np.array([1.0, 1.0]), np.array([0.5, 2.0])):
        scored = found.search.score(Rows(rows.X * metric, rows.T), "matern32", 1.0, 20, np.zeros(1), 1)
        np.testing.assert_array_equal(scored.features.cross_kernel_.Z, (rows.X * metric)[:20])
    assert not np.array_equal(rows.X, X)  # which is why the order must be random


@pytest.mark.parametrize(("target", "saturated"), [("smooth", True), ("rough", False)])
def test_landmarks_are_too_many_when_half_of_them_do_as_well(target, saturated):
    X, T = rough(1200)
    if target == "smooth":
        T = X[:, :1] + X[:, 1:] ** 2 + 0.3 * np.random.RandomState(1).normal(size=(1200, 1))
    few = {"rows": 600, "landmarks": 80, "metric_rows": 800, "metric_landmarks": 120, "rounds": 1}
    found = search(X, T, **few, final_landmarks=200)
    found.choose()
    assert found.saturated == saturated
    many = search(np.tile(X, (2, 1)), np.tile(T, (2, 1)), **few, final_landmarks=200)
    many.choose()
    assert not many.saturated  # of many more rows than were looked at, nothing is known


def test_other_preparations_climb_only_where_the_best_leaves_the_heuristic_width():
    X, T = rough(600)
    found = search(X, T, rows=600, landmarks=80, rounds=0)
    posed = {kind: found._posed(kind, found.rows, None)[1] for kind in found.budget.preparations}
    noise = 0.5 * np.random.RandomState(1).normal(size=(600, 1))
    for target, climbed in ((lambda X: np.sin(X[:, :1]) + noise, False), (lambda X: X[:, :1], True)):
        climbs = found._climbs({kind: Rows(rows.X, target(rows.X)) for kind, rows in posed.items()})
        assert set(climbs) == set(posed)
        leader = min(climbs.values(), key=lambda climb: climb.trials[0].best_loss)
        assert (leader.factor != 1.0) == climbed
        assert all((len(climb.trials) > 1) == (climbed or climb is leader) for climb in climbs.values())


@pytest.mark.parametrize(
    ("losses", "on_fresh_rows", "asked", "chosen"),
    [
        (
            [1.00, 1.20, 1.02],
            [1.1, 1.0],
            [0, 2],
            2,
        ),  # the additive one is near: the metric may know its rows
        ([1.00, 1.20, 1.20], None, None, 0),  # nobody is near
        ([1.50, 1.00, 1.20], [1.0, 1.1], [0, 1], 0),  # the rougher one may turn it with more landmarks, however far
    ],
)
def test_rows_that_no_metric_knows_decide_between_those_who_may_win(monkeypatch, losses, on_fresh_rows, asked, chosen):
    X, T = rough(100)
    found = search(X, T, metric_rows=40)
    names, given = ["rough", "smooth", "flat"], []

    def trials(self, rows, views, climbs, landmarks):
        given.append((rows, views, landmarks))
        return [SimpleNamespace(best_loss=loss) for loss in on_fresh_rows]

    monkeypatch.setattr(ViewSearch, "_trials", trials)
    monkeypatch.setattr(views, "_enough", lambda *_: False)
    climbs = [SimpleNamespace(best=SimpleNamespace(best_loss=loss, size=20)) for loss in losses]
    assert found._best_of(found.rows[:40], found.rows[40:], names, climbs, 20) == chosen
    assert [[names.index(view) for view in some] for _, some, _ in given] == ([asked, asked] if asked else [])
    # half of the landmarks on the rows of the metrics, then many on fresh ones
    assert [(len(rows), landmarks) for rows, _, landmarks in given] == ([(40, 10), (60, 800)] if asked else [])


def test_a_smoother_kernel_that_is_behind_on_few_rows_is_not_tried_on_more():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(1200, 4))
    steps = np.floor(2 * X).sum(axis=1, keepdims=True) + 0.1 * rng.normal(size=(1200, 1))
    few = {"rows": 300, "landmarks": 100, "metric_rows": 800, "metric_landmarks": 150, "additive": False}
    found = search(X, steps, **few)
    assert found.choose().kernel == KERNELS[0]
    assert {trial.kernel for trial in found.trials if trial.n_rows == 300} >= set(KERNELS)
    assert {trial.kernel for trial in found.trials if trial.n_rows > 300} == {KERNELS[0]}


def test_half_the_squared_difference_of_neighbours_is_the_variance_of_the_noise():
    X = np.linspace(0, 1, 500)[:, None]
    drawn = np.random.RandomState(0).normal(size=(500, 2))
    assert told_by_neighbours(drawn, drawn[:, :1]) == pytest.approx(1 - apart(drawn, drawn[:, :1]))
    opposite = np.where(np.arange(500) % 2, 1.0, -1.0)[:, None]
    assert told_by_neighbours(X, opposite) == pytest.approx(-1)
    assert told_by_neighbours(X, np.sin(6 * X)) > 0.999
    assert told_by_neighbours(X, np.ones((500, 1))) == 0


def apart(X, T):
    """Half the mean squared difference to the nearest other row, over the variance, row by row."""
    gaps = ((X[:, None] - X) ** 2).sum(axis=2) + np.where(np.eye(len(X)), np.inf, 0)
    return ((T - T[gaps.argmin(axis=1)]) ** 2).mean() / (2 * T.var())


@pytest.mark.parametrize("by", cases(["rows", "groups"]))
def test_what_varies_too_fast_for_few_landmarks_is_found_with_more(by):
    groups = None if by == "rows" else np.arange(2000) % 50
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (2500, 2))
    y = np.sin(8 * X[:, 0]) * np.cos(8 * X[:, 1]) + 0.05 * rng.normal(size=2500)
    model = AdaptiveRegressor(random_state=0).fit(X[:2000], y[:2000], groups=groups)
    assert model.score(X[2000:], y[2000:]) > 0.7


def test_neighbours_are_found_by_a_preparation_of_their_own():
    """Target means of levels leave out what rows say: of other, more rows than taught them, nothing or less is left."""
    rng = np.random.RandomState(1)
    X = np.column_stack([rng.randint(0, 20, 3_000), rng.normal(size=3_000)])
    T = rng.normal(size=(3_000, 1))  # nothing to be found, so that neighbours are asked
    few = {"rows": 200, "landmarks": 40, "metric_rows": 200, "metric_landmarks": 40, "rounds": 0, "cuts": False}
    budget, category = Budget(**few, preparations=("standard",), final_landmarks=(60, 60)), np.array([True, False])
    of = ViewSearch(
        Rows(X, T), Plain(T.std(axis=0)), category, np.random.RandomState(0), fit_intercept=True, budget=budget
    )
    asked = []
    tell = of._neighbours_tell
    of._neighbours_tell = lambda view: asked.append(tell(view)) or asked[-1]
    assert of.choose().kernel in KERNELS
    assert asked == [False]


@pytest.mark.parametrize(("half", "asked"), [((1.0, 1.03), [10, 20]), ((1.0, 1.1), [10, 400])])
def test_views_that_half_of_their_landmarks_show_as_well_are_compared_with_no_more(monkeypatch, half, asked):
    X, T = rough(100)
    found = search(X, T, metric_rows=40, final_landmarks=(300, 400))
    counts = []

    def trials(self, rows, views, climbs, landmarks):
        counts.append(landmarks)
        return [SimpleNamespace(best_loss=loss) for loss in (half if landmarks == 10 else (1.1, 1.0))]

    monkeypatch.setattr(ViewSearch, "_trials", trials)
    climbs = [SimpleNamespace(best=SimpleNamespace(best_loss=loss, size=20)) for loss in (1.0, 1.03)]
    assert found._best_of(found.rows[:40], found.rows[40:], ["rough", "smooth"], climbs, 20) == 1  # by fresh rows
    assert counts == asked
    if asked == [10, 20]:  # without fresh rows all is known
        assert found._best_of(found.rows[:40], None, ["rough", "smooth"], climbs, 20) == 0


def test_where_the_first_trials_find_nothing_it_need_not_be_noise():
    """The parity of five of ten bits: no kernel tells anything of it before a metric has left out the other five."""
    bits = np.array(list(product([0.0, 1.0], repeat=10)))
    X = bits[np.random.RandomState(101).permutation(len(bits))]
    parity = X[:, :5].sum(axis=1) % 2
    model = AdaptiveClassifier(trees=False, random_state=1).fit(X[:768], parity[:768])
    assert model.score(X[768:], parity[768:]) == 1.0
    assert model.feature_importances_[:5].sum() > 0.99


def sharpest(X, y, wary):
    """A metric of these rows, and its trials, the first of which is of none."""
    search, rows = MetricSearch(Plain(np.full(1, y.std())), 0, True, wary=wary), Rows(X, y[:, None])
    metric, climb = search.sharpest(rows, "laplacian_l1", 1.0, 60, 2, 1)
    return metric, [trial.best_loss for trial in climb.trials]


def test_of_two_metrics_that_are_halfway_the_kernel_is_the_product():
    rng = np.random.RandomState(0)
    X, A = rng.normal(size=(40, 3)) * [1.0, 2.0, 0.5], np.array([1.0, 0.1, 0.3])
    search, rows = MetricSearch(Plain(np.ones(1)), 0, True, wary=True), Rows(X, X[:, :1])
    halfway = search._halfway("laplacian_l1", rows, A)
    learned, plain, both = (pdist(X * metric, "cityblock") for metric in (A, np.ones(3), halfway))
    product = -np.log(np.exp(-learned / np.median(learned)) * np.exp(-plain / np.median(plain)))
    np.testing.assert_allclose(both / both.mean(), product / product.mean(), rtol=1e-3)  # medians are interpolated


def test_few_rows_believe_half_of_their_metric_unless_it_is_much_better():
    rng = np.random.RandomState(1)
    X = rng.normal(size=(300, 5))
    clear = np.sin(2 * X[:, 0])
    (metric, losses), (wary, again) = (sharpest(X, clear, wary) for wary in (False, True))
    assert min(losses) < 0.4 * losses[0]
    np.testing.assert_array_equal(wary, metric)
    assert again == losses
    noisy = clear + 0.5 * X[:, 1] + 0.8 * rng.normal(size=300)
    (metric, losses), (wary, again) = (sharpest(X, noisy, wary) for wary in (False, True))
    assert 0.4 * losses[0] < min(losses) < losses[0] == again[0]
    assert (wary >= metric).all()
    assert metric.min() < 0.3 < wary.min()
    assert wary.argmax() == metric.argmax() == 0


@pytest.mark.parametrize(("n", "wary"), [(999, True), (1_000, False)])
def test_metrics_of_a_thousand_rows_are_believed(monkeypatch, n, wary):
    told = []
    choose = ViewSearch.choose
    monkeypatch.setattr(ViewSearch, "choose", lambda self: told.append(self.search.wary) or choose(self))
    X, T = rough(n)
    AdaptiveRegressor(effort="fast", trees=False, random_state=0).fit(X, T[:, 0])
    assert told == [wary]
