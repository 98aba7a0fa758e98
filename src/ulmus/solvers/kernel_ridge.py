r"""Exact kernel ridge: :math:`\alpha = (K + W^{-1}/C)^{-1} T` with one n × n matrix alive."""

import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from ulmus import engine
from ulmus._blas import cholesky_in_place, mirror_upper
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import CrossKernel
from ulmus.features.sampling import joint_keys, row_keys

_BLOCK_ROWS = 256


@dataclass(frozen=True)
class DualSolution:
    """Dual weights and intercept; of the last rows, residuals and ``1 − u h`` (what leaving a copy out leaves).

    ``C`` is the penalty in use, where it had to be another one than was asked for.
    """

    alpha: np.ndarray
    intercept: np.ndarray
    condition: float
    residual: np.ndarray
    remainder: np.ndarray
    C: float | None = None


def square_matrix(n: int) -> np.ndarray:
    """An n × n matrix to be filled: in memory, or where it would take more than half of it, in a file without a name.

    It is factored in panels, so that a pass over the file serves :data:`ulmus._blas.PANEL` columns.
    """
    needed, present = 8 * n * n, engine.physical_memory()
    if present is None or needed <= present / 2:
        return np.empty((n, n))
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise MemoryError(
            f"an exact kernel model of {n} rows needs {needed / 2**30:.1f} GiB for its kernel matrix; this machine has "
            f"{present / 2**30:.1f} GiB of memory, and {folder} has {free / 2**30:.1f} GiB left. Use the NKELM model, "
            "whose memory does not grow with the rows, or let the variable TMPDIR name a folder on a larger disk"
        )
    with tempfile.TemporaryFile() as file:
        return np.asarray(np.memmap(file, np.float64, "w+", shape=(n, n)))


def kernel_triangle(cross: CrossKernel, X: Any, n_jobs: int | None = -1) -> tuple[np.ndarray, np.ndarray]:
    """Upper triangle of ``κ(X, X)`` (``cross`` holds the same rows) and the absolute row sums of the whole."""
    n = X.shape[0]
    K, sums = square_matrix(n), np.zeros(n)
    workspace = engine.Workspace()

    def work(rows: slice) -> tuple[slice, np.ndarray, np.ndarray]:
        block = workspace.array("kernel", (rows.stop - rows.start, n - rows.start), np.float64)
        cross.transform_block(X[rows], block, slice(rows.start, None))
        K[rows, rows.start :] = block
        np.abs(block, out=block)
        width = rows.stop - rows.start
        return rows, block.sum(axis=1), block[:, width:].sum(axis=0)

    for rows, across, down in engine.ordered_map(work, engine.pieces(n, _BLOCK_ROWS), n_jobs):
        sums[rows] += across
        sums[rows.stop :] += down
    K.ravel()[:: n + 1] = cross.diagonal(X)
    return K, sums


def kernel_square(cross: CrossKernel, X: Any, n_jobs: int | None = -1) -> np.ndarray:
    """``κ(X, X)``, both triangles."""
    K, _ = kernel_triangle(cross, X, n_jobs)
    mirror_upper(K)
    return K


def kernel_system(
    cross: CrossKernel, X: Any, C: float, weight: np.ndarray | None, n_jobs: int | None = -1
) -> tuple[np.ndarray, float]:
    """Lower triangle (Fortran order) of ``K + W⁻¹/C``, and its 1-norm."""
    K, sums = kernel_triangle(cross, X, n_jobs)
    ridge = 1.0 / C if weight is None else 1.0 / (C * weight)
    K.ravel()[:: len(K) + 1] += ridge
    return K.T, float((sums + ridge).max())


#: ``(kernel, rows, numbers of last rows, their folds)`` → their solution.
Solve = Callable[[CrossKernel, Rows, int, np.ndarray | None], DualSolution]


