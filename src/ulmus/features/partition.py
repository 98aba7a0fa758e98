"""Random kd-partitions: rows that are near each other share a leaf, and every query finds its leaf."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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


def random_partition(U: np.ndarray, leaf_rows: int, rng: np.random.RandomState) -> Partition:
    """Cut the rows until no leaf holds more than ``leaf_rows`` of them.

    A column is drawn in proportion to its deviation within the node, and cut at a random quantile near the median.
    Rows that are all equal cannot be cut and stay together.
    """
    nodes: list[tuple[int, float]] = []
    children: list[list[int]] = []
    directions: list[np.ndarray] = []
    leaves: list[np.ndarray] = []
    stack = [(np.arange(len(U)), -1, 0)]
    while stack:
        rows, parent, side = stack.pop()
        cut = _cut(U, rows, directions, rng) if len(rows) > leaf_rows else None
        if cut is None:
            number = -1 - len(leaves)
            leaves.append(rows)
        else:
            column, threshold, right = cut
            number = len(nodes)
            nodes.append((column, threshold))
            children.append([0, 0])
            stack += [(rows[right], number, 1), (rows[~right], number, 0)]
        if parent >= 0:
            children[parent][side] = number
    sizes = np.array([len(rows) for rows in leaves])
    return Partition(
        np.array([column for column, _ in nodes], np.intp),
        np.array([threshold for _, threshold in nodes], U.dtype),
        np.array(children, np.intp).reshape(-1, 2),
        np.array(directions, U.dtype).reshape(-1, U.shape[1]),
        np.concatenate(leaves) if len(U) else np.empty(0, np.intp),
        np.append(0, np.cumsum(sizes)),
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


def _cut(
    U: np.ndarray, rows: np.ndarray, directions: list[np.ndarray], rng: np.random.RandomState
) -> tuple[int, float, np.ndarray] | None:
    """Column (or direction), threshold, and which rows go right; None for rows that are all equal."""
    V = U[rows]
    deviation = V.std(axis=0)
    total = deviation.sum()
    quantile = rng.uniform(*CUT)
    chance = rng.uniform()
    if not total > 0:
        return None
    column = min(int(np.searchsorted(np.cumsum(deviation) / total, chance)), U.shape[1] - 1)
    threshold, right = _at_quantile(V[:, column], quantile)
    if LOPSIDED <= right.mean() <= 1 - LOPSIDED:
        return column, threshold, right
    direction = (rng.standard_normal(U.shape[1]) * (deviation > 0)).astype(U.dtype)
    threshold, right = _at_quantile(np.einsum("ij,j->i", V, direction), quantile)
    if not 0 < right.mean() < 1:
        return None
    directions.append(direction)
    # between two rows: the product is not the same to the last digit wherever it is computed
    return -len(directions), (threshold + np.einsum("ij,j->i", V[right], direction).min()) / 2, right


def _at_quantile(values: np.ndarray, quantile: float) -> tuple[float, np.ndarray]:
    """A threshold at this quantile, and which values lie above it; the largest value is never the threshold."""
    threshold = np.quantile(values, quantile, method="lower")
    top = values.max()
    if threshold == top:
        below = values[values < top]
        threshold = below.max() if len(below) else top
    return threshold, values > threshold
