"""The first pass: how many rows, which classes, which columns are bad, and a sample.

The sample is drawn by row keys (:mod:`ulmus.features.sampling`): the rows with the smallest keys, each with the weight
of all its copies. It is uniform over the distinct rows, and the same for any batches, any files and any order of them.
A survey of ``pairs`` takes rows with equal inputs and other targets for rows of their own; one that ``allows_missing``
values refuses infinite ones only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.features.sampling import copies_agree, joint_keys, label_keys, meet_by_chance, row_keys
from ulmus.streaming.arrays import joined
from ulmus.streaming.batches import Batch
from ulmus.streaming.errors import SourceError
from ulmus.streaming.stream import check_finite

#: Rows of the sample by default: twice what the widest search looks at.
SAMPLE_ROWS = 2**16
#: All keys.
ALL = 2**64 - 1
#: Keys that are looked at, over those that a sample needs on average, where few rows are to leave their worker.
MARGIN = 1.2


@dataclass
class Candidates:
    """Distinct rows of a batch that may come into the sample, and what else is counted.

    Of each row: the weight of all rows with its inputs, of those that share its target too, and of one copy; and the
    number of the first of its copies.
    """

    keys: np.ndarray
    X: Any
    y: np.ndarray
    mass: np.ndarray
    same: np.ndarray
    unit: np.ndarray
    number: np.ndarray
    n_rows: int
    weight: float
    weighted: bool
    classes: np.ndarray
    class_mass: np.ndarray


@dataclass
class Survey:
    """Counts, classes and the sample of a source."""

    count: int
    seed: int
    classifier: bool
    names: list[str] | None = None
    pairs: bool = False
    allows_missing: bool = False
    weighted: bool = False
    n_rows: int = 0
    weight: float = 0.0
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    X: Any = None
    y: np.ndarray | None = None
    mass: np.ndarray = field(default_factory=lambda: np.empty(0))
    same: np.ndarray = field(default_factory=lambda: np.empty(0))
    unit: np.ndarray = field(default_factory=lambda: np.empty(0))
    number: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    classes: np.ndarray | None = None
    class_mass: np.ndarray = field(default_factory=lambda: np.empty(0))
    pending: list[Candidates] = field(default_factory=list)
    limit: int = ALL

    def look(self, batch: Batch) -> Candidates:
        """Check a batch, and pick the rows whose keys may be among the smallest."""
        check_finite(batch, self.names, missing=self.allows_missing)
        y = self._targets(batch)
        n = len(batch)
        weight = np.ones(n) if batch.weight is None else self._weights(batch)
        keys = row_keys(batch.X, self.seed, n_jobs=1)
        if self.pairs:
            keys = joint_keys(keys, label_keys(y))
        # a key that is not among the smallest so far never will be (the limit may have fallen since)
        limit = self.keys[-1] if len(self.keys) == self.count else np.uint64(self.limit)
        wanted = np.flatnonzero((weight > 0) & (keys <= limit))
        found, first, place = np.unique(keys[wanted], return_index=True, return_inverse=True)
        mass = np.bincount(place, weights=weight[wanted], minlength=len(found))
        index = wanted[first]
        same = np.bincount(place, weights=weight[wanted] * _equal(y[wanted], y[index][place]), minlength=len(found))
        classes: np.ndarray = np.empty(0)
        class_mass: np.ndarray = np.empty(0)
        if self.classifier:
            if y.ndim == 2:
                raise ValueError(
                    f"classifiers of streams need a single label per row, got {y.shape[1]} columns; fit rows "
                    "in memory, or stream a model for each label"
                )
            classes, number = np.unique(y[weight > 0], return_inverse=True)
            class_mass = np.bincount(number, weights=weight[weight > 0], minlength=len(classes))
        seen = int(np.count_nonzero(weight))
        return Candidates(
            found,
            batch.X[index],
            y[index],
            mass,
            same,
            np.minimum(weight[index], 1.0),
            batch.numbers[index],
            seen,
            float(weight.sum()),
            batch.weight is not None,
            classes,
            class_mass,
        )

    def _targets(self, batch: Batch) -> np.ndarray:
        y = np.asarray(batch.y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if self.classifier:
            if y.dtype.kind == "f" and not np.isfinite(y).all():
                raise SourceError(f"{batch.where}: a target is missing or infinite")
            return y
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SourceError(f"{batch.where}: targets must be numbers for a regressor ({error})") from error
        bad = ~np.isfinite(y.reshape(len(y), -1)).all(axis=1)
        if bad.any():
            row = batch.start + int(np.flatnonzero(bad)[0])
            raise SourceError(f"{batch.where}: row {row} of the source has a missing or infinite target")
        return y

    @staticmethod
    def _weights(batch: Batch) -> np.ndarray:
        weight = np.asarray(batch.weight, dtype=np.float64)
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise SourceError(
                f"{batch.where}: row {batch.start + row} of the source has weight {weight[row]}; weights must be "
                "finite and not negative"
            )
        return weight

    def add(self, part: Candidates) -> None:
        """Merge the candidates of a batch into the sample."""
        self.n_rows += part.n_rows
        self.weight += part.weight
        self.weighted = self.weighted or part.weighted
        if self.classifier:
            self._add_classes(part)
        self.pending.append(part)
        # copying the sample costs as much as filling it, so it is not done for a few candidates
        if sum(len(p.keys) for p in self.pending) > self.count // 2:
            self.merge_pending()

    def expect(self, n_distinct: float) -> None:
        """Look at no more keys than a sample of this many distinct rows needs."""
        share = MARGIN * self.count / max(n_distinct, 1.0)
        self.limit = int(ALL * share) if share < 1.0 else ALL

    def wider(self) -> "Survey | None":
        """A survey that looks at more keys, where this one has looked at too few; None where the sample is right.

        Rows that are repeated have one key, so that there may be fewer below the limit than rows let expect. What was
        found tells how many distinct rows there are; the limit grows eightfold at least.
        """
        if self.limit == ALL or len(self.keys) >= self.count:
            return None
        n_distinct = len(self.keys) / (self.limit / ALL)
        survey = self.fresh()
        survey.expect(min(n_distinct, MARGIN * self.count / (8 * self.limit / ALL)))
        return survey

    def fresh(self) -> "Survey":
        """A survey of the same kind without rows."""
        kind = (self.count, self.seed, self.classifier, self.names, self.pairs, self.allows_missing)
        return Survey(*kind, limit=self.limit)

    def merge(self, other: "Survey") -> None:
        """Add the survey of other rows."""
        other.merge_pending()
        classes = np.empty(0) if other.classes is None else other.classes
        counts = (other.n_rows, other.weight, other.weighted, classes, other.class_mass)
        if other.n_rows:
            rows = (other.keys, other.X, np.asarray(other.y), other.mass, other.same, other.unit, other.number)
            self.add(Candidates(*rows, *counts))

    def merge_pending(self) -> None:
        """Bring the candidates that wait into the sample."""
        parts = [p for p in self.pending if len(p.keys)]
        self.pending = []
        if not parts:
            return
        keys = np.concatenate([self.keys, *(p.keys for p in parts)])
        X = joined([*([] if self.X is None else [self.X]), *(p.X for p in parts)])
        y = np.concatenate([*([] if self.y is None else [self.y]), *(p.y for p in parts)])
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        mass = np.bincount(place, np.concatenate([self.mass, *(p.mass for p in parts)]), len(distinct))
        agreed = np.concatenate([self.same, *(p.same for p in parts)]) * _equal(y, y[first][place])
        self.same = np.bincount(place, agreed, len(distinct))[: self.count]
        keep = first[: self.count]
        self.unit = np.concatenate([self.unit, *(p.unit for p in parts)])[keep]
        self.number = np.concatenate([self.number, *(p.number for p in parts)])[keep]
        self.keys, self.mass, self.X, self.y = distinct[: self.count], mass[: self.count], X[keep], y[keep]

    def _add_classes(self, part: Candidates) -> None:
        if self.classes is None:
            self.classes, self.class_mass = part.classes, part.class_mass
            return
        both = np.concatenate([self.classes, part.classes])
        self.classes, number = np.unique(both, return_inverse=True)
        self.class_mass = np.bincount(number, np.append(self.class_mass, part.class_mass), len(self.classes))

    @property
    def sample_weight(self) -> np.ndarray | None:
        """Weights of the sample; None when every row stands for itself."""
        return self.mass if self.weighted or (self.mass != 1).any() else None

    @property
    def sample_unit(self) -> np.ndarray | None:
        """What goes when a row of the sample is left out, as :func:`ulmus.features.sampling.left_out_together` says."""
        if self.sample_weight is None:
            return None
        together = not meet_by_chance(self.X) and copies_agree(self.mass, self.mass, self.same)
        return self.same if together else self.unit

    @property
    def n_distinct(self) -> float:
        """Distinct rows of the source: those of the sample, over the share of all keys that it reaches to."""
        if self.whole:
            return float(len(self.keys))
        return min(float(self.n_rows), (len(self.keys) - 1) / (float(self.keys[-1]) / ALL))

    @property
    def whole(self) -> bool:
        """Whether every distinct row is in the sample."""
        return len(self.keys) < self.count and self.limit == ALL

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self.merge_pending()
        arrays = {name: getattr(self, name) for name in ("keys", "mass", "same", "unit", "number", "class_mass")}
        if sparse.issparse(self.X):
            arrays |= {f"X_{k}": getattr(self.X, k) for k in ("data", "indices", "indptr")}
            arrays["X_shape"] = np.array(self.X.shape)
        elif self.X is not None:
            arrays["X"] = self.X
        arrays |= {name: plain(a) for name, a in (("y", self.y), ("classes", self.classes)) if a is not None}
        kinds = {name: a.dtype.kind for name, a in (("y", self.y), ("classes", self.classes)) if a is not None}
        notes = {"n_rows": self.n_rows, "weight": self.weight, "weighted": self.weighted, "kinds": kinds}
        return arrays, notes

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        self.keys, self.mass, self.same, self.unit = (arrays[name] for name in ("keys", "mass", "same", "unit"))
        self.class_mass, self.number, self.weighted = arrays["class_mass"], arrays["number"], notes["weighted"]
        if "X_data" in arrays:
            parts = (arrays["X_data"], arrays["X_indices"], arrays["X_indptr"])
            self.X = sparse.csr_array(parts, shape=tuple(arrays["X_shape"]))
        else:
            self.X = arrays.get("X")
        kinds = notes["kinds"]
        self.y, self.classes = (
            arrays[name].astype(object) if kinds.get(name) == "O" else arrays.get(name) for name in ("y", "classes")
        )
        self.n_rows, self.weight = notes["n_rows"], notes["weight"]


def _equal(y: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which targets are equal, all of their columns."""
    equal = y == other
    return equal if equal.ndim == 1 else equal.all(axis=1)


def plain(values: np.ndarray) -> np.ndarray:
    """Labels as an array that can be saved without pickle."""
    return values.astype(str) if values.dtype == object else values
