"""Predictions of rows by models that did not see them, and how sure these are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration.curves import Curves
from ulmus.engine import FeatureMap, Rows
from ulmus.features.kernels import dense
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import alone, column_ranks, distinct_sample, keys_in_any_order, row_keys
from ulmus.solvers.interpolation import without_own_row
from ulmus.solvers.own_landmarks import (
    OwnLandmarks,
    WithoutLandmarks,
    all_landmarks,
    can_leave,
    dual_leverages,
    landmarks_among,
)
from ulmus.solvers.path import RidgePath
from ulmus.solvers.ridge import Solution, leave_out
from ulmus.solvers.robust import weighted_median
from ulmus.statistics import Summary

#: Rows whose leave-one-out predictions calibrate probabilities and intervals, at most.
CALIBRATION_ROWS = 2_000
#: Least ``1 − u h`` of a row, so that the variance of its prediction without it stays finite.
LEAST_REMAINDER = 1e-12
#: ``1 − u h``, and the share of the largest target, up to which the weights pass through a row, but for round-off.
MET = (1e-6, 1e-9)


@dataclass(frozen=True)
class FoldWeights:
    """Weights on the features, and constants, of the models without each fold: ``beta[fold, feature, output]``."""

    numbers: np.ndarray
    beta: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True)
class HeldOut:
    """Predictions of some rows by models that did not see them: targets, predictions, variances and weights.

    The variance is that of the prediction, ``h₋ + C r``, in units of the noise's: the leverage of the row under the
    model that does not hold it, ``h₋ = h/(1 − u h)``, and what the features leave of the prior. New rows have the same.
    ``X`` are the rows as the model sees them, ``unit`` the weight u that each takes along; ``place`` says which rows
    they were, where inputs have been replaced; rows of one ``fold`` were left out together. ``one_by_one`` tells that
    every row was left out alone, of a model in closed form. ``residual`` is what a robust model that holds the rows
    misses their targets by: small for a row that is merely far from others, and large for an outlier. ``freedom`` are
    the degrees of freedom, per row, of the model that holds all of them, where rows were left out of that. ``curves``
    are the quantiles of a model that has fitted some, ``folds`` the models by which rows of folds were predicted.
    ``alone`` are the same rows left out one by one, where errors of other fits were worse, or trees stand beside
    kernels. ``by_log`` tells that predictions are scores of a log loss. ``share`` is how much of the variances
    intervals believe, per output. ``seen`` are coordinates that a model has learned the rows by, where new rows of
    the same values would have others. ``moved`` is by how much predictions of rows differ on the mean because
    others had left beside them. ``without`` tells which of several models beside it did not see a row (-1: none).
    """

    T: np.ndarray
    P: np.ndarray
    variance: np.ndarray
    weight: np.ndarray
    X: Any = None
    unit: np.ndarray | None = None
    place: np.ndarray | None = None
    fold: np.ndarray | None = None
    one_by_one: bool = False
    residual: np.ndarray | None = None
    freedom: float = 0.0
    curves: Curves | None = None
    folds: FoldWeights | None = None
    alone: "HeldOut | None" = None
    by_log: bool = False
    share: Any = 1.0
    seen: np.ndarray | None = None
    moved: np.ndarray | None = None
    without: np.ndarray | None = None

    @property
    def by_itself(self) -> "HeldOut | None":
        """The rows as each was left out alone; None where none was."""
        return self if self.one_by_one else self.alone

    @classmethod
    def of(cls, rows: Rows, residual: np.ndarray, remainder: np.ndarray, rest: Any = 0.0) -> "HeldOut":
        """From training residuals of rows that the model holds, ``1 − u h`` of each, and ``C r``."""
        held = 1.0 / np.maximum(remainder, LEAST_REMAINDER) - 1.0  # u h₋
        left = np.maximum(held if rows.unit is None else held / rows.unit, 0.0)
        return cls.by_others(rows, leave_out(rows.T, residual, remainder), left + rest)

    @classmethod
    def joined(cls, parts: Sequence["HeldOut"]) -> "HeldOut":
        """Those of several sets of rows as one."""
        columns: dict[str, list[Any]] = {
            f.name: [getattr(part, f.name) for part in parts]
            for f in fields(cls)
            if f.name not in ("one_by_one", "freedom", "curves", "folds", "alone", "by_log", "share", "seen")
        }
        every: dict[str, Any] = {k: None if v[0] is None else np.concatenate(v) for k, v in columns.items()}
        return cls(**every)

    @classmethod
    def by_others(cls, rows: Rows, P: np.ndarray, variance: np.ndarray) -> "HeldOut":
        """From predictions by models that do not hold the rows, and their variances."""
        X = np.asarray(rows.X) if hasattr(rows.X, "rows_of_small_keys") else rows.X
        return cls(rows.T, P, variance, rows.weights, X, rows.unit, rows.place, rows.fold)

    @property
    def studentised(self) -> np.ndarray:
        """Residuals in units of the deviation of noise and prediction, ``e / √(1 + h₋ + C r)``."""
        return (self.T - self.P) / self.deviations

    @property
    def deviations(self) -> np.ndarray:
        """``√(1 + h₋ + C r)``, ``[row, output]``, or one column for all outputs."""
        return np.sqrt(1.0 + self.share * self.variance.reshape(len(self.T), -1))


def calibration_sample(rows: Rows, rng: np.random.RandomState) -> tuple[np.ndarray, Rows]:
    """The rows that calibrate, all or a sample of :data:`CALIBRATION_ROWS`, and which rows they are."""
    if rows.effective_count > CALIBRATION_ROWS:
        return distinct_sample(rows, CALIBRATION_ROWS, rng)
    return np.arange(len(rows)), rows


#: ``(features, rows, solution)`` → fitted values, leverages and residual kernel.
Evaluate = Callable[[Any, Rows, Solution], tuple[np.ndarray, np.ndarray, np.ndarray]]


def leave_one_out_sample(
    features: FeatureMap,
    rows: Rows,
    solution: Solution,
    rng: np.random.RandomState,
    C: float | None,
    *,
    evaluate: Evaluate | None = None,
    n_jobs: int | None = -1,
) -> HeldOut:
    """Exact leave-one-out predictions of a sample of the rows (:func:`leave_one_out`)."""
    return leave_one_out(features, calibration_sample(rows, rng)[1], solution, C, evaluate=evaluate, n_jobs=n_jobs)


def leave_one_out(
    features: FeatureMap,
    rows: Rows,
    solution: Solution,
    C: float | None,
    *,
    evaluate: Evaluate | None = None,
    n_jobs: int | None = -1,
) -> HeldOut:
    """Predictions of rows by the model without them, exactly; a row that is a landmark leaves as landmark too.

    ``evaluate`` gives fitted values, leverages and residual kernel of rows that are on another device.
    """
    leverage = solution.leverage
    exact = evaluate is None and leverage.rows is not None and len(leverage.rows) == len(rows)
    if exact and all_landmarks(features, rows) is not None and alone(rows).all():
        return _of_all_landmarks(rows, solution)
    own = OwnLandmarks.of(features, rows, n_jobs)
    factored = evaluate is None and own is not None and leverage.rows is None and not leverage.spectral
    known = own if factored else None
    fitted, h, rest = (evaluate or partial(_evaluate, known=known, n_jobs=n_jobs))(features, rows, solution)
    if own is not None:
        rest = own.residual_kernel(rest)
        if factored:
            fitted, h = own.without_factor(leverage, solution.beta, fitted, h, n_jobs)
        else:
            fitted, h = own.without(leverage.inverse, leverage.centre, solution.beta, fitted, h)
    remainder = 1.0 - (h if rows.unit is None else rows.unit * h)
    held_out = HeldOut.of(rows, rows.T - fitted, remainder, (0.0 if C is None else C) * rest)
    held_out = _with_freedom(held_out, remainder)
    if C is None and len(met := _met(rows.T, rows.T - fitted, remainder)):
        return _without_met(held_out, features, rows, solution, met)
    return replace(held_out, one_by_one=True)


def _of_all_landmarks(rows: Rows, solution: Solution) -> HeldOut:
    """The same where all rows are landmarks: the model is the exact one, of rows and without any of them."""
    leverage, beta = solution.leverage, solution.beta
    assert leverage.rows is not None
    h = dual_leverages(leverage, rows.weight)
    remainder = 1.0 - (h if rows.unit is None else rows.unit * h)
    centred = leverage.rows if rows.weight is None else leverage.rows / np.sqrt(rows.weight)[:, None]
    fitted = centred @ beta + (leverage.centre @ beta + solution.intercept)
    return replace(_with_freedom(HeldOut.of(rows, rows.T - fitted, remainder), remainder), one_by_one=True)


def _with_freedom(held_out: HeldOut, remainder: np.ndarray) -> HeldOut:
    count = held_out.weight / (1.0 if held_out.unit is None else held_out.unit)  # of copies that leave one by one
    return replace(held_out, freedom=1.0 - float(np.average(remainder, weights=count)))


def _met(T: np.ndarray, residual: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """Rows that weights pass through whatever their targets are, but for round-off."""
    exactly = np.abs(residual).max(axis=1) <= MET[1] * np.abs(T).max(initial=0.0)
    return np.flatnonzero((remainder <= MET[0]) & exactly)


def _without_met(held_out: HeldOut, features: FeatureMap, rows: Rows, solution: Solution, met: np.ndarray) -> HeldOut:
    """The same, where weights of smallest norm pass through some targets: ``e/(1 − u h)`` is 0/0 there."""
    some = rows.take(met)
    P, variance = held_out.P.copy(), np.array(held_out.variance)
    for piece in engine.pieces(len(met), engine.block_rows(features.n_features_out, np.float64)):
        Phi = engine.transform_rows(features, some.X[piece])
        errors, variance[met[piece]] = without_own_row(solution.leverage, Phi, solution.beta, some.weights[piece])
        P[met[piece]] = some.T[piece] - errors
    return replace(held_out, P=P, variance=variance)


def _evaluate(
    features: FeatureMap, rows: Rows, solution: Solution, known: OwnLandmarks | None, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fitted values, leverages and residual kernel; the last two are 0 where they are ``known`` otherwise.

    Features are white: weights on kernel values may cost more digits than a residual has beside a leverage of 1.
    """
    index = np.empty(0, np.intp) if known is None else known.index
    others, terms = np.delete(np.arange(len(rows)), index), np.zeros((2, len(rows)))
    fitted = np.empty(rows.T.shape)
    some = rows if known is None else rows.take(others)
    fitted[others], terms[0, others], terms[1, others] = _terms(
        features, some.X, solution.leverage, solution.beta, n_jobs
    )
    if known is not None:
        fitted[index] = known.Phi @ solution.beta
    return fitted + solution.intercept, terms[0], terms[1]


