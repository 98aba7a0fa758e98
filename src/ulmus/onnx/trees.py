"""Trees of cuts in ONNX: an ensemble whose leaves hold their own numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.onnx.graph import ML, Graph


@dataclass(frozen=True)
class Tree:
    """Node 0 is the root. ``mode`` compares a column with the threshold: true goes to the first of the children.

    ``children`` are node numbers, or ``-1 - leaf``; a tree without nodes is the leaf 0.
    """

    mode: str
    column: np.ndarray
    threshold: np.ndarray
    children: np.ndarray


def search_tree(knots: np.ndarray, column: int) -> Tree:
    """Bisection: the leaf is the number of knots that are not above the value."""
    thresholds: list[float] = []
    children: list[list[int]] = []

    def node(low: int, high: int) -> int:
        """For values of which at least ``low`` and at most ``high`` knots are not above."""
        if low == high:
            return -1 - low
        here, middle = len(thresholds), (low + high) // 2
        thresholds.append(knots[middle])
        children.append([0, 0])
        children[here] = [node(low, middle), node(middle + 1, high)]
        return here

    node(0, len(knots))
    return Tree("BRANCH_LT", np.full(len(thresholds), column), np.array(thresholds), np.array(children))


def walk(g: Graph, X: str, trees: list[Tree]) -> str:
    """The leaf of every row in every tree, as whole numbers ``[row, tree]``."""
    columns: dict[str, list[Any]] = {name: [] for name in ("tree", "node", "mode", "column", "cut", "true", "false")}
    targets: dict[str, list[Any]] = {name: [] for name in ("tree", "node", "leaf")}
    for t, tree in enumerate(trees):
        n = len(tree.threshold)
        leaves = -1 - tree.children[tree.children < 0] if n else np.zeros(1, int)
        node_of_leaf = n + np.argsort(np.argsort(leaves))  # leaves stand behind the nodes, in their order
        children = np.array(tree.children)
        children[children < 0] = node_of_leaf if n else []
        blank = [0] * len(leaves)
        columns["tree"] += [t] * (n + len(leaves))
        columns["node"] += range(n + len(leaves))
        columns["mode"] += [tree.mode] * n + ["LEAF"] * len(leaves)
        columns["column"] += [*tree.column.tolist(), *blank]
        columns["cut"] += [*tree.threshold.tolist(), *blank]
        columns["true"] += [*children[:, 0].tolist(), *blank] if n else blank
        columns["false"] += [*children[:, 1].tolist(), *blank] if n else blank
        targets["tree"] += [t] * len(leaves)
        targets["node"] += node_of_leaf.tolist()
        targets["leaf"] += leaves.tolist()
    double = g.dtype == np.float64
    numbers = {"nodes_values": columns["cut"], "target_weights": [float(leaf) for leaf in targets["leaf"]]}
    found = g.TreeEnsembleRegressor(
        X,
        domain=ML,
        n_targets=len(trees),
        nodes_treeids=columns["tree"],
        nodes_nodeids=columns["node"],
        nodes_modes=columns["mode"],
        nodes_featureids=columns["column"],
        nodes_truenodeids=columns["true"],
        nodes_falsenodeids=columns["false"],
        target_treeids=targets["tree"],
        target_nodeids=targets["node"],
        target_ids=targets["tree"],
        **({f"{k}_as_tensor": g.tensor(np.array(v, float)) for k, v in numbers.items()} if double else numbers),
    )
    return g.cast(found, np.int64)
