"""Adaptive models by squares, pass by pass: the global model from sums, the local stage on regions of the rows."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import HeldOut, leave_one_out_sample
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_pairs
from ulmus.models._global import GlobalModel, landmarks_in
from ulmus.models._local_stage import held_sets, score_local
from ulmus.models._squared_stage import SCORED
from ulmus.models._stages import Stages, Work, landmarks_of
from ulmus.solvers.local import LocalKernels
from ulmus.tuning.local import LocalChoice
from ulmus.tuning.metric import quietly


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
        scored = distinct_pairs(self.work.rows, SCORED, self.work.rng)
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
            model = GlobalModel.of_sums(
                landmarks,
                self.work.rows,
                passes.sums(landmarks),
                self.work.view.gamma,
                coding=self.work.coding,
                criterion=self.work.criterion,
                scored=self.chosen["scored"],
                fit_intercept=self.fit_intercept,
                backend=Host(self.work.n_jobs),
                again=lambda C: passes.again(landmarks, C),
            )
        trial = model.trial
        self.work.say(f"global model: {model.size} landmarks, C = {trial.best_C:.3g}, loss {trial.best_loss:.4g}")
        return model

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
            return score_local(
                *(rows, held, P, self.work.view, effort, self.work.coding, self.work.criterion, rng),
                Host(self.work.n_jobs),
            )

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
