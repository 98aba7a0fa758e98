r"""Ridge regression on features: one closed-form solve, with its digits checked.

The weights minimise :math:`\sum_i w_i \|\phi_i\beta + b - t_i\|^2 + \|\beta\|^2 / C`, that is

.. math:: \beta = (I/C + \Phi^T W \Phi)^{-1} \Phi^T W T,

on centred rows when an intercept is asked for. Forms, from cheap to safe:

==============  ============================================================================================
``gram``        sum :math:`\Phi^T\Phi`, Cholesky. When its condition number costs digits, corrections are
                computed from the rows themselves (one more, much cheaper, pass each) until what is left is
                below the tolerance.
``triangular``  QR of the stacked rows, when corrections do not converge or the rank has to be found.
``dual``        an n × n system, when features outnumber rows.
==============  ============================================================================================
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, eigh, lapack, solve_triangular

from ulmus import engine
from ulmus._blas import lower_factor, solve_lower_transposed, times_own_transpose
from ulmus.engine import FeatureMap, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.solvers.least_squares import EPS, least_squares
from ulmus.statistics import Statistics, TriangularStatistics

#: Corrections before the form is given up.
MAX_CORRECTIONS = 4


@dataclass(frozen=True)
class Precision:
    """How exact a solve in Gram form has to be.

    ``dtype`` is the type in which blocks are multiplied; ``tolerance`` the relative error that fitted values may keep.
    The loss of digits is estimated as round-off times condition number: above ``correct`` corrections are computed from
    the rows, above ``give_up`` the form is not trusted. A loss that was measured is left as it is up to ``negligible``.
    """

    dtype: Any = np.float64
    tolerance: float = 1e-10
    negligible: float = 1e-10
    correct: float = 1e-6
    give_up: float = 1e-2


DOUBLE = Precision()
SINGLE = Precision(np.float32, tolerance=1e-4, negligible=1e-4, correct=np.inf, give_up=1.0)
#: Round-off of fewer rows than these does not average out, and correcting it costs hardly anything.
FEW_ROWS, CAREFUL = 2048, replace(DOUBLE, correct=1e-8)


@dataclass(frozen=True)
class Problem:
    """A ridge problem: rows, their features, and the penalty.

    ``whitening`` is a lower triangular ``R`` when the features in question are ``φ R⁻ᵀ``.
    """

    features: FeatureMap
    rows: Rows
    C: float | None
    fit_intercept: bool = False
    n_jobs: int | None = -1
    whitening: np.ndarray | None = None

    def unwhiten(self, beta: np.ndarray) -> np.ndarray:
        """Weights on ``φ`` of the weights ``β`` on ``φ R⁻ᵀ``."""
        if self.whitening is None:
            return beta
        return solve_triangular(self.whitening, beta, lower=True, trans=1, check_finite=False)

    def whiten(self, g: np.ndarray) -> np.ndarray:
        """``R⁻¹ g``: gradients with respect to ``β`` of those with respect to weights on ``φ``."""
        if self.whitening is None:
            return g
        return solve_triangular(self.whitening, g, lower=True, check_finite=False)

    def statistics(self, dtype: Any) -> Statistics:
        """Sums over all rows."""
        return self.whitened(engine.gram_statistics(self.features, self.rows, dtype=dtype, n_jobs=self.n_jobs))

    def whitened(self, stats: Statistics) -> Statistics:
        """Sums of ``φ R⁻ᵀ`` from those of ``φ``."""
        if self.whitening is None:
            return stats
        with engine.threads_for(stats.n_features):
            return stats.whitened(self.whitening, self.n_jobs)

    def gradient(self, beta: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Minus half the gradient of the objective, in β and in b, from the rows."""
        total = engine.gradient(self.features, self.rows, self.unwhiten(beta), intercept, n_jobs=self.n_jobs)
        g, g_b = self.whiten(total[:-1]), total[-1]
        return (g if self.C is None else g - beta / self.C), g_b

    def solve(self, stats: Statistics | None = None, precision: Precision | None = None) -> "Solution":
        """Weights (from the statistics of the features, if given), by the cheapest form that keeps the digits."""
        if len(self.rows) < self.features.n_features_out:
            return fit_dual(self)
        double = CAREFUL if len(self.rows) < FEW_ROWS else DOUBLE
        for wanted in (SINGLE, double) if self.rows.X.dtype == np.float32 and stats is None else (double,):
            solution = fit_gram(self, wanted, stats)
            if solution is not None:
                return replace(solution, form=f"gram {np.dtype(wanted.dtype).name}")
        return fit_triangular(self)

    def solve_sums(self, stats: Statistics, again: "Gradient | None" = None) -> "Solution":
        """Weights from sums of rows of which those here are a sample; ``again`` wins back digits that they lost."""
        return fit_sums(stats, self.C, self.fit_intercept, again)


