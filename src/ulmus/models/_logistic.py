"""Ordinal models whose bits may be trained by the logistic loss."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import expit

from ulmus.calibration import HeldOut
from ulmus.devices.tensors import HostView
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, dense
from ulmus.features.sampling import distinct_sample
from ulmus.models._ordinal import Ordinal
from ulmus.models.choice import Training
from ulmus.models.fitted import KernelFit
from ulmus.models.kelm import keeps_digits_narrow
from ulmus.solvers.logistic import FeatureRidge, KernelRidge, Ridge, Weights, fit_logistic
from ulmus.tuning.search import SHARE

#: Rows on which C is chosen, at most, and how exact those models are.
_TUNING_ROWS, _TUNING_TOLERANCE = 1_000, 1e-4
#: Factors of 4 between the C of the squared loss and that of the logistic one, at most.
_MAX_CLIMB = 6


class BitLoss(Ordinal):
    """The option ``loss``: the family chooses its features by squares, then Newton's method fits the bits."""

    C_: Any

    def _train(self, training: Training) -> HeldOut:
        if self.loss == "logistic" and self.C is None:
            raise ValueError('loss="logistic" needs a penalty: C must be positive or "auto", got None')
        held_out = super()._train(training)
        rows, rng = training.rows, training.rng
        if self.loss == "logistic":
            if isinstance(rows.X, HostView):  # the steps of Newton's method are taken on the CPU
                rows = replace(rows, X=np.asarray(rows.X))
            C = self._choose_logistic_C(rows, rng) if self.C == "auto" else self.C_
            ridge, M = self._ridge(rows), rows.T.shape[1]
            weights, intercept = np.zeros((ridge.n_weights, M)), np.zeros(M)
            for j in self.present_[1:] - 1:  # the others are not read
                at = fit_logistic(ridge, _bit(rows, j), C).at
                weights[:, j], intercept[j] = at.weights, at.intercept
            self._keep(ridge, weights, intercept, C)
            where = np.searchsorted(self.present_, self._code.positions(rows.T))
            self.class_count_ = np.bincount(where, rows.weight).astype(float)
        return held_out

    def _calibrate(self, held_out: HeldOut) -> None:
        if self.loss == "logistic":
            self.temperature_ = 1.0
            self.left_out_ = None
        else:
            super()._calibrate(held_out)

    def _probabilities(self, bits: np.ndarray) -> np.ndarray:
        """Differences of ``P(y ≥ k) = σ(o_k)``; a share 1/(n + 1) is the frequency of the class in training.

        Bits that were pooled leave nothing to the class between them, and a class that was seen can come again.
        """
        if self.loss == "squared":
            return super()._probabilities(bits)
        reached = np.pad(expit(self._code.repaired(bits)), ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))
        total = self.class_count_.sum()
        return (total * -np.diff(reached, axis=1) + self.class_count_ / total) / (total + 1.0)

    def _choose_logistic_C(self, rows: Rows, rng: np.random.RandomState) -> float:
        """The C of least leave-one-out loss on a sample, by a climb in factors of 4 from that of the squared loss."""
        sample = rows if len(rows) <= _TUNING_ROWS else distinct_sample(rows, _TUNING_ROWS, rng)[1]
        ridge, near = self._ridge(sample), dict[int, Weights]()

        def loss_at(C: float) -> float:
            P = np.zeros_like(sample.T)
            for j in (self.present_[1:] - 1).tolist():
                fit = fit_logistic(
                    ridge, _bit(sample, j), C, start=near.get(j), tolerance=_TUNING_TOLERANCE, leave_one_out=True
                )
                near[j], P[:, j] = fit.at, fit.left_out
            return float(np.average(self._logistic_losses(sample.T, P), weights=sample.weight))

        return _lowest(loss_at, self.C_)

    def _logistic_losses(self, T: np.ndarray, P: np.ndarray) -> np.ndarray:
        """One loss per row: its log-likelihood under ``"auto"``, that of the expected bits ``tanh(o/2)`` otherwise."""
        if self.criterion == "auto":
            return self._code.read(np.logaddexp(0.0, -T * P)) @ self._code.gaps
        return self._code.losses(T, np.tanh(P / 2), self.criterion)

    @abstractmethod
    def _ridge(self, rows: Rows) -> Ridge:
        """Ridge problems on these rows."""

    @abstractmethod
    def _keep(self, ridge: Any, weights: np.ndarray, intercept: np.ndarray, C: float) -> None:
        """Make these the model's weights."""


class FeatureBits(BitLoss):
    """On a feature map."""

    beta_: np.ndarray
    route_: str

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        self._refuse_logistic("partial_fit")
        return super().partial_fit(X, y, classes, sample_weight)

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self._refuse_logistic("unlearn")
        return super().unlearn(X, y, sample_weight)

    def merge(self, models: Any) -> Self:
        self._refuse_logistic("merge")
        return super().merge(models)

    def _finish(self, *arguments: Any, **options: Any) -> None:
        self._refuse_logistic("a fit from sums")
        super()._finish(*arguments, **options)

    def _refuse_logistic(self, what: str) -> None:
        if self.loss == "logistic":
            raise ValueError(
                f'{what} needs loss="squared", got loss="logistic": its weights change with every step, so sums over '
                "rows do not suffice; fit rows in memory"
            )

    def _ridge(self, rows: Rows) -> Ridge:
        return FeatureRidge(self.map_, self._intercept, self.n_jobs)

    def _keep(self, ridge: FeatureRidge, weights: np.ndarray, intercept: np.ndarray, C: float) -> None:
        self.beta_, self.intercept_, self.C_, self.route_ = weights, intercept, C, "newton"
        self._fold(1.0)


class KernelBits(BitLoss):
    """On the exact kernel."""

    fitted_: KernelFit

    def _ridge(self, rows: Rows) -> Ridge:
        cross = CrossKernel(self.kernel, dense(rows.X, np.float64), self.fitted_.cross.parameters)
        return KernelRidge(cross, self._intercept, self.n_jobs)

    def _keep(self, ridge: KernelRidge, weights: np.ndarray, intercept: np.ndarray, C: float) -> None:
        narrow = keeps_digits_narrow(ridge.cross, weights, 1.0)
        self.fitted_ = replace(self.fitted_, cross=ridge.cross, alpha=weights, intercept=intercept, C=C, narrow=narrow)


def _bit(rows: Rows, j: int) -> Rows:
    return Rows(rows.X, rows.T[:, [j]], rows.weight, rows.unit)


def _lowest(loss_at: Callable[[float], float], start: float) -> float:
    """The best of ``start · 4^k`` by a climb that ends where a step gains less than 1 %, or after six steps."""
    losses: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in losses:
            losses[k] = loss_at(start * 4.0**k)
        return losses[k]

    here = 0
    while abs(here) < _MAX_CLIMB:
        best = min((here - 1, here + 1), key=at)
        if at(best) > (1 - SHARE) * at(here):
            break
        here = best
    return start * 4.0**here
