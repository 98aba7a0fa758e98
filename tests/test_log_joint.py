"""Log models of many classes on few rows: the Hessian of all classes, leverages of rows that count, and their users."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from test_softmax import centred, codes, dense_newton
from ulmus import KELMClassifier, NKELMClassifier
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers import log_joint as module
from ulmus.solvers.log_few import FewRows
from ulmus.solvers.log_joint import JointInverse, Space, class_leverages, feature_leverages
from ulmus.solvers.log_kernel import KernelObjective, fit_few_rows, fit_kernel_softmax, on_features
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.log_loss import losses, proportions, second_derivative, targets
from ulmus.solvers.softmax import LogProblem, fit_softmax
from ulmus.tuning import log_choice
from ulmus.tuning.log_choice import PenaltyChoice, choose_width
from ulmus.tuning.log_path import weights_for


def labelled(n, k, seed=0, p=4):
    """Rows around k centres."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    return rng.normal(size=(k, p))[y] * 1.5 + rng.normal(size=(n, p)), y


def space_of(n=40, k=6, C=8.0, intercept=False):
    X, y = labelled(n, k)
    rng = np.random.RandomState(1)
    K, w = rbf_kernel(X, gamma=0.2), rng.uniform(0.5, 2.0, n)
    return Space.of(K, w, 1 / C, intercept), proportions(rng.normal(size=(n, k))), targets(codes(y, k))


def hessian(Phi, P, w, ridge):
    """Of all weights at once, class by class."""
    L, k = Phi.shape[1], P.shape[1]
    H = np.einsum("n,nab,ni,nj->aibj", w, second_derivative(P), Phi, Phi).reshape(k * L, k * L)
    return H + ridge * np.eye(k * L)


def test_the_joint_inverse_of_all_rows_is_that_of_the_hessian():
    space, P, _ = space_of()
    n, k = P.shape
    Phi = np.linalg.cholesky(space.K + 1e-12 * np.eye(n))
    G = np.random.RandomState(2).normal(size=(n, k))
    exact = np.linalg.solve(hessian(Phi, P, space.w, space.ridge), G.T.ravel()).reshape(k, n).T
    S = JointInverse.of(space, P, np.ones((n, k), bool))
    assert_allclose((G - Phi.T @ S.solve(Phi @ G)) / space.ridge, exact, atol=1e-8 * np.abs(exact).max())


def test_a_row_without_weight_is_no_matter_of_the_joint_inverse():
    space, P, _ = space_of()
    n, k = P.shape
    rest, U = np.arange(n) != 3, np.random.RandomState(0).normal(size=(n, k))
    kept = np.repeat(rest[:, None], k, axis=1)
    w = np.where(rest, space.w, 0.0)
    whole = JointInverse.of(Space(space.K, w, space.ridge, 0.0), P, kept).solve(U)
    without = Space(space.K[np.ix_(rest, rest)], w[rest], space.ridge, 0.0)
    assert_allclose(whole[rest], JointInverse.of(without, P[rest], kept[rest]).solve(U[rest]), atol=1e-10)
    assert (whole[3] == 0).all()


def test_classes_that_are_nearly_impossible_hardly_change_the_inverse():
    space, P, _ = space_of(n=120, k=12, C=64.0)
    P = proportions(6 * np.log(P))
    kept, Phi = space.bending(P), np.linalg.cholesky(space.K + 1e-12 * np.eye(len(P)))
    assert kept is not None
    assert kept.mean() < 0.5
    g = Phi.T @ (np.random.RandomState(0).normal(size=P.shape) * P)

    def direction(which):
        return g - Phi.T @ JointInverse.of(space, P, which).solve(Phi @ g)

    exact = direction(np.ones_like(kept))
    assert np.linalg.norm(direction(kept) - exact) < 0.35 * np.linalg.norm(exact)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [4.0, 256.0, 2.0**14])
def test_kernel_models_of_many_classes_are_those_of_dense_newton_steps(intercept, C, monkeypatch):
    X, y = labelled(64, 8)
    K, T, w = rbf_kernel(X, gamma=0.3), codes(y, 8), np.random.RandomState(0).uniform(0.5, 2.0, 64)
    made, of = [], JointInverse.of
    monkeypatch.setattr(JointInverse, "of", lambda *given: made.append(1) or of(*given))
    found = fit_kernel_softmax(K.copy(), T, C, weight=w, fit_intercept=intercept, tol=1e-13)
    assert made
    Phi = np.linalg.cholesky(K + 1e-11 * np.eye(len(K)))
    exact = dense_newton(Phi, targets(T), C, w, intercept=intercept)
    assert_allclose(centred(found.F), centred(exact), atol=1e-6)


