r"""What sums of squares cost in digits, measured on a few of the rows.

Bounds by condition numbers are far above the truth: round-off of many rows averages out, and seldom falls where it is
multiplied most. A sample of m rows tells what it is. Its sums give one gradient of the objective at the solution, the
rows themselves another, in which nothing was squared; the difference is the round-off of the sample's sums, and
:math:`\sqrt{g^T(\Phi^TW\Phi + I/C)^{-1}g}` is what it does to fitted values. That of all rows is larger by the ratio
of the sums at most, as round-off that is not of one sign grows by its root. What whitening the sum of all rows costs is
measured on that sum.
"""

from dataclasses import dataclass, replace

import numpy as np

from ulmus import engine
from ulmus.solvers.ridge import FEW_ROWS, NormalEquations, Precision, Problem, Solution
from ulmus.statistics import Statistics

#: Rows of the sample, at most, and the share of all that they are, at most; fewer than the last are not sampled.
SAMPLED_ROWS, SHARE, FEWEST = 1024, 1 / 8, FEW_ROWS
#: Work of a kernel value, in multiplications, beside its product.
EXPONENTIAL = 10
#: Factor by which a measured loss may be too small.
SAFETY = 10.0


def correction_work(problem: Problem) -> float:
    """Multiplications per feature of a row that a correction by raw kernel values takes."""
    return 2.0 * (problem.rows.X.shape[1] + 2 * problem.rows.T.shape[1] + EXPONENTIAL)


def worth_measuring(problem: Problem, *, whitened: bool) -> bool:
    """Whether a sample is less work than the correction that it may save; ``whitened`` where its sums have to be."""
    n, L = len(problem.rows), problem.features.n_features_out
    whitening = L if problem.whitening is None else 2 * len(getattr(problem.features, "R11", ()))
    correction = n * L * (correction_work(problem) + whitening)
    sample = (SAMPLED_ROWS + 2 * L * whitened) * L**2
    return n >= FEWEST and sample < correction


@dataclass(frozen=True)
class RoundOff:
    """Measures the round-off in the solutions of a problem with these sums (not whitened yet), to be ``corrected``."""

    problem: Problem
    sums: Statistics
    precision: Precision
    corrected: Problem

    def __call__(self, system: NormalEquations, solution: Solution) -> float:
        """Estimate of the relative error of fitted values; infinite for few rows, where corrections are cheap."""
        n = len(self.problem.rows)
        if not worth_measuring(self.corrected, whitened=False):
            return np.inf
        m = min(SAMPLED_ROWS, int(SHARE * n))
        some = replace(self.problem, rows=self.problem.rows.take(np.arange(m) * n // m))
        part = engine.gram_statistics(some.features, some.rows, dtype=self.precision.dtype, n_jobs=some.n_jobs)
        ratio = float(np.trace(self.sums.gram)) / max(float(np.trace(part.gram)), 1e-300)
        exact, exact_b = some.gradient(solution.beta, solution.intercept)
        of_sums, of_sums_b = _gradient(some, part, solution)
        sampled = _size(system, of_sums - exact, of_sums_b - exact_b) * ratio
        whitening = _size(system, *_gradient(self.problem, self.sums, solution))
        energy = system.energy(solution.beta / _unit(solution.beta)) * _unit(solution.beta) ** 2
        return SAFETY * (sampled + whitening) / max(float(np.sqrt(energy)), 1e-300)


@dataclass(frozen=True)
class SampledRoundOff:
    """The same for sums that are white already, of rows of which only these are at hand (``problem``, as summed)."""

    problem: Problem
    sums: Statistics

    def __call__(self, system: NormalEquations, solution: Solution) -> float:
        """Estimate of the relative error of fitted values."""
        n = len(self.problem.rows)
        m = n if n < FEWEST else min(SAMPLED_ROWS, int(SHARE * n))
        some = replace(self.problem, rows=self.problem.rows.take(np.arange(m) * n // m))
        part = some.statistics(np.float64)
        ratio = float(np.trace(self.sums.gram)) / max(float(np.trace(part.gram)), 1e-300)
        exact, exact_b = some.gradient(solution.beta, solution.intercept)
        of_sums, of_sums_b = _gradient(replace(some, whitening=None), part, solution)
        lost = _size(system, of_sums - exact, of_sums_b - exact_b) * ratio
        energy = system.energy(solution.beta / _unit(solution.beta)) * _unit(solution.beta) ** 2
        return SAFETY * lost / max(float(np.sqrt(energy)), 1e-300)


def _unit(beta: np.ndarray) -> float:
    return float(np.abs(beta).max(initial=0.0)) or 1.0


def _gradient(problem: Problem, sums: Statistics, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """Minus half the gradient of the objective, in β and in b, from sums of ``φ``."""
    a, b, D = problem.unwhiten(solution.beta), solution.intercept, sums.n_features
    q, t = sums.moments[:D, -1], sums.moments[D:-1, -1]
    g = problem.whiten(sums.cross - sums.gram @ a - np.outer(q, b))
    return (g if problem.C is None else g - solution.beta / problem.C), t - q @ a - sums.weight * b


def _size(system: NormalEquations, g: np.ndarray, g_b: np.ndarray) -> float:
    """How far fitted values move by a Newton step with this gradient."""
    g = g - np.outer(system.centre, g_b) if system.centre.any() else g
    unit = _unit(g)
    return unit * float(np.sqrt(max(np.sum(system.inverse(g / unit) * (g / unit)), 0.0)))
