"""A metric for every kernel that may be the best: on few rows first, on more for those that still compete."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.tuning.metric import Climb, MetricSearch, Rounds, Scored, first_C
from ulmus.tuning.surface import Trial
from ulmus.tuning.view_budget import Budget

#: A metric that lowers the loss of few rows by this share is not compared with none on more of them.
CLEARLY = 0.03


def hopeful(losses: list[float], reach: float) -> list[int]:
    """Places of the best of several views, of rougher ones, which come first, and of those within reach."""
    best = int(np.argmin(losses))
    return [k for k, loss in enumerate(losses) if k <= best or loss < reach * losses[best]]


@dataclass(frozen=True)
class Candidate:
    """A kernel with the width and the C that were best on few rows without a metric."""

    kernel: str
    gamma: float
    C: float


@dataclass(frozen=True)
class ViewCandidates:
    """Kernels, the rougher first, and the additive one last where it is one more than the budget has.

    ``shown`` are the rows that teach the metrics, in random order; every trial is kept in ``trials``.
    """

    search: MetricSearch
    budget: Budget
    views: Sequence[Candidate]
    shown: Rows
    n_jobs: int | None
    trials: list[Trial] = field(default_factory=list)

    def sharpened(self) -> dict[int, tuple[np.ndarray, Climb]]:
        """Metrics and widths of those that still compete, by their places."""
        asked, plain, glances = list(range(len(self.views))), dict[int, Scored](), list[Rounds]()
        additive = len(self.views) > self.budget.kernels
        if self._few is not None:
            glances = list(engine.ordered_map(self._glance, asked[: len(asked) - additive], self.n_jobs))
            if additive and not self._leads(glances):
                additive, asked = False, asked[:-1]
        if additive:
            plain = dict(enumerate(engine.ordered_map(self._first, asked, self.n_jobs)))
            losses = [scored.trial.best_loss for scored in plain.values()]
            if losses[-1] > min(losses):
                additive = False  # it does not lead
                self.trials.append(plain[asked.pop()].trial)
            elif glances:
                glances.append(self._glance(asked[-1]))
        if glances:
            self.trials.extend(trial for tried in glances for _, trial in tried)
            near = hopeful([min(trial.best_loss for _, trial in tried) for tried in glances], self.budget.reach)
            asked = [k for k in asked if k in near or (self.budget.leaves and additive and k == asked[-1])]

        def sharpest(k: int) -> tuple[np.ndarray, Climb]:
            return self._sharpest(k, plain.get(k), glances[k] if glances else None)

        found = dict(zip(asked, engine.ordered_map(sharpest, asked, self.n_jobs), strict=True))
        self.trials.extend(trial for _, climb in found.values() for trial in climb.trials)
        return found

    @property
    def _few(self) -> Rows | None:
        """The first rows, where there are more."""
        rows = self.budget.rows
        return self.shown[:rows] if self.shown.fold is None and len(self.shown) > rows else None

    def _factor(self, k: int) -> float:
        """The width in units of the heuristic one."""
        return self.views[k].gamma / self.search.unit(self.views[k].kernel, self.shown)

    def _first(self, k: int) -> Scored:
        """Without a metric."""
        view, landmarks = self.views[k], self.budget.metric_landmarks
        return self.search.score(self.shown, view.kernel, view.gamma, landmarks, first_C(view.C), self.n_jobs)

    def _glance(self, k: int) -> Rounds:
        """The metrics of few rows."""
        assert self._few is not None
        given = (self._factor(k), self.budget.landmarks, self.budget.rounds, self.n_jobs)
        return self.search.rounds(self._few, self.views[k].kernel, *given, near=self.views[k].C)

    def _leads(self, glances: list[Rounds]) -> bool:
        """Whether the additive model leads on few rows, where others have no metric yet: more rows suit it less."""
        few, view = self._few, self.views[-1]
        assert few is not None
        gamma = self._factor(len(self.views) - 1) * self.search.unit(view.kernel, few)
        trial = self.search.score(few, view.kernel, gamma, self.budget.landmarks, first_C(view.C), self.n_jobs).trial
        self.trials.append(replace(trial, kernel=f"{view.kernel}, additive"))
        return trial.best_loss <= min(tried[0][1].best_loss for tried in glances)

    def _sharpest(self, k: int, last: Scored | None, glance: Rounds | None) -> tuple[np.ndarray, Climb]:
        """The metric of all rows, from that of few on, and the width with it."""
        begin, rounds, near = None, self.budget.rounds + self.budget.rounds_again, self.views[k].C
        if glance is not None:
            begin, best = min(glance, key=lambda one: one[1].best_loss)
            rounds, near = self.budget.rounds_again, best.best_C
            if last is None and best.best_loss > (1 - CLEARLY) * glance[0][1].best_loss:
                last = self._first(k)
        given = (self._factor(k), self.budget.metric_landmarks, rounds, self.n_jobs, last, begin, near)
        return self.search.sharpest(self.shown, self.views[k].kernel, *given)
