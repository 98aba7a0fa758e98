"""Left-out scores of log models, the path over C, local leaves, probabilities and decisions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.preprocessing import StandardScaler

from data import classification
from test_softmax import centred, codes
from ulmus import RandomLayer
from ulmus.calibration import decide
from ulmus.engine import Rows
from ulmus.features.kernels import KernelParameters
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import random_partition
from ulmus.solvers import softmax as module
from ulmus.solvers.local import LeafProblem, fit_leaves, leaf_kernel
from ulmus.solvers.log_kernel import fit_kernel_softmax
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.log_loss import class_proportions, losses, targets
from ulmus.solvers.log_metric import DenseMetric, KroneckerMetric
from ulmus.solvers.softmax import LogProblem, fit_softmax
from ulmus.tuning import log_held
from ulmus.tuning.log_choice import choose_C, choose_kernel_C, of_frequencies
from ulmus.tuning.log_held import path_of
from ulmus.tuning.log_path import CRITERIA, best_trial, criterion_of, held_path, log_path


def real(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y, int(y.max()) + 1


def without(problem, T, Phi, C, row, **more):
    """The score of a row by a model that never saw it."""
    others = np.arange(len(T)) != row
    start = np.vstack([problem.beta, problem.intercept])
    more = {name: None if a is None else a[others] for name, a in more.items()}
    found = fit_softmax(LogProblem.of(Phi[others], T[others], C, **more), tol=1e-8, start=start)
    return Phi[row] @ found.beta + found.intercept


#: Real sets, C near its best, rows that are really left out, and how many of all the quick way leaves out really.
REAL = [
    (load_iris, 1.0, 60, 0),
    (load_iris, 100.0, 150, 15),
    (load_wine, 0.1, 100, 0),
    pytest.param(load_wine, 10.0, 178, 18, marks=pytest.mark.slow),
    (load_breast_cancer, 1.0, 100, 0),
    pytest.param(load_digits, 0.1, 12, 0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("load", "C", "count", "refits"), REAL)
def test_the_loss_of_left_out_rows_is_within_two_percent_of_really_leaving_out(load, C, count, refits):
    X, y, k = real(load)
    T = codes(y, k)
    problem = LogProblem.of(X, T, C)
    solution = fit_softmax(problem)
    rows = np.random.RandomState(0).permutation(len(y))[:count]
    quick = losses(targets(T[rows]), left_out(problem, solution, rows, refits=refits)).mean()
    exact = losses(targets(T[rows]), np.array([without(solution, T, X, C, i) for i in rows])).mean()
    assert quick == pytest.approx(exact, rel=0.02)
    seen = losses(targets(T[rows]), solution.F[rows]).mean()
    assert exact > 1.03 * seen  # there is something to be right about


def test_classes_one_by_one_are_close_where_the_hessian_is_too_large():
    X, y, k = real(load_digits)
    Phi, T = NystromMap(80, kernel="laplacian_l1", random_state=0).fit(X).transform(X), codes(y, k)
    assert 80 * k > module.DENSE
    problem = LogProblem.of(Phi, T, 1.0)
    solution = fit_softmax(problem)
    rows = np.random.RandomState(0).permutation(len(y))[:15]
    quick = losses(targets(T[rows]), left_out(problem, solution, rows)).mean()
    exact = losses(targets(T[rows]), np.array([without(solution, T, Phi, 1.0, i) for i in rows])).mean()
    assert quick == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("k", [2, 3])
def test_left_out_rows_with_offsets_and_weights_and_copies(k):
    X, y = classification(70, 3, k)
    y[:20] = np.random.RandomState(0).randint(0, k, 20)
    T, rng = codes(y, k), np.random.RandomState(0)
    count, offset = rng.randint(1, 4, 70), 0.5 * rng.normal(size=T.shape)
    problem = LogProblem.of(X, T, 0.5, count.astype(float), unit=np.ones(70), offset=offset)
    quick = left_out(problem, fit_softmax(problem))
    exact = left_out(problem, fit_softmax(problem), refits=70)
    assert losses(targets(T), quick).mean() == pytest.approx(losses(targets(T), exact).mean(), rel=0.02)
    again = LogProblem.of(*(np.repeat(a, count, axis=0) for a in (X, T)), 0.5, offset=np.repeat(offset, count, axis=0))
    repeated = left_out(again, fit_softmax(again))
    assert_allclose(centred(np.repeat(quick, count, axis=0)), centred(repeated), atol=1e-6)
    i = int(np.flatnonzero(count == 1)[0])
    others = np.arange(70) != i
    refit = fit_softmax(LogProblem.of(X[others], T[others], 0.5, count[others].astype(float), offset=offset[others]))
    assert_allclose(centred(exact[[i]]), centred(offset[[i]] + X[[i]] @ refit.beta + refit.intercept), atol=1e-4)


def test_dual_and_primal_leave_out_the_same_scores_for_two_classes():
    X, y = classification(80, 3, 2)
    T = codes(y, 2)
    problem = LogProblem.of(X, T, 1.0)
    dual = fit_kernel_softmax(X @ X.T, T, 1.0, fit_intercept=True, leave_one_out=True)
    assert_allclose(dual.left_out, left_out(problem, fit_softmax(problem)), atol=1e-4)


@pytest.mark.parametrize("k", [2, 4])
def test_criteria_are_those_of_scikit_learn(k):
    rng = np.random.RandomState(0)
    y, w = rng.randint(0, k, 200), rng.uniform(0.5, 2.0, 200)
    F = np.round(rng.normal(size=(200, 1 if k == 2 else k)), 1)  # with ties
    P, T = class_proportions(F), codes(y, k)
    got = {name: criterion_of(name, T, F, w) for name in CRITERIA}
    assert got["log_loss"] == pytest.approx(log_loss(y, P, sample_weight=w))
    assert got["error"] == pytest.approx(np.average(P.argmax(axis=1) != y, weights=w))
    assert got["balanced"] == pytest.approx(1 - balanced_accuracy_score(y, P.argmax(axis=1), sample_weight=w))
    aucs = [roc_auc_score(y == c, P[:, c], sample_weight=w) for c in ([1] if k == 2 else range(k))]
    assert got["auc"] == pytest.approx(1 - np.mean(aucs))


def test_an_unknown_criterion_is_refused():
    with pytest.raises(ValueError, match="criterion must be one of log_loss, error, auc, balanced, got 'f1'"):
        criterion_of("f1", np.ones((2, 1)), np.ones((2, 1)))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_path_chooses_a_C_that_does_well_on_other_rows(criterion):
    X, y = classification(700, 3, 3)
    noise = np.random.RandomState(0).normal(size=(700, 60))
    Phi, T = np.column_stack([X, np.sin(2 * X), noise]), codes(y, 3)
    train, test = slice(0, 200), slice(200, None)
    grid = 2.0 ** np.arange(-12, 13, 4)
    trials = log_path(LogProblem.of(Phi[train], T[train], 1.0), grid, criterion=criterion)
    best = min(trials, key=lambda trial: trial.loss)
    scores = [
        criterion_of(criterion, T[test], Phi[test] @ found.beta + found.intercept)
        for found in (fit_softmax(LogProblem.of(Phi[train], T[train], C)) for C in grid)
    ]
    chosen = criterion_of(criterion, T[test], Phi[test] @ best.solution.beta + best.solution.intercept)
    assert chosen <= 1.1 * min(scores) + 0.01
    assert len({trial.C for trial in trials}) == len(trials)


@pytest.mark.parametrize("kernel", [False, True])
def test_from_a_C_whose_models_know_less_than_the_frequencies_the_path_begins_anew(kernel):
    rng = np.random.RandomState(0)
    X, T = rng.normal(size=(34, 2)), codes(np.arange(34) % 3, 3)
    layer = RandomLayer(64, slope=1.0, direct_links=True, random_state=0, n_jobs=1).fit(X)
    how = {"criterion": "log_loss", "rng": rng, "fit_intercept": True, "n_jobs": 1}
    if kernel:
        found = choose_kernel_C("rbf", KernelParameters(gamma=1.0), Rows(X, T), 1e7, **how)
    else:
        found = choose_C(layer, Rows(X, T), 1e7, **how)
    C, loss = found.tried
    chance = of_frequencies("log_loss", T, np.ones(34))
    assert loss[C > 1e5].min() > 1.2 * chance
    assert found.C < 16.0
    assert found.loss <= 1.1 * chance


def left_out_of_leaves(given):
    """Scores of rows by the leaves without them, mean of the partitions."""
    left = np.empty((len(given.partitions), *given.T.shape))
    for partition, scores in zip(given.partitions, left):
        for leaf in range(partition.n_leaves):
            rows = partition.rows(leaf)
            K, offset = leaf_kernel(given.kernel, given.gamma, given.U[rows]), given.offset[rows]
            found = fit_kernel_softmax(K, given.T[rows], 1 / given.ridge, offset=offset, tol=1e-4, leave_one_out=True)
            scores[rows] = found.left_out
    return left.mean(axis=0)


def test_one_leaf_with_all_rows_is_the_kernel_model_on_the_offsets():
    X, y = classification(120, 3, 3)
    T, offset = codes(y, 3), 0.3 * np.random.RandomState(0).normal(size=(120, 3))
    partition = random_partition(X, 120, np.random.RandomState(0))
    problem = LeafProblem("laplacian_l1", 0.5, 0.7, X, T, None, [partition], offset)
    stage = problem.stage(fit_leaves(problem))
    exact = fit_kernel_softmax(laplacian_kernel(X, gamma=0.5), T, 1 / 0.7, offset=offset, tol=1e-12)
    assert_allclose(class_proportions(offset + stage.predict(X)), class_proportions(exact.F), atol=2e-3)
    assert losses(targets(T), left_out_of_leaves(problem)).mean() > losses(targets(T), exact.F).mean()


def test_leaves_lower_the_loss_of_other_rows_that_a_flat_global_model_leaves():
    X, y = classification(1200, 2, 3)
    T, train = codes(y, 3), slice(0, 900)
    rough = fit_softmax(LogProblem.of(X[train], T[train], 1.0))
    partitions = [random_partition(X[train], 300, np.random.RandomState(s)) for s in range(3)]
    problem = LeafProblem("laplacian_l1", 1.0, 0.5, X[train], T[train], None, partitions, rough.F)
    stage, left = problem.stage(fit_leaves(problem)), left_out_of_leaves(problem)
    before = X[900:] @ rough.beta + rough.intercept
    after = losses(targets(T[900:]), before + stage.predict(X[900:])).mean()
    assert after < 0.7 * losses(targets(T[900:]), before).mean()
    assert losses(targets(T[train]), left).mean() == pytest.approx(after, rel=0.25)


def test_decisions_follow_costs():
    P = np.array([[0.7, 0.3], [0.95, 0.05]])
    assert_array_equal(decide(P), [0, 0])
    assert_array_equal(decide(P, "balanced", np.array([0.9, 0.1])), [1, 0])
    assert_array_equal(decide(P, [[0, 1], [5, 0]]), [1, 0])
    assert_array_equal(decide(P, 1 - np.eye(2)), decide(P))
    with pytest.raises(ValueError, match="a cost matrix has one finite"):
        decide(P, np.ones((3, 3)))
    with pytest.raises(ValueError, match="decision must be"):
        decide(P, "best")


def few_and_many(n=700, L=60, k=3):
    rng = np.random.RandomState(0)
    Phi = rng.normal(size=(n, L)) / np.arange(1, L + 1) ** 0.5
    F = Phi @ rng.normal(size=(L, k)) * 2
    y = (F + rng.gumbel(size=F.shape)).argmax(axis=1)
    return Phi, 2.0 * np.eye(k)[y] - 1.0


def test_a_path_of_few_rows_and_features_finds_a_C_as_good_as_that_of_all(monkeypatch):
    Phi, T = few_and_many()
    held, order = [np.where(np.arange(700) % 5 == 0, 1.0, 0.0)], np.random.RandomState(1).permutation(700)
    problem = LogProblem.of(Phi, T, 1.0)
    whole, gained = path_of(problem, 1.0, held, "log_loss", order)
    assert gained == 0.0
    for name, value in (("FEW_ROWS", 250), ("FEW_HELD", 100), ("FEW_FEATURES", 25)):
        monkeypatch.setattr(log_held, name, value)
    found, gained = path_of(problem, 1.0, held, "log_loss", order)
    assert len(found) <= 2
    assert found[best_trial(found)].loss < 1.03 * whole[best_trial(whole)].loss
    assert gained > 0.1  # features and rows that were left out of the path matter here
    alone = held_path(problem, [trial.C for trial in found], held, tol=1e-6)
    for begun, fresh in zip(found, alone, strict=True):  # where a model begins does not matter
        assert begun.loss == pytest.approx(fresh.loss, rel=1e-2)


def test_a_loose_tolerance_is_kept_and_costs_fewer_passes():
    Phi, T = few_and_many()
    exact = fit_softmax(LogProblem.of(Phi, T, 10.0), tol=1e-10)
    loose = fit_softmax(LogProblem.of(Phi, T, 10.0), tol=1e-2)
    assert exact.value <= loose.value <= 1.02 * exact.value
    assert 3 * loose.n_passes <= 2 * exact.n_passes


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_dense_metric_is_the_hessian_without_what_all_classes_share(k):
    rng = np.random.RandomState(k)
    Phi, w = np.column_stack([rng.normal(size=(60, 4)), np.ones(60)]), rng.uniform(0.5, 2.0, 60)
    P, penalty = rng.dirichlet(np.ones(k), 60), np.array([0.3, 0.2, 0.3, 0.1, 0.4])
    A = np.array([np.diag(p) - np.outer(p, p) for p in P])
    H = np.einsum("n,nab,ni,nj->aibj", w, A, Phi, Phi).reshape(5 * k, 5 * k) + np.diag(np.tile(penalty, k))
    M, g = DenseMetric.of(Phi, P, w, penalty), rng.normal(size=(5, k))
    assert_allclose(M.inverse(g), np.linalg.solve(H, g.T.ravel()).reshape(k, 5).T, rtol=1e-9)
    inverse = np.linalg.inv(H).reshape(k, 5, k, 5)
    lever = np.einsum("ni,aibj,nj->nab", Phi, inverse, Phi)
    share = np.eye(k) - 1 / k
    assert_allclose(share @ lever @ share, M.leverage(Phi), atol=1e-12)
    assert_allclose(M.astype(np.float32).leverage(Phi), M.leverage(Phi), atol=1e-5)


@pytest.mark.parametrize(("k", "width"), [(2, 20), (3, 20), (8, 100)])
def test_leverages_in_single_precision_move_left_out_scores_little_and_are_not_taken_where_they_would(k, width):
    X, y = classification(300, 5, k)
    Phi, T = NystromMap(width, random_state=0).fit(X).transform(X), codes(y, k)
    for C, moves in ((4.0, True), (2.0**20, False)):
        problem = LogProblem.of(Phi, T, C)
        solution = fit_softmax(problem, tol=1e-4)
        exact, rough = (centred(left_out(problem, solution, rough=each)) for each in (False, True))
        assert (np.abs(rough - exact).max() > 0) == moves
        assert_allclose(rough, exact, atol=1e-3)


def test_classes_that_are_alike_share_a_factor_and_others_do_not():
    rng = np.random.RandomState(0)
    Phi = rng.normal(size=(40, 6))
    G, penalty = Phi.T @ Phi, np.full(6, 0.3)
    V = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    apart = KroneckerMetric.of(G, V @ np.diag([0.0, 0.1, 0.4, 1.0]) @ V.T, penalty)
    g = rng.normal(size=(6, 4))
    M = np.kron(G, V @ np.diag([0.0, 0.1, 0.4, 1.0]) @ V.T) + 0.3 * np.eye(24)
    assert_allclose(apart.inverse(g).ravel(), np.linalg.solve(M, g.ravel()), rtol=1e-8)
    alike = KroneckerMetric.of(G, V @ np.diag([0.0, 0.5, 0.6, 0.9]) @ V.T, penalty)
    assert [each is None for each in alike.factors] == [True, False]
    mean = np.sqrt(0.5 * 0.9)
    M = np.kron(G, V @ np.diag([0.0, mean, mean, mean]) @ V.T) + 0.3 * np.eye(24)
    assert_allclose(alike.inverse(g).ravel(), np.linalg.solve(M, g.ravel()), rtol=1e-8)
