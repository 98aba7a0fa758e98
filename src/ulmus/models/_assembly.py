"""What every model shares: validate → code → map → solve → decode.

A model is a *task* (regression, classification) over a *family* (random layer, exact kernel, Nyström). The task knows
labels, the family knows features and weights.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus._sklearn import Interval, StrOptions, check_sample_weight, fit_context
from ulmus.codings import OneVsAll
from ulmus.engine import Rows

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "device": [StrOptions({"cpu"})],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}

#: Relative error that folded or narrowed weights may add to a prediction.
PREDICTION_LOSS = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def digits_kept(weights: np.ndarray, bound: float, scale: float, dtype: Any) -> bool:
    """Whether ``φ · weights`` with ``|φ| ≤ bound`` keeps its digits in this type, for answers of size ``scale``."""
    worst = np.finfo(dtype).eps * bound * float(np.abs(weights).sum(axis=0).max(initial=0.0))
    return worst <= PREDICTION_LOSS[np.dtype(dtype)] * scale


class Assembly(BaseEstimator):
    """The fixed order of work; tasks and families fill in the steps."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Dense arrays, pandas and polars frames, or CSR rows.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets or class labels.
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.

        Returns
        -------
        self
        """
        X, y = self._validate(X, y)
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weight.all():
                seen = weight > 0
                X, y, weight = X[seen], y[seen], weight[seen]
        T, weight = self._encode(y, weight)
        self._train(Rows(X, T, weight))
        return self

    def _scores_of(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._outputs(X) + self.intercept_

    @abstractmethod
    def _validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]: ...

    @abstractmethod
    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]: ...

    @abstractmethod
    def _train(self, rows: Rows) -> None: ...

    @abstractmethod
    def _outputs(self, X: Any) -> np.ndarray: ...

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Regression(RegressorMixin):
    """Targets as they are; one or several outputs."""

    def _validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=True,
        )
        return X, np.asarray(y, dtype=np.float64)

    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self._single_output = y.ndim == 1
        return y.reshape(len(y), -1), weight

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        scores = self._scores_of(X)
        return scores[:, 0] if self._single_output else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classification(ClassifierMixin):
    """One ±1 column per class (one for two classes); the largest score wins."""

    def _validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        return X, y

    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the rows (of positive weight) have only "
                f"one class, {self.classes_[0]!r}"
            )
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, y)
            weight = balance if weight is None else weight * balance
        return OneVsAll(self.classes_).encode(indices), weight

    def decision_function(self, X: Any) -> np.ndarray:
        """Score per class, or one score for two classes (positive means ``classes_[1]``).

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._scores_of(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self._scores_of(X)
        return OneVsAll(self.classes_).decode(scores)
