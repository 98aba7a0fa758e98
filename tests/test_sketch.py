"""The features of a search: what is cheaper in it gives the same choices as all digits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ulmus import engine
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features.partition import random_partition
from ulmus.solvers.local import (
    COMPARED_REACH,
    LARGE,
    SINGLE_REACH,
    LeafProblem,
    fit_leaves,
    leaf_kernel,
    precision_of,
)
from ulmus.solvers.path import ROUGH, RidgePath
from ulmus.statistics import Statistics
from ulmus.tuning import metric as tuning_metric
from ulmus.tuning.metric import FACTOR, LOG2_C, MetricSearch, Scored, first_C
from ulmus.tuning.scorer import Scorer, Trial
from ulmus.tuning.sketch import FURTHER, Distances, Sketch, ridge_weights


def noisy(n, d=3, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d)).astype(np.float32).astype(np.float64)
    return X, np.sin(2 * X[:, :1]) + 0.3 * rng.normal(size=(n, 1))


def search(**more):
    return MetricSearch(Plain(np.ones(1)), 0, True, **more)


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32", "rbf"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_trial_is_that_of_a_map_of_all_digits(kernel, weighted):
    X, T = noisy(300)
    rows = Rows(X, T, np.random.RandomState(1).randint(1, 4, 300).astype(float) if weighted else None)
    grid = np.arange(-4.0, 9.0, 2.0)
    lean = search().score(rows, kernel, 0.4, 60, grid, 1)
    exact = search()._score(rows, kernel, 0.4, 60, grid, 1, None)
    assert isinstance(lean.features, Sketch)
    assert not isinstance(exact.features, Sketch)
    assert_allclose(lean.trial.loss, exact.trial.loss, rtol=1e-4)


def test_a_kernel_without_a_factor_falls_back_to_the_map():
    X, T = noisy(80)
    scored = search(shape={"coef0": -3.0}).score(Rows(X, T), "sigmoid", 2.0, 40, np.zeros(1), 1)
    assert not isinstance(scored.features, Sketch)


@pytest.mark.parametrize("unit", [1.0, 1195.845])
def test_a_large_c_wins_by_no_digits_that_whitening_has_lost(unit):
    """Seven values and hardly any noise: raw sums lead to a C whose loss they take for 0.89 of what it is."""
    rng = np.random.RandomState(0)
    X = np.repeat(np.arange(-3.0, 4.0), [1, 6, 16, 36, 17, 3, 2])[:, None][rng.permutation(81)]
    rows = Rows(X / X.std(), unit * (np.sin(X) + 0.2 * rng.normal(size=X.shape)))
    of = MetricSearch(Plain.of(rows.T, None), 0, True)
    for gamma in (0.008, 0.016, 0.032):
        scored = of.score(rows, "matern32", gamma, 81, tuning_metric.LOG2_C, 1)
        exact = of._score(rows, "matern32", gamma, 81, np.log2(scored.trial.C), 1, None)
        assert isinstance(scored.features, Sketch)
        assert_allclose(scored.trial.best_loss, exact.trial.loss[scored.trial.best], rtol=0.01)  # NUDGE: 0.003


@pytest.mark.parametrize("unit", [1.0, 1195.845])
def test_no_larger_c_is_tried_than_there_are_digits_for(unit):
    """A smooth function without noise: losses fall with C until raw sums are nothing but round-off."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, size=(400, 1))
    rows = Rows(X, unit * np.sin(X))
    of = MetricSearch(Plain.of(rows.T, None), 0, True)
    scored = of.score(rows, "matern32", 0.05, 100, tuning_metric.LOG2_C, 1)
    sketch = scored.features
    most = sketch.most_C(400.0)
    assert most < scored.trial.best_C <= FURTHER * most * (1 + 1e-12)
    assert scored.trial.C.max() <= FURTHER * most * (1 + 1e-12)
    raw = Scorer(replace(rows, X=sketch.K), of.coding, sketch.statistics, True, whitening=sketch.whitening_)
    white = Scorer(sketch.white(rows), of.coding, engine.gram_statistics, True)
    grid = np.log2(most * np.array([0.01, 0.1, 1.0]))
    few, all_digits = (
        s.trial("", 0.05, sketch.precomputed, s.summarise(sketch.precomputed), grid).loss[:3] for s in (raw, white)
    )
    assert_allclose(few, all_digits, rtol=1e-2)


