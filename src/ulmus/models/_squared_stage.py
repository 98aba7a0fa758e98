"""Adaptive models by squares: the global model, and a local stage on what it leaves over."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import FoldModels, HeldOut, fold_sample
from ulmus.engine import Rows
from ulmus.features.sampling import distinct_pairs, merged
from ulmus.models._global import GlobalModel
from ulmus.models._local_stage import held_sets, score_local
from ulmus.models._stages import Stages, Work, landmarks_of
from ulmus.solvers.local import LocalKernels
from ulmus.tuning.local import LocalChoice

#: Rows whose leave-one-out predictions choose the C of the global model.
SCORED = 1_500
#: Rows for a landmark from which on twice the landmarks are tried: of fewer, half as many had gained nothing.
MANY_ROWS = 16


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
        rows, coding, rng = self.work.rows, self.work.coding, self.work.rng
        with engine.threads_for(self.work.effort.landmarks):
            scored = distinct_pairs(rows, SCORED, rng)
            model = self._fit_global(rows, coding, scored, landmarks, rng)
            self.work.enter("local stage")
            held = held_sets(rows, rng) if self.work.effort.partitions else []
            P, *P_without = model.predictions(model.solution, *map(model.without, held))
            choice, held_out = self._score_local(rows, held, P_without, coding, rng)
            local = self._fit_local(rows, P, choice, rng)
        if local is None:
            model = self._larger(model, rows, coding, scored, rng)
        with engine.threads_for(model.size):
            if not self.left_out_later and (held_out is None or local is None):
                held_out = self._left_out(model, rng)
        solution = model.solution
        return Stages(
            *(model.landmark_map, model.trial.best_C, solution.beta, solution.intercept, local, held_out),
            leverage=solution.leverage,
            local_losses=None if choice is None else (choice.loss, choice.loss_without),
        )

    def _fit_global(
        self, rows: Rows, coding: Any, scored: Any, landmarks: int, rng: np.random.RandomState
    ) -> GlobalModel:
        model = GlobalModel.of(
            rows,
            self.work.view,
            landmarks_of(rows, landmarks),
            int(rng.randint(2**31 - 1)),
            coding=coding,
            criterion=self.work.criterion,
            scored=scored,
            fit_intercept=self.fit_intercept,
            backend=self.work.backend,
            near_C=self.near_C,
        )
        trial = model.trial
        self.work.say(f"global model: {model.size} landmarks, C = {trial.best_C:.3g}, loss {trial.best_loss:.4g}")
        return model

    def _larger(
        self, model: GlobalModel, rows: Rows, coding: Any, scored: Any, rng: np.random.RandomState
    ) -> GlobalModel:
        """What leaves do not find, more landmarks may: the global model with twice as many, where it is better."""
        size = 2 * self.work.effort.landmarks
        room = len(rows) >= MANY_ROWS * size and 8 * size * (size + rows.X.shape[1]) <= self.work.max_bytes
        if not (self.work.effort.grows and room and 2 * model.size >= size and model.wants_more):
            return model
        larger = self._fit_global(rows, coding, scored, size, rng)
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

    def _score_local(
        self, rows: Rows, held: list[np.ndarray], P: list[np.ndarray], coding: Any, rng: np.random.RandomState
    ) -> tuple[LocalChoice | None, HeldOut | None]:
        """The best local stage, scored on rows that the global models behind it (which predict P) have not seen."""
        if not held:
            return None, None
        choice, held_out = score_local(
            rows, held, P, self.work.view, self.work.effort, coding, self.work.criterion, rng, self.work.backend
        )
        self.work.say(
            f"local stage: loss {choice.loss:.4g} against {choice.loss_without:.4g} without it "
            f"({'kept' if choice.pays else 'left out'})"
        )
        return choice, held_out

    def _leaves(self, rest: Rows, choice: LocalChoice, rounds: int, rng: np.random.RandomState) -> LocalKernels:
        """Leaves of this many partitions, fitted to what a global model leaves over."""
        size, gamma = self.work.effort.leaf(len(rest)), choice.width * self.work.view.gamma
        rounds = rounds if len(rest) > size else 1  # there is but one way to put all rows into one leaf
        partitions = tuple(self.work.backend.partition(rest.X, size, rng) for _ in range(rounds))
        kernel, ridge = self.work.view.kernel, choice.ridge
        alphas = self.work.backend.fit_leaves(kernel, gamma, ridge, rest.X, rest.T, rest.weight, partitions)
        return LocalKernels(kernel, gamma, rest.X, partitions, tuple(alphas), ridge, rest.weight)

    def _fit_local(
        self, rows: Rows, P: np.ndarray, choice: LocalChoice | None, rng: np.random.RandomState
    ) -> LocalKernels | None:
        """The local stage on what the global model, which predicts P, leaves over."""
        if choice is None or not choice.pays:
            return None
        rest = merged(replace(rows, T=rows.T - P), rng)
        each = rest.T.nbytes + 8 * len(rest)
        rounds = min(self.work.effort.partitions, int((self.work.max_bytes - rest.X.nbytes) // each))
        if rounds < 1:
            self.work.say(f"local stage left out: it needs {(rest.X.nbytes + each) / 1e9:.2g} GB")
            return None
        return self._leaves(rest, choice, rounds, rng)
