"""The one reduction: rows → blocks → threads → sums.

Every pass over data goes through :func:`ordered_map`. Rows are cut into slabs whose borders depend on the
number of rows alone, slabs are worked on by threads that each run single-threaded BLAS, and results are handed
back in the order of the slabs. The outcome is therefore the same, bit for bit, for any number of threads.
"""

import os
import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ulmus._blas import solve_lower_transposed
from ulmus._threads import on_threads, one_thread, ordered_map
from ulmus.statistics import Extent, Statistics, TriangularStatistics, power_of_two

#: Bytes of features that one thread holds at a time: large enough for BLAS to run at full rate.
BLOCK_BYTES = 16 * 2**20
#: Bytes of features that are evaluated at a time: small enough to stay in cache.
TILE_BYTES = 2**20
#: Rows in a slab, at most; slabs come in multiples of 32 so that common core counts divide them.
SLAB_ROWS = 16_384

#: Relative error that single precision may add to a prediction.
SINGLE_LOSS = 1e-4
#: Order of matrices up to which BLAS runs on one thread.
SMALL = 2048

Tile = tuple[slice, np.ndarray]


class FeatureMap(Protocol):
    """What the engine needs of a feature map: a block of rows in, a block of features out."""

    n_features_out: int

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        """Write the features of the rows ``X`` into ``out`` (C-ordered, float32 or float64)."""


