"""What calibrates a model when rows come in folds, and how parameters are chosen when rows cannot be read twice."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data import cases
from ulmus import (
    ELMClassifier,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    NystromMap,
)
from ulmus.calibration import FoldModels, fold_sample, leave_one_out
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.models.kelm import calibration_last
from ulmus.solvers.kernel_ridge import fit_kernel_ridge
from ulmus.solvers.nystrom_ridge import NystromProblem, nystrom_statistics
from ulmus.solvers.ridge import leave_out
from ulmus.statistics import Summary
from ulmus.tuning import Scorer

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


@pytest.fixture
def problem():
    rng = np.random.RandomState(3)
    X = rng.normal(size=(60, 3))
    T = np.column_stack([np.sin(X[:, 0]) + 5.0, X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(60, 2))
    return X, T, rng.uniform(0.2, 1.0, 60), rng.randint(4, size=60)


@pytest.mark.parametrize("intercept", [False, True])
def test_nystrom_calibration_by_folds_equals_refits_without_their_rows_and_landmarks(problem, intercept):
    X, T, w, folds = problem
    rows = Rows(X, T, w, w)
    features = NystromMap(15, gamma=0.3, random_state=0).fit(X)
    sums = Summary.of(partial(nystrom_statistics, features), rows, folds)
    held_out = fold_sample(features, rows, FoldModels(folds, sums, 50.0, intercept), np.random.RandomState(0))
    for k in range(4):
        test, rest = folds == k, rows.take(folds != k)
        of_fold = (features.landmarks_[:, None] == X[test]).all(axis=2).any(axis=1)
        assert of_fold.any()
        others = NystromMap(landmarks=features.landmarks_[~of_fold], gamma=0.3).fit(X)
        refit = NystromProblem(others, rest, 50.0, fit_intercept=intercept).solve()
        F = others.transform(X[test])
        np.testing.assert_allclose(held_out.P[test], F @ refit.beta + refit.intercept, atol=1e-8)
        variance = refit.leverage(F) + 50.0 * others.residual_kernel(X[test])
        np.testing.assert_allclose(held_out.variance[test], variance, rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", cases([False, True], True))
def test_a_model_whose_landmarks_are_all_rows_leaves_rows_out_as_refits_of_the_exact_kernel(
    problem, intercept, weighted
):
    X, T, w, _ = problem
    rows = Rows(X, T, w, w) if weighted else Rows(X, T)
    features = NystromMap(len(X), gamma=0.3, random_state=0).fit(X)
    solution = NystromProblem(features, rows, 50.0, fit_intercept=intercept).solve()
    assert solution.leverage.rows is not None
    held_out = leave_one_out(features, rows, solution, 50.0)
    assert held_out.one_by_one
    spent = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        model = KELMRegressor(gamma=0.3, C=50.0, fit_intercept=intercept)
        model.fit(X[rest], T[rest], sample_weight=w[rest] if weighted else None)
        np.testing.assert_allclose(held_out.P[i], model.predict(X[[i]])[0], atol=1e-8)
        h = model._variance_factors(X[[i]])[0][0]
        np.testing.assert_allclose(held_out.variance[i], h, rtol=1e-7)
        spent.append(1 - 1 / (1 + (w[i] if weighted else 1.0) * h))
    np.testing.assert_allclose(held_out.freedom, np.mean(spent), rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_kernel_calibration_by_folds_equals_refits_without_them(problem, intercept, weighted):
    X, T, w, folds = problem
    w = w if weighted else None
    order, n_last = calibration_last(len(X), folds)
    assert n_last == len(X)
    X, T, folds = X[order], T[order], folds[order]
    w = None if w is None else w[order]
    cross = CrossKernel("rbf", X, KernelParameters(0.5))
    solution = fit_kernel_ridge(
        cross, Rows(X, T, w, w), 20.0, fit_intercept=intercept, n_last=n_last, last_folds=folds[-n_last:]
    )
    P = leave_out(T, solution.residual, solution.remainder)
    for k in range(4):
        test, rest = folds == k, folds != k
        model = KELMRegressor(gamma=0.5, C=20.0, fit_intercept=intercept)
        model.fit(X[rest], T[rest], sample_weight=None if w is None else w[rest])
        np.testing.assert_allclose(P[test], model.predict(X[test]), atol=1e-8)
        h = model._variance_factors(X[test])[0]
        u = np.ones(test.sum()) if w is None else w[test]
        np.testing.assert_allclose(solution.remainder[test], 1 / (1 + u * h), atol=1e-8)


def test_exact_kernel_calibrates_on_whole_folds():
    folds = np.repeat(np.arange(40), 100)
    order, n_last = calibration_last(4000, folds)
    last = folds[order][-n_last:]
    assert n_last == 1000
    assert not set(last) & set(folds[order][:-n_last])
    assert sorted(order) == list(range(4000))


def siblings(seed, n_groups=200, size=5):
    """Groups of rows that lie close together and share an offset: a sibling gives the offset away."""
    rng = np.random.RandomState(seed)
    centre, offset = rng.uniform(-3, 3, (n_groups, 1, 3)), rng.normal(size=(n_groups, 1))
    X = centre + 0.05 * rng.normal(size=(n_groups, size, 3))
    y = X[:, :, 0] + offset + 0.1 * rng.normal(size=(n_groups, size))
    return X.reshape(-1, 3), y.ravel(), np.repeat(np.arange(n_groups), size)


@pytest.mark.parametrize("Model", [NKELMRegressor, ELMRegressor, KELMRegressor])
def test_intervals_of_grouped_rows_hold_new_groups_only_when_calibrated_by_groups(Model):
    X, y, groups = siblings(0)
    X_new, y_new, _ = siblings(1)
    size = {"NKELMRegressor": {"n_landmarks": 200}, "ELMRegressor": {"n_hidden": 200}, "KELMRegressor": {}}
    width = {"slope": 2.0} if Model is ELMRegressor else {"gamma": 0.5}
    covered = {}
    for name, given in (("by rows", None), ("by groups", groups)):
        model = Model(**size[Model.__name__], **width, C=10.0, random_state=0).fit(X, y, groups=given)
        low, high = model.predict_interval(X_new, coverage=0.9).T
        covered[name] = np.mean((low <= y_new) & (y_new <= high))
    assert covered["by rows"] < 0.7
    assert covered["by groups"] > 0.8


def test_probabilities_of_grouped_rows_are_less_sure_when_calibrated_by_groups():
    (X, y, groups), (X_new, y_new, _) = siblings(2), siblings(3)
    for Model in (NKELMClassifier, KELMClassifier):
        by_rows = Model(gamma=0.5, C=100.0, random_state=0).fit(X, y > 0)
        by_groups = Model(gamma=0.5, C=100.0, random_state=0).fit(X, y > 0, groups=groups)
        P = [model.predict_proba(X_new) for model in (by_groups, by_rows)]
        sure, loss = [p.max(axis=1).mean() for p in P], [log_loss(y_new > 0, p) for p in P]
        assert sure[0] < sure[1] - 0.05
        assert loss[0] < 0.9 * loss[1]


def test_generalised_cross_validation_chooses_the_C_of_its_formula():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = NKELMRegressor(60, gamma=0.02, criterion="gcv", fit_intercept=False, random_state=0).fit(X, y)
    F = model.map_.transform(X)
    scores = {}
    for C in model.tuning_.trials[-1].C:
        S = F @ np.linalg.solve(F.T @ F + np.eye(F.shape[1]) / C, F.T)
        scores[C] = len(y) * np.sum((y - S @ y) ** 2) / (len(y) - np.trace(S)) ** 2 / y.var()
    np.testing.assert_allclose(model.tuning_.trials[-1].loss, list(scores.values()), rtol=1e-6)
    assert scores[model.C_] <= 1.001 * min(scores.values())


@pytest.mark.parametrize("Model", cases([NKELMRegressor, ELMRegressor, KELMRegressor], NKELMRegressor))
def test_generalised_cross_validation_does_about_as_well_as_leave_one_out(Model):
    X, y = load_diabetes(return_X_y=True)
    by = {}
    for criterion in ("auto", "gcv"):
        model = make_pipeline(StandardScaler(), Model(criterion=criterion, random_state=0))
        by[criterion] = cross_val_score(model, X, y, cv=3).mean()
    assert by["gcv"] > by["auto"] - 0.03


def test_generalised_cross_validation_serves_classifiers():
    X, y = load_iris(return_X_y=True)
    for Model in (NKELMClassifier, ELMClassifier, KELMClassifier):
        model = Model(criterion="gcv", random_state=0)
        assert cross_val_score(model, X, y, cv=3).mean() > 0.93


def test_generalised_cross_validation_evaluates_no_row_twice():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(800, 2))
    y = np.sin(X[:, 0])
    seen = []

    def kernel(A, B):
        seen.append(len(A))
        return rbf_kernel(A, B, gamma=0.5)

    counts = {}
    features = NystromMap(30, kernel=kernel, random_state=0).fit(X)
    rows = Rows(X, y[:, None])
    for criterion in ("gcv", "squared"):
        scorer = Scorer(rows, Plain.of(y[:, None], None), nystrom_statistics, False, criterion=criterion, n_jobs=1)
        seen.clear()
        scorer.trial("C", 1.0, features, scorer.summarise(features), np.arange(-5.0, 6.0))
        counts[criterion] = sum(seen)
    assert counts["gcv"] == 800
    assert counts["squared"] > 800


def test_generalised_cross_validation_refuses_folds():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match='criterion="gcv" has no folds'):
        NKELMRegressor(criterion="gcv", cv=3).fit(X, y)
    with pytest.raises(ValueError, match='criterion="gcv" has no folds'):
        ELMRegressor(criterion="gcv").fit(X, y, groups=np.arange(len(y)) % 5)


def test_a_row_beside_which_others_know_nothing_leaves_with_the_digits_of_white_features():
    rng = np.random.RandomState(5)
    X = np.column_stack([rng.normal(size=(120, 3)), np.zeros(120)])
    X[0, 3] = 13.0
    y = np.sin(X[:, 0]) + X[:, 1]
    features = NystromMap(landmarks=X[:60], gamma=3e-4).fit(X)  # smooth: some landmarks depend on others
    assert features.n_dropped_
    rows, C = Rows(X, y[:, None]), 2.0**30
    solution = NystromProblem(features, rows, C, fit_intercept=True).solve()
    Phi = features.transform(X)
    remainder = 1.0 - solution.leverage(Phi)
    assert remainder[0] < 1e-6
    expected = leave_out(rows.T, rows.T - Phi @ solution.beta - solution.intercept, remainder)
    # weights on kernel values are so large that fitted values by them are off by more than the residual
    np.testing.assert_allclose(leave_one_out(features, rows, solution, C).P, expected, rtol=1e-3)
