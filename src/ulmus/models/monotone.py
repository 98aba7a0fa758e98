"""Models that are monotone in some inputs: a width and a C of which the constrained model is best, and its weights.

Ridge regression pulls towards the mean where data are thin, and what is pulled back falls. The smoother the features,
the less: width and C are therefore chosen again, by the errors of rows left out of the model under its constraints.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._sklearn import check_monotonic_cst
from ulmus.calibration import HeldOut, leave_one_out_sample
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import column_ranks, distinct_sample, row_keys
from ulmus.models.choice import Choice, Training
from ulmus.models.fitted import Outcome
from ulmus.solvers.monotone import ROUNDS, Constraint, Ladder, largest_fall, made_monotone
from ulmus.solvers.ridge import Solution
from ulmus.tuning.surface import climbed, lowest

#: Rows among which those that climb are drawn, at most; and rows and values of the fine grid on which it is checked.
ROWS, CHECKED_ROWS, CHECKED_VALUES = 5_000, 300, 201
#: Factors of two between the width of the free model and that of this one, at most; the gain that is worth one; and
#: rounds of a trial.
MOVES, MOVE_GAIN, ROUGH_ROUNDS = 4, 5e-3, 12


@dataclass(frozen=True)
class Bound:
    """A model under its constraints: features, C, weights, rows left out, the largest fall on a fine grid."""

    features: Any
    width: float
    C: float
    solution: Solution
    held_out: HeldOut
    fall: float = 0.0
    n_binding: int = 0


@dataclass(frozen=True)
class MonotoneFit:
    """One output on maps of any width: ``rows`` as these see them, ``table`` as users do, ``see`` between the two.

    ``signs`` are those of the columns of the table, ``solve(features, C)`` is a free fit.
    """

    make: Callable[[float], Any]
    solve: Callable[[Any, float], Solution]
    rows: Rows
    table: np.ndarray
    see: Callable[[np.ndarray], np.ndarray]
    signs: np.ndarray
    seed: int
    n_jobs: int | None

    @cached_property
    def climbing(self) -> np.ndarray:
        """Rows of the table that are asked to rise: copies once, whatever order and units they come in."""
        rows = replace(self.rows, X=self.table)
        rows = distinct_sample(rows, ROWS, np.random.RandomState(self.seed))[1] if len(rows) > ROWS else rows
        X = np.asarray(rows.X, dtype=np.float64)
        X = X if rows.weight is None else X[rows.weight > 0]
        return X[np.unique(row_keys(column_ranks(X), self.seed), return_index=True)[1]]

    @cached_property
    def constraints(self) -> list[Constraint]:
        """Those of columns that have more than one value."""
        every = [(int(j), self.climbing[:, j]) for j in np.flatnonzero(self.signs)]
        ranked = [(j, np.unique(x[~np.isnan(x)])) for j, x in every]
        return [Constraint(j, int(self.signs[j]), values) for j, values in ranked if len(values) > 1]

    @cached_property
    def fine(self) -> list[Ladder]:
        """A fine grid through some of the rows."""
        some = self.climbing[:CHECKED_ROWS]
        each = [(one, np.linspace(one.values[0], one.values[-1], CHECKED_VALUES)) for one in self.constraints]
        return [Ladder(some, one.column, one.sign, values) for one, values in each]

    def choose(self, width: float, C: float, *, open_width: bool, open_C: bool) -> Bound:
        """The best of neighbouring widths, each with its best C, solved to the end."""
        if not (open_width or open_C):
            return self._checked(self._under(self.make(width), width, C, ROUNDS))
        features, tried = dict[int, Any](), dict[int, dict[float, float]]()

        def loss_of(step: int, near_C: float) -> float:
            """The lowest loss of a width, each C tried once."""
            if step not in features:
                features[step], tried[step] = self.make(width * 2.0**step), {}

                def loss_at(C: float) -> float:
                    held = self._under(features[step], width * 2.0**step, C, ROUGH_ROUNDS).held_out
                    loss = float(np.average(((held.T - held.P) ** 2).sum(axis=1), weights=held.weight))
                    return tried[step].setdefault(C, loss)

                if open_C:
                    climbed(loss_at, near_C, MOVE_GAIN)
                else:
                    loss_at(near_C)
            return min(tried[step].values())

        def best_C(step: int) -> float:
            """The smallest whose loss is practically the lowest: losses of models that are level are equal."""
            ascending = sorted(tried[step])
            return ascending[lowest(np.array([tried[step][C] for C in ascending]))]

        here, now = 0, loss_of(0, C)
        while open_width and abs(here) < MOVES:
            beside = (here - 1, here + 1)
            near = beside[lowest(np.array([loss_of(step, best_C(here)) for step in beside]))]
            if loss_of(near, best_C(here)) > (1 - MOVE_GAIN) * now:
                break
            here, now = near, loss_of(near, best_C(here))
        return self._checked(self._under(features[here], width * 2.0**here, best_C(here), ROUNDS))

    def _under(self, features: Any, width: float, C: float, rounds: int) -> Bound:
        """The model of a map and a C under the constraints."""
        free, transform = self.solve(features, C), self._transform_rows(features)
        fine = self.fine if rounds == ROUNDS else ()
        given = (self.constraints, self.climbing, transform, self._score(features), self.seed, rounds, fine)
        made = made_monotone(free, *given)
        chance = np.random.RandomState(self.seed)
        held = leave_one_out_sample(features, self.rows, made.solution, chance, C, n_jobs=self.n_jobs)
        held = replace(held, one_by_one=False)
        return Bound(features, width, C, made.solution, held, n_binding=made.n_binding)

    def _transform_rows(self, features: Any) -> Callable[[np.ndarray], np.ndarray]:
        def transform(X: np.ndarray) -> np.ndarray:
            return engine.transform(features, self.see(X), n_jobs=self.n_jobs)

        return transform

    def _score(self, features: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Rows and weights → answers; kernel values need not be whitened for it."""

        def score(X: np.ndarray, beta: np.ndarray) -> np.ndarray:
            summed, weights = features, beta[:, None]
            if isinstance(features, NystromMap):
                summed, weights = features.cross_kernel_, features.weight_to_landmarks(weights)
            return np.asarray(engine.apply(summed, self.see(X), weights, n_jobs=self.n_jobs)[:, 0])

        return score

    def _checked(self, found: Bound) -> Bound:
        """What was found, with its largest fall; where there is one there is a warning."""
        beta, score = found.solution.beta[:, 0], self._score(found.features)
        fall = largest_fall(self.fine, lambda rows: score(rows, beta))
        if fall > 0:
            warnings.warn(
                f"the model is not quite monotone: somewhere on a fine grid it falls by {fall:.2g} of the range of its "
                "answers (monotone_violation_); use a smoother kernel, or a smaller C",
                NumericalWarning,
                stacklevel=2,
            )
        return replace(found, fall=fall)