def on_distinct_rows(
    solve: Solve, cross: CrossKernel, rows: Rows, n_last: int, last_folds: np.ndarray | None
) -> DualSolution:
    """The solution of rows, found with each that is repeated as one row of their weight: ``α_i`` is its share of that.

    Copies of a row add eigenvalues 1/C to the system, and what is left without all of them, ``1 − Σ w h``, would be a
    difference of numbers that agree in as many digits.
    """
    n, m = len(rows), min(n_last, len(rows))
    w, folds = np.ones(n) if rows.weight is None else rows.weight, np.full(n, -1)
    unit = w if rows.unit is None else rows.unit
    if last_folds is not None:
        folds[n - m :] = last_folds
    inputs = row_keys(cross.Z, 0)
    keys = joint_keys(inputs, row_keys(np.column_stack([rows.T, folds, unit]), 1))
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    # equal inputs tell nothing: round-off of many rows cancels as that of a few with their weight does not
    if len(first) == n or np.all(inputs == inputs[0]):
        return solve(cross, rows, n_last, last_folds)
    late = np.bincount(place[n - m :], minlength=len(first)) > 0
    order = np.argsort(np.where(late, n, 0) + first)
    index, mass = first[order], np.bincount(place, w)
    place, few = np.argsort(order)[place], int(late.sum())
    last = place[n - m :] - (len(first) - few)
    own = None if last_folds is None else folds[index[len(index) - few :]]
    kernel = cross.function if cross.kernel is None else cross.kernel
    assert kernel is not None
    one = replace(rows.take(index), weight=mass[order], unit=unit[index])
    found = solve(CrossKernel(kernel, cross.Z[index], cross.parameters), one, few, own)
    return replace(
        found,
        alpha=found.alpha[place] * (w / mass[order][place])[:, None],
        residual=found.residual[last],
        remainder=found.remainder[last],
    )


def fit_kernel_ridge(
    cross: CrossKernel,
    rows: Rows,
    C: float,
    *,
    fit_intercept: bool = False,
    n_last: int = 1,
    last_folds: np.ndarray | None = None,
    n_jobs: int | None = -1,
) -> DualSolution:
    """Dual weights of all rows, with what leave-one-out of the last ``n_last`` of them needs (:func:`fit_distinct`)."""
    solve = partial(fit_distinct, C=C, fit_intercept=fit_intercept, n_jobs=n_jobs)
    return on_distinct_rows(solve, cross, rows, n_last, last_folds)


