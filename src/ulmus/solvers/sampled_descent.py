r"""Newton's method for very many rows: the Hessian of a sample of them, the gradient of all.

A step costs one pass over the rows. It solves :math:`Hd = -g` with the sample's Hessian :math:`H_0` in place of H;
what the sample does not know of the curvature, the steps so far show. With steps S and the changes Y = HS of the
gradient along them,

.. math:: d = -S B^{-1}S^Tg - (I - SB^{-1}Y^T)\,H_0^{-1}(I - YB^{-1}S^T)\,g,\qquad B = S^TY:

H in the span of the steps, all of them at once, :math:`H_0` elsewhere. For a quadratic objective the points are then
those of a Krylov method, whose rate is that of the condition number of :math:`H_0^{-1}H`; corrections one step after
the other (L-BFGS) forget most of it where steps are of length 1 and not the best.

The sample is drawn at random, or by leverages, and its features are held in single precision: a curvature points the
way, no more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ulmus import engine
from ulmus.engine import Precomputed, Rows
from ulmus.solvers.descent import ROUND_OFF, Minimum, minimise, newton_direction
from ulmus.solvers.line_search import EPS
from ulmus.solvers.log_loss import proportions

#: How exact directions by the Hessian of a sample are, which is not exact itself.
SAMPLED = 0.1
#: The part of the sample whose minimum is where to begin, and what may be left of the objective there.
START, BEGUN = 0.25, 3e-3
#: Products with the Hessian of the sample after which its metric is made anew.
LONG = 20
#: Steps that are remembered; they are recorded only where no more than this share of the objective was left: the
#: curvature changes along earlier ones.
REMEMBERED, QUADRATIC = 15, 1e-3
#: Directions that are this near to lying in the span of others, and add nothing.
DEPENDENT = 1e-3
#: Steps in a row that may fail to leave less of the objective.
MAX_STALLS = 6
#: A slope at the end of a step that is no more than this share of the one where it began is flat enough; how near
#: to it lengths are sought otherwise, by the scores alone.
LEVEL, NEAR = 0.5, 0.05
#: Steps shorter than this say that the sample is unlike all rows: another is drawn, by leverages.
UNLIKE = 0.6
#: While more than this share of the objective is left, passes may evaluate features in single precision.
COARSE = 1e-6

#: Steps, and the changes of the gradient along them.
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


class Point(NamedTuple):
    """Weights, with the scores of all rows, the gradient and the objective there."""

    v: np.ndarray
    F: np.ndarray
    g: np.ndarray
    value: float

    @classmethod
    def at(cls, objective: Any, v: np.ndarray, coarse: bool) -> "Point":
        """By one pass."""
        F, g = objective.sweep(v, coarse)
        return cls(v, F, g, objective.loss(F) + 0.5 * objective.inner(v, v))


def minimise_by_sample(objective: Any, v: np.ndarray, *, tol: float, max_passes: int) -> Minimum:
    """Newton's method with the Hessian of a sample in memory, and the gradient of all rows: one pass a step.

    It starts at the minimum of the sample, whose rows weigh there what they weigh among all: with the weight of all
    rows so few of them would be fitted too well. Where steps no longer leave less of the objective, products with the
    Hessian of all rows take over (:func:`ulmus.solvers.descent.minimise`).
    """
    index, few = sample(objective)
    for part in (first(few, START), few):
        begun = minimise(part, v, tol=max(tol, BEGUN), max_passes=max_passes)
        v = begun.v
    few = raised(few, float(objective.w.sum()))
    passes, steps, stalls, coarse, drawn, lowest = 1, 0, 0, True, False, np.inf
    pairs, here = list[tuple[np.ndarray, np.ndarray]](), Point.at(objective, v, coarse)
    few.metric(here.F[index])
    while True:
        d, spent = corrected(few, here.F[index], here.g, pairs[-REMEMBERED:])
        gap = -0.5 * objective.pair(here.g, d)
        stalls = 0 if gap < 0.5 * lowest else stalls + 1
        lowest = min(lowest, gap)
        if coarse and stalls:
            coarse, passes, lowest, here = False, passes + 1, np.inf, Point.at(objective, here.v, False)
            continue
        left_coarse = coarse and gap <= COARSE * here.value
        coarse = coarse and not left_coarse
        if (gap <= tol * here.value and not left_coarse) or stalls > MAX_STALLS or passes >= max_passes:
            break
        length, there = 1.0, Point.at(objective, here.v + d, coarse)
        passes, steps = passes + 1, steps + 1
        if not (abs(objective.pair(there.g, d)) <= 2 * LEVEL * gap and there.value <= here.value * (1 + ROUND_OFF)):
            length = flat_length(objective, here, there.F - here.F, d)
            passes, there = passes + 1, Point.at(objective, here.v + length * d, coarse)
        if not 0 < there.value <= here.value * (1 + ROUND_OFF):
            break
        if length != 1.0:
            pairs = []  # the recorded curvature misled this step
        elif gap <= QUADRATIC * here.value and not left_coarse and objective.pair(there.g - here.g, d) > 0:
            pairs.append((d, there.g - here.g))
        here = there
        if length < UNLIKE and not drawn and (few.fine or few.finer()):
            few.metric(here.F[index])
            index, few = sample_by(objective, leverages(objective, here.F, few.M), len(index))
            passes, drawn, lowest, spent = passes + 1, True, np.inf, LONG + 1
        if spent > LONG:
            few.finer()
            few.metric(here.F[index])
    v, F, g, value = here
    if gap <= max(tol, np.sqrt(EPS) * (stalls <= MAX_STALLS)) * value:  # falls of less may be those of round-off
        return Minimum(v, F, g, value, gap / value, True, steps, passes, begun.n_metrics)
    if few.fine:
        objective.finer()
    rest = minimise(objective, v, tol=tol, max_passes=max(max_passes - passes, 1))
    return replace(rest, n_passes=rest.n_passes + passes, n_steps=rest.n_steps + steps)


def flat_length(objective: Any, here: Point, shift: np.ndarray, d: np.ndarray) -> float:
    """How far along d the objective is nearly flat; d shifts the scores like this, and no row is read."""

    def slope(t: float) -> float:
        return float(objective.slope(here.F + t * shift, shift) + objective.inner(here.v + t * d, d))

    low, high = 0.0, 1.0
    if not slope(low) < 0:  # by round-off
        return 0.0
    while slope(high) < 0 and high < 1 / EPS:
        low, high = high, 2 * high
    return float(brentq(slope, low, high, xtol=1e-4 * high, rtol=NEAR))


def corrected(few: Any, F: np.ndarray, g: np.ndarray, pairs: Pairs = ()) -> tuple[np.ndarray, int]:
    """Newton's direction for the gradient ``g`` by the Hessian of a sample at its scores F, and the products it took.

    ``pairs`` are steps and the changes of the gradient along them, by which the Hessian is corrected.
    """
    if not pairs:
        d, _, count = newton_direction(few, F, g, few.direction(g), SAMPLED)
        return d, count
    unit = [1.0 / np.sqrt(few.pair(y, s)) for s, y in pairs]
    S = np.array([u * s for u, (s, _) in zip(unit, pairs, strict=True)])
    Y = np.array([u * y for u, (_, y) in zip(unit, pairs, strict=True)])
    B = np.tensordot(S, Y, axes=([1, 2], [1, 2]))
    b, V = np.linalg.eigh(0.5 * (B + B.T))
    V = V[:, b > DEPENDENT * b[-1]] / np.sqrt(b[b > DEPENDENT * b[-1]])
    S, Y = np.tensordot(V.T, S, axes=1), np.tensordot(V.T, Y, axes=1)  # now SᵀY = I
    along = np.tensordot(S, g, axes=([1, 2], [0, 1]))
    rest = g - np.tensordot(along, Y, axes=1)
    d, _, count = newton_direction(few, F, rest, few.direction(rest), SAMPLED)
    back = np.tensordot(Y, d, axes=([1, 2], [0, 1]))
    return d - np.tensordot(along + back, S, axes=1), count


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