@dataclass(frozen=True)
class FoldModels:
    """The models of a cross-validation: in which fold each row is tested, sums of all rows and of each fold, C."""

    numbers: np.ndarray
    summary: Summary
    C: float
    fit_intercept: bool

    def without(self, k: int) -> Solution:
        """The model that did not see fold ``k``."""
        rest = self.summary.total - self.summary.folds[k]
        return RidgePath(rest, fit_intercept=self.fit_intercept).solution(self.C)


def fold_sample(features: Any, rows: Rows, folds: FoldModels, rng: np.random.RandomState) -> HeldOut:
    """Predictions of a sample of the rows by models that saw nothing of their fold, nor landmarks from it."""
    leaves = landmark_folds(features, rows, folds.numbers)
    tested = np.flatnonzero(folds.numbers >= 0)
    index, rows = calibration_sample(rows.take(tested), rng)
    number = folds.numbers[tested[index]]
    P, h, explained = np.empty(rows.T.shape), np.empty(len(rows)), np.empty(len(rows))
    weights = list[tuple[np.ndarray, np.ndarray]]()
    for k in np.unique(number):
        model = folds.without(k)
        beta, changes, leverage = model.beta, None, model.leverage
        if len(leave := np.flatnonzero(leaves == k)):
            without = WithoutLandmarks.of(features, leave)
            beta, changes = without.without(leverage.inverse, leverage.centre, beta)
        # an intercept is the mean target less that of the features
        intercept = model.intercept + leverage.centre @ (model.beta - beta)
        weights.append((beta, np.broadcast_to(intercept, (rows.T.shape[1],))))
        of_fold = np.flatnonzero(number == k)
        for piece in engine.pieces(len(of_fold), engine.block_rows(features.n_features_out, np.float64)):
            index = of_fold[piece]
            Phi = engine.transform_rows(features, rows.X[index])
            P[index], h[index] = Phi @ beta + intercept, leverage(Phi)
            explained[index] = np.einsum("ij,ij->i", Phi, Phi)
            if changes is not None:
                less, by_these = changes(Phi)
                h[index], explained[index] = np.maximum(h[index] - less, 0.0), explained[index] - by_these
    rows = replace(rows, fold=number)
    held_out = HeldOut.by_others(rows, P, h + folds.C * residual_kernel(features, rows.X, explained))
    beta, intercept = (np.stack([each[k] for each in weights]) for k in range(2))
    kept = FoldWeights(np.unique(number), beta, intercept)
    return replace(held_out, folds=kept)


