"""Random kd-partitions: rows that are near each other share a leaf, and every query finds its leaf."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ulmus import engine

#: Rows whose leaves are looked up at a time: what is held of them stays in cache.
QUERIES = 2**16
#: Where a node is cut: a random quantile between these.
CUT = (0.4, 0.6)
#: A cut that leaves less than this share on one side (ties) is replaced by one along a random direction.
LOPSIDED = 0.2
#: Numbers that are looked at together while they are in cache, and those that are worth a task of a thread.
PIECE_CELLS, TASK_CELLS = 2**15, 2**18

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Partition:
    """A tree of cuts. Node 0 is the root; ``children`` are node numbers, or ``-1 - leaf``.

    ``feature`` is the column that is cut, or ``-1 - d`` for the d-th of ``directions``; values up to ``threshold`` go
    left. The rows of a leaf are ``order[starts[leaf]:starts[leaf + 1]]``.
    """

    feature: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    directions: np.ndarray
    order: np.ndarray
    starts: np.ndarray

    @property
    def n_leaves(self) -> int:
        return len(self.starts) - 1

    def rows(self, leaf: int) -> np.ndarray:
        """The rows of a leaf."""
        return self.order[self.starts[leaf] : self.starts[leaf + 1]]

    def leaves(self, U: np.ndarray) -> np.ndarray:
        """The leaf of every row of ``U``."""
        pieces = list(engine.pieces(len(U), QUERIES))
        found = list(engine.ordered_map(lambda piece: self._leaves_of(U[piece]), pieces))
        return np.concatenate(found) if found else np.empty(0, np.intp)

    def _leaves_of(self, U: np.ndarray) -> np.ndarray:
        node = np.zeros(len(U), np.intp) if len(self.feature) else np.full(len(U), -1)
        while True:
            inside = np.flatnonzero(node >= 0)
            if not len(inside):
                return -1 - node
            here = node[inside]
            right = self._values(U, inside, here) > self.threshold[here]
            node[inside] = self.children[here, right.astype(np.intp)]

    def _values(self, U: np.ndarray, rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        column = self.feature[nodes]
        values = U[rows, np.maximum(column, 0)]
        turned = np.flatnonzero(column < 0)
        if len(turned):
            values[turned] = np.einsum("ij,ij->i", U[rows[turned]], self.directions[-1 - column[turned]])
        return values


class Level(Protocol):
    """The nodes of one level of a tree that is grown, and their rows: in memory, or on a device."""

    dtype: Any
    n_columns: int

    @property
    def sizes(self) -> np.ndarray:
        """Rows of every node."""

    def deviations(self, nodes: np.ndarray) -> np.ndarray:
        """Deviation of every column in some nodes, ``[node, column]``; 0 where all values are equal."""

    def cut(self, nodes: np.ndarray, column: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Thresholds at these quantiles of a column, and how many rows of the node go left."""

    def turn(self, nodes: np.ndarray, directions: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same along directions, the threshold half way to the next value."""

    def rows(self, nodes: np.ndarray) -> list[np.ndarray]:
        """The rows of some nodes."""

    def divided(self, nodes: np.ndarray) -> "Level":
        """The halves of some nodes, each where it was cut last: the left one, then the right one."""


def random_partition(U: np.ndarray, leaf_rows: int, rng: np.random.RandomState, n_jobs: int | None = -1) -> Partition:
    """Cut the rows until no leaf holds more than ``leaf_rows`` of them.

    A column is drawn in proportion to its deviation within the node, and cut at a random quantile near the median.
    Rows that are all equal cannot be cut and stay together.
    """
    return grown(RowsOfLevel.root(U, n_jobs), leaf_rows, rng)


def grown(level: Level, leaf_rows: int, rng: np.random.RandomState) -> Partition:
    """The tree below a root, level by level: so it takes the same draws wherever the rows are."""
    column, threshold, directions = list[int](), list[float](), list[np.ndarray]()
    children, leaves = list[list[int]](), list[np.ndarray]()
    parents = [(-1, 0)]
    while parents:
        cut, columns, thresholds, turned = _cuts(level, leaf_rows, rng)
        columns[columns < 0] -= len(directions)
        first, inner = len(column), set(cut.tolist())
        numbers = {node: first + i for i, node in enumerate(cut.tolist())}
        ends = [node for node in range(len(parents)) if node not in inner]
        numbers |= {node: -1 - len(leaves) - i for i, node in enumerate(ends)}
        for node, (parent, side) in enumerate(parents):
            if parent >= 0:
                children[parent][side] = numbers[node]
        leaves += level.rows(np.array(ends, np.intp))
        column += columns.tolist()
        threshold += thresholds.tolist()
        directions += list(turned)
        children += [[0, 0] for _ in cut]
        parents = [(numbers[node], side) for node in cut.tolist() for side in (0, 1)]
        level = level.divided(cut)
    return Partition(
        np.array(column, np.intp),
        np.array(threshold, level.dtype),
        np.array(children, np.intp).reshape(-1, 2),
        np.array(directions, level.dtype).reshape(-1, level.n_columns),
        np.concatenate(leaves),
        np.append(0, np.cumsum([len(rows) for rows in leaves])),
    )


def grafted(top: Partition, parts: Sequence[Partition]) -> Partition:
    """One tree of cuts: that of ``top``, whose leaves, in turn, are cut on by the trees of ``parts``.

    Rows are numbered as if those of the parts stood one after the other.
    """
    nodes = len(top.feature) + np.append(0, np.cumsum([len(part.feature) for part in parts]))
    leaves = np.append(0, np.cumsum([part.n_leaves for part in parts]))
    turned = len(top.directions) + np.append(0, np.cumsum([len(part.directions) for part in parts]))
    rows = np.append(0, np.cumsum([len(part.order) for part in parts]))

    def root(leaf: int) -> int:
        """The node, or the leaf, with which a part begins."""
        return int(nodes[leaf]) if len(parts[leaf].feature) else -1 - int(leaves[leaf])

    roots = np.array([root(leaf) for leaf in range(len(parts))], np.intp)
    children = [np.where(top.children >= 0, top.children, roots[np.clip(-1 - top.children, 0, len(parts) - 1)])]
    features = [top.feature]
    for k, part in enumerate(parts):
        inner, outer = part.children + nodes[k], part.children - leaves[k]
        children.append(np.where(part.children >= 0, inner, outer))
        features.append(np.where(part.feature >= 0, part.feature, part.feature - turned[k]))
    return Partition(
        np.concatenate(features),
        np.concatenate([top.threshold, *(part.threshold for part in parts)]),
        np.concatenate(children),
        np.concatenate([top.directions, *(part.directions for part in parts)]),
        np.concatenate([part.order + rows[k] for k, part in enumerate(parts)]),
        np.append(0, np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))),
    )


def _cuts(
    level: Level, leaf_rows: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes that are cut, their columns (or ``-1 - d`` for the d-th direction), thresholds, and the directions."""
    sizes = level.sizes
    nodes = np.flatnonzero(sizes > leaf_rows)
    deviation = level.deviations(nodes)
    draws = rng.uniform(size=(len(nodes), 2))
    total = deviation.sum(axis=1)
    some = total > 0
    nodes, deviation, draws, total = nodes[some], deviation[some], draws[some], total[some]
    quantile = CUT[0] + (CUT[1] - CUT[0]) * draws[:, 0]
    below = np.cumsum(deviation, axis=1) / total[:, None] < draws[:, 1:]
    column = np.minimum(below.sum(axis=1), level.n_columns - 1)
    threshold, left = level.cut(nodes, column, quantile)
    right = 1 - left / sizes[nodes]
    lopsided = np.flatnonzero((right < LOPSIDED) | (right > 1 - LOPSIDED))
    ways = (rng.standard_normal((len(lopsided), level.n_columns)) * (deviation[lopsided] > 0)).astype(level.dtype)
    if len(lopsided):
        threshold[lopsided], left[lopsided] = level.turn(nodes[lopsided], ways, quantile[lopsided])
        column[lopsided] = -1 - np.arange(len(lopsided))
    kept = (left > 0) & (left < sizes[nodes])
    straight = np.ones(len(nodes), bool)
    straight[lopsided] = False
    ways = ways[kept[lopsided]]
    column[kept & ~straight] = -1 - np.arange(len(ways))
    return nodes[kept], column[kept], threshold[kept], ways


class RowsOfLevel:
    """A level in memory: columns of the rows, node after node; the halves of a node take its place."""

    def __init__(self, W: np.ndarray, order: np.ndarray, starts: np.ndarray, sizes: np.ndarray, n_jobs: int | None):
        self.W, self.order, self.starts, self._sizes, self.n_jobs = W, order, starts, sizes, n_jobs
        self.dtype, self.n_columns = W.dtype, len(W)
        self._halves: dict[int, tuple[np.ndarray, int]] = {}

    @classmethod
    def root(cls, U: np.ndarray, n_jobs: int | None) -> "RowsOfLevel":
        """All rows in one node."""
        zero = np.zeros(1, np.intp)
        return cls(np.array(U.T, order="C"), np.arange(len(U)), zero, zero + len(U), n_jobs)

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def _place(self, node: int) -> slice:
        return slice(self.starts[node], self.starts[node] + self._sizes[node])

    def _each(self, work: Callable[[Item], Result], items: Sequence[Item], cells: Any) -> Iterator[Result]:
        """Work on every item, threads on several at once: each of them has so many numbers to look at."""
        ends = np.cumsum(cells)
        groups = np.split(np.arange(len(items)), np.flatnonzero(np.diff(ends // TASK_CELLS)) + 1) if len(items) else []
        for found in engine.ordered_map(lambda group: [work(items[i]) for i in group], groups, self.n_jobs):
            yield from found

    def deviations(self, nodes: np.ndarray) -> np.ndarray:
        """Deviation of every column in some nodes: of differences to the first row, so that equal values have none."""
        length = max(1, PIECE_CELLS // self.n_columns)
        pieces = [(i, piece) for i, node in enumerate(nodes) for piece in engine.pieces(self._sizes[node], length)]

        def sums(each: tuple[int, slice]) -> tuple[int, np.ndarray, np.ndarray]:
            (i, piece), start = each, self.starts[nodes[each[0]]]
            Z = self.W[:, start + piece.start : start + piece.stop] - self.W[:, start, None]
            return i, Z.sum(axis=1), np.einsum("ij,ij->i", Z, Z)

        mean, square = np.zeros((2, len(nodes), self.n_columns))
        cells = [self.n_columns * (piece.stop - piece.start) for _, piece in pieces]
        for i, first, second in self._each(sums, pieces, cells):
            mean[i] += first
            square[i] += second
        count = self._sizes[nodes, None]
        mean /= count
        return np.sqrt(np.maximum(square / count - mean**2, 0.0))

    def cut(self, nodes: np.ndarray, column: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Thresholds at these quantiles of a column, and how many rows go left."""
        return self._cut(nodes, lambda i: self.W[column[i], self._place(nodes[i])], quantile)

    def turn(self, nodes: np.ndarray, directions: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def along(i: int) -> np.ndarray:
            return np.einsum("ji,j->i", self.W[:, self._place(nodes[i])], directions[i])

        # between two rows: the product is not the same to the last digit wherever it is computed
        return self._cut(nodes, along, quantile, between=True)

    def _cut(
        self, nodes: np.ndarray, values_of: Callable[[int], np.ndarray], quantile: np.ndarray, between: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        def work(i: int) -> tuple[float, np.ndarray, int]:
            values = values_of(i)
            threshold, right = _at_quantile(values, quantile[i])
            if between:
                threshold = (threshold + values[right].min(initial=np.inf)) / 2
            left = np.flatnonzero(~right)
            return threshold, np.concatenate([left, np.flatnonzero(right)]), len(left)

        found = list(self._each(work, range(len(nodes)), self._sizes[nodes]))
        self._halves |= {node: (order, left) for node, (_, order, left) in zip(nodes.tolist(), found, strict=True)}
        return np.array([each[0] for each in found]), np.array([each[2] for each in found], np.intp)

    def rows(self, nodes: np.ndarray) -> list[np.ndarray]:
        return [self.order[self._place(node)].copy() for node in nodes]

    def divided(self, nodes: np.ndarray) -> "RowsOfLevel":
        """The halves of some nodes; this level is no more."""
        halves = [self._halves[node] for node in nodes.tolist()]

        def sort(each: tuple[int, int]) -> None:
            i, j = each
            values = self.order[self._place(nodes[i])] if j < 0 else self.W[j, self._place(nodes[i])]
            values[:] = values.take(halves[i][0])

        each = [(i, j) for i in range(len(nodes)) for j in range(-1, self.n_columns)]
        for _ in self._each(sort, each, np.repeat(self._sizes[nodes], self.n_columns + 1)):
            pass
        starts, sizes, left = self.starts[nodes], self._sizes[nodes], np.array([n for _, n in halves], np.intp)
        starts, sizes = np.column_stack([starts, starts + left]), np.column_stack([left, sizes - left])
        return RowsOfLevel(self.W, self.order, starts.ravel(), sizes.ravel(), self.n_jobs)


def _at_quantile(values: np.ndarray, quantile: float) -> tuple[float, np.ndarray]:
    """A threshold at this quantile, and which values lie above it; the largest value is never the threshold."""
    place = int(quantile * (len(values) - 1))
    threshold = np.partition(values, place)[place]
    top = values.max()
    if threshold == top:
        below = values[values < top]
        threshold = below.max() if len(below) else top
    return threshold, values > threshold
