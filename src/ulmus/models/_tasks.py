"""The tasks: what a model does with labels, whatever its features are."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ulmus.calibration import Asked, HeldOut, New, Spread, fit_temperature, probabilities
from ulmus.codings import Coding, OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.models import _reasons
from ulmus.models._assembly import validated
from ulmus.models._between import reads
from ulmus.statistics import SQUARABLE, refuse_sizes


def widened(floor: np.ndarray, place: np.ndarray, n_classes: int) -> np.ndarray:
    """What classes that stand at these places have at least, and nothing for the others."""
    out = np.zeros(n_classes)
    out[place] = floor
    return out


def is_single_output(model: Any) -> bool:
    """Whether targets came as one column of numbers."""
    return bool(model._single_output)


class Regression(RegressorMixin):
    """Targets as they are; one or several outputs."""

    _default_intercept: ClassVar[bool] = True
    _criteria: ClassVar[tuple[str, ...]] = ("auto", "squared", "absolute", "gcv")
    #: The largest target has to lie between these.
    _target_sizes: ClassVar[tuple[float, float]] = SQUARABLE

    explain = _reasons.explain

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validated(self, X, y, reset=reset, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self._single_output = y.ndim == 1
        T = y.reshape(len(y), -1)
        refuse_sizes(T, *self._target_sizes)
        return T, None

    def _encode_more(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        T = y.reshape(len(y), -1)
        refuse_sizes(T, 0.0, self._target_sizes[1])  # other blocks may have larger ones
        return T, None

    def _grow(self, labels: Any) -> np.ndarray | None:
        return None

    def _identity(self, T: np.ndarray) -> np.ndarray:
        return T

    def _coding(self, rows: Rows) -> Coding:
        return Plain.of(rows.T, rows.weight)

    def _calibrate(self, held_out: HeldOut) -> None:
        self.spread_ = Spread.of(held_out)

    def _shape(self, columns: np.ndarray) -> np.ndarray:
        return columns[:, 0] if self._single_output else columns

    @reads
    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""Predicted targets.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Return the standard deviation of the prediction as well: that of the Gaussian process of which this model is
            the mean, :math:`\sigma\sqrt{h(x) + C\,r(x,x)}`, with the noise :math:`\sigma` estimated from leave-one-out
            residuals, the leverage h and the residual kernel r. It grows away from the data.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Or a pair of them.
        """
        scores = self._shape(self._scores_of(X))
        if not return_std:
            return scores
        h, rest = self._deviation_factors(self._checked(X))
        return scores, self._shape(np.sqrt(h + rest).reshape(len(h), -1) * self.spread_.noise)

    @reads
    def predict_interval(
        self, X: Any, coverage: Any = 0.9, *, method: str = "normalised", tails: Any = "equal"
    ) -> np.ndarray:
        """Intervals that hold a new target with probability ``coverage``, from rows left out.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        coverage : float or list of float, default=0.9
            How probable it shall be that the target lies inside; a list gives an interval for each.
        method : {"normalised", "jackknife+", "plain"}, default="normalised"
            ``"normalised"`` intervals are as wide as errors are large at such rows, by a model of the sizes of left-out
            residuals. ``"plain"`` ones are nearly as wide everywhere: f(x) + √(1 + h + C r) q, with the leverage h,
            the residual kernel r, and quantiles q of the studentised left-out residuals. ``"jackknife+"`` takes the
            quantiles of the predictions by the models without each row plus the errors of these; whatever the data,
            it covers 2 coverage − 1 at least. It is exact, and offered by models whose leave-one-out is: ELM, OSELM,
            NKELM and KELM by squares, calibrated row by row.
        tails : {"equal", "symmetric"} or float, default="equal"
            Ends such that as many targets lie below as above, or equally far from the prediction; a number is the
            share of misses that lie below, so that 0 gives an upper bound only, and 1 a lower bound only.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends. For a list of k coverages there is one more axis, of k, before the last.
        """
        asked, X = Asked(coverage, method, tails), self._checked(X)
        P = self._outputs(X) + self.intercept_
        if method == "jackknife+":
            ends = self.spread_.jackknife(self._leaning(), X, P, asked)
        else:
            sizes = self.spread_.sizes(self._noise_features, self._seen) if method == "normalised" else ()
            ends = self.spread_.ends(New(P, sum(self._variance_factors(X)), sizes, self._seen(X)), asked)
        ends = ends[:, 0] if self._single_output else ends
        return ends[..., 0, :] if np.ndim(coverage) == 0 else ends

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classification(ClassifierMixin):
    """One ±1 column per class (one for two classes); the largest score wins."""

    _criteria: ClassVar[tuple[str, ...]] = ("auto", "error", "squared", "gcv")
    floor_: np.ndarray

    explain = _reasons.explain

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validated(self, X, y, reset=reset)
        check_classification_targets(y)
        return X, y

    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the rows (of positive weight) have only "
                f"one class, {self.classes_[0]!r}"
            )
        T = OneVsAll(self.classes_).encode(indices)
        if self.class_weight is None:
            return T, None
        return T, self._balance(y, weight)[indices]

    def _encode_more(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        code = OneVsAll(self.classes_)
        indices = code.indices(y)
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs to count all rows before the first is learned; for rows that come in '
                "blocks give the weights as a dict"
            )
        T = code.encode(indices)
        return T, None if self.class_weight is None else self._balance(y, None)[indices]

    def _grow(self, labels: Any) -> np.ndarray | None:
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(labels)
            return None
        old, (code, M) = self.classes_, OneVsAll(self.classes_).grown(np.asarray(labels))
        self.classes_ = code.classes
        if M is not None and "floor_" in self.__dict__:
            self.floor_ = widened(self.floor_, np.searchsorted(self.classes_, old), len(self.classes_))
        return M

    def _identity(self, T: np.ndarray) -> np.ndarray:
        return OneVsAll(self.classes_).identity(T)

    def _balance(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The weight of every class."""
        balance = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=weight)
        if not (np.isfinite(balance).all() and (balance >= 0).all() and balance.any()):
            raise ValueError(f"class weights must be non-negative, finite and not all zero, got {self.class_weight!r}")
        return balance

    def _coding(self, rows: Rows) -> Coding:
        return OneVsAll(self.classes_)

    def _calibrate(self, held_out: HeldOut) -> None:
        true = OneVsAll.class_scores(held_out.T).argmax(axis=1)
        scores = OneVsAll.class_scores(held_out.P)
        self.temperature_, self.floor_ = fit_temperature(scores, true, held_out.weight)

    @reads
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
        scores = self._scores_of(X)
        return OneVsAll(self.classes_).decode(scores)

    @reads
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: ``softmax(temperature_ · scores)`` over ``floor_``, both fitted to leave-one-out scores.

        The floor is a share of the classes' frequencies, so that probabilities are never worse than these on the rows
        they were fitted to, and no single row decides about them.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; the largest entry is the class that ``predict`` returns.
        """
        scores = self._scores_of(X)
        return probabilities(OneVsAll.class_scores(scores), self.temperature_, self.__dict__.get("floor_"))
