"""Quantiles of the errors of rows left out: what a model in stages has in place of a quantile loss of its own."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration.curves import Curves
from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.scale import MANY, PARTS, Scale
from ulmus.engine import Rows
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.quantile import QuantileSolution, continued
from ulmus.solvers.robust import deviations, tikhonov
from ulmus.tuning.quantile import chosen_quantiles

#: The penalty from which the search starts: as much of the errors' sizes may be explained as is noise.
FIRST_C = 1.0


def error_curves(features: Any, X: np.ndarray, held_out: HeldOut, levels: np.ndarray) -> HeldOut:
    """The rows left out, with curves of their errors on the first features, which see them as X.

    The predictions are then those of the middle level. As for sizes of errors (:mod:`ulmus.calibration.scale`) there
    is one feature for eight rows, a hundred at most, and few rows, or folds, leave by fits without their part.
    """
    size = min(Scale.size_for(X, held_out.fold), features.n_features_out)
    first = features.prefix(size)
    Psi, own = engine.transform_rows(first, X), OwnLandmarks.of(first, Rows(X, held_out.T))
    E, w = held_out.T - held_out.P, held_out.weight
    rows = HeldRows(Psi, Rows(X, E, w, held_out.unit), fit_intercept=True, n_jobs=1)
    unit = deviations(E, w, held_out.T)
    start = tikhonov(rows, np.full(E.shape[1], FIRST_C), NewtonOptions(tol=1e-4))
    rough = chosen_quantiles(rows, levels, FIRST_C, start, unit, own)
    found = continued(rows, rough)
    part = None
    if held_out.fold is not None:
        part = np.unique(held_out.fold, return_inverse=True)[1] % PARTS
    elif len(E) < MANY:  # every part has errors of all sizes
        part = np.argsort(np.argsort(np.abs(E[:, 0]), kind="stable")) % PARTS
    left = found.left_out(Psi, E, held_out.unit, own) if part is None else _without_parts(rows, found, part)
    left = held_out.P[:, :, None] + left
    curves = Curves(levels, found.beta, found.intercept, left, found.C, relative=True)
    return replace(held_out, P=left[:, :, curves.middle], curves=curves)


def _without_parts(rows: HeldRows, found: QuantileSolution, part: np.ndarray) -> np.ndarray:
    """Curves of rows by fits to the other parts."""
    out = np.empty((*rows.rows.T.shape, len(found.levels)))
    for k in np.unique(part):
        without = continued(rows.without(part == k), found)
        mine = rows.Phi[part == k]
        out[part == k] = (mine @ without.beta + without.intercept).reshape(len(mine), -1, len(found.levels))
    return out
