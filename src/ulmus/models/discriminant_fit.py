"""What a discriminant model has fitted, as frozen values: where it puts rows, and how it tells classes there.

They are the ``weights`` and the ``certainty`` of :class:`~ulmus.models.fitted.Fitted`; its ``targets`` are
:class:`Indicators`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax

from ulmus import engine
from ulmus.calibration import LabelScores, checked_floor, fit_temperature
from ulmus.calibration.temperature import AHEAD
from ulmus.codings import OneVsAll
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.random_layer import RandomLayer
from ulmus.models._classification import refuse_one_class
from ulmus.models._heads import Means, Neighbours, Part, ScoredFolds
from ulmus.models._references import Division, References
from ulmus.statistics import Statistics
from ulmus.tuning import Tuning


@dataclass(frozen=True)
class Indicators:
    """0/1 columns, one per class, scored as the ±1 columns that they stand for; and the directions that are kept."""

    classes: np.ndarray
    n_components: int

    @classmethod
    def of(cls, model: Any, classes: np.ndarray) -> "Indicators":
        """Two classes at least, and no more components than they can have."""
        c = len(classes)
        refuse_one_class(model, classes)
        if model.n_components is not None and model.n_components > c - 1:
            raise ValueError(
                f"n_components={model.n_components} is too many: {c} classes have at most {c - 1} discriminant "
                f"directions. Choose n_components <= {c - 1}, or None for all of them"
            )
        return cls(classes, c - 1 if model.n_components is None else int(model.n_components))

    def encode(self, y: np.ndarray) -> np.ndarray:
        """One indicator column per class."""
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"labels {unknown.tolist()} are not among the known classes {self.classes.tolist()}")
        return np.equal(np.asarray(y)[:, None], self.classes).astype(np.float64)

    def numbers(self, T: np.ndarray) -> np.ndarray:
        return T.argmax(axis=1)

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        return OneVsAll(np.arange(T.shape[-1])).losses(2.0 * T - 1.0, 2.0 * P - 1.0, criterion)


@dataclass(frozen=True)
class MapProjection:
    """``z(x) = Wᵀ(φ(x) − μ)``: features, directions, centre, and the sums behind them.

    ``ridge`` is what was added to the scatter within: 1/C, or what round-off makes necessary.
    """

    features: Any
    weights: np.ndarray
    centre: np.ndarray
    eigenvalues: np.ndarray
    C: Any
    width: float
    statistics: Statistics
    ridge: float | None = None
    tuning: Tuning | None = None

    def __call__(self, X: Any, n_jobs: int | None) -> np.ndarray:
        return engine.apply(self.features, X, self.weights, n_jobs=n_jobs) - self.centre @ self.weights

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(self.features.n_features_out)

    def _if_random(self, value: Any, is_random: bool) -> Any:
        return value if isinstance(self.features, RandomLayer) == is_random else None

    slope = property(lambda self: self._if_random(self.width, True))
    gamma = property(lambda self: self._if_random(self.width, False))
    n_hidden = property(lambda self: self._if_random(self.size, True))
    n_landmarks = property(lambda self: self._if_random(self.size, False))


@dataclass(frozen=True)
class KernelProjection:
    """``z(x) = k_x α + offset``: the kernel to the training rows, and dual directions."""

    cross: Any
    alpha: np.ndarray
    offset: np.ndarray
    eigenvalues: np.ndarray
    C: Any
    gamma: float
    tuning: Tuning | None = None

    def __call__(self, X: Any, n_jobs: int | None) -> np.ndarray:
        return engine.apply(self.cross, X, self.alpha, n_jobs=n_jobs) + self.offset


@dataclass(frozen=True)
class NetworkProjection:
    """``z(x) = g(x W₁ + b₁) W₂ + b₂``: the trained layers, and the loss after each pass over the rows."""

    activation: str
    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]
    loss_curve: list[float]

    def __call__(self, X: Any, n_jobs: int | None) -> np.ndarray:
        hidden = X @ self.coefs[0] if sparse.issparse(X) else np.asarray(X) @ self.coefs[0]
        hidden = np.asarray(hidden + self.intercepts[0], dtype=np.float64)
        ACTIVATIONS[self.activation].apply(hidden)
        return hidden @ self.coefs[1].astype(np.float64) + self.intercepts[1]

    @property
    def n_iter(self) -> int:
        """Passes over the rows."""
        return len(self.loss_curve)


@dataclass(frozen=True)
class HeadFit:
    """How projections are classified, by what, and probabilities of training rows that were scored as if new.

    ``references`` are rows that a model keeps to learn on; rows to score are drawn by the ``seed``. An ensemble has
    heads in its members alone.
    """

    head: Neighbours | Means | None
    means: np.ndarray | None
    left_out: LabelScores | None
    seed: int | None = None
    references: References | None = None


def scored_folds(
    references: References, seed: int, n_classes: int, without: Callable[[list[Division]], Iterable[Any]]
) -> ScoredFolds:
    """Training rows to score by; ``without`` gives projections and class means by models without each fold."""
    divisions, labels, parts = references.divisions(seed), references.labels, []
    for division, (Z, means) in zip(divisions, without(divisions), strict=True):
        weight, index = references.weights() - division.lost, division.index
        left = np.flatnonzero(weight > 0)
        about = (Z[index], labels[index], division.mass, Z[left], labels[left], weight[left])
        parts.append(Part(*about, means, division.copies))
    return ScoredFolds(tuple(parts), n_classes)


def fit_head(
    model: Any,
    references: References,
    Z: np.ndarray,
    means: np.ndarray,
    sharpness: float,
    score: Callable[[], ScoredFolds],
) -> HeadFit:
    """Choose how projections Z of the references are classified, by rows that are scored as if they were new."""
    if model.head == "mean":
        scored = score()
        nearest_mean = _calibrated_means(means, sharpness, scored)
        return HeadFit(nearest_mean, means, scored_by(nearest_mean, scored))
    rows, k = references.weights().sum(), model.n_neighbors
    if k != "auto" and k > rows:
        raise ValueError(f"n_neighbors={k} is more than the {rows:g} rows (by weight) that there are")
    chosen = score() if k == "auto" else None
    k = int(k) if chosen is None else chosen.choose_k()
    head = Neighbours(Z, references.labels, references.weight, k, len(means))
    return HeadFit(head, means, None if chosen is None else scored_by(head, chosen))


def _calibrated_means(means: np.ndarray, sharpness: float, scored: ScoredFolds) -> Means:
    """Class means with the temperature and the floor that the scored rows call for."""
    seen = np.bincount(scored.true, scored.mass, len(means)) > 0  # classes that have rows
    scores, true = sharpness * scored.scores()[:, seen], (np.cumsum(seen) - 1)[scored.true]
    present: np.ndarray = np.all(np.isfinite(scores), axis=0)  # a class that is missing in a fold is infinitely far
    a, known, floor = 1.0, present[true], np.zeros(len(means))
    if present.all():
        a, floor[seen] = fit_temperature(scores, true, scored.mass)
        return Means(means, sharpness * a, floor)
    if present.sum() > 1:
        a, _ = fit_temperature(scores[known][:, present], (np.cumsum(present) - 1)[true[known]], scored.mass[known])
    # rows whose class is missing without them tell how often distances know nothing of it; between classes of one
    # frequency the nearer mean still decides
    floor[seen] = (1 - AHEAD) * checked_floor(softmax(a * scores, axis=1), true, scored.mass)
    return Means(means, sharpness * a, floor)


def scored_by(head: Neighbours | Means, scored: ScoredFolds) -> LabelScores:
    """Probabilities of training rows that were scored as if they were new."""
    P = head.held_out(scored)
    return LabelScores(P, scored.true, scored.mass, np.zeros(len(P)))
