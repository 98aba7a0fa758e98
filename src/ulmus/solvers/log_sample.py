"""Some rows in place of very many, for the curvature of a log loss: which ones, and the objective on them.

Features are held in single precision: a curvature points the way, no more.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Precomputed, Rows
from ulmus.solvers.log_loss import proportions

#: Rows per feature, and features at most, of a sample.
ROWS, CELLS = 64, 2**26
#: Random projections by which leverages are estimated.
PROJECTIONS = 6
#: Rows are drawn with at least this share of the mean probability.
LEAST = 0.1


def sample(objective: Any) -> tuple[np.ndarray, Any]:
    """Rows drawn at random, in random order, and the objective on them."""
    n, L = len(objective.w), objective.L
    count = max(1, min(n // 2, ROWS * max(L, 64), CELLS // max(L, 1)))
    index = np.random.RandomState(0).permutation(n)[:count]
    return index, on_rows(objective, index, objective.w[index])


def sample_by(objective: Any, share: np.ndarray, count: int) -> tuple[np.ndarray, Any]:
    """About this many rows, drawn with probabilities proportional to shares, and weighted by their inverses."""
    q = share + LEAST * share.mean()
    for _ in range(5):  # probabilities end at 1
        q = np.minimum(1.0, q * (count / q.sum()))
    index = np.flatnonzero(np.random.RandomState(0).uniform(size=len(q)) < q)
    return index, on_rows(objective, index, objective.w[index] / q[index])


def on_rows(objective: Any, index: np.ndarray, weight: np.ndarray) -> Any:
    """The objective on some rows with these weights."""
    problem, L = objective.problem, objective.L
    Phi = np.empty((len(index), L), np.float32)
    for piece in engine.pieces(len(index), engine.block_rows(L, np.float64)):
        Phi[piece] = objective.design(index[piece])[:, :L]
    rows = Rows(Phi, problem.rows.T[index], weight)
    offset = None if problem.offset is None else problem.offset[index]
    given: Any = {"features": Precomputed(L), "rows": rows, "offset": offset, "whitening": None, "squared": None}
    return replace(problem, **given).objective()


def first(objective: Any, share: float) -> Any:
    """The objective on a part of the rows, the first ones."""
    problem, few = objective.problem, slice(0, max(1, round(share * len(objective.w))))
    offset = None if problem.offset is None else problem.offset[few]
    return replace(problem, rows=problem.rows[few], offset=offset).objective()


def raised(objective: Any, total: float) -> Any:
    """The objective on the same rows, which weigh so much in all."""
    problem, w = objective.problem, objective.w * (total / objective.w.sum())
    return replace(problem, rows=replace(problem.rows, weight=w)).objective()


def leverages(objective: Any, F: np.ndarray, M: Any) -> np.ndarray:
    """What every row weighs in the Hessian at scores F, ``w Σ p_c(1 − p_c) φᵀM_c⁻¹φ``; by one pass.

    M has a factor for every class. With random z of unit covariance, ``φᵀM⁻¹φ`` is the mean of ``(φᵀM^{-1/2}z)²``.
    """
    problem, L, m = objective.problem, objective.L, objective.m
    Z = np.random.RandomState(0).normal(size=(objective.size, PROJECTIONS))
    V = np.hstack([M.half(c, Z) for c in range(m)])
    U = engine.apply(problem.features, problem.rows.X, objective.unwhitened(V[:L]), n_jobs=problem.n_jobs)
    if problem.fit_intercept:
        U += V[L:]
    U = U.reshape(len(U), m, PROJECTIONS)
    P = proportions(F)
    return np.asarray(objective.w * (P * (1.0 - P) * np.einsum("ncz,ncz->nc", U, U)).sum(axis=1) / PROJECTIONS)
