"""Classifiers by the log loss: the family chooses its features by squares, and Newton's method fits weights on them."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut, calibration_sample
from ulmus.calibration.far import log_variance
from ulmus.engine import Rows
from ulmus.features.recipes import NystromFeatures
from ulmus.features.sampling import gathered
from ulmus.models._classification import refuse_memory
from ulmus.models.choice import Choice, Training
from ulmus.models.fitted import Outcome
from ulmus.models.reading import dense_rows
from ulmus.solvers.log_few import FewRows
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.softmax import LogProblem, LogSolution
from ulmus.tuning import Trial, Tuning
from ulmus.tuning.log_choice import PenaltyChoice, choose_C, choose_width, fit_closely, unkept
from ulmus.tuning.log_held import log_held_sets
from ulmus.tuning.log_path import FLOORED, HeldTrial, held_path

#: Where C alone is left to the data, it is sought near this one.
NEAR_C = 16.0


def in_memory(rows: Rows) -> Rows:
    """Rows of a GPU as arrays: the steps of Newton's method are taken on the CPU."""
    return replace(rows, X=dense_rows(rows.X))


def criterion_in_use(model: Any) -> str:
    """What is to be low on rows left out."""
    return FLOORED if model.criterion in ("auto", "log_loss") else str(model.criterion)


def chosen_plan(model: Any, training: Training) -> tuple[Choice, Any]:
    """The map, its C, and where a fit may begin, if that is known."""
    began, plan = time.perf_counter(), model._family.begin_log(model, training)
    rows = replace(in_memory(training.rows), fold=training.folds)
    refuse_memory(len(rows), rows.T.shape[1], plan.features.n_features_out)
    if model.C != "auto":
        return plan, None
    found = choose_C(
        *(plan.features, rows, plan.C, criterion_in_use(model), training.rng),
        fit_intercept=model._intercept,
        n_jobs=model.n_jobs,
    )
    return with_log_C(plan, found, plan.features.n_features_out, time.perf_counter() - began), found.start


def fit_on_map(model: Any, training: Training, plan: Choice | None = None) -> Outcome:
    """Weights on a feature map, and scores of rows by models without them; the ``plan`` may be made already."""
    start = None
    if plan is None:
        plan, start = chosen_plan(model, training)
    rows = gathered(replace(in_memory(training.rows), fold=training.folds))
    backend = training.backend
    problem = backend.exact_log_problem(plan.features, rows, plan.C, model._intercept)
    few = FewRows.of(problem)
    solution = fit_closely(problem, few, start)
    if backend.is_gpu and rows.fold is None:  # some rows say how sure the model is, and the CPU has them
        problem = unkept(plan.features, rows, plan.C, model._intercept, model.n_jobs)
    held_out = held_scores(problem, solution, rows, training.rng, few)
    leverage, held_out = with_variances(model, plan, held_out, rows.total_weight)
    weights = model._family.of_beta(plan, solution.beta, solution.intercept, 1.0, "newton", leverage)
    return Outcome(weights, held_out)


def with_variances(model: Any, plan: Choice, held_out: HeldOut, total: float) -> tuple[Any, HeldOut]:
    """What tells how far rows are from those of the training, and the rows left out with how far they are."""
    rows = Rows(held_out.X, held_out.T, held_out.weight)
    how: dict[str, Any] = {"fit_intercept": model._intercept, "total": total, "n_jobs": model.n_jobs}
    leverage, variance = log_variance(plan.features, rows, plan.C, **how)
    return leverage, replace(held_out, variance=variance)


def with_log_width(model: Any, recipe: Any, plan: Choice, training: Training, size: int) -> tuple[float, Choice]:
    """The width that is best for the log loss; and the plan with a C that goes with it.

    It is sought near that of the plan, and near where the search by squares began: with squares a flat kernel and a
    weak penalty often do as well as a sharper one.
    """
    rows, make = (
        replace(in_memory(training.rows), fold=training.folds),
        recipe.maker(int(training.rng.randint(2**31 - 1))),
    )

    def fitted(width: float, size: int, some: Rows) -> Any:
        return make(width, min(size, len(some))).fit(some.X, training.coding.numbers(some.T), some.weight)

    width, C, trials = choose_width(
        *(fitted, rows, (plan.width, recipe.start(rows, training.rng)), plan.C, criterion_in_use(model), training.rng),
        size=size,
        flat=isinstance(recipe, NystromFeatures),
        fit_intercept=model._intercept,
        n_jobs=model.n_jobs,
    )
    C, size = C if model.C == "auto" else plan.C, min(size, len(rows))
    before = () if plan.tuning is None else plan.tuning.trials
    lowest = min(trial.best_loss for trial in trials)
    return width, replace(plan, C=C, tuning=Tuning((*before, *trials), float(width), size, C, lowest, 0.0))


def with_log_C(plan: Choice, found: PenaltyChoice, size: int, seconds: float) -> Choice:
    """The plan with the C that is best for the log loss, and with its path beside what was searched before."""
    before = () if plan.tuning is None else plan.tuning.trials
    path = Trial("log C", float(plan.width), size, found.n_rows, *found.tried, np.empty(0), seconds)
    tuning = Tuning((*before, path), float(plan.width), size, found.C, found.loss, seconds)
    return replace(plan, C=found.C, tuning=tuning)


def held_scores(
    problem: LogProblem, solution: LogSolution, rows: Rows, rng: np.random.RandomState, few: FewRows | None = None
) -> HeldOut:
    """Scores of a sample of the rows without themselves; or of all that have a fold, by the model without it."""
    if rows.fold is not None:
        held = log_held_sets(rows, rng)
        begun = HeldTrial(problem.C, np.inf, (solution,) * len(held))
        trial = held_path(problem, [problem.C], held, tol=1e-8, begun=begun)[0]
        tested = np.flatnonzero(rows.fold >= 0)
        F = np.empty(rows.T.shape)
        for out, without in zip(held, trial.solutions, strict=True):
            F[out > 0] = without.F[out > 0]
        return HeldOut.by_others(rows.take(tested), F[tested], np.zeros(len(tested)))
    index, sample = calibration_sample(rows, rng)
    return HeldOut.by_others(sample, left_out(problem, solution, index, few=few), np.zeros(len(index)))
