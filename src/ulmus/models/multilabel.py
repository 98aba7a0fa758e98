"""Several labels of one row, for classifiers by squares: a column each, all of them by one factorisation."""

from typing import Any

import numpy as np
from scipy import sparse

from ulmus.labels import SeveralLabels
from ulmus.models.reading import validated

#: How to have the same of a classifier that takes one label a row.
INSTEAD = "wrap it: sklearn.multioutput.MultiOutputClassifier fits one model for each label"


def is_matrix(y: Any) -> bool:
    """Whether targets are a matrix of several columns."""
    shape = getattr(y, "shape", None)
    if shape is None:
        first = y[0] if isinstance(y, list | tuple) and len(y) else None
        return isinstance(first, list | tuple | np.ndarray) and len(first) > 1
    return len(shape) == 2 and shape[1] > 1


def read(model: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Rows, and labels as a dense matrix of 0 and 1."""
    name = type(model).__name__
    if not model._takes_indicators:
        raise ValueError(
            f"{name} takes one label per row: y should be a 1d array, got a matrix; for several labels per row "
            f"{INSTEAD}, or use ELMClassifier, KELMClassifier, NKELMClassifier or "
            'AdaptiveClassifier(loss="squared")'
        )
    X, y = validated(model, X, y, multi_output=True)
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"a matrix of labels must hold 0 and 1 (one column per label), got {np.unique(y).tolist()[:5]}; for "
            f"several targets of several classes {INSTEAD}"
        )
    return X, y.astype(np.int64)


def targets_of(y: np.ndarray, given: Any) -> SeveralLabels:
    """Labels by the names of the columns that were given, else by number."""
    names = getattr(given, "columns", None)
    return SeveralLabels(np.arange(y.shape[1]) if names is None else np.asarray(names))


def check(model: Any) -> None:
    """Refuse parameters that are about one label a row."""
    plain = isinstance(model.decision, str) and model.decision == "accuracy"
    wrong = {
        'loss="squared"': model.loss != "squared",
        "class_weight=None": model.class_weight is not None,
        'decision="accuracy"': not plain,
        "monotonic_cst=None": getattr(model, "monotonic_cst", None) is not None,
    }
    asked = [needed for needed, is_wrong in wrong.items() if is_wrong]
    if asked:
        raise ValueError(f"multilabel targets need {' and '.join(asked)}; otherwise {INSTEAD}")
