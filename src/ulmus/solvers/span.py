r"""Newton's method on the directions that rows reach, where a penalty is too small to hold the others.

Weights are a sum of the rows, :math:`\beta = \tilde\Phi^T\alpha`: the penalty leaves none where no row reaches. In
float64 that part is C times the round-off of the gradient, and sums of squares know I/C no more once
:math:`C\,\|\tilde\Phi^TD\tilde\Phi\|` is beyond 1/eps. So where it is large, the features of rows in memory are
:math:`z = (\phi - m)V` with the right singular vectors V of :math:`\Phi - m` whose values are no round-off. The problem
is the same, as V is orthonormal; its columns are orthogonal and each has the digits of its own size.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular, svd

from ulmus.losses import Loss
from ulmus.solvers.newton import NewtonOptions, NewtonResult, newton
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.objective import Objective
from ulmus.solvers.remembered import Remembered
from ulmus.solvers.ridge import DOUBLE, EPS, Leverage, NormalEquations
from ulmus.statistics import Statistics

#: Products for which singular vectors are found at once.
TINY = 10**6


@dataclass(frozen=True)
class Span:
    """Features ``Z = (Φ − m)V`` of rows; ``rest`` is orthonormal to V."""

    Phi: np.ndarray
    Z: np.ndarray
    mean: np.ndarray
    V: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, Phi: np.ndarray, centred: bool) -> "Span":
        """That of rows; means are taken out where a free constant takes them in."""
        mean = Phi.mean(axis=0) if centred else np.zeros(Phi.shape[1])
        away = Phi - mean
        _, s, Vt = svd(away, full_matrices=True, check_finite=False)
        largest = max(s[0], np.sqrt(len(Phi)) * float(np.linalg.norm(mean)))  # means leave their round-off
        rank = max(1, int(np.count_nonzero(s > EPS * max(Phi.shape) * largest)))
        V = Vt[:rank].T
        return cls(Phi, away @ V, mean, V, Vt[rank:].T)

    def outside(self, found: NewtonResult, C: float) -> NewtonResult:
        """The result for the features as they were."""
        beta, lag = self.V @ found.beta, self.V @ found.lag[0]
        assert isinstance(found.leverage, Leverage)
        return replace(
            found,
            beta=beta,
            intercept=found.intercept - float(self.mean @ beta),
            leverage=self._leverage(found.leverage, C),
            lag=(lag, found.lag[1] - float(self.mean @ lag)),
        )

    def _leverage(self, inner: Leverage, C: float) -> Leverage:
        """``φ̃ᵀV(ZᵀDZ + I/C)⁻¹Vᵀφ̃``, and C times the square of what no row reaches."""
        centre = self.mean + self.V @ inner.centre
        if inner.rows is not None:
            return replace(inner, centre=centre, rows=inner.rows @ self.V.T)
        root = self.V @ solve_triangular(inner.root, np.eye(len(inner.root)), lower=True, check_finite=False).T
        return Leverage(np.hstack([root, np.sqrt(C) * self.rest]), centre, inner.constant, spectral=True)


def minimise(
    rows: Objective,
    loss: Loss,
    c: np.ndarray,
    C: np.ndarray,
    beta: np.ndarray,
    intercept: np.ndarray,
    options: NewtonOptions,
) -> list[NewtonResult]:
    """:func:`ulmus.solvers.newton.newton`, on the span of held rows where sums have no digits for C."""
    held = rows.rows if isinstance(rows, Remembered) else rows
    if not isinstance(held, HeldRows) or not beyond_digits(held, float(np.max(C * loss.sharpest / c))):
        return newton(rows, loss, c, C, beta, intercept, options)
    centred = held.fit_intercept and not options.bias_penalty
    span: Span | None = held.spans.get(centred)
    if span is None or span.Phi is not held.Phi:
        span = held.spans[centred] = Span.of(held.Phi, centred)
    start = span.V.T @ beta, intercept + span.mean @ beta
    plain = HeldRows(span.Z, held.rows, held.fit_intercept, held.n_jobs)  # nothing is kept of the features as they were
    found = newton(plain, loss, c, C, *start, options)
    return [span.outside(result, float(C[j])) for j, result in enumerate(found)]


def beyond_digits(rows: HeldRows, C: float) -> bool:
    """Whether round-off of ``CΦᵀWΦ + I`` matters; where finding the span takes a while, whether 1 is lost in it."""
    n, D = rows.Phi.shape
    loss = EPS * C * float(rows.rows.weights @ np.einsum("ij,ij->i", rows.Phi, rows.Phi))
    if n * D * min(n, D) <= TINY:
        return loss > DOUBLE.correct
    if n < D or loss <= DOUBLE.give_up:
        return loss > DOUBLE.give_up
    try:
        stats = Statistics.of(rows.Phi, np.empty((n, 0)), rows.rows.weight)
        return EPS * NormalEquations(stats, C, rows.fit_intercept).condition > DOUBLE.give_up
    except LinAlgError:
        return True
