"""Softmax and logistic models: against dense Newton steps, scikit-learn, mpmath, repetition, and ugly rows."""

import warnings

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from data import cases, classification, rows
from ulmus.engine import Precomputed, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.solvers import log_metric
from ulmus.solvers import softmax as module
from ulmus.solvers.log_kernel import fit_kernel_softmax
from ulmus.solvers.log_loss import losses, proportions, targets
from ulmus.solvers.softmax import LogProblem, fit_softmax


def codes(y, k):
    return np.where(y == 1, 1.0, -1.0)[:, None] if k == 2 else np.where(y[:, None] == np.arange(k), 1.0, -1.0)


def centred(F):
    """Scores up to what all classes share."""
    return F if F.shape[1] == 1 else F - F.mean(axis=1, keepdims=True)


def dense_newton(Phi, Y, C, weight=None, offset=None, intercept=True):
    """Scores at the minimum, by full Newton steps on all weights at once; two classes as one column."""
    n, m = Y.shape
    Z = np.column_stack([Phi, np.ones(n)]) if intercept else Phi
    w = np.ones(n) if weight is None else weight
    shift = np.zeros((n, m)) if offset is None else offset
    L = Z.shape[1]
    penalty = np.full(L, 1 / C)
    if intercept:
        penalty[-1] = 0.0
    V = np.zeros((L, m))

    def value(V):
        F = shift + Z @ V
        each = np.logaddexp(0, F[:, 0]) - Y[:, 0] * F[:, 0] if m == 1 else -(Y * log_softmax(F, axis=1)).sum(axis=1)
        return w @ each + 0.5 * (penalty[:, None] * V**2).sum()

    for _ in range(100):
        F = shift + Z @ V
        P = expit(F) if m == 1 else softmax(F, axis=1)
        g = (Z.T @ (w[:, None] * (P - Y)) + penalty[:, None] * V).T.ravel()
        A = (P * (1 - P))[:, :, None] if m == 1 else P[:, :, None] * (np.eye(m) - P[:, None, :])
        H = np.einsum("n,nab,ni,nj->aibj", w, A, Z, Z, optimize=True).reshape(m * L, m * L)
        H += np.diag(np.tile(penalty, m))
        step = -np.linalg.lstsq(H, g, rcond=1e-15)[0].reshape(m, L).T
        t = 1.0
        while value(V + t * step) > value(V) and t > 1e-12:
            t /= 2
        V = V + t * step
        if np.abs(Z @ step).max() < 1e-9:
            break
    return shift + Z @ V


SHAPES = [(30, 50, 2), (30, 50, 3), (300, 6, 2), (300, 6, 5)]


@pytest.mark.parametrize(("n", "L", "k"), SHAPES)
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_scores_are_those_of_dense_newton_steps_with_weights_and_offsets(n, L, k, C):
    rng = np.random.RandomState(0)
    X, y = classification(n, 4, k)
    Phi, T = np.tanh(X @ rng.normal(size=(4, L))), codes(y, k)
    weight, offset = rng.uniform(0.2, 3.0, n), rng.normal(size=T.shape)
    for intercept in (False, True):
        found = fit_softmax(LogProblem.of(Phi, T, C, weight, offset=offset, fit_intercept=intercept), tol=1e-12)
        expected = dense_newton(Phi, targets(T), C, weight, offset, intercept)
        assert found.converged
        assert_allclose(proportions(found.F), proportions(expected), atol=1e-6)
        assert_allclose(centred(found.F), centred(expected), atol=1e-6 * max(1, np.abs(expected).max()))
        assert_allclose(centred(Phi @ found.beta + found.intercept), centred(found.F - offset), atol=1e-6)


