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


class Table(NamedTuple):
    """Rows in cells of columns, how many cells each has, and whether (1 or 0) they are in order.

    ``turned`` is ``place`` column by column: a tree asks few columns of every row.
    """

    place: np.ndarray
    turned: np.ndarray
    sizes: np.ndarray
    ordered: np.ndarray


class Drawn(NamedTuple):
    """What trees choose their questions by.

    Of the rows that they learn from, those are drawn whose ``digits``, ``[tree, learned row]``, are below the
    ``bound``. ``columns[tree]`` are those that it asks. Where there are several outputs, derivatives are taken along
    ``direction[tree]``.
    """

    learned: np.ndarray
    digits: np.ndarray
    columns: np.ndarray
    direction: np.ndarray
    bound: int


class Losses(NamedTuple):
    """What is boosted: ``target[output, row]`` of rows that weigh so much, by log loss or squares."""

    target: np.ndarray
    weight: np.ndarray
    by_log: bool


class Grown(NamedTuple):
    """Column and cut of every level of every tree, and ``value[tree, leaf, output]``.

    A cut at the last interval, or at level 0, leaves all rows on one side.
    """

    column: np.ndarray
    cut: np.ndarray
    value: np.ndarray


def boosted(
    table: Table, drawn: Drawn, losses: Losses, fitted: np.ndarray, rate: float, penalty: float, depth: int
) -> Grown:
    """Trees one after the other, each a step of Newton's method from where those before it have moved ``fitted``."""
    count, outputs = len(drawn.digits), len(fitted)
    column, cut = np.empty((2, count, depth), np.int64)
    found = Grown(column, cut, np.empty((count, 2**depth, outputs)))
    if core is not None:
        core.boost(*table, *drawn[:4], *losses[:2], fitted, *found, drawn.bound, losses.by_log, rate, penalty)
        return found
    for t in range(count):
        G, H = _derivatives(losses, fitted)
        g, h = (G[0], H[0]) if outputs == 1 else _along(drawn.direction[t], G, H)
        rows = drawn.learned[drawn.digits[t] < drawn.bound]
        _questions(table, drawn.columns[t], rows, g, h, penalty, found.column[t], found.cut[t])
        leaf = _reached(table, found.column[t], found.cut[t])
        for k in range(outputs):
            step = -rate * np.bincount(leaf, G[k], 2**depth) / (np.bincount(leaf, H[k], 2**depth) + penalty)
            if outputs > 1 and losses.by_log:  # scores may move together
                step *= (outputs - 1) / outputs
            found.value[t, :, k] = step
            fitted[k] += step.take(leaf)
    return found


def _derivatives(losses: Losses, fitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of the loss of every row along its scores."""
    target, weight, by_log = losses
    if not by_log:
        return weight * (fitted - target), np.broadcast_to(weight, fitted.shape)
    if len(fitted) == 1:
        p = 1.0 / (1.0 + exponential(-fitted))
    else:
        p = exponential(fitted - fitted.max(axis=0))
        total = np.zeros(fitted.shape[1])
        for each in p:
            total += each
        p /= total
    return weight * (p - target), weight * (p * (1.0 - p))


def _along(v: np.ndarray, G: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along a direction of the scores."""
    g, h = np.zeros((2, G.shape[1]))
    for each, own_g, own_h in zip(v, G, H, strict=True):
        g += each * own_g
        h += each * each * own_h
    return g, h


def exponential(x: np.ndarray) -> np.ndarray:
    """``e^x``, off by less than 1e-14 of it, by operations that every processor rounds alike."""
    shifted = np.clip(x, -700.0, 700.0) * 1.4426950408889634 + _WHOLE
    k = shifted - _WHOLE
    r = (np.clip(x, -700.0, 700.0) - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    found = np.full_like(r, 1.0 / 39916800)
    for divisor in (3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1):
        found = found * r + 1.0 / divisor
    power: np.ndarray = ((shifted.view(np.int64) + 1023) << 52).view(np.float64)  # its last digits are k
    return found * power


#: Numbers behind it have no fractions.
_WHOLE = 1.5 * 2.0**52


def _sum_of_sizes(x: np.ndarray) -> float:
    """In eight parts whose rows follow each other at a distance of eight, as the compiled core adds them."""
    sizes = np.abs(x)
    whole = len(x) // 8 * 8
    parts = np.add.accumulate(sizes[:whole].reshape(-1, 8), axis=0)[-1:].ravel()
    return float(np.add.accumulate(np.concatenate([np.zeros(1), parts, sizes[whole:]]))[-1])


def _power_of_two(size: float) -> float:
    """The one next to a number; 1 for 0."""
    mantissa, exponent = np.frexp(size)
    return float(np.ldexp(1.0, exponent - 1 if mantissa < 0.7071067811865476 else exponent)) if size > 0 else 1.0


def _questions(
    table: Table,
    columns: np.ndarray,
    rows: np.ndarray,
    g: np.ndarray,
    h: np.ndarray,
    penalty: float,
    column: np.ndarray,
    cut: np.ndarray,
) -> None:
    """Fill in column and cut of every level, by some of the rows, and some of the columns."""
    size_g, size_h = _sum_of_sizes(g), _sum_of_sizes(h)
    if not np.isfinite(size_g) or not np.isfinite(size_h):
        raise ValueError("derivatives do not add up to a finite number")
    of_h = _power_of_two(max(size_h, penalty))
    x = packed(2.0**BITS / _power_of_two(size_g) * g[rows], 2.0**BITS / of_h * h[rows])
    _grown(table, columns, rows, x, column, cut, np.float32(2.0**BITS * penalty / of_h))


def _reached(table: Table, column: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The leaf of every row, from the answers to all questions: the first is its first digit."""
    leaf = np.zeros(len(table.place), np.intp)
    for asked, at in zip(column, cut, strict=True):
        leaf = 2 * leaf + _above(table.turned[asked], at, table.ordered[asked])
    return leaf


def _above(place: np.ndarray, cut: Any, ordered: Any) -> np.ndarray:
    return place > cut if ordered else (place == cut) & (cut > 0)


def answered(feature: np.ndarray, threshold: np.ndarray, value: np.ndarray, U: np.ndarray, out: np.ndarray) -> None:
    """Add the answers of trees (:class:`~ulmus.solvers.boosted.BoostedTrees`) to those of rows."""
    if core is not None:
        core.answer(feature, threshold, value, U, out)
        return
    for asked, cuts, own in zip(feature, threshold, value, strict=True):
        out += own.take((U[:, asked] > cuts) @ _digits(len(asked)), axis=0)


def _digits(depth: int) -> np.ndarray:
    return 2 ** np.arange(depth)[::-1]


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
