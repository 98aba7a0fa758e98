r"""Logistic loss on ±1 targets by Newton's method, one target at a time.

.. math:: J(\beta) = \tfrac12\|\beta\|^2 + C\sum_i w_i\,\ell(t_i o_i),\qquad o = \Phi\beta + b,\quad
   \ell(u) = \log(1 + e^{-u}).

With :math:`g = \partial\ell/\partial o` and :math:`d = \partial^2\ell/\partial o^2` a Newton step goes to

.. math:: \beta^+ = (I/C + \Phi^T W D\,\Phi)^{-1}\Phi^T W D\,z,\qquad z = o - g/d,

which is ridge regression with weights :math:`wd` on the targets z. So each step is a solve that the ridge models have
already, with their blocks, threads and intercept; and leave-one-out of the last one is leave-one-out of the model, to
second order. Steps are halved until the objective falls (Armijo).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from ulmus import engine
from ulmus.engine import Lift, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import fit_kernel_ridge
from ulmus.solvers.path import leave_out
from ulmus.solvers.ridge import Problem, fit_ridge

MAX_STEPS = 50
#: Curvature below this is taken for this: rows that are sure add nothing to the Hessian.
_FLAT = 1e-9
#: Share of the fall promised by the slope that a step has to bring.
_ARMIJO = 1e-4


@dataclass(frozen=True)
class Weights:
    """Weights of one output, its intercept, its values ``o`` at the rows, and ``1 − u h`` of the rows if asked for."""

    weights: np.ndarray
    intercept: float
    outputs: np.ndarray
    remainder: np.ndarray | None = None

    def towards(self, other: "Weights", s: float) -> "Weights":
        """The point a share ``s`` of the way."""
        return Weights(
            (1 - s) * self.weights + s * other.weights,
            (1 - s) * self.intercept + s * other.intercept,
            (1 - s) * self.outputs + s * other.outputs,
            other.remainder,
        )


class Ridge(Protocol):
    """Weighted ridge regression of one output on fixed features."""

    @property
    def n_weights(self) -> int: ...

    def solve(self, rows: Rows, C: float, *, remainder: bool = False) -> Weights:
        """The minimiser, with its values at the rows."""

    def inner(self, a: Weights, b: Weights) -> float:
        """``⟨β_a, β_b⟩``."""


@dataclass(frozen=True)
class FeatureRidge:
    """Ridge on an explicit feature map."""

    features: Lift
    fit_intercept: bool = False
    n_jobs: int | None = -1

    @property
    def n_weights(self) -> int:
        return self.features.n_lifted

    def solve(self, rows: Rows, C: float, *, remainder: bool = False) -> Weights:
        solution = fit_ridge(Problem(self.features, rows, C, self.fit_intercept, self.n_jobs))
        o = engine.apply(self.features, rows.X, solution.beta, n_jobs=self.n_jobs) + solution.intercept
        left = None
        if remainder:
            Phi = engine.transform(self.features, rows.X, np.empty((len(rows), self.n_weights)), n_jobs=self.n_jobs)
            assert rows.unit is not None
            left = 1.0 - rows.unit * solution.leverage(Phi)
        return Weights(solution.beta[:, 0], float(solution.intercept[0]), o[:, 0], left)

    def inner(self, a: Weights, b: Weights) -> float:
        return float(a.weights @ b.weights)


@dataclass(frozen=True)
class KernelRidge:
    """Ridge in the space of a kernel between the rows: weights are the dual ones, ``⟨β_a, β_b⟩ = α_aᵀKα_b``."""

    cross: CrossKernel
    fit_intercept: bool = False
    n_jobs: int | None = -1

    @property
    def n_weights(self) -> int:
        return self.cross.n_lifted

    def solve(self, rows: Rows, C: float, *, remainder: bool = False) -> Weights:
        n_last = len(rows) if remainder else 1
        solution = fit_kernel_ridge(
            self.cross, rows, C, fit_intercept=self.fit_intercept, n_last=n_last, n_jobs=self.n_jobs
        )
        assert rows.weight is not None
        alpha, b = solution.alpha[:, 0], float(solution.intercept[0])
        # (K + W⁻¹/C) α = z − b, so the values at the rows need no product with K
        o = rows.T[:, 0] - alpha / (C * rows.weight)
        return Weights(alpha, b, o, solution.remainder if remainder else None)

    def inner(self, a: Weights, b: Weights) -> float:
        return float(a.weights @ (b.outputs - b.intercept))


@dataclass(frozen=True)
class LogisticFit:
    """Weights at the minimum, the outputs of rows left out (if asked for), and the number of Newton steps."""

    at: Weights
    left_out: np.ndarray | None
    n_steps: int


def fit_logistic(
    ridge: Ridge,
    rows: Rows,
    C: float,
    *,
    start: Weights | None = None,
    tolerance: float = 1e-10,
    leave_one_out: bool = False,
) -> LogisticFit:
    """The minimiser for rows with one ±1 target column, to a relative ``tolerance`` in the objective."""
    t, w = rows.T[:, 0], np.ones(len(rows)) if rows.weight is None else rows.weight
    unit = np.ones(len(rows)) if rows.unit is None else rows.unit
    here = Weights(np.zeros(ridge.n_weights), 0.0, np.zeros(len(rows))) if start is None else start

    def objective(at: Weights) -> float:
        return 0.5 * ridge.inner(at, at) + C * float(w @ np.logaddexp(0.0, -t * at.outputs))

    value, steps, converged = objective(here), 0, False
    while True:
        working, g = _working(rows, here.outputs, w, unit)
        there = ridge.solve(working, C)
        slope = ridge.inner(here, there) - ridge.inner(here, here) + C * float(g @ (there.outputs - here.outputs))
        steps += 1
        # half the slope is what the quadratic model promises; round-off in the solve may make it nothing
        if -0.5 * slope <= tolerance * abs(value):
            converged = True
            here = there if objective(there) <= value else here
            break
        found = _search(here, there, slope, value, objective)
        if found is None or steps == MAX_STEPS:
            break
        here, value = found
    if not converged:
        warnings.warn(
            f"Newton's method stopped after {steps} steps with a fall of {-0.5 * slope / abs(value):.1e} of the "
            "objective still promised; a smaller C would be steadier",
            NumericalWarning,
            stacklevel=2,
        )
    left_out = None
    if leave_one_out:
        there = ridge.solve(working, C, remainder=True)
        assert there.remainder is not None
        left_out = leave_out(working.T, working.T - there.outputs[:, None], there.remainder)[:, 0]
    return LogisticFit(here, left_out, steps)


def _working(rows: Rows, o: np.ndarray, w: np.ndarray, unit: np.ndarray) -> tuple[Rows, np.ndarray]:
    """Rows of the ridge problem whose solution is the Newton point, and the gradient in o."""
    t = rows.T[:, 0]
    p = expit(t * o)
    g, d = -t * expit(-t * o), np.maximum(p * (1 - p), _FLAT)
    return Rows(rows.X, (o - g / d)[:, None], w * d, unit * d), w * g


def _search(
    here: Weights, there: Weights, slope: float, value: float, objective: Callable[[Weights], float]
) -> tuple[Weights, float] | None:
    """The first point of 1, ½, ¼ … of the step that is low enough."""
    s = 1.0
    while s > 1e-10:
        point = here.towards(there, s)
        reached = objective(point)
        if reached <= value + _ARMIJO * s * slope:
            return point, reached
        s /= 2
    return None
