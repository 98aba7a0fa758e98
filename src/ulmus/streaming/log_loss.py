"""Classifiers by the log loss, pass by pass: what a pass does with a batch, and the fit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ulmus.models.steps import LogSteps
from ulmus.solvers.log_passes import log_sums
from ulmus.streaming.batches import Batch
from ulmus.streaming.sums import ArrayAccumulator

#: Weights ``[β; b]`` → the log loss of all rows, and its gradient.
Sweep = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class LogSums:
    """The work of a pass: the sums of a batch; ``encoder`` gives its rows."""

    encoder: Any
    features: Any
    weights: np.ndarray
    intercept: np.ndarray

    def __call__(self, batch: Batch) -> np.ndarray:
        return log_sums(self.features, self.encoder.rows(batch), self.weights, self.intercept)


def log_sweep(
    stream: Any,
    encoder: Any,
    features: Any,
    whitening: np.ndarray | None,
    n_outputs: int,
    *,
    constant: bool = True,
    first: int = 0,
) -> Sweep:
    """The log loss of all rows at given weights, and its gradient, each time by one pass.

    ``constant`` tells that there is a b; passes are numbered after the ``first`` ones.
    """
    L, count = features.n_features_out, first

    def sweep(v: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal count
        beta, b = v[:L], v[L] if constant else np.zeros(n_outputs)
        if whitening is not None:
            beta = solve_triangular(whitening, beta, lower=True, trans=1, check_finite=False)
        count += 1
        accumulator = ArrayAccumulator(np.zeros((L + 2, n_outputs)))
        total = stream.reduce(f"newton-{count}", accumulator, LogSums(encoder, features, beta, b)).total
        g = total[1:].copy() if constant else total[1:-1].copy()
        if whitening is not None:
            g[:L] = solve_triangular(whitening, g[:L], lower=True, check_finite=False)
        return float(total[0, 0]), g

    return sweep


def fit_log(steps: LogSteps, stream: Any, encoder: Any, total: float, whole: bool) -> None:
    """Fit a model whose map is fixed: to a sample that holds the whole source, or to all rows by passes."""
    if whole:
        steps.fit_whole()
        return
    n_outputs = steps.training.rows.T.shape[1]
    sweep = log_sweep(stream, encoder, *steps.summed_form(), n_outputs, constant=steps.fit_intercept)
    steps.finish_at(steps.minimise(sweep, total))