def fit_distinct(
    cross: CrossKernel,
    rows: Rows,
    n_last: int,
    last_folds: np.ndarray | None,
    *,
    C: float,
    fit_intercept: bool,
    n_jobs: int | None,
) -> DualSolution:
    """Dual weights, solved in place, with what leave-one-out of the last ``n_last`` rows needs.

    With ``last_folds``, the numbers of the folds in which these rows stand, whole folds F are left out instead:
    ``(A⁻¹_FF)⁻¹ α_F`` is the error of the model without them.

    With an intercept ``b`` the system is bordered, ``α = A⁻¹(T − 1b)`` and ``1ᵀα = 0``; targets are seen about their
    mean, of which α knows nothing and whose digits ``C`` would multiply. The last diagonal entries of
    ``A⁻¹`` need only the last block of the Cholesky factor, which is why leave-one-out of those rows is free.

    With a warning each: where round-off alone makes a definite kernel indefinite, the largest C that float64 has room
    for takes the place of the one asked for; a kernel that is not definite goes to the symmetric indefinite solver.
    """
    n, m = len(rows), min(n_last, len(rows))
    T = rows.T.astype(np.float64)
    mean = T.mean(axis=0) if fit_intercept else np.zeros(T.shape[1])
    T -= mean
    B = np.column_stack([T, np.ones(n)]) if fit_intercept else T
    A, norm = kernel_system(cross, rows.X, C, rows.weight, n_jobs)
    info, factor = cholesky_in_place(A), A
    if info == 0:
        rcond, _ = lapack.dpocon(factor, norm, uplo="L")
        solve = partial(lapack.dpotrs, factor, lower=1)
        S, _ = solve(B)
        half = solve_triangular(factor[n - m :, n - m :], np.eye(m), lower=True, check_finite=False)
        inverse = half.T @ half if last_folds is not None else np.einsum("ij,ij->j", half, half)
    elif _definite(cross) and (held := largest_C(n, norm, rows.weight)) < C:
        del A, factor
        warnings.warn(
            f"the kernel matrix plus I/C has a condition number beyond what float64 holds, which makes it indefinite "
            f"(at row {info} of {n}); C = {held:.3g} replaced C = {C:.3g}. A smaller C or gamma would be more stable",
            NumericalWarning,
            stacklevel=5,
        )
        again = fit_distinct(cross, rows, n_last, last_folds, C=held, fit_intercept=fit_intercept, n_jobs=n_jobs)
        return replace(again, C=held)
    else:
        del A, factor
        warnings.warn(
            f"the kernel matrix plus I/C is not positive definite (it failed at row {info} of {n}); the symmetric "
            "indefinite solver was used. A positive definite kernel or a smaller C would be more stable",
            NumericalWarning,
            stacklevel=5,
        )
        A, norm = kernel_system(cross, rows.X, C, rows.weight, n_jobs)
        factor, pivots, S, info = lapack.dsysv(A, np.column_stack([B, np.eye(n, m, m - n)]), lower=1, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("the kernel matrix plus I/C is singular; choose a smaller C")
        rcond, _ = lapack.dsycon(factor, pivots, norm, lower=1)
        solve = partial(lapack.dsytrs, factor, pivots, lower=1)
        S, inverse = S[:, : B.shape[1]], S[n - m :, B.shape[1] :]
        inverse = inverse if last_folds is not None else np.diag(inverse)
    condition = float(1 / max(rcond, 1e-300))
    if condition * np.finfo(float).eps > 1e-2:
        warnings.warn(
            f"the kernel system has condition number {condition:.1e}: fewer than two digits are certain. "
            "A smaller C would be more stable",
            NumericalWarning,
            stacklevel=5,
        )
    alpha, b = S, np.zeros(T.shape[1])
    if fit_intercept:
        u = S[:, -1]
        alpha, b = bordered(S[:, :-1], u, T, lambda T: solve(T)[0])
        v, b = u[n - m :], mean + b
        inverse = inverse - (np.outer(v, v) if last_folds is not None else v**2) / u.sum()
    last = rows.take(slice(n - m, n))
    w = last.weights
    if last_folds is not None:
        error, left = without_folds(inverse, alpha[n - m :], last_folds, C, w, w if last.unit is None else last.unit)
        return DualSolution(alpha, b, condition, error * left[:, None], left)
    share = np.ones(m) if last.unit is None else last.unit / w
    residual = alpha[n - m :] / (C * w)[:, None]
    return DualSolution(alpha, b, condition, residual, 1.0 - share + share * inverse / (C * w))


def bordered(
    S: np.ndarray, u: np.ndarray, T: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """``α = A⁻¹(T − 1b)`` and the b with ``1ᵀα = 0``, from ``S = A⁻¹T`` and ``u = A⁻¹1``.

    Where weights differ by orders, b is far from the mean and ``S − u b`` cancels; so A is solved once more, for T
    about b, and only round-off is left to take away.
    """
    b = S.sum(axis=0) / u.sum()
    alpha = solve(T - b)
    rest = alpha.sum(axis=0) / u.sum()
    return alpha - np.outer(u, rest), b + rest


def _definite(cross: CrossKernel) -> bool:
    """What the table says of a named kernel; of a callable nothing is known."""
    return cross.kernel is not None and cross.kernel.positive_definite


def largest_C(n: int, norm: float, weight: np.ndarray | None) -> float:
    """The C whose ``W⁻¹/C`` is what round-off can do to eigenvalues of a matrix of this order and norm."""
    heaviest = 1.0 if weight is None else float(weight.max())
    return 1.0 / (n * float(np.finfo(float).eps) * norm * heaviest)


@dataclass(frozen=True)
class KernelVariance:
    """``C (κ(x,x) − k_x A⁻¹ k_xᵀ)`` with ``A = K + W⁻¹/C``: the variance of predictions in units of the noise's.

    An intercept b, of which nothing is known beforehand, adds ``C (1 − k_x A⁻¹ 1)² / 1ᵀA⁻¹1``. ``root`` is the Cholesky
    factor of A, and ``ones`` is ``A⁻¹1`` where there is an intercept.
    """

    cross: CrossKernel
    C: float
    root: np.ndarray
    ones: np.ndarray | None

    @classmethod
    def of(
        cls, cross: CrossKernel, C: float, weight: np.ndarray | None, fit_intercept: bool, n_jobs: int | None = -1
    ) -> "KernelVariance":
        A, _ = kernel_system(cross, cross.Z, C, weight, n_jobs)
        if cholesky_in_place(A):
            raise np.linalg.LinAlgError(
                "the kernel matrix plus I/C is not positive definite, so there is no variance; choose a smaller "
                "C, or a positive definite kernel"
            )
        ones = cho_solve((A, True), np.ones(len(A)), check_finite=False) if fit_intercept else None
        return cls(cross, C, A, ones)

    def __call__(self, X: Any) -> np.ndarray:
        out = np.empty(X.shape[0])
        for piece in engine.pieces(X.shape[0], engine.block_rows(self.cross.n_features_out, np.float64)):
            K = engine.transform_rows(self.cross, X[piece])
            V = solve_triangular(self.root, K.T, lower=True, check_finite=False)
            out[piece] = np.maximum(self.cross.diagonal(X[piece]) - np.einsum("ij,ij->j", V, V), 0.0)
            if self.ones is not None:
                out[piece] += (1.0 - K @ self.ones) ** 2 / self.ones.sum()
        return self.C * out

    def left_out(self, n_last: int, weight: np.ndarray | None) -> np.ndarray:
        """The same of the last rows of the fit, each under the model without it: ``C/(A⁻¹)ᵢᵢ − 1/wᵢ``."""
        n = len(self.root)
        E = np.zeros((n, n_last))
        E[np.arange(n - n_last, n), np.arange(n_last)] = 1.0
        V = solve_triangular(self.root, E, lower=True, check_finite=False)
        own = np.einsum("ij,ij->j", V, V)
        if self.ones is not None:
            own -= self.ones[-n_last:] ** 2 / self.ones.sum()
        noise = 1.0 if weight is None else 1.0 / weight[-n_last:]
        return np.asarray(np.maximum(self.C / own - noise, 0.0))

    def leans(self, X: Any, n_last: int) -> np.ndarray:
        """``(k_x A⁻¹)ᵢ`` of the last rows i, by which a prediction moves with their target.

        With an intercept ``(1 − k_x A⁻¹ 1)(A⁻¹ 1)ᵢ / 1ᵀA⁻¹1`` more.
        """
        K = engine.transform_rows(self.cross, X)
        leans = cho_solve((self.root, True), K.T, check_finite=False)[-n_last:].T
        if self.ones is not None:
            leans += np.outer((1.0 - K @ self.ones) / self.ones.sum(), self.ones[-n_last:])
        return leans


def without_folds(
    inverse: np.ndarray, alpha: np.ndarray, folds: np.ndarray, C: float, w: np.ndarray, unit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of rows under models without their fold, and ``1/(1 + u h₋)`` with their leverages under these."""
    error, left = np.empty(alpha.shape), np.empty(len(alpha))
    for k in np.unique(folds):
        F = np.flatnonzero(folds == k)
        block = np.linalg.inv(inverse[np.ix_(F, F)])
        error[F] = block @ alpha[F]
        left[F] = 1.0 / (1.0 + unit[F] * np.maximum(C * np.diag(block) - 1.0 / w[F], 0.0))
    return error, left
