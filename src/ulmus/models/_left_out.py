"""Rows and adaptive models that did not see them: predictions without each row, in closed form, and their variances."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import CALIBRATION_ROWS, LEAST_REMAINDER, HeldOut, variance_terms
from ulmus.calibration.far import log_variance
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_pairs, distinct_sample
from ulmus.models._stages import Stages, beside
from ulmus.models.fitted import Fitted
from ulmus.solvers.boosted import PartTrees
from ulmus.solvers.leaving import GlobalWithout, LeavesWithout, unit_of
from ulmus.solvers.own_landmarks import landmarks_among
from ulmus.solvers.ridge import Leverage

#: Rows that are no landmarks from which it is known how well rows are explained.
ENOUGH = 100
#: Rows up to which every one that calibrates is left out alone: of more, the leaves would have to be factored again.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class LeftOutLater:
    """What it takes to leave rows out, kept until somebody asks: it costs as much as the leaves did.

    ``stages`` are those of the kernels alone. Trees beside them, by their share, leave out whole parts of the rows:
    ``unseen`` are the answers of those that did not see a row, and which these are.
    """

    stages: Stages
    rows: Rows
    table: np.ndarray
    units: tuple[np.ndarray, np.ndarray]
    as_new: Callable[[np.ndarray], np.ndarray] | None
    seed: int
    unseen: tuple[np.ndarray, np.ndarray] | None = None
    share: float = 0.0

    def __call__(self, n_jobs: int | None) -> HeldOut:
        """Rows of the table, or a sample of them, by both stages without each, and by trees without their part."""
        held_out = left_out_alone(self.stages, self.rows, self.as_new, np.random.RandomState(self.seed), n_jobs)
        seen, place = None if self.as_new is None else held_out.X, held_out.place
        if self.unseen is None:
            return replace(given_back(held_out, self.units, self.table), one_by_one=True, seen=seen)
        answers, without = self.unseen
        held_out = given_back(beside(held_out, answers[place], self.share), self.units, self.table)
        return replace(held_out, alone=replace(held_out, one_by_one=True, seen=seen, without=without[place]))

    def completed(self, fitted: Fitted, certainty_of: Callable[..., Any], n_jobs: int | None) -> Fitted:
        """What was fitted, with how sure it is."""
        certainty = certainty_of(fitted.targets, self(n_jobs), self.rows)
        return replace(fitted, weights=replace(fitted.weights, later=None), certainty=certainty)


@dataclass(frozen=True)
class VariancesLater:
    """What it takes to say how far new rows are from those of the training, kept until somebody asks.

    It is a sample of the rows, and the weight of all.
    """

    stages: Stages
    rows: Rows
    total: float

    @classmethod
    def of(cls, stages: Stages, rows: Rows) -> "VariancesLater":
        some = distinct_sample(rows, CALIBRATION_ROWS, np.random.RandomState(0))[1]
        return cls(replace(stages, held_out=None, local=None), some, rows.total_weight)

    def __call__(self, n_jobs: int | None) -> tuple[Leverage, tuple[np.ndarray, np.ndarray]]:
        """Leverages, those of a log loss too, and what :func:`variances` says of the sample."""
        stages, some = self.stages, self.rows
        if stages.leverage is not None:
            return stages.leverage, variances(stages.landmark_map, stages.leverage, stages.C, some, n_jobs)
        leverage, found = log_variance(
            stages.landmark_map, some, stages.C, fit_intercept=True, total=self.total, n_jobs=n_jobs
        )
        return leverage, (found, some.weights)

    def completed(self, fitted: Fitted, certainty_of: Callable[..., Any], n_jobs: int | None) -> Fitted:
        """What was fitted, with its leverages."""
        leverage, known = self(n_jobs)
        return replace(fitted, weights=replace(fitted.weights, leverage=leverage, variances=known, later=None))


def left_out_alone(
    stages: Stages,
    rows: Rows,
    as_new: Callable[[np.ndarray], np.ndarray] | None,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> HeldOut:
    """Rows, or a sample of them, by both stages without each.

    ``as_new`` gives, for numbers of rows, the coordinates that new rows of the same values would have, where those
    of the training know their targets.
    """
    index, some = np.arange(len(rows)), rows
    if len(rows) > CALIBRATION_ROWS:
        index = distinct_pairs(rows, CALIBRATION_ROWS, rng)[0]
        some = rows.take(index)
    features = stages.landmark_map
    Phi = engine.transform(features, rows.X, n_jobs=n_jobs)
    without = GlobalWithout.of(features, Phi, stages.beta, stages.intercept, stages.leverage, rows, index)
    asked = None if as_new is None else as_new(index)
    there = Phi[index] if asked is None else engine.transform(features, asked, n_jobs=n_jobs)
    P = there @ stages.beta + stages.intercept + without.own_changes(there)
    if stages.local is not None:
        R = rows.T - (Phi @ stages.beta + stages.intercept)
        P += LeavesWithout.of(stages.local, rows, Phi, R, index, without, asked).answers(n_jobs)
    return HeldOut.by_others(some, P, np.zeros(len(some)))


def variances(
    features: NystromMap, leverage: Leverage, C: float, rows: Rows, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """``h₋ + C r`` of rows that the global model was fitted to, each without it, and their weights."""
    h, r = variance_terms(features, rows.X, leverage, n_jobs)
    variance, weight = h / np.maximum(1.0 - h, LEAST_REMAINDER) + C * r, rows.weights
    landmarks = landmarks_among(features.landmarks_, rows)[0]
    others = np.setdiff1d(np.arange(len(variance)), landmarks)  # a model knows its landmarks as no new row
    return (variance[others], weight[others]) if len(others) >= ENOUGH else (variance, weight)


@dataclass(frozen=True)
class StagesLeaning:
    """What answers of new rows lose with every row that was left out of both stages, for jackknife+.

    Trees beside them lose what those without the part of the row answer otherwise: that is CV+.
    """

    fit: Any
    without: GlobalWithout
    leaves: LeavesWithout | None
    trees: PartTrees | None
    n_jobs: int | None

    @classmethod
    def of(cls, fit: Any, held_out: HeldOut, n_jobs: int | None) -> "StagesLeaning":
        """Of both stages in the units of the targets, and rows that left them one by one."""
        features, local = fit.features, fit.local
        U = fit.coordinates(held_out.X) if held_out.seen is None else held_out.seen
        trees = None if fit.trees is None else PartTrees(fit.trees, np.asarray(held_out.without))
        # the kernels have fitted their share of the targets
        rows = Rows(U, (1.0 - fit.tree_weight) * held_out.T, held_out.weight, held_out.unit)
        if local is not None:  # with the weight at its place a row tells whether others are left there
            rows = replace(rows, weight=local.mass[landmarks_among(local.U, rows)[1]], unit=unit_of(rows))
        Phi, index = engine.transform(features, U, n_jobs=n_jobs), np.arange(len(U))
        without = GlobalWithout.of(features, Phi, fit.beta, fit.intercept, fit.leverage, rows, index)
        if local is None:
            return cls(fit, without, None, trees, n_jobs)
        there, R = engine.transform(features, local.U, n_jobs=n_jobs), rows.T - (Phi @ fit.beta + fit.intercept)
        return cls(fit, without, LeavesWithout.of_fitted(local, there, rows, R, without), trees, n_jobs)

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        U = self.fit.coordinates(X)
        Phi = engine.transform(self.fit.features, U, n_jobs=self.n_jobs)
        changes = self.without.changes(Phi) if self.leaves is None else self.leaves.changes(U, Phi, self.n_jobs)
        if self.trees is not None:
            changes = changes + self.trees.changes(U)
        return np.zeros(changes.shape[:2]), -changes


def given_back(held_out: HeldOut, units: tuple[np.ndarray, np.ndarray], table: np.ndarray) -> HeldOut:
    """Rows left out, which are some of a table, in the units of the targets.

    Intervals are as wide for one row as for another (``_variance_factors``), so residuals are taken as they are.
    """
    centre, scale = units
    X = None if held_out.place is None else table[held_out.place]
    plain = np.zeros(len(held_out.variance))
    return replace(held_out, X=X, T=held_out.T * scale + centre, P=held_out.P * scale + centre, variance=plain)
