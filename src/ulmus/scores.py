"""Scores of a model on rows, with how sure one can be of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ulmus.models._ordinal import Ordinal

#: Resamples behind an interval, and rows of one at most.
RESAMPLES, MAX_ROWS = 200, 20_000


@dataclass(frozen=True)
class Score:
    """A score, and the 95 % interval of its bootstrap over rows; NaN where it is not defined on these rows."""

    name: str
    value: float
    low: float
    high: float
    better: str = "higher"

    def to_json(self) -> dict[str, Any]:
        """For a file; JSON has no NaN, so that a number that is not defined is null."""
        return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in vars(self).items()}


@dataclass(frozen=True)
class Answers:
    """True targets, predictions, and the probabilities of the true classes; classes by their position.

    ``second`` are the probabilities of the second of two classes.
    """

    y: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray | None = None
    second: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Answers":
        more = (None if values is None else values[rows] for values in (self.probability, self.second))
        return Answers(self.y[rows], self.predicted[rows], *more)


def _known(probability: np.ndarray | None) -> np.ndarray:
    assert probability is not None
    return probability


def _r2(a: Answers) -> float:
    spread = float(((a.y - a.y.mean(axis=0)) ** 2).sum())
    return 1.0 - float(((a.y - a.predicted) ** 2).sum()) / spread if spread > 0 else float("nan")


def _balanced(a: Answers) -> float:
    right = (a.y == a.predicted).astype(float)
    count = np.bincount(a.y)
    return float((np.bincount(a.y, right)[count > 0] / count[count > 0]).mean())


def _kappa(a: Answers) -> float:
    if len(np.unique(np.concatenate([a.y, a.predicted]))) < 2:
        return float("nan")
    return float(metrics.cohen_kappa_score(a.y, a.predicted, weights="quadratic"))


def _of_two(measure: Callable[[np.ndarray, np.ndarray], Any]) -> Callable[[Answers], float]:
    """A measure of how the second of two classes is told from the first; NaN where one of them is not there."""

    def value(a: Answers) -> float:
        truth = a.y == 1
        known = (a.y < 2).all() and truth.any() and not truth.all()
        return float(measure(truth, _known(a.second))) if known else float("nan")

    return value


def _f1(a: Answers) -> float:
    both, either = np.sum((a.y == 1) & (a.predicted == 1)), np.sum(a.y == 1) + np.sum(a.predicted == 1)
    return float(2 * both / either) if either else float("nan")


Measure = tuple[str, str, Callable[[Answers], float]]

REGRESSION: tuple[Measure, ...] = (
    ("R²", "higher", _r2),
    ("root mean squared error", "lower", lambda a: float(np.sqrt(np.mean((a.y - a.predicted) ** 2)))),
    ("mean absolute error", "lower", lambda a: float(np.abs(a.y - a.predicted).mean())),
)
CLASSIFICATION: tuple[Measure, ...] = (
    ("accuracy", "higher", lambda a: float((a.y == a.predicted).mean())),
    ("balanced accuracy", "higher", _balanced),
    ("log loss", "lower", lambda a: float(-np.log(np.maximum(_known(a.probability), 1e-15)).mean())),
)
TWO_CLASSES: tuple[Measure, ...] = (
    *CLASSIFICATION,
    ("area under the ROC curve", "higher", _of_two(metrics.roc_auc_score)),
    ("average precision", "higher", _of_two(metrics.average_precision_score)),
    ("F1", "higher", _f1),
)
ORDINAL: tuple[Measure, ...] = (
    ("mean absolute error in ranks", "lower", lambda a: float(np.abs(a.y - a.predicted).mean())),
    *CLASSIFICATION[:1],
    ("quadratic weighted kappa", "higher", _kappa),
    *CLASSIFICATION[2:],
)


def scores(model: Any, X: Any, y: Any, *, random_state: int = 0) -> list[Score]:
    """Scores of a fitted model on rows, with 95 % intervals by the bootstrap.

    Parameters
    ----------
    model : estimator or Pipeline
    X, y : rows and targets, which the model should not have seen
    random_state : int, default=0

    Returns
    -------
    list of Score
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    answers, measures = answers_of(model, last, X, np.asarray(y))
    rng = np.random.RandomState(random_state)
    n = len(answers.y)
    draws = [answers.take(rng.randint(n, size=min(n, MAX_ROWS))) for _ in range(RESAMPLES)]
    shrink = np.sqrt(min(n, MAX_ROWS) / n)
    found = []
    for name, better, measure in measures:
        value = measure(answers)
        found.append(Score(name, value, *interval(value, [measure(draw) for draw in draws], shrink, better), better))
    return found


def interval(value: float, draws: list[float], shrink: float, better: str) -> tuple[float, float]:
    """The 95 % interval of resamples, moved so that their median is the estimate: resamples of few rows are biased."""
    there = np.asarray(draws)[np.isfinite(draws)]
    if not np.isfinite(value) or not len(there):
        return float("nan"), float("nan")
    low, middle, high = np.quantile(there, (0.025, 0.5, 0.975))
    low, high = value + shrink * (low - middle), value + shrink * (high - middle)
    return (float(low), float(min(high, 1.0))) if better == "higher" else (float(max(low, 0.0)), float(high))


def answers_of(model: Any, last: Any, X: Any, y: np.ndarray) -> tuple[Answers, tuple[Measure, ...]]:
    """What the model says, and the measures of its task; labels as positions among its classes."""
    if not is_classifier(last):
        return Answers(np.asarray(y, float), model.predict(X)), REGRESSION
    where = {label: k for k, label in enumerate(last.classes_.tolist())}
    unknown = len(where)
    truth = np.array([where.get(label, unknown) for label in y.tolist()])
    predicted = np.array([where[label] for label in model.predict(X).tolist()])
    P = np.column_stack([model.predict_proba(X), np.zeros(len(truth))])
    of_true = P[np.arange(len(truth)), truth]
    if isinstance(last, Ordinal):
        return Answers(truth, predicted, of_true), ORDINAL
    if len(where) != 2:
        return Answers(truth, predicted, of_true), CLASSIFICATION
    return Answers(truth, predicted, of_true, P[:, 1]), TWO_CLASSES
