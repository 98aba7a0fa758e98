"""The ordinal task: labels that have an order, and no other meaning."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ulmus.calibration import HeldOut, LabelScores, fit_temperature, probabilities
from ulmus.codings import Coding, Ordered, positions_in
from ulmus.engine import Rows
from ulmus.models._assembly import validated
from ulmus.models._between import reads
from ulmus.models._tasks import label_sets, widened


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


class Ordinal(ClassifierMixin):
    """Ordered labels: the ordered code, one ±1 column for every class but the lowest."""

    _criteria: ClassVar[tuple[str, ...]] = ("auto", "absolute", "error", "squared")
    _set_methods: ClassVar[tuple[str, ...]] = ("ordered", "adaptive", "threshold")
    floor_: np.ndarray
    left_out_: LabelScores | None

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        if reset:
            self._declared = declared_order(y, self.categories)
        y = y if y is None else np.asarray(y)
        X, y = validated(self, X, y, reset=reset)
        check_classification_targets(y)
        if self._declared is None:
            self._check_numbers(y)
        return X, y

    def _check_numbers(self, y: np.ndarray) -> None:
        if y.dtype.kind in "US" or (y.dtype.kind == "O" and any(isinstance(label, str) for label in y)):
            raise ValueError(
                f"{type(self).__name__} needs to know the order of its classes, and strings have none, got labels "
                f"{sorted(map(str, set(y.tolist())))[:5]}; pass categories=[...] with the lowest first, or labels as "
                "pandas ordered Categorical or polars Enum"
            )

    def _encode(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self.classes_ = np.unique(y) if self._declared is None else self._declared
        indices = positions_in(self.classes_, y)
        self.present_ = np.unique(indices)
        if len(self.present_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the rows (of positive weight) have only "
                f"one class, {self.classes_[self.present_[0]]!r}"
            )
        T = self._code.encode(indices)
        return T, None if self.class_weight is None else self._balance(y, weight)[indices]

    def _balance(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The weight of every class."""
        balance = np.ones(len(self.classes_))
        present = self.classes_[self.present_]
        seen = compute_class_weight(self.class_weight, classes=present, y=y, sample_weight=weight)
        if not (np.isfinite(seen).all() and (seen >= 0).all() and seen.any()):
            raise ValueError(f"class weights must be non-negative, finite and not all zero, got {self.class_weight!r}")
        balance[self.present_] = seen
        return balance

    # Rows that come in blocks

    def _encode_more(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        code = self._code if hasattr(self, "present_") else Ordered(self.classes_, np.empty(0, int), self.decoding)
        indices = code.indices(y)
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs to count all rows before the first is learned; for rows that come in '
                "blocks give the weights as a dict"
            )
        self.present_ = code.seeing(indices).present
        T = self._code.encode(indices)
        return T, None if self.class_weight is None else self._balance(y, None)[indices]

    def _grow(self, labels: Any) -> np.ndarray | None:
        labels = np.asarray(labels)
        if getattr(self, "_declared", None) is None:
            self._declared = declared_order(labels, self.categories)
        if self._declared is not None:
            positions_in(self._declared, labels)
            self.classes_ = self._declared
            return None
        self._check_numbers(labels)
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(labels)
            return None
        old, (code, M) = self.classes_, self._code.grown(labels)
        if code.classes is old:
            return None
        self.classes_ = code.classes
        self.left_out_ = None  # its scores have other columns
        if hasattr(self, "present_"):
            self.present_ = code.present
        if "floor_" in self.__dict__:
            self.floor_ = widened(self.floor_, np.searchsorted(self.classes_, old), len(self.classes_))
        return M

    def _identity(self, T: np.ndarray) -> np.ndarray:
        return self._code.identity(T)

    @property
    def _code(self) -> Ordered:
        return Ordered(self.classes_, getattr(self, "present_", np.arange(len(self.classes_))), self.decoding)

    def _coding(self, rows: Rows) -> Coding:
        return self._code

    def _calibrate(self, held_out: HeldOut) -> None:
        true = np.searchsorted(self.present_, self._code.positions(held_out.T))
        self.temperature_, floor = fit_temperature(self._code.ladder(held_out.P), true, held_out.weight)
        self.floor_ = widened(floor, self.present_, len(self.classes_))
        self._keep_left_out(held_out)

    def _keep_left_out(self, held_out: HeldOut) -> None:
        self.left_out_ = LabelScores(held_out.P, self._code.positions(held_out.T), held_out.weight, held_out.variance)

    def _probabilities(self, bits: np.ndarray) -> np.ndarray:
        """``P(y = k)`` of every class that was seen."""
        temperature, floor = self.temperature_, self.__dict__.get("floor_")
        return probabilities(self._code.ladder(bits), temperature, None if floor is None else floor[self.present_])

    def _class_probabilities(self, bits: np.ndarray) -> np.ndarray:
        P = np.zeros((len(bits), len(self.classes_)))
        P[:, self.present_] = self._probabilities(bits)
        return P

    @reads
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
        bits = self._scores_of(X)
        if self.cost_matrix is not None:
            scores = -self._class_probabilities(bits) @ self._costs()
            return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores
        return bits[:, 0] if len(self.classes_) == 2 else self._code.class_scores(bits)

    @reads
    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels: decoded, or of least expected cost where there is a ``cost_matrix``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        bits = self._scores_of(X)
        if self.cost_matrix is None:
            return self._code.decode(bits)
        return self.classes_[(self._class_probabilities(bits) @ self._costs()).argmin(axis=1)]

    def _costs(self) -> np.ndarray:
        costs, M = np.asarray(self.cost_matrix, dtype=float), len(self.classes_)
        if costs.shape != (M, M) or not np.isfinite(costs).all():
            raise ValueError(
                f"cost_matrix must be {M} × {M} finite numbers, cost_matrix[true, predicted], for the classes "
                f"{self.classes_.tolist()}, got shape {costs.shape}"
            )
        return costs

    @reads
    def predict_set(self, X: Any, coverage: float = 0.95, *, method: str = "ordered", by_class: bool = False) -> Any:
        return label_sets(self, X, coverage, method, by_class)

    predict_set.__doc__ = label_sets.__doc__

    @reads
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
        P = self._class_probabilities(self._scores_of(X))
        reached = np.minimum(np.cumsum(P[:, ::-1], axis=1)[:, ::-1], 1.0)
        reached[:, : self.present_[0] + 1] = 1.0
        return reached

    @reads
    def predict_proba(self, X: Any) -> np.ndarray:
        r"""Class probabilities.

        Bits that are out of order are made monotone (isotonic regression, in the measure of the decoder), :math:`g`.
        Then each bit is the log-odds of its class against the one below, but for a factor a (``temperature_``) that is
        fitted to leave-one-out bits: :math:`P(y=k) \propto \exp(a\sum_{j\le k} g_j)`. The most probable class is
        the one that loss-based and counting decoders return. With ``loss="logistic"`` bits are the log-odds of
        :math:`P(y\ge k)` as they are, and probabilities are differences of those.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; classes never seen have probability 0.
        """
        return self._class_probabilities(self._scores_of(X))
