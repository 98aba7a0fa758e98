r"""Rows as Newton's method sees them: one sweep gives residuals, gradient and curvature at a point.

:class:`StreamedRows` transforms the rows again in every sweep and holds two numbers for each; :class:`HeldRows` keeps
their features, for samples and for fewer rows than features. A *system* solves
:math:`(\Phi^T D \Phi + I/C)\,\delta = g` with the curvatures :math:`D = \operatorname{diag} w f''(e)`, an unpenalised
(or lightly penalised) constant included.
"""

import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from ulmus import engine
from ulmus._blas import lower_factor, times_own_transpose
from ulmus.engine import FeatureMap, Precomputed, Rows
from ulmus.losses import Loss
from ulmus.solvers.objective import Evaluation, Request, System, Way
from ulmus.solvers.ridge import Leverage, NormalEquations, Problem
from ulmus.statistics import Statistics


class _Residuals:
    """The objective from residuals: those at both ends of a step give those at every other length."""

    rows: Any

    @property
    def largest_targets(self) -> np.ndarray:
        return np.abs(self.rows.T).max(axis=0, initial=0.0)

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        return values if self.rows.weight is None else self.rows.weight * values

    def value(self, loss: Loss, c: float, found: Evaluation) -> float:
        """``Σ w f``."""
        return float(self._weighted(loss.value(found.residual, c)).sum())

    def bend(self, loss: Loss, c: float, found: Evaluation) -> float:
        """``Σ w f''``."""
        return float(self._weighted(loss.curvature(found.residual, c)).sum())

    def along(self, loss: Loss, c: np.ndarray, way: Way) -> Callable[[float], tuple[float, float]]:
        """``Σ w f`` and its slope, without reading a row."""
        e, c_j = way.here.residual, float(c[way.output])
        shift = way.there.residual - e

        def at(alpha: float) -> tuple[float, float]:
            e_alpha = e + alpha * shift
            pull = self._weighted(loss.slope(e_alpha, c_j))
            return float(self._weighted(loss.value(e_alpha, c_j)).sum()), float(pull @ shift)

        return at


#: Rows for each feature from which D is summed: its error is about twice the root of one over this.
CURVATURE_RATIO = 256


