"""Adaptive models by squares: the global model, and a local stage on what it leaves over.

The rows are in memory (:class:`SquaredStages`), or summed elsewhere, pass after pass (:class:`SquaredPasses`).
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import FoldModels, HeldOut, fold_sample, leave_one_out_sample
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_pairs, merged
from ulmus.models._global import GlobalModel, landmarks_in
from ulmus.models._stages import Stages, Work, fit_local, held_sets, landmarks_of, say_scored, score_local
from ulmus.solvers.local import LocalKernels
from ulmus.tuning.local import LocalChoice
from ulmus.tuning.metric import quietly

#: Rows whose leave-one-out predictions choose the C of the global model: a twentieth, at least and at most.
SCORED = 1_500, 10_000
#: Rows for a landmark from which on twice the landmarks are tried: of fewer, half as many had gained nothing.
MANY_ROWS = 16


def scored_count(n_rows: int) -> int:
    """How many of this many rows choose C: the largest errors, which decide, are few."""
    return int(np.clip(n_rows // 20, *SCORED))


@dataclass(frozen=True)
class SquaredStages:
    """Global model and leaves by squares."""

    work: Work
    fit_intercept: bool = False
    #: Whether others leave rows out of the fitted stages.
    left_out_later: bool = False
    #: A C that is good with fewer landmarks, if one is known.
    near_C: float | None = None

    def fit(self, landmarks: int) -> Stages:
        """Global model, and the local stage where it pays."""
        rows, rng = self.work.rows, self.work.rng
        with engine.threads_for(self.work.effort.landmarks):
            scored = distinct_pairs(rows, scored_count(len(rows)), rng)
            model = self._fit_global(scored, landmarks)
            self.work.enter("local stage")
            held = held_sets(rows, rng) if self.work.effort.partitions else []
            P, *P_without = model.predictions(model.solution, *map(model.without, held))
            choice, held_out, local = None, None, None
            if held:
                choice, held_out = score_local(self.work, held, P_without)
                say_scored(self.work, choice, choice.pays)
            if choice is not None and choice.pays:  # on what the global model leaves over
                local = fit_local(self.work, merged(replace(rows, T=rows.T - P), rng), choice)
        if local is None:
            model = self._larger(model, scored)
        with engine.threads_for(model.size):
            if not self.left_out_later and (held_out is None or local is None):
                held_out = self._left_out(model, rng)
        solution = model.solution
        return Stages(
            *(model.landmark_map, model.trial.best_C, solution.beta, solution.intercept, local, held_out),
            leverage=solution.leverage,
            local_losses=None if choice is None else (choice.loss, choice.loss_without),
        )

    def _fit_global(self, scored: Any, landmarks: int) -> GlobalModel:
        size, seed = landmarks_of(self.work.rows, landmarks), int(self.work.rng.randint(2**31 - 1))
        return GlobalModel.of(self.work, size, seed, scored, self.fit_intercept, self.near_C)

    def _larger(self, model: GlobalModel, scored: Any) -> GlobalModel:
        """What leaves do not find, more landmarks may: the global model with twice as many, where it is better."""
        rows, size = self.work.rows, 2 * self.work.effort.landmarks
        room = len(rows) >= MANY_ROWS * size and 8 * size * (size + rows.X.shape[1]) <= self.work.max_bytes
        if not (self.work.effort.grows and room and 2 * model.size >= size and model.wants_more):
            return model
        larger = self._fit_global(scored, size)
        return min((model, larger), key=lambda each: each.trial.best_loss)

    def _left_out(self, model: GlobalModel, rng: np.random.RandomState) -> HeldOut:
        """Predictions of rows by global models that did not see them: without each of them, or without their fold."""
        if model.seen.fold is None:
            found: HeldOut = self.work.backend.left_out(
                model.features, model.seen, model.solution, rng, model.trial.best_C
            )
            return found
        sums = self.work.backend.on_host(model.sums)
        models = FoldModels(model.seen.fold, sums, model.trial.best_C, self.fit_intercept)
        return fold_sample(model.features, model.seen, models, rng)


@dataclass
class SquaredPasses:
    """Global model and leaves by squares; the rows of ``work`` are a sample."""

    work: Work
    fit_intercept: bool = False
    #: What the sample has decided: landmarks, rows that choose C, chance as it was afterwards.
    chosen: dict[str, Any] = field(default_factory=dict)
    model: GlobalModel | None = None
    tolerance: None = None

    def begin(self, landmarks: int) -> None:
        """Draw landmarks, and the rows that choose C."""
        rows = self.work.rows
        scored = distinct_pairs(rows, scored_count(len(rows)), self.work.rng)
        self.chosen = {"scored": scored, "map": self._map(landmarks_of(self.work.rows, landmarks))}

    def _map(self, size: int) -> NystromMap:
        work, seed = self.work, int(self.work.rng.randint(2**31 - 1))
        return landmarks_in(work.view, work.rows, size, seed, work.backend)

    @property
    def landmark_map(self) -> NystromMap:
        return self.chosen["map"]

    def fit(self, passes: Any) -> None:
        """The global model of all rows."""
        self.model = self._fitted(self.landmark_map, passes)

    def _fitted(self, landmarks: NystromMap, passes: Any) -> GlobalModel:
        with engine.threads_for(landmarks.n_features_out):
            work = replace(self.work, backend=Host(self.work.n_jobs))
            again, sums = partial(passes.again, landmarks), passes.sums(landmarks)
            return GlobalModel.of_sums(work, landmarks, sums, self.chosen["scored"], self.fit_intercept, again)

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and constants of the global model."""
        assert self.model is not None
        return self.model.solution.beta, self.model.solution.intercept

    def scored(self, rows: Rows, leaf_rows: int) -> tuple[LocalChoice, HeldOut] | None:
        """The best local stage on regions of the rows, by some of them that the global model has not seen."""
        assert self.model is not None
        rng, effort = self.work.rng, replace(self.work.effort, leaf_rows=leaf_rows, wide_leaf_rows=leaf_rows)
        held = held_sets(rows, rng)
        if not held:
            return None
        with quietly(), engine.threads_for(self.model.size):
            P = [self._without(rows, mask) for mask in held]
            work = replace(self.work, rows=rows, effort=effort, backend=Host(self.work.n_jobs))
            return score_local(work, held, P)

    def _without(self, rows: Rows, mask: np.ndarray) -> np.ndarray:
        """Predictions of the global model without some of the rows."""
        assert self.model is not None
        without = self.model.without_rows(rows.take(mask))
        weights = self.landmark_map.weight_to_landmarks(without.beta)
        kernel, n_jobs = self.landmark_map.cross_kernel_, self.work.n_jobs
        return np.asarray(engine.apply(kernel, rows.X, weights, n_jobs=n_jobs) + without.intercept)

    def grown(self, passes: Any) -> None:
        """What leaves do not find, more landmarks may: twice as many, where they are better."""
        assert self.model is not None
        size = 2 * self.work.effort.landmarks
        room = 8 * size * (size + self.work.rows.X.shape[1]) <= self.work.max_bytes and len(self.work.rows) >= 2 * size
        if not (self.work.effort.grows and room and 2 * self.model.size >= size and self.model.wants_more):
            return
        larger = self._fitted(self._map(size), passes)
        self.model = min((self.model, larger), key=lambda each: each.trial.best_loss)

    def stages(self, local: LocalKernels | None, held_out: HeldOut | None, losses: Any) -> Stages:
        """All that was fitted; ``losses`` are those with leaves and without."""
        assert self.model is not None
        model, solution = self.model, self.model.solution
        if held_out is None:
            with engine.threads_for(model.size):
                held_out = leave_one_out_sample(
                    model.features, model.seen, solution, self.work.rng, model.trial.best_C, n_jobs=self.work.n_jobs
                )
        return Stages(
            *(model.landmark_map, model.trial.best_C, solution.beta, solution.intercept, local, held_out),
            leverage=solution.leverage,
            local_losses=losses,
        )
