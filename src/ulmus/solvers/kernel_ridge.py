r"""Exact kernel ridge: :math:`\alpha = (K + W^{-1}/C)^{-1} T` with one n × n matrix alive."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ulmus import engine
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import CrossKernel

_BLOCK_ROWS = 256


@dataclass(frozen=True)
class DualSolution:
    """Dual weights and intercept."""

    alpha: np.ndarray
    intercept: np.ndarray
    condition: float


def kernel_triangle(cross: CrossKernel, X: Any, n_jobs: int | None = -1) -> tuple[np.ndarray, np.ndarray]:
    """Upper triangle of ``κ(X, X)`` (``cross`` holds the same rows) and the absolute row sums of the whole."""
    n = X.shape[0]
    needed, present = 8 * n * n, engine.physical_memory()
    if present is not None and needed > present:
        raise MemoryError(
            f"an exact kernel model of {n} rows needs {needed / 2**30:.1f} GiB for its kernel matrix and this machine "
            f"has {present / 2**30:.1f} GiB; use the NKELM model, whose memory does not grow with the rows"
        )
    K, sums = np.empty((n, n)), np.zeros(n)
    workspace = engine.Workspace()

    def work(rows: slice) -> tuple[slice, np.ndarray, np.ndarray]:
        block = workspace.array("kernel", (rows.stop - rows.start, n - rows.start), np.float64)
        cross.lift(X[rows], block, slice(rows.start, None))
        K[rows, rows.start :] = block
        np.abs(block, out=block)
        width = rows.stop - rows.start
        return rows, block.sum(axis=1), block[:, width:].sum(axis=0)

    for rows, across, down in engine.ordered_map(work, engine.pieces(n, _BLOCK_ROWS), n_jobs):
        sums[rows] += across
        sums[rows.stop :] += down
    K.ravel()[:: n + 1] = cross.diagonal(X)
    return K, sums


def fit_kernel_ridge(
    cross: CrossKernel,
    X: Any,
    T: np.ndarray,
    C: float,
    *,
    weight: np.ndarray | None = None,
    fit_intercept: bool = False,
    n_jobs: int | None = -1,
) -> DualSolution:
    """Dual weights, solved in place.

    With an intercept ``b`` the system is bordered, ``α = A⁻¹(T − 1b)`` and ``1ᵀα = 0``. A kernel that is not positive
    definite goes to the symmetric indefinite solver, with a warning.
    """
    n = X.shape[0]
    ridge = 1.0 / C if weight is None else 1.0 / (C * weight)
    B = np.column_stack([T, np.ones(n)]) if fit_intercept else np.array(T, dtype=np.float64)

    def system() -> tuple[np.ndarray, float]:
        K, sums = kernel_triangle(cross, X, n_jobs)
        K.ravel()[:: n + 1] += ridge
        return K.T, float((sums + ridge).max())

    A, norm = system()
    factor, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
    if info == 0:
        rcond, _ = lapack.dpocon(factor, norm, uplo="L")
        S, _ = lapack.dpotrs(factor, B, lower=1)
    else:
        del A, factor
        A, _ = system()
        warnings.warn(
            f"the kernel matrix plus I/C is not positive definite (it failed at row {info} of {n}); the symmetric "
            "indefinite solver was used. A positive definite kernel or a smaller C would be steadier",
            NumericalWarning,
            stacklevel=3,
        )
        factor, pivots, S, info = lapack.dsysv(A, B, lower=1, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("the kernel matrix plus I/C is singular; choose a smaller C")
        rcond, _ = lapack.dsycon(factor, pivots, norm, lower=1)
    condition = float(1 / max(rcond, 1e-300))
    if condition * np.finfo(float).eps > 1e-2:
        warnings.warn(
            f"the kernel system has condition number {condition:.1e}: fewer than two digits are certain. "
            "A smaller C would be steadier",
            NumericalWarning,
            stacklevel=3,
        )
    if not fit_intercept:
        return DualSolution(S, np.zeros(T.shape[1]), condition)
    alpha, u = S[:, :-1], S[:, -1]
    b = alpha.sum(axis=0) / u.sum()
    return DualSolution(alpha - np.outer(u, b), b, condition)
