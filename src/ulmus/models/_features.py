"""What the families with an explicit feature map share: predictions of held-out rows, and their variance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut
from ulmus.engine import Lift, Rows
from ulmus.features.sampling import distinct_sample
from ulmus.models._assembly import CALIBRATION_ROWS
from ulmus.solvers.path import RidgePath
from ulmus.solvers.ridge import Leverage, Solution
from ulmus.tuning import Summary


@dataclass(frozen=True)
class FoldModels:
    """The models of a cross-validation: in which fold each row is tested, sums of all rows and of each fold, C."""

    numbers: np.ndarray
    summary: Summary
    C: float
    fit_intercept: bool

    def without(self, k: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Predictions and leverages under the model that did not see fold ``k``."""
        rest = self.summary.total - self.summary.folds[k]
        return RidgePath(rest, fit_intercept=self.fit_intercept).held_out(self.C)


def held_out_sample(
    features: Lift,
    rows: Rows,
    solution: Solution,
    rng: np.random.RandomState,
    n_jobs: int | None,
    folds: FoldModels | None = None,
) -> HeldOut:
    """Predictions of a sample of the rows by models that did not see them: exact leave-one-out, or the folds'."""
    if folds is not None:
        return _fold_sample(features, rows, folds, rng)
    sample = rows
    if rows.effective_count > CALIBRATION_ROWS:
        sample = distinct_sample(rows, CALIBRATION_ROWS, rng)[1]
    fitted = engine.apply(features, sample.X, solution.beta, n_jobs=n_jobs) + solution.intercept
    h = leverages(features, sample.X, solution.leverage, n_jobs)
    return HeldOut.of(sample, sample.T - fitted, 1.0 - (h if sample.unit is None else sample.unit * h))


def _fold_sample(features: Lift, rows: Rows, folds: FoldModels, rng: np.random.RandomState) -> HeldOut:
    tested = np.flatnonzero(folds.numbers >= 0)
    rows, number = rows.take(tested), folds.numbers[tested]
    if rows.effective_count > CALIBRATION_ROWS:
        index, rows = distinct_sample(rows, CALIBRATION_ROWS, rng)
        number = number[index]
    P, h = np.empty(rows.T.shape), np.empty(len(rows))
    for k in np.unique(number):
        predict = folds.without(k)
        of_fold = np.flatnonzero(number == k)
        for piece in engine.pieces(len(of_fold), engine.block_rows(features.n_lifted, np.float64)):
            index = of_fold[piece]
            Phi = np.empty((len(index), features.n_lifted))
            features.lift(rows.X[index], Phi)
            P[index], h[index] = predict(Phi)
    return HeldOut.by_others(rows, P, h)


def leverages(features: Lift, X: Any, leverage: Leverage, n_jobs: int | None) -> np.ndarray:
    """Leverage of every row of ``X``, in blocks."""
    out = np.empty(X.shape[0])

    def work(piece: slice) -> None:
        Phi = np.empty((piece.stop - piece.start, features.n_lifted))
        features.lift(X[piece], Phi)
        out[piece] = leverage(Phi)

    pieces = list(engine.pieces(X.shape[0], engine.block_rows(features.n_lifted, np.float64)))
    for _ in engine.ordered_map(work, pieces, n_jobs):
        pass
    return out
