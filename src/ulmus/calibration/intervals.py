"""Intervals from the errors of rows under models that did not see them."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ulmus.calibration.conformal import Tails, borne, coverages, lower, upper
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.jackknife import Leaning, jackknife_ends
from ulmus.calibration.scale import Scale
from ulmus.engine import Lift
from ulmus.features.coarse import coarse
from ulmus.solvers.robust import GROSS, deviations
from ulmus.statistics import root_mean_square

METHODS = ("normalised", "jackknife+", "plain")


@dataclass(frozen=True)
class Asked:
    """What kind of interval is asked for."""

    coverage: Any = 0.9
    method: str = "normalised"
    tails: Any = "equal"

    def __post_init__(self) -> None:
        coverages(self.coverage)
        Tails(self.tails)
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")

    @property
    def levels(self) -> np.ndarray:
        """``[coverage, end]``."""
        return Tails(self.tails).levels(coverages(self.coverage)[0])


@dataclass(frozen=True)
class New:
    """New rows: as the features of the errors' size see them, predictions, and ``h + C r``."""

    X: Any
    P: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Spread:
    """Noise level and studentised leave-one-out residuals ``e₋ᵢ / √(1 + h₋ᵢ + C rᵢ)``, sorted, per output.

    ``mass`` is the weight of the residuals up to each. ``scales`` say how large errors are row by row, per output (None
    where that is a constant), and ``rows`` are the rows that were left out; a file of an earlier version has neither.
    """

    noise: np.ndarray
    residuals: np.ndarray
    mass: np.ndarray
    scales: tuple[Scale | None, ...] = ()
    rows: HeldOut | None = None

    @classmethod
    def of(cls, held_out: HeldOut, features: Any = None, X: Any = None) -> Self:
        """From rows left out; ``features`` are the model's, and ``X`` the rows as these see them."""
        studentised = held_out.studentised
        noise, weight = cls._noise(studentised, held_out), cls._counted(studentised, held_out)
        order = np.argsort(studentised, axis=0)
        residuals, sorted_weight = (np.take_along_axis(values, order, axis=0) for values in (studentised, weight))
        plain = cls(noise, residuals, np.cumsum(sorted_weight, axis=0), rows=held_out)
        if X is None:
            return plain
        small: Lift | None = None if features is None else coarse(features, Scale.size_for(X, held_out.fold))
        each = zip(studentised.T, weight.T, strict=True)
        return replace(plain, scales=tuple(Scale.of(small, X, np.abs(e), w, held_out.fold) for e, w in each))

    @classmethod
    def _noise(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        return root_mean_square(studentised, held_out.weight)

    @classmethod
    def _counted(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        """The weight with which every residual counts, ``[row, output]``."""
        return np.broadcast_to(held_out.weight[:, None], studentised.shape)

    @property
    def most(self) -> float:
        """The highest coverage of intervals that these residuals bear."""
        total = float(self.mass[-1].min())
        return (total - 1.0) / (total + 1.0)

    def quantile(self, level: float) -> np.ndarray:
        """Weighted quantile of the residuals, per output, with the finite-sample correction of the jackknife."""
        weight = np.diff(self.mass, axis=0, prepend=0.0)
        end, at = upper if level > 0.5 else lower, np.array([level])
        return np.array([end(r, w, at)[0, 0] for r, w in zip(self.residuals.T, weight.T, strict=True)])

    def scores(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores ``[row, output]`` of the rows left out, in units of their size, and the weights with which they count.

        Rows are in the order of ``rows``, or, where there are none, that of ``residuals``.
        """
        if self.rows is None:
            return self.residuals, np.diff(self.mass, axis=0, prepend=0.0)
        scores = self.rows.studentised
        if method == "normalised":
            sizes = [np.ones(len(scores)) if scale is None else scale.left_out for scale in self.scales]
            scores = scores / np.column_stack(sizes) if sizes else scores
        return scores, self._counted(scores, self.rows)

    def widths(self, new: New, method: str) -> np.ndarray:
        """``s(x) √(1 + h + C r)`` of new rows, ``[row, output]``: what scores are in units of."""
        out = np.broadcast_to(np.sqrt(1.0 + new.variance.reshape(len(new.P), -1)), new.P.shape)
        if method != "normalised" or not self.scales:
            return out
        return out * np.column_stack([np.ones(len(out)) if s is None else s(new.X) for s in self.scales])

    def ends(self, new: New, asked: Asked) -> np.ndarray:
        """Ends of the intervals of new rows, ``[row, output, coverage, end]``."""
        levels, tails = asked.levels, Tails(asked.tails)
        scores, weight = self.scores(asked.method)
        self._warn_of_few(weight, levels, asked)
        width = self.widths(new, asked.method)
        out = np.empty((*new.P.shape, *levels.shape))
        for j, (r, w) in enumerate(zip(scores.T, weight.T, strict=True)):
            below, above = (-np.abs(r), np.abs(r)) if tails.symmetric else (r, r)
            q = np.stack([lower(below, w, levels[:, 0]), upper(above, w, levels[:, 1])], axis=-1)
            out[:, j] = new.P[:, j, None, None] + width[:, j, None, None] * q
        return out

    def jackknife(self, leaning: Leaning, X: Any, P: np.ndarray, asked: Asked) -> np.ndarray:
        """The same by jackknife+, from what new rows lean on every row that was left out."""
        assert self.rows is not None
        self._warn_of_few(self._counted(self.rows.studentised, self.rows), asked.levels, asked)
        return jackknife_ends(leaning, self.rows, X, P, asked.levels, Tails(asked.tails))

    def _warn_of_few(self, weight: np.ndarray, levels: np.ndarray, asked: Asked) -> None:
        total = float(weight.sum(axis=0).min())
        if not borne(total, levels):
            warnings.warn(
                f"so few rows support a coverage of at most {max((total - 1.0) / (total + 1.0), 0.0):.2f}; intervals "
                f"for coverage={asked.coverage} end at the largest errors seen, and are too narrow",
                stacklevel=5,
            )


@dataclass(frozen=True)
class RobustSpread(Spread):
    """Noise level by the median absolute deviation of studentised leave-one-out residuals, per output.

    Quantiles are those of the residuals within six deviations: what lies beyond is an outlier, and intervals are for
    targets that are none.
    """

    @classmethod
    def _noise(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        return deviations(studentised, held_out.weight, held_out.T)

    @classmethod
    def _counted(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        clean = np.abs(studentised) <= GROSS * cls._noise(studentised, held_out)
        return np.where(clean, held_out.weight[:, None], 0.0)
