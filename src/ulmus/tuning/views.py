r"""Choosing how a kernel looks at a table: preparation, kernel, width and metric, by exact leave-one-out on a sample.

A *view* turns rows into the coordinates that the kernel sees, :math:`u = A\,\text{prepare}(x)`, and says which kernel
and which ``gamma`` to use on them.

1. The L1-Laplacian on every preparation, then Matérn-3/2 on the best of them; the width by climbing on a logarithmic
   scale.
2. The metric: gradients of the best predictor so far, on a larger sample, give the next ``A``
   (:mod:`ulmus.features.metric`); a round is kept when leave-one-out improves.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import heuristic_gamma
from ulmus.features.metric import average_outer_product, gradients, sharpened, through
from ulmus.features.nystrom import NystromMap
from ulmus.features.preparation import PARTS, PREPARATIONS, Preparation
from ulmus.features.sampling import distinct_sample, row_keys
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.path import RidgePath
from ulmus.tuning.judge import Judge, Trial

#: log2 of the C of a trial; the judge goes beyond the ends when the best is there.
LOG2_C = np.arange(-4.0, 11.0, 2.0)
#: Steps around a good log2 C.
NEAR = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
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
    rounds: int = 2


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


def fitted_map(landmarks: int, kernel: str, gamma: float, rows: Rows, seed: int, n_jobs: int | None) -> NystromMap:
    """A map of these rows; that some landmarks depend on others is no news here."""
    features = NystromMap(landmarks, kernel=kernel, gamma=gamma, random_state=seed, n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return features.fit(rows.X, sample_weight=rows.weight)


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
        self.seed = int(rng.randint(2**31 - 1))
        self.trials: list[Trial] = []

    def choose(self) -> View:
        """The view with the lowest leave-one-out loss."""
        sample = self._sample(self.budget.rows)
        part = parts_of(sample.X, self.rng)
        prepared = {kind: self._prepare(kind, sample) for kind in PREPARATIONS}
        coordinates = {
            kind: preparation.transform_learned(sample.X, sample.T, sample.weight, part)
            for kind, preparation in prepared.items()
        }
        found: list[tuple[Any, ...]] = []
        for kind in PREPARATIONS[::-1]:
            near = found[0][3:] if found else ()
            found.append((kind, "laplacian_l1", *self._climb(sample, coordinates[kind], "laplacian_l1", *near)))
        best = min(found, key=_handicapped)
        found.append((best[0], "matern32", *self._climb(sample, coordinates[best[0]], "matern32")))
        kind, kernel, trial, _ = min(found, key=_handicapped)
        view = View(prepared[kind], np.ones(coordinates[kind].shape[1]), kernel, trial.width)
        return self._with_metric(view)

    def _sample(self, count: int) -> Rows:
        return self.rows if self.rows.effective_count <= count else distinct_sample(self.rows, count, self.rng)[1]

    def _prepare(self, kind: str, rows: Rows) -> Preparation:
        return Preparation.of(kind, rows.X, rows.T, rows.weight, self.categorical)

    def _climb(
        self, rows: Rows, U: np.ndarray, kernel: str, factor: float = 1.0, landmarks: int | None = None
    ) -> tuple[Trial, float]:
        """The best trial near so many times the heuristic width, and that factor."""
        posed = replace(rows, X=U)
        unit = heuristic_gamma(kernel, U, rows.weight, np.random.RandomState(self.seed))
        trials: dict[int, Trial] = {}

        def loss(step: int) -> float:
            if step not in trials:
                grid = LOG2_C if not trials else np.log2(trials[here].best_C) + NEAR
                width = unit * factor * FACTOR**step
                trials[step] = self.judge(posed, kernel, width, landmarks or self.budget.landmarks, grid)
            return trials[step].best_loss

        here = 0
        while len(trials) < 8:
            best = min((here, here - 1, here + 1), key=loss)
            if best == here or loss(best) > (1 - GAIN) * loss(here):
                break
            here = best
        return trials[here], factor * FACTOR**here

    def judge(self, rows: Rows, kernel: str, gamma: float, landmarks: int, log2_C: np.ndarray) -> Trial:
        """Leave-one-out losses of every C."""
        features = self._map(kernel, gamma, landmarks, rows)
        judge = self._judge(rows)
        trial = judge.trial("view", gamma, features, judge.summarise(features), log2_C)
        self.trials.append(trial)
        return trial

    def _judge(self, rows: Rows) -> Judge:
        statistics = partial(nystrom_statistics, n_jobs=self.n_jobs)
        return Judge(rows, self.coding, statistics, self.fit_intercept, criterion=self.criterion, n_jobs=self.n_jobs)

    def _map(self, kernel: str, gamma: float, landmarks: int, rows: Rows) -> NystromMap:
        return fitted_map(landmarks, kernel, gamma, rows, self.seed, self.n_jobs)

    def _with_metric(self, view: View) -> View:
        """Rounds of the metric, on a larger sample; the best view wins."""
        if not self.budget.rounds or len(view.metric) < 2:
            return view
        rows = self._sample(self.budget.metric_rows)
        part = parts_of(rows.X, self.rng)
        preparation = self._prepare(view.preparation.columns.kind, rows)
        P = preparation.transform_learned(rows.X, rows.T, rows.weight, part)
        view = replace(view, preparation=preparation)
        trial, factor = self._climb(rows, P, view.kernel, self._factor(rows, P, view), self.budget.metric_landmarks)
        best, lowest = replace(view, gamma=trial.width), trial.best_loss
        here, C = best, trial.best_C
        for _ in range(self.budget.rounds):
            A = self._sharpen(rows, P, here, C)
            trial, factor = self._climb(rows, through(P, A), here.kernel, factor, self.budget.metric_landmarks)
            here, C = replace(here, metric=A, gamma=trial.width), trial.best_C
            if trial.best_loss > PATIENCE * lowest:
                break
            if trial.best_loss < lowest:
                best, lowest = here, trial.best_loss
        return best

    def _factor(self, rows: Rows, U: np.ndarray, view: View) -> float:
        return view.gamma / heuristic_gamma(view.kernel, U, rows.weight, np.random.RandomState(self.seed))

    def _sharpen(self, rows: Rows, P: np.ndarray, view: View, C: float) -> np.ndarray:
        """The next metric, from gradients of the predictor of this view."""
        U = through(P, view.metric)
        posed = replace(rows, X=U)
        features = self._map(view.kernel, view.gamma, self.budget.metric_landmarks, posed)
        stats = nystrom_statistics(features, posed, n_jobs=self.n_jobs)
        beta = RidgePath(stats, fit_intercept=self.fit_intercept).weights(np.array([C]))[0][:, 0]
        some = slice(None, GRADIENT_ROWS)
        weight = None if rows.weight is None else rows.weight[some]
        G = gradients(features.cross_kernel_, U[some], features.weight_to_landmarks(beta))
        return sharpened(view.metric, average_outer_product(G, weight))


def _handicapped(found: tuple[Any, ...]) -> float:
    kind, _, trial, _ = found
    return HANDICAP.get(kind, 1.0) * trial.best_loss
