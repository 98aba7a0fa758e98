r"""The option ``metric``: kernels see :math:`x \to Ax`, with an A that is given or learned from the data."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.kernels import dense
from ulmus.features.sampling import gathered, shuffled_sample
from ulmus.models.choice import by_squares
from ulmus.tuning.metric import MetricSearch, quietly

#: Rows and landmarks with which the first width is found, and those with which the metric is learned.
FIRST = (2_000, 200)
ROWS, LANDMARKS, ROUNDS = 4_000, 350, 5


def learn_metric(
    rows: Rows,
    coding: Coding,
    kernel: Any,
    rng: np.random.RandomState,
    *,
    form: str = "diagonal",
    fit_intercept: bool = True,
    criterion: str = "auto",
    n_jobs: int | None = -1,
    **shape: Any,
) -> np.ndarray:
    """The metric with the lowest loss on rows left out of a sample: ``[feature]``, or ``[feature, direction]``.

    Rows leave one by one, or by folds, where they have some.

    Where none lowers the loss it is that of the plain kernel: ones, or the identity.
    """
    if not isinstance(kernel, str):
        raise ValueError("a metric is learned from gradients, and those of a callable kernel are not known; name one")
    if sparse.issparse(rows.X):
        raise TypeError("Sparse data is not supported with metric learning; pass X.toarray(), or metric=None")
    rows = gathered(replace(rows, X=dense(rows.X, np.float64)))
    if rows.X.shape[1] < 2:
        return np.ones(1) if form == "diagonal" else np.eye(1)
    search = MetricSearch(coding, int(rng.randint(2**31 - 1)), fit_intercept, criterion, form, shape)

    with quietly():
        factor = search.climb(shuffled_sample(rows, FIRST[0], rng), kernel, 1.0, FIRST[1], n_jobs).factor
        return search.sharpest(shuffled_sample(rows, ROWS, rng), kernel, factor, LANDMARKS, ROUNDS, n_jobs)[0]


def importances(A: np.ndarray) -> np.ndarray:
    """Share of each feature in the mean squared slope from which the metric was made."""
    M = A**2 if A.ndim == 1 else (A**2).sum(axis=1)
    return M / M.sum()


def metric_for(
    model: Any, settings: Any, rows_of: Callable[[], Rows], coding_of: Callable[[Rows], Coding]
) -> np.ndarray | None:
    """The metric that ``settings`` ask for: None, the one that is given, or one that is learned from the rows.

    ``settings`` have the parameters of the kernel: those of the model, or of the estimator that it has members of.
    """
    metric = getattr(settings, "metric", None)
    if metric is None or not isinstance(metric, str):
        return None if metric is None else checked_metric(metric)
    rows, seed = rows_of(), model.random_state
    return learn_metric(
        rows,
        coding_of(rows),
        settings.kernel,
        seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed),
        form="diagonal" if metric == "auto" else metric,
        fit_intercept=model._intercept,
        criterion=by_squares(settings.criterion),
        n_jobs=model.n_jobs,
        degree=settings.degree,
        coef0=settings.coef0,
    )


def metric_for_blocks(settings: Any) -> np.ndarray | None:
    """The metric of rows that come in blocks: one that is given, or none."""
    metric = getattr(settings, "metric", None)
    if isinstance(metric, str):
        raise ValueError(
            f"metric={metric!r} is learned by fit from all rows, and partial_fit sees them in blocks; "
            "fit on some rows first, or pass the metric_ of a model that was fitted on some"
        )
    return None if metric is None else checked_metric(metric)


def metric_in_use(model: Any) -> np.ndarray:
    """The metric in use."""
    A: np.ndarray | None = model._known("metric")
    if A is None:
        raise AttributeError(f"this {type(model).__name__} has no metric; set metric='auto' to learn one")
    return A


def importances_in_use(model: Any) -> np.ndarray:
    """Share of each feature in the mean squared slope of the model, from the metric."""
    return importances(metric_in_use(model))


def checked_metric(metric: Any) -> np.ndarray:
    """A metric that is given, as numbers."""
    A = np.asarray(metric, dtype=np.float64)
    if A.ndim not in (1, 2) or not np.isfinite(A).all() or not A.any():
        raise ValueError(
            "metric must be finite numbers, not all 0, one for each feature or [feature, direction]; "
            f"got an array of shape {A.shape}"
        )
    return A