@dataclass
class Precomputed:
    """The features of rows that are features already."""

    n_features_out: int

    def transform_block(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write them into ``out``."""
        out[:] = X


@dataclass(frozen=True)
class Rows:
    """Rows in memory: inputs, targets, weights, and the weight of one copy of each row (None means 1).

    A row that weighs k stands for k copies; leaving one out takes ``unit`` away. ``fold`` numbers the folds in which
    rows are tested (−1: in none), for searches that carry their rows with them; None asks for leave-one-out. ``place``
    says which rows they were, where inputs have been replaced since.
    """

    X: Any
    T: np.ndarray
    weight: np.ndarray | None = None
    unit: np.ndarray | None = None
    fold: np.ndarray | None = None
    place: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: slice) -> "Rows":
        return self.take(rows)

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """These rows."""
        others = (self.weight, self.unit, self.fold, self.place)
        return Rows(self.X[rows], self.T[rows], *(None if a is None else a[rows] for a in others))

    @property
    def target_bound(self) -> float:
        """The largest absolute target."""
        return float(max(self.T.max(), -self.T.min()))

    @property
    def target_reach(self) -> np.ndarray:
        """Half the range of every target."""
        return Extent.of(self.T).target_reach

    @property
    def effective_count(self) -> float:
        """Number of rows, copies counted."""
        return len(self) if self.weight is None else max(len(self), float(self.weight.sum()))

    @property
    def weights(self) -> np.ndarray:
        """The weights; 1 for every row where they have none."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows where they have none."""
        return float(len(self) if self.weight is None else self.weight.sum())

    def reweighted(self, factor: np.ndarray) -> "Rows":
        """Rows whose weights (and those of one copy) are multiplied; rows of weight 0 are gone."""
        weight, unit = (factor if a is None else a * factor for a in (self.weight, self.unit))
        rows = replace(self, weight=weight, unit=unit)
        return rows if factor.all() else rows.take(factor > 0)


def pieces(n_rows: int, length: int) -> Iterator[slice]:
    """Consecutive slices of at most ``length`` rows."""
    for start in range(0, n_rows, length):
        yield slice(start, min(start + length, n_rows))


def shares(n_rows: int, most: int) -> list[slice]:
    """Pieces of at most this many rows, and some for every thread where that leaves each enough to do."""
    return list(pieces(n_rows, max(64, min(most, max(512, n_rows // 8)))))


def slabs(n_rows: int, n_features: int = 1) -> list[slice]:
    """The fixed division of ``n_rows`` into equal slabs, not much shorter than their sums are wide."""
    if n_rows <= 1024:
        return list(pieces(n_rows, max(n_rows, 1)))
    count = 32 * -(-n_rows // (32 * SLAB_ROWS))
    return list(pieces(n_rows, max(1024, n_features // 2, -(-n_rows // count))))


def threads_for(size: int) -> AbstractContextManager[Any]:
    """BLAS on one thread for matrices so small that threads spend their time waiting for each other.

    Around many small products it matters more: BLAS's threads go on spinning after each, where ours could work.
    """
    return one_thread if size <= SMALL else nullcontext()


class Workspace(threading.local):
    """Per-thread buffers, allocated once: a fresh block costs as much in page faults as its exponentials."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        """A C-ordered array of this shape over a buffer that is kept for the next call."""
        size = shape[0] * shape[1]
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self._buffers[name] = np.zeros(size, dtype)
        return buffer[:size].reshape(shape)


def tile_rows(n_features: int, dtype: Any) -> int:
    return max(16, TILE_BYTES // (np.dtype(dtype).itemsize * max(1, n_features)))


def block_rows(n_features: int, dtype: Any) -> int:
    return max(64, BLOCK_BYTES // (8 * max(1, n_features)) * (1 if np.dtype(dtype) == np.float64 else 4))


def feature_tiles(features: FeatureMap, rows: Rows, dtype: Any, workspace: Workspace) -> Iterator[Tile]:
    """Features tile by tile, each finished while it is in cache and valid until the next one."""
    D = features.n_features_out
    for tile in pieces(len(rows), tile_rows(D, dtype)):
        Phi = workspace.array("tile", (tile.stop - tile.start, D), dtype)
        features.transform_block(rows.X[tile], Phi)
        yield tile, Phi


def design_blocks(features: FeatureMap, rows: Rows, dtype: Any, workspace: Workspace) -> Iterator[np.ndarray]:
    """Blocks of rows ``√w [φ t 1]``, each in this thread's buffer and valid until the next one."""
    D, s = features.n_features_out, rows.T.shape[1]
    for piece in pieces(len(rows), block_rows(D, dtype)):
        block = rows[piece]
        out = workspace.array("block", (len(block), D + s + 1), dtype)
        if isinstance(features, Precomputed):
            out[:, :D] = block.X
        else:
            for tile, Phi in feature_tiles(features, block, dtype, workspace):
                out[tile, :D] = Phi
        out[:, D:-1] = block.T
        out[:, -1] = 1
        if block.weight is not None:
            out *= np.sqrt(block.weight).astype(dtype)[:, None]
        yield out


class GramSums:
    """Rows → their statistics in Gram form (upper triangles), with buffers that are used again.

    Threads may share one; a result is given back when it has been added.
    """

    def __init__(self, features: FeatureMap, n_outputs: int, dtype: Any = np.float64) -> None:
        self.features, self.n_outputs, self.dtype = features, n_outputs, dtype
        self._workspace = Workspace()
        self._free: queue.SimpleQueue[Statistics] = queue.SimpleQueue()

    def __call__(self, rows: Rows) -> Statistics:
        try:
            part = self._free.get_nowait()
            part.reset()
        except queue.Empty:
            part = self.zeros()
        width = len(part.moments)
        scratch = None if self.dtype == np.float64 else self._workspace.array("gram", (width, width), self.dtype)
        for block in design_blocks(self.features, rows, self.dtype, self._workspace):
            part.add_rows(block, scratch)
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        return GramSums, (self.features, self.n_outputs, self.dtype)

    def zeros(self) -> Statistics:
        return Statistics.zeros(self.features.n_features_out, self.n_outputs)

    def give_back(self, part: Statistics) -> None:
        self._free.put(part)


def gram_statistics(
    features: FeatureMap, rows: Rows, *, dtype: Any = np.float64, n_jobs: int | None = -1
) -> Statistics:
    """Sum the statistics of ``rows`` in Gram form.

    Float32 blocks see targets about their mean and near 1, so that neither their place nor their units cost digits.
    """
    mean, unit = np.zeros(rows.T.shape[1]), np.ones(rows.T.shape[1])
    if np.dtype(dtype) != np.float64:
        mean = np.average(rows.T, axis=0, weights=rows.weight)
        unit = power_of_two(np.abs(rows.T - mean).max(axis=0))
        rows = replace(rows, T=(rows.T - mean) / unit)
    sums = GramSums(features, rows.T.shape[1], dtype)
    total = sums.zeros()
    for part in ordered_map(lambda slab: sums(rows[slab]), slabs(len(rows), features.n_features_out), n_jobs):
        total += part
        sums.give_back(part)
    total.symmetrise()
    return total if np.dtype(dtype) == np.float64 else total.recoded(np.vstack([np.diag(unit), mean]))


def triangular_statistics(features: FeatureMap, rows: Rows, *, n_jobs: int | None = -1) -> TriangularStatistics:
    """Sum the statistics of ``rows`` in triangular form: dearer, and exact where squaring loses digits."""
    D, s = features.n_features_out, rows.T.shape[1]
    workspace = Workspace()

    def work(slab: slice) -> TriangularStatistics:
        part = TriangularStatistics.zeros(D, s)
        for block in design_blocks(features, rows[slab], np.float64, workspace):
            part.add_rows(block)
        return part

    total = TriangularStatistics.zeros(D, s)
    for part in ordered_map(work, slabs(len(rows), D), n_jobs):
        total += part
    return total


def gradient(
    features: FeatureMap,
    rows: Rows,
    weights: np.ndarray,
    intercept: np.ndarray,
    *,
    n_jobs: int | None = -1,
    dtype: Any = np.float64,
) -> np.ndarray:
    """``[Φ 1]ᵀ W (T − Φβ − b)``: from the rows themselves, in float64, so that no digit is lost to squaring.

    In float32 only the sum over the slabs is taken in float64.
    """
    D, s = features.n_features_out, rows.T.shape[1]
    workspace = Workspace()
    unit = np.ones(s)
    if np.dtype(dtype) != np.float64:
        unit = power_of_two(np.maximum(*(np.abs(a).max(axis=0, initial=0.0) for a in (weights, rows.T))))
        rows, intercept = replace(rows, T=rows.T / unit), intercept / unit
    weights = (weights / unit).astype(dtype, copy=False)

    def work(slab: slice) -> np.ndarray:
        part = np.zeros((D + 1, s))
        slab_rows = rows[slab]
        for tile, Phi in feature_tiles(features, slab_rows, dtype, workspace):
            E = slab_rows.T[tile] - Phi @ weights - intercept
            if slab_rows.weight is not None:
                E *= slab_rows.weight[tile, None]
            part[:-1] += Phi.T @ E.astype(dtype, copy=False)
            part[-1] += E.sum(axis=0)
        return part

    total = np.zeros((D + 1, s))
    for part in ordered_map(work, slabs(len(rows)), n_jobs):
        total += part
    return total * unit


def transform_rows(features: FeatureMap, X: Any) -> np.ndarray:
    """Features of a few rows, by the thread that asks."""
    out = np.empty((X.shape[0], features.n_features_out))
    features.transform_block(X, out)
    return out


def transform(features: FeatureMap, X: Any, out: np.ndarray | None = None, *, n_jobs: int | None = -1) -> np.ndarray:
    """All features of ``X``, written into ``out`` where there is one."""
    out = np.empty((X.shape[0], features.n_features_out)) if out is None else out

    def work(slab: slice) -> None:
        X_slab, out_slab = X[slab], out[slab]
        for tile in pieces(len(out_slab), tile_rows(out.shape[1], out.dtype)):
            features.transform_block(X_slab[tile], out_slab[tile])

    on_threads(work, slabs(X.shape[0]), n_jobs)
    return out


def apply(
    features: FeatureMap, X: Any, weights: np.ndarray, *, dtype: Any = np.float64, n_jobs: int | None = -1
) -> np.ndarray:
    """``Φ(X) β`` without ever holding ``Φ(X)``."""
    out = np.empty((X.shape[0], weights.shape[1]))
    unit = np.ones(weights.shape[1])
    if np.dtype(dtype) != np.float64:  # weights that are too small or large for the type are brought near 1
        unit = power_of_two(np.abs(weights).max(axis=0, initial=0.0))
    weights = (weights / unit).astype(dtype, copy=False)
    rows = Rows(X, out)
    workspace = Workspace()

    def work(slab: slice) -> None:
        for tile, Phi in feature_tiles(features, rows[slab], dtype, workspace):
            np.multiply(Phi @ weights, unit, out=out[slab][tile])

    on_threads(work, slabs(len(rows)), n_jobs)
    return out


def solve_rows(R: np.ndarray, B: np.ndarray, n_jobs: int | None = -1) -> None:
    """``B ← B R⁻ᵀ`` in place, with ``R`` lower triangular, some rows a thread."""
    on_threads(lambda some: solve_lower_transposed(R, B[some]), shares(len(B), SLAB_ROWS), n_jobs)


def single_suffices(weights: np.ndarray, bound: float, scale: np.ndarray | float) -> bool:
    """Whether ``Φ β`` with ``|φ| ≤ bound`` keeps its digits in single precision; answers lie ``scale`` apart."""
    worst = float(np.finfo(np.float32).eps) * bound * np.abs(weights).sum(axis=0)
    return bool((worst <= SINGLE_LOSS * scale).all())


def physical_memory() -> int | None:
    """Bytes of memory in this machine, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
