"""Rows that are unlike those of the training: predictions there have a larger variance than those of rows left out."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration.conformal import upper
from ulmus.calibration.held_out import leave_one_out
from ulmus.engine import Rows
from ulmus.solvers.ridge import Leverage, Problem

#: The curvature of a log loss at a row of which nothing is known, p(1 − p) at p = 1/2.
CURVATURE = 0.25


def far(variance: np.ndarray, held: np.ndarray, weight: np.ndarray, rate: float) -> np.ndarray:
    """Whether the variance ``h + C r`` of new rows exceeds those of rows left out.

    It does so for a share ``rate`` of rows that come from where these came from, at most (but for round-off).
    """
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie between 0 and 1, got {rate!r}")
    limit = upper(_one(held), weight, np.array([1.0 - rate]))[0, 0]
    return _one(variance) > limit * (1.0 + 1e-9) + 1e-12


def log_variance(
    features: Any, rows: Rows, C: float, *, fit_intercept: bool, total: float, n_jobs: int | None
) -> tuple[Leverage, np.ndarray]:
    """What tells leverages under a log loss, from a sample of rows, and the variances ``h₋ + C r`` of these left out.

    It is that of squares with the curvature for weight, brought to the ``total`` weight of all rows; no label counts.
    """
    weight = rows.weights
    w = CURVATURE * weight * (total / weight.sum())
    rows = replace(rows, T=rows.T[:, :1], weight=w, unit=w, fold=None)
    solution = Problem(features, rows, C, fit_intercept, n_jobs).solve()
    return solution.leverage, leave_one_out(features, rows, solution, C, n_jobs=n_jobs).variance


def _one(variance: np.ndarray) -> np.ndarray:
    """Of several outputs the mean."""
    return variance if variance.ndim == 1 else variance.mean(axis=1)
