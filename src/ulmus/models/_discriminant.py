"""What the discriminant models share: labels in, projection and class out."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus import engine
from ulmus._sklearn import check_sample_weight, fit_context
from ulmus.calibration import LabelScores, fit_temperature
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.models._between import reads
from ulmus.models._heads import JudgedFolds, Means, Neighbours, Part
from ulmus.models._metric import metric_for, seen_through
from ulmus.models._references import Division, References
from ulmus.models.summary import html_view, summarised
from ulmus.tuning import fold_numbers


class Indicators:
    """0/1 columns, one per class, judged as the ±1 columns that they stand for."""

    def numbers(self, T: np.ndarray) -> np.ndarray:
        return T.argmax(axis=1)

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """One loss per row."""
        return OneVsAll(np.arange(T.shape[-1])).losses(2.0 * T - 1.0, 2.0 * P - 1.0, criterion)


class DiscriminantModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """Validate → project → classify in the projection."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    #: Attributes that only fitting needs.
    _transient: ClassVar[tuple[str, ...]] = ("_Z",)

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
        settings = self._settings()
        X, y = self._validate(X, y)
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        folds = fold_numbers(getattr(self, "cv", None), X, y, groups, True, sample_weight)
        X, y, weight, folds = self._weighed(X, y, sample_weight, folds)
        T, _ = self._code(self._targets_of(y, y), y, weight)

        def rows_of(X: Any, folds: np.ndarray | None = None) -> Rows:
            return Rows(X, T, weight, left_out_together(X, T, weight), folds)

        self._metric = metric_for(self, settings, lambda: rows_of(X, folds), self._coding)
        rows = rows_of(self._shown(X))
        with engine.threads_for(X.shape[0]):
            self._learn(rows, folds, check_random_state(self.random_state))
        self._forget()
        self.n_samples_fit_ = X.shape[0]
        return self

    def _settings(self) -> Any:
        """What has the parameters of the features: this model, or the estimator that it has members of."""
        return self

    def _shown(self, X: Any) -> Any:
        """Rows as the features see them."""
        return seen_through(getattr(self, "_metric", None), X)

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        check_classification_targets(y)
        return X, y

    @staticmethod
    def _weighed(X: Any, y: np.ndarray, sample_weight: Any, folds: np.ndarray | None) -> tuple[Any, ...]:
        """Rows of positive weight."""
        if sample_weight is None:
            return X, y, None, folds
        weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if weight.all():
            return X, y, weight, folds
        seen = weight > 0
        return X[seen], y[seen], weight[seen], None if folds is None else folds[seen]

    def _targets_of(self, y: np.ndarray, given: Any) -> np.ndarray:
        """The classes, of which the model has so many components."""
        self._set_classes(np.unique(y))
        return self.classes_

    def _known(self, name: str) -> np.ndarray | None:
        return getattr(self, {"targets": "classes_", "metric": "_metric"}[name], None)

    def _code(
        self, targets: np.ndarray, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False
    ) -> tuple[np.ndarray, None]:
        """One indicator column per class; no weights of its own."""
        unknown = np.setdiff1d(y, targets)
        if len(unknown):
            raise ValueError(f"labels {unknown.tolist()} are not among the known classes {targets.tolist()}")
        return self._indicators(y), None

    def _indicators(self, y: np.ndarray) -> np.ndarray:
        return np.equal(np.asarray(y)[:, None], self.classes_).astype(np.float64)

    def _set_classes(self, classes: np.ndarray) -> None:
        """Two classes at least, and no more components than they can have."""
        c = len(classes)
        if c < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the rows (of positive weight) have only "
                f"one class, {classes.tolist()[0]!r}"
            )
        if self.n_components is not None and self.n_components > c - 1:
            raise ValueError(
                f"n_components={self.n_components} is too many: {c} classes have at most {c - 1} discriminant "
                f"directions. Choose n_components <= {c - 1}, or None for all of them"
            )
        self.classes_ = classes
        self.n_components_ = c - 1 if self.n_components is None else int(self.n_components)

    def _coding(self, rows: Rows) -> Indicators:
        return Indicators()

    @property
    def _intercept(self) -> bool:
        return True

    @abstractmethod
    def _learn(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> None:
        """Set the projection and call :meth:`_set_head`."""

    @abstractmethod
    def _project(self, X: Any) -> np.ndarray:
        """Projections of validated rows."""

    def _set_head(self, references: References, means: np.ndarray, sharpness: float) -> None:
        """Choose how projections are classified, by rows that are judged as if they were new."""
        self._references, self._Z, self.means_ = references, self._project(references.X), means
        if self.head == "mean":
            judged = self._held_out()
            # a class that is missing in a fold is infinitely far
            scores = sharpness * judged.scores()
            present: np.ndarray = np.all(np.isfinite(scores), axis=0)
            known = present[judged.true]
            place = (np.cumsum(present) - 1)[judged.true[known]]
            a, floor = 1.0, np.zeros(len(present))
            if known.any():
                a, floor[present] = fit_temperature(scores[known][:, present], place, judged.mass[known])
            self.head_: Neighbours | Means = Means(means, sharpness * a, floor)
            self.left_out_ = self._judged_by_head(judged)
            return
        rows = references.weights().sum()
        if self.n_neighbors != "auto" and self.n_neighbors > rows:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {rows:g} rows (by weight) that there are"
            )
        chosen = self._held_out() if self.n_neighbors == "auto" else None
        self.n_neighbors_ = int(self.n_neighbors) if chosen is None else chosen.choose_k()
        labels, weight = references.labels, references.weight
        self.head_ = Neighbours(self._Z, labels, weight, self.n_neighbors_, len(self.classes_))
        self.left_out_ = None if chosen is None else self._judged_by_head(chosen)

    def _judged_by_head(self, judged: JudgedFolds) -> LabelScores:
        """Probabilities of training rows that were judged as if they were new."""
        P = self.head_.held_out(judged)
        return LabelScores(P, judged.true, judged.mass, np.zeros(len(P)))

    def _held_out(self) -> JudgedFolds:
        """Training rows to judge by; only while the model is being fitted."""
        divisions = self._references.divisions(self._seed)
        projections = self._without(divisions)
        parts = (self._part(d, Z, means) for d, (Z, means) in zip(divisions, projections, strict=True))
        return JudgedFolds(tuple(parts), len(self.classes_))

    def _part(self, division: Division, Z: np.ndarray, means: np.ndarray) -> Part:
        weight = self._references.weights() - division.lost
        left, labels = np.flatnonzero(weight > 0), self._references.labels
        index = division.index
        return Part(Z[index], labels[index], division.mass, Z[left], labels[left], weight[left], means, division.copies)

    def _without(self, divisions: list[Division]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Projections of the references, and class means, by models without the rows of each fold.

        Where fitting again is too dear, by the model itself: the projection has seen the rows, their neighbours not.
        """
        return ((self._Z, self.means_) for _ in divisions)

    def _forget(self) -> None:
        """Drop what only fitting needs."""
        for name in self._transient:
            self.__dict__.pop(name, None)

    _seed: int
    left_out_: LabelScores | None

    summary = summarised

    def _repr_html_inner(self) -> str:
        return html_view(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        shown = super()._repr_mimebundle_(**options)
        return {kind: html_view(self, text) if kind == "text/html" else text for kind, text in shown.items()}

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._shown(X)

    @reads
    def transform(self, X: Any) -> np.ndarray:
        """Discriminant coordinates of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self._project(self._checked(X))

    @reads
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: shares of the neighbours' votes, or a softmax of distances to the class means.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        Z = self._project(self._checked(X))
        return self.head_.probabilities(Z)

    @reads
    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        P = self.predict_proba(X)
        return self.classes_[P.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not isinstance(getattr(self._settings(), "metric", None), str)
        return tags