@dataclass(frozen=True)
class Leverage:
    """``h(φ) = φ̃ᵀ(Φ̃ᵀWΦ̃ + I/C)⁻¹φ̃``, and ``1/Σw`` more with an intercept: how far a prediction leans on its own row.

    ``root`` is lower triangular with ``root rootᵀ = Φ̃ᵀWΦ̃ + I/C``, or, where the rank was cut, ``spectral`` is ``V/s``.
    In dual form (``rows`` given) ``root`` is the factor of ``Φ̃Φ̃ᵀ + I/C`` and Woodbury's identity takes its place.
    """

    root: np.ndarray
    centre: np.ndarray
    constant: float
    spectral: bool = False
    rows: np.ndarray | None = None
    C: float = 1.0

    def scaled(self, factor: float) -> "Leverage":
        """Leverages that are larger by this factor."""
        root = np.sqrt(factor)
        rows = None if self.rows is None else self.rows / root
        inner = self.root * root if self.spectral else self.root / root
        return replace(self, root=inner, rows=rows, C=factor * self.C, constant=factor * self.constant)

    def __call__(self, Phi: np.ndarray) -> np.ndarray:
        V = np.subtract(Phi, self.centre, order="C")
        if self.spectral:
            V = V @ self.root
        elif self.rows is None:
            solve_lower_transposed(self.root, V)
        if self.spectral or self.rows is None:
            return np.einsum("ij,ij->i", V, V) + self.constant
        inside = self._on_rows(V.T)  # h is the least ‖a‖² + C‖φ̃ − Φ̃ᵀa‖², so that an error of a counts by its square
        inside, rest = inside.T, V - inside.T @ self.rows
        return np.einsum("ij,ij->i", inside, inside) + self.C * np.einsum("ij,ij->i", rest, rest) + self.constant

    def inverse(self, V: np.ndarray) -> np.ndarray:
        """``(Φ̃ᵀWΦ̃ + I/C)⁻¹ V``.

        In dual form, of ``V = Φ̃ᵀa + r``, it is ``Φ̃ᵀK⁻¹a + C(r − Φ̃ᵀK⁻¹Φ̃r)``. With a = 0, Woodbury's identity, it would
        be C times a difference that is all round-off once C‖Φ̃‖² is beyond 1/eps; with ``a = K⁻¹Φ̃V`` r is small.
        """
        if self.spectral:
            return self.root @ (self.root.T @ V)
        if self.rows is None:
            return cho_solve((self.root, True), V, check_finite=False)
        A, a = self.rows, self._on_rows(V)
        r = V - A.T @ a
        a = cho_solve((self.root, True), a, check_finite=False) if len(a) else a
        return A.T @ a + self.C * (r - A.T @ self._on_rows(r))

    def _on_rows(self, V: np.ndarray) -> np.ndarray:
        """``(Φ̃Φ̃ᵀ + I/C)⁻¹Φ̃ V``."""
        inside = self.rows @ V
        return cho_solve((self.root, True), inside, check_finite=False) if len(inside) else inside


@dataclass(frozen=True)
class Solution:
    """Weights, how they were come by, and the leverages of rows under them."""

    beta: np.ndarray
    intercept: np.ndarray
    form: str
    condition: float
    leverage: Leverage
    n_corrections: int = 0


class NormalEquations:
    """``(G + I/C) β = B`` on raw or centred statistics, factored once.

    Raises LinAlgError when the matrix is not positive definite, or not finite, in float64.
    """

    def __init__(self, stats: Statistics, C: float | None, fit_intercept: bool) -> None:
        used, self.centre, self.target_mean = stats.about_means(fit_intercept)
        self.weight = stats.weight
        A = used.gram.copy(order="F")
        A[np.diag_indices_from(A)] += 0.0 if C is None else 1.0 / C
        norm = float(np.abs(A).sum(axis=0).max())
        if not np.isfinite(norm):
            raise LinAlgError("the sums overflow")
        self.factor, info = lower_factor(A)
        if info:
            raise LinAlgError(f"normal equations are not positive definite at row {info}")
        rcond, _ = lapack.dpocon(self.factor, norm, uplo="L")
        # round-off is that of the sums before the means were taken out
        summed = max(norm, float(np.abs(stats.gram).sum(axis=0).max())) if fit_intercept else norm
        self.condition = float(summed / norm / max(rcond, 1e-300))
        self.right_hand_side = used.cross
        self.leverage = Leverage(self.factor, self.centre, 1.0 / self.weight if fit_intercept else 0.0)

    def inverse(self, B: np.ndarray) -> np.ndarray:
        return cho_solve((self.factor, True), B, check_finite=False)

    def energy(self, beta: np.ndarray) -> float:
        """``tr βᵀ(G + I/C)β``: the squared size of the fitted values."""
        return float(np.sum((self.factor.T @ beta) ** 2))

    def solution(self) -> Solution:
        beta = self.inverse(self.right_hand_side)
        return Solution(beta, self.target_mean - self.centre @ beta, "gram", self.condition, self.leverage)


