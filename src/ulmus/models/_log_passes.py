"""Adaptive classification by log loss, pass by pass: C from a sample, weights by gradients of all rows, regions."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import random_partition
from ulmus.models._log_global import KEPT
from ulmus.models._log_stage import LEAF_TOLERANCE, SMALLER, LogStages, together
from ulmus.models._stages import Stages, Work
from ulmus.solvers.local import LocalKernels
from ulmus.solvers.log_loss import proportions, targets
from ulmus.solvers.log_passes import direction, minimise_by_passes
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.softmax import FeatureObjective, warn_unfinished
from ulmus.tuning.local import LOG, LocalChoice, LocalSearch, Remainder
from ulmus.tuning.log_held import log_held_sets, posed
from ulmus.tuning.log_path import weights_of
from ulmus.tuning.metric import quietly

#: Passes over all rows, at most, of one fit.
MAX_PASSES = 30


@dataclass
class LogPasses:
    """Global model and leaves by log loss; the rows of ``work`` are a sample of rows that weigh ``total``."""

    work: Work
    total: float
    near_C: float = 1.0
    #: What the sample has decided: landmarks, C with leaves and without, where to begin, rows held out.
    chosen: dict[str, Any] = field(default_factory=dict)
    tolerance: float = LEAF_TOLERANCE

    def begin(self, landmarks: int) -> None:
        """Choose landmarks and C by the sample's rows held out."""
        stages = LogStages(self.work, self.near_C)
        found = stages.chosen(landmarks)
        model, best = found.model, found.model.best
        trials = [model.trials[found.place], model.trials[best]]
        self.chosen = {
            "map": model.landmark_map,
            "C": tuple(trial.C for trial in trials),
            "start": tuple(weights_of(trial.solutions[0], True) for trial in trials),
            "held_out": stages.held_scores(model, best),
        }

    @property
    def landmark_map(self) -> NystromMap:
        return self.chosen["map"]

    def fit(self, passes: Any) -> None:
        """The global model of all rows, with the C that leaves were better behind."""
        self._fit(0, passes)

    def _fit(self, which: int, passes: Any) -> None:
        self.C = self.chosen["C"][which]
        features, whitening = summed_form(self.landmark_map)
        problem = replace(posed(self.landmark_map, self.work.rows, self.work.max_bytes, self.work.n_jobs), C=self.C)
        weight = problem.weight * (self.total / problem.weight.sum())
        self.few = FeatureObjective(replace(problem, rows=replace(problem.rows, weight=weight)))
        sweep = passes.log_sweep(features, whitening, self.few.m)
        found = minimise_by_passes(self.few, self.chosen["start"][which], sweep, tol=KEPT, max_passes=MAX_PASSES)
        warn_unfinished(found, self.C)
        self.v = found.v
        self.work.say(
            f"global log model: {self.landmark_map.n_features_out} landmarks, C = {self.C:.3g}, {found.n_passes} passes"
        )

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and constants of the global model."""
        return self._parted(self.v)

    def _parted(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = v[-1]
        return v[:-1], b - (b.mean() if len(b) > 1 else 0.0)

    def _scores(self, v: np.ndarray, U: np.ndarray) -> np.ndarray:
        beta, b = self._parted(v)
        weights = self.landmark_map.weight_to_landmarks(beta)
        return engine.apply(self.landmark_map.cross_kernel_, U, weights, n_jobs=self.work.n_jobs) + b

    def scored(self, rows: Rows, leaf_rows: int) -> tuple[LocalChoice, HeldOut] | None:
        """The best local stage on regions of the rows, by some of them that the global model has not seen.

        It forgets them by a step of Newton's method: what they added to the gradient is taken away.
        """
        rng, effort = self.work.rng, self.work.effort
        out = log_held_sets(rows, rng)[0]
        held = out > 0
        w = rows.weights
        left = w - out > 0
        if not (held.any() and left.any()):
            return None
        with quietly(), engine.threads_for(self.landmark_map.n_features_out):
            gone = rows.take(held)
            Phi = np.ones((len(gone), self.few.size))
            Phi[:, :-1] = engine.transform(self.landmark_map, gone.X, n_jobs=1)
            E = (proportions(self._scores(self.v, gone.X)) - targets(gone.T)) * out[held, None]
            F = self._scores(self.v + direction(self.few, self.v, -Phi.T @ E), rows.X)
            some, offset = together(replace(rows.take(left), weight=(w - out)[left]), F[left], rng)
            data = Remainder(some.X, some.T, some.weight, gone.X, gone.T, F[held], out[held], offset)
            about = (self.work.view.kernel, self.work.view.gamma, data, self.work.coding, self.work.criterion)
            search = LocalSearch(*about, self.work.n_jobs, LOG)
            small, whole = (random_partition(some.X, size, rng) for size in (leaf_rows // SMALLER, leaf_rows))
            leaves = search.leaves(small, SMALLER * effort.scored_leaves)
            choice = search.on_full_leaves(leaves, leaves.climb(), whole, effort.scored_leaves)
        test = gone.take(choice.rows)
        return choice, HeldOut(test.T, choice.P, np.zeros(len(test)), out[held][choice.rows])

    def grown(self, passes: Any) -> None:
        """Without leaves, the C that is best without them."""
        if self.chosen["C"][1] != self.C:
            self._fit(1, passes)

    def stages(self, local: LocalKernels | None, held_out: HeldOut | None, losses: Any) -> Stages:
        """All that was fitted; ``losses`` are those with leaves and without."""
        held_out = self.chosen["held_out"] if held_out is None else held_out
        return Stages(self.landmark_map, self.C, *self.weights, local, held_out, local_losses=losses)
