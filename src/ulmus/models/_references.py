"""Rows that a discriminant model keeps for its neighbours: bounded, mergeable, the same in any order."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.engine import Rows
from ulmus.features.sampling import distinct_rows, left_out_together, row_keys

#: Rows by which the number of neighbours is chosen, at most, and folds that they are divided into.
SCORED_ROWS, FOLDS = 4_000, 10


@dataclass(frozen=True)
class Division:
    """One fold: places and weights (with all copies) of the rows to score, and the weight that every row loses.

    ``copies`` is how many a row has in the mean, where they leave together, and 1 otherwise.
    """

    index: np.ndarray
    mass: np.ndarray
    lost: np.ndarray
    copies: float = 1.0


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

    def losing(self, lost: np.ndarray, n_classes: int) -> Rows:
        """The rows that lose weight, with that weight and indicator targets."""
        mine = np.flatnonzero(lost)
        T = np.equal(self.labels[mine, None], np.arange(n_classes)).astype(np.float64)
        return Rows(self.X[mine], T, None if (lost[mine] == 1).all() else lost[mine])

    def __len__(self) -> int:
        return len(self.labels)

    def joined(self, other: "References") -> "References":
        """Both sets of rows."""
        stack = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        X = stack([self.X, other.X.astype(self.X.dtype)])
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([self.weights(), other.weights()])
        return References(
            sparse.csr_array(X) if sparse.issparse(X) else X, np.append(self.labels, other.labels), weight
        )

    def limited(self, count: int, seed: int) -> "References":
        """At most ``count`` of the rows: those of the smallest keys, which do not depend on their order."""
        if len(self) <= count:
            return self
        index, mass = self._distinct(count, seed)
        folds = None if self.folds is None else self.folds[index]
        return References(self.X[index], self.labels[index], None if (mass == 1).all() else mass, folds)

    def renumbered(self, places: np.ndarray) -> "References":
        """The same rows after class k became class ``places[k]``."""
        return replace(self, labels=places[self.labels])

    def divisions(self, seed: int) -> list[Division]:
        """Ten folds of the rows to score, drawn by what the rows are; copies leave together, where they agree.

        Folds that were given are left out with all their rows.
        """
        index, mass = self._distinct(SCORED_ROWS, seed)
        weight = self.weights()
        everywhere = self.fold_numbers(seed)
        fold = everywhere[index]
        unit = left_out_together(self.X, self.labels[:, None], self.weight)
        together = unit is not None and bool((unit > 1).any())
        leaves, copies = (weight, max(1.0, float(mass.mean()))) if together else (np.minimum(weight, 1.0), 1.0)
        scored = self._copies_of(index) if together else np.isin(np.arange(len(self)), index)
        parts = []
        for f in np.unique(fold[fold >= 0]):
            mine = everywhere == f
            lost = np.where(mine & scored, leaves, 0.0) if self.folds is None else np.where(mine, weight, 0.0)
            parts.append(Division(index[fold == f], mass[fold == f], lost, copies))
        if len(parts) == 1 and not (weight - parts[0].lost).any():  # all rows in one fold: score them by themselves
            parts = [Division(parts[0].index, parts[0].mass, np.zeros(len(self)))]
        return parts

    def _copies_of(self, index: np.ndarray) -> np.ndarray:
        """Which rows have the inputs of these."""
        keys = row_keys(self.X, 0)
        return np.isin(keys, keys[index])

    def weights(self) -> np.ndarray:
        """Weights, also where they are 1."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def _distinct(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of distinct rows (with their labels) of the smallest keys, and the weight of each with its copies."""
        label = self.labels[:, None].astype(self.X.dtype)
        keyed = sparse.csr_array(sparse.hstack([self.X, label])) if sparse.issparse(self.X) else np.c_[self.X, label]
        return distinct_rows(keyed, count, self.weight, np.random.RandomState(seed))

    def fold_numbers(self, seed: int) -> np.ndarray:
        """The folds given, or ten drawn by what the rows are: copies of a row share a fold."""
        if self.folds is not None:
            return self.folds
        return (row_keys(self.X, seed) % np.uint64(FOLDS)).astype(np.intp)
