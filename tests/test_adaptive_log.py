"""Adaptive classifiers by log loss: against the solvers they are made of, what must not leak, and ugly rows."""

import pickle
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import ulmus
from data import cases, classification
from test_onnx import assert_equal_outputs
from test_softmax import UGLY, centred, codes, ugly
from ulmus import AdaptiveClassifier
from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import gathered
from ulmus.models import _effort, adaptive
from ulmus.models._global import LOG_KEPT
from ulmus.models._log_stage import LEAF_TOLERANCE, LogStages, calibrated_loss
from ulmus.models.summary import chosen as summary
from ulmus.solvers.local import LeafProblem, fit_leaves
from ulmus.solvers.log_loss import losses, targets
from ulmus.solvers.softmax import LogProblem, fit_softmax
from ulmus.tuning import log_held, view_budget
from ulmus.tuning.folds import grouped
from ulmus.tuning.local import LocalChoice, LocalSearch
from ulmus.tuning.log_held import log_held_sets, posed
from ulmus.tuning.log_path import best_trial, held_path
from ulmus.tuning.views import Budget

#: Small enough that a thousand rows have several leaves.
SEARCH = Budget(300, 40, 400, 60, rounds=1, final_landmarks=(120, 120), kernels=1, additive=False, cuts=False)
SMALL = _effort.Effort(SEARCH, 60, 80, 80, 3, 8)


def make_small(patch):
    """Small efforts, also where few landmarks have seen nothing."""
    patch.setitem(_effort.EFFORTS, "fast", SMALL)
    patch.setattr(view_budget, "MANY_ROWS", 600)
    patch.setattr(view_budget, "MANY_LANDMARKS", 120)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


def quick(**options):
    return AdaptiveClassifier(effort="fast", random_state=0, n_jobs=1, **options)


@cache
def fitted(n, k, pays=None):
    """A model that several tests read; ``pays`` decides whether it has leaves."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        if pays is not None:
            patch.setattr(LocalChoice, "pays", pays)
        return quick().fit(*checkers(n, k))


def checkers(n, k, seed=0):
    """Classes of a fine pattern with a trend, and some labels at random."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = (np.floor(2 * X[:, 0]) + np.floor(2 * X[:, 1]) + (X[:, 2] > 0)).astype(int) % k
    wrong = rng.uniform(size=n) < 0.1
    y[wrong] = rng.randint(0, k, wrong.sum())
    return X, y


def log_loss(model, X, y):
    P = model.predict_proba(X)
    return -np.log(P[np.arange(len(y)), np.searchsorted(model.classes_, y)]).mean()


# Against the solvers


@pytest.mark.parametrize("n", cases([500, 900]))
@pytest.mark.parametrize("k", cases([2, 3], 3))
def test_the_global_model_minimises_the_penalised_log_loss_on_its_features(k, n):
    X, y = checkers(n, k)
    model = fitted(n, k, pays=False)
    assert model.local_ is None
    assert model.loss_ == "log"
    Phi, T = model.map_.transform(model.view_.transform(X)), codes(y, k)
    best = fit_softmax(LogProblem.of(Phi, T, model.C_), tol=1e-12)
    F = Phi @ model.beta_ + model.intercept_
    value = losses(targets(T), F).sum() + (model.beta_**2).sum() / (2 * model.C_)
    assert best.value <= value <= best.value * (1 + 2 * LOG_KEPT)
    shown = model.decision_function(X)
    assert_allclose(shown[:, None] if k == 2 else shown, F, atol=1e-8)


@pytest.mark.parametrize("k", cases([2, 3], 3))
def test_leaves_fit_what_the_global_scores_leave(k):
    X, y = checkers(500, k)
    model = fitted(500, k, pays=True)
    local = model.local_
    U = model.view_.transform(X)
    place = {row.tobytes(): i for i, row in enumerate(U)}
    order = [place[row.tobytes()] for row in local.U]
    F = model.map_.transform(U[order]) @ model.beta_ + model.intercept_
    T = codes(y, k)[order]
    found = []
    for ridge in 10.0 ** np.arange(-2.0, 1.01, 0.5):
        leaves = LeafProblem(local.kernel, local.gamma, ridge, local.U, T, None, local.partitions, F)
        alphas = fit_leaves(leaves, LEAF_TOLERANCE)
        found.append(max(np.abs(a - b).max() for a, b in zip(alphas, local.alphas, strict=True)))
    assert min(found) < 1e-6