@pytest.mark.parametrize("unit", [1.0, 1e-6, 3e5])
def test_of_copies_one_is_a_landmark_so_that_no_loss_is_round_off(unit):
    """Seventy rows of six values: a smooth kernel has six directions, and whitened round-off in all others."""
    rng = np.random.RandomState(0)
    X = np.repeat(np.arange(6.0), [1, 5, 19, 30, 13, 2])[:, None][rng.permutation(70)]
    rows = Rows(X / X.std(), unit * (np.sin(2 * X) + 3.0 + 0.2 * rng.normal(size=X.shape)))
    of, grid = MetricSearch(Plain.of(rows.T, None), 0, True), np.array([18.0, 20.0, 22.0])
    scored = of.score(rows, "matern32", 0.05, 70, grid, 1)
    assert isinstance(scored.features, Sketch)
    assert scored.trial.size == 6
    exact = of._score(rows, "matern32", 0.05, 70, grid, 1, None)
    assert_allclose(scored.trial.loss, exact.trial.loss, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["laplacian_l1", "matern32"])
def test_distances_serve_every_width(kernel):
    X, _ = noisy(90)
    shared = Distances.of(X, kernel, 0.3, 30, {}, 1)
    for factor in (0.5, 1.0, 4.0):
        seen, alone = Sketch.of(shared, factor, keep=True), Sketch.of(Distances.of(X, kernel, factor * 0.3, 30, {}, 1))
        assert_allclose(seen.K, alone.K, rtol=1e-12)
        assert_allclose(seen.whitening_, alone.whitening_, rtol=1e-6, atol=1e-9)
        assert seen.cross_kernel_.parameters.gamma == pytest.approx(factor * 0.3)


def test_a_climb_scores_the_widths_that_it_names():
    X, T = noisy(250)
    rows, of = Rows(X, T), search()
    climb = of.climb(rows, "matern32", 1.0, 40, 1)
    assert len(climb.trials) >= 3
    for trial in climb.trials:
        again = of.score(rows, "matern32", trial.width, 40, np.log2(trial.C), 1).trial
        assert_allclose(np.interp(np.log2(trial.C), np.log2(again.C), again.loss), trial.loss, rtol=1e-6)
    widths = np.log(sorted(trial.width for trial in climb.trials)) / np.log(FACTOR)
    assert_allclose(np.diff(widths), 1.0)


def test_of_many_rows_half_are_scored_and_all_are_learned_from(monkeypatch):
    X, T = noisy(400)
    whole = search().score(Rows(X, T), "matern32", 0.4, 40, np.zeros(1), 1).trial
    monkeypatch.setattr(tuning_metric, "SCORED", 100)
    half = search().score(Rows(X, T), "matern32", 0.4, 40, np.zeros(1), 1).trial
    assert_allclose(half.row_losses, whole.row_losses[:200], rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weights_of_one_penalty_are_those_of_the_path(fit_intercept):
    rng = np.random.RandomState(0)
    rows = np.column_stack([rng.normal(size=(70, 8)), rng.normal(size=(70, 2)), np.ones(70)])
    stats = Statistics(rows.T @ rows, 2, 70)
    path = RidgePath(stats, fit_intercept=fit_intercept).weights(np.array([3.0]))[0][:, 0]
    assert_allclose(ridge_weights(stats, 3.0, fit_intercept), path, rtol=1e-9)


def test_rough_leverages_are_off_by_no_more_than_they_say():
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(600, 160)) / 13, rng.normal(size=(600, 1))
    rows = np.column_stack([Phi, T, np.ones(600)])
    stats, C = Statistics(rows.T @ rows, 1, 600), np.array([1.0, 30.0])
    exact, rough = RidgePath(stats), RidgePath(stats, rough=True)
    assert rough._single(C)
    assert not exact._single(C)
    assert_allclose(rough.leave_one_out(C)(Phi, T, None)[1], exact.leave_one_out(C)(Phi, T, None)[1], atol=ROUGH)


def test_a_metric_to_begin_with_is_the_first_to_be_tried():
    X, T = noisy(200)
    A, of, rows = np.array([1.0, 0.1, 0.1]), search(), Rows(X, T)
    alone = of.rounds(rows, "matern32", 1.0, 30, 0, 1, begin=A)
    beside = of.rounds(rows, "matern32", 1.0, 30, 0, 1, of.score(rows, "matern32", 1.0, 30, np.zeros(1), 1), A)
    assert [each[0].tolist() for each in alone] == [A.tolist()]
    assert [each[0].tolist() for each in beside] == [[1.0, 1.0, 1.0], A.tolist()]


