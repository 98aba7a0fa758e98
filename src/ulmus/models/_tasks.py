"""The tasks: what a model does with labels, whatever its features are."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ulmus.calibration import Asked, HeldOut, New, Spread, Temperature, probabilities
from ulmus.codings import Coding, Numbers, OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.models import _effects, _reasons
from ulmus.models.base import Model, validated
from ulmus.models.fitted import FittedView
from ulmus.statistics import SQUARABLE, refuse_sizes

#: What a probability counts as in a log loss, at least.
LEAST_PROBABILITY = 1e-15


class Regression(RegressorMixin, Model):
    """Targets as they are; one or several outputs."""

    _default_intercept: ClassVar[bool] = True
    _criteria: ClassVar[tuple[str, ...]] = ("auto", "squared", "absolute", "gcv")
    #: The largest target has to lie between these.
    _target_sizes: ClassVar[tuple[float, float]] = SQUARABLE

    spread_ = FittedView("spread_", "certainty")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances = _effects.left_out_importances

    def _row_loss(self, T: np.ndarray) -> Any:
        """Squared error of scores of training rows, which are given by number."""
        return lambda P, rows: ((P - T[rows]) ** 2).sum(axis=1)

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validated(self, X, y, reset=reset, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _targets_of(self, y: np.ndarray, given: Any) -> Numbers:
        return Numbers(y.ndim == 1)

    def _code(self, targets: Numbers, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any:
        T = targets.encode(y)
        least, most = self._target_sizes
        refuse_sizes(T, 0.0 if block else least, most)  # other blocks may have larger ones
        return T, None

    def _coding(self, targets: Numbers, rows: Rows) -> Coding:
        return Plain.of(rows.T, rows.weight)

    def _certainty(self, targets: Numbers, held_out: HeldOut, rows: Rows) -> Any:
        return Spread.of(held_out)

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
        if not return_std:
            fitted = self._now("weights")
            return fitted.targets.shaped(self._scores_of(X, fitted))
        fitted = self._now("factor", "certainty")
        X = self._checked(X, fitted)
        h, rest = self._deviation_factors(X, fitted)
        deviation = np.sqrt(h + rest).reshape(len(h), -1) * fitted.certainty.noise
        return fitted.targets.shaped(self._outputs(X, fitted)), fitted.targets.shaped(deviation)

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
        asked, fitted = Asked(coverage, method, tails), self._now("factor", "certainty")
        X, spread = self._checked(X, fitted), fitted.certainty
        P = self._outputs(X, fitted)
        if method == "jackknife+":
            ends = spread.jackknife(self._leaning(fitted), X, P, asked)
        else:
            sizes = spread.sizes(self._noise_features(fitted), self._seen) if method == "normalised" else ()
            h, rest = self._variance_factors(X, fitted)
            ends = spread.ends(New(P, h + rest, sizes, self._seen(X)), asked)
        ends = fitted.targets.shaped(ends)
        return ends[..., 0, :] if np.ndim(coverage) == 0 else ends

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classification(ClassifierMixin, Model):
    """One ±1 column per class (one for two classes); the largest score wins."""

    _criteria: ClassVar[tuple[str, ...]] = ("auto", "error", "squared", "gcv")

    classes_ = FittedView("classes_", "targets.classes")
    temperature_ = FittedView("temperature_", "certainty.factor")
    floor_ = FittedView("floor_", "certainty.floor")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances = _effects.left_out_importances

    def _row_loss(self, T: np.ndarray) -> Any:
        """Log loss of scores of training rows, which are given by number."""
        certainty = self._now("certainty").certainty
        true = OneVsAll.class_scores(T).argmax(axis=1)

        def loss(P: np.ndarray, rows: np.ndarray) -> np.ndarray:
            share = probabilities(OneVsAll.class_scores(P), certainty.factor, certainty.floor)
            return -np.log(np.maximum(share[np.arange(len(P)), true[rows]], LEAST_PROBABILITY))

        return loss

    explain = _reasons.explain

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validated(self, X, y, reset=reset)
        check_classification_targets(y)
        return X, y

    def _targets_of(self, y: np.ndarray, given: Any) -> OneVsAll:
        return OneVsAll(np.unique(y))

    def _announced(self, classes: Any) -> OneVsAll:
        """What is known of targets when only their classes are."""
        return OneVsAll(np.unique(classes))

    def _code(self, targets: OneVsAll, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any:
        if not block:
            refuse_one_class(self, targets.classes)
        indices = targets.indices(y)
        if block:
            refuse_balance(self.class_weight)
        T = targets.encode(indices)
        if self.class_weight is None:
            return T, None
        return T, class_balance(self.class_weight, targets.classes, y, weight)[indices]

    def _coding(self, targets: OneVsAll, rows: Rows) -> Coding:
        return targets

    def _certainty(self, targets: OneVsAll, held_out: HeldOut, rows: Rows) -> Any:
        true = OneVsAll.class_scores(held_out.T).argmax(axis=1)
        return Temperature.of(OneVsAll.class_scores(held_out.P), true, held_out.weight)

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
        fitted = self._now("weights")
        return fitted.targets.decode(self._scores_of(X, fitted))

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
        fitted = self._now("weights", "certainty")
        scores = OneVsAll.class_scores(self._scores_of(X, fitted))
        return probabilities(scores, fitted.certainty.factor, fitted.certainty.floor)


def refuse_one_class(model: Any, classes: np.ndarray) -> None:
    """A classifier needs two classes."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(model).__name__} needs at least two classes; the rows (of positive weight) have only "
            f"one class, {classes[0]!r}"
        )


def refuse_balance(class_weight: Any) -> None:
    """Rows that come in blocks cannot be counted before the first is learned."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        raise ValueError(
            'class_weight="balanced" needs to count all rows before the first is learned; for rows that come in '
            "blocks give the weights as a dict"
        )


def class_balance(class_weight: Any, classes: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The weight of every class."""
    balance = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=weight)
    if not (np.isfinite(balance).all() and (balance >= 0).all() and balance.any()):
        raise ValueError(f"class weights must be non-negative, finite and not all zero, got {class_weight!r}")
    return balance
