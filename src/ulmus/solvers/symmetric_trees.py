r"""Symmetric trees of several models, each grown from derivatives of its own: columns in intervals, and the best cuts.

All nodes of a level ask the same column for the same threshold. With g and h the sums of first and second derivatives
of the loss on either side of it in each node, that one is taken which makes

.. math:: \sum_\text{nodes} \frac{g_l^2}{h_l + \lambda} + \frac{g_r^2}{h_r + \lambda}

largest. A tree of few rows is a matter of many short steps, so the trees of several models are grown by the same ones:
each model begins with a node of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Levels of a tree, and penalty λ.
DEPTH, PENALTY = 5, 0.3
#: Intervals of a column between which thresholds lie, at most and of all columns together (but no less than a fourth of
#: the former).
BINS, CELLS = 128, 4_096
#: Bits of sums of derivatives by which thresholds are compared.
BITS = 25
#: Columns of two values from which on these are summed by themselves.
FLAGS = 6


@dataclass(frozen=True)
class Bins:
    """Columns as numbers of intervals: those that vary, and the thresholds between intervals of each."""

    column: np.ndarray
    thresholds: Sequence[np.ndarray]

    @classmethod
    def of(cls, U: np.ndarray, weight: np.ndarray, models: int) -> list["Bins"]:
        """For each of several models: an interval for each value, or quantiles where values are many.

        Thresholds of one model lie between those of the others, so that the mean of all has smaller steps than each.
        """
        most = int(np.clip(CELLS // U.shape[1], BINS // 4, BINS))
        found = [_thresholds(column, weight, most, models) for column in U.T]
        varies = np.flatnonzero([len(each[0]) for each in found])
        return [cls(varies, [found[j][model] for j in varies]) for model in range(models)]

    @property
    def sizes(self) -> np.ndarray:
        """How many intervals each column has."""
        return np.array([len(t) + 1 for t in self.thresholds], np.intp)

    def place(self, U: np.ndarray) -> np.ndarray:
        """The interval of every value, ``[column, row]``."""
        each = [np.searchsorted(t, U[:, j]) for j, t in zip(self.column, self.thresholds, strict=True)]
        return np.reshape(each, (-1, len(U))).astype(np.uint8)

    def at(self, columns: np.ndarray, cuts: np.ndarray) -> list[float]:
        """The numbers behind cuts of columns, each the so-many-th of those that vary."""
        found = zip((self.thresholds[column] for column in columns), cuts, strict=True)
        # behind the last is a cut by which nothing is gained: all rows on one side
        return [float(of[cut]) if cut < len(of) else np.inf for of, cut in found]


def _thresholds(x: np.ndarray, weight: np.ndarray, most: int, models: int) -> list[np.ndarray]:
    values, place = np.unique(x, return_inverse=True)
    every, rank = np.arange(len(values) - 1), None
    if len(values) > most:
        mass = np.bincount(place, weights=weight)
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


def grown(
    place: np.ndarray, sizes: np.ndarray, g: np.ndarray, h: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Column and cut of every level, ``[model, level]``, of rows in intervals: those above go to the second child.

    ``place[column, row]`` is one of ``sizes`` intervals; a cut behind the last of them leaves all rows on one side. The
    first of the rows are those of the first model, which has the first of the ``counts`` of them, and so on. ``left``
    are sums of the rows on the first side of every cut. They are taken over the child of a node that has fewer rows;
    those of its sibling are what is left of the node's.
    """
    models, ends = len(counts), np.cumsum(counts)
    own = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    flags, order = int((sizes == 2).sum()), np.arange(len(sizes))
    if flags < FLAGS:
        flags = 0
    else:  # columns of two values come last
        order = np.argsort(sizes == 2, kind="stable")
        place, sizes = place[order], sizes[order]
    first, leaf = np.cumsum(sizes) - sizes, np.repeat(np.arange(models), counts)
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    room = np.empty((2, models * 2 ** (DEPTH - 1), len(column_of)))
    of_g, of_h = (max(float(np.abs(each[rows]).sum()) for rows in own) for each in (g, h))
    unit = _power_of_two(max(of_h, PENALTY))
    penalty = 2.0**BITS * PENALTY / unit
    sums = _Sums(place, sizes, flags, packed(g / _power_of_two(of_g), h / unit), own)
    left = sums(None, leaf, models)
    columns, cuts = np.empty((2, models, DEPTH), np.intp)
    for level in range(DEPTH):
        size = models * 2**level
        best = _gains(left, sizes[0] - 1, penalty).reshape(models, -1, len(column_of)).sum(axis=1).argmax(axis=1)
        asked = column_of[best]
        columns[:, level], cuts[:, level] = order[asked], best - first[asked]
        questions = zip(own, asked.tolist(), cuts[:, level].tolist(), strict=True)
        node, above = leaf, np.concatenate([place[column, rows] > cut for rows, column, cut in questions])
        leaf = 2 * node + above
        if level + 1 < DEPTH:
            fewer = np.bincount(leaf, minlength=2 * size).reshape(size, 2).argmin(axis=1)
            part = sums(np.flatnonzero(above == fewer[node]), node, size)
            parent, left, children = left, room[level % 2, : 2 * size], 2 * np.arange(size)
            left[children + fewer] = part
            left[children + 1 - fewer] = np.subtract(parent, part, out=part)
    return columns, cuts


