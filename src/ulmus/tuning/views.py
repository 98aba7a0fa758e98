r"""Choosing how a kernel looks at a table: preparation, kernel, width and metric, by exact leave-one-out on a sample.

A *view* turns rows into the coordinates that the kernel sees, :math:`u = A\,\text{prepare}(x)`, and says which kernel
and which ``gamma`` to use on them.

1. The L1-Laplacian on every preparation, then Matérn-3/2 on the best of them; the width by climbing on a logarithmic
   scale.
2. The metric, for either kernel: gradients of the last predictor, on a larger sample, give the next ``A``
   (:mod:`ulmus.features.metric`).
3. Kernels are compared with their metrics, and with more landmarks: which one is better often turns with either. Few
   landmarks favour the smoother kernel, whose spectrum ends sooner, and the local stage will use every row.
"""

from dataclasses import dataclass, replace

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.metric import through
from ulmus.features.preparation import PARTS, PREPARATIONS, Preparation
from ulmus.features.sampling import distinct_sample, row_keys
from ulmus.tuning.judge import Trial
from ulmus.tuning.metric import Climb, MetricSearch, quietly

#: The kernels that are tried; preparations are compared by the first.
KERNELS = ("laplacian_l1", "matern32")
#: Plain standardisation must be better by this factor: outliers hurt it more on rows that were not sampled.
HANDICAP = {"standard": 1.05}
#: Steps of log2 C from that of few landmarks; more landmarks want a smaller one.
FINAL = np.arange(-4.0, 3.0)


@dataclass(frozen=True)
class Budget:
    """How much is spent on the choice."""

    rows: int = 2_000
    landmarks: int = 200
    metric_rows: int = 4_000
    metric_landmarks: int = 350
    rounds: int = 5
    final_landmarks: int = 1_000
    kernels: int = 2
    preparations: tuple[str, ...] = PREPARATIONS


@dataclass(frozen=True)
class View:
    """How a kernel looks at a table."""

    preparation: Preparation
    metric: np.ndarray
    kernel: str
    gamma: float

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of new rows."""
        return through(self.preparation.transform(X), self.metric)

    def transform_learned(self, rows: Rows, part: np.ndarray) -> np.ndarray:
        """Coordinates of the rows that the preparation has learned from."""
        return through(self.preparation.transform_learned(rows.X, rows.T, rows.weight, part), self.metric)


def parts_of(X: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The part of every row, by its values, so that equal rows share one."""
    return (row_keys(X, int(rng.randint(2**31 - 1))) % np.uint64(PARTS)).astype(np.intp)


class ViewSearch:
    """The search for one table; every trial is kept in ``trials``."""

    def __init__(
        self,
        rows: Rows,
        coding: Coding,
        categorical: np.ndarray,
        rng: np.random.RandomState,
        *,
        fit_intercept: bool,
        criterion: str = "auto",
        budget: Budget = Budget(),  # noqa: B008 (frozen)
        n_jobs: int | None = -1,
    ) -> None:
        self.categorical, self.rng, self.n_jobs, self.budget = categorical, rng, n_jobs, budget
        self.rows = rows
        self.whole = Preparation.of("standard", rows.X, rows.T, rows.weight, categorical)
        self.search = MetricSearch(coding, int(rng.randint(2**31 - 1)), fit_intercept, criterion)
        self.trials: list[Trial] = []

    def choose(self) -> View:
        """The view with the lowest leave-one-out loss."""
        with quietly():  # once, around the threads: filters of warnings are shared by all of them
            views = self._plain()[: self.budget.kernels]
            if not self.budget.rounds or len(views[0].metric) < 2:
                return views[0]
            return self._with_metric(views)

    def _plain(self) -> list[View]:
        """The best preparation with either kernel, the better one first."""
        sample, kinds = self._sample(self.budget.rows), self.budget.preparations
        part = parts_of(sample.X, self.rng)
        prepared = {kind: self._prepare(kind, sample) for kind in kinds}
        coordinates = {
            kind: preparation.transform_learned(sample.X, sample.T, sample.weight, part)
            for kind, preparation in prepared.items()
        }

        def climb(kind: str) -> Climb:
            return self._climb(sample, coordinates[kind], KERNELS[0], n_jobs=1)

        climbs = dict(zip(kinds, engine.ordered_map(climb, kinds, self.n_jobs), strict=True))
        kind = min(kinds, key=lambda k: HANDICAP.get(k, 1.0) * climbs[k].best.best_loss)
        other = self._climb(sample, coordinates[kind], KERNELS[1], n_jobs=self.n_jobs)
        self.trials += [trial for found in (*climbs.values(), other) for trial in found.trials]
        ranked = sorted(zip(KERNELS, (climbs[kind].best, other.best), strict=True), key=lambda k: k[1].best_loss)
        metric = np.ones(coordinates[kind].shape[1])
        return [View(prepared[kind], metric, kernel, trial.width) for kernel, trial in ranked]

    def _sample(self, count: int) -> Rows:
        return self.rows if self.rows.effective_count <= count else distinct_sample(self.rows, count, self.rng)[1]

    def _prepare(self, kind: str, rows: Rows) -> Preparation:
        return Preparation.of(kind, rows.X, rows.T, rows.weight, self.categorical, self.whole)

    def _climb(self, rows: Rows, U: np.ndarray, kernel: str, n_jobs: int | None) -> Climb:
        return self.search.climb(replace(rows, X=U), kernel, 1.0, self.budget.landmarks, n_jobs)

    def _with_metric(self, views: list[View]) -> View:
        """The better view of a larger sample, when either has a metric of its own."""
        rows = self._sample(self.budget.metric_rows)
        part = parts_of(rows.X, self.rng)
        preparation = self._prepare(views[0].preparation.columns.kind, rows)
        posed = replace(rows, X=preparation.transform_learned(rows.X, rows.T, rows.weight, part))

        def sharpest(view: View) -> tuple[np.ndarray, Climb]:
            factor = view.gamma / self.search.unit(view.kernel, posed)
            return self.search.sharpest(
                posed, view.kernel, factor, self.budget.metric_landmarks, self.budget.rounds, n_jobs=1
            )

        found = list(engine.ordered_map(sharpest, views, self.n_jobs))
        self.trials += [trial for _, climb in found for trial in climb.trials]
        sharp = [
            replace(view, preparation=preparation, metric=A, gamma=climb.best.width)
            for view, (A, climb) in zip(views, found, strict=True)
        ]
        losses = {view.kernel: climb.best.best_loss for view, (_, climb) in zip(views, found, strict=True)}
        if min(losses, key=losses.__getitem__) != KERNELS[0] and len(losses) > 1:
            losses = self._with_more_landmarks(posed, sharp, [climb.best.best_C for _, climb in found])
        return min(sharp, key=lambda view: losses[view.kernel])

    def _with_more_landmarks(self, rows: Rows, views: list[View], C: list[float]) -> dict[str, float]:
        """Losses of the views with landmarks enough for the rougher kernel."""
        count = min(self.budget.final_landmarks, len(rows))

        def judge(each: tuple[View, float]) -> Trial:
            view, C = each
            seen = replace(rows, X=through(rows.X, view.metric))
            return self.search.judge(seen, view.kernel, view.gamma, count, np.log2(C) + FINAL, n_jobs=1).trial

        trials = list(engine.ordered_map(judge, zip(views, C, strict=True), self.n_jobs))
        self.trials += trials
        return {view.kernel: trial.best_loss for view, trial in zip(views, trials, strict=True)}
