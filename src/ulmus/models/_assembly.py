"""What every model shares: validate → code → map → solve → decode.

A model is a *task* (regression, classification) over a *family* (random layer, exact kernel, Nyström). The task knows
labels, the family knows features and weights.
"""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus import engine
from ulmus._sklearn import check_sample_weight, fit_context
from ulmus.backend import Host
from ulmus.devices.accelerator import HIDDEN, backend_for, on_device, resolve
from ulmus.devices.tensors import HostView, checked, on_host, received
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.models._metric import metric_for, seen_through
from ulmus.models.choice import RidgeSearch, Training
from ulmus.tuning import GCV, fold_numbers

#: Relative error that folded or narrowed weights may add to a prediction.
PREDICTION_LOSS = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


#: Kernel values (or nodes) from which a prediction is worth sending to the GPU.
WORTH_SENDING = 2e9


def digits_kept(weights: np.ndarray, bound: float, scale: np.ndarray | float, dtype: Any) -> bool:
    """Whether ``φ · weights`` with ``|φ| ≤ bound`` keeps its digits in this type, for answers that ``scale`` apart."""
    worst = float(np.finfo(dtype).eps) * bound * np.abs(weights).sum(axis=0)
    return bool((worst <= PREDICTION_LOSS[np.dtype(dtype)] * scale).all())


class Assembly(BaseEstimator):
    """The fixed order of work; tasks and families fill in the steps.

    A **task** has ``_validate(X, y, reset)`` (rows and targets by scikit-learn's checks), ``_encode(y, weight)``
    (target columns, and the factors that the task itself puts on the weights of rows), ``_encode_more(y)`` (the
    same for rows that come later: classes are those that are known), ``_grow(labels)`` (know these as well; M, if
    the columns become ``[t 1] M``), ``_identity(T)`` (numbers that tell targets apart), ``_coding(rows)`` and
    ``_calibrate(held_out)``.

    A **family** has ``_train(training)`` (fit, and predictions of rows by models that did not see them),
    ``_outputs(X)`` (scores without the intercept), ``_variance_factors(X)`` (leverage of rows under the model, and
    what their features leave of the prior variance, times C), ``_noise_features`` (which tell how large errors are)
    and ``_leaning()`` (what predictions of new rows lean on every row that was left out, for jackknife+).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _default_intercept: ClassVar[bool] = False
    _criteria: ClassVar[tuple[str, ...]] = ("auto",)
    #: What scikit-learn's checks are told of NaN.
    _all_finite: ClassVar[Any] = True

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
        X, y, sample_weight = received(X, self.device), on_host(y, self.device), on_host(sample_weight, self.device)
        self._check_criterion()
        if self.criterion == GCV and (self.cv is not None or groups is not None):
            raise ValueError('criterion="gcv" has no folds; leave out cv and groups, or choose another criterion')
        X, y = self._validate(X, y)
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        folds = fold_numbers(self.cv, X, y, groups, is_classifier(self), weight)
        if weight is not None and not weight.all():
            seen = weight > 0
            X, y, weight = X[seen], y[seen], weight[seen]
            folds = None if folds is None else folds[seen]
        T, balance = self._encode(y, weight)

        def rows_of(X: Any, folds: np.ndarray | None = None) -> Rows:
            rows = Rows(X, T, weight, left_out_together(X, T, weight), folds)
            return rows if balance is None else rows.reweighted(balance)

        self._metric = None
        if getattr(self, "metric", None) is not None:
            self._metric = metric_for(self, self, lambda: rows_of(dense_rows(X), folds))
        rows = rows_of(self._shown(X))
        if balance is not None:
            folds = folds if folds is None else folds[balance > 0]
        work = len(rows) * float(self._most_features(rows)) ** 2
        with engine.threads_for(len(rows)), backend_for(self.device, self.n_jobs, work) as backend:
            rng = check_random_state(self.random_state)
            held_out = self._train(self._training(backend.received(rows), folds, rng, backend))
        self._calibrate(held_out)
        return self

    def _check_criterion(self) -> None:
        if self.criterion not in self._criteria:
            raise ValueError(
                f"criterion must be one of {self._criteria} for {type(self).__name__}, got {self.criterion!r}"
            )

    def _training(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, backend: Any = None
    ) -> Training:
        """All that a fit to these rows works on; it runs on the CPU unless it is told otherwise."""
        return Training(rows, self._coding(rows), folds, rng, Host(self.n_jobs) if backend is None else backend)

    @property
    def _ridge_search(self) -> RidgeSearch:
        """How C is found."""
        return RidgeSearch(self.C, self._intercept, self.criterion, bool(self.verbose))

    def _deviation_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Leverage and residual kernel of every row, in units of the noise's variance."""
        return self._variance_factors(X)

    def _seen(self, X: Any) -> Any:
        """Checked rows as ``_noise_features`` see them."""
        return X

    def _shown(self, X: Any) -> Any:
        """Rows as the features see them."""
        metric = getattr(self, "_metric", None)
        return X if metric is None else seen_through(metric, X)

    def _most_features(self, rows: Rows) -> int:
        """Features that the fit may come to use, by which the device is chosen; 0 for models that know none."""
        return 0

    @property
    def _intercept(self) -> bool:
        """Whether an intercept is fitted: as asked; under ``"auto"``, for regressors that choose C themselves."""
        if self.fit_intercept == "auto":
            return self._default_intercept and self.C == "auto"
        return bool(self.fit_intercept)

    def _scores_of(self, X: Any) -> np.ndarray:
        scores = self._outputs(self._checked(X))
        scores += self.intercept_
        return scores

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._shown(rechecked(self, received(X, self.device)))

    def _apply(self, features: Any, X: Any, weights: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return applied(self.device, features, X, weights, dtype, self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not isinstance(getattr(self, "metric", None), str)
        return tags


def dense_rows(X: Any) -> Any:
    """Rows that are on a GPU as an array, others as they are."""
    return np.asarray(X) if isinstance(X, HostView) else X


def validated(model: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
    """Rows and targets by scikit-learn's checks; rows that are on the GPU are checked there."""
    if isinstance(X, HostView):
        X = checked(X)
        y = validate_data(model, X="no_validation", y=y, **options)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        model.n_features_in_ = X.shape[1]
        return X, y
    return validate_data(model, X, y, **_looked_at(model), **options)


def _looked_at(model: Any) -> dict[str, Any]:
    """What scikit-learn is to look at."""
    return {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": model._all_finite}


def rechecked(model: Any, X: Any) -> Any:
    """Rows for a fitted model."""
    if not isinstance(X, HostView):
        return validate_data(model, X, reset=False, **_looked_at(model))
    X = checked(X)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} features as "
            "input"
        )
    return X


def applied(device: str, features: Any, X: Any, weights: np.ndarray, dtype: Any, n_jobs: int | None) -> np.ndarray:
    """``Φ(X) β`` where it is fastest: a model that was fitted on a GPU predicts without one too."""
    work = float(X.shape[0]) * features.n_lifted
    if device == HIDDEN or (device != "cpu" and work >= WORTH_SENDING and resolve("auto", np.inf) == "cuda"):
        with on_device("cuda" if device != HIDDEN else device) as accelerator:
            from ulmus.devices.direct import Driver

            return Driver(accelerator).apply(features, X, weights)
    return engine.apply(features, X, weights, dtype=dtype, n_jobs=n_jobs)
