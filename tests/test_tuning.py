"""Self-tuning: leave-one-out, folds and nested sizes equal refits; choices are sensible on degenerate data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
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
    datasets,
)
from ulmus.backend import Host
from ulmus.codings import MARGIN, OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.solvers.kernel_ridge import fit_kernel_ridge
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.path import RidgePath
from ulmus.solvers.ridge import Problem, leave_out
from ulmus.statistics import Statistics
from ulmus.tuning import Scorer, fold_numbers

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

C_VALUES = np.array([2.0**-6, 1.0, 2.0**8, 2.0**20])


def weighted_ridge(Phi, T, w, C, intercept):
    """Brute force: least squares on the stacked weighted rows and the penalty."""
    D = Phi.shape[1]
    root = np.sqrt(w)[:, None]
    A, Y = Phi * root, T * root
    P = np.eye(D) / np.sqrt(C)
    if intercept:
        A, P = np.column_stack([A, root]), np.column_stack([P, np.zeros(D)])
    beta = np.linalg.lstsq(np.vstack([A, P]), np.vstack([Y, np.zeros((D, T.shape[1]))]), rcond=None)[0]
    return (beta[:-1], beta[-1]) if intercept else (beta, np.zeros(T.shape[1]))


@pytest.fixture
def problem():
    rng = np.random.RandomState(3)
    X = rng.normal(size=(40, 3))
    T = np.column_stack([np.sin(X[:, 0]) + 5.0, X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(40, 2))
    return X, T, rng.uniform(0.2, 1.0, 40)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refits(problem, intercept, weighted):
    X, T, w = problem
    w = w if weighted else np.ones(len(X))
    F = NystromMap(12, gamma=0.3, random_state=0).fit_transform(X)
    path = RidgePath(Statistics.of(F, T, w), fit_intercept=intercept)
    predictions, _ = path.leave_one_out(C_VALUES)(F, T, w)
    for c, C in enumerate(C_VALUES):
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            beta, b = weighted_ridge(F[rest], T[rest], w[rest], C, intercept)
            np.testing.assert_allclose(predictions[c, i], F[i] @ beta + b, rtol=1e-8, atol=1e-8)


def test_leaving_out_one_copy_of_a_repeated_row_equals_refits(problem):
    X, T, _ = problem
    copies = np.random.RandomState(0).randint(1, 4, len(X)).astype(float)
    F = NystromMap(12, gamma=0.3, random_state=0).fit_transform(X)
    path = RidgePath(Statistics.of(F, T, copies))
    predictions, _ = path.leave_one_out(C_VALUES)(F, T, np.minimum(copies, 1.0))
    for i in range(len(X)):
        fewer = copies.copy()
        fewer[i] -= 1.0
        beta, _ = weighted_ridge(F, T, fewer, C_VALUES[1], False)
        np.testing.assert_allclose(predictions[1, i], F[i] @ beta, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_hidden", [15, 100], ids=["primal", "dual"])
def test_leverage_of_a_solution_gives_the_same_leave_one_out(problem, intercept, n_hidden):
    from ulmus import RandomLayer

    X, T, w = problem
    layer = RandomLayer(n_hidden, activation="tanh", random_state=0).fit(X)
    F = layer.transform(X)
    solution = Problem(layer, Rows(X, T, w, w), 4.0, intercept).solve()
    h = solution.leverage(F)
    P = leave_out(T, T - F @ solution.beta - solution.intercept, 1 - w * h)
    for i in range(0, len(X), 5):
        rest = np.arange(len(X)) != i
        beta, b = weighted_ridge(F[rest], T[rest], w[rest], 4.0, intercept)
        np.testing.assert_allclose(P[i], F[i] @ beta + b, rtol=1e-7, atol=1e-8)


def test_losses_of_a_search_have_digits_where_models_pass_through_few_rows():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(66, 4))
    T = np.sin(X[:, :1]) * X[:, 1:2]
    features, rows = NystromMap(kernel="matern32", gamma=0.1, landmarks="all").fit(X), Rows(X, T)
    assert 1e5 < features.condition_ < 1.5e6  # which large tables are summed with before they are whitened
    scorer = Host(1).scorer(rows, Plain.of(T, None), True, "squared", None)
    found = scorer.trial("C", 0.1, features, scorer.summarise(features), np.arange(10.0, 31.0, 4.0))
    cross = CrossKernel("matern32", X, KernelParameters(0.1))
    for C, loss in zip(found.C, found.loss, strict=True):
        exact = fit_kernel_ridge(cross, rows, C, fit_intercept=True, n_last=66)
        error = T - leave_out(T, exact.residual, exact.remainder)
        assert_allclose(loss, np.mean(error**2) / np.var(T), rtol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [1.0, 2.0**30], ids=["smooth", "interpolating"])
def test_exact_kernel_leave_one_out_equals_refits(problem, intercept, C):
    X, T, w = problem
    model = KELMRegressor(gamma=2.0, C=C, fit_intercept=intercept)
    cross = CrossKernel("rbf", X, KernelParameters(2.0))
    solution = fit_kernel_ridge(cross, Rows(X, T, w, w), C, fit_intercept=intercept, n_last=25)
    P = leave_out(T[-25:], solution.residual, solution.remainder)
    for i in range(25):
        rest = np.arange(len(X)) != 15 + i
        refit = clone(model).fit(X[rest], T[rest], sample_weight=w[rest])
        np.testing.assert_allclose(P[i], refit.predict(X[[15 + i]])[0], rtol=1e-8, atol=1e-8)


def make_scorer(X, T, coding, **options):
    return Scorer(Rows(X, T), coding, nystrom_statistics, False, **options)


def test_losses_of_every_C_equal_brute_force_leave_one_out(problem):
    X, T, _ = problem
    features = NystromMap(12, gamma=0.3, random_state=0).fit(X)
    scorer = make_scorer(X, T, Plain.of(T, None))
    trial = scorer.trial("C", 0.3, features, scorer.summarise(features), np.array([-3.0, 0.0, 4.0]))
    F = features.transform(X)
    for C, loss in zip(trial.C, trial.loss, strict=True):
        errors = []
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            beta, _ = weighted_ridge(F[rest], T[rest], np.ones(len(X) - 1), C, False)
            errors.append((((F[i] @ beta - T[i]) / T.std(axis=0)) ** 2).mean())
        np.testing.assert_allclose(loss, np.mean(errors), rtol=1e-8)


def test_nested_surface_equals_separate_fits(problem):
    X, T, _ = problem
    large = NystromMap(24, gamma=0.3, random_state=0).fit(X)
    scorer = make_scorer(X, T, Plain.of(T, None))
    summary = scorer.summarise(large)
    grid = np.array([-3.0, 2.0, 10.0, 20.0])
    for size in (3, 8, 17, 24):
        nested = scorer.trial("size", 0.3, large, summary, grid, size)
        small = NystromMap(size, gamma=0.3, random_state=0).fit(X)
        separate = scorer.trial("size", 0.3, small, scorer.summarise(small), grid)
        np.testing.assert_allclose(nested.loss[:4], separate.loss[:4], rtol=1e-8)
        np.testing.assert_allclose(large.prefix(size).transform(X), small.transform(X), atol=1e-10)


@pytest.mark.parametrize("grouped", [False, True])
def test_folds_from_statistics_equal_refits(problem, grouped):
    X, T, _ = problem
    groups = np.repeat(np.arange(10), 4) if grouped else None
    splitter = GroupKFold(4) if grouped else KFold(4)
    folds = fold_numbers(4, X, T[:, 0], groups, classifier=False)
    features = NystromMap(12, gamma=0.3, random_state=0).fit(X)
    scorer = make_scorer(X, T, Plain.of(T, None), folds=folds)
    trial = scorer.trial("C", 0.3, features, scorer.summarise(features), np.array([-2.0, 3.0, 9.0]))
    F = features.transform(X)
    for C, loss in zip(trial.C, trial.loss, strict=True):
        errors = np.empty(len(X))
        for train, test in splitter.split(X, groups=groups):
            beta, _ = weighted_ridge(F[train], T[train], np.ones(len(train)), C, False)
            errors[test] = (((F[test] @ beta - T[test]) / T.std(axis=0)) ** 2).mean(axis=1)
        np.testing.assert_allclose(loss, errors.mean(), rtol=1e-8)


def test_generalised_cross_validation_is_its_formula(problem):
    X, T, _ = problem
    F = NystromMap(12, gamma=0.3, random_state=0).fit_transform(X)
    path = RidgePath(Statistics.of(F, T))
    for C, score in zip(C_VALUES, path.gcv(C_VALUES), strict=True):
        S = F @ np.linalg.solve(F.T @ F + np.eye(F.shape[1]) / C, F.T)
        e = T - S @ T
        np.testing.assert_allclose(score, len(X) * (e**2).sum(axis=0) / (len(X) - np.trace(S)) ** 2, rtol=1e-7)


def test_soft_error_tends_to_the_error_count():
    rng = np.random.RandomState(0)
    coding = OneVsAll(np.arange(4))
    T = coding.encode(rng.randint(4, size=200))
    P = rng.normal(size=(3, 200, 4))
    soft, hard = coding.losses(T, 1e4 * P, "auto"), coding.losses(T, P, "error")
    np.testing.assert_allclose(soft, hard, atol=1e-6)
    np.testing.assert_array_equal(hard, (P.argmax(axis=2) != T.argmax(axis=1)).astype(float))


def satimage():
    data = datasets.load("satimage")
    (X, y), (X_test, y_test) = data.train, data.test
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def test_no_argument_classifier_beats_the_documents_satimage_accuracy():
    X, y, X_test, y_test = satimage()
    model = NKELMClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) >= 0.9125
    assert {"stage", "width", "size", "C", "loss"} == set(model.tuning_.surface())


def test_choices_are_repeatable_whatever_the_thread_count():
    X, y = make_regression(300, 5, noise=1.0, random_state=0)
    fits = [NKELMRegressor(random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2, None)]
    for other in fits[1:]:
        assert (other.C_, other.gamma_, other.n_landmarks_) == (fits[0].C_, fits[0].gamma_, fits[0].n_landmarks_)
        np.testing.assert_array_equal(fits[0].predict(X), other.predict(X))


def test_probabilities_are_calibrated_and_agree_with_predict():
    X, y, X_test, y_test = satimage()
    model = NKELMClassifier(500, gamma=0.05, random_state=0).fit(X, y)
    p = model.predict_proba(X_test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X_test))
    confidence, right = p.max(axis=1), model.predict(X_test) == y_test
    bins = np.digitize(confidence, np.linspace(0, 1, 11))
    gaps = [abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    assert sum(gaps) <= 0.03


@pytest.mark.parametrize(
    "model", [NKELMRegressor(200), ELMRegressor(200), KELMRegressor()], ids=lambda m: type(m).__name__
)
def test_intervals_cover_what_they_promise(model):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (3000, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.3 * rng.standard_t(4, size=3000)
    model = model.set_params(random_state=0).fit(X[:1000], y[:1000])
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[1000:], coverage).T
        inside = np.mean((low <= y[1000:]) & (y[1000:] <= high))
        # three standard errors: 1000 residuals fix the quantile, 2000 rows check it
        assert abs(inside - coverage) < 3 * np.sqrt(coverage * (1 - coverage) * (1 / 1000 + 1 / 2000))


def test_standard_deviation_is_that_of_the_gaussian_process():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    rng = np.random.RandomState(0)
    X, X_new = rng.normal(size=(60, 2)), 2 * rng.normal(size=(30, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    gamma, C = 0.5, 50.0
    for model in (KELMRegressor(gamma=gamma, C=C), NKELMRegressor(60, gamma=gamma, C=C)):
        mean, deviation = model.fit(X, y).predict(X_new, return_std=True)
        amplitude = model.spread_.noise[0] ** 2 * C
        kernel = ConstantKernel(amplitude, "fixed") * RBF(1 / np.sqrt(2 * gamma), "fixed")
        process = GaussianProcessRegressor(kernel, alpha=amplitude / C, optimizer=None).fit(X, y)
        expected_mean, expected = process.predict(X_new, return_std=True)
        np.testing.assert_allclose(mean, expected_mean, atol=1e-7)
        np.testing.assert_allclose(deviation, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("Model", cases([NKELMRegressor, ELMRegressor, KELMRegressor], NKELMRegressor, KELMRegressor))
@pytest.mark.parametrize(
    ("name", "X", "y"),
    [
        ("constant target", np.random.RandomState(0).normal(size=(50, 3)), np.full(50, 7.0)),
        ("two rows", np.array([[0.0], [1.0]]), np.array([1.0, 3.0])),
        ("one row", np.array([[0.5, 1.0]]), np.array([2.0])),
        ("one feature", np.linspace(0, 1, 40)[:, None], np.linspace(0, 1, 40) ** 2),
        ("pure noise", np.random.RandomState(1).normal(size=(200, 4)), np.random.RandomState(2).normal(size=200)),
        ("tiny variance", 1e-150 * np.random.RandomState(1).normal(size=(60, 2)), np.arange(60.0)),
        ("constant features", np.ones((30, 3)), np.arange(30.0)),
        ("duplicates", np.repeat(np.arange(5.0), 20)[:, None], np.repeat(np.arange(5.0), 20)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_degenerate_regressions_end_in_a_finite_model(Model, name, X, y):
    prediction = Model(random_state=0).fit(X, y).predict(X)
    assert np.isfinite(prediction).all()
    if name in ("constant target", "constant features"):
        np.testing.assert_allclose(prediction, y.mean(), rtol=1e-6)
    if name == "pure noise":
        assert np.var(prediction) < 0.5 * np.var(y)


def test_perfectly_separable_classes_are_separated():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    y = np.repeat(["left", "right"], 50)
    for model in (NKELMClassifier(random_state=0), ELMClassifier(random_state=0)):
        assert model.fit(X, y).score(X, y) == 1.0


def test_fixed_values_are_kept_while_the_rest_is_chosen():
    X, y = make_regression(200, 4, noise=1.0, random_state=0)
    model = NKELMRegressor(C=3.0, random_state=0).fit(X, y)
    assert model.C_ == 3.0
    model = NKELMRegressor(50, gamma=0.02, random_state=0).fit(X, y)
    assert (model.gamma_, model.n_landmarks_) == (0.02, 50)
    assert not hasattr(NKELMRegressor(50, gamma=0.02, C=1.0).fit(X, y), "tuning_")


def test_repeated_test_rows_in_cv_are_refused():
    X, y = make_regression(30, 2, random_state=0)
    with pytest.raises(ValueError, match="every row at most once"):
        NKELMRegressor(cv=[(np.arange(15), np.arange(15, 30)), (np.arange(15), np.arange(15, 30))]).fit(X, y)


def test_unfitted_models_say_so():
    for method in ("predict", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(NKELMRegressor(), method)(np.ones((2, 2)))


def test_coverage_outside_its_range_is_refused():
    X, y = make_regression(30, 2, random_state=0)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1, got 90"):
        NKELMRegressor(10, gamma=1.0, C=1.0).fit(X, y).predict_interval(X, coverage=90)


def test_verbose_reports_the_search(capsys):
    X, y = make_regression(100, 2, random_state=0)
    NKELMRegressor(verbose=True, random_state=0).fit(X, y)
    assert "loss" in capsys.readouterr().out


def test_weights_equal_repetition_through_the_search_on_samples_of_the_rows():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(3000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=3000)
    copies = rng.randint(1, 4, 3000)
    weighted = NKELMRegressor(random_state=0).fit(X, y, sample_weight=copies)
    repeated = NKELMRegressor(random_state=0).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    for name in ("gamma_", "n_landmarks_", "C_"):
        assert getattr(weighted, name) == getattr(repeated, name)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


def test_a_criterion_of_the_other_task_is_refused():
    X, y = make_regression(30, 2, random_state=0)
    with pytest.raises(ValueError, match=r"criterion must be one of .* for NKELMRegressor, got 'error'"):
        NKELMRegressor(criterion="error").fit(X, y)
    with pytest.raises(ValueError, match=r"(?s)'criterion' .* of NKELMClassifier .* Got 'absolute'"):
        NKELMClassifier(criterion="absolute").fit(X, y > 0)


def test_a_split_that_trains_on_less_than_the_rest_is_refused():
    X, y = make_regression(30, 2, random_state=0)
    with pytest.raises(ValueError, match="cv must train on every row that it does not test"):
        NKELMRegressor(cv=TimeSeriesSplit(3)).fit(X, y)


def test_balanced_class_weights_count_sample_weights():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 2)), rng.randint(2, size=60)
    copies = rng.randint(1, 4, 60)
    options = {"n_landmarks": 20, "gamma": 0.5, "C": 4.0, "class_weight": "balanced", "random_state": 0}
    weighted = NKELMClassifier(**options).fit(X, y, sample_weight=copies)
    repeated = NKELMClassifier(**options).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-9)


def test_class_weights_below_zero_are_refused_and_zero_takes_a_class_out():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    with pytest.raises(ValueError, match="class weights must be non-negative"):
        KELMClassifier(gamma=1.0, C=1.0, class_weight={0: -1.0, 1: 1.0, 2: 1.0}).fit(X, y)
    for Model in (KELMClassifier, NKELMClassifier):
        model = Model(gamma=1.0, C=1.0, class_weight={0: 0.0, 1: 1.0, 2: 1.0}).fit(X, y)
        assert set(model.predict(X)) <= {1, 2}


def test_scores_that_say_nothing_count_as_guessing_and_large_margins_as_errors():
    coding = OneVsAll(np.arange(5))
    T = coding.encode(np.arange(5))
    assert_allclose(coding.losses(T, np.zeros((5, 5)), "auto"), 0.8)
    P = 50.0 * np.random.RandomState(0).normal(size=(3, 5, 5))
    assert_allclose(coding.losses(T, 100 * P, "auto"), coding.losses(T, P, "error"), atol=1e-9)
    reference = 1 - np.take_along_axis(softmax(P / 100 / MARGIN, axis=-1), np.arange(5)[None, :, None], -1)[..., 0]
    assert_allclose(coding.losses(T, P / 100, "auto"), reference, rtol=1e-10, atol=1e-14)


def test_labels_that_are_mostly_noise_still_get_a_model():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 3, (900, 2)).astype(float)
    likely = (X[:, 0] + 3 * X[:, 1]).astype(int)
    y = np.where(rng.uniform(size=900) < 0.25, likely, rng.randint(0, 9, 900))  # two thirds of the labels are wrong
    for model in (KELMClassifier(random_state=0), NKELMClassifier(random_state=0)):
        assert model.fit(X[:600], y[:600]).C_ > 1e-4
        assert model.score(X[600:], y[600:]) > 0.25


def test_a_gamma_that_only_adds_to_a_given_c_is_not_climbed_for_ever():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60) > 0
    model = KELMClassifier(kernel="poly", C=1e3, random_state=0).fit(X, y)
    losses = {trial.width: trial.best_loss for trial in model.tuning_.trials}
    assert model.gamma_ <= 16 * model.tuning_.trials[0].width
    assert losses[model.gamma_] <= 1.01 * min(losses.values())
