r"""Probabilities from the scores of rows under models that did not see them.

.. math:: P(y=k) = (1 - \varepsilon)\,\operatorname{softmax}(a\,s)_k + \varepsilon\,\pi_k

with the frequencies :math:`\pi` of the classes. The factor a (the *temperature*) and the share :math:`\varepsilon` are
those that make the labels most likely. The share is what makes a robust: scores of a few rows may be far off, where a
model left to itself extrapolates, and for softmax alone one such row outweighs all others and drives a to 0. It also is
a floor: with :math:`\varepsilon = 1` probabilities are the frequencies, so that a fit is never worse than these.

Where no row is wrong, nothing would keep a from growing. n rows that are right leave a chance of 1/(2n + 2) that the
next one is not (the estimate of Krichevsky and Trofimov, whose regret in log loss is the least), and so a is never
larger than the best for the rows that are right when each counts as of another class by that much, as in Platt's
scaling. Rows that are wrong could but lower that.
"""

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from ulmus.calibration.sets import LabelScores
from ulmus.exceptions import NumericalWarning
from ulmus.solvers.log_loss import frequencies
from ulmus.solvers.robust import weighted_median

#: log a is searched on this grid, for scores that typically differ by 1, and then between its points.
LOG_A = np.arange(-5.0, 9.0)
#: Halvings that find a factor, or a share; that of Newton's steps is found sooner, where they change it no more.
HALVINGS, ROUND_OFF = 50, 4 * np.finfo(float).eps
#: Share of the frequencies from which on scores count as saying nothing.
NOTHING = 1 - 1e-3
#: Scores that are behind by more than this many times the middle gap are as far behind as can be.
SURE = 10.0
#: By how much the class of the largest score is ahead of one that is more frequent, relative to its probability.
AHEAD = 1e-6


