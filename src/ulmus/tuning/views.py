r"""Choosing how a kernel looks at a table: preparation, kernel, width and metric, by exact leave-one-out on a sample.

A *view* turns rows into the coordinates that the kernel sees, :math:`u = A\,\text{prepare}(x)`, and says which kernel
and which ``gamma`` to use on them.

1. The L1-Laplacian on every preparation, then Matérn-3/2 on the best of them; the width by climbing on a logarithmic
   scale.
2. The metric, for either kernel: gradients of the last predictor, on a larger sample, give the next ``A``
   (:mod:`ulmus.features.metric`). Kernels are compared with their metrics: which one is better often turns with it.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import heuristic_gamma
from ulmus.features.metric import average_outer_product, gradients, pruned, sharpened, through
from ulmus.features.nystrom import NystromMap
from ulmus.features.preparation import PARTS, PREPARATIONS, Category, Preparation
from ulmus.features.sampling import distinct_sample, row_keys
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.path import RidgePath
from ulmus.tuning.judge import Judge, Trial

#: log2 of the C of a trial; the judge goes beyond the ends when the best is there.
LOG2_C = np.arange(-4.0, 11.0, 2.0)
#: Steps around a good log2 C.
NEAR = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
#: The kernels that are tried; preparations are compared by the first.
KERNELS = ("laplacian_l1", "matern32")
#: Widths, relative to one over the median distance, between which the climb moves.
FACTOR = 2.0
#: Plain standardisation must be better by this factor: outliers hurt it more on rows that were not sampled.
HANDICAP = {"standard": 1.05}
#: A width is left for its neighbour only when that is better by this share: flat kernels tie with ever larger C.
GAIN = 0.01
#: Rows at which gradients are taken.
GRADIENT_ROWS = 2_000
#: A round of the metric may be worse by this factor without ending the search.
PATIENCE = 1.005


@dataclass(frozen=True)
class Budget:
    """How much is spent on the choice."""

    rows: int = 2_000
    landmarks: int = 200
    metric_rows: int = 4_000
    metric_landmarks: int = 350
    rounds: int = 5
    kernels: int = 2


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


@contextmanager
def quietly() -> Iterator[None]:
    """That some landmarks depend on others is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        yield


def fitted_map(landmarks: int, kernel: str, gamma: float, rows: Rows, seed: int, n_jobs: int | None) -> NystromMap:
    """A map of these rows."""
    features = NystromMap(landmarks, kernel=kernel, gamma=gamma, random_state=seed, n_jobs=n_jobs)
    return features.fit(rows.X, sample_weight=rows.weight)


