r"""Robust models by repeated passes: a sample first, then Newton's method on all rows.

The sample's own fit gives the map, the scale of the loss and a start that is nearly the solution. Every pass then sums,
at a point :math:`(\beta, b)`, the objective :math:`\sum w f(e)`, its gradient and the curvature
:math:`\Phi^TD\Phi` with :math:`D = \operatorname{diag} w f''(e)`; the next point is a Newton step away, or half of it
as long as the objective has not fallen enough. Nothing is held per row.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from sklearn.base import clone

from ulmus import engine
from ulmus.engine import Rows
from ulmus.losses import LOSSES, Loss
from ulmus.solvers.newton import NewtonPath, NewtonResult
from ulmus.solvers.ridge import NormalEquations, Problem
from ulmus.solvers.robust import RobustSolution
from ulmus.statistics import Statistics
from ulmus.streaming.batches import Batch
from ulmus.streaming.sums import Encoder

#: Steps below this share of the weights end the run, unless the model has a tolerance.
TOLERANCE = 1e-8
#: Share of the predicted fall that a step must bring.
ARMIJO = 1e-4
#: Halvings of a step, at most.
MAX_HALVINGS = 10


@dataclass(frozen=True)
class Point:
    """Weights of every output, and what D is to be there: f'' or f'(e)/e."""

    beta: np.ndarray
    intercept: np.ndarray
    curvature: str = "curvature"


@dataclass(frozen=True)
class Part:
    """``Σ w f``, its gradient in β and b (last line), and ``[Φ 1]ᵀD[Φ 1]`` of every output."""

    values: np.ndarray
    gradient: np.ndarray
    moments: np.ndarray


