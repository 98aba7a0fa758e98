"""Regressors by quantile loss: the family chooses its features by squares, then Newton's method fits every level."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ulmus import engine
from ulmus.calibration import parts_of_few
from ulmus.calibration.curves import Curves
from ulmus.devices.tensors import HostView
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.sampling import distinct_sample
from ulmus.losses import check_levels
from ulmus.models.choice import Choice, Training
from ulmus.models.few_rows import FEW_ROWS, PARTS
from ulmus.models.fitted import Outcome
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.quantile import QuantileSolution, continued
from ulmus.solvers.robust import deviations, newton_rows, tikhonov
from ulmus.tuning.quantile import chosen_quantiles

#: Rows on which C is chosen, at most.
CHOSEN_ROWS = 4_000


@dataclass(frozen=True)
class _Fit:
    """The model by squares, the rows that were fitted, and quantiles on its features."""

    squared: Outcome
    rows: Any
    found: QuantileSolution

    def curves(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """``[row, output, level]`` at rows."""
        out = engine.apply(self.squared.weights.features, X, self.found.beta, n_jobs=n_jobs) + self.found.intercept
        return np.asarray(out.reshape(len(out), -1, len(self.found.levels)))


def fit_with_quantiles(model: Any, training: Training) -> Outcome:
    """The model of the middle level, and the curves of all levels with those of rows left out."""
    if model.C is None:
        raise ValueError('loss="quantile" needs a penalty: C must be positive or "auto", got None')
    if getattr(model, "solver", "auto") == "iterative":
        raise ValueError('loss="quantile" needs solver="direct" or "auto", got "iterative"')
    if isinstance(training.rows.X, HostView):  # the steps of Newton's method are taken on the CPU
        training = replace(training, rows=replace(training.rows, X=np.asarray(training.rows.X)))
    fit = _fitted(model, training)
    weights, found, held_out = fit.squared.weights, fit.found, fit.squared.held_out
    left_out = _left_out(model, training, fit)
    curves = Curves(found.levels, found.beta, found.intercept, left_out, found.C)
    middle = found.solutions[curves.middle]
    plan = Choice(weights.width, float(found.C[curves.middle]), weights.features, tuning=weights.tuning)
    scale = training.rows.target_reach
    plain = model._family.of_beta(plan, middle.beta, middle.intercept, scale, "newton", weights.leverage)
    held_out = replace(held_out, P=left_out[:, :, curves.middle], one_by_one=False, curves=curves)
    return Outcome(plain, held_out)


def _fitted(model: Any, training: Training) -> _Fit:
    """Features by squares; C on a sample of the rows where they are many; then all rows."""
    rows, levels = training.rows, check_levels(model.quantiles)
    squared: Outcome = model._family.plain_fit(model, training)
    features, held = squared.weights.features, squared.held_out
    unit = deviations(held.T - held.P, held.weight, held.T)
    problem, streamed = model._family.problems(model, features, rows)
    every, some = newton_rows(problem, streamed), rows
    if rows.effective_count > CHOSEN_ROWS:
        some = distinct_sample(rows, CHOSEN_ROWS, training.rng)[1]
    few = every if some is rows and isinstance(every, HeldRows) else HeldRows.of(replace(problem, rows=some))
    C = squared.weights.C
    start = tikhonov(few, np.full(rows.T.shape[1], C), NewtonOptions(tol=1e-4))
    own = OwnLandmarks.of(features, some)
    found = chosen_quantiles(few, levels, C, start, unit, own, choose=model.C == "auto")
    return _Fit(squared, every, continued(every, found))


def _left_out(model: Any, training: Training, fit: _Fit) -> np.ndarray:
    """Curves at the rows that were left out by squares: by a step, without their fold, or by whole fits."""
    rows, folds, held, family = training.rows, training.folds, fit.squared.held_out, model._family
    features = fit.squared.weights.features
    if folds is not None:
        return _without_folds(model, folds, fit)
    part = parts_of_few(rows, FEW_ROWS, PARTS) if family.adapts(model, fit.squared) or model.C == "auto" else None
    if part is not None and len(held.T) == len(rows):
        return _by_whole_fits(model, training, part)
    sample = Rows(held.X, held.T, held.weight, held.unit)
    Phi = engine.transform(features, sample.X, n_jobs=model.n_jobs)
    return fit.found.left_out(Phi, sample.T, sample.unit, OwnLandmarks.of(features, sample))


def _without_folds(model: Any, folds: np.ndarray, fit: _Fit) -> np.ndarray:
    """Curves of the same C and features that were fitted without the fold of the row."""
    held = fit.squared.held_out
    out = np.empty((*held.T.shape, len(fit.found.levels)))
    assert held.fold is not None
    for k in np.unique(held.fold):
        without = replace(fit, found=continued(fit.rows.without(folds == k), fit.found))
        mine = np.flatnonzero(held.fold == k)
        out[mine] = without.curves(held.X[mine], model.n_jobs)
    return out


def _by_whole_fits(model: Any, training: Training, part: np.ndarray) -> np.ndarray:
    """Few rows and much to choose: curves of models that were chosen and fitted without a part of the rows."""
    rows, out = training.rows, None
    seed, quiet = int(training.rng.randint(2**31 - 1)), clone(model).set_params(verbose=0)
    for k in np.unique(part):
        some, mine = rows.take(np.flatnonzero(part != k)), np.flatnonzero(part == k)
        chance = np.random.RandomState(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            again = quiet._training(training.targets, some, None, chance, None, training.metric)
            at = _fitted(quiet, again).curves(rows.X[mine], model.n_jobs)
        out = np.empty((len(rows), *at.shape[1:])) if out is None else out
        out[mine] = at
    assert out is not None
    return out
