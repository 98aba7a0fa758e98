"""Very many rows: steps by the curvature of a sample, against dense algebra and against fits that see all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from data import cases, classification, rows
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers import sampled_descent
from ulmus.solvers import softmax as module
from ulmus.solvers.log_loss import proportions
from ulmus.solvers.log_metric import ClassMetric
from ulmus.solvers.sampled_descent import corrected
from ulmus.solvers.softmax import FeatureObjective, LogProblem, fit_softmax
from ulmus.tuning.log_choice import unkept


def codes(y, k):
    return np.where(y[:, None] == np.arange(k), 1.0, -1.0)


def centred(F):
    return F - F.mean(axis=1, keepdims=True)


@pytest.fixture
def sampled(monkeypatch):
    """Every problem of many rows takes the way of very many."""
    monkeypatch.setattr(module, "DENSE", 0)


@pytest.fixture
def objective(sampled):
    X, y = classification(400, 3, 3)
    found = FeatureObjective(LogProblem.of(np.tanh(X @ rows(3, 6)), codes(y, 3), 2.0))
    found.F = found.scores(0.3 * rows(7, 3))
    return found


def test_directions_obey_the_curvature_of_all_earlier_steps(objective):
    rng = np.random.RandomState(0)
    A = rng.normal(size=(21, 21))
    H = A @ A.T + np.eye(21)
    steps = rng.normal(size=(4, 7, 3))
    told = [(s, (H @ s.ravel()).reshape(7, 3)) for s in steps]
    objective.metric(objective.F)
    share = np.array([1.0, -2.0, 0.5, 3.0])
    g = sum(a * y for a, (_, y) in zip(share, told, strict=True))
    d, _ = corrected(objective, objective.F, g, told)
    assert_allclose(d, -np.tensordot(share, steps, axes=1), atol=1e-9)


def test_a_metric_with_a_matrix_for_every_class_is_the_diagonal_of_the_hessian_between_directions_of_mean_0(objective):
    assert objective.finer()
    assert not objective.finer()
    objective.metric(objective.F)
    P, Phi = proportions(objective.F), objective.design(slice(None))
    g = rows(7, 3)
    inverses = []
    for c in range(3):
        H = (Phi * (P[:, c] * (1 - P[:, c]))[:, None]).T @ Phi + np.diag(objective.penalty)
        inverses.append(np.linalg.solve(H, centred(g)[:, c]))
    # rows that hold a hundredth of the curvature are left out of the sums
    assert_allclose(objective.direction(g), centred(np.column_stack(inverses)), rtol=0.1, atol=0.05)


def test_leverages_are_those_of_dense_algebra(objective, monkeypatch):
    monkeypatch.setattr(sampled_descent, "PROJECTIONS", 20_000)
    P, Phi, penalty = proportions(objective.F), objective.design(slice(None)), objective.penalty
    grams = [(Phi * (P[:, c] * (1 - P[:, c]))[:, None]).T @ Phi for c in range(3)]
    exact = sum(
        P[:, c] * (1 - P[:, c]) * np.einsum("ni,ij,nj->n", Phi, np.linalg.inv(G + np.diag(penalty)), Phi)
        for c, G in enumerate(grams)
    )
    metric = ClassMetric.of([G.copy() for G in grams], penalty)
    assert_allclose(sampled_descent.leverages(objective, objective.F, metric), exact, rtol=0.05)


def test_rows_drawn_by_their_shares_weigh_as_much_as_all(objective):
    share = np.random.RandomState(7).exponential(size=400)
    index, few = sampled_descent.sample_by(objective, share, 200)
    assert len(index) == pytest.approx(200, rel=0.15)
    assert few.w.sum() == pytest.approx(400, rel=0.15)
    assert (few.w >= 1 - 1e-12).all()
    assert (few.w[share[index] > 2.5 * share.mean()] == 1.0).all()


def rare(n):
    """Classes that are unsure in different places, the last of them rare."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, 4))
    F = np.column_stack([2 * X[:, 0], -2 * X[:, 0] + X[:, 1], X[:, 2] - 1, 3 * X[:, 3] - 7])
    return X, (F + rng.gumbel(size=F.shape)).argmax(axis=1)


@pytest.mark.parametrize("C", cases([1.0, 300.0], 300.0))
def test_rare_classes_that_are_unsure_elsewhere_take_few_passes_to_the_model_of_all_rows(C, monkeypatch):
    monkeypatch.setattr(module, "DENSE", 0)
    X, y = rare(12_000)
    features = NystromMap(40, gamma=0.1, random_state=0).fit(X)
    at_once = LogProblem.of(features.transform(X), codes(y, 4), C)
    by_rows = unkept(features, Rows(X, codes(y, 4)), C, True, 1)
    assert by_rows.objective().is_large
    found = fit_softmax(by_rows, tol=1e-13)
    monkeypatch.setattr(module, "DENSE", 700)  # the Hessian itself
    whole = fit_softmax(at_once, tol=1e-13)
    assert found.converged
    assert found.n_passes <= 40
    assert_allclose(centred(found.F), centred(whole.F), atol=2e-5)
    assert_allclose(proportions(found.F), proportions(whole.F), atol=1e-6)


def test_a_kernel_whose_squares_lose_their_digits_is_passed_over_without_whitened_rows(sampled):
    X, y = rare(6_000)
    features = NystromMap(60, gamma=0.01, random_state=0).fit(X)
    assert 1.5e6 < features.condition_ < 1e12
    problem = unkept(features, Rows(X, codes(y, 4)), 5.0, True, 1)
    assert problem.squared is features
    whitened = LogProblem(features, Rows(X, codes(y, 4)), 5.0, n_jobs=1)
    one, other = fit_softmax(problem, tol=1e-13), fit_softmax(whitened, tol=1e-13)
    assert_allclose(proportions(one.F), proportions(other.F), atol=1e-6)
    grams = [posed.objective().weighted_gram(np.ones(len(X))) for posed in (problem, whitened)]
    assert_allclose(*grams, atol=1e-9 * np.abs(grams[0]).max())


def test_passes_in_single_precision_are_taken_in_double_where_weights_would_blur_the_scores():
    X, y = rare(500)
    features = NystromMap(20, gamma=0.1, random_state=0).fit(X)
    raw = {"whitening": features.whitening_, "n_jobs": 1}
    objective = LogProblem(features.cross_kernel_, Rows(X, codes(y, 4)), 1.0, **raw).objective()
    small = 1e-3 * rows(21, 4)
    exact, single = objective.sweep(small), objective.sweep(small, coarse=True)
    assert 0 < np.abs(single[0] - exact[0]).max() < 1e-5
    large = 1e6 * rows(21, 4)
    assert_allclose(objective.sweep(large, coarse=True)[0], objective.sweep(large)[0], rtol=0, atol=0)
