"""Which columns matter: by shuffling them, and by the slope of models that measure it."""

import warnings
from typing import Any

import numpy as np
from sklearn.inspection import permutation_importance

from ulmus.exceptions import DataWarning
from ulmus.report import figures as draw
from ulmus.report.page import paragraph, table
from ulmus.report.reasons import reasons_part
from ulmus.report.subject import Subject

#: Columns that are listed.
MANY = 30
#: Columns beyond which shuffling each takes too long.
TOO_MANY = 200
#: Rows, and shuffles of a column.
ROWS, SHUFFLES = 500, 5


def importance_section(s: Subject) -> str:
    return _shuffled(s) + reasons_part(s) + _slopes(s)


def shuffled(s: Subject) -> Any:
    """What shuffling each column costs, on some rows; None where columns are too many."""
    rows = _balanced(s)
    frame, y = s.frame.iloc[rows], s.y[rows]
    if frame.shape[1] > TOO_MANY:
        return None
    scoring = None if s.kind == "regression" else _log_likelihood
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return permutation_importance(
            s.estimator, s.rows(frame), y, scoring=scoring, n_repeats=SHUFFLES, random_state=0
        )


def _shuffled(s: Subject) -> str:
    found, frame = s.shuffled, s.frame
    if found is None:
        return paragraph(f"Skipped: permuting each of {frame.shape[1]:,} columns would take too long.")
    order = np.argsort(found.importances_mean)[::-1][:MANY]
    names = [str(frame.columns[j]) for j in order]
    what = "decrease in R²" if s.kind == "regression" else "increase in log loss"
    values, spread = found.importances_mean[order], found.importances_std[order]
    lists = table(
        ("column", what, "±"), [(n, float(v), float(e)) for n, v, e in zip(names, values, spread, strict=True)]
    )
    title, note = "Permutation importance of the columns", "How much the score worsens when a column is shuffled."
    return draw.bars(names, values, spread, what, title, note) + lists


def _balanced(s: Subject) -> np.ndarray:
    """Some rows; of classes, as many of each as there are, up to its share: a rare one is not lost among the others."""
    if s.kind == "regression":
        return s.sample[:: max(1, len(s.sample) // ROWS)]
    labels, index = np.unique(s.y, return_inverse=True)
    order = np.random.RandomState(0).permutation(len(index))
    share = max(1, ROWS // len(labels))
    taken = np.concatenate([order[index[order] == k][:share] for k in range(len(labels))])
    rest = np.setdiff1d(order, taken, assume_unique=True)
    more = np.random.RandomState(1).permutation(rest)[: max(0, ROWS - len(taken))]
    return np.sort(np.concatenate([taken, more]))


def _log_likelihood(estimator: Any, X: Any, y: np.ndarray) -> float:
    """Mean log of the probability of the true class: moves where accuracy, under imbalance, does not."""
    where = {label: k for k, label in enumerate(estimator.classes_.tolist())}
    P = np.column_stack([estimator.predict_proba(X), np.zeros(len(y))])
    truth = [where.get(label, len(where)) for label in y.tolist()]
    return float(np.log(np.maximum(P[np.arange(len(y)), truth], 1e-15)).mean())


def _slopes(s: Subject) -> str:
    """The share of every feature in the mean squared slope of the model."""
    values = getattr(s.model, "feature_importances_", None)
    if values is None:
        return ""
    order = np.argsort(values)[::-1][:MANY]
    names, values = [s.feature_names[j] for j in order], values[order]
    text = (
        "The model also measures along which features it varies most: their share of its mean squared gradient. A "
        "feature can have a large share and still not be missed when shuffled, if others carry the same information."
    )
    title, note = "Importance of the features to the model", "Shares of the mean squared gradient; they sum to 1."
    lists = table(("feature", "share of the gradient"), [(n, float(v)) for n, v in zip(names, values, strict=True)])
    return paragraph(text) + draw.bars(names, values, None, "share of the gradient", title, note) + lists
