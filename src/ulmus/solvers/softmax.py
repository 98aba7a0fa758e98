r"""Softmax and logistic regression on features, in steps of one factor.

With scores :math:`F = O + \Phi\beta + b` (O: offsets, the scores of another model) the weights minimise

.. math:: J(\beta, b) = \sum_i w_i\,\ell(F_i) + \frac{\|\beta\|^2}{2C},

:math:`\ell` the log loss of :mod:`ulmus.solvers.log_loss`; b has no penalty. This is the C of scikit-learn's
``LogisticRegression``. A gradient is a pass over the rows of cost nLk. What makes few of them do is a metric
(:mod:`ulmus.solvers.log_metric`) that costs one factor of an L × L matrix, as ridge regression does, and is made again
only where that is cheaper than the passes it saves (:mod:`ulmus.solvers.descent`).
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import solve_lower, solve_lower_transposed
from ulmus.engine import FeatureMap, Precomputed, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.solvers.descent import minimise
from ulmus.solvers.log_loss import WeightedLogLoss, curvature, curved, log_odds, proportions, targets
from ulmus.solvers.log_metric import DENSE, ClassMetric, DenseMetric, KroneckerMetric, class_curvature
from ulmus.solvers.nystrom_ridge import passed_form
from ulmus.solvers.ridge import FEW_ROWS
from ulmus.solvers.sampled_descent import minimise_by_sample

#: Passes after which a run is stopped, with a warning.
MAX_PASSES = 500
#: The metric is summed over this many rows per feature at most, drawn at random: it points the way, no more.
METRIC_ROWS = 16
#: Rows that are so sure that together they hold this share of the curvature are left out of the sum.
SURE = 0.01
#: Features beyond this size have squares that overflow.
LARGEST = 1e70
#: Multiplications of a matrix product in the time in which a pass fetches one feature from memory.
MEMORY_FLOPS = 64
#: Scores that single precision makes uncertain by more than this are computed in double precision.
BLURRED = 1e-4
#: Features that are held at a time, at most, where the Hessian is taken as it is.
DENSE_CELLS = 2**23
#: Passes that a metric with a matrix for every class may cost.
WORTH_FACTORING = 250.0
#: Cells of the factors of a metric with a matrix for every class, at most.
FINE_CELLS = 2**25


@dataclass(frozen=True)
class LogProblem:
    """Rows (targets are ±1 codes), their features, offsets ``[row, column]``, and the penalty.

    ``whitening`` is a lower triangular ``R`` when the features in question are ``φ R⁻ᵀ``; ``scale`` are the factors by
    which columns were divided; ``squared`` are the features to be squared, where whitening the squares loses digits.
    """

    features: FeatureMap
    rows: Rows
    C: float
    fit_intercept: bool = True
    offset: np.ndarray | None = None
    n_jobs: int | None = -1
    whitening: np.ndarray | None = None
    scale: np.ndarray | None = None
    squared: FeatureMap | None = None

    @classmethod
    def of(
        cls,
        Phi: np.ndarray,
        T: np.ndarray,
        C: float,
        weight: np.ndarray | None = None,
        *,
        unit: np.ndarray | None = None,
        offset: np.ndarray | None = None,
        fit_intercept: bool = True,
        n_jobs: int | None = -1,
    ) -> "LogProblem":
        """A problem of features in memory; columns whose squares would overflow are divided by a power of two."""
        largest = np.abs(Phi).max(axis=0, initial=0.0)
        scale = None
        if largest.max(initial=0.0) > LARGEST:
            scale = 2.0 ** np.round(np.log2(np.where(largest > LARGEST, largest, 1.0)))
            Phi = Phi / scale
        return cls(Precomputed(Phi.shape[1]), Rows(Phi, T, weight, unit), C, fit_intercept, offset, n_jobs, None, scale)

    @classmethod
    def nystrom(cls, features: Any, rows: Rows, C: float, **more: Any) -> "LogProblem":
        """On a feature map. Of a Nyström map few rows are whitened at once, and many as costs no digits."""
        if not getattr(features, "triangular", False):
            return cls(features, rows, C, **more)
        if len(rows) <= FEW_ROWS:
            Phi = engine.transform(features, rows.X, n_jobs=more.get("n_jobs", -1))
            return cls(Precomputed(Phi.shape[1]), replace(rows, X=Phi), C, **more)
        summed, R, squared = passed_form(features)
        return cls(summed, rows, C, whitening=R, squared=squared, **more)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be positive and finite for the log loss, got {self.C!r}")
        if self.offset is not None and self.offset.shape != self.rows.T.shape:
            raise ValueError(
                f"offset must have shape {self.rows.T.shape}, one score per target column, got {self.offset.shape}"
            )

    @property
    def weight(self) -> np.ndarray:
        return self.rows.weights

    def objective(self, gram: np.ndarray | None = None) -> Any:
        """The objective, where the features are."""
        return FeatureObjective(self, gram)


@dataclass(frozen=True)
class LogSolution:
    """Weights and intercepts, scores of the rows, the objective, and how the run ended.

    ``gap`` is what is left of the objective, by its curvature near the end; ``bound`` what is left of it in any case,
    ``C‖g‖²/2J`` of the penalised weights.
    """

    beta: np.ndarray
    intercept: np.ndarray
    F: np.ndarray
    value: float
    gap: float
    bound: float
    converged: bool
    n_passes: int
    n_metrics: int
    gram: np.ndarray | None


class FeatureObjective(WeightedLogLoss):
    """The objective on features; vectors are ``[β; b]``, one column per score."""

    def __init__(self, problem: LogProblem, gram: np.ndarray | None = None) -> None:
        self.problem, rows = problem, problem.rows
        self.Y, self.w = targets(rows.T), problem.weight
        self.L, self.m = problem.features.n_features_out, rows.T.shape[1]
        self.size = self.L + problem.fit_intercept
        self.penalty = np.full(self.size, 1.0 / problem.C)
        self.penalty[self.L :] = 0.0
        if problem.scale is not None:
            self.penalty[: self.L] /= problem.scale**2
        self.gram = gram
        self.M: KroneckerMetric | ClassMetric | DenseMetric | None = None
        self.fine = False
        self._at: tuple[np.ndarray, np.ndarray] | None = None
        self._workspace = engine.Workspace()
        drawn = min(len(rows), METRIC_ROWS * max(self.L, 64))
        self._drawn = None if drawn == len(rows) else np.sort(np.random.RandomState(0).permutation(len(rows))[:drawn])
        flops = drawn * self.L**2 + self.m * self.L**3
        # for two classes the Gram matrix is the Hessian, and can be used again
        self.dense = self.m > 1 and self.size * self.m <= DENSE and len(rows) * self.size <= DENSE_CELLS
        if self.dense:
            flops = len(rows) * (self.L * self.m) ** 2 / 2 + (self.L * self.m) ** 3 / 3
        # a pass waits for memory, a product of matrices does not
        self.metric_cost = flops / max(len(rows) * self.L * (MEMORY_FLOPS + 4 * self.m), 1)
        if gram is not None and not self.dense:
            self._factor(np.broadcast_to(np.average(self.Y, axis=0, weights=self.w), self.Y.shape))

    @property
    def is_large(self) -> bool:
        """Whether rows are so many that a sample of them knows the curvature."""
        return not self.dense and self._drawn is not None and 2 * len(self._drawn) < len(self.w)

    # passes over the rows

    def _sum(
        self, work: Callable[[slice, np.ndarray], np.ndarray], rows: Rows, v: np.ndarray | None, coarse: bool = False
    ) -> np.ndarray:
        """``[Φ 1]ᵀ work(tile, Φv + b)`` over tiles of the rows, in single precision where ``coarse``.

        Without ``v`` there are no scores, and half of the work.
        """
        problem = self.problem
        a, b = np.empty((self.L, 0)), np.empty((1, 0))
        if v is not None:
            a, b = self.unwhitened(v[: self.L]), v[self.L :]
        coarse = coarse and bool(np.finfo(np.float32).eps * np.linalg.norm(a) <= BLURRED)
        dtype = np.float32 if coarse else np.float64

        def of_slab(slab: slice) -> np.ndarray:
            G = np.zeros((self.size, self.m))
            for tile, Phi in _tiles(problem.features, rows, slab, self._workspace, dtype):
                f = (Phi @ a.astype(Phi.dtype, copy=False)).astype(np.float64, copy=False)
                if problem.fit_intercept and v is not None:
                    f += b
                E = work(tile, f)
                G[: self.L] += Phi.T @ E.astype(Phi.dtype, copy=False)
                G[self.L :] += E.sum(axis=0)
            return G

        g = np.zeros((self.size, self.m))
        for part in engine.ordered_map(of_slab, engine.slabs(len(rows)), problem.n_jobs):
            g += part
        if problem.whitening is not None:
            beta = np.ascontiguousarray(g[: self.L])
            solve_lower(problem.whitening, beta)
            g[: self.L] = beta
        return g

    def unwhitened(self, beta: np.ndarray) -> np.ndarray:
        """Weights on the features as they are evaluated."""
        a = np.array(beta, order="C")
        if self.problem.whitening is not None:
            solve_lower(self.problem.whitening, a, transposed=True)
        return a

    def scores(self, v: np.ndarray) -> np.ndarray:
        problem = self.problem
        F = engine.apply(problem.features, problem.rows.X, self.unwhitened(v[: self.L]), n_jobs=problem.n_jobs)
        if problem.fit_intercept:
            F += v[self.L :]
        return F if problem.offset is None else F + problem.offset

    def gradient(self, F: np.ndarray, v: np.ndarray) -> np.ndarray:
        E = self.pull(F)
        return self._sum(lambda tile, _: E[tile], self.problem.rows, None) + self.penalty[:, None] * v

    def sweep(self, v: np.ndarray, coarse: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Scores and gradient at ``v``, by one pass; ``coarse``: features may be evaluated in single precision."""
        F, problem = np.empty(self.Y.shape), self.problem

        def work(tile: slice, f: np.ndarray) -> np.ndarray:
            F[tile] = f if problem.offset is None else f + problem.offset[tile]
            return (proportions(F[tile]) - self.Y[tile]) * self.w[tile, None]

        return F, self._sum(work, problem.rows, v, coarse) + self.penalty[:, None] * v

    def _proportions(self, F: np.ndarray) -> np.ndarray:
        """Those of the last scores are kept: a direction takes many products at one point."""
        if self._at is None or self._at[0] is not F:
            self._at = F, proportions(F)
        return self._at[1]

    def curve(self, F: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P, image = self._proportions(F), np.empty(F.shape)

        def work(tile: slice, U: np.ndarray) -> np.ndarray:
            image[tile] = U
            return curved(P[tile], U) * self.w[tile, None]

        return self._sum(work, self.problem.rows, d) + self.penalty[:, None] * d, image

    # products of scores and of weights

    def fetched(self, F: np.ndarray) -> np.ndarray:
        """Scores as an array."""
        return F

    def inner(self, u: np.ndarray, v: np.ndarray) -> float:
        return float(self.penalty @ (u * v).sum(axis=1))

    def pair(self, g: np.ndarray, v: np.ndarray) -> float:
        return float(np.vdot(g, v))

    # the metric

    def direction(self, g: np.ndarray) -> np.ndarray:
        assert self.M is not None
        return self.M.inverse(g)

    def metric(self, F: np.ndarray, exact: bool = False) -> None:
        P = proportions(F)
        if self.dense:
            with engine.threads_for(self.size * self.m):
                self.M = DenseMetric.of(self.design(slice(None)), P, self.w, self.penalty)
            return
        if self.fine:
            with engine.threads_for(self.size):
                self.M = ClassMetric.of(
                    (self.weighted_gram(w) for w in (self.w[:, None] * P * (1.0 - P)).T), self.penalty
                )
            return
        self.gram = self.weighted_gram(self.w * curvature(P), 0.0 if exact else SURE)
        self._factor(P)

    def finer(self) -> bool:
        """Let metrics have a matrix for every class from now on; whether that is new, and worth its price."""
        if self.fine or self.dense or self.m == 1 or self.m * self.size**2 > FINE_CELLS:
            return False
        if self.m * self.metric_cost > WORTH_FACTORING:
            return False
        self.fine, self.metric_cost = True, self.m * self.metric_cost
        return True

    def _factor(self, P: np.ndarray) -> None:
        assert self.gram is not None
        with engine.threads_for(self.size):
            self.M = KroneckerMetric.of(self.gram, class_curvature(P, self.w), self.penalty)

    def design(self, rows: slice | np.ndarray) -> np.ndarray:
        """``[Φ 1]`` of these rows."""
        X = self.problem.rows.X[rows]
        out = np.ones((X.shape[0], self.size))
        Phi = engine.transform(self.problem.features, X, n_jobs=self.problem.n_jobs)
        if self.problem.whitening is not None:
            solve_lower_transposed(self.problem.whitening, Phi)
        out[:, : self.L] = Phi
        return out

    def weighted_gram(self, d: np.ndarray, sure: float = SURE) -> np.ndarray:
        """``[Φ 1]ᵀ diag(d) [Φ 1]``, from some rows where they are very many, and without those that add little."""
        problem, index, total = self.problem, np.arange(len(d)), float(d.sum())
        if self._drawn is not None and sure > 0:
            index = self._drawn
            d = d[index] * (total / max(float(d[index].sum()), np.finfo(float).tiny))
        order = np.argsort(d)
        unsure = np.sort(order[int(np.searchsorted(np.cumsum(d[order]), sure * total)) :])
        rows = problem.rows.take(index[unsure])
        rows = Rows(rows.X, np.empty((len(rows), 0)), d[unsure])
        features, R = (problem.features, problem.whitening) if problem.squared is None else (problem.squared, None)
        kept = isinstance(features, Precomputed)  # the metric points the way: as exact as the features is enough
        dtype = rows.X.dtype if kept and R is None else np.float64
        stats = engine.gram_statistics(features, rows, dtype=dtype, n_jobs=problem.n_jobs)
        with engine.threads_for(self.L):
            stats = stats if R is None else stats.whitened(R)
        return stats.moments if problem.fit_intercept else np.ascontiguousarray(stats.moments[:-1, :-1])


def _tiles(
    features: FeatureMap, rows: Rows, slab: slice, workspace: engine.Workspace, dtype: Any
) -> Iterator[tuple[slice, np.ndarray]]:
    """Features of a slab tile by tile, with the places of the rows among all; features in memory are not copied."""
    if isinstance(features, Precomputed):
        for piece in engine.pieces(slab.stop - slab.start, engine.block_rows(features.n_features_out, np.float64)):
            tile = slice(slab.start + piece.start, slab.start + piece.stop)
            yield tile, rows.X[tile]
        return
    for piece, Phi in engine.feature_tiles(features, rows[slab], dtype, workspace):
        yield slice(slab.start + piece.start, slab.start + piece.stop), Phi


def _descended(objective: Any, problem: LogProblem, start: np.ndarray | None, tol: float, max_passes: int) -> Any:
    """The minimum as it is found from ``start``, or from the frequencies."""
    v = np.zeros((objective.size, objective.m)) if start is None else start
    if start is None and problem.fit_intercept and problem.offset is None:
        v[-1] = log_odds(np.average(targets(problem.rows.T), axis=0, weights=problem.weight))
    if objective.is_large:
        return minimise_by_sample(objective, v, tol=tol, max_passes=max_passes)
    return minimise(objective, v, tol=tol, max_passes=max_passes, fresh=objective.M is None)


def fit_softmax(
    problem: LogProblem,
    *,
    start: np.ndarray | None = None,
    gram: np.ndarray | None = None,
    tol: float = 1e-10,
    max_passes: int = MAX_PASSES,
) -> LogSolution:
    """The minimiser, to a relative ``tol`` in the objective.

    ``start`` are weights ``[β; b]`` nearby; ``gram`` is a matrix ``[Φ 1]ᵀ diag(d) [Φ 1]`` from another run on the same
    rows (the one of a solution), which is enough to begin with.
    """
    objective = problem.objective(gram)
    scale = np.ones(objective.L) if problem.scale is None else problem.scale
    start = start if start is None else start * np.append(scale, np.ones(len(start) - objective.L))[:, None]
    found = _descended(objective, problem, start, tol, max_passes)
    if start is not None and not found.converged and (found.n_passes < max_passes or len(problem.rows) <= FEW_ROWS):
        # where a class of few rows was away scores are so sure that nothing bends there: no step leads out of it
        objective = problem.objective()
        again = _descended(objective, problem, None, tol, max_passes)
        found = again if again.converged or again.value < found.value else found
    warn_unfinished(found, problem.C)
    beta, b = found.v[: objective.L] / scale[:, None], np.zeros(objective.m)
    if problem.fit_intercept:
        b = found.v[-1] - (found.v[-1].mean() if objective.m > 1 else 0.0)
    slope = found.gradient[: objective.L] * scale[:, None]
    bound = 0.5 * problem.C * float(np.vdot(slope, slope)) / max(found.value, np.finfo(float).tiny)
    return LogSolution(
        beta,
        b,
        objective.fetched(found.F),
        found.value,
        found.gap,
        bound,
        found.converged,
        found.n_passes,
        found.n_metrics,
        objective.gram,
    )


def warn_unfinished(found: Any, C: float) -> None:
    """Say so when a run was stopped early."""
    if not found.converged:
        warnings.warn(
            f"the log loss was still falling after {found.n_passes} passes (C = {C:.3g}): about {found.gap:.1e} of the "
            "objective is left; a smaller C, where one is given, would be more stable",
            NumericalWarning,
            stacklevel=3,
        )
