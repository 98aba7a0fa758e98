"""Adaptive models in ONNX operators: the view of the columns, and the local stage, a loop over the leaves asked for.

Leaves of a partition are found by walking trees.
"""

from collections.abc import Sequence

import numpy as np

from ulmus.features.kernels import KERNELS, KernelParameters
from ulmus.features.partition import Partition
from ulmus.models._adaptive import AdaptiveModel
from ulmus.onnx.graph import Graph
from ulmus.onnx.preprocessing import Columns
from ulmus.onnx.tables import Texts, encoded, prepared
from ulmus.onnx.trees import Tree, walk
from ulmus.solvers.boosted import BoostedTrees
from ulmus.solvers.local import LocalKernels


def coordinates(g: Graph, block: Columns, model: AdaptiveModel) -> str:
    """The rows as the kernel of the model sees them."""
    if model.fitted_.weights.grid is not None:
        raise TypeError(
            "an adaptive model with monotonic_cst cannot be exported: answers on a grid are made isotonic by a search "
            "that ONNX has no operators for; NKELMRegressor(monotonic_cst=...) can"
        )
    view = model.view_
    texts: Texts = {}
    if model.encoder_ is not None:
        block, texts = encoded(g, block, model.encoder_)
    P = prepared(g, block, view.preparation, texts)
    A = np.asarray(view.metric)
    if A.ndim == 1 and not A.all():  # columns that the metric leaves out
        P, A = g.columns(P, np.flatnonzero(A)), A[A > 0]
    U = g.Mul(P, A) if A.ndim == 1 else g.MatMul(P, A)
    return g.number(g.cast(U, np.float32))


def local_kernels(g: Graph, U: str, local: LocalKernels) -> str:
    """The mean answer of the leaves of every row.

    Leaves are numbered through all partitions, and the loop runs over those in which a row lies: κ between these rows
    and those of the leaf, times the weights of the leaf.
    """
    count, n_rows, width = len(local.partitions), len(local.U), local.alphas[0].shape[1]
    rows = g.constant(local.U.astype(np.float32))  # holds all their digits: ulmus.features.metric.through
    order = g.constant(np.concatenate([p.order for p in local.partitions]).astype(np.int64))
    alpha = g.value(np.concatenate(local.alphas) / count)
    begins = g.integers(*np.concatenate([p.starts[:-1] + i * n_rows for i, p in enumerate(local.partitions)]))
    ends = g.integers(*np.concatenate([p.starts[1:] + i * n_rows for i, p in enumerate(local.partitions)]))
    leaves = _leaves(g, U, local.partitions)
    asked = g.Unique(leaves)

    def step(number: str, total: str) -> str:
        leaf = g.Gather(asked, number)
        begin, end = g.Gather(begins, leaf), g.Gather(ends, leaf)
        queries = g.Gather(g.NonZero(g.Equal(leaves, leaf)), g.constant(np.array(0)))
        V = g.number(g.Gather(rows, g.Slice(order, begin, end)))
        answer = g.MatMul(_kernel(g, g.Gather(U, queries), V, local), g.Slice(alpha, begin, end))
        return g.ScatterND(total, g.Unsqueeze(queries, g.integers(1)), answer, reduction="add")

    return g.loop(g.Size(asked), g.rows_of(U, width), width, step)


def _leaves(g: Graph, U: str, partitions: Sequence[Partition]) -> str:
    """The leaf of every row in every partition."""
    directions = [p.directions for p in partitions]
    turned = np.concatenate(directions)
    values = g.join(U, g.MatMul(U, turned.T)) if len(turned) else U
    m, trees, first, before = partitions[0].directions.shape[1], [], [0], 0
    for p in partitions:
        column = np.where(p.feature >= 0, p.feature, m + before - 1 - p.feature)
        trees.append(Tree("BRANCH_LEQ", column, p.threshold, p.children))
        first.append(first[-1] + p.n_leaves)
        before += len(p.directions)
    return g.Add(walk(g, values, trees), g.integers(*first[:-1]))


def _kernel(g: Graph, Q: str, V: str, local: LocalKernels) -> str:
    """κ of rows and rows, its distances from differences."""
    kernel = KERNELS[local.kernel]
    s = float(kernel.scale(local.gamma))
    squared = kernel.embedding == "distance"
    distance = g.distances(g.Mul(Q, s), g.Mul(V, s), squared=squared)
    return str(kernel.onnx(g, g.Neg(distance) if squared else distance, KernelParameters(local.gamma)))


def boosted_trees(g: Graph, U: str, trees: BoostedTrees) -> str:
    """The sum of trees: leaves of all of them are numbered through, and each holds its answers."""
    leaves, width = trees.value.shape[1:]
    inside, nodes = leaves - 1, 2 ** np.arange(trees.feature.shape[1])  # a level asks all its nodes the same
    children = 1 + np.arange(2 * inside).reshape(-1, 2)
    children = np.where(children < inside, children, inside - 1 - children)  # leaf 0 comes after the last node
    shapes = [
        Tree("BRANCH_LEQ", np.repeat(column, nodes), np.repeat(cut, nodes), children)
        for column, cut in zip(trees.feature, trees.threshold, strict=True)
    ]
    reached = g.Add(walk(g, U, shapes), g.integers(*(leaves * np.arange(len(trees)))))
    answers = g.Gather(g.constant(trees.value.reshape(-1, width).astype(g.dtype)), reached)
    return g.Add(g.ReduceSum(answers, g.integers(1), keepdims=0), trees.constant)
