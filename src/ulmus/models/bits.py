"""Ordinal bits under the logistic loss: the family chooses its features by squares, then Newton's method fits them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut, calibration_sample, parts_of_few
from ulmus.codings import Ordered
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, dense
from ulmus.features.sampling import distinct_sample
from ulmus.models.by_log import NEAR_C, in_memory, with_variances
from ulmus.models.choice import Choice, Training
from ulmus.models.few_rows import FEW_ROWS, PARTS
from ulmus.models.fitted import KernelFit, Outcome
from ulmus.solvers.logistic import FeatureRidge, KernelRidge, Ridge, Weights, fit_logistic
from ulmus.tuning.surface import climbed

#: Rows on which C is chosen, at most, and how exact those models are.
_TUNING_ROWS, _TUNING_TOLERANCE = 1_000, 1e-4


def with_log_odds(model: Any, squared: Outcome, training: Training) -> Outcome:
    """The same features with weights whose scores are the log-odds of every bit, and those of rows left out."""
    found, rows, folds = squared.weights, in_memory(training.rows), training.folds
    bits = Bits(model, found, rows, folds, training.targets)
    if isinstance(found, KernelFit) and found.order is not None:  # rows that are left out come last
        bits = replace(bits, rows=rows.take(found.order), folds=None if folds is None else folds[found.order])
    C = bits.chosen_C(training.rng) if model.C == "auto" else found.C
    weights, intercept = bits.fitted(C)
    held_out = replace(bits.left_out(C, len(squared.held_out.T), training.rng), freedom=squared.held_out.freedom)
    if isinstance(found, KernelFit):
        narrow = engine.single_suffices(weights, found.cross.largest, 1.0)
        return Outcome(replace(found, alpha=weights, intercept=intercept, C=C, narrow=narrow), held_out)
    plan = Choice(found.width, C, found.features, tuning=found.tuning)
    leverage, held_out = with_variances(model, plan, held_out, rows.total_weight)
    fresh = model._family.of_beta(plan, weights, intercept, 1.0, "newton", leverage)
    return Outcome(replace(fresh, learned=found.learned), held_out)


@dataclass(frozen=True)
class Bits:
    """The bits of ordered classes at some rows, on features that a fit by squares has found."""

    model: Any
    found: Any
    rows: Rows
    folds: np.ndarray | None
    targets: Ordered

    @property
    def read(self) -> list[int]:
        """Those that are read: of classes that were seen."""
        return (self.targets.present[1:] - 1).tolist()

    def ridge(self, rows: Rows) -> Ridge:
        """Ridge problems of rows on the features."""
        if isinstance(self.found, KernelFit):
            cross = CrossKernel(self.model.kernel, dense(rows.X, np.float64), self.found.cross.parameters)
            return KernelRidge(cross, self.model._intercept, self.model.n_jobs)
        return FeatureRidge(self.found.features, self.model._intercept, self.model.n_jobs)

    def fitted(self, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercepts of every bit; 0 for those that are not read."""
        ridge, M = self.ridge(self.rows), self.rows.T.shape[1]
        weights, intercept = np.zeros((ridge.n_weights, M)), np.zeros(M)
        for j in self.read:
            at = fit_logistic(ridge, _bit(self.rows, j), C).at
            weights[:, j], intercept[j] = at.weights, at.intercept
        return weights, intercept

    def chosen_C(self, rng: np.random.RandomState) -> float:
        """The C of least loss of rows left out, of a sample, by a climb in factors of 4.

        It begins at that of the squares, or below: one step is far from a refit where C is large, and looks better.
        """
        some, near = self, dict[Any, Weights]()
        if len(self.rows) > _TUNING_ROWS:
            index, sample = distinct_sample(self.rows, _TUNING_ROWS, rng)
            some = replace(self, rows=sample, folds=None if self.folds is None else self.folds[index])
        tested = np.arange(len(some.rows)) if some.folds is None else np.flatnonzero(some.folds >= 0)
        T, weight = some.rows.T[tested], None if some.rows.weight is None else some.rows.weight[tested]

        def loss_at(C: float) -> float:
            P = some.without(C, tested, near, _TUNING_TOLERANCE)
            return float(np.average(_losses(self.targets, self.model.criterion, T, P), weights=weight))

        return climbed(loss_at, min(self.found.C, NEAR_C))

    def left_out(self, C: float, n_last: int, rng: np.random.RandomState) -> HeldOut:
        """Bits of rows, or of a sample of them, by models without them; of a kernel, of the ``n_last`` ones."""
        index, sample = np.arange(len(self.rows)), self.rows
        if isinstance(self.found, KernelFit):
            index = index[-n_last:]
            sample = sample.take(index)
        elif self.folds is not None:
            index = np.flatnonzero(self.folds >= 0)
            sample = sample.take(index)
        if not isinstance(self.found, KernelFit):
            some, sample = calibration_sample(sample, rng)
            index = index[some]
        few = parts_of_few(self.rows, FEW_ROWS, PARTS, by_label=True) if self.folds is None else None
        bits = self if few is None else replace(self, folds=few)  # a C that is given may be large
        return HeldOut.by_others(sample, bits.without(C, index, {}, 1e-10), np.zeros(len(index)))

    def without(self, C: float, index: np.ndarray, near: dict[Any, Weights], tol: float) -> np.ndarray:
        """Bits of rows by models without each, to second order; or without its fold. ``near`` keeps where to begin."""
        rows, P = self.rows, np.zeros((len(index), self.rows.T.shape[1]))
        if self.folds is None:
            ridge = self.ridge(rows)
            for j in self.read:
                fit = fit_logistic(ridge, _bit(rows, j), C, start=near.get(j), tolerance=tol, leave_out=index)
                near[j], P[:, j] = fit.at, fit.left_out
            return P
        number = self.folds[index]
        for k in np.unique(number):
            others = rows.take(np.flatnonzero(self.folds != k))
            ridge, own = self.ridge(others), number == k
            for j in self.read:
                at = fit_logistic(ridge, _bit(others, j), C, start=near.get((k, j)), tolerance=tol).at
                near[k, j], P[own, j] = at, ridge.outputs(at, rows.X[index[own]])
        return P


def _losses(targets: Ordered, criterion: str, T: np.ndarray, P: np.ndarray) -> np.ndarray:
    """One loss per row: its log-likelihood under ``"auto"``, that of the expected bits ``tanh(o/2)`` otherwise."""
    if criterion == "auto":
        return targets.read(np.logaddexp(0.0, -T * P)) @ targets.gaps
    return targets.losses(T, np.tanh(P / 2), criterion)


def _bit(rows: Rows, j: int) -> Rows:
    return Rows(rows.X, rows.T[:, [j]], rows.weight, rows.unit)
