"""The passes of a fit: sums of all rows, the gradient at given weights, and the triangular factor."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from ulmus import engine
from ulmus.engine import GramSums, Rows
from ulmus.features.sampling import row_keys
from ulmus.models.steps import Steps
from ulmus.solvers.ridge import Problem
from ulmus.statistics import Extent, Statistics, Summary, TriangularStatistics
from ulmus.streaming.batches import Batch
from ulmus.streaming.errors import SourceError

#: Seed of the keys that deal rows out to folds; the sample has another one.
FOLD_SEED = 1


@dataclass(frozen=True)
class Folds:
    """The folds of a stream, by what its rows are: copies are never divided between training and test."""

    count: int
    seed: int = FOLD_SEED

    @classmethod
    def dealt(cls, X: Any, count: int) -> "Folds":
        """Folds none of which holds all these rows, so that rows remain without it."""
        if len(np.unique(row_keys(X, FOLD_SEED, n_jobs=1))) < 2:
            raise ValueError(
                f"cv={count} needs rows that differ, and all rows of the stream are equal; use cv=None (leave-one-out)"
            )
        deals = (cls(count, seed) for seed in itertools.count(FOLD_SEED))
        return next(deal for deal in deals if len(np.unique(deal.of(X))) > 1)

    def of(self, X: Any) -> np.ndarray:
        """The fold of every row."""
        return (row_keys(X, self.seed, n_jobs=1) % np.uint64(self.count)).astype(np.intp)


@dataclass(frozen=True)
class Encoder:
    """Batches → rows with target columns, as a model codes them.

    ``classes`` are all the labels there are, ``codes`` the target columns of each, ``balance`` its weight.
    """

    classes: np.ndarray | None = None
    codes: np.ndarray | None = None
    balance: np.ndarray | None = None

    @classmethod
    def of(cls, steps: Steps, y: np.ndarray, classes: np.ndarray | None, class_mass: np.ndarray) -> "Encoder":
        """Tell the model its classes (or the shape of its targets), and take its codes."""
        if classes is None:
            steps.announce(y)
            return cls()
        return cls(classes, *steps.announce(classes, class_mass))

    def rows(self, batch: Batch) -> Rows:
        """Rows of positive weight."""
        weight = None if batch.weight is None else np.asarray(batch.weight, dtype=np.float64)
        return self.encode(batch.X, np.asarray(batch.y), weight, None, batch.where)

    def encode(self, X: Any, y: np.ndarray, weight: np.ndarray | None, unit: np.ndarray | None, where: str) -> Rows:
        """Rows with the weight of one copy of each (at most 1, unless given)."""
        if weight is not None and not weight.all():
            seen = weight > 0
            X, y, weight, unit = X[seen], y[seen], weight[seen], None if unit is None else unit[seen]
        if weight is not None and unit is None:
            unit = np.minimum(weight, 1.0)
        if self.classes is None:
            return Rows(X, y.astype(np.float64).reshape(len(y), *(y.shape[1:] or (1,))), weight, unit)
        y = y[:, 0] if y.ndim == 2 else y
        assert self.codes is not None
        index = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        if (self.classes[index] != y).any():
            raise SourceError(f"{where} holds a class that was not there in the first pass: the source has changed")
        rows = Rows(X, self.codes[index], weight, unit)
        return rows if self.balance is None else rows.reweighted(self.balance[index])


class RowsOf(Protocol):
    """Batches → rows that are summed."""

    def rows(self, batch: Batch) -> Rows:
        """Rows of positive weight."""


class SummaryAccumulator:
    """Sums of all rows, per fold where there are folds; whitened, where the map asks for it, at the end."""

    def __init__(self, steps: Steps, encoder: RowsOf, n_outputs: int, folds: Folds | None) -> None:
        self.steps, self.encoder, self.folds = steps, encoder, folds
        features, self.whitening = steps.summed_form()
        self.sums = GramSums(features, n_outputs)
        self.parts = [self.sums.zeros() for _ in range(1 if folds is None else folds.count)]
        self.extent: Extent | None = None

    def work(self, batch: Batch) -> tuple[list[Statistics], Extent]:
        """The sums of one batch, and the extent of its rows."""
        rows = self.encoder.rows(batch)
        extent = self.steps.extent(rows)
        if self.folds is None:
            return [self.sums(rows)], extent
        fold = self.folds.of(rows.X)
        return [self.sums(rows.take(np.flatnonzero(fold == k))) for k in range(self.folds.count)], extent

    def add(self, part: tuple[list[Statistics], Extent]) -> None:
        for k, new in enumerate(part[0]):
            self.parts[k] += new
            self.sums.give_back(new)
        self.extent = part[1] if self.extent is None else self.extent + part[1]

    def fresh(self) -> "SummaryAccumulator":
        """Sums of no rows, with the same buffers."""
        empty = copy.copy(self)
        empty.parts, empty.extent = [self.sums.zeros() for _ in self.parts], None
        return empty

    def merge(self, other: "SummaryAccumulator") -> None:
        for k, part in enumerate(other.parts):
            self.parts[k] += part
        if other.extent is not None:
            self.extent = other.extent if self.extent is None else self.extent + other.extent

    def summary(self) -> Summary:
        """The sums as a model takes them."""
        parts = tuple(part.symmetrise() for part in self.parts)
        if self.whitening is not None:
            with engine.threads_for(parts[0].n_features):
                parts = tuple(part.whitened(self.whitening) for part in parts)
        total = sum(parts[1:], parts[0])
        return Summary(total, () if self.folds is None else parts, self.extent)

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, notes = dumped_extent(self.extent)
        arrays |= {"moments": np.stack([part.moments for part in self.parts])}
        return arrays, notes | {"n_rows": [part.n_rows for part in self.parts]}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        for part, moments, n_rows in zip(self.parts, arrays["moments"], notes["n_rows"], strict=True):
            part.moments[:], part.n_rows = moments, n_rows
        self.extent = restored_extent(arrays, notes)


def dumped_extent(extent: Extent | None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """An extent as arrays and plain values."""
    if extent is None:
        return {}, {}
    return {"low": extent.low, "high": extent.high}, {"diagonal": [extent.diagonal_sum, extent.diagonal_max]}


def restored_extent(arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> Extent | None:
    """The extent that was dumped."""
    return Extent(arrays["low"], arrays["high"], *notes["diagonal"]) if "low" in arrays else None


@dataclass
class ArrayAccumulator:
    """A sum of arrays."""

    total: np.ndarray

    def fresh(self) -> "ArrayAccumulator":
        return ArrayAccumulator(np.zeros_like(self.total))

    def merge(self, other: "ArrayAccumulator") -> None:
        self.total += other.total

    def add(self, part: np.ndarray) -> None:
        self.total += part

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"total": self.total}, {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        self.total = arrays["total"]


@dataclass
class TriangularAccumulator:
    """The triangular factor of all rows."""

    total: TriangularStatistics

    def fresh(self) -> "TriangularAccumulator":
        return TriangularAccumulator(TriangularStatistics.zeros(self.total.n_features, self.total.n_outputs))

    def merge(self, other: "TriangularAccumulator") -> None:
        self.total += other.total

    def add(self, part: TriangularStatistics) -> None:
        self.total += part

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"factor": self.total.factor}, {"n_rows": self.total.n_rows}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        self.total.factor, self.total.n_rows = arrays["factor"], notes["n_rows"]


@dataclass
class AgainOverRows:
    """More passes, where the sums have lost digits: gradients for corrections, or the triangular factor."""

    stream: Any
    steps: Steps
    encoder: RowsOf
    n_outputs: int
    count: int = field(default=0)

    @property
    def fit_intercept(self) -> bool:
        return self.steps.fit_intercept

    def about(self, plan: Any) -> "AgainOverRows":
        """The same passes for another map and C, which were chosen since."""
        other = copy.copy(self)
        other.steps = copy.copy(self.steps)
        other.steps.plan = plan
        return other

    def gradient(self, beta: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        features, R = self.steps.summed_form()
        weights = Problem(features, Rows(None, beta), None, whitening=R).unwhiten(beta)
        self.count += 1
        accumulator, work = self._pass(features, weights, intercept)
        total = self.stream.reduce(f"correction-{self.count}", accumulator, work).total
        g = total[:-1] if R is None else solve_triangular(R, total[:-1], lower=True, check_finite=False)
        C = self.steps.plan.C
        return (g if C is None else g - beta / C), total[-1]

    def _pass(self, features: Any, weights: np.ndarray, intercept: np.ndarray) -> tuple[Any, Callable[[Batch], Any]]:
        """What adds up the gradient of all rows, and what is done with a batch."""
        encoder, zeros = self.encoder, np.zeros((features.n_features_out + 1, self.n_outputs))

        def work(batch: Batch) -> np.ndarray:
            return engine.gradient(features, encoder.rows(batch), weights, intercept, n_jobs=1)

        return ArrayAccumulator(zeros), work

    def triangular(self) -> TriangularStatistics:
        """The factor of the rows, by QR."""
        features, encoder = self.steps.plan.features, self.encoder

        def work(batch: Batch) -> TriangularStatistics:
            return engine.triangular_statistics(features, encoder.rows(batch), n_jobs=1)

        accumulator = TriangularAccumulator(TriangularStatistics.zeros(features.n_features_out, self.n_outputs))
        return self.stream.reduce("triangular", accumulator, work).total
