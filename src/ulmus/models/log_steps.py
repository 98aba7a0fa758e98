"""The steps of fitting a classifier by the log loss, for whoever reads rows block by block.

A sample chooses the map and C, and its own minimum is where the passes begin. Every pass then gives the log loss of all
rows and its gradient at some weights (:func:`ulmus.solvers.log_passes.log_sums`, sums that add), and the Hessian of the
sample says where to go from there.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.features.kept import KEPT_BYTES
from ulmus.features.sampling import distinct_sample
from ulmus.models.by_log import chosen_plan, fit_on_map, held_scores, with_variances
from ulmus.models.choice import Choice
from ulmus.models.fitted import Fitted
from ulmus.models.steps import Steps
from ulmus.solvers.log_passes import PassMinimum, minimise_by_passes
from ulmus.solvers.softmax import METRIC_ROWS, LogSolution, fit_softmax, warn_unfinished
from ulmus.tuning.log_choice import TOLERANCE, posed_in_double
from ulmus.tuning.metric import quietly

#: Passes over all rows, at most, those for the last digits, and how near to its minimum the sample is at the start.
MAX_PASSES, POLISH, BEGUN = 100, 6, 1e-5


class LogSteps(Steps):
    """The steps of a classifier with a feature map and ``loss="log"``; it is fitted in place."""

    def _chosen_plan(self, oversize: bool) -> Choice:
        return chosen_plan(self.model, self.training)[0]

    def fit_whole(self) -> Any:
        """The model of a sample that holds every row, as ``fit`` makes it."""
        model, training = self.model, self.training
        found = fit_on_map(model, training, self.plan)
        model._adopt(Fitted(found.weights, self.targets, self.certainty(found.held_out, training.rows)))
        return model

    def minimise(self, sweep: Any, total: float) -> PassMinimum:
        """The weights of all rows, of this total weight; ``sweep`` gives their loss and its gradient at ``[β; b]``."""
        rows, L = self.training.rows, self.plan.features.n_features_out
        most = min(METRIC_ROWS * max(L, 64), KEPT_BYTES // (8 * L))
        rows = rows if len(rows) <= most else distinct_sample(rows, most, self.training.rng)[1]
        folds = self.training.folds
        self.few = replace(rows, fold=folds if folds is not None and len(rows) == len(folds) else None)
        weight = rows.weights
        scaled = replace(self.few, weight=weight * (total / weight.sum()))
        self.problem = posed_in_double(self.plan.features, scaled, self.plan.C, self.fit_intercept, self.model.n_jobs)
        with quietly():
            begun = fit_softmax(self.problem, tol=BEGUN)
        start = np.vstack([begun.beta, begun.intercept]) if self.fit_intercept else begun.beta
        self.objective = self.problem.objective()
        found = minimise_by_passes(self.objective, start, sweep, tol=TOLERANCE, max_passes=MAX_PASSES, polish=POLISH)
        warn_unfinished(found, self.plan.C)
        return found

    def finish_at(self, found: PassMinimum) -> Any:
        """The model with these weights, calibrated on the sample."""
        v, model, L = found.v, self.model, self.plan.features.n_features_out
        b = np.zeros(v.shape[1])
        if self.fit_intercept:
            b = v[L] - (v[L].mean() if v.shape[1] > 1 else 0.0)
        F = self.objective.scores(v)
        solution = LogSolution(v[:L], b, F, found.value, found.gap, np.nan, found.converged, found.n_passes, 0, None)
        held_out = held_scores(self.problem, solution, self.few, self.training.rng)
        weight = self.problem.weight  # that of all rows, on those of the sample
        leverage, held_out = with_variances(model, self.plan, held_out, float(weight.sum()))
        weights = model._family.of_beta(self.plan, v[:L], b, 1.0, "newton", leverage)
        model._adopt(Fitted(weights, self.targets, self.certainty(held_out, self.training.rows)))
        return model
