"""What every model shares: validate → code → choose and solve → calibrate, and the way back from rows to answers.

A model **has** a family (random layer, exact kernel, Nyström), which knows features and weights; it **is** a task
(regression, classification, ordinal), which knows targets. What a fit finds is one frozen value, ``fitted_``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ulmus import engine
from ulmus._sklearn import CallbackSupport, fit_context
from ulmus.backend import Host, backend_for
from ulmus.calibration import HeldOut
from ulmus.calibration.far import far
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.models._metric import metric_for
from ulmus.models.choice import Choice, RidgeSearch, Training, by_squares
from ulmus.models.earlier import migrated
from ulmus.models.few_rows import scored_by_others
from ulmus.models.fitted import Fitted, KernelFit, Outcome
from ulmus.models.reading import (
    columns_restored,
    dense_rows,
    noted_columns,
    of_positive_weight,
    on_host,
    received,
    rechecked,
    seen_through,
    without_unweighted,
)
from ulmus.models.summary import html_inner, mime_bundle, summarised
from ulmus.statistics import Summary, dwarfing
from ulmus.tuning import GCV, fold_numbers


class Model(CallbackSupport, BaseEstimator):
    """The fixed order of work; the task and the family fill in the steps.

    A **task** has ``_validate(X, y, reset)`` (rows and targets by scikit-learn's checks), ``_targets_of(y, given)``
    (what targets are: a value), ``_code(targets, y, weight)`` (target columns, and the factors that the task itself
    puts on the weights of rows), ``_coding(targets, rows)`` and ``_certainty(targets, held_out, rows)``.

    A **family** has ``fit(model, training)``; what it gives has ``scores(X)`` and ``variance_factors(X)``.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _family: ClassVar[Any] = None
    _default_intercept: ClassVar[bool] = False
    _criteria: ClassVar[tuple[str, ...]] = ("auto",)
    #: What scikit-learn's checks do with NaN.
    _all_finite: ClassVar[Any] = True
    #: Whether a column in other units than the rest changes what is learned.
    _minds_scales: ClassVar[bool] = True
    #: Stages of a fit that are reported, and the share of the work that each takes, about.
    _fit_stages: ClassVar[Mapping[str, float]] = {}
    #: Who reports them, during a fit.
    _progress: Any = None
    #: Whether this is a copy that has a plan and has learned no row.
    _is_blank: Any = False
    fitted_: Fitted

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
        with columns_restored(self):
            self._fit_rows(X, y, sample_weight, groups)
        return self

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        X, y, sample_weight = received(X, self.device), on_host(y, self.device), on_host(sample_weight, self.device)
        self._check_criterion()
        if self.criterion == GCV and (self.cv is not None or groups is not None):
            raise ValueError('criterion="gcv" has no folds; leave out cv and groups, or choose another criterion')
        weight, X, y, groups = without_unweighted(self.cv, sample_weight, X, y, groups)
        given = y
        X, y, columns = self._read(X, y, weight)
        folds = None
        if self.cv is not None or groups is not None:
            folds = fold_numbers(self.cv, X, y, groups, is_classifier(self), weight)
        weight, X, y, folds = of_positive_weight(weight, X, y, folds)
        if self._minds_scales and getattr(self, "metric", None) is None and dwarfing(X) is not None:
            from ulmus.features.findings import scales

            for finding in scales(X, getattr(self, "feature_names_in_", None)):
                finding.warn()
        targets = self._targets_of(y, given)
        T, balance = self._code(targets, y, weight)

        def rows_of(X: Any, folds: np.ndarray | None = None) -> Rows:
            rows = Rows(X, T, weight, left_out_together(X, T, weight), folds)
            return rows if balance is None else rows.reweighted(balance)

        metric = None
        if getattr(self, "metric", None) is not None:
            coding_of = lambda rows: self._coding(targets, rows)  # noqa: E731
            metric = metric_for(self, self, lambda: rows_of(dense_rows(X), folds), coding_of)
        rows = rows_of(seen_through(metric, X))
        if balance is not None:
            folds = folds if folds is None else folds[balance > 0]
        work = len(rows) * float(self._most_features(rows)) ** 2
        with self._watched(X=X, y=y, metadata={"sample_weight": weight}):
            with engine.threads_for(len(rows)), backend_for(self.device, self.n_jobs, work) as backend:
                rng = check_random_state(self.random_state)
                rows = self._sent(rows, backend)
                found = self._train(self._training(targets, rows, folds, rng, backend, metric, columns))
            certainty = None if found.held_out is None else self._certainty(targets, found.held_out, rows)
            noted = noted_columns(self)
            fitted = Fitted(found.weights, targets, certainty, metric, n_rows=len(rows), columns=noted)
            self._adopt(fitted, rows, found.learner)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Rows and targets by scikit-learn's checks, and what a model knows of the columns, if anything."""
        return (*self._validate(X, y), None)

    @contextmanager
    def _watched(self, **data: Any) -> Iterator[None]:
        """Tell callbacks, and people, of the fit inside, where they ask for it."""
        if not (hasattr(self, "_skl_callbacks") or (self.verbose and self._fit_stages)):
            yield
            return
        from ulmus.models.progress import watching

        with watching(self, self._fit_stages, **data) as self._progress:
            try:
                yield
            finally:
                self._forget("_progress")

    def _validate_params(self) -> None:
        super()._validate_params()
        if hasattr(self._family, "check"):
            self._family.check(self)

    def _check_criterion(self) -> None:
        if self.criterion not in self._criteria:
            raise ValueError(
                f"criterion must be one of {self._criteria} for {type(self).__name__}, got {self.criterion!r}"
            )

    def _training(
        self,
        targets: Any,
        rows: Rows,
        folds: np.ndarray | None,
        rng: np.random.RandomState,
        backend: Any = None,
        metric: np.ndarray | None = None,
        columns: Any = None,
    ) -> Training:
        """All that a fit to these rows works on; it runs on the CPU unless another backend is given."""
        backend = Host(self.n_jobs) if backend is None else backend
        return Training(rows, self._coding(targets, rows), folds, rng, backend, metric, targets, columns)

    def _train(self, training: Training) -> Outcome:
        """Weights, and answers of rows by models that did not see them."""
        if self._by_quantiles:
            from ulmus.models.quantiles import fit_with_quantiles

            if self._is_monotone:
                raise ValueError('monotonic_cst needs loss="squared", got loss="quantile"')
            return fit_with_quantiles(self, training)
        found = self._by_family(training)
        if self._is_monotone:
            from ulmus.models.monotone import fit_monotone

            found = fit_monotone(self, training, found)
        return scored_by_others(self, training, found) if self._family.adapts(self, found) else found

    def _by_family(self, training: Training) -> Outcome:
        """What the family finds, which few rows have to find again and again."""
        return self._family.fit(self, training)

    def _finish(self, plan: Choice, summary: Summary, sample: Training, *, choose: bool, again: Any) -> None:
        """Be the model of the rows that were summed; the sample, whose rows are among them, calibrates it."""
        self._refuse("a fit from sums")
        found = self._family.finish(self, plan, summary, sample, choose=choose, again=again)
        if self._family.adapts(self, found) and np.isclose(summary.total.weight, sample.rows.total_weight):  # all rows
            found = scored_by_others(self, sample, found)
        certainty = self._certainty(sample.targets, found.held_out, sample.rows)
        self._adopt(Fitted(found.weights, sample.targets, certainty))

    def _adopt(self, fitted: Fitted, rows: Rows | None = None, learner: Any = None) -> None:
        """Be the model of a fit to these rows."""
        self.fitted_ = fitted

    @property
    def _ridge_search(self) -> RidgeSearch:
        """How C is found."""
        return RidgeSearch(self.C, self._intercept, by_squares(self.criterion), bool(self.verbose))

    def _sent(self, rows: Rows, backend: Any) -> Rows:
        """The rows as the backend takes them."""
        return backend.received(rows)

    def _most_features(self, rows: Rows) -> int:
        """Features that the fit may come to use, by which the device is chosen."""
        return int(self._family.most_features(self, rows))

    @property
    def _intercept(self) -> bool:
        """Whether an intercept is fitted: as asked; under ``"auto"``, for regressors that choose C themselves."""
        if self.fit_intercept == "auto":
            return self._default_intercept and (self.C == "auto" or self._by_quantiles)
        return bool(self.fit_intercept)

    def _forget(self, *names: str) -> None:
        """Drop attributes, those of them that there are."""
        for name in names:
            with suppress(AttributeError):
                delattr(self, name)

    # What was fitted, and what it says of rows

    summary, _repr_html_inner, _repr_mimebundle_ = summarised, html_inner, mime_bundle

    def _now(self, *needs: str) -> Fitted:
        """What was fitted, with the parts that a reader needs (see :meth:`Fitted.has`)."""
        check_is_fitted(self)
        return self.fitted_

    def _known(self, name: str) -> Any:
        """What is known of ``"targets"``, or the ``"metric"``, so far; None before there were any rows."""
        fitted = vars(self).get("fitted_")
        return None if fitted is None else getattr(fitted, name)

    def _part(self, name: str, need: str) -> Any:
        """A part of what was fitted, for an attribute that shows it."""
        fixed = name in ("targets", "metric") or self._is_blank
        return self._known(name) if fixed else getattr(self._now(need), name)

    def _checked(self, X: Any, fitted: Fitted | None = None) -> Any:
        """Rows as the features see them."""
        fitted = self._now() if fitted is None else fitted
        return seen_through(fitted.metric, rechecked(self, received(X, self.device), fitted.columns))

    def _scores_of(self, X: Any, fitted: Fitted | None = None) -> np.ndarray:
        fitted = self._now("weights") if fitted is None else fitted
        return self._outputs(self._checked(X, fitted), fitted)

    def _outputs(self, X: Any, fitted: Fitted) -> np.ndarray:
        """Scores of checked rows."""
        scores: np.ndarray = fitted.weights.scores(X, self.device, self.n_jobs)
        scores += fitted.weights.intercept
        return scores

    def _variance_factors(self, X: Any, fitted: Fitted | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Leverage of checked rows under the model, and what their features leave of the prior variance, times C."""
        fitted = self._now("factor") if fitted is None else fitted
        return fitted.weights.variance_factors(X, self.n_jobs)

    def _deviation_factors(self, X: Any, fitted: Fitted | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Leverage and residual kernel of every row, in units of the noise's variance."""
        return self._variance_factors(X, fitted)

    def is_far(self, X: Any, rate: float = 0.01) -> np.ndarray:
        """Rows unlike any of the training set: the model extrapolates there, and should not be trusted.

        The variance of a prediction (its leverage, and the residual kernel times C) is compared with that of rows left
        out. The label, or target, has no say in it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        rate : float, default=0.01
            Share of rows like those of the training that may be called far.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
        """
        fitted = self._now("factor", "certainty")
        X = self._checked(X, fitted)
        held, weight = self._left_out_variance(fitted)
        return far(np.asarray(sum(self._deviation_factors(X, fitted))), held, weight, rate)

    def _left_out_variance(self, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
        """Variances of predictions of rows by models without them, and weights."""
        rows = getattr(fitted.certainty, "rows" if is_regressor(self) else "left_out", None)
        if rows is None or getattr(fitted.weights, "leverage", ()) is None:
            raise ValueError(f"this {type(self).__name__} has no leave-one-out predictions; fit it again")
        if isinstance(fitted.weights, KernelFit) and getattr(fitted.certainty, "loss", "squared") == "log":
            return fitted.weights.left_out_variance(len(rows.weight), self.n_jobs), rows.weight
        return rows.variance, rows.weight

    def _seen(self, X: Any, fitted: Fitted) -> Any:
        """Checked rows as the features see them."""
        return X

    def _leaning(self, fitted: Fitted) -> Any:
        """What predictions of new rows lean on every row that was left out, for jackknife+."""
        rows = fitted.certainty.rows
        if rows is not None and rows.curves is not None:
            raise ValueError(
                'method="jackknife+" needs loss="squared", got "quantile": quantiles leave rows out approximately; '
                'use method="normalised"'
            )
        if rows is None or rows.by_itself is None:
            raise ValueError(
                'method="jackknife+" needs left-out predictions of single rows, and this model was calibrated on whole '
                "folds, by whole fits (few rows, and a width or size to choose), by the iterative route, under "
                'monotonic_cst or by an earlier version; use method="normalised", or fit with given parameters, '
                'cv=None, no groups and solver="direct"'
            )
        return fitted.weights.leaning(rows.by_itself, self.n_jobs)

    if TYPE_CHECKING:  # what a task says

        def _targets_of(self, y: np.ndarray, given: Any) -> Any: ...

        def _code(self, targets: Any, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any: ...

        def _coding(self, targets: Any, rows: Rows) -> Coding: ...

        def _certainty(self, targets: Any, held_out: HeldOut, rows: Rows) -> Any: ...

        def _announced(self, classes: Any) -> Any: ...

    @property
    def _by_quantiles(self) -> bool:
        """Whether the model minimises the pinball loss."""
        return getattr(self, "loss", None) == "quantile"

    @property
    def _is_monotone(self) -> bool:
        """Whether answers must not fall, or rise, along some inputs."""
        return getattr(self, "monotonic_cst", None) is not None

    def _refuse(self, what: str) -> None:
        """Say why a model cannot do this, where its weights are more than sums over rows."""
        if self._is_monotone:
            raise ValueError(
                f"{what} does not support monotonic_cst: it keeps sums over rows, which do not show where predictions "
                "fall; fit rows in memory"
            )
        if self._by_quantiles:
            raise ValueError(
                f'{what} needs loss="squared", got loss="quantile": quantiles depend on every residual, so sums over '
                "rows do not suffice; fit rows in memory"
            )

    @classmethod
    def _migrated(cls, state: dict[str, Any]) -> dict[str, Any]:
        return migrated(cls, state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(self._migrated(state))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not isinstance(getattr(self, "metric", None), str)
        return tags
