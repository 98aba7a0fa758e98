r"""The option ``metric``: kernels see :math:`x \to Ax`, with an A that is given or learned from the data."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from ulmus._sklearn import check_sample_weight, fit_context
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.kernels import dense
from ulmus.features.sampling import left_out_together, shuffled_sample
from ulmus.tuning import fold_numbers
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
        raise ValueError("a metric is learned from gradients, and a callable kernel has none that is known; name one")
    if sparse.issparse(rows.X):
        raise TypeError("Sparse data is not supported where a metric is learned; pass X.toarray(), or metric=None")
    rows = replace(rows, X=dense(rows.X, np.float64))
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


class MetricInput:
    """Rows as the metric shows them; put before the task in the list of parents."""

    metric: Any
    #: The metric in use; None is the plain kernel.
    _metric: np.ndarray | None

    @property
    def _asked(self) -> Any:
        """The model whose parameters say what metric: this one, or the estimator of an ensemble."""
        return self

    def _wanted_metric(self) -> Any:
        """The parameter, where it can be had."""
        return self.metric

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Dense arrays, pandas and polars frames, PyTorch tensors, or CSR rows.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets or class labels.
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.
        groups : array of shape (n_samples,), optional
            Rows of one group are kept in one fold when parameters are chosen.

        Returns
        -------
        self
        """
        self._metric, metric = None, self._asked._wanted_metric()
        if isinstance(metric, str):
            self._metric = self._learned(X, y, sample_weight, groups)
        elif metric is not None:
            self._metric = _checked_metric(metric)
        return super().fit(X, y, sample_weight, groups)  # type: ignore[misc]

    def _learned(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> np.ndarray:
        model: Any = self
        asked = self._asked
        X, y = super()._validate(X, y)  # type: ignore[misc]
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        folds = fold_numbers(getattr(asked, "cv", None), X, y, groups, is_classifier(model), weight)
        if weight is not None:
            folds = None if folds is None else folds[weight > 0]
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        T, balance = model._encode(y, weight)
        rows = Rows(X, T, weight, left_out_together(X, T, weight), folds)
        rows = rows if balance is None else rows.reweighted(balance)
        seed = model.random_state
        return learn_metric(
            rows,
            model._coding(rows),
            asked.kernel,
            seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed),
            form="diagonal" if asked.metric == "auto" else asked.metric,
            fit_intercept=model._intercept,
            criterion=asked.criterion,
            n_jobs=model.n_jobs,
            degree=asked.degree,
            coef0=asked.coef0,
        )

    def _begin_blocks(self) -> None:
        if "_metric" in self.__dict__:
            return
        metric = self._wanted_metric()
        if isinstance(metric, str):
            raise ValueError(
                f"metric={metric!r} is learned by fit from all rows, and partial_fit sees them in blocks; "
                "fit on some rows first, or pass the metric_ of a model that was fitted on some"
            )
        self._metric = None if metric is None else _checked_metric(metric)

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = super()._validate(X, y, reset)  # type: ignore[misc]
        return self._shown(X), y

    def _checked(self, X: Any) -> Any:
        return self._shown(super()._checked(X))  # type: ignore[misc]

    def _shown(self, X: Any) -> Any:
        """Rows as the metric shows them."""
        A = self.__dict__.get("_metric")
        if A is None:
            return X
        if len(A) != X.shape[1]:
            raise ValueError(f"metric has {len(A)} rows, one for each feature is needed, and X has {X.shape[1]}")
        A = A.astype(X.dtype)
        if A.ndim == 2:
            return np.ascontiguousarray(X @ A)
        return X @ sparse.diags_array(A).tocsr() if sparse.issparse(X) else X * A

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse &= not isinstance(self._asked.metric, str)
        return tags

    @property
    def metric_(self) -> np.ndarray:
        """The metric in use."""
        if self.__dict__.get("_metric") is None:
            raise AttributeError(f"this {type(self).__name__} has no metric; set metric='auto' to learn one")
        return self.__dict__["_metric"]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the mean squared slope of the model, from the metric."""
        return importances(self.metric_)


def _checked_metric(metric: Any) -> np.ndarray:
    A = np.asarray(metric, dtype=np.float64)
    if A.ndim not in (1, 2) or not np.isfinite(A).all() or not A.any():
        raise ValueError(
            "metric must be finite numbers, not all 0, one for each feature or [feature, direction]; "
            f"got an array of shape {A.shape}"
        )
    return A
