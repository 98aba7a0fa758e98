"""Rows leave both stages of a model in closed form; here each is left out by fitting everything again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ulmus.engine import Rows
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import random_partition
from ulmus.features.sampling import merged
from ulmus.solvers.leaving import GlobalWithout, LeafInverse, LeavesWithout
from ulmus.solvers.local import LeafProblem, LocalKernels, fit_leaves
from ulmus.solvers.ridge import Problem

KERNEL, GAMMA, LEAF_GAMMA, C, RIDGE = "rbf", 0.5, 2.0, 30.0, 0.1


def kernel(A, B, gamma=GAMMA):
    return np.exp(-gamma * ((A[:, None] - B) ** 2).sum(axis=2))


def global_model(X, T, w, Z, intercept):
    """Weights of landmarks and constant: min Σw (K a + b − t)² + aᵀK_zz a / C."""
    K, one = kernel(X, Z), np.full((len(X), 1), float(intercept))
    F = np.hstack([K, one])
    P = np.zeros((len(Z) + 1, len(Z) + 1))
    P[:-1, :-1] = kernel(Z, Z) / C
    P[-1, -1] = 0.0 if intercept else 1.0
    solution = np.linalg.solve(F.T @ (w[:, None] * F) + P, F.T @ (w[:, None] * T))
    return lambda Q: np.hstack([kernel(Q, Z), np.full((len(Q), 1), float(intercept))]) @ solution


def leaves(partitions, X, R, w):
    """Mean answer of exact kernel ridge in every leaf, copies apart."""

    def answer(Q):
        out = np.zeros((len(Q), R.shape[1]))
        for partition in partitions:
            for leaf in np.unique(partition.leaves(Q)):
                mine, asked = partition.leaves(X) == leaf, partition.leaves(Q) == leaf
                A = kernel(X[mine], X[mine], LEAF_GAMMA) + np.diag(RIDGE / w[mine])
                out[asked] += kernel(Q[asked], X[mine], LEAF_GAMMA) @ np.linalg.solve(A, R[mine])
        return out / len(partitions)

    return answer


def fitted(weighted, intercept, outputs=1):
    """Both stages of rows, some of which share their inputs."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 2))
    X[50:] = X[20:30]
    T = np.sin(3 * X[:, :1]) + 0.3 * rng.normal(size=(60, outputs))
    rows = Rows(X, T, rng.randint(1, 4, 60).astype(float) if weighted else None)
    features = NystromMap(12, kernel=KERNEL, gamma=GAMMA, random_state=0).fit(X)
    solution = Problem(features, rows, C, intercept, 1).solve()
    Phi = features.transform(X)
    R = T - (Phi @ solution.beta + solution.intercept)
    rest = merged(Rows(X, R, rows.weight), rng)
    partitions = tuple(random_partition(rest.X, 25, rng) for _ in range(2))
    alphas = fit_leaves(LeafProblem(KERNEL, LEAF_GAMMA, RIDGE, rest.X, rest.T, rest.weight, partitions), n_jobs=1)
    local = LocalKernels(KERNEL, LEAF_GAMMA, rest.X, partitions, tuple(alphas), RIDGE, rest.weight)
    return rows, features, solution, R, local


def refitted(rows, features, local, i, asked, intercept):
    """Everything without one copy of row i."""
    X, T, w = rows.X, rows.T, np.ones(60) if rows.weight is None else rows.weight.copy()
    w[i] -= 1.0
    same = (X[i] == X).all(axis=1)
    Z = features.landmarks_
    if w[same].sum() == 0:
        Z = Z[(X[i] != Z).any(axis=1)]
    keep = w > 0
    first = global_model(X[keep], T[keep], w[keep], Z, intercept)
    second = leaves(local.partitions, X[keep], T[keep] - first(X[keep]), w[keep])
    return first(asked) + second(asked)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through 0", "intercept"])
@pytest.mark.parametrize("moved", [False, True], ids=["in place", "elsewhere"])
def test_rows_left_out_of_both_stages_are_those_of_fits_without_them(weighted, intercept, moved):
    rows, features, solution, R, local = fitted(weighted, intercept, outputs=2)
    index = np.arange(60)[::-1]
    asked = rows.X[index] + 0.1 * np.random.RandomState(1).normal(size=(60, 2)) if moved else None
    Phi, at = features.transform(rows.X), rows.X[index] if asked is None else asked
    without = GlobalWithout.of(features, Phi, solution.beta, solution.intercept, solution.leverage, rows, index)
    told = features.transform(at) @ solution.beta + solution.intercept + without.own_changes(features.transform(at))
    told += LeavesWithout.of(local, rows, Phi, R, index, without, asked).answers(1)
    again = [refitted(rows, features, local, i, at[k : k + 1], intercept)[0] for k, i in enumerate(index)]
    assert_allclose(told, again, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through 0", "intercept"])
@pytest.mark.parametrize("known", ["all rows", "the fitted stages"])
def test_answers_of_new_rows_without_each_row_are_those_of_fits_without_it(weighted, intercept, known):
    rows, features, solution, R, local = fitted(weighted, intercept, outputs=2)
    Q, index = np.random.RandomState(1).normal(size=(9, 2)), np.arange(60)
    Phi = features.transform(rows.X)
    without = GlobalWithout.of(features, Phi, solution.beta, solution.intercept, solution.leverage, rows, index)
    if known == "all rows":
        leaving = LeavesWithout.of(local, rows, Phi, R, index, without)
    else:
        leaving = LeavesWithout.of_fitted(local, features.transform(local.U), rows, R, without)
    now = features.transform(Q) @ solution.beta + solution.intercept + local.predict(Q, 1)
    told = now[:, None] + leaving.changes(Q, features.transform(Q), 1)
    for i in index:
        assert_allclose(told[:, i], refitted(rows, features, local, i, Q, intercept), rtol=1e-8, atol=1e-8)


def test_few_rows_of_a_leaf_leave_as_many_do():
    rows, features, solution, R, local = fitted(True, True)
    asked = rows.X + 0.05

    def answers(index):
        Phi = features.transform(rows.X)
        without = GlobalWithout.of(features, Phi, solution.beta, solution.intercept, solution.leverage, rows, index)
        return LeavesWithout.of(local, rows, Phi, R, index, without, asked[index]).answers(1)

    some = np.array([3, 41, 57])
    assert_allclose(answers(some), answers(np.arange(60))[some], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("columns", [2, 40], ids=["few", "many"])
def test_the_inverse_of_a_leaf_is_that_of_its_matrix(columns):
    rng = np.random.RandomState(2)
    U, mass = rng.normal(size=(40, 3)), rng.uniform(1, 3, 40)
    local = LocalKernels(KERNEL, LEAF_GAMMA, U, (), (), RIDGE)
    B = LeafInverse.of(local, U, mass, columns)
    true = np.linalg.inv(gram_matrix(KERNEL, U, KernelParameters(LEAF_GAMMA)) + np.diag(RIDGE / mass))
    M = rng.normal(size=(40, 5))
    assert_allclose(B.columns(np.array([5, 7])), true[:, [5, 7]], rtol=1e-9, atol=1e-11)
    assert_allclose(B.times(M), true @ M, rtol=1e-9, atol=1e-9)
