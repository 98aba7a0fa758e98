"""Predictions for rows that come over the wire, by the rules and in the words of the command line."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ulmus.features.frames import LONG, NamedArrays
from ulmus.features.written import MISSING, Kind
from ulmus.tables import TableError
from ulmus.tables.kinds import values
from ulmus.tables.read import TableBatch, batch_of_rows
from ulmus.tables.schema import BY_REQUEST, Schema, frame


@dataclass(frozen=True)
class Question:
    """Rows as JSON objects, and what is asked of them."""

    rows: list[dict[str, Any]]
    proba: bool = False
    interval: float | None = None


@dataclass(frozen=True)
class Answer:
    """Predictions, and what else was asked for; ``warnings`` tells what counts as missing."""

    predictions: list[Any]
    probabilities: list[list[float]] | None = None
    intervals: list[list[float]] | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Predictor:
    """A fitted pipeline and the schema of its table."""

    model: Any
    schema: Schema

    @property
    def classes(self) -> list[Any] | None:
        """The classes, or None for numbers."""
        return self.model[-1].classes_.tolist() if is_classifier(self.model[-1]) else None

    def answer(self, question: Question) -> Answer:
        """The answer to one question; a :class:`~ulmus.tables.TableError` tells what is wrong with its rows."""
        notes: list[str] = []
        X = frame(self._batch(question.rows), self.schema, notes.append, advice=BY_REQUEST)
        return self._answered(X, question, notes)

    def answer_together(self, questions: list[Question]) -> list[Answer | TableError]:
        """The answers to several, in one pass where nothing is wrong with any of them."""
        joined = self._joined(questions)
        if joined is None:
            return [self._alone(question) for question in questions]
        proba, levels = any(q.proba for q in questions), {q.interval for q in questions if q.interval is not None}
        asked: list[float | None] = list(levels) or [None]
        whole = {level: self._answered(joined, Question([], proba, level), []) for level in asked}
        out: list[Answer | TableError] = []
        start = 0
        for question in questions:
            stop = start + len(question.rows)
            found = whole[question.interval if question.interval is not None else next(iter(whole))]
            out.append(
                Answer(
                    found.predictions[start:stop],
                    found.probabilities[start:stop] if question.proba and found.probabilities else None,
                    found.intervals[start:stop] if question.interval is not None and found.intervals else None,
                )
            )
            start = stop
        return out

    def _alone(self, question: Question) -> Answer | TableError:
        try:
            return self.answer(question)
        except TableError as error:
            return error

    def _joined(self, questions: list[Question]) -> Any:
        """The columns of all rows; None where one has a warning, or where a question might be read otherwise alone."""
        rows = [row for question in questions for row in question.rows]
        if not rows:
            return None
        found = NamedArrays()
        for name, kind in self.schema.columns.items():
            try:
                given = [row[name] for row in rows]
            except KeyError:
                return None
            plain = _plain(given, kind)
            if plain is None and not _alike(given):
                return None
            if plain is None:
                known = values(batch_of_rows([{name: value} for value in given]).column(name), kind)
                if len(known.wrong):
                    return None
                plain = known.values
            found[name] = plain
        return found

    def _batch(self, rows: list[dict[str, Any]]) -> TableBatch:
        if not rows:
            raise TableError("no rows")
        return batch_of_rows(rows)

    def _answered(self, X: Any, question: Question, notes: list[str]) -> Answer:
        predicted = np.asarray(self.model.predict(X)).tolist()
        probabilities = intervals = None
        if question.proba:
            probabilities = np.asarray(self.model.predict_proba(X)).tolist()
        if question.interval is not None:
            features = X
            for _, step in self.model.steps[:-1]:
                features = step.transform(features)
            intervals = np.asarray(self.model[-1].predict_interval(features, coverage=question.interval)).tolist()
        return Answer(predicted, probabilities, intervals, notes)

    def check(self, question: Question) -> None:
        """Refuse what the model cannot give."""
        if question.proba and self.classes is None:
            raise TableError("proba is for classes, and this model predicts numbers; use interval")
        if question.interval is not None and self.classes is not None:
            raise TableError("interval is for numbers, and this model predicts classes; use proba")
        if question.interval is not None and not 0 < question.interval < 1:
            raise TableError(f"interval takes a number between 0 and 1, got {question.interval}")


def _plain(given: list[Any], kind: Kind) -> np.ndarray | None:
    """The values of a column that need no reading: numbers, or words as they are; None for all others."""
    types = set(map(type, given))
    if kind.name == "number" and types <= {int, float}:
        return np.array(given, dtype=np.float64) if all(-LONG < value < LONG for value in given) else None
    if kind.name in ("category", "text") and types == {str} and all(word == word.strip() for word in given):
        return np.array(["" if word in MISSING else word for word in given], dtype=object)
    return None


def _alike(given: list[Any]) -> bool:
    """Whether the type of a column is the same for any of its values, so that no row is read by those of others."""
    types = set(map(type, given))
    if types <= {int, float, type(None)}:
        return all(value is None or -LONG < value < LONG for value in given)
    return types <= {str, type(None)} or types <= {bool, type(None)} or types == {list}