def test_models_of_few_rows_are_those_of_their_features():
    X, y = labelled(150, 9)
    Phi, T = NystromMap(120, gamma=0.3, random_state=0).fit(X).transform(X), codes(y, 9)
    problem = LogProblem.of(Phi, T, 50.0, np.random.RandomState(0).uniform(0.5, 2.0, 150))
    few = FewRows.of(problem)
    assert few is not None
    exact, found = fit_softmax(problem, tol=1e-13), on_features(few, fit_few_rows(few, tol=1e-13))
    assert_allclose(found.beta, exact.beta, atol=1e-6)
    assert_allclose(found.intercept, exact.intercept, atol=1e-6)
    assert found.converged
    assert found.bound < 1e-15
    begun = fit_few_rows(few.at(12.5), tol=1e-4)
    assert_allclose(on_features(few, fit_few_rows(few, tol=1e-13, begun=begun)).beta, found.beta, atol=1e-8)


def test_few_rows_are_refused_where_the_kernel_between_them_is_no_gain():
    X, y = labelled(150, 9)
    Phi = NystromMap(120, gamma=0.3, random_state=0).fit(X).transform(X)
    T = codes(y, 9)
    assert FewRows.of(LogProblem.of(Phi[:, :60], T, 1.0)) is None  # more than three rows for two features
    assert FewRows.of(LogProblem.of(Phi, codes(y % 2, 2), 1.0)) is None  # the Hessian is one matrix
    assert FewRows.of(LogProblem.of(Phi, T, 1.0, offset=np.zeros(T.shape))) is None
    assert FewRows.of(LogProblem.of(Phi * 1e80, T, 1.0)) is None  # columns were scaled


def test_leverages_of_all_rows_are_those_of_every_class_against_the_rest(monkeypatch):
    for name in ("SHARP", "SURE", "MOVED"):
        monkeypatch.setattr(module, name, 0.0)
    space, P, Y = space_of()
    n, k = P.shape
    Phi = np.linalg.cholesky(space.K + 1e-12 * np.eye(n))
    rows = np.array([0, 5, 17, 39])
    exact = np.empty((n, k))
    for c in range(k):
        H = (Phi * (space.w * P[:, c] * (1 - P[:, c]))[:, None]).T @ Phi + space.ridge * np.eye(n)
        exact[:, c] = np.einsum("ij,ij->i", Phi, np.linalg.solve(H, Phi.T).T)
    assert_allclose(class_leverages(space, P, Y, rows), exact[rows], atol=1e-7)
    assert_allclose(class_leverages(space, P, Y, slice(30, None), rough=True), exact[30:], atol=1e-4)
    found = feature_leverages(Phi, space.w, np.full(n, space.ridge), P, Y, rows, np.float64, 1)
    assert_allclose(found, exact[rows], atol=1e-7)


def test_an_intercept_is_in_the_leverages(monkeypatch):
    for name in ("SHARP", "SURE", "MOVED"):
        monkeypatch.setattr(module, name, 0.0)
    space, P, Y = space_of(intercept=True)
    n, _ = P.shape
    Phi = np.column_stack([np.linalg.cholesky(space.K + 1e-12 * np.eye(n)), np.ones(n)])
    H = (Phi * (space.w * P[:, 2] * (1 - P[:, 2]))[:, None]).T @ Phi
    H[np.arange(n), np.arange(n)] += space.ridge
    exact = np.einsum("ij,ij->i", Phi, np.linalg.solve(H, Phi.T).T)
    assert_allclose(class_leverages(space, P, Y, slice(None))[:, 2], exact, rtol=2e-3)  # its prior is wide, not flat


def digits(n):
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X[:n]), y[:n]


