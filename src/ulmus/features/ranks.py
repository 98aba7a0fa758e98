"""Ranks and quantiles of columns, of which a weight of k counts as k rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from ulmus import engine

#: Points of a quantile curve, at most.
KNOTS = 1000
#: Numbers of columns that a thread learns at a time.
COLUMN_NUMBERS = 2**14
#: Ranks beyond these are as far out as it gets.
RANKS = (0.001, 0.999)
#: Values that are closer than this, relative to their size and deviation, are the same.
ROUND_OFF = 1e-12


def of_columns(work: Callable[[np.ndarray], Any], X: np.ndarray) -> list[Any]:
    """What a function says of every column; columns are shared among threads."""
    return [found for part in of_shares(lambda some: [work(x) for x in some], X) for found in part]


def of_shares(work: Callable[[np.ndarray], Any], X: np.ndarray) -> list[Any]:
    """What a function says of some columns after the other, which are rows there."""
    some = max(1, COLUMN_NUMBERS // max(1, len(X)))
    shares = (X[:, first : first + some].T for first in range(0, X.shape[1], some))
    return list(engine.ordered_map(lambda share: work(np.ascontiguousarray(share)), shares))


def column_quantiles(X: np.ndarray, w: np.ndarray | None, levels: tuple[float, ...]) -> np.ndarray:
    """:func:`quantiles` of every column, ``[column, level]``; columns without ties have the same ranks."""

    def share(some: np.ndarray) -> np.ndarray:
        values = np.sort(some, axis=1)
        size = np.abs(values[:, 1:]) + (values - values[:, :1]).std(axis=1, keepdims=True)
        if w is not None or values.shape[1] < 2 or not (np.diff(values) > 2 * ROUND_OFF * size).all():
            return np.array([quantiles(x, w, levels) for x in some])
        rank = mid_ranks(values[0], None)[1]
        found = np.empty((len(some), len(levels)))
        for column, level in zip(found.T, levels, strict=True):
            k = int(np.searchsorted(rank, level, side="right")) - 1
            if 0 <= k < len(rank) - 1:
                slope = (values[:, k + 1] - values[:, k]) / (rank[k + 1] - rank[k])
                column[:] = slope * (level - rank[k]) + values[:, k]
            else:
                column[:] = values[:, 0 if k < 0 else -1]
        return found

    return np.concatenate([np.empty((0, len(levels))), *of_shares(share, X)])


def mid_ranks(x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, and the mid-rank of each."""
    if w is None:
        x = np.sort(x)
        first = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
        values, mass = x[first], np.asarray(np.diff(np.append(first, len(x))), dtype=np.float64)
    else:
        values, place = np.unique(x, return_inverse=True)
        mass = np.asarray(np.bincount(place, weights=w), dtype=np.float64)
    # what differs by round-off alone is one value: a curve between such knots would be a cliff
    apart = np.diff(values) > ROUND_OFF * (np.abs(values[1:]) + values.std())
    if not apart.all():
        mass = np.asarray(np.bincount(np.append(0, np.cumsum(apart)), weights=mass), dtype=np.float64)
        values = values[np.append(True, apart)]
    return values, (np.cumsum(mass) - mass / 2) / mass.sum()


def quantiles(x: np.ndarray, w: np.ndarray | None, levels: tuple[float, ...]) -> np.ndarray:
    values, rank = mid_ranks(x, w)
    return np.interp(levels, rank, values)


def rank_curve(x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Knots and their normal quantiles."""
    values, rank = mid_ranks(x, w)
    if len(values) > KNOTS:
        keep = np.unique(np.searchsorted(rank, np.linspace(rank[0], rank[-1], KNOTS)))
        values, rank = values[keep], rank[keep]
    return values, ndtri(np.clip(rank, *RANKS))
