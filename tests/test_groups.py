"""Groups: whatever is chosen, judged or calibrated, rows of one group leave together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold

from data import cases, regression
from ulmus import (
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    KELMRegressor,
    LearnedMetric,
    NKELMRegressor,
)
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.features.preparation import Preparation
from ulmus.features.sampling import gathered, shuffled_sample
from ulmus.models._stages import held_sets
from ulmus.tuning.folds import fold_numbers, grouped, renumbered
from ulmus.tuning.metric import MetricSearch
from ulmus.tuning.parts import apart, parts_of

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def siblings(n_groups, seed, each=12):
    """Two columns name the group, by which its effect can be learned by heart; the third is a plain signal."""
    rng = np.random.RandomState(seed)
    g = np.repeat(np.arange(n_groups), each)
    named = rng.normal(size=(n_groups, 2))[g] + 0.01 * rng.normal(size=(len(g), 2))
    x = rng.normal(size=len(g))
    y = 2 * np.sin(2 * x) + 1.5 * rng.normal(size=n_groups)[g] + 0.1 * rng.normal(size=len(g))
    return np.column_stack([x, named]), y, g


def refitted(K, y, C, folds):
    """Predictions by kernel ridge with a constant, fitted anew without each fold."""
    P = np.empty(len(y))
    for k in np.unique(folds):
        train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
        n = len(train)
        A = np.block([[K[np.ix_(train, train)] + np.eye(n) / C, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        w = np.linalg.solve(A, np.append(y[train], 0.0))
        P[test] = K[np.ix_(test, train)] @ w[:n] + w[n]
    return P


def test_residuals_behind_intervals_are_those_of_refits_without_the_group():
    X, y = regression(80, noise=0.3)
    groups = np.arange(80) % 10
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y, groups=groups)
    assert model.local_ is None
    assert model.map_.n_features_out == len(X)
    K = gram_matrix(model.view_.kernel, model.view_.transform(X), KernelParameters(model.view_.gamma))
    errors = y - refitted(K, y, model.C_, grouped(groups, None))
    assert_allclose(model.spread_.residuals[:, 0], np.sort(errors), rtol=1e-6, atol=1e-9)


def test_the_search_of_views_is_scored_by_refits_without_each_fold():
    X, y = regression(60, noise=0.3)
    folds = np.arange(60) % 4
    T = y[:, None] - y.mean()
    coding = Plain.of(T, None)
    search = MetricSearch(coding, 0, True)
    trial = search.score(Rows(X, T, fold=folds), "rbf", 0.3, 60, np.array([0.0, 3.0]), 1).trial
    K = gram_matrix("rbf", X, KernelParameters(0.3))
    for C, loss in zip(trial.C, trial.loss, strict=True):
        P = refitted(K, T[:, 0], C, folds)[:, None]
        assert_allclose(loss, coding.losses(T, P, "squared").mean(), rtol=1e-6)


def test_intervals_cover_new_groups():
    covered = []
    for seed in range(2):
        (X, y, g), (Q, t, _) = siblings(60, seed, 6), siblings(60, seed + 50, 6)
        low, high = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y, groups=g).predict_interval(Q).T
        covered.append(((low <= t) & (t <= high)).mean())
    # 120 group effects in all: the share of groups covered has a deviation below 0.03 on either side of the fit
    assert 0.8 < np.mean(covered) < 0.97


ADAPTIVE = [AdaptiveRegressor, AdaptiveClassifier, AdaptiveOrdinalClassifier]


@pytest.mark.parametrize("model", cases(ADAPTIVE, AdaptiveClassifier))
def test_groups_keep_adaptive_models_from_learning_groups_by_heart(model):
    gains = []
    for seed in range(1, 4):  # forty groups are few: one draw may favour either
        (X, y, g), (Q, t, _) = siblings(40, seed), siblings(40, seed + 50)
        if model is not AdaptiveRegressor:
            cuts = np.quantile(y, [0.5] if model is AdaptiveClassifier else [0.33, 0.67])
            y, t = np.digitize(y, cuts), np.digitize(t, cuts)
        by_rows = model(effort="fast", random_state=0).fit(X, y)
        by_groups = model(effort="fast", random_state=0).fit(X, y, groups=g)
        gains.append(by_groups.score(Q, t) - by_rows.score(Q, t))
        assert by_groups.feature_importances_[0] > by_rows.feature_importances_[0]
    assert np.mean(gains) > 0.01


def test_a_local_stage_that_knows_the_siblings_is_not_kept():
    X, y, g = siblings(60, 3)
    assert AdaptiveRegressor(effort="fast", random_state=0).fit(X, y).local_ is not None
    assert AdaptiveRegressor(effort="fast", random_state=0).fit(X, y, groups=g).local_ is None


def test_a_local_stage_that_pays_for_new_groups_is_kept_and_calibrated_on_all_folds():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.5, 1.5, (1500, 2))
    y = np.sin(9 * X[:, 0]) * np.cos(9 * X[:, 1]) + 0.05 * rng.normal(size=1500)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X[:1000], y[:1000], groups=np.arange(1000) % 30)
    assert model.local_ is not None
    assert len(model.spread_.residuals) == 1000  # every row was left out once
    low, high = model.predict_interval(X[1000:]).T
    # cautious: the scored stage had one partition and four fifths of the rows, the model has two and all of them
    assert 0.87 < ((low <= y[1000:]) & (y[1000:] <= high)).mean() < 0.98


def test_probabilities_are_calibrated_on_groups_left_out():
    (X, y, g), (Q, t, _) = siblings(40, 4), siblings(60, 5)

    def log_loss(**options):
        model = AdaptiveClassifier(effort="fast", random_state=0).fit(X, y > 0, **options)
        P = model.predict_proba(Q)
        return -np.log(P[np.arange(len(Q)), (t > 0).astype(int)]).mean()

    frequencies = -np.log([np.mean(y <= 0), np.mean(y > 0)])[(t > 0).astype(int)].mean()
    assert log_loss(groups=g) < min(log_loss(), frequencies)


def test_weights_are_repetitions_within_groups():
    X, y, g = siblings(20, 6)
    times = np.random.RandomState(0).randint(0, 3, len(y))
    times[g == 3] = 0
    options = {"effort": "fast", "random_state": 0}
    weighted = AdaptiveRegressor(**options).fit(X, y, sample_weight=times, groups=g)
    copies = [np.repeat(a, times, axis=0) for a in (X, y, g)]
    repeated = AdaptiveRegressor(**options).fit(copies[0], copies[1], groups=copies[2])
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), rtol=1e-6)


def test_groups_are_dealt_as_scikit_learn_deals_them():
    rng = np.random.RandomState(0)
    for count in (2, 3, 5, 17):
        g = np.repeat(np.arange(count), 1 + rng.permutation(100)[:count])  # no two of one size
        number = np.empty(len(g), int)
        for k, (_, test) in enumerate(GroupKFold(min(5, count)).split(g, None, g)):
            number[test] = k
        assert_array_equal(grouped(g, None), number)


def test_a_weight_counts_as_copies_where_groups_are_dealt():
    rng = np.random.RandomState(1)
    g, w = rng.randint(0, 12, 100), rng.randint(0, 9, 100)
    w[g == 4] = 0
    assert_array_equal(np.repeat(grouped(g, None, w), w), grouped(np.repeat(g, w), None))


def test_target_means_never_come_from_the_own_group():
    X, y, g = siblings(10, 0)
    X[:, 0] = g
    rows = Rows(X, y[:, None], fold=grouped(g, None))
    kind = Preparation.of("standard", X, rows.T, None, np.array([True, False, False]))
    shown = kind.transform_learned(X, rows.T, None, parts_of(rows, np.random.RandomState(0)))
    # the level is the group: without it nothing is known of the level but the overall mean
    assert_allclose(shown[:, -1] * kind.mean_deviation, y.mean())


def test_equal_rows_of_two_groups_stay_two():
    X, T = np.repeat(np.arange(30.0)[:, None], 2, axis=0), np.repeat(np.arange(30.0)[:, None], 2, axis=0)
    fold = np.arange(60) % 2
    assert len(gathered(Rows(X, T))) == 30
    assert len(gathered(Rows(X, T, fold=fold))) == 60
    sample = shuffled_sample(Rows(X, T, fold=fold), 50, np.random.RandomState(0))
    assert len(sample) == 50
    assert_array_equal(sample.fold, fold[(2 * sample.X[:, 0]).astype(int) + sample.fold])


def test_views_are_compared_on_groups_from_which_no_metric_was_learned():
    fold = np.random.RandomState(0).randint(0, 5, 900)
    known, fresh = apart(Rows(np.arange(900.0)[:, None], np.zeros((900, 1)), fold=fold), 450)
    assert not set(known.fold) & set(fresh.fold)
    assert len(set(known.fold)) >= 2
    assert len(set(fresh.fold)) >= 2
    assert len(known) == 450


def test_the_local_stage_is_scored_on_whole_folds():
    X, _, g = siblings(40, 0)
    fold = grouped(g, None)
    held = held_sets(Rows(X, X[:, :1], fold=fold), np.random.RandomState(0))
    assert_array_equal(np.sum(held, axis=0), 1)
    assert all(len(np.unique(fold[mask])) == 1 for mask in held)


@pytest.mark.parametrize("model", cases([KELMRegressor, NKELMRegressor]))
def test_a_learned_metric_is_scored_on_groups_left_out(model):
    given = {"metric": "auto", "gamma": 0.1, "C": 10.0, "random_state": 0}  # the metric has a search of its own
    X, y, g = siblings(25, 7)
    folds = fold_numbers(None, X, y, g, False)
    by_rows = model(**given).fit(X, y)
    by_groups = model(**given).fit(X, y, groups=g)
    by_splits = model(**given, cv=GroupKFold(5)).fit(X, y, groups=g)
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(5)]
    by_list = model(**given, cv=splits).fit(X, y)
    assert by_groups.feature_importances_[0] > by_rows.feature_importances_[0]
    assert_array_equal(by_groups.metric_, by_splits.metric_)
    assert_array_equal(by_groups.metric_, by_list.metric_)
    assert_array_equal(by_groups.metric_, LearnedMetric(random_state=0).fit(X, y, groups=g).metric_)


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="one group has nearly all rows"):
        renumbered(np.zeros(100, int))
    with pytest.raises(ValueError, match="cv=7 folds cannot be made of 4 groups"):
        grouped([0, 1, 2, 3], 7)
    with pytest.raises(ValueError, match="Pass a list of splits"):
        fold_numbers(iter([]), np.zeros((4, 1)), np.zeros(4), None, False)
    X, y, g = siblings(10, 0)
    with pytest.raises(ValueError, match="at least two groups, got one"):
        AdaptiveRegressor(effort="fast").fit(X, y, groups=np.zeros(len(y)))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        AdaptiveRegressor(effort="fast").fit(X, y, groups=g[:3])
