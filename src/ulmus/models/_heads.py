"""Heads: from a projected row to class probabilities, by neighbours or by class means."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax
from sklearn.neighbors import NearestNeighbors

#: Numbers of neighbours that are tried.
NEIGHBOURS = (1, 2, 3, 4, 5, 7, 9, 11, 15, 21, 31)
#: Folds by which their number is chosen.
FOLDS = 10
#: How much more the nearest neighbour counts than the farthest: enough to break ties.
NEARER = 1e-6


@dataclass(frozen=True)
class Neighbours:
    """k nearest reference rows vote. A row of weight w stands for w copies, and k counts copies."""

    references: np.ndarray
    labels: np.ndarray
    weight: np.ndarray | None
    k: int
    n_classes: int

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """Shares of the votes, one column per class."""
        found = nearest(self.references, Z, self.k)
        mass = np.ones(found.shape) if self.weight is None else self.weight[found]
        return votes(self.labels[found], mass, self.k, self.n_classes)

    def held_out(self, judged: "Judged") -> np.ndarray:
        """Probabilities of the judged rows by references of other folds."""
        return judged.probabilities(self.k)


@dataclass(frozen=True)
class Means:
    """The nearest class mean wins; ``softmax(−sharpness ‖z − m_k‖²)`` over the classes that have rows."""

    means: np.ndarray
    sharpness: float

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities, one column per class."""
        return softmax(self.sharpness * self.scores(Z), axis=1)

    def held_out(self, judged: "Judged") -> np.ndarray:
        """Probabilities of the judged rows as they would be projected if they were new."""
        return self.probabilities(judged.queries)

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """Minus the squared distances to the class means."""
        distance = ((Z[:, None, :] - self.means) ** 2).sum(axis=2)
        return np.where(np.isnan(distance), -np.inf, -distance)


def nearest(references: np.ndarray, Z: np.ndarray, k: int) -> np.ndarray:
    """Indices of the ``k`` nearest references (all, if there are fewer), nearest first."""
    k = min(k, len(references))
    search = NearestNeighbors(n_neighbors=k, n_jobs=1).fit(references)
    return np.asarray(search.kneighbors(Z, return_distance=False))


def votes(labels: np.ndarray, mass: np.ndarray, k: int, n_classes: int) -> np.ndarray:
    """Shares of the classes among the first k copies of neighbours ``[row, rank]``, ties broken towards the nearer."""
    end = np.minimum(np.cumsum(mass, axis=1), k)
    start = np.concatenate([np.zeros((len(end), 1)), end[:, :-1]], axis=1)
    share = (end - start) * (1.0 + NEARER * (k - (start + end) / 2))
    cell = np.arange(len(labels))[:, None] * n_classes + labels
    P = np.bincount(cell.ravel(), share.ravel(), minlength=len(labels) * n_classes).reshape(-1, n_classes)
    return P / P.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Judged:
    """Some training rows, as they would be projected if they were new, and all rows by which they may be judged.

    ``index`` are the places of the judged rows among the references; ``fold`` is the number of the fold of every
    reference, and a row is judged by the references of other folds.
    """

    queries: np.ndarray
    index: np.ndarray
    mass: np.ndarray
    references: np.ndarray
    labels: np.ndarray
    weight: np.ndarray | None
    fold: np.ndarray
    n_classes: int

    @property
    def true(self) -> np.ndarray:
        """Labels of the judged rows."""
        return self.labels[self.index]

    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels and weights ``[judged row, rank]`` of the nearest references of other folds; weight 0: no more."""
        labels = np.zeros((len(self.index), k), np.intp)
        mass = np.zeros(labels.shape)
        weight = np.ones(len(self.fold)) if self.weight is None else self.weight
        for f in np.unique(self.fold[self.index]):
            mine = np.flatnonzero(self.fold[self.index] == f)
            others = np.flatnonzero(self.fold != f)
            others = others if len(others) else np.arange(len(self.fold))
            found = others[nearest(self.references[others], self.queries[mine], k)]
            cells = np.ix_(mine, np.arange(found.shape[1]))
            labels[cells], mass[cells] = self.labels[found], weight[found]
        return labels, mass

    def choose_k(self, candidates: tuple[int, ...] = NEIGHBOURS) -> int:
        """The number of neighbours with the fewest errors; of those, with the smallest squared error."""
        labels, mass = self.neighbours(max(candidates))
        enough = float(mass.sum(axis=1).min())
        rows = np.arange(len(labels))

        def loss(k: int) -> tuple[float, float]:
            P = votes(labels[:, :k], mass[:, :k], k, self.n_classes)
            wrong = float(np.average(P.argmax(axis=1) != self.true, weights=self.mass))
            squares = (P**2).sum(axis=1) - 2 * P[rows, self.true] + 1
            return wrong, float(np.average(squares, weights=self.mass))

        return min((k for k in candidates if k <= max(enough, candidates[0])), key=loss)

    def probabilities(self, k: int) -> np.ndarray:
        """Votes of k neighbours for every judged row."""
        return votes(*self.neighbours(k), k, self.n_classes)
