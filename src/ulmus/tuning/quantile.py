"""The penalties of quantile regression: C of every level, by its pinball loss on rows left out."""

from dataclasses import replace

import numpy as np

from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.quantile import QuantileSolution, continued, fit_quantiles, outwards
from ulmus.solvers.robust import RobustSolution
from ulmus.tuning.surface import climbed

#: How round corners are while C is chosen, in deviations of the errors, and the gain that is worth a step.
ROUND, C_GAIN = 1 / 8, 5e-3


def chosen_quantiles(
    rows: HeldRows,
    levels: np.ndarray,
    near_C: float,
    start: RobustSolution,
    unit: np.ndarray,
    own: OwnLandmarks | None = None,
    *,
    choose: bool = True,
) -> QuantileSolution:
    """Rough quantiles for the C of the least left-out loss, by climbs from that of squares (or for that C itself).

    Every level has its own: the farther out, the fewer rows tell of it, and the stiffer its curve has to be.
    """
    T, w, C = rows.rows.T, rows.rows.weight, np.full(len(levels), near_C)

    def at(k: int, near: RobustSolution) -> RobustSolution:
        level, tried = levels[[k]], dict[float, QuantileSolution]()

        def loss_at(C: float) -> float:
            closest = min(tried, key=lambda other: abs(np.log(other / C)), default=None)
            if closest is None:
                tried[C] = fit_quantiles(rows, level, C, near, unit, last=ROUND)
            else:
                tried[C] = continued(rows, replace(tried[closest], C=np.array([C])), ROUND)
            return mean_loss(level, tried[C].left_out(rows.Phi, T, rows.rows.unit, own), T, unit, w)

        if choose:
            C[k] = climbed(loss_at, near_C, C_GAIN)
        else:
            loss_at(near_C)
        return tried[C[k]].solutions[0]

    solutions = outwards(levels, start, at)
    return QuantileSolution(levels, C, unit, solutions)


def mean_loss(levels: np.ndarray, P: np.ndarray, T: np.ndarray, unit: np.ndarray, weight: np.ndarray | None) -> float:
    """The pinball loss of curves ``P[row, output, level]``, mean over levels, outputs (in ``unit``) and rows."""
    R = (T[:, :, None] - P) / unit[:, None]
    losses = np.maximum(levels * R, (levels - 1.0) * R)
    return float(np.average(losses.mean(axis=(1, 2)), weights=weight))
