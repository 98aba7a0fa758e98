"""Ordinal bits under the logistic loss: the family chooses its features by squares, then Newton's method fits them."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.codings import Ordered
from ulmus.devices.tensors import HostView
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, dense
from ulmus.features.sampling import distinct_sample
from ulmus.models.choice import Choice, Training
from ulmus.models.fitted import KernelFit, Outcome, digits_kept
from ulmus.solvers.logistic import FeatureRidge, KernelRidge, Ridge, Weights, fit_logistic
from ulmus.tuning.surface import climbed

#: Rows on which C is chosen, at most, and how exact those models are.
_TUNING_ROWS, _TUNING_TOLERANCE = 1_000, 1e-4


def with_log_odds(model: Any, squared: Outcome, training: Training) -> Outcome:
    """The same features with weights whose scores are the log-odds of every bit."""
    rows, targets = training.rows, training.targets
    if isinstance(rows.X, HostView):  # the steps of Newton's method are taken on the CPU
        rows = replace(rows, X=np.asarray(rows.X))
    C = _chosen_C(model, squared.weights, rows, training.rng, targets) if model.C == "auto" else squared.weights.C
    ridge, M = _ridge(model, squared.weights, rows), rows.T.shape[1]
    weights, intercept = np.zeros((ridge.n_weights, M)), np.zeros(M)
    for j in targets.present[1:] - 1:  # the others are not read
        at = fit_logistic(ridge, _bit(rows, j), C).at
        weights[:, j], intercept[j] = at.weights, at.intercept
    return replace(squared, weights=_refitted(model, squared.weights, ridge, weights, intercept, C))


def _ridge(model: Any, found: Any, rows: Rows) -> Ridge:
    """Ridge problems on the features that were found."""
    if isinstance(found, KernelFit):
        cross = CrossKernel(model.kernel, dense(rows.X, np.float64), found.cross.parameters)
        return KernelRidge(cross, model._intercept, model.n_jobs)
    return FeatureRidge(found.features, model._intercept, model.n_jobs)


def _refitted(model: Any, found: Any, ridge: Any, weights: np.ndarray, intercept: np.ndarray, C: float) -> Any:
    """What was found, with these weights."""
    if isinstance(found, KernelFit):
        cross = ridge.cross
        narrow = digits_kept(weights, float(np.abs(cross.diagonal(cross.Z)).max()), 1.0, np.float32)
        return replace(found, cross=cross, alpha=weights, intercept=intercept, C=C, narrow=narrow)
    plan = Choice(found.width, C, found.features, tuning=found.tuning)
    fresh = model._family.of_beta(plan, weights, intercept, 1.0, "newton", found.leverage)
    return replace(fresh, learned=found.learned)


def _chosen_C(model: Any, found: Any, rows: Rows, rng: np.random.RandomState, targets: Ordered) -> float:
    """The C of least leave-one-out loss on a sample, by a climb in factors of 4 from that of the squared loss."""
    sample = rows if len(rows) <= _TUNING_ROWS else distinct_sample(rows, _TUNING_ROWS, rng)[1]
    ridge, near = _ridge(model, found, sample), dict[int, Weights]()

    def loss_at(C: float) -> float:
        P = np.zeros_like(sample.T)
        for j in (targets.present[1:] - 1).tolist():
            fit = fit_logistic(
                ridge, _bit(sample, j), C, start=near.get(j), tolerance=_TUNING_TOLERANCE, leave_one_out=True
            )
            near[j], P[:, j] = fit.at, fit.left_out
        return float(np.average(_losses(targets, model.criterion, sample.T, P), weights=sample.weight))

    return climbed(loss_at, found.C)


def _losses(targets: Ordered, criterion: str, T: np.ndarray, P: np.ndarray) -> np.ndarray:
    """One loss per row: its log-likelihood under ``"auto"``, that of the expected bits ``tanh(o/2)`` otherwise."""
    if criterion == "auto":
        return targets.read(np.logaddexp(0.0, -T * P)) @ targets.gaps
    return targets.losses(T, np.tanh(P / 2), criterion)


def _bit(rows: Rows, j: int) -> Rows:
    return Rows(rows.X, rows.T[:, [j]], rows.weight, rows.unit)
