"""Rows that a discriminant model keeps for its neighbours: bounded, mergeable, the same in any order."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.engine import Rows
from ulmus.features.sampling import distinct_rows, row_keys
from ulmus.models._heads import FOLDS

#: Rows by which the number of neighbours is chosen, at most.
JUDGED_ROWS = 4_000


@dataclass(frozen=True)
class References:
    """Inputs, class numbers, weights (None means 1) and, where given, folds of the rows that are kept."""

    X: Any
    labels: np.ndarray
    weight: np.ndarray | None = None
    folds: np.ndarray | None = None

    @classmethod
    def of(cls, rows: Rows, folds: np.ndarray | None = None) -> "References":
        """Rows with indicator targets."""
        return cls(rows.X, rows.T.argmax(axis=1), rows.weight, folds)

    def rows(self, n_classes: int) -> Rows:
        """The same with indicator targets."""
        T = np.equal(self.labels[:, None], np.arange(n_classes)).astype(np.float64)
        return Rows(self.X, T, self.weight, None if self.weight is None else np.minimum(self.weight, 1.0))

    def __len__(self) -> int:
        return len(self.labels)

    def joined(self, other: "References") -> "References":
        """Both sets of rows."""
        stack = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        X = stack([self.X, other.X.astype(self.X.dtype)])
        weight = None
        if self.weight is not None or other.weight is not None:
            parts = (np.ones(len(r)) if r.weight is None else r.weight for r in (self, other))
            weight = np.concatenate(list(parts))
        return References(
            sparse.csr_array(X) if sparse.issparse(X) else X, np.append(self.labels, other.labels), weight
        )

    def limited(self, count: int, seed: int) -> "References":
        """At most ``count`` of the rows: those of the smallest keys, which do not depend on their order."""
        if len(self) <= count:
            return self
        stack = sparse.hstack if sparse.issparse(self.X) else np.column_stack
        keyed = stack([self.X, self.labels[:, None].astype(self.X.dtype)])
        keyed = sparse.csr_array(keyed) if sparse.issparse(keyed) else keyed
        index, mass = distinct_rows(keyed, count, self.weight, np.random.RandomState(seed))
        folds = None if self.folds is None else self.folds[index]
        return References(self.X[index], self.labels[index], None if (mass == 1).all() else mass, folds)

    def renumbered(self, places: np.ndarray) -> "References":
        """The same rows after class k became class ``places[k]``."""
        return replace(self, labels=places[self.labels])

    def judged(self, seed: int, count: int = JUDGED_ROWS) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the rows to judge by, and the weight of each with its copies."""
        return distinct_rows(self.X, count, self.weight, np.random.RandomState(seed))

    def fold_numbers(self, seed: int) -> np.ndarray:
        """The folds given, or ten drawn by what the rows are: copies of a row share a fold."""
        if self.folds is not None:
            return self.folds
        return (row_keys(self.X, seed) % np.uint64(FOLDS)).astype(np.intp)

    def units(self, index: np.ndarray) -> np.ndarray:
        """The weight of one copy of these rows."""
        return np.ones(len(index)) if self.weight is None else np.minimum(self.weight[index], 1.0)