def test_large_leaves_in_single_precision_give_nearly_the_same_answers():
    rng = np.random.RandomState(0)
    U, R = rng.normal(size=(700, 3)), rng.normal(size=(700, 1))
    partition = random_partition(U, 700, rng)
    assert precision_of(700, 0.1, None) == np.float32
    assert precision_of(LARGE - 1, 0.1, None) == precision_of(700, 1e-4, None) == np.float64
    assert precision_of(700, 0.1, np.array([1.0, 1e4])) == np.float64
    assert precision_of(700, 1e-3, None) == np.float64 != precision_of(700, 1e-3, None, COMPARED_REACH)
    (single,), (double,) = (
        fit_leaves(LeafProblem("matern32", 1.0, 0.1, U, R, None, [partition]), single=single)
        for single in (True, False)
    )
    assert (single != double).any()
    K = leaf_kernel("matern32", 1.0, U[partition.rows(0)])
    assert_allclose(K @ single, K @ double, atol=1e-4)


def test_leaves_by_log_loss_need_fewer_digits_as_no_curvature_is_above_a_quarter():
    """What is added to the diagonal is λ(WD)⁻¹, at least four times the penalty."""
    rng = np.random.RandomState(0)
    U, ridge = rng.normal(size=(400, 3)), 1.1 * 400 / SINGLE_REACH / 4
    T = np.where(U[:, :1] + rng.normal(size=(400, 1)) > 0, 1.0, -1.0)
    problem = LeafProblem("matern32", 1.0, ridge, U, T, None, [random_partition(U, 400, rng)], np.zeros((400, 1)))
    (single,), (double,) = (fit_leaves(problem, 1e-6, single=single) for single in (True, False))
    assert precision_of(400, ridge, None) == np.float64
    assert (single != double).any()
    K = leaf_kernel("matern32", 1.0, U[problem.partitions[0].rows(0)])
    assert_allclose(K @ single, K @ double, atol=0.02 * np.abs(K @ double).max())


def test_a_leaf_is_evaluated_by_its_upper_triangle():
    U = np.random.RandomState(0).normal(size=(300, 2))
    reference = np.exp(-0.7 * np.abs(U[:, None] - U[None]).sum(axis=2))
    assert_allclose(leaf_kernel("laplacian_l1", 0.7, U), reference, rtol=1e-12)


@pytest.mark.parametrize(
    ("losses", "tried"),
    [
        ({0: 1.0, -1: 1.004}, [0, -1]),  # as good: the other side of a convex loss gains no more
        ({0: 1.0, -1: 0.9, -2: 0.895}, [0, -1, -2]),
        ({0: 1.0, -1: 1.2, 1: 0.9, 2: 0.95}, [0, -1, 1, 2]),
        ({0: 1.0, -1: 1.2, 1: 1.1}, [0, -1, 1]),
    ],
)
def test_a_climb_tries_the_other_side_only_where_it_may_gain(monkeypatch, losses, tried):
    X, T = noisy(60)
    of, rows, seen = search(), Rows(X, T), []
    middle = of.unit("matern32", rows)

    def trial(step):
        return Trial("view", middle * FACTOR**step, 20, 60, np.ones(1), np.array([losses[step]]), np.empty((1, 0)))

    def score(self, rows, kernel, gamma, landmarks, log2_C, n_jobs, distances, keep=False):
        seen.append(round(np.log2(gamma / middle)))
        return Scored(trial(seen[-1]), None, None)

    monkeypatch.setattr(MetricSearch, "_score", score)
    climb = of.climb(rows, "matern32", 1.0, 20, 1)
    assert seen == tried
    seen.clear()
    last = tried[-1]
    known = of.climb(rows, "matern32", 1.0, 20, 1, {FACTOR**last: trial(last)})
    assert seen == tried[:-1]  # nothing is scored twice
    assert known.factor == climb.factor
    assert [each.width for each in known.trials] == [trial(last).width, *(trial(step).width for step in tried[:-1])]
    seen.clear()
    assert of.climb(rows, "matern32", 1.0, 20, 1, hopeless=1.0).factor == 1.0
    assert seen == [0]
    clear = [step for step in losses if losses[step] < 0.99] or [0]
    assert climb.factor == FACTOR ** min(clear, key=lambda step: (losses[step] > 0.9, abs(step)))


def test_a_first_trial_begins_far_out_where_a_good_c_lies_there():
    assert first_C(None) is first_C(1e3) is LOG2_C
    assert np.log2(1e6) - first_C(1e6).min() > 4 > first_C(1e6).max() - np.log2(1e6) > 0
