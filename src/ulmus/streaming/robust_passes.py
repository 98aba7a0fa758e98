r"""Robust models by repeated passes: a sample first, then Newton's method on all rows.

The sample's own fit gives the map, the scale of the loss and a start that is nearly the solution. Every pass then sums,
at a point :math:`(\beta, b)`, the objective :math:`\sum w f(e)`, its gradient and the curvature
:math:`\Phi^TD\Phi` with :math:`D = \operatorname{diag} w f''(e)`. The method is that of rows in memory
(:mod:`ulmus.solvers.newton`); only here nothing is held per row, so that a step of another length than 1 costs a pass
for every length that the search tries.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone

from ulmus import engine
from ulmus.codings import Numbers
from ulmus.engine import Rows
from ulmus.losses import Loss
from ulmus.models.steps import RobustSteps
from ulmus.solvers.newton import NewtonResult, newton
from ulmus.solvers.newton_rows import primal
from ulmus.solvers.objective import Evaluation, Request, System, Way
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import RobustSolution
from ulmus.statistics import Statistics
from ulmus.streaming.batches import Batch
from ulmus.streaming.sums import Encoder


@dataclass
class PassSums:
    """``Σ w f``, ``Σ w f''`` and the gradient in β and b (last line) of every output that is asked for.

    ``moments`` are ``[Φ 1]ᵀD[Φ 1]`` of those whose D is wanted.
    """

    values: np.ndarray
    bends: np.ndarray
    gradient: np.ndarray
    moments: np.ndarray

    @classmethod
    def zeros(cls, n_features: int, n_outputs: int, n_squared: int) -> "PassSums":
        """Sums of no rows."""
        width = n_features + 1
        moments = np.zeros((n_squared, width, width))
        return cls(np.zeros(n_outputs), np.zeros(n_outputs), np.zeros((width, n_outputs)), moments)

    def fresh(self) -> "PassSums":
        return PassSums(*(np.zeros_like(total) for total in vars(self).values()))

    def add(self, part: "PassSums") -> None:
        for mine, new in zip(vars(self).values(), vars(part).values(), strict=True):
            np.add(mine, new, out=mine)

    merge = add

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return dict(vars(self)), {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        vars(self).update(arrays)


@dataclass(frozen=True)
class Sweep:
    """The work of a pass: rows in, sums at a point of each output out; ``squared`` lists (column, kind of D)."""

    features: Any
    encoder: Encoder
    loss: Loss
    outputs: list[int]
    c: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray
    squared: list[tuple[int, str]]

    def __call__(self, batch: Batch) -> PassSums:
        rows = self.encoder.rows(batch)
        D = self.features.n_features_out
        found = PassSums.zeros(D, len(self.outputs), 0)
        sums = [Statistics.zeros(D, 0) for _ in self.squared]
        workspace = engine.Workspace()
        for piece in engine.pieces(len(rows), engine.block_rows(D, np.float64)):
            block = rows[piece]
            stack = workspace.array("rows", (len(block), D + 1), np.float64)
            for tile, Phi in engine.feature_tiles(self.features, block, np.float64, workspace):
                stack[tile, :-1] = Phi
            stack[:, -1] = 1.0
            E = stack[:, :-1] @ self.weights + self.intercept - block.T[:, self.outputs]
            w = 1.0 if block.weight is None else block.weight[:, None]
            found.values[:] += np.sum(w * self.loss.value(E, self.c), axis=0)
            found.bends[:] += np.sum(w * self.loss.curvature(E, self.c), axis=0)
            found.gradient[:] += stack.T @ (w * self.loss.slope(E, self.c))
            for total, (k, kind) in zip(sums, self.squared, strict=True):
                d = (w * getattr(self.loss, kind)(E[:, [k]], self.c[k]))[:, 0]
                total.add_rows(stack * np.sqrt(d)[:, None])
        moments = [total.symmetrise().moments for total in sums]
        return replace(found, moments=np.stack(moments) if moments else found.moments)


@dataclass
class Passes:
    """The objective over a stream: every evaluation is a pass."""

    stream: Any
    problem: Problem
    encoder: Encoder
    #: Those of the sample; they only say what is small.
    largest_targets: np.ndarray
    count: int = 0
    tolerance: ClassVar[float] = 1e-8
    reuse: ClassVar[float] = 0.0

    @property
    def fit_intercept(self) -> bool:
        return self.problem.fit_intercept

    @property
    def n_features(self) -> int:
        return self.problem.features.n_features_out

    def sweep(self, loss: Loss, c: np.ndarray, requests: Mapping[int, Request]) -> dict[int, Evaluation]:
        """One pass."""
        outputs = list(requests)
        weights = self.problem.unwhiten(np.column_stack([requests[j].beta for j in outputs]))
        b = np.array([requests[j].intercept for j in outputs])
        squared = [(k, str(requests[j].wanted)) for k, j in enumerate(outputs) if requests[j].wanted]
        work = Sweep(self.problem.features, self.encoder, loss, outputs, c[outputs], weights, b, squared)
        self.count += 1
        sums_of = PassSums.zeros(self.n_features, len(outputs), len(squared))
        found = self.stream.reduce(f"newton-{self.count}", sums_of, work)
        gradient, sums, R = found.gradient[:-1], [Statistics(m, 0) for m in found.moments], self.problem.whitening
        if R is not None:
            gradient = solve_triangular(R, gradient, lower=True, check_finite=False)
            sums = [part.whitened(R) for part in sums]
        moments = {k: part for (k, _), part in zip(squared, sums, strict=True)}
        return {
            j: Evaluation(
                np.empty(0),
                gradient[:, k],
                float(found.gradient[-1, k]),
                moments.get(k),
                value=float(found.values[k]),
                bend=float(found.bends[k]),
            )
            for k, j in enumerate(outputs)
        }

    def value(self, loss: Loss, c: float, found: Evaluation) -> float:
        return found.value

    def bend(self, loss: Loss, c: float, found: Evaluation) -> float:
        return found.bend

    def along(self, loss: Loss, c: np.ndarray, way: Way) -> Callable[[float], tuple[float, float]]:
        """``Σ w f`` and its slope: known at both ends of the step, by a pass anywhere else."""
        ends = {0.0: way.here, 1.0: way.there}

        def at(alpha: float) -> tuple[float, float]:
            found = ends.get(alpha)
            if found is None:
                found = self.sweep(loss, c, {way.output: way.point(alpha)})[way.output]
            return found.value, float(found.gradient @ way.d) + found.gradient_b * way.d_b

        return at

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        """Factor the sums of a pass."""
        assert found.moments is not None
        return primal(found.moments, C, self.fit_intercept, bias_penalty)


def fit_robust_stream(
    model: Any, stream: Any, encoder: Encoder, sample: Rows, targets: Numbers, total: float, rng: Any
) -> None:
    """Fit a robust model: on the sample in memory, then on all rows, of this total weight, by passes."""
    weight = sample.total_weight
    _pilot(model, sample, targets, total / weight, rng)
    steps = RobustSteps(model)
    loss, options = steps.method
    c, C = np.atleast_1d(model.transition_), np.atleast_1d(model.C_ if model.C == "auto" else float(model.C))
    C = np.broadcast_to(C, c.shape).astype(float)
    problem, raw = steps.problems(sample)
    beta, intercept = np.array(model.beta_), np.array(model.intercept_, dtype=float).reshape(len(c))
    passes = Passes(stream, raw, encoder, np.abs(sample.T).max(axis=0, initial=0.0))
    results = newton(passes, loss, c, C, beta, intercept, options)
    Phi = engine.transform(problem.features, sample.X)
    held = [_with_residual(r, Phi, sample.T[:, j], weight / total) for j, r in enumerate(results)]
    solution = RobustSolution(loss, c, C, held)
    steps.finish(solution, sample, rng)


def _pilot(model: Any, sample: Rows, targets: Numbers, share: float, rng: np.random.RandomState) -> None:
    """The model of the sample; a C that is given is raised so that rows and penalty are balanced as they will be.

    One without a seed draws from ``rng``, whose seed a checkpoint keeps: its passes are of one map.
    """
    pilot = clone(model)
    if model.random_state is None:
        pilot.set_params(random_state=deepcopy(rng))
    if model.C != "auto":
        pilot.set_params(C=model.C * share)
    pilot.fit(sample.X, targets.shaped(sample.T), sample.weight)
    model.fitted_, model.n_features_in_ = replace(pilot.fitted_, columns=None), pilot.n_features_in_


def _with_residual(result: NewtonResult, Phi: np.ndarray, t: np.ndarray, share: float) -> NewtonResult:
    """The result with the residuals of these rows, and their share of the curvature."""
    residual = Phi @ result.beta + result.intercept - t
    return replace(result, residual=residual, curvature_sum=share * result.curvature_sum)
