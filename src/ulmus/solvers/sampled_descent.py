"""Newton's method for very many rows: the Hessian of a sample of them, the gradient of all."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.solvers.descent import Minimum, minimise, newton_direction, step_length

#: How exact directions by the Hessian of a sample are, which is not exact itself.
SAMPLED = 0.03


def minimise_by_sample(objective: Any, v: np.ndarray, *, tol: float, max_passes: int) -> Minimum:
    """Newton's method with the Hessian of a sample in memory, and the gradient of all rows: one pass a step.

    The sample's own minimum is where it starts. Where a step no longer lowers what is left of the objective to a half,
    products with the Hessian of all rows take over (:func:`ulmus.solvers.descent.minimise`).
    """
    index, few = objective.sample()
    begun = minimise(few, v, tol=max(tol, 1e-5), max_passes=max_passes)
    v, passes, steps = begun.v, 1, 0
    F, g = objective.sweep(v)
    value, last = objective.loss(F) + 0.5 * objective.inner(v, v), np.inf
    while True:
        F_few = F[index]
        d = newton_direction(few, F_few, g, few.direction(g), SAMPLED)[0]
        gap = -0.5 * objective.pair(g, d)
        if gap <= tol * value or gap > 0.5 * last or passes >= max_passes:
            break
        F_end, g_end = objective.sweep(v + d)
        step = step_length(objective, F, F_end - F, v, d)
        if step.length != 1.0:
            F_end, g_end = objective.sweep(v + step.length * d)
            passes += 1
        passes, steps, last = passes + 1, steps + 1, gap
        if not 0 < step.end_value < value:
            break
        v, F, g, value = v + step.length * d, F_end, g_end, step.end_value
    if gap <= tol * value:
        return Minimum(v, F, g, value, gap / value, True, steps, passes, begun.n_metrics)
    rest = minimise(objective, v, tol=tol, max_passes=max(max_passes - passes, 1))
    return replace(rest, n_passes=rest.n_passes + passes, n_steps=rest.n_steps + steps)
