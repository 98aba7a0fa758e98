"""Intervals from the errors of rows under models that did not see them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from ulmus.calibration.conformal import Tails, borne, coverages, lower, upper
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.jackknife import Leaning, jackknife_ends
from ulmus.calibration.scale import Scale
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
    """New rows: predictions, ``h + C r``, and how large errors are there by ``sizes``, whose features see them as X."""

    P: np.ndarray
    variance: np.ndarray
    sizes: tuple[Scale | None, ...] = ()
    X: Any = None

    @property
    def widths(self) -> np.ndarray:
        """``s(x) √(1 + h + C r)``, ``[row, output]``: what scores are in units of."""
        out = np.broadcast_to(np.sqrt(1.0 + self.variance.reshape(len(self.P), -1)), self.P.shape)
        if not self.sizes:
            return out
        return out * np.column_stack([np.ones(len(out)) if size is None else size(self.X) for size in self.sizes])


@dataclass(frozen=True)
class Spread:
    """Noise level and studentised leave-one-out residuals ``e₋ᵢ / √(1 + h₋ᵢ + C rᵢ)``, sorted, per output.

    ``mass`` is the weight of the residuals up to each, and ``rows`` are the rows that were left out; a file of an
    earlier version has none.
    """

    noise: np.ndarray
    residuals: np.ndarray
    mass: np.ndarray
    rows: HeldOut | None = None

    @classmethod
    def of(cls, held_out: HeldOut) -> Self:
        studentised = held_out.studentised
        noise, weight = cls._noise(studentised, held_out), cls._counted(studentised, held_out)
        order = np.argsort(studentised, axis=0)
        residuals, sorted_weight = (np.take_along_axis(values, order, axis=0) for values in (studentised, weight))
        return cls(noise, residuals, np.cumsum(sorted_weight, axis=0), held_out)

    def sizes(self, features: Any, seen: Callable[[Any], Any]) -> tuple[Scale | None, ...]:
        """How large errors are row by row, per output (None: the same everywhere); fitted at the first call.

        ``features`` are the model's, and ``seen`` gives rows as these see them.
        """
        kept = vars(self)
        if "_sizes" not in kept:
            rows, found = self.rows, list[Scale | None]()
            if rows is not None and rows.X is not None:
                X, studentised = seen(rows.X), rows.studentised
                small = coarse(features, Scale.size_for(X, rows.fold))
                each = zip(studentised.T, self._counted(studentised, rows).T, strict=True)
                found = [Scale.of(small, X, np.abs(e), w, rows.fold) for e, w in each]
            kept["_sizes"] = tuple(found)
        sizes: tuple[Scale | None, ...] = kept["_sizes"]
        return sizes

    def __getstate__(self) -> dict[str, Any]:
        """What was found, without what is derived from it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

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

    def scores(self, sizes: tuple[Scale | None, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
        """Scores ``[row, output]`` of the rows left out, in units of these sizes, and weights with which they count.

        Rows are in the order of ``rows``, or, where there are none, that of ``residuals``.
        """
        if self.rows is None:
            return self.residuals, np.diff(self.mass, axis=0, prepend=0.0)
        scores = self.rows.studentised
        if sizes:
            each = [np.ones(len(scores)) if size is None else size.left_out for size in sizes]
            scores = scores / np.column_stack(each)
        return scores, self._counted(scores, self.rows)

    def ends(self, new: New, asked: Asked) -> np.ndarray:
        """Ends of the intervals of new rows, ``[row, output, coverage, end]``."""
        levels, tails = asked.levels, Tails(asked.tails)
        scores, weight = self.scores(new.sizes)
        self._warn_of_few(weight, levels, asked)
        width = new.widths
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
