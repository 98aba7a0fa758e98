"""Thresholds that trees may ask for: columns in intervals."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ulmus.solvers.tree_steps import Table

#: Intervals of a column between which thresholds lie, at most and of all columns together (but no less than a fourth of
#: the former).
BINS, CELLS = 128, 4_096
#: Width of the intervals of mean targets, in standard deviations.
MEAN_STEP = 0.4
#: 0/1 columns that are levels of one, at most.
LEVELS = 127


@dataclass(frozen=True)
class Bins:
    """Columns as trees see them: of intervals for every number, of levels for 0/1 columns that exclude each other.

    Cut k of a column asks ``features[column][k]`` whether it is above ``thresholds[column][k]``.
    """

    features: list[np.ndarray]
    thresholds: list[np.ndarray]
    table: Table

    @classmethod
    def of(cls, U: np.ndarray, weight: np.ndarray, models: int, means: np.ndarray | None = None) -> list["Bins"]:
        """For each of several models: an interval for each value, or quantiles where values are many.

        Thresholds of one model lie between those of the others, so that the mean of all has smaller steps than each.
        Columns of ``means`` have wide intervals: what the mean of a level is depends on the rows that it is taken from.
        """
        low, high = U.min(axis=0), U.max(axis=0)
        is_flag = np.array([((x == a) | (x == b)).all() for x, a, b in zip(U.T, low, high, strict=True)])
        numbers, flags = np.flatnonzero(~is_flag), np.flatnonzero(is_flag & (low < high))
        most = int(np.clip(CELLS // max(1, len(numbers)), BINS // 4, BINS))
        found = [(list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()) for _ in range(models)]
        for j in numbers:
            x, is_mean = U[:, j], means is not None and means[j]
            if is_mean:
                step = MEAN_STEP * float(x.std())
                x = np.round(x / step) * step
            values, place = np.unique(x, return_inverse=True)
            cuts = _thresholds(values, np.bincount(place, weights=weight), most, models)
            for (features, thresholds, cells), own in zip(found, cuts, strict=True):
                features.append(np.full(len(own) + 1, j))
                thresholds.append(np.append(own, np.inf))  # behind the last nothing is gained: all rows on one side
                cells.append(np.searchsorted(own, U[:, j]) if is_mean else _between(values, place, own))
        for members, level in _exclusive(U[:, flags] > low[flags]):
            j = flags[members]
            for model, (features, thresholds, cells) in enumerate(found):
                features.append(np.append(j[0], j))
                between = low[j] + (model + 0.5) / models * (high[j] - low[j])
                thresholds.append(np.append(np.inf, rounded_down(between)))
                cells.append(level)
        ordered = np.repeat(np.array([1, 0]), [len(numbers), len(found[0][0]) - len(numbers)])
        return [cls(features, thresholds, _table(cells, thresholds, ordered)) for features, thresholds, cells in found]

    def __len__(self) -> int:
        return len(self.features)

    def at(self, columns: np.ndarray, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The features behind cuts of columns, and their thresholds."""
        first = np.cumsum([0, *map(len, self.thresholds)])  # of every column among those of all
        place = first[columns] + cuts
        return np.concatenate(self.features)[place], np.concatenate(self.thresholds)[place]


def _between(values: np.ndarray, place: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The interval of every row, by the places of rows among the values, which are in order."""
    ends = np.searchsorted(values, thresholds, side="right")
    return np.repeat(np.arange(len(ends) + 1), np.diff(ends, prepend=0, append=len(values)))[place]


def _table(cells: list[np.ndarray], thresholds: list[np.ndarray], ordered: np.ndarray) -> Table:
    turned = np.empty((len(cells), len(cells[0]) if cells else 0), np.uint8)
    for k, own in enumerate(cells):
        turned[k] = own
    sizes = np.array([len(each) for each in thresholds], np.int64)
    return Table(np.ascontiguousarray(turned.T), turned, sizes, ordered.astype(np.int64))


def _exclusive(flags: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns of true and false, in order, in groups of which no row has two: their places, and the level of every row.

    A level is the number of the column that the row has, from 1 on.
    """
    members, level = list[int](), np.zeros(len(flags), np.uint8)
    for k, flag in enumerate(flags.T):
        if members and (len(members) == LEVELS or level[flag].any()):
            yield np.array(members), level
            members, level = [], np.zeros(len(flags), np.uint8)
        members.append(k)
        level[flag] = len(members)
    if members:
        yield np.array(members), level


def _thresholds(values: np.ndarray, mass: np.ndarray, most: int, models: int) -> list[np.ndarray]:
    """Those of every model, of values with so much weight each."""
    every, rank = np.arange(len(values) - 1), None
    if len(values) > most:
        rank = (np.cumsum(mass) - mass / 2) / mass.sum()

    def between(aside: float) -> np.ndarray:
        last = every
        if rank is not None:
            last = np.flatnonzero(np.diff(np.searchsorted((np.arange(1, most) + aside) / most, rank)))
        return rounded_down(values[last] + (0.5 + aside) * (values[last + 1] - values[last]))

    return [between((model + 0.5) / models - 0.5) for model in range(models)]


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest numbers of single precision that are not above: the same side for all values of that precision."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)
