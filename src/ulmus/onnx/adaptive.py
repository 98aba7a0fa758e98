"""Adaptive models in ONNX operators: the view of the columns, and the local stage, a loop over the leaves asked for.

Coordinates are rounded to float32 and cut into leaves, so they must come out to the last bit: every step is the same
arithmetic in the same order as ours, and what depends on a category alone is looked up in a table that we computed.
Intervals of a curve and leaves of a partition are found by walking trees.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ulmus.features.cuts import SIZE
from ulmus.features.kernels import KERNELS, KernelParameters
from ulmus.features.partition import Partition
from ulmus.features.preparation import MISSING as NO_LEVEL
from ulmus.features.preparation import Columns as Curves
from ulmus.features.preparation import Preparation
from ulmus.models.adaptive import AdaptiveFamily
from ulmus.onnx.graph import Graph
from ulmus.onnx.preprocessing import Columns, Portion, dates, select
from ulmus.onnx.trees import Tree, search_tree, walk
from ulmus.solvers.local import LocalKernels

#: How a missing value is called as a level of a text column; an empty string stands for it in ONNX.
MISSING = ("", "None", "nan", "<NA>", "NaT")


def coordinates(g: Graph, block: Columns, model: AdaptiveFamily) -> str:
    """The rows as the kernel of the model sees them."""
    view, preparation = model.view_, model.view_.preparation
    names = list(getattr(model, "feature_names_in_", range(model.n_features_in_)))
    parts, means = [], []
    block = _with_dates(g, block, model)
    if len(preparation.numeric):
        numbers = select(g, block, preparation.numeric.tolist())
        text = [part.name for part in numbers if part.kind != "number"]
        if text:
            raise TypeError(f"column {text[0]!r} held numbers in training and is text here")
        X, gaps = g.join(*(part.value for part in numbers)), preparation.gaps
        missing = g.IsNaN(X)
        filled, cuts = g.Where(missing, gaps.fills, X), preparation.cuts
        parts.append(_curves(g, filled, preparation.columns))
        parts += [g.number(g.columns(missing, gaps.shown))] if len(gaps.shown) else []
        if cuts is not None:
            parts.append(g.Mul(g.number(g.Greater(g.columns(filled, cuts.column), cuts.at)), SIZE))
    for j, dummies, smoothed in _tables(preparation):
        (part,) = select(g, block, [int(j)])
        place = _place(g, part, preparation, int(j), model._levels.get(str(names[j])))
        parts.append(g.Gather(dummies, place))
        means += [g.Gather(smoothed, place)] if smoothed.shape[1] else []
    P = g.join(*parts, *means)
    A = np.asarray(view.metric)
    if A.ndim == 1 and not A.all():  # columns that the metric leaves out
        P, A = g.columns(P, np.flatnonzero(A)), A[A > 0]
    U = g.Mul(P, A) if A.ndim == 1 else g.MatMul(P, A)
    return g.number(g.cast(U, np.float32))


def _with_dates(g: Graph, block: Columns, model: Any) -> Columns:
    """The columns, then where their dates stand in their periods, as the model adds them."""
    if model._dates is None or not any(model._dates.periods_):
        return block
    parts = dates(g, select(g, block, list(model._dated)), model._dates)
    is_cycle = [k > 0 for periods in model._dates.periods_ for k in range(1 + 2 * len(periods))]
    return [*block, *select(g, parts, np.flatnonzero(is_cycle).tolist())]


def _curves(g: Graph, X: str, curves: Curves) -> str:
    """Prepared numbers: :meth:`ulmus.features.preparation.Columns.transform`."""
    if curves.kind == "quantile":
        Z = _interpolated(g, X, curves)
    else:
        Z = g.Div(g.Sub(X, curves.centre), curves.scale)
        if curves.kind == "clip":
            third = g.Div(Z, 3.0)
            Z = g.Div(Z, g.Sqrt(g.Add(g.Mul(third, third), 1.0)))
    return Z if curves.deviation is None else g.Div(Z, curves.deviation)


def _interpolated(g: Graph, X: str, curves: Curves) -> str:
    """``slope (x − knot) + value`` in the interval of x; flat beyond the ends."""
    trees, tables, first = [], [], [0]
    for j, (k, v) in enumerate(zip(curves.knots, curves.values, strict=True)):
        with np.errstate(over="ignore"):
            steep = np.diff(v) / np.diff(k)
        slope = np.concatenate([[0.0], np.where(np.isfinite(steep), steep, 0.0), [0.0]])
        tables.append(np.array([np.append(k[0], k), slope, np.append(v[0], v)]))
        trees.append(search_tree(k, j))
        first.append(first[-1] + len(k) + 1)
    knots, slopes, values = (g.constant(row.astype(g.dtype)) for row in np.concatenate(tables, axis=1))
    place = g.Add(walk(g, X, trees), g.integers(*first[:-1]))
    return g.Add(g.Mul(g.Gather(slopes, place), g.Sub(X, g.Gather(knots, place))), g.Gather(values, place))


def _tables(preparation: Preparation) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of every category its column, and what its levels become; the first row is for a level never seen."""
    found, start = [], 0
    for j, category in zip(preparation.categorical, preparation.categories, strict=True):
        codes = np.append(category.levels.max() + 1, category.levels)
        smoothed = np.empty((len(codes), 0))
        if category.has_means:
            stop = start + len(category.overall)
            smoothed = category.means(codes) / preparation.mean_deviation[start:stop]
            start = stop
        found.append((j, category.dummies(codes), smoothed))
    return found


def _place(g: Graph, part: Portion, preparation: Preparation, j: int, texts: Sequence[str] | None) -> str:
    """The number of the level in a column, from 1; 0 for one never seen."""
    levels = preparation.categories[list(preparation.categorical).index(j)].levels
    rank = np.arange(1.0, len(levels) + 1)
    if (part.kind == "string") != (texts is not None):
        was, now = ("text", "numbers") if texts is not None else ("numbers", "text")
        raise TypeError(f"column {part.name!r} held {was} in training and holds {now} here")
    if texts is None:
        value = g.Where(g.IsNaN(part.value), NO_LEVEL, part.value) if NO_LEVEL in levels else part.value
        hit = g.Equal(value, levels[None])
    else:
        known = [texts[int(code)] for code in levels]
        missing = [k for name in MISSING for k, level in enumerate(known) if level == name][:1]
        hit = g.Equal(part.value, g.constant(np.array([known + [""] * len(missing)])))
        rank = np.append(rank, rank[missing])
    place = g.ReduceMax(g.Mul(g.number(hit), rank), g.integers(1), keepdims=0)
    return g.cast(place, np.int64)


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
