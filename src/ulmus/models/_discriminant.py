"""What the discriminant models share: labels in, projection and class out."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus import engine
from ulmus._sklearn import fit_context
from ulmus.backend import Host
from ulmus.engine import Rows
from ulmus.features.frames import given_rows
from ulmus.features.sampling import left_out_together
from ulmus.models import _reasons
from ulmus.models._classification import label_sets
from ulmus.models._heads import Neighbours
from ulmus.models._metric import metric_for
from ulmus.models.choice import Training
from ulmus.models.discriminant_fit import Indicators
from ulmus.models.earlier_discriminant import migrated
from ulmus.models.fitted import Fitted
from ulmus.models.reading import (
    checked_weight,
    columns_restored,
    given_targets,
    noted_columns,
    of_positive_weight,
    refuse_missing,
    seen_through,
    under,
)
from ulmus.models.summary import html_inner, mime_bundle, summarised
from ulmus.tuning import fold_numbers


class DiscriminantModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator, ABC):
    """Validate → project → classify in the projection."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _set_methods: ClassVar[tuple[str, ...]] = ("adaptive", "threshold")
    _without_scores: ClassVar[str] = 'it was given n_neighbors; leave n_neighbors="auto", or use head="mean"'
    #: Whether rows that are scored by neighbours had no part in the projection.
    _leaves_projection: ClassVar[bool] = True
    fitted_: Fitted
    explain = _reasons.explain

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the projection and the classifier in it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Dense arrays, pandas and polars frames, or CSR rows.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.
        groups : array of shape (n_samples,), optional
            Rows of one group are kept in one fold when parameters are chosen.

        Returns
        -------
        self
        """
        with columns_restored(self):
            self.fitted_ = self._fit_rows(X, y, sample_weight, groups)
        return self

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Fitted:
        settings = self._settings()
        X, y = self._validate(X, y)
        weight = checked_weight(sample_weight, X)
        folds = fold_numbers(getattr(self, "cv", None), X, y, groups, True, weight)
        weight, X, y, folds = of_positive_weight(weight, X, y, folds)
        targets = self._targets_of(y, y)
        T, _ = self._code(targets, y, weight)

        def rows_of(X: Any, folds: np.ndarray | None = None) -> Rows:
            return Rows(X, T, weight, left_out_together(X, T, weight), folds)

        metric = metric_for(self, settings, lambda: rows_of(X, folds), lambda _: targets)
        rows, rng = rows_of(seen_through(metric, X)), check_random_state(self.random_state)
        with engine.threads_for(X.shape[0]):
            found = self._learn(self._training(targets, rows, folds, rng, metric=metric))
        return replace(found, n_rows=X.shape[0], columns=noted_columns(self))

    def _training(
        self,
        targets: Indicators,
        rows: Rows,
        folds: np.ndarray | None,
        rng: np.random.RandomState,
        backend: Any = None,
        metric: np.ndarray | None = None,
    ) -> Training:
        backend = Host(getattr(self, "n_jobs", None)) if backend is None else backend
        return Training(rows, targets, folds, rng, backend, metric, targets)

    def _settings(self) -> Any:
        """What has the parameters of the features: this model, or the estimator that it has members of."""
        return self

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = given_rows(X), given_targets(y)
        refuse_missing(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        check_classification_targets(y)
        return X, y

    def _targets_of(self, y: np.ndarray, given: Any) -> Indicators:
        """The classes, of which the model has this many components."""
        return Indicators.of(self, np.unique(y))

    def _known(self, name: str) -> Any:
        return getattr(getattr(self, "fitted_", None), name, None)

    def _now(self, *needs: str) -> Fitted:
        """What was fitted."""
        check_is_fitted(self)
        return self.fitted_

    def _part(self, name: str, need: str) -> Any:
        return getattr(self._now(), name)

    def _code(
        self, targets: Indicators, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False
    ) -> tuple[np.ndarray, None]:
        """One indicator column per class; no weights of its own."""
        return targets.encode(y), None

    @property
    def _intercept(self) -> bool:
        return True

    @abstractmethod
    def _learn(self, training: Training) -> Fitted:
        """Projection and head."""

    def _project(self, X: Any, fitted: Fitted) -> np.ndarray:
        """Projections of rows as the features see them."""
        return fitted.weights(X, getattr(self, "n_jobs", None))

    summary, _repr_html_inner, _repr_mimebundle_ = summarised, html_inner, mime_bundle

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _checked(self, X: Any, fitted: Fitted) -> Any:
        return seen_through(fitted.metric, self._inputs(X, fitted))

    def _inputs(self, X: Any, fitted: Fitted) -> Any:
        """Checked rows as they are."""

        def check(known: Any) -> Any:
            return validate_data(known, given_rows(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

        return under(fitted.columns, self, check)

    def transform(self, X: Any) -> np.ndarray:
        """Discriminant coordinates of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        fitted = self._now()
        return self._project(self._checked(X, fitted), fitted)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: shares of the neighbours' votes, or a softmax of distances to the class means.

        Those of an ensemble are the weighted mean of its members'.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._scores_of(X, self._now())

    def _probabilities(self, X: Any, fitted: Fitted) -> np.ndarray:
        return fitted.certainty.head.probabilities(self._project(X, fitted))

    def _scores_of(self, X: Any, fitted: Fitted) -> np.ndarray:
        return self._probabilities(self._checked(X, fitted), fitted)

    def _class_probabilities(self, fitted: Fitted, scores: np.ndarray) -> np.ndarray:
        return scores

    def predict_set(self, X: Any, coverage: Any = 0.95, *, method: str = "adaptive", by_class: bool = False) -> Any:
        if not self._leaves_projection and isinstance(self._now().certainty.head, Neighbours):
            raise ValueError(
                f"predict_set needs rows that the projection has not seen, and {type(self).__name__} scores neighbours "
                'in one that has seen them all; use head="mean", or ENDA'
            )
        return label_sets(self, X, coverage, method, by_class)

    predict_set.__doc__ = label_sets.__doc__

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        fitted = self._now()
        return fitted.targets.classes[self._scores_of(X, fitted).argmax(axis=1)]

    @classmethod
    def _migrated(cls, state: dict[str, Any]) -> dict[str, Any]:
        return migrated(cls, state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(self._migrated(state))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not isinstance(getattr(self._settings(), "metric", None), str)
        return tags