@dataclass(frozen=True)
class Temperature:
    """The factor a, ``ε π`` (what every class has at least), and the scores of rows left out behind them.

    ``prior`` is the share of every class in the weight of the training rows.
    """

    factor: float
    floor: np.ndarray | None = None
    left_out: LabelScores | None = None
    prior: np.ndarray | None = None
    #: What the scores were fitted by.
    loss: ClassVar[str] = "squared"

    @classmethod
    def of(cls, class_scores: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> Self:
        """Those that make the classes of rows that were left out most likely."""
        return cls(*fit_temperature(class_scores, indices, weight))

    def probabilities(self, class_scores: np.ndarray) -> np.ndarray:
        """Of every class; squares decide by the largest score, log models by the largest probability."""
        return probabilities(class_scores, self.factor, self.floor, by_score=self.loss == "squared")

    def floor_at(self, places: np.ndarray) -> np.ndarray | None:
        """What the classes at these places have at least."""
        return None if self.floor is None else self.floor[places]

    def placed(self, places: np.ndarray, n_classes: int) -> "Temperature":
        """The same among more classes, in which those that it knows stand at these places."""
        if self.floor is None:
            return self
        floor, prior = np.zeros(n_classes), None if self.prior is None else np.zeros(n_classes)
        floor[places] = self.floor
        if prior is not None:
            prior[places] = self.prior
        return replace(self, floor=floor, prior=prior, left_out=None)  # scores have other columns


@dataclass(frozen=True)
class LogScores(Temperature):
    """Scores are logarithms of probabilities: those of a model that was fitted by the log loss."""

    loss: ClassVar[str] = "log"

    @classmethod
    def own(cls, class_scores: np.ndarray, indices: np.ndarray, weight: np.ndarray, factor: float) -> Self:
        """Probabilities as the model has them, checked on rows left out: only the share of the frequencies is fitted.

        With all of it probabilities are the frequencies, so that they are never worse than these on those rows.
        """
        return cls(factor, checked_floor(softmax(factor * class_scores, axis=1), indices, weight))


@dataclass(frozen=True)
class LogOdds(Temperature):
    """Scores are log-odds as they are; ``count`` is how often every class was seen."""

    count: np.ndarray | None = None
    loss: ClassVar[str] = "log"

    def floor_at(self, places: np.ndarray) -> np.ndarray | None:
        """The same; models of earlier versions have a share of 1/(n + 1), whatever rows left out say."""
        if self.floor is not None or self.count is None:
            return super().floor_at(places)
        total = self.count.sum()
        return np.asarray(self.count / total / (total + 1.0))


def checked_floor(P: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``ε π`` with the ε that makes classes of rows left out, which have these probabilities, most likely."""
    frequency, least = frequencies(P.shape[1], indices, weight)
    prior, own = frequency[indices], P[np.arange(len(indices)), indices]
    share = _share(own, prior, weight, least)
    if share > NOTHING:
        _warn_of_nothing(_loss((1 - share) * own + share * prior, weight))
    return share * frequency


def fit_temperature(class_scores: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """The factor a, and ``ε π``, what every class has whatever the scores say; a weight of k counts as k rows."""
    frequency, least = frequencies(class_scores.shape[1], indices, weight)
    prior = frequency[indices]
    gap = weighted_median(np.ptp(class_scores, axis=1), weight) or float(np.ptp(class_scores, axis=1).max())
    if not gap > 0:
        _warn_of_nothing(_loss(prior, weight))
        return 1.0, frequency
    scores = class_scores / gap
    behind = scores - scores.max(axis=1, keepdims=True)  # by so much less than the largest, whatever a is
    theirs = behind[np.arange(len(indices)), indices]

    def at(log_a: float) -> tuple[float, float]:
        """Mean log loss, and the share that makes it least."""
        a = np.exp(log_a)
        own = np.exp(a * theirs) / np.exp(a * behind).sum(axis=1)
        share = _share(own, prior, weight, least)
        return _loss((1 - share) * own + share * prior, weight), share

    best = min(LOG_A, key=lambda log_a: at(log_a)[0])
    found = minimize_scalar(lambda log_a: at(log_a)[0], bounds=(best - 1, best + 1), method="bounded")
    log_a = float(found.x) if found.fun < at(best)[0] else float(best)
    log_a = min(log_a, _most(scores, indices, weight))
    loss, share = at(log_a)
    if share > NOTHING:
        _warn_of_nothing(loss)
    return float(np.exp(log_a) / gap), share * frequency


def _most(scores: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> float:
    """The log a that is best for the rows that are right when each may be of another class, by a chance of 1/(2n + 2).

    Where a is larger, ``Σ w (Σ_k p_k s_k − Σ_k q_k s_k)``, the slope of that loss, rises with it.
    """
    right = scores.argmax(axis=1) == indices
    s, w, n_classes = scores[right], weight[right], scores.shape[1]
    if not len(s):
        return np.inf
    s = np.maximum(s - s[np.arange(len(s)), indices[right]][:, None], -SURE)  # their own are the largest: 0
    # their share of all rows: counted by themselves, copies of rows that weigh less than 1 would be more than a weight
    count = max(float(weight.sum()), float(len(weight))) * float(w.sum() / weight.sum())
    chance = 0.5 / (count + 1.0)
    target = chance / (n_classes - 1) * s.sum(axis=1)
    low, high = LOG_A[0] - 1.0, LOG_A[-1] + 1.0

    def slope(log_a: float) -> float:
        P = np.exp(np.exp(log_a) * s)
        return float(w @ (np.einsum("ik,ik->i", P, s) / P.sum(axis=1) - target))

    if slope(high) <= 0:
        return np.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return high


def _loss(p: np.ndarray, weight: np.ndarray) -> float:
    return -float(np.average(np.log(p), weights=weight))


def _share(own: np.ndarray, prior: np.ndarray, weight: np.ndarray, least: float) -> float:
    """The ε, ``least`` at least, that minimises the convex ``−Σ w log((1 − ε) own + ε prior)``, by Newton's steps.

    Where a step leaves the interval that is known to hold ε, the interval is halved.
    """
    more = prior - own

    def derivatives(share: float) -> tuple[float, float]:
        """Of the sum of logarithms; the second one is negative, so that the first one falls."""
        ratio = more / ((1 - share) * own + share * prior)
        weighted = weight * ratio
        return float(weighted.sum()), -float(weighted @ ratio)

    low, high = least, 1.0
    for end, beyond in ((low, False), (high, True)):
        if (derivatives(end)[0] > 0) == beyond:
            return end
    share = (low + high) / 2
    for _ in range(HALVINGS):
        first, second = derivatives(share)
        low, high = (share, high) if first > 0 else (low, share)
        step = share - first / second if second < 0 else low
        if abs(step - share) <= ROUND_OFF * share:
            break
        share = step if low < step < high else (low + high) / 2
    return share


def _warn_of_nothing(loss: float) -> None:
    warnings.warn(
        "the held-out scores are no more informative than the class frequencies (log loss "
        f"{loss:.3g}); predict_proba returns nearly those. More rows or other features may help, or a smaller C, where "
        "one is given",
        NumericalWarning,
        stacklevel=6,
    )


def probabilities(
    class_scores: np.ndarray, temperature: float, floor: np.ndarray | None, *, by_score: bool = True
) -> np.ndarray:
    """``softmax(temperature · scores)`` over a floor; the class of the largest score is the most probable one.

    Not so where scores are log-odds (``by_score=False``): there the most probable class is the answer.
    """
    floor = np.zeros(class_scores.shape[1]) if floor is None else floor
    P = floor + (1.0 - floor.sum()) * softmax(temperature * class_scores, axis=1)
    if not by_score:
        return P
    top = P.max(axis=1, keepdims=True)
    behind = (class_scores == class_scores.max(axis=1, keepdims=True)) & (top > P)
    if behind.any():
        P = np.where(behind, (1.0 + AHEAD) * top, P)
        P /= P.sum(axis=1, keepdims=True)
    return P
