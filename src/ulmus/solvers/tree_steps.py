r"""What growing and asking symmetric trees does with many rows: compiled where it can be, in NumPy elsewhere.

Both give the same bits. Rows lie in cells of columns, ``place[row, column]``, and at every level a tree asks one column
for one cut: rows above it go to the second child. Cells of an ordered column are intervals, and rows behind the cut are
above it; those of other columns are levels, and rows at the cut itself are above it, none where it is 0. With g and h
the sums of first and second derivatives of the loss on either side of a cut in each node, that one is taken which makes

.. math:: \sum_\text{nodes} \frac{g_l^2}{h_l + \lambda} + \frac{g_r^2}{h_r + \lambda}

largest. Derivatives are whole numbers in some unit, so that their sums do not hang on the order of the rows, and one
number holds both, so that one sum is that of both.
"""

from typing import Any, NamedTuple

import numpy as np

from ulmus._compiled import core

#: Bits of sums of derivatives by which cuts are compared.
BITS = 25
#: Leaves of the largest tree.
LEAVES = 256


class Table(NamedTuple):
    """Rows in cells of columns, how many cells each has, and whether (1 or 0) they are in order."""

    place: np.ndarray
    sizes: np.ndarray
    ordered: np.ndarray


def grown(
    table: Table,
    columns: np.ndarray,
    rows: np.ndarray,
    g: np.ndarray,
    h: np.ndarray,
    penalty: float,
    depth: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Column and cut of every level, by some of the rows, and some of the columns.

    A cut at the last interval, or at level 0, leaves all rows on one side.
    """
    of_h = _power_of_two(max(float(h.sum()), penalty))
    units, penalty = (2.0**BITS / _power_of_two(float(np.abs(g).sum())), 2.0**BITS / of_h), 2.0**BITS * penalty / of_h
    column, cut = np.empty((2, depth), np.int64)
    if core is None:
        x = packed(units[0] * g[rows], units[1] * h[rows])
        _grown(table, columns, rows, x, column, cut, np.float32(penalty))
    else:
        core.grow(*table, columns, rows, g, h, column, cut, *units, penalty)
    return column, cut


def reached(table: Table, column: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The leaf of every row, from the answers to all questions: the first is its first digit."""
    leaf = np.zeros(len(table.place), np.uint8)
    if core is not None:
        core.reach(table.place, table.ordered, column, cut, leaf)
        return leaf
    for asked, at in zip(column, cut, strict=True):
        leaf = 2 * leaf + _above(table.place[:, asked], at, table.ordered[asked])
    return leaf.astype(np.uint8)


def _above(place: np.ndarray, cut: Any, ordered: Any) -> np.ndarray:
    return place > cut if ordered else (place == cut) & (cut > 0)


def summed(leaf: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sums over the rows of every leaf."""
    if core is None:
        return np.bincount(leaf, x, LEAVES)
    sums = np.zeros(LEAVES)
    core.tally(leaf, x, sums)
    return sums


def added(leaf: np.ndarray, value: np.ndarray, fitted: np.ndarray) -> None:
    """Add the values of the leaves to what their rows have."""
    if core is None:
        fitted += value.take(leaf)
    else:
        core.spread(leaf, value, fitted)


def answered(feature: np.ndarray, threshold: np.ndarray, value: np.ndarray, U: np.ndarray, out: np.ndarray) -> None:
    """Add the answers of trees (:class:`~ulmus.solvers.boosted.BoostedTrees`) to those of rows."""
    if core is not None:
        core.answer(feature, threshold, value, U, out)
        return
    for asked, cuts, own in zip(feature, threshold, value, strict=True):
        out += own.take((U[:, asked] > cuts) @ _digits(len(asked)), axis=0)


def _digits(depth: int) -> np.ndarray:
    return 2 ** np.arange(depth)[::-1]


def _power_of_two(size: float) -> float:
    """The one next to a number; 1 for 0."""
    return float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0


def packed(g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Two numbers as one: whole numbers below and above a power of two.

    With sums of g's sizes, and of h, up to √2 units of ``2**BITS`` no sum of any of them is rounded, nor does g reach
    half of the power.
    """
    found: np.ndarray = np.rint(g) + 2.0 ** (BITS + 2) * np.rint(h)
    return found


def unpacked(both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of g and of h from those of :func:`packed` numbers."""
    h = np.rint(both * 2.0 ** -(BITS + 2))
    return both - 2.0 ** (BITS + 2) * h, h


def _grown(
    table: Table,
    columns: np.ndarray,
    rows: np.ndarray,
    x: np.ndarray,
    column: np.ndarray,
    cut: np.ndarray,
    penalty: np.float32,
) -> None:
    """Fill in column and cut of every level.

    ``left[node, cell]`` are sums of the rows that are not above a cut, a cell for each. They are taken over the child
    of a node that has fewer rows; those of its sibling are what is left of the node's.
    """
    sizes, ordered = table.sizes[columns], table.ordered[columns].astype(bool)
    ends = np.cumsum(sizes)
    first, column_of = ends - sizes, np.repeat(np.arange(len(columns)), sizes)
    cell, last = table.place[np.ix_(rows, columns)] + first, ends[0] - 1 if ordered[0] else 0

    def counted(some: Any, node: np.ndarray, size: int) -> np.ndarray:
        own = (cell[some] + ends[-1] * node[some, None]).ravel()
        sums = np.bincount(own, np.repeat(x[some], len(columns)), size * ends[-1]).reshape(size, -1)
        for begin, end, is_ordered in zip(first, ends, ordered, strict=True):
            if is_ordered:
                np.cumsum(sums[:, begin:end], axis=1, out=sums[:, begin:end])
            else:
                total = sums[:, begin:end].sum(axis=1)
                sums[:, begin:end] = total[:, None] - sums[:, begin:end]
                sums[:, begin] = total
        return sums

    node = np.zeros(len(rows), np.intp)
    left = counted(slice(None), node, 1)
    for level in range(len(column)):
        best = _gains(left, last, penalty).sum(axis=0).argmax()
        asked = column_of[best]
        column[level], cut[level] = columns[asked], best - first[asked]
        if level + 1 == len(column):
            break
        above, size = _above(cell[:, asked] - first[asked], best - first[asked], ordered[asked]), 2**level
        leaf = 2 * node + above
        fewer = np.bincount(leaf, minlength=2 * size).reshape(size, 2).argmin(axis=1)
        part, parent, children = counted(above == fewer[node], node, size), left, 2 * np.arange(size)
        left, node = np.empty((2 * size, len(column_of))), leaf
        left[children + fewer], left[children + 1 - fewer] = part, parent - part


def _gains(left: np.ndarray, last: int, penalty: np.float32) -> np.ndarray:
    """What every cut gains in every node, from sums on its left, which are those of all rows at ``last``.

    In single precision: gains that differ by less are those of cuts that are as good.
    """
    g, h = unpacked(left)
    # what is left is told by whole numbers, so that it is not lost beside them
    rest, other = (all_of[:, last, None] - all_of for all_of in (g, h))
    g, h, rest, other = (each.astype(np.float32) for each in (g, h, rest, other))
    h += penalty
    other += penalty
    return (g * g * other + rest * rest * h) / (h * other)
