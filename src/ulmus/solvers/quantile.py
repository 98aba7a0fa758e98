r"""Quantile regression on features: the pinball loss, smoothed, and the smoothing driven down.

For every level q the weights minimise

.. math:: \frac{\|\beta\|^2}{2\,C s} + \sum_i w_i\,\rho_q(t_i - \phi_i\beta - b), \qquad
          \rho_q(r) = \max(q\,r, (q - 1)\,r),

with the deviation s of the errors of a ridge model: C is then as large as that of squares, whatever the units of the
targets, and quantiles move with the targets' units. :math:`\rho_q` has a corner, which Newton's method does not like,
so it is rounded off within :math:`\pm c` (:class:`ulmus.losses.Pinball`), first with :math:`c = s/2`, then with a
quarter of that again and again; each solution is the start of the next, near which few rows bend and systems are small.

Levels are fitted one by one, from the one nearest to the median outwards, each from its neighbour, whose constant is
moved until the right share of rows lies below.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.exceptions import NumericalWarning
from ulmus.losses import pinball
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.objective import NewtonRows
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.robust import RobustSolution, weighted_quantile
from ulmus.solvers.span import minimise

#: How round the corner is at first, at last, and the factor between; in deviations of the errors.
FIRST, LAST, FACTOR = 0.5, 1 / 128, 0.25
#: Accuracy of the last solution and of those before it, and Newton steps at most.
TOLERANCE, ROUGH, STEPS = 1e-7, 1e-3, 200


@dataclass(frozen=True)
class QuantileSolution:
    """Weights of every level: its C, the deviations ``unit`` of the outputs' errors, and a solution for each level."""

    levels: np.ndarray
    C: np.ndarray
    unit: np.ndarray
    solutions: tuple[RobustSolution, ...]

    @property
    def beta(self) -> np.ndarray:
        """``[feature, output · level]``, the levels of an output beside each other."""
        return np.stack([one.beta for one in self.solutions], axis=2).reshape(len(self.solutions[0].beta), -1)

    @property
    def intercept(self) -> np.ndarray:
        return np.stack([one.intercept for one in self.solutions], axis=1).ravel()

    def left_out(
        self, Phi: np.ndarray, T: np.ndarray, unit: np.ndarray | None, own: OwnLandmarks | None = None
    ) -> np.ndarray:
        """Curves at training rows with these features by models without them, ``[row, output, level]``.

        One Newton step from the solution of all rows, so approximate.
        """
        out = []
        for one in self.solutions:
            out.append(T + one.leave_one_out(Phi, Phi @ one.beta + one.intercept - T, unit, own)[0])
        return np.stack(out, axis=2)


def fit_quantiles(
    rows: NewtonRows, levels: np.ndarray, C: Any, start: RobustSolution, unit: np.ndarray, last: float = LAST
) -> QuantileSolution:
    """The quantiles of all levels, from a model of the middle, by corners ever less round, down to ``last``.

    ``C`` is one for all levels, or one for each.
    """
    each = np.broadcast_to(np.asarray(C, dtype=float), levels.shape)

    def at(k: int, near: RobustSolution) -> RobustSolution:
        return descended(rows, float(levels[k]), float(each[k]), near, unit, last)

    return QuantileSolution(levels, each, unit, outwards(levels, start, at))


def outwards(
    levels: np.ndarray, start: RobustSolution, at: Callable[[int, RobustSolution], RobustSolution]
) -> tuple[RobustSolution, ...]:
    """``at(k, near)`` of every level, from the one nearest to the median on, each near its neighbour."""
    found: dict[int, RobustSolution] = {}
    middle = int(np.argmin(np.abs(levels - 0.5)))
    for k in (*range(middle, len(levels)), *range(middle - 1, -1, -1)):
        found[k] = at(k, found.get(k - 1 if k > middle else k + 1, start))
    return tuple(found[k] for k in range(len(levels)))


def continued(rows: NewtonRows, near: QuantileSolution, last: float = LAST) -> QuantileSolution:
    """The quantiles with other corners, or on other rows, from those at hand."""
    each = zip(near.solutions, near.C, strict=True)
    return replace(near, solutions=tuple(polished(rows, one, C, near.unit, last) for one, C in each))


def descended(
    rows: NewtonRows, level: float, C: float, near: RobustSolution, unit: np.ndarray, last: float
) -> RobustSolution:
    """The quantile of a level, from the model of another."""
    at, c = replace(near, loss=pinball(level)), FIRST
    if rows.fit_intercept:
        moved = [weighted_quantile(-e, rows.rows.weight, level) for e in near.residual.T]
        at = replace(
            at, results=[replace(r, intercept=r.intercept + b) for r, b in zip(at.results, moved, strict=True)]
        )
    while c * FACTOR >= last:
        at, c = polished(rows, at, C, unit, c), c * FACTOR
    return polished(rows, at, C, unit, last)


def polished(rows: NewtonRows, near: RobustSolution, C: float, unit: np.ndarray, c: float) -> RobustSolution:
    """The solution for a corner as round as c; the last one to the last digits."""
    final = c == LAST
    options = NewtonOptions(tol=TOLERANCE if final else ROUGH, max_iter=STEPS)
    results = minimise(rows, near.loss, c * unit, C * unit, near.beta, near.intercept, options)
    for r in results:
        if final and not r.converged:
            warnings.warn(
                f"Newton's method for a quantile stopped after {r.n_iter} steps: the next one would have length "
                f"{r.path.step_norm[-1]:.2g}, above {r.threshold:.2g}; a smaller C would be more stable",
                NumericalWarning,
                stacklevel=2,
            )
    return replace(near, c=c * unit, C=C * unit, results=results)
