"""Intervals from the errors of rows under models that did not see them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ulmus.calibration.held_out import HeldOut
from ulmus.solvers.robust import GROSS, deviations, weighted_median
from ulmus.statistics import root_mean_square


@dataclass(frozen=True)
class Spread:
    """Noise level and studentised leave-one-out residuals ``e₋ᵢ / √(1 + h₋ᵢ + C rᵢ)``, sorted, per output.

    ``mass`` is the weight of the residuals up to each.
    """

    noise: np.ndarray
    residuals: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, held_out: HeldOut) -> Self:
        studentised, weight = held_out.studentised, held_out.weight[:, None]
        noise = root_mean_square(studentised, held_out.weight)
        return cls._sorted(noise, studentised, np.broadcast_to(weight, studentised.shape))

    @classmethod
    def _sorted(cls, noise: np.ndarray, studentised: np.ndarray, weight: np.ndarray) -> Self:
        order = np.argsort(studentised, axis=0)
        residuals, weight = (np.take_along_axis(values, order, axis=0) for values in (studentised, weight))
        return cls(noise, residuals, np.cumsum(weight, axis=0))

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
            first, last = np.searchsorted(mass, [0.0, total * (1 - 1e-12)], side="right")
            out[j] = r[np.clip(np.searchsorted(mass, target - 1e-9), first, last)]
        return out


@dataclass(frozen=True)
class RobustSpread(Spread):
    """Noise level by the median absolute deviation of studentised leave-one-out residuals, per output.

    Quantiles are those of the residuals within six deviations: what lies beyond is an outlier, and intervals are for
    targets that are none.
    """

    @classmethod
    def of(cls, held_out: HeldOut) -> Self:
        studentised = held_out.studentised
        noise = deviations(studentised, held_out.weight, held_out.T)
        away = np.abs(studentised - np.array([weighted_median(e, held_out.weight) for e in studentised.T]))
        clean = away <= GROSS * noise
        clean |= ~clean.any(axis=0)
        return cls._sorted(noise, studentised, np.where(clean, held_out.weight[:, None], 0.0))
