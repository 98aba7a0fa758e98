r"""Triangular factors of large matrices, in place, block by block; two of them share one square.

The preconditioner of :mod:`ulmus.solvers.conjugate_gradients` needs :math:`K_{zz} = RR^T` and
:math:`\tfrac nL R^TR + I/C = AA^T`. R lies above the diagonal (transposed), A below it: one L × L matrix for both.
Solves go block by block with inverted diagonal blocks, so that they run at the speed of memory.
"""

from collections.abc import Callable
from typing import Any

from ulmus.solvers.conjugate_gradients import RIDGE

#: Order of the diagonal blocks.
BLOCK = 4096


def cholesky_in_place(torch: Any, A: Any, block: int = BLOCK) -> bool:
    """Lower Cholesky factor over the lower blocks of ``A``; blocks above stay. False when ``A`` is not definite."""
    n = len(A)
    for j in range(0, n, block):
        e = min(n, j + block)
        corner, info = torch.linalg.cholesky_ex(A[j:e, j:e])
        if int(info) or not bool(torch.isfinite(corner.diagonal().sum())):
            return False
        A[j:e, j:e] = corner
        if e < n:
            A[e:, j:e] = torch.linalg.solve_triangular(corner.T, A[e:, j:e], upper=True, left=False)
            for i in range(e, n, block):
                f = min(n, i + block)
                A[i:, i:f].addmm_(A[i:, j:e], A[i:f, j:e].T, alpha=-1.0)
    return True


def solve_lower(torch: Any, A: Any, B: Any, block: int = BLOCK) -> Any:
    """``R⁻¹ B`` for the lower triangle R of ``A``."""
    X = B.clone()
    for j in range(0, len(A), block):
        e = min(len(A), j + block)
        X[j:e] = torch.linalg.solve_triangular(A[j:e, j:e].tril(), X[j:e], upper=False)
        X[e:].addmm_(A[e:, j:e], X[j:e], alpha=-1.0)
    return X


def solve_upper(torch: Any, A: Any, B: Any, block: int = BLOCK) -> Any:
    """``R⁻ᵀ B`` for the lower triangle R of ``A``."""
    X = B.clone()
    for j in reversed(range(0, len(A), block)):
        e = min(len(A), j + block)
        X[j:e].addmm_(A[e:, j:e].T, X[e:], alpha=-1.0)
        X[j:e] = torch.linalg.solve_triangular(A[j:e, j:e].tril().T, X[j:e], upper=True)
    return X


def gram_of_lower(torch: Any, A: Any, factor: float, block: int = BLOCK) -> None:
    """``factor · RᵀR`` in place of the lower triangle R; what a block needs stands below it or to its right."""
    n = len(A)
    for j in range(0, n, block):
        e = min(n, j + block)
        for i in range(j, n, block):
            f = min(n, i + block)
            product = A[i:f, i:f].tril().T @ (A[i:f, j:e] if i > j else A[j:e, j:e].tril())
            if f < n:
                product.addmm_(A[f:, i:f].T, A[f:, j:e])
            A[i:f, j:e] = product.mul_(factor)


class TwoTriangles:
    """``M⁻¹`` for ``M = R ((n/L) RᵀR + I/C) Rᵀ``, from ``K_zz = R Rᵀ`` in one square matrix.

    ``moments(R)``, where given, is ``R⁻¹ K_xzᵀWK_xz R⁻ᵀ`` estimated from rows: it takes the place of ``(n/L) RᵀR``.
    ``fill()`` makes a new ``K_zz``; it is called again, for a larger ridge, when that was not definite.
    """

    def __init__(
        self,
        torch: Any,
        fill: Callable[[], Any],
        ratio: float,
        C: float,
        block: int = BLOCK,
        moments: Callable[[Any], Any] | None = None,
    ) -> None:
        self.torch, self.block, self.ridge = torch, block, 0.0
        while True:
            A = fill()
            L, unit = len(A), float(A.diagonal().mean())
            self.ridge = 100 * self.ridge or RIDGE * torch.finfo(A.dtype).eps * L * unit
            A.diagonal().add_(self.ridge)
            if cholesky_in_place(torch, A, block):
                break
            del A
            if self.ridge > unit:
                raise FloatingPointError("the landmark kernel is not positive definite; choose another kernel")
        self.R_blocks = self._inverses(A)
        G = None if moments is None else moments(A)
        for j in range(0, L, block):
            A[j : j + block, j + block :] = A[j + block :, j : j + block].T
        if G is None:
            gram_of_lower(torch, A, ratio, block)
        else:
            for j in range(0, L, block):
                A[j:, j : j + block] = G[j:, j : j + block]
            del G
        A.diagonal().add_(1.0 / C)
        if not cholesky_in_place(torch, A, block):
            raise FloatingPointError("the preconditioner is not positive definite; choose a smaller C")
        self.A_blocks = self._inverses(A)
        self.A = A

    def _inverses(self, A: Any) -> list[Any]:
        out = []
        for j in range(0, len(A), self.block):
            corner = A[j : j + self.block, j : j + self.block]
            eye = self.torch.eye(len(corner), dtype=A.dtype, device=A.device)
            out.append(self.torch.linalg.solve_triangular(corner.tril(), eye, upper=False))
        return out

    def _edges(self) -> list[tuple[int, int]]:
        return [(j, min(j + self.block, len(self.A))) for j in range(0, len(self.A), self.block)]

    def half(self, B: Any) -> Any:
        X = B.to(self.A.dtype).clone()
        for (j, e), inverse in zip(self._edges(), self.R_blocks, strict=True):
            X[j:e] = inverse @ X[j:e]
            X[e:].addmm_(self.A[j:e, e:].T, X[j:e], alpha=-1.0)
        for (j, e), inverse in zip(self._edges(), self.A_blocks, strict=True):
            X[j:e] = inverse @ X[j:e]
            X[e:].addmm_(self.A[e:, j:e], X[j:e], alpha=-1.0)
        return X

    def solve(self, B: Any) -> Any:
        X = self.half(B)
        for (j, e), inverse in reversed(list(zip(self._edges(), self.A_blocks, strict=True))):
            X[j:e].addmm_(self.A[e:, j:e].T, X[e:], alpha=-1.0)
            X[j:e] = inverse.T @ X[j:e]
        for (j, e), inverse in reversed(list(zip(self._edges(), self.R_blocks, strict=True))):
            X[j:e].addmm_(self.A[j:e, e:], X[e:], alpha=-1.0)
            X[j:e] = inverse.T @ X[j:e]
        return X
