"""The tasks: what a model does with labels, whatever its features are."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ulmus.calibration import (
    Asked,
    HeldOut,
    LabelScores,
    New,
    PredictiveDistribution,
    Spread,
    Temperature,
    probabilities,
)
from ulmus.calibration.sets import check_method, prediction_sets
from ulmus.codings import Coding, Numbers, OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.models import _counterfactuals, _effects, _reasons
from ulmus.models.base import Model, validated
from ulmus.models.fitted import Fitted, FittedView
from ulmus.statistics import SQUARABLE, refuse_sizes

#: What a probability counts as in a log loss, at least.
LEAST_PROBABILITY = 1e-15


def label_sets(model: Any, X: Any, coverage: float, method: str, by_class: bool) -> np.ndarray:
    """Sets of classes that hold the true one with probability ``coverage``, from rows left out.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    coverage : float, default=0.95
    method : str
        ``"adaptive"`` sets are large for rows that are hard to tell and never empty: classes in the order of their
        probabilities, up to a total that left-out rows tell. ``"threshold"`` takes all classes above one probability:
        the smallest sets on average, some of which may be empty. Ordinal models have ``"ordered"`` sets, the default
        there, which have no gaps.
    by_class : bool, default=False
        Cover every class, not only the average row. Needs rows of every class: 19 for a coverage of 95 %.

    Returns
    -------
    ndarray of bool of shape (n_samples, n_classes)
        Which classes, in the order of ``classes_``, are in the set of each row.
    """
    check_method(method, model._set_methods)
    fitted = model._now("weights", "certainty")
    P = model._class_probabilities(fitted, model._scores_of(X, fitted))
    held = fitted.certainty.left_out
    if held is None:
        raise ValueError(
            f"this {type(model).__name__} has no scores of rows left out: its loss is logistic, it comes from a file "
            "of an earlier version, or has just learned of a new class; fit it by squares, or let it learn more rows"
        )
    return prediction_sets(P, model._class_probabilities(fitted, held.scores), held, coverage, method, by_class)


class Regression(RegressorMixin, Model):
    """Targets as they are; one or several outputs."""

    _default_intercept: ClassVar[bool] = True
    _criteria: ClassVar[tuple[str, ...]] = ("auto", "squared", "absolute", "gcv")
    #: The largest target has to lie between these.
    _target_sizes: ClassVar[tuple[float, float]] = SQUARABLE

    spread_ = FittedView("spread_", "certainty")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances, counterfactuals = _effects.left_out_importances, _counterfactuals.counterfactuals

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
        self,
        X: Any,
        coverage: Any = 0.9,
        *,
        method: str = "normalised",
        tails: Any = "equal",
        groups: Any = None,
        shift: Any = None,
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
        groups : int, str, list or callable, optional
            Coverage within every group, not only on average: a column of X whose values are the groups (by its number,
            or its name in a frame), several columns, or a function from rows, as the model is given them, to labels.
        shift : "estimate" or callable, optional
            For new rows that come from elsewhere than those of the training, while targets depend on rows as before:
            a function from rows to how much more frequent they are among new rows than among those of the training, or
            ``"estimate"``, which compares X, taken as a whole, with the rows left out.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends. For a list of k coverages there is one more axis, of k, before the last.
        """
        asked, fitted = Asked(coverage, method, tails, groups, shift), self._now("factor", "certainty")
        X, spread, told = self._checked(X, fitted), fitted.certainty, (self._noise_features(fitted), self._seen)
        P = self._outputs(X, fitted)
        like = spread.like(asked, X, getattr(self, "feature_names_in_", None), *told)
        if method == "jackknife+":
            ends = spread.jackknife(self._leaning(fitted), X, P, asked, like)
        else:
            ends = spread.ends(self._new(X, P, fitted, method), asked, like)
        ends = fitted.targets.shaped(ends)
        return ends[..., 0, :] if np.ndim(coverage) == 0 else ends

    def predict_distribution(self, X: Any, *, method: str = "normalised") -> PredictiveDistribution:
        """The distribution of new targets: its cdf, quantiles (``ppf``), samples and ``crps``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        method : {"normalised", "plain"}, default="normalised"
            Whether errors are as large as at such rows, or nearly of one size; see :meth:`predict_interval`.

        Returns
        -------
        PredictiveDistribution
        """
        if method not in ("normalised", "plain"):
            raise ValueError(f'method must be "normalised" or "plain" for a distribution, got {method!r}')
        fitted = self._now("factor", "certainty")
        X, spread = self._checked(X, fitted), fitted.certainty
        new = self._new(X, self._outputs(X, fitted), fitted, method)
        scores, weight = spread.scores(new.sizes, bent=new.knots is not None)
        return PredictiveDistribution(new.P, new.widths, scores, weight, fitted.targets.single, new.knots)

    def _new(self, X: Any, P: np.ndarray, fitted: Fitted, method: str) -> New:
        """What is known of checked rows, whose predictions are P."""
        h, rest = self._variance_factors(X, fitted)
        found: New = fitted.certainty.new(P, h + rest, X, method, self._noise_features(fitted), self._seen)
        return found

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95), *, method: str = "normalised") -> np.ndarray:
        """Quantiles of new targets; they never cross.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        q : float or list of float, default=(0.05, 0.5, 0.95)
        method : {"normalised", "plain"}, default="normalised"

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles)
            Without the last axis for a single number.
        """
        return self.predict_distribution(X, method=method).ppf(q)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classification(ClassifierMixin, Model):
    """One ±1 column per class (one for two classes); the largest score wins."""

    _criteria: ClassVar[tuple[str, ...]] = ("auto", "error", "squared", "gcv")
    _set_methods: ClassVar[tuple[str, ...]] = ("adaptive", "threshold")

    classes_ = FittedView("classes_", "targets.classes")
    temperature_ = FittedView("temperature_", "certainty.factor")
    floor_ = FittedView("floor_", "certainty.floor")
    left_out_ = FittedView("left_out_", "certainty.left_out")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances, counterfactuals = _effects.left_out_importances, _counterfactuals.counterfactuals

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
        found = Temperature.of(OneVsAll.class_scores(held_out.P), true, held_out.weight)
        return replace(found, left_out=LabelScores(held_out.P, true, held_out.weight, held_out.variance))

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
        return self._class_probabilities(fitted, self._scores_of(X, fitted))

    def _class_probabilities(self, fitted: Fitted, scores: np.ndarray) -> np.ndarray:
        return probabilities(OneVsAll.class_scores(scores), fitted.certainty.factor, fitted.certainty.floor)

    def predict_set(self, X: Any, coverage: float = 0.95, *, method: str = "adaptive", by_class: bool = False) -> Any:
        return label_sets(self, X, coverage, method, by_class)

    predict_set.__doc__ = label_sets.__doc__


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