class NewtonTally:
    """The sums of one pass."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        D, s = n_features, n_outputs
        self.total = Part(np.zeros(s), np.zeros((D + 1, s)), np.zeros((s, D + 1, D + 1)))

    def fresh(self) -> "NewtonTally":
        """Sums of no rows."""
        D, s = self.total.gradient.shape
        return NewtonTally(D - 1, s)

    def add(self, part: Part) -> None:
        """Add those of a batch."""
        for mine, new in zip(vars(self.total).values(), vars(part).values(), strict=True):
            np.add(mine, new, out=mine)

    def merge(self, other: "NewtonTally") -> None:
        """Add those of other rows."""
        self.add(other.total)

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays, and plain values."""
        return dict(vars(self.total)), {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        """Go back to a dumped state."""
        self.total = Part(**arrays)


@dataclass(frozen=True)
class Sweep:
    """The work of a pass: rows in, sums at a point out. ``features`` are raw where ``R`` whitens the sums."""

    features: Any
    encoder: Encoder
    loss: Loss
    c: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray
    curvature: str

    def __call__(self, batch: Batch) -> Part:
        rows = self.encoder.rows(batch)
        D, s = self.features.n_lifted, len(self.c)
        values, gradient = np.zeros(s), np.zeros((D + 1, s))
        sums = [Statistics.zeros(D, 0) for _ in range(s)]
        workspace = engine.Workspace()
        for piece in engine.pieces(len(rows), engine.block_rows(D, np.float64)):
            block = rows[piece]
            stack = workspace.array("rows", (len(block), D + 1), np.float64)
            for tile, Phi in engine.lifted_tiles(self.features, block, np.float64, workspace):
                stack[tile, :-1] = Phi
            stack[:, -1] = 1.0
            E = stack[:, :-1] @ self.weights + self.intercept - block.T
            w = 1.0 if block.weight is None else block.weight[:, None]
            values += np.sum(w * self.loss.value(E, self.c), axis=0)
            gradient += stack.T @ (w * self.loss.slope(E, self.c))
            roots = np.sqrt(w * getattr(self.loss, self.curvature)(E, self.c))
            for j, total in enumerate(sums):
                total.add_rows(stack * roots[:, j, None])
        return Part(values, gradient, np.stack([total.symmetrise().moments for total in sums]))


@dataclass
class Passes:
    """Evaluations of the objective over a stream."""

    stream: Any
    problem: Problem
    encoder: Encoder
    loss: Loss
    c: np.ndarray
    count: int = 0

    def at(self, point: Point) -> Part:
        """One pass."""
        problem = self.problem
        weights = problem.unwhiten(point.beta)
        work = Sweep(problem.features, self.encoder, self.loss, self.c, weights, point.intercept, point.curvature)
        self.count += 1
        tally = NewtonTally(problem.features.n_lifted, len(self.c))
        found = self.stream.reduce(f"newton-{self.count}", tally, work).total
        R = problem.whitening
        if R is None:
            return found
        gradient = np.vstack(
            [solve_triangular(R, found.gradient[:-1], lower=True, check_finite=False), found.gradient[-1:]]
        )
        moments = np.stack([Statistics(m, 0).whitened(R).moments for m in found.moments])
        return Part(found.values, gradient, moments)


def fit_robust(model: Any, stream: Any, encoder: Encoder, sample: Rows, total: float, rng: Any) -> None:
    """Fit a robust model: on the sample in memory, then on all rows, of this total weight, by passes."""
    weight = float(len(sample)) if sample.weight is None else float(sample.weight.sum())
    _pilot(model, sample, total / weight, rng)
    loss, options = LOSSES[model.loss], model._newton_options()
    c, C = np.atleast_1d(model.transition_), np.atleast_1d(model.C_ if model.C == "auto" else float(model.C))
    C = np.broadcast_to(C, c.shape).astype(float)
    problem, raw = model._problems(sample)
    passes = Passes(stream, raw, encoder, loss, c)
    results = _descend(passes, model, C, options.bias_penalty, options.tol or TOLERANCE, options.max_iter)
    Phi = engine.transform(problem.features, sample.X, np.empty((len(sample), problem.features.n_lifted)))
    held = [_with_residual(r, Phi, sample.T[:, j], weight / total) for j, r in enumerate(results)]
    solution = RobustSolution(loss, c, C, held)
    model._keep(solution, sample)
    model._calibrate(model._held_out(solution, sample, rng))


def _pilot(model: Any, sample: Rows, share: float, rng: np.random.RandomState) -> None:
    """The model of the sample; a C that is given is raised so that rows and penalty are balanced as they will be.

    One without a seed draws from ``rng``, whose seed a checkpoint keeps: its passes are of one map.
    """
    pilot = clone(model)
    if model.random_state is None:
        pilot.set_params(random_state=deepcopy(rng))
    if model.C != "auto":
        pilot.set_params(C=model.C * share)
    y = sample.T[:, 0] if model._single_output else sample.T
    pilot.fit(sample.X, y, sample.weight)
    parameters = pilot.get_params(deep=False)
    vars(model).update({k: v for k, v in vars(pilot).items() if k not in parameters})


def _with_residual(result: NewtonResult, Phi: np.ndarray, t: np.ndarray, share: float) -> NewtonResult:
    """The result with the residuals of these rows, and their share of the curvature."""
    residual = Phi @ result.beta + result.intercept - t
    return NewtonResult(**{**vars(result), "residual": residual, "curvature_sum": share * result.curvature_sum})


def _descend(
    passes: Passes, model: Any, C: np.ndarray, bias_penalty: float, tol: float, max_iter: int
) -> list[NewtonResult]:
    """Damped Newton; outputs share every pass, and each has its own step length."""
    s = len(C)
    ridge = 1.0 / C
    here = Point(np.array(model.beta_), np.array(model.intercept_, dtype=float).reshape(s))
    found = passes.at(here)
    objective = _objective(found, here, ridge, bias_penalty)
    points: list[list[tuple[float, ...]]] = [[] for _ in range(s)]
    steps: list[list[tuple[float, ...]]] = [[] for _ in range(s)]
    while True:
        g, g_b = found.gradient[:-1] + here.beta * ridge, found.gradient[-1] + bias_penalty * here.intercept * ridge
        try:
            systems = [_system(found.moments[j], C[j], model._intercept, bias_penalty) for j in range(s)]
        except LinAlgError:
            if here.curvature == "weight":
                raise
            here = Point(here.beta, here.intercept, "weight")
            found = passes.at(here)
            continue
        d, d_b = _directions(systems, g, g_b, model._intercept)
        size = np.hypot(np.linalg.norm(d, axis=0), d_b)
        threshold = tol * np.maximum(1.0, np.hypot(np.linalg.norm(here.beta, axis=0), here.intercept))
        steepness = C * np.hypot(np.linalg.norm(g, axis=0), g_b)
        for j in range(s):
            points[j].append((C[j] * objective[j], steepness[j], size[j]))
        small = size <= threshold
        if (small.all() and here.curvature == "curvature") or len(steps[0]) == max_iter:
            break
        slope = np.einsum("ij,ij->j", g, d) + g_b * d_b
        length = np.ones(s)
        for _ in range(MAX_HALVINGS):
            there = Point(here.beta + length * d, here.intercept + length * d_b)
            ahead = passes.at(there)
            new = _objective(ahead, there, ridge, bias_penalty)
            # near the solution differences of the objective are round-off
            fallen = (new <= objective + ARMIJO * length * slope) | (
                np.abs(length * slope) <= 1e-10 * np.abs(objective)
            )
            if fallen.all():
                break
            length = np.where(fallen, length, length / 2)
        end = np.einsum("ij,ij->j", ahead.gradient[:-1] + there.beta * ridge, d) + ahead.gradient[-1] * d_b
        for j in range(s):
            steps[j].append((length[j], C[j] * slope[j], C[j] * end[j]))
        here, found, objective = there, ahead, new
    bends = found.moments[:, -1, -1]
    return [
        NewtonResult(
            here.beta[:, j],
            float(here.intercept[j]),
            np.empty(0),
            systems[j],
            float(bends[j]),
            NewtonPath(*_columns(points[j]), *_columns(steps[j])),
            bool(small[j]),
            float(threshold[j]),
            passes.count,
        )
        for j in range(s)
    ]


def _columns(rows: list[tuple[float, ...]]) -> np.ndarray:
    return np.array(rows, dtype=float).reshape(-1, 3).T


def _objective(part: Part, point: Point, ridge: np.ndarray, bias_penalty: float) -> np.ndarray:
    return part.values + 0.5 * ridge * (np.sum(point.beta**2, axis=0) + bias_penalty * point.intercept**2)


def _system(moments: np.ndarray, C: float, fit_intercept: bool, bias_penalty: float) -> NormalEquations:
    sums = Statistics(moments.copy(), 0)
    if fit_intercept:
        sums.moments[-1, -1] += bias_penalty / C
        if sums.weight <= 0:
            raise LinAlgError("no row bends: the constant has no curvature")
    with engine.threads_for(sums.n_features):
        return NormalEquations(sums, C, fit_intercept)


def _directions(
    systems: list[NormalEquations], g: np.ndarray, g_b: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    d, d_b = np.empty_like(g), np.zeros_like(g_b)
    for j, system in enumerate(systems):
        centred = g[:, j] - (system.centre * g_b[j] if fit_intercept else 0.0)
        d[:, j] = -system.inverse(centred[:, None])[:, 0]
        if fit_intercept:
            d_b[j] = -g_b[j] / system.weight - float(system.centre @ d[:, j])
    return d, d_b
