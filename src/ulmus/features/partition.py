"""Random kd-partitions: rows that are near each other share a leaf, and every query finds its leaf."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ulmus import engine

#: Rows whose leaves are looked up at a time: what is held of them stays in cache.
QUERIES = 2**16
#: Where a node is cut: a random quantile between these.
CUT = (0.4, 0.6)
#: A cut that leaves less than this share on one side (ties) is replaced by one along a random direction.
LOPSIDED = 0.2


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


def random_partition(U: np.ndarray, leaf_rows: int, rng: np.random.RandomState) -> Partition:
    """Cut the rows until no leaf holds more than ``leaf_rows`` of them.

    A column is drawn in proportion to its deviation within the node, and cut at a random quantile near the median.
    Rows that are all equal cannot be cut and stay together.
    """
    return grown(RowsOfLevel(U, [np.arange(len(U))]), leaf_rows, rng)


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
    """A level in memory: the rows of every node."""

    def __init__(self, U: np.ndarray, rows: list[np.ndarray]) -> None:
        self.U, self._rows, self.dtype, self.n_columns = U, rows, U.dtype, U.shape[1]
        self._right: dict[int, np.ndarray] = {}

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(rows) for rows in self._rows], np.intp)

    def deviations(self, nodes: np.ndarray) -> np.ndarray:
        """Deviation of every column in some nodes."""
        return np.array([self.U[self._rows[node]].std(axis=0) for node in nodes]).reshape(-1, self.n_columns)

    def cut(self, nodes: np.ndarray, column: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Thresholds at these quantiles of a column, and how many rows go left."""
        threshold, left = np.empty(len(nodes)), np.empty(len(nodes), np.intp)
        for i, node in enumerate(nodes.tolist()):
            threshold[i], right = _at_quantile(self.U[self._rows[node], column[i]], quantile[i])
            self._right[node], left[i] = right, len(right) - np.count_nonzero(right)
        return threshold, left

    def turn(self, nodes: np.ndarray, directions: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        threshold, left = np.empty(len(nodes)), np.empty(len(nodes), np.intp)
        for i, node in enumerate(nodes.tolist()):
            values = np.einsum("ij,j->i", self.U[self._rows[node]], directions[i])
            threshold[i], right = _at_quantile(values, quantile[i])
            # between two rows: the product is not the same to the last digit wherever it is computed
            threshold[i] = (threshold[i] + values[right].min(initial=np.inf)) / 2
            self._right[node], left[i] = right, len(right) - np.count_nonzero(right)
        return threshold, left

    def rows(self, nodes: np.ndarray) -> list[np.ndarray]:
        return [self._rows[node] for node in nodes.tolist()]

    def divided(self, nodes: np.ndarray) -> "RowsOfLevel":
        """The halves of some nodes."""
        halves = list[np.ndarray]()
        for node in nodes.tolist():
            rows, right = self._rows[node], self._right[node]
            halves += [rows[~right], rows[right]]
        return RowsOfLevel(self.U, halves)


def _at_quantile(values: np.ndarray, quantile: float) -> tuple[float, np.ndarray]:
    """A threshold at this quantile, and which values lie above it; the largest value is never the threshold."""
    threshold = np.quantile(values, quantile, method="lower")
    top = values.max()
    if threshold == top:
        below = values[values < top]
        threshold = below.max() if len(below) else top
    return threshold, values > threshold
