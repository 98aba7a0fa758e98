r"""Softmax and logistic regression in the space of a kernel: dual weights, with one n × n factor.

With :math:`\beta = \Phi^T\alpha` and :math:`\lambda = 1/C` the scores are :math:`F = O + K\alpha + b` and the objective
is :math:`\sum_i w_i\ell(F_i) + \frac\lambda2\alpha^TK\alpha`. A gradient is :math:`\Phi^Tz` with
:math:`z = W(P - Y) + \lambda\alpha`, and a step in the metric :math:`M = \Phi^TWD\,\Phi + \lambda I` is

.. math:: \delta = (K + \lambda(WD)^{-1})^{-1}(WD)^{-1}z,\qquad K\delta = (WD)^{-1}(z - \lambda\delta),

so one Cholesky factor serves every step, and no product with K is ever taken: vectors carry their images
:math:`K\alpha` along. D is the curvature at the offsets (which are nearly right already), never above Böhning's bound
and never below a share of it; it is made anew where many steps ask for it. With :math:`D = \frac12` a step is
:math:`\alpha - 2(K + 2\lambda I)^{-1}((P - Y) + \lambda\alpha)`.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from ulmus._blas import cholesky_in_place, mirror_upper, solve_factored
from ulmus.solvers.descent import Minimum, minimise
from ulmus.solvers.log_few import FewRows
from ulmus.solvers.log_joint import MOST_ROWS, SINGLE, JointInverse, Space, class_leverages, joint_flops
from ulmus.solvers.log_leave_out import leave_out_each, leave_out_scores
from ulmus.solvers.log_loss import (
    WeightedLogLoss,
    curvature,
    curved,
    log_odds,
    proportions,
    second_derivative,
    targets,
)
from ulmus.solvers.log_metric import DENSE, DenseMetric, factored
from ulmus.solvers.softmax import LogSolution, warn_unfinished

#: Curvature of a row below this share of the largest possible is taken for that: a sure row may turn out to be wrong.
FLOOR = 0.02
#: Multiplications of a factor in the time in which a solve fetches one of its entries from memory.
MEMORY_FLOPS = 20
#: Passes that a metric of all classes together may cost.
JOINT_PASSES = 40.0
#: What may be left of the objective while products are in single precision.
COARSE = 1e-6
#: The least curvature where rows are left out: there, it is wanted as it is.
LEAST = 1e-10
#: What is added to the diagonal of every kernel matrix, in units of its largest entry.
JITTER = 1e-11
#: Raised diagonals of a kernel matrix that has no factor, at most.
MAX_JITTERS = 8


@dataclass(frozen=True)
class DualLogSolution:
    """Dual weights, intercepts, scores of the rows, and how the run ended."""

    alpha: np.ndarray
    intercept: np.ndarray
    F: np.ndarray
    value: float
    gap: float
    converged: bool
    n_passes: int
    left_out: np.ndarray | None = None
    n_metrics: int = 0

    def among(self, n: int, index: np.ndarray) -> "DualLogSolution":
        """The same for n rows, of which these were its own."""
        alpha = np.zeros((n, self.alpha.shape[1]))
        alpha[index] = self.alpha
        return replace(self, alpha=alpha)


class KernelObjective(WeightedLogLoss):
    """The objective in the space of a kernel; vectors are ``[α; b; Kα]``, gradients ``[z; Σz]``.

    The factor is made over the upper triangle and the diagonal of ``K`` (C-ordered); the lower one stays, so that it
    can be made again. A trace of :data:`JITTER` on the diagonal keeps directions in sight that K does not see.
    """

    def __init__(
        self,
        K: np.ndarray,
        T: np.ndarray,
        C: float,
        weight: np.ndarray | None,
        offset: np.ndarray | None,
        fit_intercept: bool,
        jitter: float = JITTER,
    ) -> None:
        self.n, self.m = T.shape
        self.K, self.Y, self.ridge = K, targets(T), 1.0 / C
        self.w = np.ones(self.n) if weight is None else weight
        self.offset = np.zeros(T.shape) if offset is None else offset
        self.fit_intercept = fit_intercept
        self.metric_cost = self.n / (MEMORY_FLOPS + 6.0 * self.m)  # a solve waits for memory, a factor does not
        own = K.diagonal()
        trace = jitter * max(float(np.abs(own).max()), np.finfo(float).tiny)
        self.diagonal = own + trace / np.maximum(self.w, 1.0)  # of a row that stands for several, as theirs would be
        self.jitter, self.fresh = 0.0, True
        self.joint: JointInverse | None = None
        self.single: np.ndarray | None = None
        self.may_join = self.m > 1 and offset is None and self.n <= MOST_ROWS  # offsets leave little to do
        self._at: tuple[np.ndarray, np.ndarray] | None = None

    def start(self) -> np.ndarray:
        v = np.zeros((2 * self.n + 1, self.m))
        if self.fit_intercept and not self.offset.any():
            v[self.n] = log_odds(np.average(self.Y, axis=0, weights=self.w))
        return v

    def image(self, v: np.ndarray) -> np.ndarray:
        return v[self.n + 1 :] + v[self.n]

    def scores(self, v: np.ndarray) -> np.ndarray:
        return self.offset + self.image(v)

    def _covector(self, E: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        return np.vstack([E + self.ridge * alpha, E.sum(axis=0)])

    def gradient(self, F: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._covector(self.pull(F), v[: self.n])

    def curve(self, F: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._at is None or self._at[0] is not F:  # a direction takes many products at one point
            self._at = F, proportions(F)
        P, U = self._at[1], self.image(d)
        return self._covector(curved(P, U) * self.w[:, None], d[: self.n]), U

    def inner(self, u: np.ndarray, v: np.ndarray) -> float:
        return self.ridge * float(np.vdot(u[: self.n], v[self.n + 1 :]))

    def pair(self, g: np.ndarray, v: np.ndarray) -> float:
        return float(
            np.vdot(g[: self.n], v[self.n + 1 :]) + (np.vdot(g[self.n], v[self.n]) if self.fit_intercept else 0.0)
        )

    def metric(self, F: np.ndarray, floor: float = FLOOR) -> None:
        P = proportions(F)
        if not self._join(P):
            self._factor(np.clip(curvature(P), floor * bound(self.m), bound(self.m)))

    def space(self) -> Space:
        """The kernel as it is, where a factor has been."""
        self._restore()
        self.K[np.diag_indices(self.n)] = self.diagonal
        return Space.of(self.K, self.w, self.ridge, self.fit_intercept)

    def _restore(self) -> None:
        if not self.fresh:
            mirror_upper(self.K.T)
        self.fresh = True

    def _join(self, P: np.ndarray) -> bool:
        """The Hessian but for what hardly bends, where that is worth its price."""
        self.joint = None
        if not self.may_join:
            return False
        space = self.space()
        kept = space.bending(P)
        if kept is None:
            return False
        cost = joint_flops(kept) / (self.n**2 * (MEMORY_FLOPS + 6.0 * self.m))
        if cost > JOINT_PASSES:
            return False
        self.joint, self.constant, self.metric_cost = JointInverse.of(space, P, kept), space.constant, cost
        return True

    def _factor(self, d: np.ndarray) -> None:
        """``K + λ(WD)⁻¹``, factored."""
        self.wd = self.w * d
        self._restore()
        self.factor, self.fresh = self.K.T, False
        jitter = 0.0
        for _ in range(MAX_JITTERS):
            self.K[np.diag_indices(self.n)] = self.diagonal + jitter + self.ridge / self.wd
            if not cholesky_in_place(self.factor):
                break
            mirror_upper(self.K.T)
            jitter = max(10 * jitter, 1e-12 * self.n * float(self.diagonal.max()))
        else:
            raise np.linalg.LinAlgError(
                f"the kernel matrix is not positive definite, even with {jitter:.1e} added to its diagonal; choose a "
                "positive definite kernel"
            )
        self.diagonal, self.jitter = self.diagonal + jitter, self.jitter + jitter
        if self.fit_intercept:  # bordered by a column of ones
            self.u = solve_factored(self.factor, np.ones((self.n, 1)))[:, 0]

    def finer(self) -> bool:
        return False

    def direction(self, g: np.ndarray) -> np.ndarray:
        if self.joint is not None:
            return self._joint_direction(self.joint, g)
        z, b = g[: self.n], np.zeros(self.m)
        rhs = z / self.wd[:, None]
        delta = solve_factored(self.factor, rhs)
        if self.fit_intercept:
            # (K + λ(WD)⁻¹) δ + b = (WD)⁻¹z, and Σ WD (Kδ + b) = g_b, that is λ Σδ = Σz − g_b
            b = (delta.sum(axis=0) - (z.sum(axis=0) - g[self.n]) / self.ridge) / self.u.sum()
            delta = delta - np.outer(self.u, b)
        return np.vstack([delta, b, rhs - b - self.ridge * delta / self.wd[:, None]])

    def _joint_direction(self, joint: JointInverse, g: np.ndarray) -> np.ndarray:
        """``δ = (z − S(Kz + t g_b))/λ``, and the intercepts, t what they add to the kernel; all in scores of mean 0."""
        z, U = g[: self.n], self._product(g[: self.n])
        U += self.constant * g[self.n] - U.mean(axis=1, keepdims=True)
        Z = joint.solve(U)
        Z -= Z.mean(axis=1, keepdims=True)
        b, rest = self.constant * (g[self.n] - Z.sum(axis=0)), z - Z
        return np.vstack([rest, b - b.mean(), self._product(rest)]) / self.ridge

    def _product(self, Z: np.ndarray) -> np.ndarray:
        """``KZ``, in single precision where that is wanted; a product from the left is the quicker one."""
        K = self.K if self.single is None else self.single
        return (np.ascontiguousarray(Z.T, K.dtype) @ K).T.astype(np.float64)

    def coarsened(self) -> bool:
        """Let products be in single precision from now on; whether that is enough for the variances of scores."""
        if not self.may_join or float(self.diagonal.mean()) > SINGLE * self.ridge:
            return False
        self.single = self.K.astype(np.float32)
        return True

    def refined(self, v: np.ndarray) -> np.ndarray:
        """Products are in double precision from now on; the vector with its image in it."""
        if self.single is None:
            return v
        self.single = None
        self.space()
        return np.vstack([v[: self.n + 1], self._product(v[: self.n])])

    def leverages(self, F: np.ndarray, first: int = 0, rough: bool = False) -> np.ndarray:
        """``φᵀ(ΦᵀWD_cΦ + λI)⁻¹φ``, ``d_c = p_c(1 − p_c)``, at scores F: ``[row, class]``, from a row on."""
        P, out = proportions(F), np.empty((self.n - first, self.m))
        if self.may_join:
            return class_leverages(self.space(), P, self.Y, slice(first, None), rough)
        for c in range(self.m):
            self._factor(np.maximum(P[:, c] * (1.0 - P[:, c]), LEAST))
            out[:, c] = self._leverage(first)
        return out

    def class_leverages(self, F: np.ndarray) -> np.ndarray:
        """``φᵀH⁻¹φ`` of every row by the Hessian itself, ``[row, class, class]``: features are the factor of K."""
        K = np.tril(self.K, -1)
        K += K.T
        K[np.diag_indices(self.n)] = self.diagonal
        Phi = np.column_stack([np.tril(factored(K)), np.ones(self.n)])
        penalty = np.append(np.full(self.n, self.ridge), 0.0)
        if not self.fit_intercept:
            Phi, penalty = Phi[:, :-1], penalty[:-1]
        return DenseMetric.of(Phi, proportions(F), self.w, penalty).leverage(Phi)

    def _leverage(self, first: int) -> np.ndarray:
        """``φᵀM⁻¹φ`` of rows by the factor: ``(r − r²(A⁻¹)_ii)/λ`` with ``A = K + diag(r)``, ``r = λ/wd``."""
        r = self.ridge / self.wd[first:]
        inverse = inverse_diagonal(self.factor[first:, first:])
        if self.fit_intercept:
            inverse = inverse - self.u[first:] ** 2 / self.u.sum()
        return np.maximum(r - r**2 * inverse, 0.0) / self.ridge


def bound(m: int) -> float:
    """Böhning's: no second derivative of the loss is larger."""
    return 0.25 if m == 1 else 0.5