def leave_out(T: np.ndarray, residual: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """Predictions without one copy of each row, from training residuals and ``1 − u h``."""
    return T - residual / np.maximum(remainder, np.finfo(float).eps)[..., None]


class Gradient(Protocol):
    """What corrections need: minus half the gradient of the objective, computed from the rows."""

    @property
    def fit_intercept(self) -> bool:
        """Whether there is a b."""

    def gradient(self, beta: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In β and in b."""


def fit_sums(
    stats: Statistics,
    C: float | None,
    fit_intercept: bool,
    again: Gradient | None = None,
    multiplied: float = 1.0,
    measure: "Measure | None" = None,
) -> Solution:
    """Weights from sums, by Cholesky where it keeps the digits, else by eigenvalues.

    ``again`` goes over the rows once more for every correction, where there are digits to win back; if it can sum their
    triangular factor, that is used where corrections do not help. Without it a warning tells how many digits are lost.
    ``multiplied`` says by how much the round-off of the sums has grown since they were taken; as that is a bound, far
    above the truth, it counts where ``measure`` agrees.
    """
    with engine.threads_for(stats.n_features):
        try:
            system = NormalEquations(stats, C, fit_intercept)
            solution, loss, left = system.solution(), EPS * system.condition, DOUBLE.correct
            trusted = loss <= DOUBLE.give_up
            if measure is not None and loss <= DOUBLE.correct < multiplied * loss:
                loss, left = measure(system, solution), DOUBLE.correct if again is None else DOUBLE.negligible
            if again is not None and trusted and loss > left:
                corrected = _corrected(again, system, solution, DOUBLE.tolerance)
                solution, loss = (solution, loss) if corrected is None else (corrected, 0.0)
        except LinAlgError:
            loss, left = np.inf, 0.0
        if loss > left and again is not None and hasattr(again, "triangular"):
            return solve_triangular_statistics(again.triangular(), C, fit_intercept)
        if loss > DOUBLE.give_up:
            solution = _by_eigenvalues(stats, C, fit_intercept)
    if loss > left:
        warnings.warn(
            f"sums of squares have lost digits: the condition number is {solution.condition:.1e} and weights may be "
            f"off by {min(1.0, max(EPS * solution.condition, loss)):.0e} of their size; a smaller C, fewer features or "
            "an OSELM model (its factor is never squared) keep them",
            NumericalWarning,
            stacklevel=2,
        )
    return solution


def _by_eigenvalues(stats: Statistics, C: float | None, fit_intercept: bool) -> Solution:
    """``β = U (UᵀB) / (s + 1/C)``, without what is round-off when there is no penalty."""
    used, centre, mean = stats.about_means(fit_intercept)
    s, U = eigh(used.gram, check_finite=False)
    ridge = 0.0 if C is None else 1.0 / C
    keep = s > (len(s) * EPS * s[-1] if C is None else -np.inf)
    s, U = np.maximum(s[keep], 0.0) + ridge, U[:, keep]
    root = U / np.sqrt(s)
    beta = root @ (root.T @ used.cross)
    leverage = Leverage(root, centre, 1.0 / stats.weight if fit_intercept else 0.0, spectral=True)
    condition = float(s[-1] / s[0]) if len(s) else 1.0
    return Solution(beta, mean - centre @ beta, "eigenvalues", condition, leverage)


#: The loss of digits of a solution, measured.
Measure = Callable[["NormalEquations", Solution], float]


def fit_gram(
    problem: Problem, precision: Precision = DOUBLE, stats: Statistics | None = None, measure: Measure | None = None
) -> Solution | None:
    """Weights by sums (those given, or those of the rows) and Cholesky; None when that would not keep the digits."""
    stats = problem.statistics(precision.dtype) if stats is None else stats
    try:
        with engine.threads_for(stats.n_features):
            system = NormalEquations(stats, problem.C, problem.fit_intercept)
            solution = system.solution()
    except LinAlgError:
        return None
    return with_digits_restored(problem, system, solution, precision, measure)


def with_digits_restored(
    problem: Problem,
    system: NormalEquations,
    solution: Solution,
    precision: Precision,
    measure: Measure | None = None,
) -> Solution | None:
    """The solution with its digits restored where round-off cost some; None when that would not keep them."""
    loss = float(np.finfo(precision.dtype).eps) * system.condition
    if loss > precision.give_up:
        return None
    if loss > precision.correct and measure is not None and measure(system, solution) <= precision.negligible:
        return solution
    return _corrected(problem, system, solution, precision.tolerance) if loss > precision.correct else solution


def _corrected(problem: Gradient, system: NormalEquations, solution: Solution, tolerance: float) -> Solution | None:
    """Newton corrections with the exact gradient: the factor only has to point the way.

    The size of a correction, in the norm of the fitted values, is the error that it removes; two of them tell how fast
    the error falls and so what is left. None when it does not fall.
    """
    previous = 1.0
    for count in range(1, MAX_CORRECTIONS + 1):
        g, g_b = problem.gradient(solution.beta, solution.intercept)
        shift = np.zeros_like(solution.intercept)
        if problem.fit_intercept:
            g, shift = g - np.outer(system.centre, g_b), g_b / system.weight
        step = system.inverse(g)
        beta = solution.beta + step
        intercept = solution.intercept + shift - system.centre @ step
        solution = replace(solution, beta=beta, intercept=intercept, n_corrections=count)
        unit = float(np.abs(beta).max(initial=0.0)) or 1.0  # squares of very small or large weights are no numbers
        size = float(np.sqrt(max(np.sum((step / unit) * (g / unit)), 0.0) / max(system.energy(beta / unit), 1e-300)))
        if size * (size / previous) <= tolerance:
            return solution
        if size > 0.5 * previous:
            return None
        previous = size
    return None


def fit_triangular(problem: Problem) -> Solution:
    """Weights by QR of the stacked rows; minimum-norm least squares for ``C=None``."""
    stats = engine.triangular_statistics(problem.features, problem.rows, n_jobs=problem.n_jobs)
    return solve_triangular_statistics(stats, problem.C, problem.fit_intercept)


def solve_triangular_statistics(stats: TriangularStatistics, C: float | None, fit_intercept: bool) -> Solution:
    """Weights from the triangular factor of the rows."""
    A, Y = stats.least_squares(fit_intercept)
    found = least_squares(A, Y, C, stats.n_rows - fit_intercept)
    present = 1.0 if fit_intercept else 0.0
    feature_mean, target_mean = (present * mean for mean in stats.means())
    leverage = Leverage(found.root, feature_mean, present / stats.factor[0, 0] ** 2, spectral=found.spectral)
    return Solution(found.beta, target_mean - feature_mean @ found.beta, "triangular", found.condition, leverage)


def fit_dual(problem: Problem, Phi: np.ndarray | None = None) -> Solution:
    r"""``β = Φᵀ(I/C + ΦΦᵀ)⁻¹T``: for fewer rows than features; ``Phi`` are those of the rows, where they are known."""
    rows, n = problem.rows, len(problem.rows)
    if Phi is None:
        Phi = engine.transform(problem.features, rows.X, n_jobs=problem.n_jobs)
    T, w = rows.T.astype(np.float64), rows.weights
    feature_mean, target_mean = np.zeros(Phi.shape[1]), np.zeros(T.shape[1])
    if problem.fit_intercept:
        feature_mean, target_mean = w @ Phi / w.sum(), w @ T / w.sum()
        Phi, T = Phi - feature_mean, T - target_mean
    root = np.sqrt(w)[:, None]
    Phi, T = Phi * root, T * root
    constant = 1.0 / w.sum() if problem.fit_intercept else 0.0
    if problem.C is not None:
        K = times_own_transpose(Phi)
        K[np.diag_indices(n)] += 1.0 / problem.C
        norm = float(np.abs(K).sum(axis=0).max())
        factor, info = lower_factor(K)
        if not info:
            condition = float(1 / max(lapack.dpocon(factor, norm, uplo="L")[0], 1e-300))
            if condition * EPS <= DOUBLE.correct:
                alpha = cho_solve((factor, True), T, check_finite=False)
                beta = Phi.T @ alpha
                # one correction from the rows gives back what squaring them cost
                step = cho_solve((factor, True), T - Phi @ beta - alpha / problem.C, check_finite=False)
                beta += Phi.T @ step
                leverage = Leverage(factor, feature_mean, constant, rows=Phi, C=problem.C)
                return Solution(beta, target_mean - feature_mean @ beta, "dual", condition, leverage)
    found = least_squares(Phi, T, problem.C, n - problem.fit_intercept)
    leverage = Leverage(found.root, feature_mean, constant, spectral=found.spectral)
    return Solution(found.beta, target_mean - feature_mean @ found.beta, "dual", found.condition, leverage)
