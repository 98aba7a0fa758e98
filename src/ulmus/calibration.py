"""Probabilities and intervals from predictions of rows by models that did not see them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, ndtri, softmax

from ulmus.engine import Rows
from ulmus.solvers.log_loss import class_proportions
from ulmus.solvers.path import leave_out
from ulmus.solvers.robust import deviations


@dataclass(frozen=True)
class HeldOut:
    """Predictions of some rows by models that did not see them: targets, predictions, leverages and weights.

    The leverage h is that under the model that holds the row; ``h₋ = h/(1 − h)`` under the one that does not.
    """

    T: np.ndarray
    P: np.ndarray
    leverage: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, rows: Rows, residual: np.ndarray, remainder: np.ndarray) -> "HeldOut":
        """From training residuals of rows that the model holds, and ``1 − u h`` of each."""
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        return cls(rows.T, leave_out(rows.T, residual, remainder), 1.0 - remainder, weight)

    @classmethod
    def by_others(cls, rows: Rows, P: np.ndarray, h: np.ndarray) -> "HeldOut":
        """From predictions by models that do not hold the rows, and the leverages ``h₋`` under these."""
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        return cls(rows.T, P, h / (1.0 + h), weight)


def fit_temperature(class_scores: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> float:
    """Factor ``a`` that makes ``softmax(a · scores)`` most likely; the order of the classes does not change."""
    rows = np.arange(len(indices))

    def negative_log_likelihood(log_a: float) -> float:
        return -float(np.average(log_softmax(np.exp(log_a) * class_scores, axis=1)[rows, indices], weights=weight))

    return float(np.exp(minimize_scalar(negative_log_likelihood, bounds=(-6.0, 8.0), method="bounded").x))


def probabilities(class_scores: np.ndarray, temperature: float) -> np.ndarray:
    """``softmax(temperature · scores)``."""
    return softmax(temperature * class_scores, axis=1)


@dataclass(frozen=True)
class LogCalibration:
    r"""Probabilities :math:`(1 - s)\,p(aF) + s\,q` of a log model: its own, checked on rows that were left out.

    The temperature a and the share s of the class ``frequencies`` q are those of least log loss on these rows. As s = 1
    is q, the probabilities are never worse there than the frequencies; :attr:`useless` says when they are no better.
    """

    temperature: float
    share: float
    frequencies: np.ndarray
    loss: float
    frequency_loss: float

    @classmethod
    def of(cls, T: np.ndarray, F: np.ndarray, weight: np.ndarray | None, frequencies: np.ndarray) -> "LogCalibration":
        """From ±1 codes and left-out scores; ``frequencies`` (of every class) are those of the rows learned from."""
        w = np.ones(len(T)) if weight is None else weight
        true = (T[:, 0] > 0).astype(int) if T.shape[1] == 1 else T.argmax(axis=1)
        rows, q = np.arange(len(T)), np.asarray(frequencies, float)
        least = np.finfo(float).tiny

        def loss(a: float, s: float) -> float:
            right = (1.0 - s) * class_proportions(a * F)[rows, true] + s * q[true]
            return -float(np.average(np.log(np.maximum(right, least)), weights=w))

        a = 1.0
        for _ in range(3):  # in turns: either alone has one minimum
            s = _lowest(lambda x: loss(a, x), (0.0, 1.0), (0.0, 1.0))  # noqa: B023
            log_a = _lowest(lambda x: loss(float(np.exp(x)), s), (-4.0, 3.0), (0.0,))  # noqa: B023
            a = float(np.exp(log_a))
        s = _lowest(lambda x: loss(a, x), (0.0, 1.0), (0.0, 1.0))
        return cls(a, s, q, loss(a, s), loss(a, 1.0))

    @property
    def useless(self) -> bool:
        """Whether the scores tell no more than the frequencies."""
        return not self.loss < (1.0 - 1e-6) * self.frequency_loss

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """One column per class, also for two; rows sum to 1."""
        return (1.0 - self.share) * class_proportions(self.temperature * F) + self.share * self.frequencies


def _lowest(f: Callable[[float], float], bounds: tuple[float, float], also: tuple[float, ...]) -> float:
    """The minimiser within bounds, or one of these points where that is as low."""
    found = float(minimize_scalar(f, bounds=bounds, method="bounded").x)
    return min((*also, found), key=f)


def decide(P: np.ndarray, decision: Any = "accuracy", frequencies: np.ndarray | None = None) -> np.ndarray:
    """Positions of the classes that probabilities ``P[row, class]`` decide for.

    ``"accuracy"`` takes the likeliest class, ``"balanced"`` that which is most above its frequency (it maximises the
    mean recall of the classes), and a matrix ``cost[true, predicted]`` the class of least expected cost.
    """
    if isinstance(decision, str):
        if decision == "accuracy":
            return P.argmax(axis=1)
        if decision == "balanced":
            if frequencies is None:
                raise ValueError('decision="balanced" needs the class frequencies')
            return (P / np.maximum(frequencies, np.finfo(float).tiny)).argmax(axis=1)
        raise ValueError(f'decision must be "accuracy", "balanced" or a cost matrix, got {decision!r}')
    cost, k = np.asarray(decision, float), P.shape[1]
    if cost.shape != (k, k) or not np.isfinite(cost).all():
        raise ValueError(
            f"a cost matrix has one finite cost[true, predicted] for every two of the {k} classes, "
            f"got an array of shape {cost.shape}"
        )
    return (P @ cost).argmin(axis=1)


@dataclass(frozen=True)
class Spread:
    """Noise level and studentised leave-one-out residuals ``e₋ᵢ / √(1 + h₋ᵢ)``, sorted, per output.

    ``h₋ = h/(1 − h)`` is the leverage of a row under the model that does not hold it.
    """

    noise: np.ndarray
    residuals: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, held_out: HeldOut) -> "Spread":
        h = np.clip(held_out.leverage, 0.0, 1.0 - 1e-12)[:, None]
        studentised = (held_out.T - held_out.P) * np.sqrt(1.0 - h)
        order = np.argsort(studentised, axis=0)
        noise = np.sqrt(np.average(studentised**2, axis=0, weights=held_out.weight))
        mass = np.cumsum(held_out.weight[order], axis=0)
        return cls(noise, np.take_along_axis(studentised, order, axis=0), mass)

    @property
    def most(self) -> float:
        """The highest coverage of intervals that these residuals bear."""
        total = float(self.mass[-1].min())
        return (total - 1.0) / (total + 1.0)

    def quantile(self, level: float) -> np.ndarray:
        """Weighted quantile of the residuals, per output, with the finite-sample correction of the jackknife."""
        out = np.empty(self.residuals.shape[1])
        for j, (r, mass) in enumerate(zip(self.residuals.T, self.mass.T, strict=True)):
            total = mass[-1]
            target = level * (total + 1.0) if level > 0.5 else level * (total + 1.0) - 1.0
            out[j] = r[np.clip(np.searchsorted(mass, target - 1e-9), 0, len(r) - 1)]
        return out


@dataclass(frozen=True)
class RobustSpread:
    """Noise level by the median absolute deviation of studentised leave-one-out residuals, per output.

    Quantiles are those of Gaussian errors of this deviation: the empirical ones would be outliers.
    """

    noise: np.ndarray

    #: Gaussian quantiles reach as far as they are asked to.
    most: ClassVar[float] = 1.0

    @classmethod
    def of(cls, held_out: HeldOut) -> "RobustSpread":
        h = np.clip(held_out.leverage, 0.0, 1.0 - 1e-12).reshape(len(held_out.T), -1)
        return cls(deviations((held_out.T - held_out.P) * np.sqrt(1.0 - h), held_out.weight))

    def quantile(self, level: float) -> np.ndarray:
        """Quantile of the errors, per output."""
        return float(ndtri(level)) * self.noise
