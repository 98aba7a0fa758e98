"""The global log model of the adaptive ones: softmax on Nyström features in the chosen view, its C on rows held out."""

from dataclasses import dataclass, replace

import numpy as np

from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.log_held import path_near, posed
from ulmus.tuning.log_loss import HeldTrial, best_trial, weights_of
from ulmus.tuning.metric import quietly
from ulmus.tuning.views import View

#: What may be left of the objective of the model that is kept.
KEPT = 3e-4
#: Passes over the rows, at most, of a fit.
MAX_PASSES = 200


@dataclass(frozen=True)
class LogGlobal:
    """Landmarks, the problem on all rows (its C is not yet chosen), the sets held out, and the trials of the path."""

    landmark_map: NystromMap
    problem: LogProblem
    held: list[np.ndarray]
    trials: list[HeldTrial]

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
        n_jobs: int | None,
    ) -> "LogGlobal":
        """The path of one with so many landmarks."""
        with quietly():
            fitted = NystromMap(size, kernel=view.kernel, gamma=view.gamma, random_state=seed, n_jobs=n_jobs)
            fitted.fit(rows.X, sample_weight=rows.weight)
            problem = posed(fitted, rows, max_bytes, n_jobs)
            trials = path_near(problem, near_C, held, criterion)
        return cls(fitted, problem, held, trials)

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return int(self.landmark_map.n_lifted)

    @property
    def best(self) -> int:
        """Place of the best C among the trials."""
        return best_trial(self.trials)

    def fitted(self, trial: int) -> LogSolution:
        """The model of all rows with the C of a trial, begun at one without some rows."""
        near = self.trials[trial].solutions[0]
        start, gram = weights_of(near, self.problem.fit_intercept), self.trials[-1].solutions[0].gram
        here = replace(self.problem, C=self.trials[trial].C)
        return fit_softmax(here, start=start, gram=gram, tol=KEPT, max_passes=MAX_PASSES)
