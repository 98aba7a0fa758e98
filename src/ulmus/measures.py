"""How good answers are, and how sure one can be of that: the measures of a task, with intervals by the bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics

#: Resamples behind an interval, and rows of one at most.
RESAMPLES, MAX_ROWS = 200, 20_000
#: Share of what may be that an interval leaves out on either side.
TAIL = 0.025
#: Names of the measures of how rows are ranked.
AREA, PRECISION = "area under the ROC curve", "average precision"


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

    ``second`` are the probabilities of the second of two classes; rows of weight k count as k rows.
    """

    y: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray | None = None
    second: np.ndarray | None = None
    weight: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Answers":
        """These rows, each as one."""
        more = (None if values is None else values[rows] for values in (self.probability, self.second))
        return Answers(self.y[rows], self.predicted[rows], *more)

    def mean(self, values: np.ndarray) -> float:
        """The mean over rows, and outputs."""
        return float(np.mean(np.average(values, axis=0, weights=self.weight)))

    def turned(self, rows: np.ndarray, share: float) -> "Answers":
        """As if this share of the rows, which are classes, were answered right where they are wrong, and vice versa."""
        y, known = self.y[rows], self.predicted[rows]
        other = 1 - y.astype(int) if y.ndim > 1 else np.where(y > 0, y - 1, 1)
        probability, second = (
            None if values is None else np.append(values, 1 - values[rows])
            for values in (self.probability, self.second)
        )
        weight = np.ones(len(self.y)) if self.weight is None else self.weight.astype(float)
        kept = np.where(np.isin(np.arange(len(weight)), rows), 1 - share, 1.0) * weight
        predicted = np.append(self.predicted, np.where(known == y, other, y), axis=0)
        both = np.append(kept, share * weight[rows])
        return Answers(np.append(self.y, y, axis=0), predicted, probability, second, both)

    @classmethod
    def of_classes(cls, true: np.ndarray, predicted: np.ndarray, P: np.ndarray, weight: Any = None) -> "Answers":
        """From probabilities, one column per class; a class beyond the last column has none."""
        known = np.column_stack([P, np.zeros(len(P))])[np.arange(len(P)), true]
        return cls(true, predicted, known, P[:, 1] if P.shape[1] == 2 else None, weight)


def _known(probability: np.ndarray | None) -> np.ndarray:
    assert probability is not None
    return probability


def _r2(a: Answers) -> float:
    spread = a.mean((a.y - np.average(a.y, axis=0, weights=a.weight)) ** 2)
    return 1.0 - a.mean((a.y - a.predicted) ** 2) / spread if spread > 0 else float("nan")


def _balanced(a: Answers) -> float:
    weight = np.ones(len(a.y)) if a.weight is None else a.weight
    count = np.bincount(a.y, weight)
    return float((np.bincount(a.y, weight * (a.y == a.predicted))[count > 0] / count[count > 0]).mean())


def _kappa(a: Answers) -> float:
    if len(np.unique(np.concatenate([a.y, a.predicted]))) < 2:
        return float("nan")
    return float(metrics.cohen_kappa_score(a.y, a.predicted, weights="quadratic", sample_weight=a.weight))


def _of_two(measure: Callable[..., Any]) -> Callable[[Answers], float]:
    """A measure of how well two classes are separated; NaN where one of them is not there."""

    def value(a: Answers) -> float:
        truth = a.y == 1
        known = (a.y < 2).all() and truth.any() and not truth.all()
        return float(measure(truth, _known(a.second), sample_weight=a.weight)) if known else float("nan")

    return value


def _f1(a: Answers) -> float:
    both = a.mean(((a.y == 1) & (a.predicted == 1)).astype(float))
    either = a.mean((a.y == 1).astype(float)) + a.mean((a.predicted == 1).astype(float))
    return float(2 * both / either) if either else float("nan")


Measure = tuple[str, str, Callable[[Answers], float]]

REGRESSION: tuple[Measure, ...] = (
    ("R²", "higher", _r2),
    ("root mean squared error", "lower", lambda a: float(np.sqrt(a.mean((a.y - a.predicted) ** 2)))),
    ("mean absolute error", "lower", lambda a: a.mean(np.abs(a.y - a.predicted))),
)
CLASSIFICATION: tuple[Measure, ...] = (
    ("accuracy", "higher", lambda a: a.mean((a.y == a.predicted).astype(float))),
    ("balanced accuracy", "higher", _balanced),
    ("log loss", "lower", lambda a: a.mean(-np.log(np.maximum(_known(a.probability), 1e-15)))),
)
TWO_CLASSES: tuple[Measure, ...] = (
    *CLASSIFICATION,
    (AREA, "higher", _of_two(metrics.roc_auc_score)),
    (PRECISION, "higher", _of_two(metrics.average_precision_score)),
    ("F1", "higher", _f1),
)
ORDINAL: tuple[Measure, ...] = (
    ("mean absolute error in ranks", "lower", lambda a: a.mean(np.abs(a.y - a.predicted))),
    *CLASSIFICATION[:1],
    ("quadratic weighted kappa", "higher", _kappa),
    *CLASSIFICATION[2:],
)
LABELS: tuple[Measure, ...] = (
    ("labels right", "higher", lambda a: a.mean((a.y == a.predicted).astype(float))),
    ("rows with all labels right", "higher", lambda a: a.mean((a.y == a.predicted).all(axis=1).astype(float))),
)


def scored(answers: Answers, measures: tuple[Measure, ...], random_state: int = 0) -> list[Score]:
    """The measures of answers, with 95 % intervals by the bootstrap over rows."""
    rng = np.random.RandomState(random_state)
    n, share = len(answers.y), None if answers.weight is None else answers.weight / answers.weight.sum()
    drawn = min(n, MAX_ROWS)

    def draw() -> Answers:
        return answers.take(rng.randint(n, size=drawn) if share is None else rng.choice(n, drawn, p=share))

    draws, shrink = [draw() for _ in range(RESAMPLES)], np.sqrt(drawn / n)
    found = []
    for name, better, measure in measures:
        value = measure(answers)
        ends = interval(value, [measure(draw) for draw in draws], shrink, better)
        if ends[0] == ends[1] and answers.y.dtype.kind in "iub":
            ends = unseen(answers, measure)
        found.append(Score(name, value, *ends, better))
    return found


def unseen(answers: Answers, measure: Callable[[Answers], float]) -> tuple[float, float]:
    """The interval of a measure of classes on which all resamples agree, as where no row is wrong.

    Where n rows of a class are all right, as large a share may be wrong in truth as n rows show nothing of with a
    probability of 2.5 %. The class in which that matters most decides.
    """
    every, y = np.arange(len(answers.y)), answers.y
    rows = [every] if y.ndim > 1 else [every[y == k] for k in np.unique(y)]
    others = [measure(answers.turned(some, 1 - TAIL ** (1 / len(some)))) for some in rows]
    ends = [value for value in (measure(answers), *others) if np.isfinite(value)]
    return float(min(ends)), float(max(ends))


def interval(value: float, draws: list[float], shrink: float, better: str) -> tuple[float, float]:
    """The 95 % interval of resamples, moved so that their median is the estimate: resamples of few rows are biased."""
    there = np.asarray(draws)[np.isfinite(draws)]
    if not np.isfinite(value) or not len(there):
        return float("nan"), float("nan")
    low, middle, high = np.quantile(there, (TAIL, 0.5, 1 - TAIL))
    low, high = value + shrink * (low - middle), value + shrink * (high - middle)
    return (float(low), float(min(high, 1.0))) if better == "higher" else (float(max(low, 0.0)), float(high))