class _Sums:
    """Sums of numbers, one for each row, over rows of every node up to every cell of its column.

    Rows are counted into cells, but for so many ``flags``, the last columns, of two values: for these it is a product
    of matrices, model by model, of the numbers in their nodes and 0 or 1. Numbers are whole, so that no sum hangs on
    its order.
    """

    def __init__(self, place: np.ndarray, sizes: np.ndarray, flags: int, x: np.ndarray, own: Sequence[slice]) -> None:
        wide = len(sizes) - flags
        self.x, self.own, self.sizes, self.cells = x, own, sizes[:wide], int(sizes.sum())
        self.cell = place[:wide] + (np.cumsum(self.sizes) - self.sizes)[:, None]
        self.flags = place[wide:].T.astype(np.float64)

    def __call__(self, some: np.ndarray | None, node: np.ndarray, size: int) -> np.ndarray:
        """``[node, cell]``, over some of the rows."""
        x, cell, wide = self.x, self.cell, int(self.sizes.sum())
        if some is not None:
            x, cell, node = x[some], cell.take(some, axis=1), node[some]
        counted = _counted(cell, x, node, size, self.sizes)
        if not self.flags.shape[1]:
            return counted
        out, some = np.empty((size, self.cells)), np.arange(len(x)) if some is None else some
        out[:, :wide] = counted
        total, ones = np.bincount(node, x, size)[:, None], out[:, wide::2]
        each, ends = size // len(self.own), np.searchsorted(some, [rows.stop for rows in self.own])
        for model, (rows, begin, end) in enumerate(zip(self.own, (0, *ends), ends, strict=False)):
            nodes = slice(model * each, (model + 1) * each)
            W = np.zeros((each, rows.stop - rows.start))
            W[node[begin:end] - nodes.start, some[begin:end] - rows.start] = x[begin:end]
            ones[nodes] = W @ self.flags[rows]
        np.subtract(total, ones, out=ones)
        out[:, wide + 1 :: 2] = total
        return out


def _power_of_two(size: float) -> float:
    """The one next to a number; 1 for 0."""
    return float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0


def packed(g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Two numbers as one, so that one sum is that of both: whole numbers below and above a power of two.

    With sums of g's sizes, and of h, up to √2 no sum of any of them is rounded, nor does g reach half of the power.
    """
    found: np.ndarray = np.rint(2.0**BITS * g) + 2.0 ** (BITS + 2) * np.rint(2.0**BITS * h)
    return found


def unpacked(both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of g and of h, each multiplied by ``2**BITS``, in single precision, from those of :func:`packed` numbers."""
    h = np.rint(both * 2.0 ** -(BITS + 2))
    return (both - 2.0 ** (BITS + 2) * h).astype(np.float32), h.astype(np.float32)


def _gains(left: np.ndarray, last: int, penalty: float) -> np.ndarray:
    """What every cut gains in every node, from sums on its left, which are those of all rows at ``last``.

    In single precision: gains that differ by less are those of cuts that are as good.
    """
    g, h = unpacked(left)
    h += np.float32(penalty)
    G, H = g[:, last, None].copy(), h[:, last, None] + np.float32(penalty)
    gain = g * g
    gain /= h
    np.subtract(G, g, out=g)
    g *= g
    g /= np.subtract(H, h, out=h)
    gain += g
    return gain


def _counted(cell: np.ndarray, x: np.ndarray, node: np.ndarray, size: int, sizes: np.ndarray) -> np.ndarray:
    """Sums of x over the rows of every node up to every cell of its column, ``[node, cell]``.

    One running sum passes through all columns: what a column comes to, the sum of the node, is taken off the first cell
    of the next one.
    """
    cells, ends = int(sizes.sum()), np.cumsum(sizes)
    if not cell.size:
        return np.zeros((size, cells))
    each = np.bincount((cell + node * cells).ravel(), np.tile(x, len(cell)), size * cells).reshape(size, cells)
    each[:, ends[:-1]] -= each[:, : sizes[0]].sum(axis=1, keepdims=True)
    return np.cumsum(each, axis=1, out=each)


def leaves(place: np.ndarray, columns: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The leaf of every row in the tree of every model, ``[model, row]``, from intervals ``[model, column, row]``."""
    leaf, models = np.zeros((len(place), place.shape[2]), np.intp), np.arange(len(place))
    for column, cut in zip(columns.T, cuts.T, strict=True):
        leaf = 2 * leaf + (place[models, column] > cut[:, None])
    return leaf