@pytest.mark.parametrize("k", [2, 26])
def test_predictions_are_those_of_scikit_learn(k):
    rng = np.random.RandomState(1)
    X = rng.normal(size=(900, 5))
    centres = rng.normal(size=(k, 5))
    y = ((X @ centres.T) + rng.gumbel(size=(900, k))).argmax(axis=1)
    found = fit_softmax(LogProblem.of(X, codes(y, k), 0.7), tol=1e-12)
    rival = LogisticRegression(C=0.7, tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(X, y)
    P = proportions(found.F)
    P = np.column_stack([1 - P, P]) if k == 2 else P
    assert_allclose(P, rival.predict_proba(X), atol=1e-6)


def test_a_tiny_problem_is_right_to_many_digits():
    x, t, C = [-1.0, 0.5, 2.0], [-1, 1, 1], 5
    with mpmath.workdps(40):

        def gradient(b, a):
            p = [1 / (1 + mpmath.exp(-(a + b * v))) - (s + 1) / 2 for v, s in zip(x, t, strict=True)]
            return [mpmath.fsum(e * v for e, v in zip(p, x, strict=True)) + b / C, mpmath.fsum(p)]

        b, a = mpmath.findroot(gradient, (1, 0))
    found = fit_softmax(LogProblem.of(np.array(x)[:, None], np.array(t, float)[:, None], C), tol=1e-14)
    assert_allclose([found.beta[0, 0], found.intercept[0]], [float(b), float(a)], rtol=1e-10)


def test_many_features_and_classes_agree_with_a_factored_hessian(monkeypatch):
    X, y = classification(400, 4, 5)
    Phi, T = np.tanh(X @ rows(4, 30)), codes(y, 5)
    dense = fit_softmax(LogProblem.of(Phi, T, 10.0), tol=1e-12)
    monkeypatch.setattr(module, "DENSE", 0)
    found = fit_softmax(LogProblem.of(Phi, T, 10.0), tol=1e-12)
    assert found.gram is not None
    assert dense.gram is None
    assert_allclose(centred(found.F), centred(dense.F), atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_weights_are_repetitions(k):
    X, y = classification(200, 3, k)
    count = np.random.RandomState(0).randint(1, 4, 200)
    weighted = fit_softmax(LogProblem.of(X, codes(y, k), 2.0, count.astype(float)), tol=1e-13)
    repeated = fit_softmax(LogProblem.of(np.repeat(X, count, axis=0), codes(np.repeat(y, count), k), 2.0), tol=1e-13)
    assert_allclose(weighted.beta, repeated.beta, atol=1e-7)


def test_equal_rows_of_different_classes_may_be_merged_into_one_with_their_mean_code():
    X, y = classification(60, 3, 3)
    other = np.roll(y, 7)
    T, S = codes(y, 3), codes(other, 3)
    apart = fit_softmax(LogProblem.of(np.vstack([X, X]), np.vstack([T, S]), 1.0), tol=1e-13)
    merged = fit_softmax(LogProblem.of(X, (T + S) / 2, 1.0, np.full(60, 2.0)), tol=1e-13)
    assert_allclose(apart.beta, merged.beta, atol=1e-7)


@pytest.mark.parametrize("k", [2, 4])
def test_a_map_and_its_features_in_memory_give_the_same_model_for_any_number_of_threads(k, monkeypatch):
    monkeypatch.setattr(module, "DENSE", 0)
    X, y = classification(1500, 3, k)
    features = NystromMap(30, gamma=0.5, random_state=0).fit(X)
    T = codes(y, k)
    by_rows = [fit_softmax(LogProblem.nystrom(features, Rows(X, T), 5.0, n_jobs=jobs), tol=1e-12) for jobs in (1, 2)]
    at_once = fit_softmax(LogProblem.of(features.transform(X), T, 5.0), tol=1e-12)
    np.testing.assert_array_equal(by_rows[0].beta, by_rows[1].beta)
    assert_allclose(centred(by_rows[0].F), centred(at_once.F), atol=1e-6)


@pytest.mark.parametrize("C", [0.5, 100.0])
def test_rows_so_many_that_a_sample_knows_the_curvature_give_the_same_model_in_few_passes(C, monkeypatch):
    X, y = classification(4000, 4, 3)
    y[::5] = np.random.RandomState(0).randint(0, 3, 800)
    Phi, T = np.tanh(X @ rows(4, 30)), codes(y, 3)
    weight = np.random.RandomState(1).uniform(0.5, 2.0, 4000)
    whole = fit_softmax(LogProblem.of(Phi, T, C, weight), tol=1e-12)
    monkeypatch.setattr(module, "DENSE", 0)
    assert module.FeatureObjective(LogProblem.of(Phi, T, C, weight)).is_large
    sampled = fit_softmax(LogProblem.of(Phi, T, C, weight), tol=1e-6)
    assert sampled.converged
    assert sampled.n_passes <= 30
    assert sampled.value == pytest.approx(whole.value, rel=1e-5)
    assert_allclose(proportions(sampled.F), proportions(whole.F), atol=5e-3)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_dual_and_primal_are_the_same_model(k, intercept):
    rng = np.random.RandomState(0)
    X, y = classification(150, 4, k)
    Phi, T = np.tanh(X @ rng.normal(size=(4, 60))), codes(y, k)
    weight, offset = rng.uniform(0.5, 2.0, 150), 0.5 * rng.normal(size=T.shape)
    primal = fit_softmax(LogProblem.of(Phi, T, 3.0, weight, offset=offset, fit_intercept=intercept), tol=1e-12)
    dual = fit_kernel_softmax(Phi @ Phi.T, T, 3.0, weight=weight, offset=offset, fit_intercept=intercept, tol=1e-12)
    assert dual.converged
    assert_allclose(centred(dual.F), centred(primal.F), atol=1e-6)
    assert_allclose(centred(Phi @ (Phi.T @ dual.alpha)), centred(Phi @ primal.beta), atol=1e-5)


@pytest.mark.parametrize("seed", [0, 5])
def test_a_model_that_never_saw_a_class_is_a_place_to_begin_at(seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(50, 4))
    y = (X[:, 0] > 0).astype(int)
    y[:7] = [2, 3, 4, 4, 5, 5, 5]
    K = np.exp(-0.3 * np.abs(X[:, None] - X).sum(axis=-1))
    Phi, Y, seen = np.linalg.cholesky(K + 1e-8 * np.eye(50)), codes(y, 6), np.ones(50)
    seen[[0, 2, 4]] = 0.0
    before = fit_softmax(LogProblem.of(Phi, Y, 16.0, seen), tol=1e-9)
    assert before.intercept.min() < -20  # scores so sure that nothing bends there
    whole = LogProblem.of(Phi, Y, 16.0)
    found = fit_softmax(whole, start=np.vstack([before.beta, before.intercept]), tol=1e-9)
    assert found.converged
    missing = softmax(Phi @ found.beta + found.intercept, axis=1) - 0.5 * (1 + Y)
    assert_allclose(Phi.T @ missing + found.beta / 16.0, 0.0, atol=1e-5)  # nothing is left of the gradient
    assert_allclose(missing.sum(axis=0), 0.0, atol=1e-5)


def test_a_warm_start_at_the_solution_stays_there():
    X, y = classification(300, 3, 3)
    first = fit_softmax(LogProblem.of(X, codes(y, 3), 1.0), tol=1e-12)
    again = fit_softmax(LogProblem.of(X, codes(y, 3), 1.0), tol=1e-6, start=np.vstack([first.beta, first.intercept]))
    assert again.n_passes <= 3
    assert_allclose(again.beta, first.beta, atol=1e-8)


# Ugly rows: finite, converged or warned


def ugly(name):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    if name == "separable":
        return X, (X[:, 0] > 0).astype(int), 2
    if name == "separable, three classes":
        return X, np.digitize(X[:, 0], [-0.5, 0.5]), 3
    if name == "one class of one row":
        return X, np.where(np.arange(300) == 0, 2, X[:, 0] > 0).astype(int), 3
    if name == "1 in 10,000":
        X = rng.normal(size=(10_000, 2))
        return X, (np.arange(10_000) == 0).astype(int), 2
    if name == "contradictions":
        return np.repeat(X[:150], 2, axis=0), np.tile([0, 1], 150), 2
    if name == "100 classes":
        return X, np.arange(300) % 100, 100
    if name == "features of 1e150":
        return X * [1e150, 1.0, 1e150], (X[:, 0] + X[:, 1] > 0).astype(int), 2
    if name == "features of 1e-150":
        return X * 1e-150, (X[:, 0] > 0).astype(int), 2
    if name == "constant features":
        return np.column_stack([np.ones((300, 2)), X[:, :1]]), (X[:, 0] > 0.3 * X[:, 1]).astype(int), 2
    assert name == "all features constant"
    return np.ones((300, 2)), np.arange(300) % 3, 3


UGLY = [
    "separable",
    "separable, three classes",
    "one class of one row",
    "1 in 10,000",
    "contradictions",
    "100 classes",
    "features of 1e150",
    "features of 1e-150",
    "constant features",
    "all features constant",
]


@pytest.mark.parametrize("C", cases([1e-3, 1.0, 1e8], 1e8))
@pytest.mark.parametrize("name", UGLY)
def test_ugly_rows_give_finite_scores_no_worse_than_the_frequencies(name, C):
    X, y, k = ugly(name)
    T = codes(y, k)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit_softmax(LogProblem.of(X, T, C))
    assert found.converged or any(issubclass(w.category, NumericalWarning) for w in caught)
    assert np.isfinite(found.F).all()
    assert np.isfinite(found.beta).all()
    share = np.bincount(y, minlength=k) / len(y)
    entropy = -(share[share > 0] @ np.log(share[share > 0]))
    assert losses(targets(T), found.F).mean() <= entropy * (1 + 1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_rows_of_which_the_offsets_are_sure_beyond_doubt_are_left_as_they_are(k):
    X, y = classification(40, 3, k)
    T = codes(y, k)
    for size in (1e3, 1e-3):
        found = fit_kernel_softmax(X @ X.T, T, 1.0, offset=size * T * 1e3)
        assert found.converged
        assert np.isfinite(found.alpha).all()
    assert_allclose(fit_kernel_softmax(X @ X.T, T, 1.0, offset=1e6 * T).alpha, 0.0, atol=1e-12)


def test_contradicting_labels_give_even_odds():
    X, y, _ = ugly("contradictions")
    found = fit_softmax(LogProblem.of(X, codes(y, 2), 1.0))
    assert_allclose(found.F, 0.0, atol=1e-6)


def test_separable_classes_converge_for_every_penalty():
    X, y, k = ugly("separable, three classes")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        for C in (1.0, 1e4, 1e8):
            found = fit_softmax(LogProblem.of(X, codes(y, k), C))
            assert (found.F.argmax(axis=1) == y).mean() > 0.95


def test_a_run_that_is_stopped_says_how_much_is_left():
    X, y = classification(200, 3, 3)
    with pytest.warns(NumericalWarning, match="of the objective is left"):
        found = fit_softmax(LogProblem.of(X, codes(y, 3), 1.0), max_passes=3)
    assert not found.converged
    assert np.isfinite(found.F).all()


@pytest.mark.parametrize("C", [0.0, -1.0, np.inf, np.nan])
def test_a_penalty_that_is_none_is_refused(C):
    with pytest.raises(ValueError, match="C must be positive and finite"):
        LogProblem(Precomputed(1), Rows(np.ones((2, 1)), np.ones((2, 1))), C)


def test_offsets_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="offset must have shape"):
        LogProblem.of(np.ones((2, 1)), np.ones((2, 1)), 1.0, offset=np.zeros(2))


def test_a_curvature_that_round_off_has_made_indefinite_still_has_a_factor():
    rng = np.random.RandomState(0)
    B = rng.normal(size=(20, 20))
    A = B @ B.T
    A -= (np.linalg.eigvalsh(A)[0] + 0.01 * np.linalg.eigvalsh(A)[-1]) * np.eye(20)  # a hundredth below 0
    F = np.tril(log_metric.factored(A.copy()))
    raised = F @ F.T - A
    assert np.abs(raised - np.diag(raised.diagonal())).max() < 1e-10 * np.abs(A).max()
    assert 0.0 < raised.diagonal().max() <= A.diagonal().max()
