"""What the passes of an adaptive fit do with a batch, and what they add up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.category import Category
from ulmus.features.partition import Partition
from ulmus.features.preparation import PARTS
from ulmus.features.sampling import gathered
from ulmus.models.adaptive_steps import AdaptiveSteps, Coordinates
from ulmus.statistics import Summary
from ulmus.streaming.batches import Batch
from ulmus.streaming.log_loss import Sweep, log_sweep
from ulmus.streaming.shelves import records
from ulmus.streaming.sums import AgainOverRows, Encoder, SummaryAccumulator


@dataclass(frozen=True)
class Seen:
    """Batches → rows in the coordinates of a view, as :class:`Encoder` gives rows."""

    encoder: Encoder
    coordinates: Coordinates

    def rows(self, batch: Batch) -> Rows:
        """Rows of positive weight."""
        return self.coordinates.of(self.encoder.rows(batch))


class CategoryAccumulator:
    """What all rows say of categories, by parts."""

    def __init__(self, n_columns: int) -> None:
        self.parts: list[list[Category | None]] = [[None] * n_columns for _ in range(PARTS)]

    def fresh(self) -> "CategoryAccumulator":
        return CategoryAccumulator(len(self.parts[0]))

    def add(self, found: Any) -> None:
        for mine, part in zip(self.parts, found, strict=True):
            for j, new in enumerate(part):
                old = mine[j]
                mine[j] = new if old is None else old if new is None else old + new

    def merge(self, other: "CategoryAccumulator") -> None:
        self.add(other.parts)

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        held = {(k, j): c for k, part in enumerate(self.parts) for j, c in enumerate(part) if c is not None}
        return {f"{name}-{k}-{j}": value for (k, j), c in held.items() for name, value in vars(c).items()}, {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        names = list(Category.__dataclass_fields__)
        for k, part in enumerate(self.parts):
            for j in range(len(part)):
                there = f"levels-{k}-{j}" in arrays
                part[j] = Category(*(arrays[f"{name}-{k}-{j}"] for name in names)) if there else None


@dataclass
class RegionAccumulator:
    """Rows of regions; equal ones with equal targets become one that weighs as much, when there are many.

    What one copy weighs stays: a class may have a weight of its own.
    """

    n_features: int
    n_outputs: int
    most: int = 2**16
    parts: list[Rows] = field(default_factory=list)

    def fresh(self) -> "RegionAccumulator":
        return RegionAccumulator(self.n_features, self.n_outputs, self.most)

    def add(self, part: Rows) -> None:
        if len(part):
            self.parts.append(part)
        if sum(map(len, self.parts)) > self.most:
            self.parts = [gathered(self.rows)]
            self.most = max(self.most, 2 * len(self.parts[0]))

    def merge(self, other: "RegionAccumulator") -> None:
        self.add(other.rows)

    @property
    def rows(self) -> Rows:
        """All of them, in their order; weights are always there."""
        every = [np.empty(0), *(p.weights for p in self.parts)]
        single = [np.empty(0), *(np.ones(len(p)) if p.unit is None else p.unit for p in self.parts)]
        X = [np.empty((0, self.n_features)), *(np.asarray(p.X, np.float64) for p in self.parts)]
        T = [np.empty((0, self.n_outputs)), *(p.T for p in self.parts)]
        return Rows(np.concatenate(X), np.concatenate(T), np.concatenate(every), np.concatenate(single))

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        rows = self.rows
        assert rows.weight is not None
        assert rows.unit is not None
        return {"X": rows.X, "T": rows.T, "weight": rows.weight, "unit": rows.unit}, {"most": self.most}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        rows = Rows(arrays["X"], arrays["T"], arrays["weight"], arrays["unit"])
        self.most, self.parts = notes["most"], [rows] if len(rows) else []


@dataclass(frozen=True)
class OfCategories:
    """The work of the pass that asks what rows say of categories."""

    encoder: Encoder
    coordinates: Coordinates

    def __call__(self, batch: Batch) -> list[tuple[Category | None, ...]]:
        return self.coordinates.categories(self.encoder.rows(batch))


@dataclass(frozen=True)
class InRegions:
    """The work of the pass that looks for the rows of regions."""

    encoder: Encoder
    coordinates: Coordinates
    tree: Partition
    chosen: np.ndarray

    def __call__(self, batch: Batch) -> Rows:
        rows = self.encoder.rows(batch)
        cell = self.tree.leaves(self.coordinates.of(rows).X)
        return rows.take(np.flatnonzero(np.isin(cell, self.chosen)))


@dataclass(frozen=True)
class Recorded:
    """The work of the pass that divides rows among cells: records, and the cell of each in every partition."""

    seen: Seen
    features: Any
    weights: np.ndarray
    intercept: np.ndarray
    tops: tuple[Partition, ...]

    @classmethod
    def of(cls, steps: AdaptiveSteps, seen: Seen, tops: Sequence[Partition]) -> "Recorded":
        """For the global model that was fitted."""
        landmarks, (beta, intercept) = steps.stage.landmark_map, steps.stage.weights
        return cls(seen, landmarks.cross_kernel_, landmarks.weight_to_landmarks(beta), intercept, tuple(tops))

    def __call__(self, batch: Batch) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        rows = self.seen.rows(batch)
        P = engine.apply(self.features, rows.X, self.weights, n_jobs=1) + self.intercept
        return records(rows, P, batch.numbers[: len(rows)]), tuple(top.leaves(rows.X) for top in self.tops)


@dataclass
class ViewPasses:
    """The passes that a global model asks for."""

    stream: Any
    steps: AdaptiveSteps
    encoder: Seen
    n_outputs: int
    count: int = 0
    swept: int = 0

    def sums(self, features: Any) -> Summary:
        """Sums of all rows."""
        self.count += 1
        accumulator = SummaryAccumulator(self.steps.planned(features, None), self.encoder, self.n_outputs, None)
        return self.stream.reduce(f"sums-{self.count}", accumulator, accumulator.work).summary()

    def again(self, features: Any, C: float) -> AgainOverRows:
        """What wins back digits that the sums have lost."""
        steps = self.steps.planned(features, C)
        return AgainOverRows(self.stream, steps, self.encoder, self.n_outputs, 100 * (self.count - 1))

    def log_sweep(self, features: Any, whitening: np.ndarray | None, n_outputs: int) -> Sweep:
        """The log loss of all rows at given weights, and its gradient, by one pass."""
        counted = log_sweep(self.stream, self.encoder, features, whitening, n_outputs, first=self.swept)

        def sweep(v: np.ndarray) -> tuple[float, np.ndarray]:
            self.swept += 1
            return counted(v)

        return sweep
