"""How far predicted classes are from the true ones, in ranks; and scorers that know the order of the classes.

Ordered labels have ranks and no other meaning, so errors are distances in rank. Where ``labels`` are given (lowest
first) a label's rank is its place there; numbers without them are ranks themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from sklearn import metrics as _sklearn_metrics
from sklearn.utils import check_consistent_length, column_or_1d

__all__ = [
    "SCORERS",
    "OrdinalScorer",
    "get_scorer",
    "kendall_tau",
    "macro_absolute_error",
    "mean_rank_error",
    "mean_zero_one_error",
    "quadratic_kappa",
]


def _ranks(y: Any, labels: Any) -> np.ndarray:
    y = column_or_1d(np.asarray(y))
    if labels is None:
        if y.dtype.kind not in "biuf":
            raise ValueError(
                f"labels that are not numbers have no order of their own, got {sorted(map(str, set(y.tolist())))[:5]}; "
                "pass labels=[...] with the lowest first"
            )
        return y.astype(float)
    where = {label: k for k, label in enumerate(np.asarray(labels).tolist())}
    unknown = {label for label in y.tolist() if label not in where}
    if unknown:
        raise ValueError(
            f"{sorted(map(str, unknown))[:5]} are not among the labels {list(where)}; give all labels, lowest first "
            "(to a model: categories=[...])"
        )
    return np.array([where[label] for label in y.tolist()], dtype=float)


def _pair(y_true: Any, y_pred: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    check_consistent_length(y_true, y_pred)
    return _ranks(y_true, labels), _ranks(y_pred, labels)


def mean_zero_one_error(y_true: Any, y_pred: Any, *, labels: Any = None, sample_weight: Any = None) -> float:
    """Share of wrong labels (MZE).

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    labels : array of shape (n_classes,), optional
        All labels, lowest first.
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    float

    Examples
    --------
    >>> from ulmus.metrics import mean_zero_one_error
    >>> mean_zero_one_error([1, 2, 3, 4], [1, 2, 4, 2])
    0.5
    """
    true, predicted = _pair(y_true, y_pred, labels)
    return float(np.average(true != predicted, weights=sample_weight))


def mean_rank_error(y_true: Any, y_pred: Any, *, labels: Any = None, sample_weight: Any = None) -> float:
    """Mean absolute error in ranks (MAE).

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    labels : array of shape (n_classes,), optional
        All labels, lowest first.
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    float

    Examples
    --------
    >>> from ulmus.metrics import mean_rank_error
    >>> mean_rank_error(["low", "high"], ["high", "high"], labels=["low", "middle", "high"])
    1.0
    """
    true, predicted = _pair(y_true, y_pred, labels)
    return float(np.average(np.abs(true - predicted), weights=sample_weight))


def macro_absolute_error(y_true: Any, y_pred: Any, *, labels: Any = None, sample_weight: Any = None) -> float:
    """Mean over the true classes of their mean absolute error in ranks (macro-averaged MAE): rare classes count alike.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    labels : array of shape (n_classes,), optional
        All labels, lowest first. Those that do not occur in ``y_true`` are left out of the mean.
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    float

    Examples
    --------
    >>> from ulmus.metrics import macro_absolute_error
    >>> macro_absolute_error([1, 1, 1, 1, 3], [1, 1, 1, 1, 1])
    1.0
    """
    true, predicted = _pair(y_true, y_pred, labels)
    weight = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    occurring = [true == k for k in np.unique(true) if weight[true == k].any()]
    error = np.abs(true - predicted)
    return float(np.mean([np.average(error[rows], weights=weight[rows]) for rows in occurring]))


def quadratic_kappa(y_true: Any, y_pred: Any, *, labels: Any = None, sample_weight: Any = None) -> float:
    """Cohen's kappa with quadratic weights on the ranks (scikit-learn's).

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    labels : array of shape (n_classes,), optional
        All labels, lowest first.
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    float
        1 for agreement, 0 for chance.
    """
    true, predicted = _pair(y_true, y_pred, labels)
    ranks = None if labels is None else np.arange(len(labels))
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(true, predicted, labels=ranks, weights="quadratic", sample_weight=sample_weight))


def kendall_tau(y_true: Any, y_pred: Any, *, labels: Any = None) -> float:
    """Kendall's rank correlation, corrected for ties (tau-b, SciPy's); 0 when all predictions are the same.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    labels : array of shape (n_classes,), optional
        All labels, lowest first.

    Returns
    -------
    float
    """
    tau = kendalltau(*_pair(y_true, y_pred, labels)).statistic
    return float(np.nan_to_num(tau))


@dataclass(frozen=True)
class OrdinalScorer:
    """A scorer, for ``scoring=``: a metric in the order of the model's ``classes_``, larger is better."""

    metric: Callable[..., float]
    sign: int

    def __call__(self, estimator: Any, X: Any, y_true: Any, sample_weight: Any = None) -> float:
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.sign * self.metric(y_true, estimator.predict(X), labels=estimator.classes_, **weight)


SCORERS: dict[str, OrdinalScorer] = {
    "neg_mean_zero_one_error": OrdinalScorer(mean_zero_one_error, -1),
    "neg_mean_rank_error": OrdinalScorer(mean_rank_error, -1),
    "neg_macro_absolute_error": OrdinalScorer(macro_absolute_error, -1),
    "quadratic_kappa": OrdinalScorer(quadratic_kappa, 1),
    "kendall_tau": OrdinalScorer(kendall_tau, 1),
}


def get_scorer(name: str) -> Any:
    """A scorer by name: one of :data:`SCORERS`, or else one of scikit-learn's.

    scikit-learn looks names up in a list of its own, so pass what this returns: ``scoring=get_scorer("...")``.

    Parameters
    ----------
    name : str

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from ulmus import NKELMOrdinalClassifier
    >>> from ulmus.metrics import get_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NKELMOrdinalClassifier(random_state=0)
    >>> scores = cross_val_score(model, X, y, scoring=get_scorer("neg_mean_rank_error"), cv=3)
    >>> bool(scores.min() > -0.1)
    True
    """
    if name in SCORERS:
        return SCORERS[name]
    try:
        return _sklearn_metrics.get_scorer(name)
    except ValueError as error:
        raise ValueError(f"{name!r} is neither one of {list(SCORERS)} nor a scorer of scikit-learn") from error