#: From inputs to predictions and their variances, of a model that was fitted to rows.
Refit = Callable[[Rows], Callable[[Any], tuple[np.ndarray, np.ndarray]]]


def refitted(rows: Rows, part: np.ndarray, fit: Refit, one_by_one: HeldOut | None = None) -> HeldOut:
    """Predictions of every part of the rows by a model that was chosen and fitted without it.

    What leave-one-out cannot tell is here: what a choice among many models gains on the very rows by which it was made.
    Models of other parts may be stiffer or softer than that of all rows, and better: their deviations
    ``√(1 + h₋ + C r)`` are put in units in which the middle one is that of this model, by its rows left out
    ``one_by_one``, and of both errors of a row the worse one counts.
    """
    order, answers = np.argsort(part, kind="stable"), []
    for k in np.unique(part):
        tested = rows.take(np.flatnonzero(part == k))
        P, variance = fit(rows.take(np.flatnonzero(part != k)))(tested.X)
        if one_by_one is not None:
            middle = _middle(one_by_one.variance, one_by_one.weight) / _middle(variance, tested.weight)
            variance = (1.0 + variance.reshape(len(variance), -1)) * middle - 1.0
        answers.append((P, variance))
    P, variance = (np.concatenate(answer)[np.argsort(order)] for answer in zip(*answers, strict=True))
    found = HeldOut.by_others(rows, P.reshape(rows.T.shape), variance)
    return found if one_by_one is None else _worse(found, one_by_one, np.unique(part, return_inverse=True)[1])


