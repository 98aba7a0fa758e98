"""Newton's method for very many rows: the Hessian of a sample of them, the gradient of all.

What the sample does not know of the curvature, the steps so far tell: their changes of the gradient correct its Hessian
(L-BFGS). A step costs one pass over the rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.solvers.descent import Minimum, minimise, newton_direction, step_length

#: How exact directions by the Hessian of a sample are, which is not exact itself.
SAMPLED = 0.03
#: Steps that are remembered.
REMEMBERED = 10
#: Steps in a row that may fail to leave less of the objective.
MAX_STALLS = 3


def minimise_by_sample(objective: Any, v: np.ndarray, *, tol: float, max_passes: int) -> Minimum:
    """Newton's method with the Hessian of a sample in memory, and the gradient of all rows: one pass a step.

    The sample's own minimum is where it starts, and the step after ``tol`` is reached is the last. Where steps no
    longer leave less of the objective, products with the Hessian of all rows take over
    (:func:`ulmus.solvers.descent.minimise`).
    """
    index, few = objective.sample()
    begun = minimise(few, v, tol=max(tol, 1e-5), max_passes=max_passes)
    v, passes, steps, stalls = begun.v, 1, 0, 0
    told = list[tuple[np.ndarray, np.ndarray]]()
    F, g = objective.sweep(v)
    value, lowest = objective.loss(F) + 0.5 * objective.inner(v, v), np.inf
    while True:
        d = corrected(few, F[index], g, told[-REMEMBERED:])
        gap = -0.5 * objective.pair(g, d)
        stalls = 0 if gap < 0.5 * lowest else stalls + 1
        lowest = min(lowest, gap)
        if gap <= tol * value or stalls > MAX_STALLS or passes >= max_passes:
            break
        F_end, g_end = objective.sweep(v + d)
        step = step_length(objective, F, F_end - F, v, d)
        if step.length != 1.0:
            F_end, g_end = objective.sweep(v + step.length * d)
            passes += 1
        passes, steps = passes + 1, steps + 1
        if not 0 < step.end_value < value:
            break
        told += [(step.length * d, g_end - g)] if objective.pair(g_end - g, d) > 0 else []
        v, F, g, value = v + step.length * d, F_end, g_end, step.end_value
    if gap <= tol * value:
        F, g = objective.sweep(v + d)
        return Minimum(v + d, F, g, value, gap / value, True, steps + 1, passes + 1, begun.n_metrics)
    rest = minimise(objective, v, tol=tol, max_passes=max(max_passes - passes, 1))
    return replace(rest, n_passes=rest.n_passes + passes, n_steps=rest.n_steps + steps)


def corrected(few: Any, F: np.ndarray, g: np.ndarray, told: Sequence[tuple[np.ndarray, np.ndarray]] = ()) -> np.ndarray:
    """Newton's direction for the gradient ``g`` by the Hessian of a sample at its scores F.

    ``told`` are steps and the changes of the gradient along them, which the Hessian is corrected by.
    """
    g, shares = g.copy(), list[float]()
    for s, y in reversed(told):
        shares.append(few.pair(g, s) / few.pair(y, s))
        g -= shares[-1] * y
    d: np.ndarray = newton_direction(few, F, g, few.direction(g), SAMPLED)[0]
    for (s, y), share in zip(told, reversed(shares), strict=True):
        d -= s * (share + few.pair(y, d) / few.pair(y, s))
    return d