@pytest.mark.parametrize("C", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_the_loss_of_rows_left_out_is_within_two_percent_of_really_leaving_them_out(C):
    X, y = digits(260)
    Phi, T = NystromMap(250, gamma=0.01, random_state=0).fit(X).transform(X), codes(y, 10)
    problem = LogProblem.of(Phi, T, C)
    few = FewRows.of(problem)
    dual = fit_few_rows(few, tol=1e-13, leave_one_out=True)
    index = np.random.RandomState(0).permutation(len(y))[:60]
    exact = np.empty((len(index), 10))
    start = on_features(few, dual)
    for place, row in enumerate(index):
        others = np.arange(len(y)) != row
        without = fit_softmax(
            LogProblem.of(Phi[others], T[others], C), tol=1e-8, start=np.vstack([start.beta, start.intercept])
        )
        exact[place] = Phi[row] @ without.beta + without.intercept
    loss = losses(targets(T[index]), exact).mean()
    for scores in (dual.left_out[index], left_out(problem, start, index, few=few)):
        assert_allclose(losses(targets(T[index]), scores).mean(), loss, rtol=0.02)


def test_rows_that_count_tell_the_loss_of_all():
    X, y = digits(700)
    Phi, T = NystromMap(150, gamma=0.01, random_state=0).fit(X).transform(X), codes(y, 10)
    for C in (1.0, 30.0, 1000.0):
        problem = LogProblem.of(Phi, T, C)
        solution = fit_softmax(problem, tol=1e-6)
        every, counting = (left_out(problem, solution, rough=True, counting=some) for some in (False, True))
        assert np.abs(every - counting).max() > 0
        assert_allclose(losses(targets(T), counting).mean(), losses(targets(T), every).mean(), rtol=0.01)


def test_a_factor_of_the_kernel_gives_it_back_to_the_classes_together():
    X, y = labelled(90, 9)
    K = rbf_kernel(X, gamma=0.3)
    objective = KernelObjective(K.copy(), codes(y, 9), 64.0, None, None, True)
    objective._factor(np.full(90, 0.2))
    space = objective.space()
    assert_allclose(space.K, K, atol=1e-10)


def test_scores_of_other_features_are_begun_with():
    X, y = labelled(120, 9)
    T = codes(y, 9)
    before = fit_softmax(LogProblem.of(NystromMap(40, gamma=0.2, random_state=0).fit(X).transform(X), T, 16.0))
    problem = LogProblem.of(NystromMap(40, gamma=0.25, random_state=0).fit(X).transform(X), T, 16.0)
    v = weights_for(before.F, problem)
    near = problem.rows.X @ v[:-1] + v[-1]
    assert np.mean((near - before.F) ** 2) < 0.1 * np.mean(before.F**2)
    begun, cold = fit_softmax(problem, start=v, tol=1e-6), fit_softmax(problem, tol=1e-6)
    assert begun.n_passes < cold.n_passes
    assert_allclose(begun.value, cold.value, rtol=1e-4)


class Surface:
    """Losses that are lowest at one width, where C times the width is one number; what was asked is remembered."""

    def __init__(self, best):
        self.best, self.asked = best, []

    def choose_C(self, features, rows, **more):
        self.asked.append(features)
        loss = 1 + 0.1 * np.log2(features / self.best) ** 2
        return PenaltyChoice(16.0 / features, loss, (np.ones(1), np.ones(1)), len(rows), scores=np.zeros((1, 9)))


@pytest.mark.parametrize("best", [0.01, 0.3, 1.0, 40.0])
def test_the_search_for_a_width_ends_near_the_best_and_asks_for_none_twice(best, monkeypatch):
    surface = Surface(best)
    monkeypatch.setattr(log_choice, "choose_C", surface.choose_C)
    X, y = labelled(50, 9)
    how = {"size": 20, "flat": True, "fit_intercept": True, "n_jobs": 1}
    width, C, trials = choose_width(
        lambda width, size, rows: width,
        Rows(X, codes(y, 9)),
        (1.0, 1.1),
        4.0,
        "log_loss",
        np.random.RandomState(0),
        **how,
    )
    assert max(width, best) <= 2 * min(width, best)
    assert_allclose(C * width, 16.0)
    asked = sorted(surface.asked)
    assert len(asked) == len(trials) <= 9
    assert all(b > 1.25 * a for a, b in pairwise(asked) if (a, b) != (1.0, 1.1))  # these were given


@pytest.mark.parametrize("model", [NKELMClassifier, KELMClassifier])
def test_self_tuned_models_of_many_classes_are_the_same_for_copies_and_weights(model):
    X, y = labelled(160, 12, p=3)
    w = np.random.RandomState(0).randint(1, 3, 160)
    given = {"loss": "log", "random_state": 0}
    weighed = model(**given).fit(X, y, sample_weight=w)
    copied = model(**given).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighed.C_ == copied.C_
    assert_allclose(weighed.gamma_, copied.gamma_)
    assert_allclose(weighed.predict_proba(X), copied.predict_proba(X), atol=1e-6)
