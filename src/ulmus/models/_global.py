"""The global models of the adaptive ones in the chosen view: a Nyström ridge, and softmax on Nyström features.

The C of squares is chosen on rows left out, or folds, that of the log loss on rows held out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import row_keys
from ulmus.models._stages import Work
from ulmus.solvers.ridge import DOUBLE, Gradient, Solution
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.log_held import STEP, padded, path_of, tolerance_of
from ulmus.tuning.log_path import FLOORED, HeldTrial, best_trial, held_path, weights_of
from ulmus.tuning.metric import quietly
from ulmus.tuning.scorer import Scorer, Summary, Trial
from ulmus.tuning.search import LOG2_C_GRID
from ulmus.tuning.views import WORTH, View

#: Digits that are worth another pass over this many rows; where leaves are scored, sums alone do.
MANY_ROWS = 2_500
KEPT, TRIED = replace(DOUBLE, correct=1e-4, tolerance=1e-6), replace(DOUBLE, correct=DOUBLE.give_up)
#: Steps of log2 C about that of fewer landmarks; more landmarks want a smaller one.
ABOUT = np.arange(-8.0, 5.0, 2.0)


#: Rows that choose C, and their weights.
Scored = tuple[np.ndarray, np.ndarray]


def landmarks_in(view: View, rows: Rows, size: int, seed: int, backend: Any) -> NystromMap:
    """The fitted map of this many landmarks among rows as the view shows them."""
    with quietly():
        fitted = NystromMap(size, kernel=view.kernel, gamma=view.gamma, random_state=seed, n_jobs=backend.n_jobs)
        return backend.release(backend.adopt(fitted).fit(rows.X, sample_weight=rows.weight))


@dataclass(frozen=True)
class GlobalModel:
    """A fitted model, with what it was made of; ``features`` transform the rows as they were ``seen``."""

    landmark_map: NystromMap
    features: Any
    seen: Rows
    sums: Summary
    scorer: Scorer
    trial: Trial
    solution: Solution
    backend: Any

    @classmethod
    def of(
        cls, work: Work, size: int, seed: int, scored: Scored, fit_intercept: bool, near_C: float | None = None
    ) -> "GlobalModel":
        """Fit one with this many landmarks; ``scored`` are rows, and their weights, that choose C, about ``near_C``."""
        rows, view, backend = work.rows, work.view, work.backend
        fitted = landmarks_in(view, rows, size, seed, backend)
        features, seen = backend.kept(fitted, rows)
        sums = Summary.of(partial(backend.statistics, features), seen, seen.fold)
        rough = not backend.is_gpu
        scorer, trial = cls._tried(work, features, seen, seen.fold, sums, scored, fit_intercept, near_C, rough=rough)
        precision = KEPT if len(seen) > MANY_ROWS else None
        solution = backend.ridge_problem(features, seen, trial.best_C, fit_intercept).solve(sums.total, precision)
        return cls(fitted, features, seen, sums, scorer, trial, solution, backend)

    @classmethod
    def of_sums(
        cls,
        work: Work,
        fitted: NystromMap,
        sums: Summary,
        scored: Scored,
        fit_intercept: bool,
        again: Callable[[float], Gradient | None],
    ) -> "GlobalModel":
        """One whose rows, among them those of ``work``, a sample, were summed elsewhere.

        ``again`` is asked, for the C that was chosen, for what wins back digits that the sums have lost.
        """
        sample, backend = work.rows, work.backend
        scorer, trial = cls._tried(work, fitted, sample, None, sums, scored, fit_intercept)
        C = trial.best_C
        solution = backend.ridge_problem(fitted, sample, C, fit_intercept).solve_sums(sums.total, again(C))
        return cls(fitted, fitted, sample, sums, scorer, trial, solution, backend)

    @staticmethod
    def _tried(
        work: Work,
        features: Any,
        seen: Rows,
        folds: Any,
        sums: Summary,
        scored: Scored,
        fit_intercept: bool,
        near_C: float | None = None,
        *,
        rough: bool = False,
    ) -> tuple[Scorer, Trial]:
        """Who scores the penalties, and the losses of all; of those about ``near_C``, where the best is among them."""
        form, whitening = work.backend.scored_form(features)
        more = {"scored": scored[0], "mass": scored[1], "whitening": whitening, "rough": rough}
        scorer: Scorer = work.backend.scorer(seen, work.coding, fit_intercept, work.criterion, folds, **more)
        grid = LOG2_C_GRID[::2] if near_C is None else 2.0 * np.rint(np.log2(near_C) / 2) + ABOUT
        trial = scorer.trial("global", work.view.gamma, form, sums, grid)
        if near_C is not None and np.log2(trial.best_C) in (grid[0], grid[-1]):  # many more rows want another one
            trial = scorer.trial("global", work.view.gamma, form, sums, LOG2_C_GRID[::2])
        size = features.n_features_out
        work.say(f"global model: {size} landmarks, C = {trial.best_C:.3g}, loss {trial.best_loss:.4g}")
        return scorer, trial

    def without_rows(self, rows: Rows) -> Solution:
        """The model without some of the rows that were summed."""
        rest = self.sums.total - self.backend.statistics(self.features, rows)
        found: Solution = self._problem(self.seen).solve_sums(rest)
        return found

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return int(self.features.n_features_out)

    @property
    def wants_more(self) -> bool:
        """Whether the second half of the landmarks gained so much that others may gain too."""
        near, form = np.log2(self.trial.best_C) + np.arange(-4.0, 5.0, 2.0), self.backend.scored_form(self.features)[0]
        half = self.scorer.trial("global", self.trial.width, form, self.sums, near, self.size // 2)
        return self.trial.best_loss < (1 - WORTH) * half.best_loss

    def without(self, held: np.ndarray) -> Solution:
        """The model of the rows that are not held out, from the sums of all."""
        weight = np.ones(len(self.seen)) if self.seen.weight is None else self.seen.weight
        train = replace(self.seen, weight=np.where(held, 0.0, weight))
        rest = self.sums.total - self.backend.statistics(self.features, self.seen.take(held))
        found: Solution = self._problem(train).solve(rest, TRIED)
        return found

    def _problem(self, rows: Rows) -> Any:
        """That of the chosen C on other rows, or weights of them."""
        return self.backend.ridge_problem(self.features, rows, self.trial.best_C, self.scorer.fit_intercept)

    def predictions(self, *solutions: Solution) -> list[np.ndarray]:
        """Predictions of several models of the same features, by one pass over the rows."""
        weights = self.features.weight_to_landmarks(np.concatenate([one.beta for one in solutions], axis=1))
        out = self.backend.apply(self.features.cross_kernel_, self.seen.X, weights)
        parts = np.split(out, len(solutions), axis=1)
        return [part + one.intercept for part, one in zip(parts, solutions, strict=True)]


#: The weaker global model with which leaves are tried has its C two steps of the path, a factor of 16, below the best.
WEAKER = 2
#: What may be left of the objective of the model that is kept.
LOG_KEPT = 3e-4
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
        work: Work,
        size: int,
        seed: int,
        held: list[np.ndarray],
        near_C: float,
        smaller: "LogGlobal | None" = None,
    ) -> "LogGlobal":
        """The path of one with this many landmarks, or trials of C from where that of a ``smaller`` model ended."""
        fitted, gained = landmarks_in(work.view, work.rows, size, seed, work.backend), 0.0
        # rows that are all right ask for no more certainty than so many rows can give
        criterion = FLOORED if work.criterion == "log_loss" else work.criterion
        with quietly():
            problem = work.backend.log_problem(fitted, work.rows, work.max_bytes)
            if smaller is None:
                order = np.argsort(row_keys(work.rows.X, seed), kind="stable")
                trials, gained = path_of(problem, near_C, held, criterion, order)
            else:
                C, begun = (
                    [trial.C for trial in smaller.trials],
                    padded(smaller.trials[0], problem.features.n_features_out),
                )
                trials = held_path(problem, C, held, criterion=criterion, begun=begun)
        found = cls(fitted, problem, held, trials, gained)
        best = trials[found.best]
        work.say(f"global log model: {found.size} landmarks, C = {best.C:.3g}, loss {best.loss:.4g}")
        return found

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
        tol = tolerance_of(here.rows.X.shape[0], LOG_KEPT)
        return fit_softmax(here, start=start, gram=gram, tol=tol, max_passes=MAX_PASSES)