def _worse(a: HeldOut, b: HeldOut, part: np.ndarray) -> HeldOut:
    """Of two predictions of the same rows those with the larger errors, as ``b`` otherwise; parts left together."""
    worse = np.abs(a.studentised) > np.abs(b.studentised)
    variances = (np.broadcast_to(each.variance.reshape(len(a.T), -1), a.T.shape) for each in (a, b))
    P, variance = np.where(worse, a.P, b.P), np.where(worse, *variances)
    mass = np.bincount(part, a.weight)
    moved = [(np.bincount(part, a.weight * m) / np.where(mass > 0, mass, 1.0))[part] for m in (a.P - b.P).T]
    away = np.where(worse, np.column_stack(moved), 0.0)
    return replace(b, P=P, variance=variance, one_by_one=False, alone=b.by_itself, moved=away)


def _middle(variance: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.array([weighted_median(1.0 + v, weight) for v in variance.reshape(len(variance), -1).T])


def parts_of_few(rows: Rows, few: float, parts: int, *, by_label: bool = False) -> np.ndarray | None:
    """So many parts of the rows, each with targets of all sizes (``by_label``: of all classes), copies in one.

    None where rows are not few, or hardly any. Neither units nor orders matter, of labels neither.
    """
    if rows.effective_count >= few:
        return None
    X = dense(np.asarray(rows.X) if hasattr(rows.X, "rows_of_small_keys") else rows.X, np.float64)
    ranks = column_ranks(X)
    both = np.column_stack([keys_in_any_order(ranks), row_keys(ranks, 0)])
    distinct, place = np.unique(both, axis=0, return_inverse=True)
    keys, place = distinct[:, 0], place.ravel()
    if len(keys) < 2 * parts:
        return None
    part = np.empty(len(keys), dtype=int)
    if by_label:
        kind = _kinds(rows.T, place, len(keys))
        for each in np.unique(kind):
            own = np.flatnonzero(kind == each)
            part[own] = (np.arange(len(own)) + int(keys[own[0]] % np.uint64(parts))) % parts
    else:
        least = np.full(len(keys), np.inf)
        np.minimum.at(least, place, rows.T[:, 0])
        part[np.argsort(least, kind="stable")] = np.arange(len(keys)) % parts
    return np.asarray(part[place])


def _kinds(T: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """The class of the rows at every place; one of its own for places where there are several."""
    label = np.unique(T, axis=0, return_inverse=True)[1].ravel()
    low, high = np.full(count, np.iinfo(int).max), np.full(count, -1)
    np.minimum.at(low, place, label)
    np.maximum.at(high, place, label)
    return np.where(low == high, high, -1)


def landmark_folds(features: Any, rows: Rows, numbers: np.ndarray) -> np.ndarray:
    """The fold with which every landmark leaves; −1 for those that stay, being rows of no fold or of several."""
    if not can_leave(features):
        return np.full(features.n_features_out, -1)
    index, place = landmarks_among(features.landmarks_, rows)
    low, high = np.full(features.n_features_out, np.iinfo(int).max), np.full(features.n_features_out, -1)
    np.minimum.at(low, place, numbers[index])
    np.maximum.at(high, place, numbers[index])
    return np.where(low == high, high, -1)


def variance_terms(
    features: Any, X: Any, leverage: Callable[[np.ndarray], np.ndarray], n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Leverage h and residual kernel ``r(x, x)`` of every row of ``X``, in blocks; r is 0 where features are all."""
    return _terms(features, X, leverage, np.empty((features.n_features_out, 0)), n_jobs)[1:]


def _terms(
    features: Any, X: Any, leverage: Callable[[np.ndarray], np.ndarray], beta: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, and ``φβ`` before them."""
    h, explained, scores = np.empty(X.shape[0]), np.empty(X.shape[0]), np.empty((X.shape[0], beta.shape[1]))

    def work(piece: slice) -> None:
        Phi = engine.transform_rows(features, X[piece])
        h[piece], explained[piece], scores[piece] = leverage(Phi), np.einsum("ij,ij->i", Phi, Phi), Phi @ beta

    pieces = engine.shares(X.shape[0], engine.block_rows(features.n_features_out, np.float64))
    engine.on_threads(work, pieces, n_jobs)
    return scores, h, residual_kernel(features, X, explained)


def residual_kernel(features: Any, X: Any, explained: np.ndarray) -> np.ndarray:
    """``κ(x, x)`` less what is explained of it, the squared norm of the features."""
    if not isinstance(features, NystromMap):
        return np.zeros(len(explained))
    X = np.asarray(X) if hasattr(X, "rows_of_small_keys") else X
    return np.maximum(features.cross_kernel_.diagonal(X) - explained, 0.0)
