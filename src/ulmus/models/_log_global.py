"""The global log model of the adaptive ones: softmax on Nyström features in the chosen view, its C on rows held out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import row_keys
from ulmus.models._global import landmarks_in
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.log_held import STEP, padded, path_of, tolerance_of
from ulmus.tuning.log_path import HeldTrial, best_trial, held_path, weights_of
from ulmus.tuning.metric import quietly
from ulmus.tuning.views import View

#: The weaker global model with which leaves are tried has its C two steps of the path, a factor of 16, below the best.
WEAKER = 2
#: What may be left of the objective of the model that is kept.
KEPT = 3e-4
#: Passes over the rows, at most, of a fit.
MAX_PASSES = 200


@dataclass(frozen=True)
class LogGlobal:
    """Landmarks, the problem on all rows (its C is not yet chosen), the sets held out, and the trials of the path.

    ``gained`` is what all rows and landmarks lowered the loss by, beside few of both.
    """

    landmark_map: NystromMap
    problem: LogProblem
    held: list[np.ndarray]
    trials: list[HeldTrial]
    gained: float = 0.0

    @classmethod
    def of(
        cls,
        rows: Rows,
        view: View,
        size: int,
        seed: int,
        held: list[np.ndarray],
        *,
        near_C: float,
        criterion: str,
        max_bytes: float,
        backend: Any,
        smaller: "LogGlobal | None" = None,
    ) -> "LogGlobal":
        """The path of one with this many landmarks, or trials of C from where that of a ``smaller`` model ended."""
        fitted = landmarks_in(view, rows, size, seed, backend)
        with quietly():
            problem = backend.log_problem(fitted, rows, max_bytes)
            if smaller is not None:
                C, begun = (
                    [trial.C for trial in smaller.trials],
                    padded(smaller.trials[0], problem.features.n_features_out),
                )
                return cls(fitted, problem, held, held_path(problem, C, held, criterion=criterion, begun=begun))
            order = np.argsort(row_keys(rows.X, seed), kind="stable")
            trials, gained = path_of(problem, near_C, held, criterion, order)
        return cls(fitted, problem, held, trials, gained)

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return int(self.landmark_map.n_features_out)

    @property
    def best(self) -> int:
        """Place of the best C among the trials."""
        return best_trial(self.trials)

    @property
    def weaker(self) -> int | None:
        """Place of the trial of a C at least this many steps below the best, if there is one."""
        limit = self.trials[self.best].C / STEP ** (WEAKER - 0.5)
        return max((i for i, trial in enumerate(self.trials) if limit >= trial.C), default=None)

    def fitted(self, trial: int) -> LogSolution:
        """The model of all rows with the C of a trial, begun at one without some rows."""
        near = self.trials[trial].solutions[0]
        start, gram = weights_of(near, self.problem.fit_intercept), self.trials[-1].solutions[0].gram
        here = replace(self.problem, C=self.trials[trial].C)
        tol = tolerance_of(here.rows.X.shape[0], KEPT)
        return fit_softmax(here, start=start, gram=gram, tol=tol, max_passes=MAX_PASSES)
