"""What the families with an explicit feature map share: leave-one-out on a sample, and the variance of predictions."""

from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut
from ulmus.devices import direct
from ulmus.devices.direct import Driver
from ulmus.engine import Lift, Rows
from ulmus.features.sampling import distinct_sample
from ulmus.models._assembly import CALIBRATION_ROWS
from ulmus.solvers.ridge import Leverage, Solution


def leave_one_out_sample(
    features: Lift,
    rows: Rows,
    solution: Solution,
    rng: np.random.RandomState,
    n_jobs: int | None,
    driver: Driver | None = None,
) -> HeldOut:
    """Exact leave-one-out predictions of a sample of the rows."""
    if driver is not None:
        return direct.leave_one_out_sample(driver, features, rows, solution, rng, CALIBRATION_ROWS)
    sample = rows
    if rows.effective_count > CALIBRATION_ROWS:
        sample = distinct_sample(rows, CALIBRATION_ROWS, rng)[1]
    fitted = engine.apply(features, sample.X, solution.beta, n_jobs=n_jobs) + solution.intercept
    h = leverages(features, sample.X, solution.leverage, n_jobs)
    return HeldOut.of(sample, sample.T - fitted, 1.0 - (h if sample.unit is None else sample.unit * h))


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