def signs_of(model: Any) -> np.ndarray | None:
    """1, 0 or −1 for every input; None where nothing is asked for."""
    if model.monotonic_cst is None:
        return None
    signs = np.asarray(check_monotonic_cst(model, model.monotonic_cst))
    return signs.astype(int) if signs.any() else None


def column_signs(model: Any, columns: Any) -> np.ndarray | None:
    """The same for the columns of the table of an adaptive model; inputs that are no numbers have no direction."""
    signs = signs_of(model)
    if signs is None:
        return None
    names = getattr(model, "feature_names_in_", np.arange(len(signs)))
    for j in np.flatnonzero(signs):
        own = np.flatnonzero(columns.sources == j)
        if len(own) != 1 or columns.categorical[own].any():
            raise ValueError(
                f"monotonic_cst names the column {names[j]!r}, which holds categories, dates or text, not numbers"
            )
    out = np.zeros(len(columns.sources), int)
    used = columns.sources >= 0
    out[used] = signs[columns.sources[used]]
    return out


def fit_monotone(model: Any, training: Training, found: Outcome) -> Outcome:
    """The outcome of a free fit, made monotone; rows of folds are scored by free models."""
    signs = signs_of(model)
    if signs is None:
        return found
    _refuse(model, training, found.weights)
    weights, rows, recipe = found.weights, training.rows, model._family.recipe(model, training.metric)
    if training.metric is not None:
        signs = signs * np.sign(training.metric).astype(int)
    seed = int(training.rng.randint(2**31 - 1))
    make_map = recipe.maker(seed)

    def make(width: float) -> Any:
        if width == weights.width:
            return weights.features
        return make_map(width, weights.size).fit(rows.X, training.labels, rows.weight)

    def solve(features: Any, C: float) -> Solution:
        return training.backend.ridge_problem(features, rows, C, model._intercept).solve()

    X = np.asarray(rows.X, dtype=np.float64)
    fit = MonotoneFit(make, solve, rows, X, lambda X: X, signs, seed, model.n_jobs)
    made = fit.choose(weights.width, weights.C, open_width=recipe.open_width, open_C=model.C == "auto")
    plan, solution = Choice(made.width, made.C, made.features, tuning=weights.tuning), made.solution
    args = (solution.beta, solution.intercept, rows.target_reach, solution.form, solution.leverage)
    fresh = replace(model._family.of_beta(plan, *args), fall=made.fall)
    held_out = replace(found.held_out, one_by_one=False) if training.folds is not None else made.held_out
    return Outcome(fresh, held_out)


def _refuse(model: Any, training: Training, weights: Any) -> None:
    rows, metric = training.rows, training.metric
    reasons = {
        "several outputs or classes: it needs one output, or two classes": rows.T.shape[1] > 1,
        "sparse rows: pass them as a dense array": hasattr(rows.X, "toarray"),
        "a full metric: take metric=None or one factor for each feature": metric is not None and metric.ndim == 2,
        'a GPU: use device="cpu"': training.backend.is_gpu,
        'the iterative route: use solver="direct"': getattr(weights, "beta", None) is None,
        'C=None: it needs a penalty, C="auto" or a number': model.C is None,
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise ValueError(f"monotonic_cst does not support {reason}")
