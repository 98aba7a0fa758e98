"""The global model of the adaptive ones: a Nyström ridge in the chosen view, its C on rows left out, or folds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.ridge import DOUBLE, Gradient, Solution
from ulmus.tuning.metric import quietly
from ulmus.tuning.scorer import Scorer, Summary, Trial
from ulmus.tuning.search import LOG2_C_GRID
from ulmus.tuning.views import WORTH, View

#: Digits that are worth another pass over this many rows; where leaves are scored, sums alone do.
MANY_ROWS = 2_500
KEPT, TRIED = replace(DOUBLE, correct=1e-4, tolerance=1e-6), replace(DOUBLE, correct=DOUBLE.give_up)
#: Steps of log2 C about that of fewer landmarks; more landmarks want a smaller one.
ABOUT = np.arange(-8.0, 5.0, 2.0)


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
        cls,
        rows: Rows,
        view: View,
        size: int,
        seed: int,
        *,
        coding: Coding,
        criterion: str,
        scored: tuple[np.ndarray, np.ndarray],
        fit_intercept: bool,
        backend: Any,
        near_C: float | None = None,
    ) -> "GlobalModel":
        """Fit one with this many landmarks; ``scored`` are rows, and their weights, that choose C, about ``near_C``."""
        fitted = landmarks_in(view, rows, size, seed, backend)
        features, seen = backend.kept(fitted, rows)
        sums = Summary.of(partial(backend.statistics, features), seen, seen.fold)
        form, whitening = backend.scored_form(features)
        more = {"scored": scored[0], "mass": scored[1], "whitening": whitening, "rough": not backend.is_gpu}
        scorer = backend.scorer(seen, coding, fit_intercept, criterion, seen.fold, **more)
        grid = LOG2_C_GRID[::2] if near_C is None else 2.0 * np.rint(np.log2(near_C) / 2) + ABOUT
        trial = scorer.trial("global", view.gamma, form, sums, grid)
        precision = KEPT if len(seen) > MANY_ROWS else None
        solution = backend.fit_ridge(features, seen, trial.best_C, fit_intercept, sums.total, precision)
        return cls(fitted, features, seen, sums, scorer, trial, solution, backend)

    @classmethod
    def of_sums(
        cls,
        fitted: NystromMap,
        sample: Rows,
        sums: Summary,
        width: float,
        *,
        coding: Coding,
        criterion: str,
        scored: tuple[np.ndarray, np.ndarray],
        fit_intercept: bool,
        backend: Any,
        again: Callable[[float], Gradient | None],
    ) -> "GlobalModel":
        """One whose rows, among them those of a sample, were summed elsewhere.

        ``again`` is asked, for the C that was chosen, for what wins back digits that the sums have lost.
        """
        form, whitening = backend.scored_form(fitted)
        more = {"scored": scored[0], "mass": scored[1], "whitening": whitening}
        scorer = backend.scorer(sample, coding, fit_intercept, criterion, None, **more)
        trial = scorer.trial("global", width, form, sums, LOG2_C_GRID[::2])
        C = trial.best_C
        solution = backend.fit_sums(fitted, sample, sums.total, C, fit_intercept, again(C))
        return cls(fitted, fitted, sample, sums, scorer, trial, solution, backend)

    def without_rows(self, rows: Rows) -> Solution:
        """The model without some of the rows that were summed."""
        rest, C = self.sums.total - self.backend.statistics(self.features, rows), self.trial.best_C
        found: Solution = self.backend.fit_sums(self.features, self.seen, rest, C, self.scorer.fit_intercept, None)
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
        C, intercept = self.trial.best_C, self.scorer.fit_intercept
        found: Solution = self.backend.fit_ridge(self.features, train, C, intercept, rest, TRIED)
        return found

    def predictions(self, *solutions: Solution) -> list[np.ndarray]:
        """Predictions of several models of the same features, by one pass over the rows."""
        weights = self.features.weight_to_landmarks(np.concatenate([one.beta for one in solutions], axis=1))
        out = self.backend.apply(self.features.cross_kernel_, self.seen.X, weights)
        parts = np.split(out, len(solutions), axis=1)
        return [part + one.intercept for part, one in zip(parts, solutions, strict=True)]