def test_the_local_stage_in_log_loss_finds_what_the_global_model_leaves():
    X, y = checkers(1800, 2)
    model = quick().fit(X[:1200], y[:1200])
    assert model.local_ is not None
    F = model.map_.transform(model.view_.transform(X[1200:])) @ model.beta_ + model.intercept_
    alone = losses(targets(codes(y[1200:], 2)), F).mean()
    assert log_loss(model, X[1200:], y[1200:]) < 0.9 * alone


@pytest.mark.parametrize("k", [2, 3])
def test_held_out_rows_are_scored_by_models_that_never_saw_them(k):
    X, y = classification(200, 3, k)
    Phi, T = np.tanh(X @ np.random.RandomState(0).normal(size=(3, 20))), codes(y, k)
    held = [np.arange(200) % 4 == i for i in range(4)]
    trials = held_path(LogProblem.of(Phi, T, 1.0), [0.5, 8.0], [mask.astype(float) for mask in held], tol=1e-10)
    for trial in trials:
        total = 0.0
        for mask, solution in zip(held, trial.solutions, strict=True):
            without = fit_softmax(LogProblem.of(Phi[~mask], T[~mask], trial.C), tol=1e-10)
            F = Phi[mask] @ without.beta + without.intercept
            assert_allclose(centred(solution.F[mask]), centred(F), atol=1e-4)
            total += losses(targets(T[mask]), F).sum()
        assert trial.loss == pytest.approx(total / 200, rel=1e-5)
    assert best_trial(trials) == int(np.argmin([trial.loss for trial in trials]))


@pytest.mark.parametrize("kernel", ["laplacian_l1", "rbf"])
def test_features_in_double_in_single_or_by_blocks_give_the_same_model(kernel, monkeypatch):
    X, y = checkers(600, 3)
    features = NystromMap(80, kernel=kernel, gamma=0.3, random_state=0).fit(X)
    rows = Rows(X, codes(y, 3))
    found = []
    monkeypatch.setattr(log_held, "KEPT_BYTES", 0)
    for double, most in ((2**28, 0), (0, 1e9), (0, 0)):
        monkeypatch.setattr(log_held, "SINGLE_BYTES", double)
        problem = posed(features, rows, most, 1)
        found.append((problem.rows.X, fit_softmax(replace(problem, C=3.0), tol=1e-8).F))
    assert [Phi.dtype for Phi, _ in found[:2]] == [np.float64, np.float32]
    assert found[2][0] is rows.X
    assert_allclose(centred(found[1][1]), centred(found[0][1]), atol=1e-3)
    assert_allclose(centred(found[2][1]), centred(found[0][1]), atol=1e-5)


def test_leaves_behind_a_weaker_global_model_hold_rows_that_are_near_each_other(monkeypatch):
    scored, make = [], LocalSearch.leaves

    def leaves(search, partition, *more):
        scored.append((search, partition))
        return make(search, partition, *more)

    monkeypatch.setattr(LocalSearch, "leaves", leaves)
    AdaptiveClassifier(effort="fast", random_state=0, n_jobs=1).fit(*checkers(1000, 2))
    assert len(scored) == 2
    for search, partition in scored:
        found = partition.leaves(search.data.U)
        for leaf in range(partition.n_leaves):
            assert (found[partition.rows(leaf)] == leaf).all()
    offsets = [search.data.offset for search, _ in scored]
    assert not np.array_equal(*offsets)
    assert np.corrcoef(offsets[0].ravel(), offsets[1].ravel())[0, 1] > 0.5  # they score the same rows


# What must not leak


