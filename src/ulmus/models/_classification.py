"""The task of classification: what a model does with labels that have no order, whatever its features are."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ulmus import engine
from ulmus.calibration import HeldOut, LabelScores, LogScores, Temperature, decide
from ulmus.calibration.labels import LabelTemperatures
from ulmus.calibration.sets import check_method, prediction_sets
from ulmus.codings import Coding, OneVsAll
from ulmus.engine import Rows
from ulmus.labels import SeveralLabels, refuse_several
from ulmus.models import _counterfactuals, _effects, _reasons, multilabel
from ulmus.models.base import Model
from ulmus.models.choice import Training
from ulmus.models.class_options import LOSS_CRITERIA
from ulmus.models.fitted import Fitted, FittedView, Outcome
from ulmus.models.reading import MOST_WEIGHT, validated

#: What a probability counts as in a log loss, at least.
LEAST_PROBABILITY = 1e-15
TEMPERATURE = "Factor that turns scores into probabilities, fitted to rows left out; near 1, or 1/2, for log models."
PRIOR = "Share of every class in the weight of the training rows."
FLOOR = "Probability that every class has whatever the scores say: a share of its frequency."


#: Why a model may have no scores of rows left out.
WITHOUT_SCORES = (
    "it comes from a file of an earlier version, or has just learned of a new class; fit it again, or let it learn "
    "more rows"
)


def label_sets(model: Any, X: Any, coverage: Any, method: str, by_class: bool) -> np.ndarray:
    """Prediction sets: classes among which the true one is with probability ``coverage``, calibrated on held-out rows.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    coverage : float or list of float, default=0.95
        Probability with which the true class is in the set; a list gives a set for each.
    method : str
        ``"adaptive"`` sets are large for rows that are hard to classify and never empty: classes in the order of their
        probabilities, up to a total found on left-out rows. ``"threshold"`` takes all classes above one probability:
        the smallest sets on average, some of which may be empty. Ordinal models have ``"ordered"`` sets, the default
        there, which have no gaps.
    by_class : bool, default=False
        Cover every class, not only the average row. Needs rows of every class: 19 for a coverage of 95 %.

    Returns
    -------
    ndarray of bool of shape (n_samples, n_classes)
        Which classes, in the order of ``classes_``, are in the set of each row. For a list of k coverages there is one
        more axis, of k, before the last.
    """
    check_method(method, model._set_methods)
    fitted = model._now("weights", "certainty")
    refuse_several(fitted.targets, "predict_set")
    held = fitted.certainty.left_out
    if held is None:
        raise ValueError(f"this {type(model).__name__} has no held-out scores: {model._without_scores}")
    P = model._class_probabilities(fitted, model._scores_of(X, fitted))
    return prediction_sets(P, model._class_probabilities(fitted, held.scores), held, coverage, method, by_class)


class Classification(ClassifierMixin, Model):
    """One ±1 column per class (one for two classes); the largest score wins. Of a 0/1 matrix, one per label."""

    #: What weights minimise, how classes are decided for, and their weights, where a model has no parameter for it.
    loss: Any = "squared"
    decision: Any = "accuracy"
    class_weight: Any = None
    _set_methods: ClassVar[tuple[str, ...]] = ("adaptive", "threshold")
    _without_scores: ClassVar[str] = WITHOUT_SCORES
    #: Whether rows may have several labels, in a matrix of 0 and 1.
    _takes_indicators: ClassVar[bool] = False

    classes_ = FittedView("classes_", "targets.classes", "ndarray", "The labels.")
    temperature_ = FittedView("temperature_", "certainty.factor", "float", TEMPERATURE)
    floor_ = FittedView("floor_", "certainty.floor", "ndarray of shape (n_classes,)", FLOOR)
    class_prior_ = FittedView("class_prior_", "certainty.prior", "ndarray of shape (n_classes,)", PRIOR)
    left_out_ = FittedView("left_out_", "certainty.left_out")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances, counterfactuals = _effects.left_out_importances, _counterfactuals.counterfactuals

    def _row_loss(self, T: np.ndarray) -> Any:
        """Log loss of scores of training rows, which are given by number."""
        fitted = self._now("certainty")
        refuse_several(fitted.targets, "the value of rows")
        certainty = fitted.certainty
        true = OneVsAll.class_scores(T).argmax(axis=1)

        def loss(P: np.ndarray, rows: np.ndarray) -> np.ndarray:
            share = certainty.probabilities(OneVsAll.class_scores(P))
            return -np.log(np.maximum(share[np.arange(len(P)), true[rows]], LEAST_PROBABILITY))

        return loss

    @property
    def _by_log(self) -> bool:
        """Whether weights minimise the log loss."""
        return bool(self.loss == "log")

    @property
    def _intercept(self) -> bool:
        by_log = self._by_log and self._family is not None  # adaptive models choose their view without
        return by_log if self.fit_intercept == "auto" else bool(self.fit_intercept)

    def _check_criterion(self) -> None:
        allowed = LOSS_CRITERIA[self.loss]
        if self.criterion not in allowed:
            raise ValueError(
                f"criterion of {type(self).__name__} must be one of {allowed} for loss={self.loss!r}, "
                f"got {self.criterion!r}"
            )

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        if reset and multilabel.is_matrix(y):
            return multilabel.read(self, X, y)
        X, y = validated(self, X, y, reset=reset)
        check_classification_targets(y)
        return X, y

    def _targets_of(self, y: np.ndarray, given: Any) -> OneVsAll | SeveralLabels:
        return OneVsAll(np.unique(y)) if y.ndim == 1 else multilabel.targets_of(y, given)

    def _announced(self, classes: Any) -> OneVsAll:
        """What is known of targets when only their classes are."""
        return OneVsAll(np.unique(classes))

    def _code(self, targets: Any, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any:
        if block:
            refuse_several(targets, "learning from blocks and streams")
        if isinstance(targets, SeveralLabels):
            multilabel.check(self)
            return targets.encode(y), None
        if not block:
            refuse_one_class(self, targets.classes)
            even = np.full((1, len(targets.classes)), 1.0 / len(targets.classes))
            decide(even, self.decision, even[0])  # a matrix of the wrong shape is refused now, not after the fit
            if self._by_log:
                refuse_memory(len(y), len(targets.classes))
        indices = targets.indices(y)
        if block:
            refuse_balance(self.class_weight)
        T = targets.encode(indices)
        if self.class_weight is None:
            return T, None
        balance = class_balance(self.class_weight, targets.classes, y, weight)
        if not block:
            refuse_one_class(self, targets.classes[balance > 0])
        return T, balance[indices]

    def _coding(self, targets: Any, rows: Rows) -> Coding:
        return targets

    def _train(self, training: Training) -> Outcome:
        if not self._by_log or self._family is None:  # adaptive models have none, and stages of their own
            return super()._train(training)
        if self.C is None:
            raise ValueError('loss="log" needs a penalty: C must be positive or "auto", got None')
        if self._is_monotone:
            raise ValueError('monotonic_cst needs loss="squared", got loss="log"')
        return self._family.fit_log(self, training)

    def _refuse(self, what: str) -> None:
        super()._refuse(what)
        refuse_several(self._known("targets"), what)
        if self._by_log:
            raise ValueError(
                f'{what} needs loss="squared", got loss="log": its weights come from passes over all rows, and sums '
                "over rows do not suffice; fit all rows again, or by streaming.fit where they do not fit in memory"
            )

    def _certainty(self, targets: Any, held_out: HeldOut, rows: Rows) -> Any:
        if isinstance(targets, SeveralLabels):
            return LabelTemperatures.of(held_out, np.average(rows.T > 0, axis=0, weights=rows.weight))
        true, weight = OneVsAll.class_scores(held_out.T).argmax(axis=1), held_out.weight
        found = self._probabilities_by(held_out)(OneVsAll.class_scores(held_out.P), true, weight)
        prior = np.average(0.5 * (1.0 + OneVsAll.class_scores(rows.T)), axis=0, weights=rows.weight)
        return replace(found, left_out=LabelScores(held_out.P, true, weight, held_out.variance), prior=prior)

    def _probabilities_by(self, held_out: HeldOut) -> Callable[[np.ndarray, np.ndarray, np.ndarray], Temperature]:
        """How scores of rows become probabilities: a function of those of rows left out, their classes and weights."""
        if not self._by_log:
            return Temperature.of
        return lambda scores, true, weight: LogScores.own(scores, true, weight, 0.5 if scores.shape[1] == 2 else 1.0)

    def decision_function(self, X: Any) -> np.ndarray:
        """Score per class, or one score for two classes (positive means ``classes_[1]``).

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes), of several labels a row (n_samples, n_labels)
        """
        scores = self._scores_of(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels: the likeliest ones, or what ``decision`` makes of the probabilities.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), of several labels a row a 0/1 matrix of shape (n_samples, n_labels)
        """
        fitted = self._now("weights")
        plain = isinstance(self.decision, str) and self.decision == "accuracy"
        if plain and getattr(fitted.certainty, "loss", "squared") == "squared":  # the largest score is the likeliest
            return fitted.targets.decode(self._scores_of(X, fitted))
        fitted = self._now("weights", "certainty")
        P = self._class_probabilities(fitted, self._scores_of(X, fitted))
        return fitted.targets.classes[decide(P, self.decision, fitted.certainty.prior)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: ``softmax(temperature_ · scores)`` over ``floor_``, both fitted to left-out scores.

        The floor is a share of the classes' frequencies, so that probabilities are never worse than these on the rows
        they were fitted to, and no single row decides about them. Of a log model the softmax of its scores is taken as
        it is, and only the floor is fitted; an adaptive one has a temperature too.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; the largest entry is the class that ``predict`` returns by ``decision="accuracy"``. Of
            several labels a row, the probability of each (n_samples, n_labels), as scikit-learn's
            ``OneVsRestClassifier`` gives them.
        """
        fitted = self._now("weights", "certainty")
        return self._class_probabilities(fitted, self._scores_of(X, fitted))

    def _class_probabilities(self, fitted: Fitted, scores: np.ndarray) -> np.ndarray:
        return fitted.certainty.probabilities(fitted.targets.class_scores(scores))

    def predict_set(self, X: Any, coverage: Any = 0.95, *, method: str = "adaptive", by_class: bool = False) -> Any:
        return label_sets(self, X, coverage, method, by_class)

    predict_set.__doc__ = label_sets.__doc__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_indicators and self.loss == "squared"
        return tags


def refuse_memory(n_rows: int, n_classes: int, n_features: int = 0) -> None:
    """A log model holds several arrays of rows × classes, and of features × classes."""
    cells = 12 * n_rows * n_classes + 8 * n_features * (n_classes + n_features) + 4 * n_classes**2
    present = engine.physical_memory()
    if present is not None and 8 * cells > present:
        raise MemoryError(
            f"the log loss of {n_classes} classes and {n_rows} rows needs about {8 * cells / 2**30:.1f} GiB and this "
            f'machine has {present / 2**30:.1f} GiB; use loss="squared", fewer features, or join rare classes'
        )


def refuse_one_class(model: Any, classes: np.ndarray) -> None:
    """A classifier needs two classes."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(model).__name__} needs at least two classes; the rows (of positive weight) have only "
            f"one class, {classes.tolist()[0]!r}"
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
    if isinstance(class_weight, str) and class_weight == "balanced":  # scikit-learn takes weights here from 1.7 on
        labels, index = np.unique(y, return_inverse=True)
        mass = np.bincount(index, weight)
        balance = (mass.sum() / (len(labels) * np.maximum(mass, 1e-300)))[np.searchsorted(labels, classes)]
    else:
        balance = compute_class_weight(class_weight, classes=classes, y=y)
        total = float(len(y) if weight is None else weight.sum())
        if np.isfinite(balance).all() and balance.max() > MOST_WEIGHT / max(total, 1.0):
            raise ValueError(
                f"class_weight counts rows, and {balance.max():.3g} times {total:.3g} rows are more than the "
                f"{MOST_WEIGHT:.0e} that float64 can count; divide the weights of classes by the largest"
            )
    if not (np.isfinite(balance).all() and (balance >= 0).all() and balance.any()):
        raise ValueError(f"class weights must be non-negative, finite and not all zero, got {class_weight!r}")
    return balance
