"""Heads: from a projected row to class probabilities, by neighbours or by class means."""

from dataclasses import dataclass

import numpy as np

from ulmus.calibration import probabilities

#: Numbers of neighbours that are tried, in units of the copies of a row, where these leave together.
NEIGHBOURS = (1, 2, 3, 4, 5, 7, 9, 11, 15, 21, 31)
#: How much more the nearest neighbour counts than the farthest: enough to break ties.
NEARER = 1e-6
#: Projections that differ by less than this share of the largest are the same.
SAME_PLACE = 1e-9
#: Digits of a share of the votes that are more than round-off.
VOTE_DIGITS = 12


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
        told_apart = (self.labels,) if self.weight is None else (self.weight, self.labels)
        found = nearest(self.references, Z, self.k, *told_apart)
        mass = np.ones(found.shape) if self.weight is None else self.weight[found]
        return votes(self.labels[found], mass, self.k, self.n_classes)

    def held_out(self, scored: "ScoredFolds") -> np.ndarray:
        """Probabilities of the scored rows."""
        return votes(*scored.neighbours(self.k), self.k, self.n_classes)


@dataclass(frozen=True)
class Means:
    """``softmax(−sharpness ‖z − m_k‖²)`` over the classes that have rows, on a floor; the most probable class wins.

    That is the nearest one where distances tell classes apart. Where they do not, the floor decides, by how frequent
    classes are: the nearest of means that lie together is any of them.
    """

    means: np.ndarray
    sharpness: float
    floor: np.ndarray | None = None

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities, one column per class."""
        return probabilities(self.scores(Z), self.sharpness, self.floor, by_score=False)

    def held_out(self, scored: "ScoredFolds") -> np.ndarray:
        """Probabilities of the scored rows."""
        return probabilities(scored.scores(), self.sharpness, self.floor, by_score=False)

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """Minus the squared distances to the class means."""
        distance = ((Z[:, None, :] - self.means) ** 2).sum(axis=2)
        return np.where(np.isnan(distance), -np.inf, -distance)


def nearest(references: np.ndarray, Z: np.ndarray, k: int, *told_apart: np.ndarray) -> np.ndarray:
    """Indices of the ``k`` nearest references (all, if there are fewer), nearest first.

    Steep nodes are steps, and rows between the same steps have the same projection but for round-off, which must not
    say which of them is nearer. Nor must the order in which rows were given: what else tells them apart is named.
    """
    unit = SAME_PLACE * float(np.abs(references).max(initial=0.0)) or 1.0
    from sklearn.neighbors import NearestNeighbors

    places = np.round(references / unit)
    order = np.lexsort((*told_apart, *places.T))
    search = NearestNeighbors(n_neighbors=min(k, len(references)), n_jobs=1).fit(places[order])
    return order[search.kneighbors(np.round(Z / unit), return_distance=False)]


def votes(labels: np.ndarray, mass: np.ndarray, k: int, n_classes: int) -> np.ndarray:
    """Shares of the classes among the first k copies of neighbours ``[row, rank]``, ties broken towards the nearer.

    Votes that are still equal, but for round-off, are equal: of these the first label is the answer.
    """
    end = np.minimum(np.cumsum(mass, axis=1), k)
    start = np.concatenate([np.zeros((len(end), 1)), end[:, :-1]], axis=1)
    share = (end - start) * (1.0 + NEARER * (k - (start + end) / 2))
    cell = np.arange(len(labels))[:, None] * n_classes + labels
    P = np.bincount(cell.ravel(), share.ravel(), minlength=len(labels) * n_classes).reshape(-1, n_classes)
    P = np.round(P / P.sum(axis=1, keepdims=True), VOTE_DIGITS)
    return P / P.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Part:
    """One fold: rows that were left out, projected by a model without them, and what they are classified by."""

    queries: np.ndarray
    true: np.ndarray
    mass: np.ndarray
    references: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    means: np.ndarray
    copies: float = 1.0

    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels and weights ``[row, rank]`` of the nearest references; a weight of 0 is none."""
        labels, mass = np.zeros((len(self.true), k), np.intp), np.zeros((len(self.true), k))
        found = nearest(self.references, self.queries, k, self.weight, self.labels)
        labels[:, : found.shape[1]], mass[:, : found.shape[1]] = self.labels[found], self.weight[found]
        return labels, mass


@dataclass(frozen=True)
class ScoredFolds:
    """Training rows, each scored by a model that did not see it."""

    parts: tuple[Part, ...]
    n_classes: int

    @property
    def true(self) -> np.ndarray:
        """Class numbers of the scored rows."""
        return np.concatenate([part.true for part in self.parts])

    @property
    def mass(self) -> np.ndarray:
        """Weights of the scored rows, with all their copies."""
        return np.concatenate([part.mass for part in self.parts])

    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels and weights ``[scored row, rank]`` of their nearest references."""
        labels, mass = zip(*(part.neighbours(k) for part in self.parts), strict=True)
        return np.concatenate(labels), np.concatenate(mass)

    def choose_k(self, candidates: tuple[int, ...] = NEIGHBOURS) -> int:
        """The number of neighbours with the fewest errors; of those, with the smallest squared error."""
        candidates = tuple(round(k * self.parts[0].copies) for k in candidates)
        labels, mass = self.neighbours(max(candidates))
        enough = float(mass.sum(axis=1).min())
        rows, true, weight = np.arange(len(labels)), self.true, self.mass

        def loss(k: int) -> tuple[float, float]:
            P = votes(labels[:, :k], mass[:, :k], k, self.n_classes)
            wrong = float(np.average(P.argmax(axis=1) != true, weights=weight))
            squares = (P**2).sum(axis=1) - 2 * P[rows, true] + 1
            return wrong, float(np.average(squares, weights=weight))

        return min((k for k in candidates if k <= max(enough, candidates[0])), key=loss)

    def scores(self) -> np.ndarray:
        """Minus the squared distances of the scored rows to class means that they had no part in."""
        return np.concatenate([Means(part.means, 1.0).scores(part.queries) for part in self.parts])