def inverse_diagonal(factor: np.ndarray) -> np.ndarray:
    """Diagonal of ``(LLᵀ)⁻¹``."""
    L, info = lapack.dtrtri(factor, lower=1)
    if info:
        raise np.linalg.LinAlgError("the factor is singular")
    L = np.tril(L)
    return np.einsum("ij,ij->j", L, L)


def fit_kernel_softmax(
    K: np.ndarray,
    T: np.ndarray,
    C: float,
    *,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-10,
    max_passes: int = 500,
    unit: np.ndarray | None = None,
    leave_one_out: bool = False,
    last: int | None = None,
    begun: DualLogSolution | None = None,
    rough: bool = False,
    jitter: float = JITTER,
) -> DualLogSolution:
    """The minimiser for a kernel matrix, whose upper triangle is overwritten.

    With ``leave_one_out`` also the scores of rows (of the ``last`` ones) by the model without them (without
    ``unit`` of their weight), to second order; of many rows classes are taken one by one, with a factor for each.
    Offsets are taken as they are. ``begun`` is the solution for another penalty. ``rough`` scores, by which models are
    compared, have leverages in single precision where that is enough.
    """
    objective = KernelObjective(K, T, C, weight, offset, fit_intercept, jitter)
    v = objective.start()
    if begun is not None:
        v = np.vstack([begun.alpha, begun.intercept, K @ begun.alpha])
    found = _minimum(objective, v, tol, max_passes)
    warn_unfinished(found, C)
    n, b = objective.n, found.v[objective.n]
    if objective.jitter:
        warnings.warn(
            f"the diagonal of a kernel matrix was raised by {objective.jitter:.1e} to factor it", stacklevel=2
        )
    b = b - (b.mean() if objective.m > 1 else 0.0) if fit_intercept else np.zeros(objective.m)
    left_out = None
    if leave_one_out:
        first = 0 if last is None else n - last
        u = np.minimum(objective.w, 1.0) if unit is None else unit
        F, P = found.F[first:], proportions(found.F[first:])
        E = P - objective.Y[first:]
        if objective.m > 1 and n * objective.m <= DENSE:
            left_out = leave_out_scores(
                F, E, second_derivative(P), objective.class_leverages(found.F)[first:], u[first:]
            )
        else:
            h = objective.leverages(found.F, first, rough)
            left_out = leave_out_each(F, E, P, h, u[first:], objective.diagonal[first:] * C)
    return DualLogSolution(
        *(found.v[:n].copy(), b, found.F, found.value, found.gap, found.converged, found.n_passes, left_out),
        n_metrics=found.n_metrics,
    )


