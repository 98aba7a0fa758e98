r"""Choosing the width of a kernel, and the metric in which it sees the rows, by exact leave-one-out on a sample.

A fitted predictor tells how much it moves with each feature (:mod:`ulmus.features.metric`); in the metric that this
gives, a new predictor is fitted, and so on, while the leave-one-out loss falls.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import uses_gamma
from ulmus.features.landmarks import heuristic_gamma
from ulmus.features.metric import average_outer_product, gradients, low_rank, pruned, sharpened, through
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.statistics import Statistics
from ulmus.tuning.folds import renumbered
from ulmus.tuning.scorer import PRECOMPUTED_BYTES, Scorer, Trial
from ulmus.tuning.sketch import FEW, FURTHER, Distances, Sketch, has_distances, ridge_weights
from ulmus.tuning.surface import GAP, climb, lowest

#: log2 of the C of a trial; the scorer goes beyond the ends when the best is there.
LOG2_C = np.arange(-4.0, 11.0, 2.0)
#: A C so large that a first trial begins there, and with which steps: the usual ones would have to be widened.
FAR_C, FAR = 2.0**14, np.arange(-5.0, 3.0)
#: Steps around a good log2 C; one more costs far less than to come back for it.
NEAR = np.arange(-4.5, 5.0, 1.5)
#: Widths, relative to one over the median distance, between which the climb moves.
FACTOR = 2.0
#: Widths that a climb tries at most.
MOST_WIDTHS = 8
#: A width is left for its neighbour only when that is better by this share: flat kernels tie with ever larger C.
PROGRESS = 0.01
#: Rows that are left out one by one to score a trial, at least; of more than twice as many, half of them.
SCORED = 1_500
#: Rows whose distances tell the heuristic width.
UNIT_ROWS = 200
#: Rows at which gradients are taken; fewer where each has those of many outputs, but not less than the second.
GRADIENT_ROWS, FEWEST_GRADIENTS, GRADIENTS = 1_500, 300, 12_000
#: A round of the metric may be worse by this factor without ending the search.
PATIENCE = 1.005
#: The first round must lower it by this share, and every other by :data:`PROGRESS`, for another to follow.
STALLED = 0.005
#: A metric of few rows is averaged with none, in this share, unless it lowers the loss to less than the second share.
LEARNED, CLEARLY = 0.5, 0.4
#: Share of the mean squared slope that the directions of a low-rank metric hold together.
KEPT_SLOPE = 0.99

Rounds = list[tuple[np.ndarray, Trial]]

FORMS = ("diagonal", "full", "low_rank")


def first_C(good: float | None) -> np.ndarray:
    """The log2 C of a first trial: about one that is known to be good where that is far beyond the usual ones."""
    return LOG2_C if good is None or good < FAR_C else np.rint(np.log2(good)) + FAR


@contextmanager
def quietly() -> Iterator[None]:
    """That some landmarks depend on others is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        yield


@dataclass(frozen=True)
class Scored:
    """A trial, with the map and the sums that it was made of."""

    trial: Trial
    features: NystromMap | Sketch
    sums: Statistics


@dataclass(frozen=True)
class Climb:
    """The trials of one kernel, the best of them, and its width in units of the heuristic one."""

    trials: tuple[Trial, ...]
    best: Trial
    factor: float


