r"""Leave-one-out of a log model, to second order, from factors at the solution.

With :math:`\Lambda = \phi^TH^{-1}\phi` of a row (a matrix over the classes), its gradient :math:`e = p - y` and its
second derivative A, one Newton step of the objective without a weight u of the row leads to the score

.. math:: f + (I - u\Lambda A)^{-1}\Lambda\,ue.

For two classes, and wherever Lk is small, H is the Hessian. Where it is too large to be factored, classes are taken one
by one, against the rest: :math:`h_c = \phi^T(\Phi^TWD_c\Phi + I/C)^{-1}\phi` with :math:`d_c = p_c(1 - p_c)` and
:math:`f_c + h_cue_c/(1 - uh_cd_c)`. Of very many rows each moves little: there the metric of the descent, which is
near H, stands for it, and the first order is enough.

One step is exact to second order in what a row moves. Rows that move far, and weigh most in a log loss, may really be
left out (``refits``).
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus.engine import Precomputed
from ulmus.exceptions import NumericalWarning
from ulmus.solvers.log_few import FewRows
from ulmus.solvers.log_joint import class_leverages, feature_leverages
from ulmus.solvers.log_loss import proportions, second_derivative
from ulmus.solvers.log_metric import DenseMetric, KroneckerMetric, factored
from ulmus.solvers.path import SINGLE_REACH
from ulmus.solvers.softmax import FINE_CELLS, FeatureObjective, LogProblem, LogSolution, fit_softmax


def leave_out_scores(F: np.ndarray, E: np.ndarray, A: np.ndarray, lever: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """``f + (I − uΛA)⁻¹Λue`` of every row; ``lever[row, class, class]`` is Λ."""
    left = np.eye(F.shape[1]) - unit[:, None, None] * (lever @ A)
    pull = unit[:, None] * (lever @ E[:, :, None])[:, :, 0]
    if F.shape[1] == 1:
        return F + pull / np.maximum(left[:, 0], np.finfo(float).eps)
    return F + np.linalg.solve(left, pull[:, :, None])[:, :, 0]


def leave_out_each(
    F: np.ndarray, E: np.ndarray, P: np.ndarray, h: np.ndarray, unit: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """``f_c + h_c u e_c / (1 − u h_c p_c(1 − p_c))``, every class against the rest; ``h[row, class]``.

    ``h_c / (1 − …)`` is the leverage without the row. That of features is never above ``most``, without any row:
    ``C‖φ‖²``; round-off must not make it so.
    """
    u, d = unit[:, None], P * (1.0 - P)
    without = np.minimum(h / np.maximum(1.0 - u * h * d, np.finfo(float).eps), h + most[:, None])
    return F + without * u * E


def left_out(
    problem: LogProblem,
    solution: LogSolution,
    rows: np.ndarray | None = None,
    *,
    refits: int = 0,
    rough: bool = False,
    counting: bool = False,
    few: FewRows | None = None,
) -> np.ndarray:
    """Scores of rows (of all, or of those asked for) by the models without them.

    A row goes with its ``unit`` of weight (one copy), as in the path of ridge regression; offsets are taken as they
    are. So many rows as ``refits``, those that move most, are really left out. ``rough`` ones, by which models are
    compared, have leverages in single precision where that is enough (:data:`ulmus.solvers.path.SINGLE_REACH`). Of many
    classes those rows may do that are ``counting`` for each (:func:`ulmus.solvers.log_joint.counting`). ``few`` is the
    same problem with the kernel between its rows.
    """
    objective = FeatureObjective(problem)
    index = np.arange(len(problem.rows)) if rows is None else np.asarray(rows)
    unit = problem.rows.unit
    u = np.minimum(problem.weight, 1.0) if unit is None else unit
    way = _dense if objective.dense or objective.m == 1 else _by_metric if objective.is_large else _each
    dtype = np.float32 if rough and _is_single(objective, u) else np.float64
    if way is not _each:
        out = way(objective, solution.F, index, u[index], dtype)
    elif few is not None or (counting and isinstance(problem.features, Precomputed) and problem.whitening is None):
        out = _of_counting(objective, solution.F, index, u[index], dtype, few)
    else:
        out = _each(objective, solution.F, index, u[index], dtype)
    if refits:
        moved = np.abs(out - solution.F[index]).max(axis=1)
        for place in np.argsort(-moved, kind="stable")[:refits]:
            out[place] = _without(problem, solution, int(index[place]), float(u[index[place]]))
    return out


def _is_single(objective: FeatureObjective, u: np.ndarray) -> bool:
    """Whether single precision is enough for leverages: rows are at hand, white, and C‖φ‖² is not large."""
    problem = objective.problem
    if problem.whitening is not None or not isinstance(problem.features, Precomputed):
        return False
    X = problem.rows.X
    reach = np.einsum("ij,ij,j->", X, X, 1.0 / objective.penalty[: objective.L], optimize=True) / len(X)
    return float(reach) * float(np.max(u)) <= SINGLE_REACH


def _dense(objective: FeatureObjective, F: np.ndarray, index: np.ndarray, u: np.ndarray, dtype: Any) -> np.ndarray:
    objective.metric(F, exact=True)
    M, out = objective.M, np.empty((len(index), objective.m))
    assert isinstance(M, DenseMetric | KroneckerMetric)
    M = M.astype(dtype)

    def work(piece: slice) -> None:
        some = index[piece]
        P = proportions(F[some])
        lever = M.leverage(objective.design(some))
        out[piece] = leave_out_scores(F[some], P - objective.Y[some], second_derivative(P), lever, u[piece])

    engine.on_threads(work, _shares(index, objective), objective.problem.n_jobs)
    return out


def _by_metric(objective: FeatureObjective, F: np.ndarray, index: np.ndarray, u: np.ndarray, dtype: Any) -> np.ndarray:
    """To first order, ``f + Λue``, with leverages of the metric: one row among so many moves little."""
    objective.metric(F)
    M, out = objective.M, np.empty((len(index), objective.m))
    assert isinstance(M, KroneckerMetric)
    M = M.astype(dtype)

    def work(piece: slice) -> None:
        some = index[piece]
        E = u[piece, None] * (proportions(F[some]) - objective.Y[some])
        out[piece] = F[some] + M.leverage_of(objective.design(some), E)

    engine.on_threads(work, _shares(index, objective), objective.problem.n_jobs)
    return out


def _each(objective: FeatureObjective, F: np.ndarray, index: np.ndarray, u: np.ndarray, dtype: Any) -> np.ndarray:
    P, h, most = proportions(F), np.empty((len(index), objective.m)), np.empty(len(index))
    for group in engine.pieces(objective.m, max(1, FINE_CELLS // objective.size**2)):
        factors = []
        for p in P.T[group]:
            H = objective.weighted_gram(objective.w * p * (1.0 - p), 0.0)
            H[np.diag_indices_from(H)] += objective.penalty
            factors.append(factored(H).astype(dtype, copy=False))

        def work(piece: slice) -> None:
            design = objective.design(index[piece])
            most[piece] = design[:, : objective.L] ** 2 @ (1.0 / objective.penalty[: objective.L])
            design = design.astype(dtype, copy=False)
            for c, factor in enumerate(factors, group.start):  # noqa: B023
                V = design.copy()
                solve_lower_transposed(factor, V)
                h[piece, c] = np.einsum("ij,ij->i", V, V)

        engine.on_threads(work, _shares(index, objective), objective.problem.n_jobs)
    return leave_out_each(F[index], P[index] - objective.Y[index], P[index], h, u, most)


def _of_counting(
    objective: FeatureObjective, F: np.ndarray, index: np.ndarray, u: np.ndarray, dtype: Any, few: FewRows | None
) -> np.ndarray:
    """The same with the rows that count for each class (:func:`ulmus.solvers.log_joint.counting`)."""
    P, Y = proportions(F), objective.Y
    if few is not None:
        space = few.space()
        most = space.variance()
        h = class_leverages(space, P, Y, index)
    else:
        design = objective.design(slice(None))
        most = design[:, : objective.L] ** 2 @ (1.0 / objective.penalty[: objective.L])
        h = feature_leverages(design, objective.w, objective.penalty, P, Y, index, dtype, objective.problem.n_jobs)
    return leave_out_each(F[index], P[index] - Y[index], P[index], h, u, most[index])


def _shares(index: np.ndarray, objective: FeatureObjective) -> list[slice]:
    size = objective.size * (objective.m if objective.dense else 1)
    return engine.shares(len(index), engine.BLOCK_BYTES // (8 * size))


def _without(problem: LogProblem, solution: LogSolution, row: int, unit: float) -> np.ndarray:
    """The score of a row by the model without it, really left out."""
    weight = problem.weight.copy()
    weight[row] = max(weight[row] - unit, 0.0)
    others = replace(problem, rows=replace(problem.rows, weight=weight))
    v = np.vstack([solution.beta, solution.intercept]) if problem.fit_intercept else solution.beta
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return fit_softmax(others, start=v, gram=solution.gram, tol=1e-8).F[row]