def test_held_sets_are_whole_groups_and_copies_stay_together():
    X = np.repeat(np.random.RandomState(0).normal(size=(300, 2)), 2, axis=0)
    rows = Rows(X, np.ones((600, 1)))
    for out in log_held_sets(rows, np.random.RandomState(0)):
        assert_array_equal(out[::2], out[1::2])
    fold = grouped(np.arange(600) // 20, None)
    sets = log_held_sets(replace(rows, fold=fold), np.random.RandomState(0))
    assert_array_equal(np.sum(sets, axis=0), 1)
    assert all(len(np.unique(fold[out > 0])) == 1 for out in sets)


def test_observations_of_few_levels_are_held_out_one_by_one():
    weight = np.array([30.0, 10.0, 1.0, 2.0])
    rows = Rows(np.array([[0.0], [0.0], [1.0], [2.0]]), np.array([[1.0], [-1.0], [1.0], [-1.0]]), weight)
    sets = log_held_sets(rows, np.random.RandomState(0))
    assert_array_equal(np.sum(sets, axis=0), weight)
    assert all((0 < out[0] < 30) for out in sets)
    assert_array_equal(np.sort([out[2] for out in sets]), [0, 0, 0, 0, 1])


@pytest.mark.parametrize("n", [600, 6_000])
def test_rows_of_few_levels_that_are_held_out_meet_known_ones_as_often_as_new_rows_do(n):
    """A quarter of the rows has a twin."""
    rng = np.random.RandomState(0)
    X = rng.randint(0, n // 4, size=(n, 2)).astype(float)
    X[-n // 8 :] = X[: n // 8]
    rows = gathered(Rows(X, np.where(X[:, :1] > n // 8, 1.0, -1.0)))
    assert 0.2 < rows.weight[rows.weight > 1].sum() / n < 0.3
    sets = log_held_sets(rows, np.random.RandomState(0))
    met = sum(out[out < rows.weight].sum() for out in sets) / sum(out.sum() for out in sets)
    assert 0.15 < met < 0.3


def test_few_rows_are_each_held_out_once_and_of_many_a_tenth_is():
    rng = np.random.RandomState(0)
    assert_array_equal(np.sum(log_held_sets(Rows(rng.normal(size=(403, 2)), np.ones((403, 1))), rng), axis=0), 1)
    (out,) = log_held_sets(Rows(rng.normal(size=(9000, 2)), np.ones((9000, 1))), rng)
    assert out.sum() == 900
    (out,) = log_held_sets(Rows(rng.normal(size=(1200, 2)), np.ones((1200, 1))), rng)
    assert out.sum() == 300


@pytest.mark.parametrize("levels", [0, 40])
@pytest.mark.parametrize("n", [700, 6_000, 30_000])
def test_every_class_has_its_share_of_the_rows_held_out(n, levels):
    """Of many rows one set holds out, of few, or where it would have few of a rare class, five hold out each once."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, 2)) if not levels else rng.randint(0, levels, (n, 2)).astype(float)
    T = np.where(np.arange(n)[:, None] < 35, 1.0, -1.0)
    rows = gathered(Rows(X, T))
    sets = log_held_sets(rows, np.random.RandomState(1))
    for flipped in (rows, replace(rows, T=-rows.T)):  # whichever label comes first
        assert_array_equal(log_held_sets(flipped, np.random.RandomState(1)), sets)
    of_rare = [out[rows.T[:, 0] > 0].sum() for out in sets]
    if n == 30_000:
        assert len(sets) == 1
        assert 6 <= of_rare[0] <= 8
    else:
        assert_array_equal(of_rare, 7)
        assert_array_equal(np.sum(sets, axis=0), rows.weights)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_of_rare_events_are_about_right(seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(24_000, 3))
    y = rng.uniform(size=len(X)) < 1 / (1 + np.exp(7 - 2 * X[:, 0] - 2 * X[:, 1]))
    model = quick().fit(X[:4000], y[:4000])
    P = model.predict_proba(X[4000:])[:, 1]
    assert 0.6 < P.mean() / y[4000:].mean() < 1.6  # some sixty events
    assert roc_auc_score(y[4000:], P) > 0.93


def test_labels_at_random_are_given_their_frequencies():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(600, 4)), (rng.uniform(size=600) < 0.2).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = quick().fit(X, y)
    P = model.predict_proba(rng.normal(size=(500, 4)))[:, 1]
    assert abs(P.mean() - 0.2) < 0.05
    assert P.std() < 0.1


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e6])
def test_calibrated_probabilities_are_never_worse_than_the_frequencies_on_the_rows_that_score(spread):
    rng = np.random.RandomState(0)
    y = np.arange(400) % 4 == 0
    P = spread * rng.normal(size=(400, 1))  # says nothing of y
    loss = calibrated_loss(HeldOut(codes(y, 2), P, np.zeros(400), np.ones(400)))
    assert loss <= -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) + 1e-3


# Invariances


@pytest.mark.parametrize("k", cases([2, 3], 3))
def test_weights_are_repetitions(k):
    X, y = checkers(320, k)
    times = np.random.RandomState(0).randint(0, 3, 320)
    weighted = quick().fit(X, y, sample_weight=times)
    repeated = quick().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_class_weights_are_weights_of_rows():
    X, y = checkers(320, 3)
    by_class = quick(class_weight={0: 1.0, 1: 2.0, 2: 3.0}).fit(X, y)
    by_row = quick().fit(X, y, sample_weight=1.0 + y)
    assert_allclose(by_class.class_prior_, by_row.class_prior_)
    assert abs(by_class.predict_proba(X) - by_row.predict_proba(X)).mean() < 0.05


@pytest.mark.parametrize("n", cases([700, 1500]))
def test_fits_are_the_same_for_any_number_of_threads(n):
    X, y = checkers(n, 3)
    one, two = (quick().set_params(n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert_allclose(one.predict_proba(X[:100]), two.predict_proba(X[:100]), rtol=1e-9)


def test_names_of_classes_do_not_matter():
    X, y = checkers(400, 3)
    numbers, names = fitted(400, 3), quick().fit(X, np.array(["a", "b", "c"])[y])
    assert_array_equal(numbers.predict_proba(X), names.predict_proba(X))


# Choices


def test_a_log_model_has_the_better_probabilities_where_labels_are_random():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(3000, 4))
    y = (rng.uniform(size=3000) < 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - X[:, 1]))).astype(int)
    by_log, squared = (quick(loss=loss).fit(X[:1500], y[:1500]) for loss in ("log", "squared"))
    assert log_loss(by_log, X[1500:], y[1500:]) < 1.02 * log_loss(squared, X[1500:], y[1500:])


def test_auto_keeps_the_one_whose_held_out_rows_are_clearly_better(monkeypatch):
    X, y = checkers(400, 2)
    said = []
    monkeypatch.setattr(AdaptiveClassifier, "_say", lambda self, text: said.append(text))
    for better in ("log", "squared"):
        order = iter([0.5, 0.7] if better == "log" else [0.5, 0.4])
        monkeypatch.setattr(adaptive, "calibrated_loss", lambda held, order=order: next(order))
        model = quick(loss="auto").fit(X, y)
        assert model.loss_ == better
    assert any("by squares" in text for text in said)


@pytest.mark.parametrize("criterion", cases(["log_loss", "error", "auc", "balanced"], "auc"))
def test_every_criterion_of_a_log_model_gives_one(criterion):
    X, y = checkers(400, 3)
    model = quick(criterion=criterion).fit(X, y)
    assert model.score(X, y) > 0.5


def test_criteria_of_the_other_loss_are_refused():
    X, y = checkers(60, 2)
    with pytest.raises(ValueError, match="for loss='log', got 'squared'"):
        quick(criterion="squared").fit(X, y)
    with pytest.raises(ValueError, match="for loss='squared', got 'auc'"):
        quick(criterion="auc", loss="squared").fit(X, y)


@pytest.mark.parametrize("loss", ["log", "squared"])
def test_decisions_follow_frequencies_or_costs(loss):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1500, 2))
    y = (X[:, 0] + 0.7 * rng.normal(size=1500) > 1.7).astype(int)
    model = quick(loss=loss).fit(X[:800], y[:800])
    usual = model.predict(X[800:])
    model.set_params(decision="balanced")
    even = model.predict(X[800:])
    assert balanced_accuracy_score(y[800:], even) > balanced_accuracy_score(y[800:], usual) + 0.05
    P = model.predict_proba(X[800:])
    model.set_params(decision=[[0, 1], [9, 0]])
    assert_array_equal(model.predict(X[800:]), (P[:, 1] > 0.1).astype(int))
    model.set_params(decision=1 - np.eye(2))
    assert_array_equal(model.predict(X[800:]), usual)


def test_a_cost_matrix_of_the_wrong_shape_is_refused_by_fit():
    X, y = checkers(60, 3)
    with pytest.raises(ValueError, match="a cost matrix has one finite"):
        quick(decision=np.ones((2, 2))).fit(X, y)


# Ugly rows, and ways out


@pytest.mark.parametrize(
    "name",
    cases(
        UGLY,
        "separable",
        "one class of one row",
        "contradictions",
        "100 classes",
        "features of 1e150",
        "constant features",
    ),
)
def test_ugly_rows_give_probabilities(name):
    X, y, k = ugly(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = quick().fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (len(X), k)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1.0)
    share = np.bincount(y, minlength=k) / len(y)
    assert log_loss(model, X, y) <= -(share @ np.log(share)) + 0.01


@pytest.mark.parametrize("decision", cases([[[0, 1, 4], [1, 0, 1], [9, 1, 0]], "accuracy", "balanced"]))
def test_files_and_graphs_say_what_the_model_says(decision, tmp_path):
    model = deepcopy(fitted(500, 3, pays=True)).set_params(decision=decision)
    Q = checkers(200, 3, 1)[0]
    ulmus.save(model, tmp_path / "model.ulmus")
    again = ulmus.load(tmp_path / "model.ulmus")
    assert_array_equal(again.predict_proba(Q), model.predict_proba(Q))
    assert_array_equal(again.predict(Q), model.predict(Q))
    assert again.loss_ == "log"
    assert_equal_outputs(model, Q, "float64", 1e-8)


def test_the_summary_names_the_loss_and_importances_separate_signal_from_noise():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (800, 4))
    y = (np.sin(4 * X[:, 0]) > X[:, 1]).astype(int)
    model = quick().fit(X, y)
    assert_allclose(model.feature_importances_.sum(), 1.0)
    assert model.feature_importances_[:2].sum() > 0.7
    assert summary(model)["loss"] == "log"


def test_distances_of_rows_are_computed_on_demand_and_kept_in_files():
    X, y = checkers(400, 3)
    model, other = quick().fit(X, y), fitted(400, 3)
    assert model.fitted_.weights.leverage is None
    saved = pickle.loads(pickle.dumps(other))
    asked = np.concatenate([X[:50], X[:50] + 30])
    assert_array_equal(model.is_far(asked), saved.is_far(asked))
    assert model.is_far(X[:50] + 30).all()
    for each in (model, saved):
        assert each.fitted_.weights.later is None


def test_what_held_out_rows_cannot_resolve_costs_neither_leaves_nor_a_larger_C():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(size=(600, 3)) - 8, rng.normal(size=(600, 3)) + 8])
    model = quick().fit(X, np.repeat([0, 1], 600))
    assert model.local_losses_ is None  # every row held out is right, and sure: no leaves were tried
    problem = LogProblem.of(X, codes(np.repeat([0, 1], 600), 2), 1.0)
    held = log_held_sets(replace(problem.rows, X=X), np.random.RandomState(0))
    trials = held_path(problem, [4.0**i for i in range(-6, 14)], held)
    assert len(trials) < 12  # of 20: two further steps told nothing
    total = sum(out.sum() for out in held)
    best, lowest = trials[best_trial(trials)], min(trial.loss for trial in trials)
    assert (best.loss - lowest) * total <= 0.1 + 1e-9  # nats
    assert all((trial.loss - lowest) * total > 0.1 for trial in trials if trial.C < best.C)


def test_a_global_model_alone_is_calibrated_by_leave_one_out_of_every_row(monkeypatch):
    kept = {}
    left_out = LogStages._left_out

    def keeping(stages, model, solution, C):
        kept.update(stages=stages, problem=replace(model.problem, C=C), solution=solution)
        kept["found"] = left_out(stages, model, solution, C)
        return kept["found"]

    monkeypatch.setattr(LogStages, "_left_out", keeping)
    monkeypatch.setattr(LocalChoice, "pays", False)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1200, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=1200) > 0).astype(int)
    X[1100:], y[1100:] = X[:100], y[:100]  # copies leave together
    quick().fit(X, y)
    found, problem = kept["found"], kept["problem"]
    assert len(kept["stages"].work.rows) == len(found.T) == 1100
    some, exact = np.arange(0, 1100, 22), []
    for row in some:
        weight = problem.weight.copy()
        weight[row] = 0.0
        without = fit_softmax(replace(problem, rows=replace(problem.rows, weight=weight)), tol=1e-9)
        exact.append(without.F[row])
    true, near = (losses(targets(found.T[some]), F) for F in (np.array(exact), found.P[some]))
    assert near.mean() == pytest.approx(true.mean(), rel=0.02)
    inside = losses(targets(found.T[some]), kept["solution"].F[some])
    # by second order, of a model whose passes end at 3e-4 of its objective
    assert np.abs(near - true).mean() < 0.25 * np.abs(inside - true).mean()


def test_rows_of_few_levels_leave_with_all_of_their_class_weight(monkeypatch):
    kept = {}
    left_out = LogStages._left_out

    def keeping(stages, model, solution, C):
        kept.update(problem=replace(model.problem, C=C), found=left_out(stages, model, solution, C))
        return kept["found"]

    monkeypatch.setattr(LogStages, "_left_out", keeping)
    monkeypatch.setattr("ulmus.models._log_stage.FEW", 10**9)
    rng = np.random.RandomState(0)
    X = rng.randint(8, size=(2_500, 4)).astype(float)
    y = (rng.uniform(size=2_500) < 0.04 + 0.06 * (X[:, 0] > 4)).astype(int)
    quick(class_weight="balanced").fit(X, y)
    found, problem = kept["found"], kept["problem"]
    one = len(y) / (2 * np.bincount(y))  # the weight of one row of either class
    rare = np.flatnonzero(found.T[:, 0] > 0)[:40]
    exact = []
    for row in rare:
        weight = problem.weight.copy()
        weight[row] = max(weight[row] - one[1], 0.0)
        exact.append(fit_softmax(replace(problem, rows=replace(problem.rows, weight=weight)), tol=1e-9).F[row])
    true, near = (losses(targets(found.T[rare]), F) for F in (np.array(exact), found.P[rare]))
    assert near.mean() == pytest.approx(true.mean(), rel=0.02)


def test_every_row_of_a_clean_table_says_how_sure_answers_may_be():
    rng = np.random.RandomState(0)
    y = rng.randint(0, 2, 4000)
    X = rng.normal(size=(4000, 3)) + 12 * y[:, None]
    model = quick().fit(X[:2000], y[:2000])
    assert model.local_ is None
    assert log_loss(model, X[2000:], y[2000:]) < 2 / 2000  # 500 rows were held out, and could say 1 / 500


def test_rows_that_the_view_does_not_separate_calibrate_with_all_their_weight(monkeypatch):
    """Of more rows than are left out a sample is taken, in which rows of equal coordinates and labels are one."""
    monkeypatch.setattr("ulmus.models._log_stage.FEW", 10**9)
    monkeypatch.setattr("ulmus.models._log_stage.LEFT_OUT", 3_500)
    rng = np.random.RandomState(0)
    levels = rng.randint(40, size=(5_000, 2)).astype(float)
    X = levels + 1e-12 * rng.normal(size=levels.shape)  # equal to the digits of coordinates
    y = (rng.uniform(size=5_000) < 0.05 + 0.01 * levels[:, 0]).astype(int)
    left = AdaptiveClassifier(random_state=0, n_jobs=1, effort="fast").fit(X, y).left_out_
    assert len(left.true) <= 3_200
    assert_array_equal(np.bincount(left.true, left.weight), np.bincount(y))