@dataclass(frozen=True)
class StreamedRows(_Residuals):
    """Rows of a problem, transformed anew in every sweep; D is summed over every ``stride``-th row."""

    problem: Problem
    tolerance: ClassVar[float] = 1e-5
    reuse: ClassVar[float] = 0.2

    @property
    def stride(self) -> int:
        return max(1, len(self.rows) // (CURVATURE_RATIO * self.n_features))

    @property
    def n_features(self) -> int:
        return self.problem.features.n_features_out

    def without(self, left_out: np.ndarray) -> "StreamedRows":
        return StreamedRows(replace(self.problem, rows=self.rows.take(np.flatnonzero(~left_out))))

    def with_targets(self, T: np.ndarray) -> "StreamedRows":
        return StreamedRows(replace(self.problem, rows=replace(self.rows, T=T)))

    @property
    def rows(self) -> Rows:
        return self.problem.rows

    @property
    def fit_intercept(self) -> bool:
        return self.problem.fit_intercept

    def sweep(self, loss: Loss, c: np.ndarray, requests: Mapping[int, Request]) -> dict[int, Evaluation]:
        """One pass: residuals, gradients, and the sums of the rows whose D is not 0."""
        outputs = list(requests)
        beta = self.problem.unwhiten(np.column_stack([requests[j].beta for j in outputs]))
        b = np.array([requests[j].intercept for j in outputs])
        squared = [
            (k, str(requests[j].wanted), 1 if requests[j].thorough else self.stride)
            for k, j in enumerate(outputs)
            if requests[j].wanted
        ]
        E = np.empty((len(self.rows), len(outputs)), order="F")
        one_pass = _Pass(self.problem.features, self.rows, loss, c[outputs], beta, b, outputs, squared, E)
        gradient, sums = one_pass.run(self.problem.n_jobs)
        R = self.problem.whitening
        if R is not None:
            gradient[:-1] = solve_triangular(R, gradient[:-1], lower=True, check_finite=False)
            sums = [part.whitened(R) for part in sums]
        moments = {k: part for (k, _, _), part in zip(squared, sums, strict=True)}
        return {
            j: Evaluation(E[:, k], gradient[:-1, k], float(gradient[-1, k]), moments.get(k))
            for k, j in enumerate(outputs)
        }

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        assert found.moments is not None
        return primal(found.moments, C, self.fit_intercept, bias_penalty)


@dataclass
class _Pass:
    """One pass over the rows at a point of each output; ``squared`` lists (column, kind of D, stride)."""

    features: FeatureMap
    rows: Rows
    loss: Loss
    c: np.ndarray
    beta: np.ndarray
    b: np.ndarray
    outputs: list[int]
    squared: list[tuple[int, str, int]]
    E: np.ndarray

    def run(self, n_jobs: int | None) -> tuple[np.ndarray, list[Statistics]]:
        """Gradients ``[feature and constant, output]`` and sums; residuals go to ``E``."""
        D = self.features.n_features_out
        self.workspace = engine.Workspace()
        self.free: queue.SimpleQueue[list[Statistics]] = queue.SimpleQueue()
        gradient = np.zeros((D + 1, len(self.outputs)))
        totals = [Statistics.zeros(D, 0) for _ in self.squared]
        for part_gradient, parts in engine.ordered_map(self._slab, engine.slabs(len(self.rows), D), n_jobs):
            gradient += part_gradient
            for total, part in zip(totals, parts, strict=True):
                total.__iadd__(part)
            self.free.put(parts)
        return gradient, [total.symmetrise() for total in totals]

    def _slab(self, slab: slice) -> tuple[np.ndarray, list[Statistics]]:
        D = self.features.n_features_out
        rows, E = self.rows[slab], self.E[slab]
        gradient = np.zeros((D + 1, len(self.outputs)))
        try:
            parts = self.free.get_nowait()
            for part in parts:
                part.reset()
        except queue.Empty:
            parts = [Statistics.zeros(D, 0) for _ in self.squared]
        length = max(256, engine.block_rows(D, np.float64) // max(1, len(self.squared)))
        for piece in engine.pieces(len(rows), length):
            block, E_block = rows[piece], E[piece]
            stacks = [self.workspace.array(f"rows {k}", (len(block), D + 1), np.float64) for k, _, _ in self.squared]
            filled = [0] * len(stacks)
            for tile, Phi in engine.feature_tiles(self.features, block, np.float64, self.workspace):
                weight = None if block.weight is None else block.weight[tile]
                e = Phi @ self.beta + self.b - block.T[tile][:, self.outputs]
                E_block[tile] = e
                pull = self.loss.slope(e, self.c)
                if weight is not None:
                    pull *= weight[:, None]
                gradient[:-1] += Phi.T @ pull
                gradient[-1] += pull.sum(axis=0)
                for i, (k, kind, stride) in enumerate(self.squared):
                    some = slice(None, None, stride)
                    d = stride * getattr(self.loss, kind)(e[some, k], self.c[k])
                    if weight is not None:
                        d *= weight[some]
                    filled[i] += _stack(Phi[some], d, stacks[i][filled[i] :])
            for part, stack, count in zip(parts, stacks, filled, strict=True):
                if count:
                    part.add_rows(stack[:count])
        return gradient, parts


def _stack(Phi: np.ndarray, d: np.ndarray, out: np.ndarray) -> int:
    """Write the rows ``√d [φ 1]`` with ``d > 0`` and say how many they are."""
    active = np.flatnonzero(d)
    root = np.sqrt(d[active])
    np.multiply(Phi if len(active) == len(d) else Phi[active], root[:, None], out=out[: len(active), :-1])
    out[: len(active), -1] = root
    return len(active)


#: Products below which threads are not worth their start.
FEW_PRODUCTS = 2 * 10**8


@dataclass(frozen=True)
class HeldRows(_Residuals):
    """Rows whose features are kept."""

    Phi: np.ndarray
    rows: Rows
    fit_intercept: bool
    n_jobs: int | None = -1
    #: Directions that features reach, once they were asked for (:mod:`ulmus.solvers.span`).
    spans: dict[bool, Any] = field(default_factory=dict, compare=False, repr=False)
    tolerance: ClassVar[float] = 1e-10
    reuse: ClassVar[float] = 0.0

    @classmethod
    def of(cls, problem: Problem) -> "HeldRows":
        Phi = engine.transform(problem.features, problem.rows.X, n_jobs=problem.n_jobs)
        return cls(Phi, problem.rows, problem.fit_intercept, problem.n_jobs)

    @property
    def n_features(self) -> int:
        return int(self.Phi.shape[1])

    @property
    def squared_at_once(self) -> bool:
        """Whether a sweep sums D, by threads: where rows are many."""
        n, D = self.Phi.shape
        return bool(n >= D and n * D * D > FEW_PRODUCTS)

    def without(self, left_out: np.ndarray) -> "HeldRows":
        return replace(self, Phi=self.Phi[~left_out], rows=self.rows.take(np.flatnonzero(~left_out)))

    def with_targets(self, T: np.ndarray) -> "HeldRows":
        return replace(self, rows=replace(self.rows, T=T))

    def sweep(self, loss: Loss, c: np.ndarray, requests: Mapping[int, Request]) -> dict[int, Evaluation]:
        """Residuals, gradients, and D row by row; where rows are many, its sums, by threads."""
        D = self.n_features
        if self.squared_at_once and any(request.wanted for request in requests.values()):
            rows = Rows(self.Phi, self.rows.T, self.rows.weight)
            return StreamedRows(Problem(Precomputed(D), rows, None, self.fit_intercept, self.n_jobs)).sweep(
                loss, c, requests
            )
        w = self.rows.weights
        found = {}
        for j, request in requests.items():
            e = self.Phi @ request.beta + request.intercept - self.rows.T[:, j]
            pull = w * loss.slope(e, c[j])
            d = None if request.wanted is None else w * getattr(loss, request.wanted)(e, c[j])
            found[j] = Evaluation(e, self.Phi.T @ pull, float(pull.sum()), diagonal=d)
        return found

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        if found.moments is not None:
            return primal(found.moments, C, self.fit_intercept, bias_penalty)
        assert found.diagonal is not None
        d = found.diagonal
        if np.count_nonzero(d) < self.n_features:
            active = np.flatnonzero(d)
            return _Dual.of(self.Phi[active], d[active], C, self.fit_intercept, bias_penalty)
        stack = np.empty((len(d), self.n_features + 1))
        count = _stack(self.Phi, d, stack)
        moments = Statistics.zeros(self.n_features, 0)
        moments.add_rows(stack[:count])
        return primal(moments.symmetrise(), C, self.fit_intercept, bias_penalty)


def primal(moments: Statistics, C: float, fit_intercept: bool, bias_penalty: float) -> System:
    """``ΦᵀDΦ + I/C`` by Cholesky; a penalty on the constant adds to the sum of D."""
    if fit_intercept:
        if moments.weight + bias_penalty / C <= 0:
            raise LinAlgError("the loss has no curvature at any row, so that nothing determines the constant")
        moments = Statistics(moments.moments.copy(), 0)
        moments.moments[-1, -1] += bias_penalty / C
    return NormalEquations(moments, C, fit_intercept)


@dataclass(frozen=True)
class _Dual:
    r"""The same by Woodbury, over the rows with :math:`D > 0` (:class:`ulmus.solvers.ridge.Leverage`).

    A holds the rows :math:`\sqrt{D}\,\Phi`, centred where there is an intercept.
    """

    centre: np.ndarray
    weight: float
    leverage: Leverage

    @classmethod
    def of(cls, Phi: np.ndarray, d: np.ndarray, C: float, fit_intercept: bool, bias_penalty: float) -> "_Dual":
        root = np.sqrt(d)[:, None]
        centre, weight, constant = np.zeros(Phi.shape[1]), 0.0, 0.0
        A = Phi * root
        if fit_intercept:
            total = float(d.sum())
            weight = total + bias_penalty / C
            if weight <= 0:
                raise LinAlgError("the loss has no curvature at any row, so that nothing determines the constant")
            h = d @ Phi
            centre, constant = h / weight, 1.0 / weight
            if total > 0:
                # ΦᵀDΦ − hhᵀ/weight: centred rows, and what a penalised constant leaves of their mean
                A = np.vstack([(Phi - h / total) * root, h[None, :] * np.sqrt(1.0 / total - 1.0 / weight)])
        K = times_own_transpose(A)
        K[np.diag_indices_from(K)] += 1.0 / C
        factor, info = lower_factor(K)
        if info:
            raise LinAlgError(f"the dual system is not positive definite at row {info}")
        return cls(centre, weight, Leverage(factor, centre, constant, rows=A, C=C))

    def inverse(self, B: np.ndarray) -> np.ndarray:
        return self.leverage.inverse(B)
