"""The iterative route of Nyström models: weights without a sum of L × L."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus.calibration import CALIBRATION_ROWS, HeldOut, leave_one_out, leave_one_out_sample, variance_terms
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.landmarks import Draw, choose_landmarks
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_sample
from ulmus.models.choice import Training, prepared, search
from ulmus.models.families import types_kept
from ulmus.models.fitted import NystromFit, Outcome
from ulmus.solvers.conjugate_gradients import warn_unless_converged
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.own_landmarks import landmarks_among
from ulmus.solvers.ridge import NormalEquations, Solution, leave_out

#: Landmarks of the small map from which variances are taken, and rows of its sums, at most.
COMPANION, COMPANION_ROWS = 1_000, 50_000
#: Approximate leverages, at most.
MOST_LEVERAGE = 0.9
#: Rows that are no landmarks from which errors are known well enough.
ENOUGH = 100


def fit_iteratively(model: Any, training: Training) -> Outcome:
    """Weights by conjugate gradients on landmarks too many to square; the map kept is that of the first of them."""
    recipe, rows, backend = model._family.recipe(model, training.metric), training.rows, training.backend
    size = recipe.size(rows, model.C)
    make_map, width = prepared(recipe, training)
    plan = search(recipe, model._ridge_search, training, make_map, width, min(size, model.max_landmarks))
    features = make_map(plan.width, size)
    cross = _kernel_to_landmarks(features, training, model.n_jobs)
    system = backend.normal(cross, rows, plan.C, model._intercept)
    found, intercept = system.solve(model.tol, model.max_iter, model.verbose)
    warn_unless_converged(found, model.tol)
    given = (plan.C, model._intercept, training.rng, model.n_jobs)
    companion, solution = _companion(backend.release(features), cross, rows, *given)

    def fitted_values(sample: Rows) -> np.ndarray:
        return engine.apply(cross, sample.X, found.a, n_jobs=model.n_jobs) + intercept

    def evaluate(features: NystromMap, sample: Rows, solution: Solution) -> Any:
        return fitted_values(sample), *variance_terms(features, sample.X, solution.leverage, model.n_jobs)

    if (
        cross.n_features_out <= COMPANION and len(rows) <= COMPANION_ROWS
    ):  # then the companion is this model, but for digits
        held_out = leave_one_out_sample(
            companion, rows, solution, training.rng, plan.C, evaluate=evaluate, n_jobs=model.n_jobs
        )
    else:
        sample = _new_to(cross, rows, training.rng)
        h = np.minimum(system.leverages(dense(sample.X, np.float64)), MOST_LEVERAGE)
        remainder = 1.0 - (h if sample.unit is None else sample.unit * h)
        P = leave_out(sample.T, sample.T - fitted_values(sample), remainder)
        # as wide as intervals of new rows, whose variance is that of the companion
        variance = leave_one_out(companion, sample, solution, plan.C, n_jobs=model.n_jobs).variance
        held_out = HeldOut.by_others(sample, P, variance)
    weights = NystromFit(
        features=companion,
        beta=None,
        intercept=intercept,
        C=plan.C,
        width=companion.gamma_,
        size=cross.n_features_out,
        route=f"iterative {backend.name}",
        leverage=solution.leverage,
        cross=cross,
        landmark_weights=found.a,
        folds_in=types_kept(cross, found.a, rows.target_reach) or (np.float64,),  # there are no whitened weights
        tuning=plan.tuning,
        n_iter=found.n_iter,
        residual=found.residual,
    )
    return Outcome(weights, held_out)


def _kernel_to_landmarks(features: NystromMap, training: Training, n_jobs: int | None) -> CrossKernel:
    """The kernel to the landmarks that ``features``, an unfitted map, would choose."""
    rows, parameters = training.rows, KernelParameters(float(features.gamma), features.degree, features.coef0)
    rng = check_random_state(features.random_state)
    draw = Draw(rows.X, features.n_landmarks, rng, rows.weight, training.labels, features.kernel, parameters, n_jobs)
    return CrossKernel(features.kernel, choose_landmarks(features.landmarks, draw), parameters)


def _new_to(cross: CrossKernel, rows: Rows, rng: np.random.RandomState) -> Rows:
    """A sample of the rows without landmarks, which a model knows as no new row, where enough others are left."""
    sample = distinct_sample(rows, 2 * CALIBRATION_ROWS, rng)[1] if rows.effective_count > CALIBRATION_ROWS else rows
    others = np.setdiff1d(np.arange(len(sample)), landmarks_among(cross.Z, sample)[0])
    sample = sample if len(others) < ENOUGH else sample.take(others)
    return sample.take(slice(0, CALIBRATION_ROWS))


def _companion(
    companion: NystromMap,
    cross: CrossKernel,
    rows: Rows,
    C: float,
    fit_intercept: bool,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[NystromMap, Solution]:
    """The map of the first landmarks and the model on it: small enough to keep, and on the safe side."""
    companion.fit_landmarks(cross.Z[:COMPANION], cross.parameters)
    sample = distinct_sample(rows, COMPANION_ROWS, rng)[1] if len(rows) > COMPANION_ROWS else rows
    stats = nystrom_statistics(companion, sample, n_jobs=n_jobs).scaled(rows.total_weight / sample.total_weight)
    return companion, NormalEquations(stats, C, fit_intercept).solution()