def _minimum(objective: KernelObjective, v: np.ndarray, tol: float, max_passes: int) -> Minimum:
    """Descend, with products in single precision until little is left."""
    if not objective.coarsened():
        return minimise(objective, v, tol=tol, max_passes=max_passes)
    near = minimise(objective, v, tol=max(tol, COARSE), max_passes=max_passes)
    if tol >= COARSE:
        return near
    v = objective.refined(near.v)
    found = minimise(objective, v, tol=tol, max_passes=max_passes, fresh=objective.joint is None)
    passes, metrics = (getattr(near, name) + getattr(found, name) for name in ("n_passes", "n_metrics"))
    return replace(found, n_passes=passes, n_metrics=metrics)


def fit_few_rows(
    few: FewRows, *, tol: float, begun: DualLogSolution | None = None, leave_one_out: bool = False
) -> DualLogSolution:
    """The minimiser for features of few rows; with ``leave_one_out`` scores without each row, by which to compare."""
    problem, rows = few.problem, few.problem.rows
    return fit_kernel_softmax(
        *(few.K.copy(), rows.T, problem.C),
        weight=rows.weight,
        unit=rows.unit,
        fit_intercept=problem.fit_intercept,
        tol=tol,
        leave_one_out=leave_one_out,
        begun=begun,
        rough=True,
        jitter=0.0,
    )


def on_features(few: FewRows, found: DualLogSolution) -> LogSolution:
    """The same model by weights of the features."""
    problem, Phi = few.problem, few.problem.rows.X
    beta = Phi.T @ found.alpha
    beta -= beta.mean(axis=1, keepdims=True)
    F = Phi @ beta + found.intercept
    slope = Phi.T @ ((proportions(F) - targets(problem.rows.T)) * problem.weight[:, None]) + beta / problem.C
    bound = 0.5 * problem.C * float(np.vdot(slope, slope)) / max(found.value, np.finfo(float).tiny)
    ended = (found.value, found.gap, bound, found.converged, found.n_passes, found.n_metrics)
    return LogSolution(beta, found.intercept, F, *ended, gram=None)
