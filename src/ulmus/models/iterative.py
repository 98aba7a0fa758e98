"""The iterative route of Nyström models: weights without a sum of L × L."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus.calibration import CALIBRATION_ROWS, HeldOut, leave_one_out, leave_one_out_sample, variance_terms
from ulmus.devices.routes import choose_route
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters, dense
from ulmus.features.landmarks import Draw, choose_landmarks
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_sample
from ulmus.models.choice import Training, prepared, search
from ulmus.models.families import NystromFamily
from ulmus.models.fitted import NystromFit, Outcome, types_kept
from ulmus.solvers.conjugate_gradients import Iterated, warn_unless_converged
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.own_landmarks import landmarks_among
from ulmus.solvers.ridge import Leverage, Solution, leave_out, solve_statistics

#: Landmarks of the small map from which variances are taken, and rows of its sums, at most.
COMPANION, COMPANION_ROWS = 1_000, 50_000
#: Approximate leverages, at most.
MOST_LEVERAGE = 0.9
#: Rows that are no landmarks from which errors are known well enough.
ENOUGH = 100


def route_of(model: Any, training: Training) -> str:
    """``"direct"`` or ``"iterative"``: what was asked for, or what the table says (:mod:`ulmus.devices.routes`)."""
    rows, backend = training.rows, training.backend
    size = model._family.recipe(model, training.metric).size(rows, model.C)
    named = isinstance(model.kernel, str)
    definite = not named or KERNELS[model.kernel].positive_definite
    possible = size != "auto" and model.rank is None and definite and size <= len(rows)
    if model.solver == "iterative" and not possible:
        raise ValueError(
            'solver="iterative" needs a number of landmarks (no more than rows), a positive definite kernel and no rank'
            f"; got n_landmarks={model.n_landmarks!r}, {len(rows)} rows, kernel={model.kernel!r}, rank={model.rank!r}"
        )
    if model.solver != "auto" or not possible:
        return "direct" if model.solver == "auto" else str(model.solver)
    place = "cuda" if backend.is_gpu else "cpu"
    return choose_route(
        len(rows), size, rows.T.shape[1], place, backend.free_bytes(), path=isinstance(model.C, str)
    ).route


@dataclass(frozen=True)
class IterativeFit:
    """All that an iterative fit gives a model."""

    cross: CrossKernel
    found: Iterated
    intercept: np.ndarray
    route: str
    companion: NystromMap
    leverage: Leverage
    held_out: HeldOut


def fit_iteratively(model: Any, training: Training, features: NystromMap, C: float) -> IterativeFit:
    """Weights on the landmarks that ``features``, an unfitted map, would choose, by conjugate gradients."""
    rows, rng, backend = training.rows, training.rng, training.backend
    parameters = KernelParameters(float(features.gamma), features.degree, features.coef0)
    draw = Draw(
        rows.X,
        features.n_landmarks,
        check_random_state(features.random_state),
        rows.weight,
        training.labels,
        features.kernel,
        parameters,
        model.n_jobs,
    )
    cross = CrossKernel(features.kernel, choose_landmarks(features.landmarks, draw), parameters)
    system = backend.normal(cross, rows, C, model._intercept)
    found, intercept = system.solve(model.tol, model.max_iter, model.verbose)
    warn_unless_converged(found, model.tol)
    companion, solution = _companion(backend.release(features), cross, rows, C, model._intercept, rng, model.n_jobs)

    def fitted_values(sample: Rows) -> np.ndarray:
        return engine.apply(cross, sample.X, found.a, n_jobs=model.n_jobs) + intercept

    if (
        cross.n_features_out <= COMPANION and len(rows) <= COMPANION_ROWS
    ):  # then the companion is this model, but for digits

        def evaluate(features: NystromMap, sample: Rows, solution: Solution) -> Any:
            return fitted_values(sample), *variance_terms(features, sample.X, solution.leverage, model.n_jobs)

        held_out = leave_one_out_sample(companion, rows, solution, rng, C, evaluate=evaluate, n_jobs=model.n_jobs)
    else:
        sample = _new_to(cross, rows, rng)
        fitted = fitted_values(sample)
        h = np.minimum(system.leverages(dense(sample.X, np.float64)), MOST_LEVERAGE)
        remainder = 1.0 - (h if sample.unit is None else sample.unit * h)
        P = leave_out(sample.T, sample.T - fitted, remainder)
        # as wide as intervals of new rows, whose variance is that of the companion
        variance = leave_one_out(companion, sample, solution, C, n_jobs=model.n_jobs).variance
        held_out = HeldOut.by_others(sample, P, variance)
    return IterativeFit(cross, found, intercept, f"iterative {backend.name}", companion, solution.leverage, held_out)


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
    companion.n_features_in_ = cross.Z.shape[1]
    companion.gamma_ = cross.parameters.gamma
    companion._factor(cross.Z[:COMPANION], cross.parameters)
    sample = distinct_sample(rows, COMPANION_ROWS, rng)[1] if len(rows) > COMPANION_ROWS else rows
    total, part = (float(len(r) if r.weight is None else r.weight.sum()) for r in (rows, sample))
    stats = nystrom_statistics(companion, sample, n_jobs=n_jobs).scaled(total / part)
    return companion, solve_statistics(stats, C, fit_intercept=fit_intercept)


class IterativeFamily(NystromFamily):
    """The direct route in the steps of the family, or conjugate gradients; ``partial_fit`` and streams are direct."""

    def fit(self, model: Any, training: Training) -> Outcome:
        if route_of(model, training) == "iterative":
            return self._iterate(model, training)
        return super().fit(model, training)

    def fit_log(self, model: Any, training: Training) -> Outcome:
        if model.solver == "iterative":
            raise ValueError(
                'solver="iterative" is a route of loss="squared"; loss="log" goes over its rows in any case: set '
                'solver="auto" or "direct"'
            )
        return super().fit_log(model, training)

    def _iterate(self, model: Any, training: Training) -> Outcome:
        """Weights by conjugate gradients; the map kept is that of the first landmarks."""
        recipe, rows = self.recipe(model, training.metric), training.rows
        size = recipe.size(rows, model.C)
        make_map, width = prepared(recipe, training)
        plan = search(recipe, model._ridge_search, training, make_map, width, min(size, model.max_landmarks))
        fit = fit_iteratively(model, training, make_map(plan.width, size), plan.C)
        types = types_kept(fit.cross, fit.found.a, rows.target_reach) or (np.float64,)  # there are no whitened weights
        found = NystromFit(
            features=fit.companion,
            beta=None,
            intercept=fit.intercept,
            C=plan.C,
            width=fit.companion.gamma_,
            size=fit.cross.n_features_out,
            route=fit.route,
            leverage=fit.leverage,
            cross=fit.cross,
            landmark_weights=fit.found.a,
            folds_in=types,
            tuning=plan.tuning,
            n_iter=fit.found.n_iter,
            residual=fit.found.residual,
        )
        return Outcome(found, fit.held_out)
