"""Scores of a model on rows, with how sure one can be of them."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ulmus.measures import CLASSIFICATION, LABELS, ORDINAL, REGRESSION, TWO_CLASSES, Answers, Measure, Score, scored
from ulmus.models._ordinal import Ordinal

__all__ = ["Score", "answers_of", "scores"]


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
    return scored(answers, measures, random_state)


def answers_of(model: Any, last: Any, X: Any, y: np.ndarray) -> tuple[Answers, tuple[Measure, ...]]:
    """What the model says, and the measures of its task; labels as positions among its classes."""
    if not is_classifier(last):
        return Answers(np.asarray(y, float), model.predict(X)), REGRESSION
    if y.ndim == 2:
        return Answers(y, model.predict(X)), LABELS
    where = {label: k for k, label in enumerate(last.classes_.tolist())}
    unknown = len(where)
    truth = np.array([where.get(label, unknown) for label in y.tolist()])
    predicted = np.array([where[label] for label in model.predict(X).tolist()])
    answers = Answers.of_classes(truth, predicted, model.predict_proba(X))
    if isinstance(last, Ordinal):
        return answers, ORDINAL
    return answers, TWO_CLASSES if len(where) == 2 else CLASSIFICATION
