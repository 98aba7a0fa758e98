"""What else could be done with a table: a constant, a straight line, boosted trees, on the same rows held out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from ulmus._numbers import number
from ulmus.features.table_encoder import TableEncoder
from ulmus.scores import Score, scores

#: Levels that boosted trees take as such, at most.
LEVELS = 250
#: Rows below which one thread fits them.
SMALL = 10_000
#: Which score ranks, where none is asked for, by task.
FIRST = {"regression": "R²", "classification": "log loss", "ordinal": "log loss"}


@dataclass(frozen=True)
class Contender:
    """One line of the leaderboard."""

    name: str
    scores: list[Score]
    seconds: float
    ours: bool = False

    def value(self, measure: str) -> Score:
        return next(score for score in self.scores if score.name == measure)

    def shown(self, measure: str) -> float:
        """Its value for a table: an R² of -4e-5 is 0."""
        value = self.value(measure).value
        return round(value, 4) + 0.0 if measure == "R²" else value

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "scores": [score.to_json() for score in self.scores], "seconds": self.seconds}


class Trees:
    """Boosted trees on numbers and codes; levels beyond what they take are numbers to them."""

    def __init__(self, classes: bool, kinds: dict[str, Any] | None) -> None:
        self._columns = TableEncoder(prepared=False, kinds=kinds, random_state=0)
        self._classes = classes

    def fit(self, X: Any, y: np.ndarray) -> "Trees":
        M = self._columns.fit_transform(X)
        codes = self._columns.categorical_
        few = np.array([len(np.unique(column[np.isfinite(column)])) <= LEVELS for column in M.T], bool)
        kind = HistGradientBoostingClassifier if self._classes else HistGradientBoostingRegressor
        self.model = kind(categorical_features=codes & few, random_state=0).fit(_known(M, codes), y)
        self.classes_ = getattr(self.model, "classes_", None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict(self._numbers(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self._numbers(X)))

    def _numbers(self, X: Any) -> np.ndarray:
        return _known(self._columns.transform(X), self._columns.categorical_)

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()


def _known(M: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A level that was never seen is missing to the trees."""
    return np.where(codes & (M < 0), np.nan, M)


def baselines(
    X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray, *, classes: bool, kinds: Any = None
) -> list[Contender]:
    """Constant, linear model and boosted trees, fitted to the same rows and scored on the same others."""

    def linear() -> Any:
        last = LogisticRegression(max_iter=300) if classes else Ridge()
        return Pipeline([("columns", TableEncoder(kinds=kinds, random_state=0)), ("model", last)])

    makers: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("constant", lambda: DummyClassifier(strategy="prior") if classes else DummyRegressor()),
        ("linear", linear),
        ("boosted trees", lambda: Trees(classes, kinds)),
    )
    found = []
    for name, make in makers:
        began = time.perf_counter()
        with threadpool_limits(1 if len(y) < SMALL else None, user_api="openmp"):  # threads only wait on few rows
            model = make().fit(X, y)
        found.append(Contender(name, scores(model, X_test, y_test), time.perf_counter() - began))
    return found


def ranked(entries: list[Contender], measure: str) -> list[Contender]:
    """Best first; what has no value comes last."""
    better = entries[0].value(measure).better

    def key(entry: Contender) -> tuple[bool, float]:
        value = entry.value(measure).value
        return (not np.isfinite(value), -value if better == "higher" else value)

    return sorted(entries, key=key)


def verdict(entries: list[Contender], measure: str) -> str:
    """What to say where a baseline is ahead; empty where ours is."""
    ordered = ranked(entries, measure)
    first, ours = ordered[0], next(entry for entry in entries if entry.ours)
    theirs, own = first.value(measure).value, ours.value(measure)
    if first is ours or number(theirs) == number(own.value):
        return ""
    close = own.low <= theirs <= own.high
    words = f"{first.name} scored better on these rows ({measure} {number(theirs)}, ulmus {number(own.value)})"
    return f"{words}, within the confidence interval of ulmus" if close else f"{words}: consider that model"
