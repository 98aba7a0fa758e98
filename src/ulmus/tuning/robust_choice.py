r"""Choices that outliers do not make.

Under gross outliers the search for squares (:mod:`ulmus.tuning.search`) is misled: it isolates them by narrow features.
So a *pilot* comes first, a robust model of few features on a sample, whose width and C are chosen by its own
leave-one-out. Targets farther than three deviations from the pilot are then **tempered**, brought back to that
distance, those farther than ten are left out, and width, size and a first C come from the search for squares on the
rest. Clean targets stay as they are.

The last word on C has the robust model itself: a climb over powers of two from there, scored by approximate
leave-one-out (one Newton step, :mod:`ulmus.solvers.robust`) or by folds, in the loss that is minimised.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._layout import text_table
from ulmus._numbers import number
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features.sampling import distinct_sample
from ulmus.losses import Loss
from ulmus.solvers.nearby import NearbyRows
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.objective import NewtonRows
from ulmus.solvers.remembered import Remembered
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import Penalty, RobustSolution, begin, deviations, polish, roughly
from ulmus.solvers.span import minimise
from ulmus.tuning import surface
from ulmus.tuning.scorer import C_LIMITS

#: Deviations from a rough fit beyond which targets are brought back.
TEMPER = 3.0
#: Deviations beyond which rows are left out of the search.
TOO_FAR = 10.0
#: Rows of the rough fit, and rows on which C is scored, at most.
PILOT_ROWS = 2_000
SCORED_ROWS = 4_000
#: C that are tried, at most, and powers of two between neighbours; losses in between are no less than this share of the
#: lowest.
MAX_TRIED, STRIDE, BETWEEN = 12, 2, 0.95

#: Widths the pilot tries, the factor between them, and the gain in loss that is worth a move.
PILOT_WIDTHS, PILOT_FACTOR, PILOT_GAIN = 10, 4.0, 0.005
#: C, relative to the transition, with which the pilot begins, and by which powers of the width it follows it.
PILOT_C, PILOT_SHIFT = 16.0, -1.5
#: Errors count up to this many transitions (deviations of the targets, when pilots are compared).
CAP = 5.0

#: How errors count: (loss, errors, transitions) → losses.
Criterion = Callable[[Loss, np.ndarray, np.ndarray], np.ndarray]
CRITERIA: dict[str, Criterion] = {
    "auto": lambda loss, e, c: loss.value(_capped(loss, e, c)),
    "squared": lambda loss, e, c: _capped(loss, e, c) ** 2,
    "absolute": lambda loss, e, c: np.abs(_capped(loss, e, c)),
}


def _capped(loss: Loss, e: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Errors in transitions; beyond some they count alike: what is said of outliers is no reason to choose a model."""
    return np.clip(e / c, -CAP, CAP) if loss.parameter else e


def pilot_sample(rows: Rows, rng: np.random.RandomState) -> Rows:
    """Rows for a rough fit."""
    return rows if rows.effective_count <= PILOT_ROWS else distinct_sample(rows, PILOT_ROWS, rng)[1]


@dataclass(frozen=True, repr=False)
class RobustTuning:
    """The C that were tried (relative to the transition, where they were chosen) and their held-out losses.

    Beside the best are two between it and its neighbours, whose losses lie on the parabola through all three.
    """

    C: np.ndarray
    loss: np.ndarray

    def __repr__(self) -> str:
        chosen = surface.lowest(self.loss)
        rows = [
            (number(C), number(loss), "*" * (k == chosen))
            for k, (C, loss) in enumerate(zip(self.C, self.loss, strict=True))
        ]
        return "\n".join(text_table(rows, ("C", "loss", "")))


