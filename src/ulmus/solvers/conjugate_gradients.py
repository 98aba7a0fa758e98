r"""Preconditioned conjugate gradients on the normal equations of a Nyström model, with a verified residual.

The weights a on kernel values solve :math:`(K_{xz}^T W K_{xz} + K_{zz}/C)\,a = K_{xz}^T W T`. Forming that matrix costs
:math:`nL^2`; multiplying by it costs :math:`nL` and stores nothing. With landmarks that are a fair sample of the rows,
:math:`K_{xz}^T W K_{xz} \approx \tfrac{n}{L} K_{zz}^2`, so that

.. math:: M = \tfrac nL K_{zz}^2 + \tfrac1C K_{zz} = R\,(\tfrac nL R^TR + I/C)\,R^T, \qquad K_{zz} = RR^T,

is a preconditioner that takes the condition number of :math:`K_{zz}` out of the iteration. Residuals are measured in
the norm of :math:`M^{-1}`: relative to that of the right-hand side they are, up to the quality of M, the relative
error of the fitted values.

Products may be taken in low precision. The residual of the recursion then drifts away from the true one, so it is
*replaced*: after every fall by ``reach``, and before any claim of convergence, the residual is computed again from the
rows in float64. Only what was so verified is returned, and the best of it; more iterations cannot make it worse. Where
the verified residual does not fall, products have lost too many digits, and are taken in float64 from there on.

With an intercept the rows are centred, and so is M: :math:`M - n\,uu^T` with :math:`u = K_{zz}1/L`, by the formula of
Sherman and Morrison (:class:`Centred`).

The code asks of an array only what NumPy arrays and PyTorch tensors have in common.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ulmus.exceptions import NumericalWarning

#: How far the recursion may shrink the residual before it is computed again, by the type of its products.
REACH = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-8}

#: Round-offs (times L) that are added to the diagonal of K_zz in the preconditioner, where it may be singular.
RIDGE = 64.0
#: Iterations without a new lowest residual after which it is computed again.
PATIENCE = 10


class NormalOperator(Protocol):
    """The system ``H a = b`` as the iteration sees it.

    ``reach`` is the factor by which the recursion may shrink the residual before it has to be computed again.
    """

    reach: float

    def right_hand_side(self) -> Any:
        """``b``, in float64."""

    def product(self, P: Any) -> Any:
        """``H P``, as fast as it comes."""

    def residual(self, A: Any) -> Any:
        """``b − H A``, from the rows, in float64."""

    def precondition(self, R: Any) -> Any:
        """``M⁻¹ R``."""

    def widen(self) -> bool:
        """Take products in float64 from now on; False when they were already."""

    def inner(self, U: Any, V: Any) -> np.ndarray:
        """Inner products of the columns, in float64."""

    def columns(self, values: np.ndarray) -> Any:
        """Numbers, one for each column, as a row of this kind of array."""


@dataclass(frozen=True)
class Iterated:
    """Weights, the products with H that they took, their verified residual, and the residuals on the way."""

    a: Any
    n_iter: int
    residual: float
    converged: bool
    history: tuple[float, ...]


def conjugate_gradients(
    system: NormalOperator, *, tolerance: float = 1e-6, max_iter: int = 200, verbose: bool = False
) -> Iterated:
    """Solve ``H a = b`` for every column of b until the verified residual, relative to b, is below the tolerance."""
    began = time.perf_counter()
    b = system.right_hand_side()
    R, A = b, 0.0 * b
    Z = system.precondition(R)
    start = system.inner(R, Z)
    scale = np.where(start > 0, start, 1.0)  # a column of zeros is solved already
    rho, best, best_A = start, float(np.sqrt((start / scale).max(initial=0.0))), A
    history = [best]
    P, count, stalled, reach = Z, 0, False, system.reach
    while best > tolerance and count < max_iter:
        if stalled and not system.widen():
            break
        reach = system.reach if stalled else reach
        goal = np.maximum(0.25 * tolerance**2 * scale, reach**2 * rho)
        A, R, Z, P, rho, count, more = _cycle(system, A, R, Z, P, rho, count, goal, max_iter)
        history += [float(np.sqrt(np.maximum(r / scale, 0.0).max())) for r in more]
        exact = system.residual(A)
        Z_exact = system.precondition(exact)
        true = system.inner(exact, Z_exact)
        now = float(np.sqrt(np.maximum(true / scale, 0.0).max()))
        stalled = not now < 0.5 * best
        if now > 2 * history[-1]:  # the recursion went further than its digits: stop where they ended
            reach = min(max(now / best, system.reach), 0.25)
        if now < best:
            drift = exact - R
            drifted = (system.inner(drift, system.precondition(drift)) > 0.01 * true).any()
            best, best_A, R, Z, rho = now, A, exact, Z_exact, true
            P = Z if drifted else P
        else:  # what came after the best is thrown away
            A = best_A
            R = system.residual(A)
            Z = system.precondition(R)
            rho, P = system.inner(R, Z), Z
        history.append(best)
        if verbose:
            print(
                f"[{time.perf_counter() - began:6.1f} s] {count} iterations: verified residual {now:.1e}, "
                f"{history[-2]:.1e} by the recursion"
            )
    return Iterated(best_A, count, best, best <= tolerance, tuple(history))


def _cycle(
    system: NormalOperator,
    A: Any,
    R: Any,
    Z: Any,
    P: Any,
    rho: np.ndarray,
    count: int,
    goal: np.ndarray,
    max_iter: int,
) -> tuple[Any, Any, Any, Any, np.ndarray, int, list[np.ndarray]]:
    """Iterate until the recursion's residuals have fallen to the goal."""
    more: list[np.ndarray] = []
    lowest, since = float((rho / goal).max()), 0
    while count < max_iter and (rho > goal).any() and since < PATIENCE:
        Q = system.product(P)
        count += 1
        curvature = system.inner(P, Q)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=(curvature > 0) & (rho > 0))
        if not step.any():
            break
        A = A + P * system.columns(step)
        R = R - Q * system.columns(step)
        Z = system.precondition(R)
        new = system.inner(R, Z)
        more.append(new)
        ratio = np.divide(new, rho, out=np.zeros_like(rho), where=(rho > 0) & (new > 0))
        P = Z + P * system.columns(ratio)
        rho = new
        height = float((rho / goal).max())
        lowest, since = (height, 0) if height < lowest else (lowest, since + 1)
    return A, R, Z, P, rho, count, more


class Centred:
    """``(M − n uuᵀ)⁻¹`` from ``M⁻¹``: the preconditioner of centred rows."""

    def __init__(self, solve: Any, u: Any, n: float) -> None:
        self.solve, self.u, self.n = solve, u, n
        self.Mu = solve(u)
        # 1 − n uᵀM⁻¹u is positive: uuᵀ is what the constant function has of M
        self.rest = max(1.0 - n * float((u * self.Mu).sum()), 1e-12)

    def __call__(self, B: Any) -> Any:
        X = self.solve(B)
        return X + self.Mu * ((self.n / self.rest) * (self.Mu * B).sum(0))


def warn_unless_converged(found: Iterated, tolerance: float) -> None:
    """Say so, with the number, when the tolerance was not met."""
    if not found.converged:
        warnings.warn(
            f"conjugate gradients stopped after {found.n_iter} iterations at a relative residual of "
            f"{found.residual:.1e}, above the tolerance {tolerance:g}; a smaller C, fewer landmarks or a larger "
            "tolerance would be more stable",
            NumericalWarning,
            stacklevel=3,
        )
