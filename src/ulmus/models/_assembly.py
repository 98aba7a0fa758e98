"""What every model shares: validate → code → map → solve → decode.

A model is a *task* (regression, classification) over a *family* (random layer, exact kernel, Nyström). The task knows
labels, the family knows features and weights.
"""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ulmus import engine
from ulmus._sklearn import check_sample_weight, fit_context
from ulmus.calibration import HeldOut
from ulmus.codings import Coding
from ulmus.devices.accelerator import on_device, resolve
from ulmus.devices.tensors import HostView, on_both_sides, on_host, received
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.models._device import apply, rechecked
from ulmus.models._metric import metric_for, seen_through
from ulmus.tuning import GCV, Judge, Tuner, fold_numbers

#: Relative error that folded or narrowed weights may add to a prediction.
PREDICTION_LOSS = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def digits_kept(weights: np.ndarray, bound: float, scale: np.ndarray | float, dtype: Any) -> bool:
    """Whether ``φ · weights`` with ``|φ| ≤ bound`` keeps its digits in this type, for answers that ``scale`` apart."""
    worst = float(np.finfo(dtype).eps) * bound * np.abs(weights).sum(axis=0)
    return bool((worst <= PREDICTION_LOSS[np.dtype(dtype)] * scale).all())


class Assembly(BaseEstimator):
    """The fixed order of work; tasks and families fill in the steps."""

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

        self._metric = metric_for(self, self, lambda: rows_of(np.asarray(X) if isinstance(X, HostView) else X, folds))
        rows = rows_of(self._shown(X))
        if balance is not None:
            folds = folds if folds is None else folds[balance > 0]
        name = resolve(self.device, len(rows) * float(self._most_features(rows)) ** 2)
        with engine.threads_for(len(rows)), on_device(name) if name != "cpu" else nullcontext() as accelerator:
            if accelerator is not None:
                from ulmus.devices.direct import Driver

                self._driver, rows = Driver(accelerator), on_both_sides(accelerator, rows)
            try:
                held_out = self._train(rows, folds, check_random_state(self.random_state))
            finally:
                self.__dict__.pop("_driver", None)
        self._calibrate(held_out)
        return self

    def _check_criterion(self) -> None:
        if self.criterion not in self._criteria:
            raise ValueError(
                f"criterion must be one of {self._criteria} for {type(self).__name__}, got {self.criterion!r}"
            )

    #: The fit's rows and maps on the device, while it lasts.
    _driver: Any = None

    def _deviation_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Leverage and residual kernel of every row, in units of the noise's variance."""
        return self._variance_factors(X)

    def _shown(self, X: Any) -> Any:
        """Rows as the features see them."""
        return seen_through(getattr(self, "_metric", None), X)

    def _most_features(self, rows: Rows) -> int:
        """Features that the fit may come to use, by which the device is chosen; 0 for models that know none."""
        return 0

    @property
    def _intercept(self) -> bool:
        """Whether an intercept is fitted: as asked; under ``"auto"``, for regressors that choose C themselves."""
        if self.fit_intercept == "auto":
            return self._default_intercept and self.C == "auto"
        return bool(self.fit_intercept)

    def _tuner(
        self,
        rows: Rows,
        make_map: Callable[[float, int], Any],
        statistics_of: Callable[[Any, Rows], Any],
        folds: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> Tuner:
        judge_type: Any = Judge
        if self._driver is not None:
            from ulmus.devices.direct import DeviceJudge

            judge_type = partial(DeviceJudge, driver=self._driver)
        judge = judge_type(
            rows,
            self._coding(rows),
            statistics_of,
            self._intercept,
            criterion=self.criterion,
            folds=folds,
            n_jobs=self.n_jobs,
        )
        tuner = Tuner(judge, make_map, rng, labels=self._labels, verbose=self.verbose)
        if self.C != "auto":
            tuner.log2_C = np.log2([np.inf if self.C is None else self.C])
        return tuner

    def _scores_of(self, X: Any) -> np.ndarray:
        scores = self._outputs(self._checked(X))
        scores += self.intercept_
        return scores

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._shown(rechecked(self, received(X, self.device)))

    def _apply(self, features: Any, X: Any, weights: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return apply(self.device, features, X, weights, dtype, self.n_jobs)

    @abstractmethod
    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]: ...

    @abstractmethod
    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Target columns, and the factors that the task itself puts on the weights of rows."""

    @abstractmethod
    def _encode_more(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The same for rows that come later: classes are those that are known already."""

    @abstractmethod
    def _grow(self, labels: Any) -> np.ndarray | None:
        """Know these labels as well; ``M`` with new target columns ``[t 1] M`` if that changes the columns."""

    @abstractmethod
    def _identity(self, T: np.ndarray) -> np.ndarray:
        """Numbers that tell targets apart, whatever other labels are known."""

    @abstractmethod
    def _coding(self, rows: Rows) -> Coding: ...

    def _labels(self, rows: Rows) -> np.ndarray | None:
        """Class numbers of rows, for maps that look at them."""
        return None

    @abstractmethod
    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut: ...

    @abstractmethod
    def _calibrate(self, held_out: HeldOut) -> None: ...

    @abstractmethod
    def _outputs(self, X: Any) -> np.ndarray: ...

    @abstractmethod
    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Leverage of rows under the model, and what their features leave of the prior variance, times C."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not isinstance(getattr(self, "metric", None), str)
        return tags