@dataclass
class PenaltySearch:
    """Climb over C for given features and transitions."""

    rows: NewtonRows
    problem: Problem
    criterion: Criterion
    options: NewtonOptions
    folds: np.ndarray | None
    rng: np.random.RandomState
    climb: bool = True
    tried: dict[int, tuple[float, RobustSolution]] = field(default_factory=dict)

    def choose(self, start: RobustSolution, penalty: Penalty) -> tuple[RobustSolution, Penalty, RobustTuning]:
        """The smallest C, among neighbours in powers of two, whose loss is practically the lowest; where to start."""
        self.options = roughly(self.options)
        self.swept: Any = self.rows if isinstance(self.rows, NearbyRows) else Remembered(self.rows)
        self._pick_scored()
        here = self._climbed(start, penalty)
        losses = {k: loss for k, (loss, _) in self.tried.items()} | self._between(here)
        steps = sorted(losses)
        loss = np.array([losses[k] for k in steps])
        chosen = steps[surface.lowest(loss)]
        penalty, C = penalty.times(2.0**chosen), penalty.value * 2.0 ** np.array(steps, float)
        near = self.tried[chosen if chosen in self.tried else here][1]
        return replace(near, C=penalty.of(near.c)), penalty, RobustTuning(C, loss)

    def _climbed(self, start: RobustSolution, penalty: Penalty) -> int:
        """The best step, by a climb from the penalty that is given."""
        reach = [int(limit - np.log2(penalty.value)) for limit in C_LIMITS]
        self._try(0, start, penalty)

        def better(here: int) -> int:
            if not self.climb or len(self.tried) >= MAX_TRIED:
                return here
            near = [k for k in (here - STRIDE, here + STRIDE) if reach[0] <= k <= reach[1]]
            for k in near:
                if k not in self.tried:
                    self._try(k, self.tried[here][1], penalty.times(2.0**k))
            steps = sorted([here, *near])
            return steps[surface.lowest(np.array([self.tried[k][0] for k in steps]))]

        return surface.climb(better)

    def _between(self, here: int) -> dict[int, float]:
        """Losses half way to the neighbours of a step, by the parabola through all three."""
        if here - STRIDE not in self.tried or here + STRIDE not in self.tried:
            return {}
        low, middle, high = (self.tried[k][0] for k in (here - STRIDE, here, here + STRIDE))
        slope, bend = (high - low) / 4, (high + low - 2 * middle) / 8
        least = BETWEEN * min(low, middle, high)
        return {here + side * STRIDE // 2: max(middle + side * slope + bend, least) for side in (-1, 1)}

    def _pick_scored(self) -> None:
        rows = self.rows.rows
        if self.folds is not None:
            return
        self.index, self.scored = np.arange(len(rows)), rows
        if rows.effective_count > SCORED_ROWS:
            self.index, self.scored = distinct_sample(rows, SCORED_ROWS, self.rng)
        if isinstance(self.rows, HeldRows):
            self.Phi = self.rows.Phi if self.scored is rows else self.rows.Phi[self.index]
        else:
            self.Phi = engine.transform(self.problem.features, self.scored.X, n_jobs=self.problem.n_jobs)

    def _try(self, step: int, near: RobustSolution, penalty: Penalty) -> None:
        start = replace(near, C=penalty.of(near.c))
        solution = polish(self.swept, near.loss, start, self.options)
        if self.folds is None:
            e, _ = solution.leave_one_out(self.Phi, solution.residual[self.index], self.scored.unit)
            weight = self.scored.weight
        else:
            e, weight = self._folded(solution)
        if solution.loss.parameter is None:  # squares count in units of each output's deviation
            T, mass = self.rows.rows.T, self.rows.rows.weight
            e = e / Plain.of(T, mass).deviation
        losses = self.criterion(solution.loss, e, solution.c).mean(axis=1)
        self.tried[step] = (float(np.average(losses, weights=weight)), solution)

    def _folded(self, solution: RobustSolution) -> tuple[np.ndarray, np.ndarray | None]:
        """Residuals of every tested row under the model fitted to the other folds."""
        assert self.folds is not None
        rows = self.rows.rows
        E = np.full(rows.T.shape, np.nan)
        for k in range(int(self.folds.max()) + 1):
            tested = np.flatnonzero(self.folds == k)
            near = (solution.loss, solution.c, solution.C, solution.beta, solution.intercept)
            found = minimise(self.rows.without(self.folds == k), *near, self.options)
            beta, b = np.column_stack([r.beta for r in found]), np.array([r.intercept for r in found])
            X = rows.X[tested]
            E[tested] = engine.apply(self.problem.features, X, beta, n_jobs=self.problem.n_jobs) + b - rows.T[tested]
        seen = self.folds >= 0
        return E[seen], None if rows.weight is None else rows.weight[seen]


@dataclass
class Pilot:
    """The rough robust model: ``problem_of(width)`` has its features; C is searched where it is ``relative``."""

    rows: Rows
    problem_of: Callable[[float], Problem]
    loss: Loss
    c: np.ndarray | None
    penalty: Penalty
    options: NewtonOptions
    rng: np.random.RandomState

    def choose(self, width: float, *, climb: bool) -> tuple[Problem, RobustSolution]:
        """The best pilot: from this width, by steps of four while that lowers the loss."""
        tried: dict[int, tuple[float, Problem, RobustSolution, Penalty]] = {}

        def at(step: int) -> float:
            if step not in tried:
                penalty = self.penalty
                if tried and penalty.relative:
                    near = min(tried, key=lambda k: abs(k - step))
                    penalty = tried[near][3].times(PILOT_FACTOR ** (PILOT_SHIFT * (step - near)))
                tried[step] = self._at(width * PILOT_FACTOR**step, penalty)
            return tried[step][0]

        here = 0
        at(here)
        while climb and len(tried) < PILOT_WIDTHS:
            best = min((here + 1, here - 1), key=at)
            if at(best) >= (1 - PILOT_GAIN) * at(here):
                break
            here = best
        return tried[here][1:3]

    def _at(self, width: float, penalty: Penalty) -> tuple[float, Problem, RobustSolution, Penalty]:
        problem = self.problem_of(width)
        unit = deviations(problem.rows.T, problem.rows.weight, problem.rows.T)
        rows, start = begin(problem, problem, self.loss, self.c, penalty, self.options, self.rng)

        def capped(loss: Loss, e: np.ndarray, c: np.ndarray) -> np.ndarray:
            return np.minimum(np.abs(e) / unit, CAP)

        search = PenaltySearch(rows, problem, capped, self.options, None, self.rng, climb=penalty.relative)
        solution, penalty, tuning = search.choose(start, penalty)
        return float(tuning.loss.min()), problem, solution, penalty
