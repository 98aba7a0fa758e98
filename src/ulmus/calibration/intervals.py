"""Intervals from the errors of rows under models that did not see them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ulmus import engine
from ulmus.calibration.atoms import TIED, Atoms, atoms_of, high_end, low_end
from ulmus.calibration.conformal import Tails, coverages, lower, upper
from ulmus.calibration.curves import Curves, Knots
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.jackknife import Leaning, jackknife_ends
from ulmus.calibration.likeness import Likeness, group_labels
from ulmus.calibration.nearness import Nearness, near_parts
from ulmus.calibration.scale import Scale
from ulmus.calibration.shift import checked_ratio, density_ratio
from ulmus.features.coarse import coarse
from ulmus.solvers.robust import GROSS, deviations, weighted_median
from ulmus.statistics import root_mean_square

METHODS = ("normalised", "jackknife+", "cv+", "plain")
#: Shares of the variances that may be believed, and by how much less likely than the best one is that is refuted: by
#: four deviations.
SHARES, EVIDENCE = 16.0 ** -np.arange(11.0), 4.0**2 / 2


@dataclass(frozen=True)
class IntervalRequest:
    """What kind of interval is asked for."""

    coverage: Any = 0.9
    method: str = "normalised"
    tails: Any = "equal"
    groups: Any = None
    shift: Any = None

    def __post_init__(self) -> None:
        coverages(self.coverage)
        Tails(self.tails)
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        if self.shift is not None and self.shift != "estimate" and not callable(self.shift):
            raise ValueError(
                'shift must be None, "estimate" or a function of rows that returns how much more frequent each is '
                f"among new rows than among training rows, got {self.shift!r}"
            )

    @property
    def levels(self) -> np.ndarray:
        """``[coverage, end]``."""
        return Tails(self.tails).levels(coverages(self.coverage)[0])


@dataclass(frozen=True)
class New:
    """New rows: predictions, ``h + C r``, and how large errors are there by ``sizes``, whose features see them as X.

    Under a quantile loss scores are places on the lines through ``knots`` instead.
    """

    P: np.ndarray
    variance: np.ndarray
    sizes: tuple[Scale | None, ...] = ()
    X: Any = None
    knots: Knots | None = None

    @cached_property
    def widths(self) -> np.ndarray:
        """``s(x) √(1 + h + C r)``, ``[row, output]``: what scores are in units of."""
        out = np.broadcast_to(np.sqrt(1.0 + self.variance.reshape(len(self.P), -1)), self.P.shape)
        if not self.sizes:
            return out
        return out * np.column_stack([np.ones(len(out)) if size is None else size(self.X) for size in self.sizes])

    def points(self, rows: Any, j: int, r: np.ndarray) -> np.ndarray:
        """Targets of output j of some rows, at scores ``r[row, place]``."""
        if self.knots is not None:
            return self.knots.targets(j, r, rows)
        return np.asarray(self.P[rows, j, None] + self.widths[rows, j, None] * r)


@dataclass(frozen=True)
class Spread:
    """Noise level and studentised leave-one-out residuals ``e₋ᵢ / √(1 + h₋ᵢ + C rᵢ)``, sorted, per output.

    ``mass`` is the weight of the residuals up to each, and ``rows`` are the rows that were left out; a file of an
    earlier version has none. ``local`` tells that rows of a similar predicted size count for more, which they did not
    in earlier versions.
    """

    noise: np.ndarray
    residuals: np.ndarray
    mass: np.ndarray
    rows: HeldOut | None = None
    local: bool = False

    @classmethod
    def of(cls, held_out: HeldOut) -> Self:
        studentised = held_out.studentised
        noise, weight = cls._noise(studentised, held_out), cls._counted(studentised, held_out)
        held_out = replace(held_out, share=share_borne_out(held_out, weight))
        studentised = held_out.studentised
        order = np.argsort(studentised, axis=0)
        residuals, sorted_weight = (np.take_along_axis(values, order, axis=0) for values in (studentised, weight))
        return cls(noise, residuals, np.cumsum(sorted_weight, axis=0), held_out, local=True)

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
        return kept["_sizes"]

    @property
    def curves(self) -> Curves | None:
        """Fitted quantiles, under a quantile loss."""
        return None if self.rows is None else self.rows.curves

    def new(self, P: np.ndarray, variance: np.ndarray, X: Any, method: str, features: Any, seen: Any) -> New:
        """New rows ``X``, with their predictions and variances, by the features of the model, which see them so."""
        if self.rows is not None:
            variance = self.rows.share * variance.reshape(len(P), -1)
        if method != "normalised":
            return New(P, variance)
        X = seen(X)
        if self.rows is None or self.rows.curves is None:
            return New(P, variance, self.sizes(features, seen), X)
        curves = self.rows.curves
        return New(P, variance, (), X, curves.knots(curves(X, P, features), self.rows.weight))

    def like(self, asked: IntervalRequest, X: Any, show: Any, features: Any, seen: Callable[[Any], Any]) -> Likeness:
        """Which of the rows left out speak for new rows X; ``show`` tells what they are in the user's frame, if any."""
        if asked.groups is None and asked.shift is None:
            return Likeness()
        if self.rows is None or self.rows.X is None:
            raise ValueError(
                "groups and shift need the rows that were left out, which files from earlier versions lack; fit again"
            )
        old, weight = self.rows.X, self.rows.weight
        labels: tuple[Any, ...] = (None, None)
        ratios: tuple[Any, ...] = (None, None)
        shown = [None if show is None else show(each) for each in (old, X)]
        both = list(zip((old, X), shown, strict=True))
        if asked.groups is not None:
            labels = tuple(group_labels(asked.groups, *each) for each in both)
        if callable(asked.shift):
            ratios = tuple(checked_ratio(asked.shift(M if s is None else s.native), M.shape[0]) for M, s in both)
        elif asked.shift is not None:
            small = coarse(features, Scale.size_for(seen(old), None))
            if small is None:
                raise ValueError('shift="estimate" needs features of rows, and this kernel gives none; pass a function')
            Psi_old, Psi_new = (engine.transform_rows(small, seen(each)) for each in (old, X))
            ratios = density_ratio(Psi_old, weight, Psi_new)
        return Likeness(*labels, *ratios)

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

    def scores(
        self, sizes: tuple[Scale | None, ...] = (), *, bent: bool = False, away: Any = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores ``[row, output]`` of the rows left out, in units of these sizes, and weights with which they count.

        Rows are in the order of ``rows``, or, where there are none, that of ``residuals``. With ``bent`` they are
        places on the lines through fitted quantiles. Targets may be so far ``away`` from those of the rows.
        """
        if bent and self.rows is not None and self.curves is not None:
            lines, T = self.curves.knots(self.curves.left_out, self.rows.weight), self.rows.T + away
            scores = np.column_stack([lines.scores(j, t) for j, t in enumerate(T.T)])
            return scores, self._counted(scores, self.rows)
        if self.rows is None:
            return self.residuals, np.diff(self.mass, axis=0, prepend=0.0)
        counted = self._counted(self.rows.studentised, self.rows)
        scores = self.rows.studentised + away / self.rows.deviations
        if sizes:
            scores = scores / _left_out(sizes, len(scores))
        return scores, counted

    def atoms(self, new: New) -> Atoms | None:
        """Targets that many of the rows left out have; None of none, and of files of earlier versions without rows."""
        if self.rows is None:
            return None
        bent, n = new.knots is not None, len(self.rows.T)
        each = [np.zeros(n) if size is None else np.broadcast_to(size.shifts, n) for size in new.sizes]
        shifts = np.column_stack(each) if each else 0.0
        weight = self.scores(new.sizes, bent=bent)[1]
        return Atoms.of(self.rows, weight, shifts, lambda away: self.scores(new.sizes, bent=bent, away=away)[0])

    def near(self, new: New) -> Nearness | None:
        """Which rows left out have errors of a similar size, by ``widths``; None where these are not learned.

        Nor where rows left in folds: sizes without a fold tell how large the errors of that fold are.
        """
        known = self.local and self.rows is not None and self.rows.fold is None
        if not known or not new.sizes or new.knots is not None:
            return None
        assert self.rows is not None
        held = self.rows.deviations * _left_out(new.sizes, len(self.rows.T))
        return Nearness(held, new.widths, tuple(size is not None for size in new.sizes))

    def ends(self, new: New, asked: IntervalRequest, like: Likeness | None = None) -> np.ndarray:
        """Ends of the intervals of new rows, ``[row, output, coverage, end]``, from rows that are ``like`` each."""
        levels, tails = asked.levels, Tails(asked.tails)
        scores, weight = self.scores(new.sizes, bent=new.knots is not None)
        out, near, every = np.empty((*new.P.shape, *levels.shape)), self.near(new), np.arange(len(new.P))
        atoms = self.atoms(new)
        for rows, factor, own in (like or Likeness()).parts(weight, asked.levels):
            for j, (r, w) in enumerate(zip(scores.T, weight.T, strict=True)):
                below, above = (-np.abs(r), np.abs(r)) if tails.symmetric else (r, r)
                for some, counted in near_parts(near, j, w, factor, rows):
                    at, its = every[rows][some], own if np.ndim(own) == 0 else own[some]
                    low, high = _both_ends(new, at, j, below, above, counted, levels, its)
                    if atoms is not None:
                        fall, rise = atoms.moves(j, symmetric=tails.symmetric)
                        reach = _both_ends(new, at, j, below - fall, above + rise, counted, levels, its)
                        low = low_end(atoms.values[j], low, reach[0])
                        high = high_end(atoms.values[j], high, reach[1])
                    out[at, j] = np.stack([low, high], axis=-1)
        if tails.symmetric and new.knots is None and atoms is not None:
            out = _as_far(out, new.P[:, :, None])
        return out if self.curves is None else self.curves.around(out, new.P[:, :, None], levels, tails.symmetric)

    def jackknife(
        self, leaning: Leaning, X: Any, P: np.ndarray, asked: IntervalRequest, like: Likeness | None = None
    ) -> np.ndarray:
        """The same by jackknife+, from what new rows lean on every row that was left out."""
        assert self.rows is not None
        held, out, tails = (
            self.rows.by_itself or self.rows,
            np.empty((*P.shape, *asked.levels.shape)),
            Tails(asked.tails),
        )
        for rows, factor, own in (like or Likeness()).parts(held.weight[:, None], asked.levels):
            counted = replace(held, weight=factor * held.weight)
            out[rows] = jackknife_ends(leaning, counted, X[rows], P[rows], asked.levels, tails, own)
        tied = TIED * np.abs(held.T).max(axis=0, initial=0.0)
        for j, values in enumerate(atoms_of(held.T, np.broadcast_to(held.weight[:, None], held.T.shape))):
            low, high = out[:, j, :, 0], out[:, j, :, 1]
            out[:, j, :, 0] = low_end(values, low, low - tied[j])
            out[:, j, :, 1] = high_end(values, high, high + tied[j])
        return out


@dataclass(frozen=True)
class RobustSpread(Spread):
    """Noise level by the median absolute deviation of studentised leave-one-out residuals, per output.

    Quantiles are those of the residuals within six deviations: what lies beyond, left out as well as fitted, is an
    outlier, and intervals are for targets that are none.
    """

    @classmethod
    def _noise(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        return deviations(studentised, held_out.weight, held_out.T)

    @classmethod
    def _counted(cls, studentised: np.ndarray, held_out: HeldOut) -> np.ndarray:
        clean = _near(studentised, held_out.weight, cls._noise(studentised, held_out))
        if held_out.residual is not None:  # fitted well: the error of the row left out is the model's, not the target's
            clean |= _near(held_out.residual, held_out.weight, cls._noise(held_out.studentised, held_out))
        clean |= ~clean.any(axis=0)
        return np.where(clean, held_out.weight[:, None], 0.0)


def _both_ends(
    new: New, at: Any, j: int, below: np.ndarray, above: np.ndarray, weight: np.ndarray, levels: np.ndarray, own: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of output j of some new rows, ``[row, coverage]``, by scores of the rows left out."""
    low, high = lower(below, weight, levels[:, 0], own), upper(above, weight, levels[:, 1], own)
    return new.points(at, j, low), new.points(at, j, high)


def _as_far(ends: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Ends as far from predictions as the farther one."""
    low, high = ends[..., 0], ends[..., 1]
    return np.stack([np.minimum(low, 2.0 * P - high), np.maximum(high, 2.0 * P - low)], axis=-1)


def _left_out(sizes: tuple[Scale | None, ...], n: int) -> np.ndarray:
    """Sizes of the errors of the rows left out, ``[row, output]``."""
    return np.column_stack([np.ones(n) if size is None else size.left_out for size in sizes])


def _near(E: np.ndarray, weight: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Which errors lie within six deviations of their middle."""
    return np.abs(E - np.array([weighted_median(e, weight) for e in E.T])) <= GROSS * noise


def share_borne_out(held_out: HeldOut, weight: np.ndarray) -> np.ndarray:
    r"""How much of the variances ``v = h₋ + C r`` errors bear out, per output; they count with ``weight[row, output]``.

    A model is the mean of a Gaussian process whose prior is C times as wide as the noise. Under a C that was given, and
    is orders too large, rows far from landmarks and from others would have errors of that size, and have not. Intervals
    therefore take :math:`1 + \lambda v` for :math:`1 + v`, with the largest λ that the errors do not refute. They are
    taken for those of a Laplace law of scale :math:`s\sqrt{1 + \lambda v}`, whose likelihood is

    .. math:: \ell(\lambda) = -\sum w \log\sum w\frac{|e|}{\sqrt{1 + \lambda v}} - \tfrac12\sum w\log(1 + \lambda v).
    """
    error = np.abs(held_out.T - held_out.P)
    variance = np.broadcast_to(held_out.variance.reshape(len(error), -1), error.shape)
    return np.array([_share(*columns) for columns in zip(error.T, variance.T, weight.T, strict=True)])


def _share(e: np.ndarray, v: np.ndarray, w: np.ndarray) -> float:
    if not (e[w > 0].any() and v.any()):
        return 1.0
    deviation = np.sqrt(1.0 + SHARES[:, None] * v)
    likelihood = -w.sum() * np.log((e / e.max() / deviation) @ w) - np.log(deviation) @ w
    return float(SHARES[np.argmax(likelihood >= likelihood.max() - EVIDENCE)])
