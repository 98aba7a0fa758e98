"""Judging every C of a feature map on rows the model did not see: leave-one-out, or k folds from statistics."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Lift, Rows
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics, Summary

#: How far, in powers of two, a grid of C may be widened when its best value sits at an end.
C_LIMITS = (-30.0, 35.0)
_WIDEN = 5
#: Relative differences in loss below this are none.
FLAT = 1e-3

StatisticsOf = Callable[[Any, Rows], Statistics]


@dataclass(frozen=True)
class Trial:
    """The losses of every C for one width and one size of the features."""

    stage: str
    width: float
    size: int
    n_rows: int
    C: np.ndarray
    loss: np.ndarray
    row_losses: np.ndarray = field(repr=False)
    seconds: float = 0.0

    @property
    def best(self) -> int:
        """The smallest C whose loss is practically the lowest: beyond it, only digits are lost."""
        return int(np.flatnonzero(self.loss <= (1 + FLAT) * self.loss.min())[0])

    @property
    def best_C(self) -> float:
        return float(self.C[self.best])

    @property
    def best_loss(self) -> float:
        return float(self.loss[self.best])


def fold_numbers(cv: Any, X: Any, y: np.ndarray, groups: Any, classifier: bool) -> np.ndarray | None:
    """The number of the fold in which each row is tested; None asks for leave-one-out.

    Groups are kept together: with ``groups`` and no splitter, ``GroupKFold`` is used.
    """
    if cv is None and groups is None:
        return None
    if groups is not None and (cv is None or isinstance(cv, int)):
        cv = GroupKFold(5 if cv is None else cv)
    number = np.full(X.shape[0], -1)
    for k, (train, test) in enumerate(check_cv(cv, y, classifier=classifier).split(X, y, groups)):
        if (number[test] >= 0).any():
            raise ValueError("cv must test every row at most once; a repeated split was given")
        if len(train) + len(test) != len(number):
            raise ValueError(
                f"cv must train on every row that it does not test; split {k} trains on {len(train)} and tests on "
                f"{len(test)} of {len(number)} rows"
            )
        number[test] = k
    return number


def summarise(
    statistics: Callable[[Rows], Statistics], rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None
) -> Summary:
    """Statistics of the rows and of each fold; rows of fold −1 are in the total only."""
    if folds is None:
        return Summary(statistics(rows))
    n_folds = int(folds.max()) + 1 if n_folds is None else n_folds
    parts = tuple(statistics(rows.take(np.flatnonzero(folds == k))) for k in range(n_folds))
    never_tested = np.flatnonzero(folds < 0)
    total = sum(parts[1:], parts[0])
    if len(never_tested):
        total = total + statistics(rows.take(never_tested))
    return Summary(total, parts)


@dataclass(frozen=True)
class Judge:
    """Rows, how they are divided, which of them are scored (with which weights), and what counts as loss."""

    rows: Rows
    coding: Coding
    statistics_of: StatisticsOf
    fit_intercept: bool
    criterion: str = "auto"
    folds: np.ndarray | None = None
    scored: np.ndarray | None = None
    mass: np.ndarray | None = None
    n_jobs: int | None = -1

    def summarise(self, features: Lift) -> Summary:
        """Statistics of the rows, and of each fold."""
        return summarise(partial(self.statistics_of, features), self.rows, self.folds)

    def trial(
        self, stage: str, width: float, features: Lift, summary: Summary, log2_C: np.ndarray, size: int | None = None
    ) -> Trial:
        """Losses of the model that uses the first ``size`` features, for every C of the grid and beyond its ends."""
        began = time.perf_counter()
        size = features.n_lifted if size is None else size
        paths = self._paths(summary, size)
        grid, losses = log2_C, self._row_losses(paths, features, size, log2_C)
        weight = self.scored_weight
        while True:
            loss = np.average(losses, axis=1, weights=weight)
            best = int(np.flatnonzero(loss <= (1 + FLAT) * loss.min())[0])
            more = np.empty(0)
            if len(grid) > 1 and best == len(grid) - 1 and grid[-1] < C_LIMITS[1]:
                more = grid[-1] + np.arange(1.0, _WIDEN + 1)
            elif len(grid) > 1 and best == 0 and grid[0] > C_LIMITS[0] and loss[0] < loss[-1]:
                more = grid[0] - np.arange(1.0, _WIDEN + 1)
            if not len(more):
                break
            grid = np.append(grid, more)
            losses = np.concatenate([losses, self._row_losses(paths, features, size, more)])
            order = np.argsort(grid)
            grid, losses = grid[order], losses[order]
        seconds = time.perf_counter() - began
        return Trial(stage, width, size, len(self.rows), 2.0**grid, loss, losses[best], seconds)

    @property
    def scored_rows(self) -> np.ndarray:
        if self.scored is not None:
            return self.scored
        return np.arange(len(self.rows)) if self.folds is None else np.flatnonzero(self.folds >= 0)

    @property
    def scored_weight(self) -> np.ndarray:
        if self.mass is not None:
            return self.mass
        weight = self.rows.weight
        return np.ones(len(self.scored_rows)) if weight is None else weight[self.scored_rows]

    def gains(self, old: Trial, new: Trial, errors: float = 1.0, share: float = np.inf) -> bool:
        """Whether the new model's loss is lower by more than so many standard errors of the paired differences.

        A fall by more than ``share`` of the loss counts in any case: errors with heavy tails have a large deviation.
        """
        weight = self.scored_weight
        difference = old.row_losses - new.row_losses
        gain = np.average(difference, weights=weight)
        deviation = np.sqrt(np.average((difference - gain) ** 2, weights=weight))
        noise = errors * deviation / np.sqrt(weight.sum())
        return bool(gain > min(noise, share * np.average(old.row_losses, weights=weight)))

    def _paths(self, summary: Summary, size: int) -> list[RidgePath]:
        trained = [summary.total - part for part in summary.folds] or [summary.total]
        return [RidgePath(stats.prefix(size), fit_intercept=self.fit_intercept) for stats in trained]

    def _row_losses(self, paths: list[RidgePath], features: Lift, size: int, log2_C: np.ndarray) -> np.ndarray:
        """Losses ``[C, scored row]``."""
        C = 2.0**log2_C
        predict = self._held_out(paths, C)
        index = self.scored_rows
        out = np.empty((len(C), len(index)))
        workspace = engine.Workspace()
        width = max(features.n_lifted, len(C) * self.rows.T.shape[1])

        def work(piece: slice) -> None:
            rows = self.rows.take(index[piece])
            Phi = workspace.array("features", (len(rows), features.n_lifted), np.float64)
            features.lift(rows.X, Phi)
            P = predict(np.ascontiguousarray(Phi[:, :size]), rows, index[piece])
            out[:, piece] = self.coding.losses(rows.T, P, self.criterion)

        block = max(64, engine.BLOCK_BYTES // (16 * width))
        for _ in engine.ordered_map(work, list(engine.pieces(len(index), block)), self.n_jobs):
            pass
        return out

    def _held_out(self, paths: list[RidgePath], C: np.ndarray) -> Callable[[np.ndarray, Rows, np.ndarray], np.ndarray]:
        """Predictions ``[C, row, output]`` of rows by models that did not see them."""
        if self.folds is None:
            leave_one_out = paths[0].leave_one_out(C)
            return lambda Phi, rows, _: leave_one_out(Phi, rows.T, rows.unit)[0]
        weights = [path.weights(C) for path in paths]
        folds = self.folds

        def predict(Phi: np.ndarray, rows: Rows, index: np.ndarray) -> np.ndarray:
            P = np.empty((len(C), *rows.T.shape))
            for k in np.unique(folds[index]):
                beta, intercept = weights[k]
                tested = folds[index] == k
                P[:, tested] = np.tensordot(Phi[tested], beta, axes=1).transpose(1, 0, 2) + intercept[:, None]
            return P

        return predict
