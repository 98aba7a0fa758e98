"""Adaptive classification by log loss: the global model's C, the local stage, and scores of rows that were held out.

The rows are in memory (:class:`LogStages`), or seen in passes (:class:`LogPasses`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut, fit_temperature, probabilities
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import random_partition
from ulmus.features.sampling import distinct_pairs, left_out_together, merged
from ulmus.models._global import LOG_KEPT, LogGlobal
from ulmus.models._stages import Stages, Work, fit_local, landmarks_of, say_scored
from ulmus.solvers.local import LocalKernels
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.log_loss import losses as log_losses
from ulmus.solvers.log_loss import proportions, targets
from ulmus.solvers.log_passes import direction, minimise_by_passes
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.softmax import FeatureObjective, LogSolution, warn_unfinished
from ulmus.tuning.local import LOG, LocalChoice, LocalSearch, Remainder
from ulmus.tuning.log_choice import unkept
from ulmus.tuning.log_held import log_held_sets, posed
from ulmus.tuning.log_path import NOISE, weights_of
from ulmus.tuning.metric import quietly

#: Where all rows and landmarks lower the loss by this share, beside few of both, more landmarks are tried.
MORE = 0.04
#: Width and penalty are sought on leaves this many times smaller.
SMALLER = 4
#: Another global model is followed where leaves on it, at width and penalty of the first, lose less than this factor.
NEARLY = 1.01
#: What may be left of the objective of a leaf that is kept.
LEAF_TOLERANCE = 1e-3
#: Rows below which there is no local stage.
FEW = 300
#: Rows up to which a global model alone is calibrated by leave-one-out instead of the sets held out, which are a tenth
#: of them; rows that are left out at most; and the multiplications that it may take.
MOST_ROWS, LEFT_OUT, WORK = 20_000, 10_000, 4e10


@dataclass(frozen=True)
class LogChoice:
    """The global model and the place of its trial that is in use, the local stage that pays (or None), scores of rows
    held out, and the losses with and without leaves.
    """

    model: LogGlobal
    place: int
    choice: LocalChoice | None
    held_out: HeldOut
    losses: tuple[float, float] | None


@dataclass(frozen=True)
class LogStages:
    """Global model and leaves by log loss."""

    work: Work
    near_C: float = 1.0

    def fit(self, landmarks: int) -> Stages:
        """Path, local stage, and the models of all rows."""
        found = self.chosen(landmarks)
        model, held_out, place, choice = found.model, found.held_out, found.place, found.choice
        solution = model.fitted(place)
        local = None
        if choice is not None:
            some, offset = together(self.work.rows, solution.F, self.work.rng)
            local = fit_local(self.work, some, choice, offset, LEAF_TOLERANCE)
        if local is None and choice is not None:  # no memory for it
            place = model.best
            held_out, solution = self.held_scores(model, place), model.fitted(place)
        C = model.trials[place].C
        if local is None and self._leaves_out_each(held_out, model.size):
            held_out = self._left_out(model, solution, C)
        fitted = (model.landmark_map, C, solution.beta, solution.intercept, local, held_out)
        return Stages(*fitted, local_losses=found.losses)

    def chosen(self, landmarks: int) -> LogChoice:
        """What rows held out say of C and of a local stage."""
        held, seed = log_held_sets(self.work.rows, self.work.rng), int(self.work.rng.randint(2**31 - 1))
        model = LogGlobal.of(self.work, landmarks_of(self.work.rows, landmarks), seed, held, self.near_C)
        larger = 2 * self.work.effort.landmarks
        if self.work.effort.grows and model.gained > MORE and 2 * model.size >= larger <= len(self.work.rows) // 8:
            more = LogGlobal.of(self.work, larger, seed, held, self.near_C, model)
            model = min((model, more), key=lambda each: each.trials[each.best].loss)
        self.work.enter("local stage")
        best, losses = model.best, None
        scores = self.held_scores(model, best)
        left = float(scores.weight @ log_losses(targets(scores.T), scores.P))
        if self.work.effort.partitions and len(self.work.rows) > FEW and left > NOISE:
            place, choice, scored = self._scored(model, best)
            gained = (choice.loss_without - choice.loss) * float(scored.weight.sum())
            pays = choice.pays and (gained > NOISE or self.work.criterion != "log_loss")
            losses = (choice.loss, choice.loss_without)
            say_scored(self.work, choice, pays)
            if pays:
                return LogChoice(model, place, choice, scored, losses)
        return LogChoice(model, best, None, scores, losses)

    def held_scores(self, model: LogGlobal, trial: int) -> HeldOut:
        """Scores of the held-out rows by the global models that did not see them."""
        parts = []
        for out, solution in zip(model.held, model.trials[trial].solutions, strict=True):
            rows = out > 0
            parts.append(self._answered(np.flatnonzero(rows), solution.F[rows], out[rows]))
        return HeldOut.joined(parts)

    def _leaves_out_each(self, held_out: HeldOut, size: int) -> bool:
        """Whether leave-one-out tells more of the global model than the rows held out, at little cost."""
        rows = self.work.rows
        if rows.fold is not None or len(rows) > MOST_ROWS or rows.T.shape[1] * len(rows) * size**2 > WORK:
            return False
        return held_out.place is not None and 2 * len(np.unique(held_out.place)) < len(rows)

    def _left_out(self, model: LogGlobal, solution: LogSolution, C: float) -> HeldOut:
        """Leave-one-out scores of the global model, to second order; copies of a row leave together."""
        rows, problem = self.work.rows, model.problem
        if self.work.backend.is_gpu:  # the CPU has these rows too
            problem = unkept(model.landmark_map, rows, C, problem.fit_intercept, self.work.n_jobs)
        unit = left_out_together(rows.X, rows.T, rows.weight, rows.unit)
        problem = replace(problem, C=C, rows=replace(problem.rows, unit=unit))
        index, weight = np.arange(len(rows)), np.ones(len(rows)) if rows.weight is None else rows.weight
        if len(rows) > LEFT_OUT:
            index, weight = distinct_pairs(rows, LEFT_OUT, self.work.rng)
        return self._answered(index, left_out(problem, solution, index), weight)

    def _answered(self, place: np.ndarray, F: np.ndarray, weight: np.ndarray) -> HeldOut:
        """Scores of rows by models that did not see them."""
        return HeldOut(self.work.rows.T[place], F, np.zeros(len(place)), weight, place=place)

    def _scored(self, model: LogGlobal, best: int) -> tuple[int, LocalChoice, HeldOut]:
        """The trial behind the best local stage, that stage, and its scores of held-out rows.

        Width, penalty and the global model are chosen on the first set; all sets decide whether the stage pays.
        """
        effort, rng = self.work.effort, self.work.rng
        places = [best] if model.weaker is None else [best, model.weaker]
        with quietly():
            searches = self._searches(model, places, 0)
            U, size = searches[0].data.U, effort.leaf(len(searches[0].data.U))
            small, whole = (self.work.backend.partition(U, rows_each, rng) for rows_each in (size // SMALLER, size))
            leaves = searches[0].leaves(small, SMALLER * effort.scored_leaves)
            which, found = 0, leaves.climb()
            lowest, start = leaves.tried[found][0], found
            for number, search in enumerate(searches[1:], 1):
                others = search.leaves(small, SMALLER * effort.scored_leaves, leaves)
                others.score(start[0], [start[1]])
                if others.tried[start][0] < NEARLY * lowest:
                    place = others.climb(start)
                    if others.tried[place][0] < lowest:
                        which, found, lowest, leaves = number, place, others.tried[place][0], others
            choice = searches[which].on_full_leaves(leaves, found, whole, effort.scored_leaves)
            choices, parts = [choice], [self._scores(searches[which], choice, model.held[0])]
            without = [searches[0].loss(searches[0].data.P_held[choice.rows], choice.rows)]
            for number in range(1, len(model.held)):
                search, plain = self._searches(model, [places[which], best], number)
                partition = self.work.backend.partition(search.data.U, effort.leaf(len(search.data.U)), rng)
                choices.append(search.scored(choice, partition, effort.scored_leaves))
                parts.append(self._scores(search, choices[-1], model.held[number]))
                without.append(plain.loss(plain.data.P_held[choices[-1].rows], choices[-1].rows))
        choices = [replace(one, loss_without=loss) for one, loss in zip(choices, without, strict=True)]
        masses = [float(part.weight.sum()) for part in parts]
        return places[which], choices[0].pooled(choices[1:], masses), HeldOut.joined(parts)

    def _searches(self, model: LogGlobal, trials: list[int], number: int) -> list[LocalSearch]:
        """Searches for leaves behind the global models of some trials, without one set of rows.

        All see the same rows in the same order, so that leaves of one are leaves of all.
        """
        out, scores = model.held[number], [model.trials[trial].solutions[number].F for trial in trials]
        rows, rest = self.work.rows, model.problem.weight - out
        mask, left = out > 0, rest > 0
        test = replace(rows.take(mask), weight=out[mask])
        beside = np.concatenate([F[left] for F in scores], axis=1)
        some, offsets = together(replace(rows.take(left), weight=rest[left]), beside, self.work.rng)
        return [
            LocalSearch(
                self.work.view.kernel,
                self.work.view.gamma,
                Remainder(
                    some.X, some.T, some.weight, test.X, test.T, F[mask], test.weight, np.ascontiguousarray(offset)
                ),
                self.work.coding,
                self.work.criterion,
                self.work.n_jobs,
                LOG,
                self.work.backend.leaf_trials,
            )
            for F, offset in zip(scores, np.split(offsets, len(scores), axis=1), strict=True)
        ]

    def _scores(self, search: LocalSearch, choice: LocalChoice, out: np.ndarray) -> HeldOut:
        assert search.data.weight_held is not None
        return self._answered(np.flatnonzero(out > 0)[choice.rows], choice.P, search.data.weight_held[choice.rows])


def together(rows: Rows, F: np.ndarray, rng: np.random.RandomState) -> tuple[Rows, np.ndarray]:
    """Equal rows as one, with the mean of their codes, and their scores, which are equal."""
    m = rows.T.shape[1]
    both = merged(replace(rows, T=np.concatenate([rows.T, F], axis=1)), rng)
    return replace(both, T=np.ascontiguousarray(both.T[:, :m])), np.ascontiguousarray(both.T[:, m:])


def calibrated_loss(held_out: HeldOut) -> float:
    """Log loss of held-out rows, by the probabilities that these rows calibrate."""
    scores, true = (OneVsAll.class_scores(a) for a in (held_out.P, held_out.T))
    which = true.argmax(axis=1)
    with quietly():
        P = probabilities(scores, *fit_temperature(scores, which, held_out.weight), by_score=False)
    return -float(np.average(np.log(P[np.arange(len(P)), which]), weights=held_out.weight))


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
        found = minimise_by_passes(self.few, self.chosen["start"][which], sweep, tol=LOG_KEPT, max_passes=MAX_PASSES)
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