@dataclass(frozen=True)
class MetricSearch:
    """Scores widths and metrics; rows are given with the coordinates that the kernel is to see.

    They come in random order. The first are the landmarks, whatever metric shows them: with landmarks of its own, a
    metric could be better by luck. Trials are called by the ``preparation`` and the ``metric`` that they were seen by.
    """

    coding: Coding
    seed: int
    fit_intercept: bool
    criterion: str = "auto"
    form: str = "diagonal"
    shape: dict[str, Any] = field(default_factory=dict)
    preparation: str = ""
    metric: str = "plain"
    wary: bool = False

    def through(self, A: np.ndarray) -> "MetricSearch":
        """The same search of rows that are given as a metric shows them."""
        plain = np.array_equal(A, np.ones(len(A)) if A.ndim == 1 else np.eye(len(A)))
        return replace(self, metric="plain" if plain else "learned")

    def score(
        self, rows: Rows, kernel: str, gamma: float, landmarks: int, log2_C: np.ndarray, n_jobs: int | None
    ) -> Scored:
        """Losses of every C, by leave-one-out, or by folds where the rows have some."""
        return self._score(
            rows, kernel, gamma, landmarks, log2_C, n_jobs, self._distances(rows, kernel, gamma, landmarks, n_jobs)
        )

    def _distances(self, rows: Rows, kernel: str, gamma: float, landmarks: int, n_jobs: int | None) -> Distances | None:
        """Between rows and landmarks, where they fit in memory."""
        if 8 * len(rows) * min(landmarks, len(rows)) > PRECOMPUTED_BYTES:
            return None
        return Distances.of(rows.X, kernel, gamma, landmarks, self.shape, n_jobs)

    def _score(
        self,
        rows: Rows,
        kernel: str,
        gamma: float,
        landmarks: int,
        log2_C: np.ndarray,
        n_jobs: int | None,
        distances: Distances | None,
        keep: bool = False,
    ) -> Scored:
        """The same, from distances, which are kept on demand; without them, or a factor, by a map of all digits."""
        scorer = Scorer(
            rows,
            self.coding,
            partial(nystrom_statistics, n_jobs=n_jobs),
            self.fit_intercept,
            criterion=self.criterion,
            folds=renumbered(rows.fold),
            n_jobs=n_jobs,
            rough=True,
        )
        if rows.fold is None and len(rows) > SCORED:  # they come in random order
            some = max(SCORED, len(rows) // 2)
            scorer = replace(scorer, scored=np.arange(some), mass=scorer.scored_weight[:some])
        if distances is not None:
            sketch = Sketch.of(distances, gamma / distances.cross.parameters.gamma, keep=keep)
            if sketch is not None:
                trial, sums = self._scored(scorer, rows, sketch, gamma, log2_C)
                return Scored(self._named(trial, kernel), sketch, sums)
        first = rows.X[:landmarks]
        seen_by = NystromMap(len(first), landmarks=first, kernel=kernel, gamma=gamma, n_jobs=n_jobs, **self.shape)
        seen_by.fit(rows.X, sample_weight=rows.weight)
        scorer, features = scorer.precomputed(seen_by, raw=True)
        summary = scorer.summarise(features)
        trial = scorer.trial("view", gamma, features, summary, log2_C)
        return Scored(self._named(trial, kernel), seen_by, summary.total)

    @staticmethod
    def _scored(
        scorer: Scorer, rows: Rows, sketch: Sketch, gamma: float, log2_C: np.ndarray
    ) -> tuple[Trial, Statistics]:
        """Losses and sums: of raw kernel values where they have digits for the best C, and otherwise of white rows."""
        features, most = sketch.precomputed, float(np.log2(sketch.most_C(rows.total_weight)))
        if features.n_features_out > FEW and np.median(log2_C) <= most - GAP:
            sums = partial(sketch.statistics, n_jobs=scorer.n_jobs)
            raw = replace(
                scorer, rows=replace(rows, X=sketch.K), statistics_of=sums, whitening=sketch.whitening_, most=most
            )
            summary = raw.summarise(features)
            trial = raw.trial("view", gamma, features, summary, log2_C)
            if np.log2(trial.best_C) <= most - GAP:
                return trial, summary.total
        exact = partial(engine.gram_statistics, n_jobs=scorer.n_jobs)
        white = replace(scorer, rows=sketch.white(rows), statistics_of=exact, most=most + float(np.log2(FURTHER)))
        summary = white.summarise(features)
        return white.trial("view", gamma, features, summary, log2_C), summary.total

    def _named(self, trial: Trial, kernel: str) -> Trial:
        return replace(trial, preparation=self.preparation, kernel=kernel, metric=self.metric)

    def unit(self, kernel: str, rows: Rows) -> float:
        """The heuristic width."""
        return heuristic_gamma(kernel, rows.X, rows.weight, np.random.RandomState(self.seed), UNIT_ROWS)

    def climb(
        self,
        rows: Rows,
        kernel: str,
        factor: float,
        landmarks: int,
        n_jobs: int | None,
        known: Mapping[float, Trial] = MappingProxyType({}),
        hopeless: float = np.inf,
    ) -> Climb:
        """Walk to the best width, from this many times the heuristic one, unless the loss there is ``hopeless``.

        Trials of some factors are ``known``, and come first.
        """
        middle = factor * self.unit(kernel, rows)
        trials = {round(float(np.log2(known_at / factor) / np.log2(FACTOR))): each for known_at, each in known.items()}
        shared = self._distances(rows, kernel, middle, landmarks, n_jobs) if has_distances(kernel) else None

        def score(step: int, log2_C: np.ndarray) -> Trial:
            gamma = middle * FACTOR**step
            distances = shared or self._distances(rows, kernel, gamma, landmarks, n_jobs)
            return self._score(rows, kernel, gamma, landmarks, log2_C, n_jobs, distances, keep=True).trial

        def better(here: int) -> int:
            for there in (here - 1, here + 1) if uses_gamma(kernel) and len(trials) < MOST_WIDTHS else ():
                if there not in trials:
                    trials[there] = score(there, np.log2(trials[here].best_C) + NEAR)
                ratio = trials[there].best_loss / max(trials[here].best_loss, np.finfo(float).tiny)
                if ratio < 1 + PROGRESS:  # where it is no better, a convex loss gains no more on the other side
                    return there if ratio < 1 - PROGRESS else here
            return here

        if 0 not in trials:
            trials[0] = score(0, LOG2_C)
        here = climb(better) if trials[0].best_loss < hopeless else 0
        return Climb(tuple(trials.values()), trials[here], factor * FACTOR**here)

    def rounds(
        self,
        rows: Rows,
        kernel: str,
        factor: float,
        landmarks: int,
        rounds: int,
        n_jobs: int | None,
        last: Scored | None = None,
        begin: np.ndarray | None = None,
        near: float | None = None,
    ) -> Rounds:
        """Metrics in turn, each from the gradients of the last predictor, and their trials.

        The first is none, whose trial is ``last``, where it is known; then that to ``begin`` with. With the latter
        alone, none is not tried. A good C of the first trial may be known to be ``near``.
        """
        d = rows.X.shape[1]
        A, seen = np.ones(d) if self.form == "diagonal" else np.eye(d), rows
        plain = begin is None or np.array_equal(begin, A)
        if last is None:
            A, seen = (A, rows) if begin is None else (begin, replace(rows, X=through(rows.X, begin)))
            gamma, plain = factor * self.unit(kernel, seen), True
            last = self.through(A).score(seen, kernel, gamma, landmarks, first_C(near), n_jobs)
        tried = [(A, last.trial)]
        if begin is not None and not plain:
            A = begin
            last, seen = self._through(A, rows, kernel, factor, landmarks, n_jobs, last.trial)
            tried.append((A, last.trial))
        for _ in range(rounds):
            A = self._sharpen(seen, A, last)
            last, seen = self._through(A, rows, kernel, factor, landmarks, n_jobs, last.trial)
            tried.append((A, last.trial))
            losses = [trial.best_loss for _, trial in tried]
            worth = PROGRESS if len(losses) > 2 else STALLED
            if losses[-1] > PATIENCE * min(losses) or losses[-1] > (1 - worth) * losses[-2]:
                break
        return tried

    def sharpest(
        self,
        rows: Rows,
        kernel: str,
        factor: float,
        landmarks: int,
        rounds: int,
        n_jobs: int | None,
        last: Scored | None = None,
        begin: np.ndarray | None = None,
        near: float | None = None,
    ) -> tuple[np.ndarray, Climb]:
        """Rounds of the metric at one width (see :meth:`rounds`), then the best width for the best of them."""
        tried = self.rounds(rows, kernel, factor, landmarks, rounds, n_jobs, last, begin, near)
        best, trial = tried[lowest(np.array([trial.best_loss for _, trial in tried]))]  # the plainest of equals
        A, trials = self._trimmed(best, rows), [trial for _, trial in tried]
        if self.wary and trial is not tried[0][1] and trial.best_loss > CLEARLY * tried[0][1].best_loss:
            A = self._halfway(kernel, rows, best)
            trial = self._through(A, rows, kernel, factor, landmarks, n_jobs, trial)[0].trial
            trials.append(trial)
        elif not np.array_equal(A, best):
            fewer = self._through(A, rows, kernel, factor, landmarks, n_jobs, trial)[0].trial
            trials.append(fewer)
            harmless = fewer.best_loss < PATIENCE * trial.best_loss
            A, trial = (A, fewer) if harmless or self.form == "low_rank" else (best, trial)
        seen = replace(rows, X=through(rows.X, A))
        climb = self.through(A).climb(seen, kernel, factor, landmarks, n_jobs, {factor: trial})
        return A, replace(climb, trials=(*trials, *climb.trials[1:]))

    def _through(
        self, A: np.ndarray, rows: Rows, kernel: str, factor: float, landmarks: int, n_jobs: int | None, near: Trial
    ) -> tuple[Scored, Rows]:
        """A trial of the rows as a metric shows them, and those rows; a good C was ``near``."""
        seen = replace(rows, X=through(rows.X, A))
        gamma, grid = factor * self.unit(kernel, seen), np.log2(near.best_C) + NEAR
        return self.through(A).score(seen, kernel, gamma, landmarks, grid, n_jobs), seen

    def _halfway(self, kernel: str, rows: Rows, A: np.ndarray) -> np.ndarray:
        """The mean of a diagonal metric and none, each by its median distance: of two L1 kernels the product."""
        units = (self.unit(kernel, replace(rows, X=through(rows.X, A))), self.unit(kernel, rows))
        mean = LEARNED * units[0] * A + (1 - LEARNED) * units[1]
        return np.asarray(mean / mean.max())

    def _trimmed(self, A: np.ndarray, rows: Rows) -> np.ndarray:
        """The metric without what hardly matters in it."""
        if self.form == "diagonal":
            return pruned(A, rows.X, rows.weight)
        if self.form == "full":
            return A
        shares = np.sort(np.linalg.eigvalsh(A) ** 2)[::-1]
        return low_rank(A, 1 + int(np.searchsorted(np.cumsum(shares), KEPT_SLOPE * shares.sum())))

    def _sharpen(self, seen: Rows, A: np.ndarray, last: Scored) -> np.ndarray:
        """The next metric, from gradients of the predictor in this one."""
        beta = ridge_weights(last.sums, last.trial.best_C, self.fit_intercept)
        some = slice(None, min(GRADIENT_ROWS, max(GRADIENTS // beta.shape[1], FEWEST_GRADIENTS)))
        weight = None if seen.weight is None else seen.weight[some]
        G = gradients(last.features.cross_kernel_, seen.X[some], last.features.weight_to_landmarks(beta))
        return sharpened(A, average_outer_product(G, weight, diagonal=A.ndim == 1))
