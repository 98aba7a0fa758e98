r"""Logistic loss on ±1 targets, one target at a time: the log models of two classes, for the bits of ordinal models.

.. math:: J(\beta) = \tfrac12\|\beta\|^2 + C\sum_i w_i\,\ell(t_i o_i),\qquad o = \Phi\beta + b,\quad
   \ell(u) = \log(1 + e^{-u}).

On a feature map that is :mod:`ulmus.solvers.softmax`, on a kernel between the rows :mod:`ulmus.solvers.log_kernel`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ulmus import engine
from ulmus.engine import FeatureMap, Rows
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import kernel_square
from ulmus.solvers.log_kernel import fit_kernel_softmax
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.softmax import LogProblem, fit_softmax


@dataclass(frozen=True)
class Weights:
    """Weights of one output, its intercept, and its values ``o`` at the rows."""

    weights: np.ndarray
    intercept: float
    outputs: np.ndarray


@dataclass(frozen=True)
class LogisticFit:
    """Weights at the minimum, the outputs of rows left out (if asked for), and the number of passes."""

    at: Weights
    left_out: np.ndarray | None
    n_steps: int


class Ridge(Protocol):
    """Penalised models of one output on fixed features."""

    @property
    def n_weights(self) -> int: ...

    def fit(self, rows: Rows, C: float, start: Weights | None, tol: float, leave_out: np.ndarray | None) -> LogisticFit:
        """The minimiser, and outputs of the rows to leave out."""

    def outputs(self, at: Weights, X: Any) -> np.ndarray:
        """What weights say of rows."""


@dataclass(frozen=True)
class FeatureRidge:
    """On an explicit feature map."""

    features: FeatureMap
    fit_intercept: bool = False
    n_jobs: int | None = -1

    @property
    def n_weights(self) -> int:
        return self.features.n_features_out

    def fit(self, rows: Rows, C: float, start: Weights | None, tol: float, leave_out: np.ndarray | None) -> LogisticFit:
        problem = LogProblem.nystrom(self.features, rows, C, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs)
        v = None
        if start is not None:
            v = np.append(start.weights, [start.intercept] if self.fit_intercept else [])[:, None]
        found = fit_softmax(problem, start=v, tol=tol)
        at = Weights(found.beta[:, 0], float(found.intercept[0]), found.F[:, 0])
        without = None if leave_out is None else left_out(problem, found, leave_out)[:, 0]
        return LogisticFit(at, without, found.n_passes)

    def outputs(self, at: Weights, X: Any) -> np.ndarray:
        found: np.ndarray = engine.apply(self.features, X, at.weights[:, None], n_jobs=self.n_jobs)[:, 0]
        return found + at.intercept


@dataclass(frozen=True)
class KernelRidge:
    """In the space of a kernel between the rows: weights are the dual ones, in units of C."""

    cross: CrossKernel
    fit_intercept: bool = False
    n_jobs: int | None = -1

    @property
    def n_weights(self) -> int:
        return self.cross.n_features_out

    def fit(self, rows: Rows, C: float, start: Weights | None, tol: float, leave_out: np.ndarray | None) -> LogisticFit:
        found = fit_kernel_softmax(
            kernel_square(self.cross, rows.X, self.n_jobs),
            rows.T,
            C,
            weight=rows.weight,
            unit=rows.unit,
            fit_intercept=self.fit_intercept,
            tol=tol,
            leave_one_out=leave_out is not None,
            last=None if leave_out is None else len(rows) - int(leave_out.min()),
        )
        at = Weights(found.alpha[:, 0], float(found.intercept[0]), found.F[:, 0])
        without = (
            None if found.left_out is None or leave_out is None else found.left_out[leave_out - leave_out.min(), 0]
        )
        return LogisticFit(at, without, found.n_passes)

    def outputs(self, at: Weights, X: Any) -> np.ndarray:
        found: np.ndarray = engine.apply(self.cross, X, at.weights[:, None], n_jobs=self.n_jobs)[:, 0]
        return found + at.intercept


def fit_logistic(
    ridge: Ridge,
    rows: Rows,
    C: float,
    *,
    start: Weights | None = None,
    tolerance: float = 1e-10,
    leave_out: np.ndarray | None = None,
) -> LogisticFit:
    """The minimiser for rows with one ±1 target column, to a relative ``tolerance`` in the objective.

    Of the rows to ``leave_out``, which are given by number, also the outputs without each.
    """
    return ridge.fit(rows, C, start, tolerance, leave_out)