@dataclass(frozen=True)
class Climb:
    """The trials of one kernel, the best of them, and its width in units of the heuristic one."""

    trials: tuple[Trial, ...]
    best: Trial
    factor: float


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
        self.coding, self.categorical, self.rng, self.n_jobs = coding, categorical, rng, n_jobs
        self.fit_intercept, self.criterion, self.budget = fit_intercept, criterion, budget
        self.rows = rows
        w = np.ones(len(rows)) if rows.weight is None else rows.weight
        self.categories = tuple(Category.of(rows.X[:, j], rows.T, w) for j in np.flatnonzero(categorical))
        self.seed = int(rng.randint(2**31 - 1))
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
        sample = self._sample(self.budget.rows)
        part = parts_of(sample.X, self.rng)
        prepared = {kind: self._prepare(kind, sample) for kind in PREPARATIONS}
        coordinates = {
            kind: preparation.transform_learned(sample.X, sample.T, sample.weight, part)
            for kind, preparation in prepared.items()
        }

        def climb(kind: str) -> Climb:
            return self._climb(sample, coordinates[kind], KERNELS[0], n_jobs=1)

        climbs = dict(zip(PREPARATIONS, engine.ordered_map(climb, PREPARATIONS, self.n_jobs), strict=True))
        kind = min(PREPARATIONS, key=lambda k: HANDICAP.get(k, 1.0) * climbs[k].best.best_loss)
        other = self._climb(sample, coordinates[kind], KERNELS[1], n_jobs=self.n_jobs)
        self.trials += [trial for found in (*climbs.values(), other) for trial in found.trials]
        ranked = sorted(zip(KERNELS, (climbs[kind].best, other.best), strict=True), key=lambda k: k[1].best_loss)
        metric = np.ones(coordinates[kind].shape[1])
        return [View(prepared[kind], metric, kernel, trial.width) for kernel, trial in ranked]

    def _sample(self, count: int) -> Rows:
        return self.rows if self.rows.effective_count <= count else distinct_sample(self.rows, count, self.rng)[1]

    def _prepare(self, kind: str, rows: Rows) -> Preparation:
        return Preparation.of(kind, rows.X, rows.T, rows.weight, self.categorical, self.categories)

    def _climb(
        self,
        rows: Rows,
        U: np.ndarray,
        kernel: str,
        factor: float = 1.0,
        landmarks: int | None = None,
        *,
        n_jobs: int | None,
    ) -> Climb:
        """Walk to the best width, from so many times the heuristic one."""
        posed = replace(rows, X=U)
        unit = heuristic_gamma(kernel, U, rows.weight, np.random.RandomState(self.seed))
        trials: dict[int, Trial] = {}

        def loss(step: int) -> float:
            if step not in trials:
                grid = LOG2_C if not trials else np.log2(trials[here].best_C) + NEAR
                width = unit * factor * FACTOR**step
                trials[step] = self._judge(posed, kernel, width, landmarks or self.budget.landmarks, grid, n_jobs)
            return trials[step].best_loss

        here = 0
        while len(trials) < 8:
            best = min((here, here - 1, here + 1), key=loss)
            if best == here or loss(best) > (1 - GAIN) * loss(here):
                break
            here = best
        return Climb(tuple(trials.values()), trials[here], factor * FACTOR**here)

    def _judge(
        self, rows: Rows, kernel: str, gamma: float, landmarks: int, log2_C: np.ndarray, n_jobs: int | None
    ) -> Trial:
        """Leave-one-out losses of every C."""
        statistics = partial(nystrom_statistics, n_jobs=n_jobs)
        judge = Judge(rows, self.coding, statistics, self.fit_intercept, criterion=self.criterion, n_jobs=n_jobs)
        judge, features = judge.lifted(fitted_map(landmarks, kernel, gamma, rows, self.seed, n_jobs))
        return judge.trial("view", gamma, features, judge.summarise(features), log2_C)

    def _with_metric(self, views: list[View]) -> View:
        """The better view of a larger sample, when either has a metric of its own."""
        rows = self._sample(self.budget.metric_rows)
        part = parts_of(rows.X, self.rng)
        preparation = self._prepare(views[0].preparation.columns.kind, rows)
        P = preparation.transform_learned(rows.X, rows.T, rows.weight, part)
        found = list(engine.ordered_map(lambda view: self._sharpest(rows, P, view), views, self.n_jobs))
        self.trials += [trial for _, trials in found for trial in trials]
        view, _ = min(found, key=lambda each: each[1][-1].best_loss)
        return replace(view, preparation=preparation)

    def _sharpest(self, rows: Rows, P: np.ndarray, view: View) -> tuple[View, list[Trial]]:
        """Rounds of the metric at one width, then the best width for the best of them; that trial comes last."""
        size, factor = self.budget.metric_landmarks, self._factor(rows, P, view)
        A = np.ones(P.shape[1])
        tried: list[tuple[np.ndarray, Trial]] = []
        for _ in range(self.budget.rounds + 1):
            if tried:
                A = self._sharpen(rows, P, replace(view, metric=A, gamma=tried[-1][1].width), tried[-1][1].best_C)
            U = through(P, A)
            unit = heuristic_gamma(view.kernel, U, rows.weight, np.random.RandomState(self.seed))
            tried.append((A, self._judge(replace(rows, X=U), view.kernel, unit * factor, size, LOG2_C, 1)))
            losses = [trial.best_loss for _, trial in tried]
            if losses[-1] > PATIENCE * min(losses) or (len(losses) > 2 and losses[-1] > (1 - GAIN) * losses[-2]):
                break
        A = pruned(min(tried, key=lambda each: each[1].best_loss)[0], P, rows.weight)
        climb = self._climb(rows, through(P, A), view.kernel, factor, size, n_jobs=1)
        trials = [trial for _, trial in tried] + [*climb.trials, climb.best]
        return replace(view, metric=A, gamma=climb.best.width), trials

    def _factor(self, rows: Rows, U: np.ndarray, view: View) -> float:
        return view.gamma / heuristic_gamma(view.kernel, U, rows.weight, np.random.RandomState(self.seed))

    def _sharpen(self, rows: Rows, P: np.ndarray, view: View, C: float) -> np.ndarray:
        """The next metric, from gradients of the predictor of this view."""
        U = through(P, view.metric)
        posed = replace(rows, X=U)
        features = fitted_map(self.budget.metric_landmarks, view.kernel, view.gamma, posed, self.seed, 1)
        stats = nystrom_statistics(features, posed, n_jobs=1)
        beta = RidgePath(stats, fit_intercept=self.fit_intercept).weights(np.array([C]))[0][:, 0]
        some = slice(None, GRADIENT_ROWS)
        weight = None if rows.weight is None else rows.weight[some]
        G = gradients(features.cross_kernel_, U[some], features.weight_to_landmarks(beta))
        return sharpened(view.metric, average_outer_product(G, weight))
