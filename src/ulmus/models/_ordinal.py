"""The ordinal task: labels that have an order, and no other meaning."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ulmus.calibration import HeldOut, LabelScores, LogOdds, Temperature, checked_floor, probabilities
from ulmus.codings import Coding, Ordered, positions_in
from ulmus.engine import Rows
from ulmus.models import _reasons
from ulmus.models._classification import (
    FLOOR,
    LEAST_PROBABILITY,
    WITHOUT_SCORES,
    class_balance,
    label_sets,
    refuse_balance,
    refuse_one_class,
)
from ulmus.models.base import Model
from ulmus.models.choice import Training
from ulmus.models.fitted import Fitted, FittedView, Outcome
from ulmus.models.reading import given_targets, validated

PRESENT = "Positions in ``classes_`` of those seen so far; only these are predicted."


def declared_order(y: Any, categories: Any) -> np.ndarray | None:
    """The order that is given: as a list, as a pandas ordered categorical, or as a polars Enum; None for none."""
    dtype = getattr(y, "dtype", None)
    if not isinstance(categories, str):
        order = np.asarray(categories)
    elif getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
        order = np.asarray(dtype.categories)  # type: ignore[union-attr]
    else:
        return None
    if order.ndim != 1 or len(order) < 2 or len(set(order.tolist())) < len(order):
        raise ValueError(
            f"categories must be a list of at least two different labels, lowest first, got {order.tolist()}"
        )
    return order


class Ordinal(ClassifierMixin, Model):
    """Ordered labels: the ordered code, one ±1 column for every class but the lowest."""

    _criteria: ClassVar[tuple[str, ...]] = ("auto", "absolute", "error", "squared")
    _set_methods: ClassVar[tuple[str, ...]] = ("ordered", "adaptive", "threshold")
    _without_scores: ClassVar[str] = WITHOUT_SCORES

    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    classes_ = FittedView("classes_", "targets.classes", "ndarray", "All classes, lowest first.")
    present_ = FittedView("present_", "targets.present", "ndarray of int", PRESENT)
    temperature_ = FittedView("temperature_", "certainty.factor", "float", "Factor that turns bits into log-odds.")
    floor_ = FittedView("floor_", "certainty.floor", "ndarray of shape (n_classes,)", FLOOR)
    left_out_ = FittedView("left_out_", "certainty.left_out")
    class_count_ = FittedView("class_count_", "certainty.count")

    @property
    def _by_log_odds(self) -> bool:
        """Whether bits are log-odds: trained by the logistic loss."""
        return getattr(self, "loss", "squared") == "logistic"

    def _row_loss(self, T: np.ndarray) -> Any:
        """Log loss of bits of training rows, which are given by number."""
        fitted = self._now("certainty")
        true = fitted.targets.positions(T)

        def loss(P: np.ndarray, rows: np.ndarray) -> np.ndarray:
            share = self._class_probabilities(fitted, P)[np.arange(len(P)), true[rows]]
            return -np.log(np.maximum(share, LEAST_PROBABILITY))

        return loss

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        y = given_targets(y)
        given, y = y, y if y is None else np.asarray(y)
        X, y = validated(self, X, y, reset=reset)
        known = None if reset else self._known("targets")
        if not (known is not None and known.declared) and declared_order(given, self.categories) is None:
            self._check_steps(y)
            check_classification_targets(y)
            self._check_numbers(y)
        elif y.dtype.kind != "f":  # numbers of any kind may be named; whether all are is seen when they are coded
            check_classification_targets(y)
        return X, y

    def _check_steps(self, y: np.ndarray) -> None:
        """Say how labels with fractions are told from measurements."""
        if y.ndim == 1 and y.dtype.kind == "f" and np.isfinite(y).all() and (y != np.floor(y)).any():
            found = np.unique(y)
            shown = found[:5].tolist()
            raise ValueError(
                f"Unknown label type: continuous. y has {len(found)} different values, {shown}"
                f"{' and more' if len(found) > len(shown) else ''}; if these are ordered classes, name them, "
                "categories=[...] with the lowest first; if they are measurements, use a regressor"
            )

    def _check_numbers(self, y: np.ndarray) -> None:
        if y.dtype.kind in "US" or (y.dtype.kind == "O" and any(isinstance(label, str) for label in y)):
            raise ValueError(
                f"{type(self).__name__} needs to know the order of its classes, and strings have none, got labels "
                f"{sorted(map(str, set(y.tolist())))[:5]}; pass categories=[...] with the lowest first, or labels as "
                "pandas ordered Categorical or polars Enum"
            )

    def _targets_of(self, y: np.ndarray, given: Any) -> Ordered:
        order = declared_order(given, self.categories)
        classes = np.unique(y) if order is None else order
        present = np.unique(positions_in(classes, y))
        return Ordered(classes, present, self.decoding, order is not None)

    def _announced(self, classes: Any) -> Ordered:
        """What is known of targets when only their classes are."""
        labels = np.asarray(classes)
        if declared_order(classes, self.categories) is None:
            self._check_numbers(labels)
        return replace(self._targets_of(labels, classes), present=np.empty(0, int))

    def _refuse(self, what: str) -> None:
        if self._by_log_odds:
            raise ValueError(
                f'{what} needs loss="squared", got loss="logistic": its weights change with every step, so sums over '
                "rows do not suffice; fit rows in memory"
            )

    def _code(self, targets: Ordered, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any:
        if not block:
            refuse_one_class(self, targets.classes[targets.present])
            if self.cost_matrix is not None:
                self._costs(targets.classes)  # what does not fit is refused now, not after the fit
        indices = targets.indices(y)
        if block:
            refuse_balance(self.class_weight)
        T = targets.encode(indices)
        if self.class_weight is None:
            return T, None
        balance = np.ones(len(targets.classes))
        seen = targets.seeing(indices).present
        balance[seen] = class_balance(self.class_weight, targets.classes[seen], y, weight)
        if not block:
            refuse_one_class(self, targets.classes[seen][balance[seen] > 0])
        return T, balance[indices]

    def _coding(self, targets: Ordered, rows: Rows) -> Coding:
        return targets

    def _by_family(self, training: Training) -> Outcome:
        if not self._by_log_odds:
            return super()._by_family(training)
        from ulmus.models.bits import with_log_odds

        if self.C is None:
            raise ValueError('loss="logistic" needs a penalty: C must be positive or "auto", got None')
        return with_log_odds(self, super()._by_family(training), training)

    def _certainty(self, targets: Ordered, held_out: HeldOut, rows: Rows) -> Any:
        true, weight = targets.positions(held_out.T), held_out.weight
        place = np.searchsorted(targets.present, true)
        if self._by_log_odds:
            count = np.bincount(np.searchsorted(targets.present, targets.positions(rows.T)), rows.weight)
            floor = checked_floor(from_log_odds(targets, held_out.P), place, weight)
            found: Temperature = LogOdds(1.0, floor, count=count.astype(float))
        else:
            found = Temperature.of(targets.ladder(held_out.P), place, weight)
        left_out = LabelScores(held_out.P, true, weight, held_out.variance)
        return replace(found.placed(targets.present, len(targets.classes)), left_out=left_out)

    def _class_probabilities(self, fitted: Fitted, bits: np.ndarray) -> np.ndarray:
        """``P(y = k)``; 0 for classes that were never seen."""
        targets, certainty = fitted.targets, fitted.certainty
        P = np.zeros((len(bits), len(targets.classes)))
        floor = certainty.floor_at(targets.present)
        if isinstance(certainty, LogOdds):
            assert floor is not None
            P[:, targets.present] = floor + (1.0 - floor.sum()) * from_log_odds(targets, bits)
        else:
            P[:, targets.present] = probabilities(targets.ladder(bits), certainty.factor, floor)
        return P

    def decision_function(self, X: Any) -> np.ndarray:
        """Score per class, the largest for the class that ``predict`` returns; one score for two classes.

        Without ``cost_matrix`` the score of a class is by how much its decoding loss exceeds the smallest one, halved
        and negative; with it, minus the expected cost. For two classes positive means ``classes_[1]``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        fitted = self._now("weights", *self._for_costs)
        bits, targets = self._scores_of(X, fitted), fitted.targets
        if self.cost_matrix is not None:
            scores = -self._class_probabilities(fitted, bits) @ self._costs(targets.classes)
            return scores[:, 1] - scores[:, 0] if len(targets.classes) == 2 else scores
        return bits[:, 0] if len(targets.classes) == 2 else targets.class_scores(bits)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels: decoded, or of least expected cost where there is a ``cost_matrix``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        fitted = self._now("weights", *self._for_costs)
        bits, targets = self._scores_of(X, fitted), fitted.targets
        if self.cost_matrix is None:
            return targets.decode(bits)
        costs = self._class_probabilities(fitted, bits) @ self._costs(targets.classes)
        return targets.classes[costs.argmin(axis=1)]

    @property
    def _for_costs(self) -> tuple[str, ...]:
        """What a decision needs beside weights."""
        return () if self.cost_matrix is None else ("certainty",)

    def _costs(self, classes: np.ndarray) -> np.ndarray:
        costs, M = np.asarray(self.cost_matrix, dtype=float), len(classes)
        if costs.shape != (M, M) or not np.isfinite(costs).all():
            raise ValueError(
                f"cost_matrix must be {M} × {M} finite numbers, cost_matrix[true, predicted], for the classes "
                f"{classes.tolist()}, got shape {costs.shape}"
            )
        return costs

    def predict_set(self, X: Any, coverage: Any = 0.95, *, method: str = "ordered", by_class: bool = False) -> Any:
        return label_sets(self, X, coverage, method, by_class)

    predict_set.__doc__ = label_sets.__doc__

    def predict_cumulative(self, X: Any) -> np.ndarray:
        r"""Probability that a class is reached, :math:`P(y \ge k)`.

        Tail sums of ``predict_proba``; the bits behind them are made monotone first.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The first column is 1; rows never increase.
        """
        fitted = self._now("weights", "certainty")
        P = self._class_probabilities(fitted, self._scores_of(X, fitted))
        reached = np.minimum(np.cumsum(P[:, ::-1], axis=1)[:, ::-1], 1.0)
        reached[:, : fitted.targets.present[0] + 1] = 1.0
        return reached

    def predict_proba(self, X: Any) -> np.ndarray:
        r"""Class probabilities.

        Bits that are out of order are made monotone (isotonic regression, in the measure of the decoder), :math:`g`.
        Then each bit is the log-odds of its class against the one below, but for a factor a (``temperature_``) that is
        fitted to leave-one-out bits: :math:`P(y=k) \propto \exp(a\sum_{j\le k} g_j)`. The most probable class is
        the one that loss-based and counting decoders return. With ``loss="logistic"`` bits are the log-odds of
        :math:`P(y\ge k)` as they are, and probabilities are differences of those, with a share of the frequencies of
        the classes (``floor_``) that rows left out ask for.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; classes never seen have probability 0.
        """
        fitted = self._now("weights", "certainty")
        return self._class_probabilities(fitted, self._scores_of(X, fitted))


def from_log_odds(targets: Ordered, bits: np.ndarray) -> np.ndarray:
    """Differences of ``P(y ≥ k) = σ(o_k)``: bits that were pooled leave nothing to the class between them."""
    reached = np.pad(expit(targets.repaired(bits)), ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))
    return -np.diff(reached, axis=1)
