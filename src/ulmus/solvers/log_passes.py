r"""Softmax and logistic regression on rows that are read pass by pass.

Newton's method with the gradient of all rows and the Hessian of a sample of them that is in memory, as for very many
rows in memory (:func:`ulmus.solvers.softmax.minimise_by_sample`). What the sample does not know of the curvature, the
steps so far tell: their changes of the gradient correct its Hessian (L-BFGS). Scores are held of the sample alone, so
that every value of the objective is a pass, and a step that does not lower it is shortened.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.solvers.log_loss import losses, proportions, targets
from ulmus.solvers.sampled_descent import REMEMBERED, corrected
from ulmus.solvers.softmax import FeatureObjective

#: By which a step that does not lower the objective is shortened, and how often.
SHORTER, SHORTENED = 0.25, 4
#: What steps for the last digits leave of the objective.
FINE = 1e-16


@dataclass(frozen=True)
class PassMinimum:
    """Where the passes ended: ``gap`` is the share of the objective that is left to fall, by the sample's Hessian."""

    v: np.ndarray
    value: float
    gap: float
    converged: bool
    n_passes: int


def log_sums(features: Any, rows: Rows, weights: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """``Σ w ℓ`` (first line, first column) and ``[Φ 1]ᵀ W (p − y)`` (below it), of a block of rows."""
    L, m = features.n_features_out, rows.T.shape[1]
    out, workspace = np.zeros((L + 2, m)), engine.Workspace()
    for piece in engine.pieces(len(rows), engine.block_rows(L, np.float64)):
        block = rows[piece]
        for tile, Phi in engine.feature_tiles(features, block, np.float64, workspace):
            F, Y = Phi @ weights + intercept, targets(block.T[tile])
            w = np.ones(len(F)) if block.weight is None else block.weight[tile]
            E = (proportions(F) - Y) * w[:, None]
            out[0, 0] += float(w @ losses(Y, F))
            out[1:-1] += Phi.T @ E
            out[-1] += E.sum(axis=0)
    return out


def minimise_by_passes(
    few: FeatureObjective,
    v: np.ndarray,
    sweep: Callable[[np.ndarray], tuple[float, np.ndarray]],
    *,
    tol: float,
    max_passes: int,
    polish: int = 0,
) -> PassMinimum:
    """Descend from ``v``; ``few`` is the objective of a sample that weighs as much as all rows.

    ``sweep`` gives ``Σ w ℓ`` of all rows at a point, and its gradient, without the penalty. With ``polish``, at most so
    many more steps are taken at the end, too small to be seen in the objective, for what they leave of the gradient.
    """

    def at(v: np.ndarray) -> tuple[float, np.ndarray]:
        loss, g = sweep(v)
        return loss + 0.5 * few.inner(v, v), g + few.penalty[:, None] * v

    value, g = at(v)
    passes, pairs = 1, list[tuple[np.ndarray, np.ndarray]]()
    while True:
        d = direction(few, v, g, pairs[-REMEMBERED:])
        gap = -0.5 * few.pair(g, d)
        if gap <= tol * value or passes >= max_passes:
            break
        length, fell = 1.0, False
        for _ in range(min(SHORTENED, max_passes - passes)):
            end_value, end_g = at(v + length * d)
            passes, fell = passes + 1, end_value < value
            if fell:
                pairs += [(length * d, end_g - g)] if few.pair(end_g - g, d) > 0 else []
                v, value, g = v + length * d, end_value, end_g
                break
            length *= SHORTER
        if not fell:
            break
    converged, best = bool(gap <= tol * value), (gap, v, value)
    for _ in range(polish if converged else 0):
        if gap <= FINE * value:
            break
        end_value, end_g = at(v + d)
        passes += 1
        pairs += [(d, end_g - g)] if few.pair(end_g - g, d) > 0 else []
        v, value, g = v + d, end_value, end_g
        d = direction(few, v, g, pairs[-REMEMBERED:])
        gap = -0.5 * few.pair(g, d)
        best = min(best, (gap, v, value), key=lambda each: each[0])
    gap, v, value = best
    return PassMinimum(v, value, gap / value if value > 0 else 0.0, converged, passes)


def direction(
    few: FeatureObjective, v: np.ndarray, g: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]] = ()
) -> np.ndarray:
    """Newton's direction at ``v`` for the gradient ``g``, by the Hessian of the sample there.

    ``pairs`` are steps and the changes of the gradient along them, which the Hessian is corrected by.
    """
    F = few.scores(v)
    few.metric(F)
    return corrected(few, F, g, pairs)[0]
