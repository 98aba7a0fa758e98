r"""Numbers and categories made fit for a kernel: columns of comparable scale, without long tails, as plain arrays.

==============  ==================================================================================================
``"standard"``  :math:`(x - \text{mean}) / \text{deviation}`
``"clip"``      :math:`z = (x - \text{median}) / \text{interquartile range}`, then :math:`z/\sqrt{1 + (z/3)^2}`
``"quantile"``  the normal quantile of the mid-rank, which lies between 0.001 and 0.999
==============  ==================================================================================================

All end with unit deviation. A weight of k counts as k rows, which scikit-learn's ``QuantileTransformer`` and
``TargetEncoder`` cannot take.

Learned cuts of numbers may add 0/1 columns (:mod:`ulmus.features.cuts`).

A missing number becomes the median of its column, beside a 0/1 column that says so where some were missing in training;
a missing category is a level, or, where none was missing in training, one that was never seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.features.category import Category
from ulmus.features.cuts import Cuts
from ulmus.features.metric import seen_columns, through
from ulmus.features.piecewise_linear import interpolated
from ulmus.features.ranks import column_quantiles, of_columns, quantiles, rank_curve

#: Rows from which columns are prepared; of twice as many and more, every k-th. Their quantiles are off by less
#: than a thousandth of the rows.
MOST_LEARNED = 2**18
#: Parts of the rows in which target means are taken from the other parts.
PARTS = 5

#: Code of a category that is missing: one that nobody uses, the same in float32.
MISSING = -float(np.finfo(np.float32).max)
#: Sizes of numbers whose squares, and slopes of curves through them, are numbers in float64; and how far out it gets.
SIZES, FARTHEST = (1e-300, 1e151), 1e150

PREPARATIONS = ("standard", "clip", "quantile")


@dataclass(frozen=True)
class Columns:
    """A monotone curve for every numeric column: values at knots, linear between; beyond the last knots, flat or on.

    ``centre`` and ``scale`` come first, then the curve, if there is one.
    """

    kind: str
    centre: np.ndarray
    scale: np.ndarray
    knots: tuple[np.ndarray, ...] = ()
    values: tuple[np.ndarray, ...] = ()
    deviation: np.ndarray | None = None

    @classmethod
    def of(cls, kind: str, X: np.ndarray, weight: np.ndarray | None) -> "Columns":
        """Learn the columns of ``X``."""
        zero, one = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if kind == "standard":
            plain = cls(kind, _mean(X, weight), one)
        elif kind == "clip":
            quartiles = column_quantiles(X, weight, (0.25, 0.5, 0.75))
            centre, scale = quartiles[:, 1], quartiles[:, 2] - quartiles[:, 0]
            deviation = np.sqrt(_mean(X, weight, centre))
            plain = cls(kind, centre, np.where(scale > 0, scale, np.where(deviation > 0, deviation, 1.0)))
        else:
            curves = of_columns(lambda x: rank_curve(x, weight), X)
            plain = cls(kind, zero, one, tuple(k for k, _ in curves), tuple(v for _, v in curves))
        mean = _mean(X, weight, columns=plain)
        deviation = np.sqrt(_mean(X, weight, mean, plain))
        # a column that is constant up to round-off stays at 0
        deviation = np.where(deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300), deviation, np.inf)
        return cls(kind, plain.centre, plain.scale, plain.knots, plain.values, deviation)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """The prepared columns."""
        if self.kind == "quantile":
            Z = np.empty(X.shape)
            for j, (knots, values) in enumerate(zip(self.knots, self.values, strict=True)):
                Z[:, j] = interpolated(X[:, j], knots, values)
        else:
            Z = (X - self.centre) / self.scale
            if self.kind == "clip":
                np.clip(Z, -FARTHEST, FARTHEST, out=Z)
                Z /= np.sqrt(1.0 + (Z / 3.0) ** 2)
        return Z if self.deviation is None else Z / self.deviation


def refuse_sizes(X: np.ndarray, numbers: np.ndarray) -> None:
    """Refuse columns, which have these numbers in the table, whose values are none that float64 can square."""
    low, high = (reach.reduce(X, axis=0) for reach in (np.fmin, np.fmax))
    for j in np.flatnonzero(high > low):
        size = max(abs(low[j]), abs(high[j]))
        if not SIZES[0] <= size <= SIZES[1]:
            do = f"divide the column by {size:.0e}" if size > 1 else "multiply the column by 1e300, or leave it out"
            raise ValueError(
                f"the largest value of column {numbers[j]} of X (counted from 0) is {size:.3g}, and float64 holds what "
                f"a fit computes from columns of {SIZES[0]:.0e} to {SIZES[1]:.0e}; {do}"
            )


def _thinned(X: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Of very many rows every k-th."""
    step = max(1, len(X) // MOST_LEARNED)
    return X[::step], None if weight is None else weight[::step]


def _mean(
    X: np.ndarray, weight: np.ndarray | None, less: np.ndarray | None = None, columns: "Columns | None" = None
) -> np.ndarray:
    """Mean of every column, prepared where that is asked for, or of its squared differences from a centre."""

    def total(piece: slice) -> np.ndarray:
        V = X[piece] if columns is None else columns.transform(X[piece])
        V = V if less is None else (V - less) ** 2
        return V.sum(axis=0) if weight is None else weight[piece] @ V

    mass = len(X) if weight is None else weight.sum()
    tiles = engine.pieces(len(X), engine.block_rows(X.shape[1], np.float64))
    return np.asarray(sum(engine.ordered_map(total, tiles), np.zeros(X.shape[1])) / mass)


@dataclass(frozen=True)
class Gaps:
    """What stands in for a missing number in numeric columns, and in which of them some were missing."""

    fills: np.ndarray
    shown: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, weight: np.ndarray | None) -> "Gaps":
        """Learn the columns of ``X``."""
        with np.errstate(over="ignore", invalid="ignore"):
            whole = not np.isnan(X.sum())
        if whole and len(X):
            return cls(column_quantiles(*_thinned(X, weight), (0.5,))[:, 0], np.zeros(0, np.intp))

        def median(x: np.ndarray) -> tuple[float, bool]:
            """That of the values that are there, and whether some are missing."""
            missing = np.isnan(x)
            w = None if weight is None else weight[~missing]
            fill = 0.0 if missing.all() else quantiles(*_thinned(x[~missing], w), (0.5,))[0]
            return fill, bool(missing.any())

        found = of_columns(median, X)
        return cls(np.array([fill for fill, _ in found]), np.flatnonzero([shown for _, shown in found]))

    def filled(self, X: np.ndarray) -> np.ndarray:
        """Numbers with nothing missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isnan(X.sum()):  # then nothing is missing
                return X
        missing = np.isnan(X)
        if missing[:, np.isnan(self.fills)].any():
            raise ValueError(
                "numbers are missing in columns that had no missing values in training, and the model was saved by a "
                "version that kept no medians for them; fill them in, or fit the model again"
            )
        return np.where(missing, self.fills, X)

    def marks(self, X: np.ndarray) -> np.ndarray:
        """A 0/1 column for each in which some were missing."""
        return np.isnan(X[:, self.shown]).astype(np.float64)


@dataclass(frozen=True)
class Preparation:
    """A table as a kernel wants it: prepared numbers, marks of missing ones, cuts, 0/1 columns, target means."""

    numeric: np.ndarray
    categorical: np.ndarray
    gaps: Gaps
    columns: Columns
    categories: tuple[Category, ...]
    mean_deviation: np.ndarray
    cuts: Cuts | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        X: np.ndarray,
        T: np.ndarray,
        weight: np.ndarray | None,
        categorical: np.ndarray,
        like: "Preparation | None" = None,
        cuts: Cuts | None = None,
    ) -> "Preparation":
        """Learn a preparation; ``categorical`` tells which columns hold codes of categories.

        ``like`` is that of more rows than these, so that a sample gets the same columns as all; ``cuts`` are
        given, from :meth:`learn_cuts`.
        """
        w = np.ones(len(X)) if weight is None else weight
        numeric, codes = np.flatnonzero(~categorical), np.flatnonzero(categorical)
        known = like.categories if like is not None else (None,) * len(codes)
        categories = tuple(Category.of(_codes(X, j), T, w, more) for j, more in zip(codes, known, strict=True))
        numbers = X if not len(codes) else X[:, numeric]
        refuse_sizes(numbers, numeric)
        gaps = like.gaps if like is not None else Gaps.of(numbers, weight)
        few, few_weights = _thinned(numbers, weight)
        columns = Columns.of(kind, gaps.filled(few), few_weights)
        prepared = cls(numeric, codes, gaps, columns, categories, np.empty(0), cuts)
        means = prepared._means(X)
        if means.shape[1]:
            deviation = np.sqrt(np.average((means - np.average(means, axis=0, weights=w)) ** 2, axis=0, weights=w))
            return replace(prepared, mean_deviation=np.where(deviation > 0, deviation, 1.0))
        return prepared

    def learn_cuts(self, X: np.ndarray, T: np.ndarray, weight: np.ndarray | None) -> Cuts:
        """Cuts of the numbers from rows; marks and levels divide these too, but are cut already."""
        numbers = X[:, self.numeric]
        columns = [self.gaps.filled(numbers), self.gaps.marks(numbers), *self._dummies(X)]
        return Cuts.of(np.concatenate(columns, axis=1), T, weight, len(self.numeric))

    def cut_columns(self, X: np.ndarray, cuts: Cuts) -> np.ndarray:
        """What cuts say of rows."""
        return cuts.transform(self.gaps.filled(X[:, self.numeric]))

    def transform(self, X: np.ndarray, metric: np.ndarray | None = None) -> np.ndarray:
        """Rows that were not learned from, as a metric shows them where one is given."""
        return self._stack(X, self._means(X), metric)

    def transform_left_out(self, X: np.ndarray, T: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Rows that were learned from, as if they had not been: target means lack the row, of weight ``unit``."""
        return self._stack(X, self._means(X, (unit, T)))

    def transform_learned(
        self,
        X: np.ndarray,
        T: np.ndarray,
        weight: np.ndarray | None,
        part: np.ndarray,
        metric: np.ndarray | None = None,
    ) -> np.ndarray:
        """The rows that were learned from: their target means are taken from the other parts, so that none leaks.

        ``part`` numbers the parts; equal rows must be in one part. Rows of part -1 get the means of all.
        """
        if not self.has_means:
            return self.transform(X, metric)
        w = np.ones(len(X)) if weight is None else weight
        less = {
            int(k): self.categories_of(X[part == k], T[part == k], w[part == k]) for k in np.unique(part[part >= 0])
        }
        return self.transform_without(X, part, less, metric)

    def categories_of(self, X: np.ndarray, T: np.ndarray, weight: np.ndarray) -> tuple["Category | None", ...]:
        """What these rows say of the categories that have target means; None for the others."""
        pairs = zip(self.categorical, self.categories, strict=True)
        return tuple(Category.of(_codes(X, j), T, weight) if known.has_means else None for j, known in pairs)

    def transform_without(
        self,
        X: np.ndarray,
        part: np.ndarray,
        less: Mapping[int, Sequence["Category | None"]],
        metric: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows with target means that are without what the rows of their own part say (:meth:`categories_of`)."""
        means = self._means(X)
        start = 0
        for column, (j, category) in enumerate(zip(self.categorical, self.categories, strict=True)):
            if not category.has_means:
                continue
            stop = start + category.sums.shape[1]
            for k in np.unique(part[part >= 0]):
                here = part == k
                means[here, start:stop] = category.means(_codes(X[here], j), less[int(k)][column])
            start = stop
        return self._stack(X, means, metric)

    @property
    def has_means(self) -> bool:
        """Whether the targets of rows are behind their columns."""
        return any(category.has_means for category in self.categories)

    def _means(self, X: np.ndarray, own: Any = None) -> np.ndarray:
        pairs = zip(self.categorical, self.categories, strict=True)
        found = [c.means(_codes(X, j), own=own) for j, c in pairs if c.has_means]
        return np.concatenate(found, axis=1) if found else np.empty((len(X), 0))

    def _stack(self, X: np.ndarray, means: np.ndarray, metric: np.ndarray | None = None) -> np.ndarray:
        """Tile by tile, so that no more of all rows is held than what is asked for."""
        tiles = list(engine.pieces(len(X), engine.block_rows(X.shape[1], np.float64)))

        def shown(tile: slice) -> np.ndarray:
            prepared = self._stacked(X[tile], means[tile])
            return prepared if metric is None else through(prepared, metric)

        if len(tiles) <= 1:
            return shown(slice(None))
        out = np.empty((len(X), len(self.sources()) if metric is None else seen_columns(metric)))

        def work(tile: slice) -> None:
            out[tile] = shown(tile)

        engine.on_threads(work, tiles)
        return out

    def _stacked(self, X: np.ndarray, means: np.ndarray) -> np.ndarray:
        scaled = means / self.mean_deviation if means.shape[1] else means
        numbers = X if not len(self.categorical) else X[:, self.numeric]
        filled = self.gaps.filled(numbers)
        cuts = [] if self.cuts is None else [self.cuts.transform(filled)]
        prepared = [self.columns.transform(filled), self.gaps.marks(numbers), *cuts, *self._dummies(X), scaled]
        return np.concatenate(prepared, axis=1)

    def _dummies(self, X: np.ndarray) -> list[np.ndarray]:
        return [c.dummies(_codes(X, j)) for j, c in zip(self.categorical, self.categories, strict=True)]

    def names(self, columns: list[str], levels: dict[str, tuple[str, ...]]) -> list[str]:
        """Names of the output columns: of numbers, marks, levels; ``levels`` are the words behind codes."""
        out = [columns[j] for j in self.numeric]
        out += [f"{columns[self.numeric[k]]} is missing" for k in self.gaps.shown]
        for j, category in zip(self.categorical, self.categories, strict=True):
            words = levels.get(columns[j])
            for code in category.shown:
                level = "missing" if code == MISSING else words[int(code)] if words is not None else f"{code:g}"
                out.append(f"{columns[j]} = {level}")
        for j, category in zip(self.categorical, self.categories, strict=True):
            if category.has_means:
                out += [f"{columns[j]}: mean target {k}" for k in range(category.sums.shape[1])]
        return out

    def mean_columns(self, metric: np.ndarray) -> np.ndarray:
        """Which of the columns that a metric shows are mean targets; these come last."""
        count, whole = sum(c.sums.shape[1] for c in self.categories if c.has_means), len(self.sources())
        return (np.arange(whole) >= whole - count)[metric != 0]

    def sources(self) -> np.ndarray:
        """The input column of every output column."""
        out = [self.numeric, self.numeric[self.gaps.shown]]
        out += [] if self.cuts is None else [self.numeric[self.cuts.column]]
        out += [np.full(len(c.shown), j) for j, c in zip(self.categorical, self.categories, strict=True)]
        outputs = [c.sums.shape[1] for c in self.categories]
        out += [
            np.full(s, j) for j, c, s in zip(self.categorical, self.categories, outputs, strict=True) if c.has_means
        ]
        return np.concatenate(out).astype(np.intp)


def _codes(X: np.ndarray, j: Any) -> np.ndarray:
    """The codes of a category; what is missing has one too."""
    return np.where(np.isnan(X[:, j]), MISSING, X[:, j])
