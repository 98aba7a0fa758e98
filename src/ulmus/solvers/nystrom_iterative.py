r"""The iterative route on the CPU: the operator of conjugate gradients from passes of the engine."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from ulmus import engine
from ulmus._blas import cholesky_in_place, square_in_place
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, gram_matrix
from ulmus.solvers.conjugate_gradients import REACH, RIDGE, Centred, Iterated, conjugate_gradients


class LandmarkTriangles:
    """``M⁻¹`` for ``M = R ((n/L) RᵀR + I/C) Rᵀ``: R above the diagonal of one matrix, the factor of the rest below."""

    def __init__(self, cross: CrossKernel, ratio: float, C: float) -> None:
        kernel = cross.kernel or cross.function
        assert kernel is not None
        ridge, unit = 0.0, float(cross.diagonal(cross.Z).mean())
        while True:
            A = np.asfortranarray(gram_matrix(kernel, cross.Z, cross.parameters))
            L = len(A)
            ridge = 100 * ridge or RIDGE * np.finfo(float).eps * L * unit
            A.ravel(order="K")[:: L + 1] += ridge
            if cholesky_in_place(A) == 0:
                break
            if ridge > unit:
                raise FloatingPointError("the landmark kernel is not positive definite; choose another kernel")
        for j in range(L):
            A[j, j + 1 :] = A[j + 1 :, j]
        self.R_diagonal = A.diagonal().copy()
        square_in_place(A)
        for j in range(L):
            A[j:, j] *= ratio
        A.ravel(order="K")[:: L + 1] += 1.0 / C
        if cholesky_in_place(A):
            raise FloatingPointError("the preconditioner is not positive definite; choose a smaller C")
        self.A, self.A_diagonal = A, A.diagonal().copy()

    def _solve(self, B: np.ndarray, lower: int, transposed: int) -> np.ndarray:
        self.A.ravel(order="K")[:: len(self.A) + 1] = self.A_diagonal if lower else self.R_diagonal
        return blas.dtrsm(1.0, self.A, B, lower=lower, trans_a=transposed, overwrite_b=1)

    def half(self, B: np.ndarray) -> np.ndarray:
        """``A⁻¹ R⁻¹ B``: its squared columns are the leverages of kernel columns ``B``."""
        X = self._solve(np.array(B, order="F"), lower=0, transposed=1)
        return self._solve(X, lower=1, transposed=0)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """``M⁻¹ B``."""
        X = self._solve(self.half(B), lower=1, transposed=1)
        return self._solve(X, lower=0, transposed=0)


class HostNormal:
    """``H = K_xzᵀ W K_xz + K_zz/C`` (less the mean, with an intercept) from passes over the rows.

    Products are taken in float32 at first, residuals in float64.
    """

    def __init__(
        self, cross: CrossKernel, rows: Rows, C: float, *, fit_intercept: bool = False, n_jobs: int | None = -1
    ) -> None:
        self.cross, self.rows, self.C, self.n_jobs = cross, rows, C, n_jobs
        self.fit_intercept = fit_intercept
        self.weight = rows.total_weight
        self.triangles = LandmarkTriangles(cross, self.weight / cross.n_features_out, C)
        self.precondition: Any = self.triangles.solve
        if fit_intercept:
            mean = np.full((cross.n_features_out, 1), 1.0 / cross.n_features_out)
            u = engine.apply(cross, cross.Z, mean, n_jobs=n_jobs)
            self.precondition = Centred(self.triangles.solve, u, self.weight)
        self.dtype: Any = np.float32
        self.reach = REACH[np.dtype(np.float32)]
        s = rows.T.shape[1]
        beside = Rows(rows.X, np.column_stack([rows.T, np.ones(len(rows))]), rows.weight)
        sums = engine.gradient(cross, beside, np.zeros((cross.n_features_out, s + 1)), np.zeros(s + 1), n_jobs=n_jobs)
        self.kernel_mean, self.target_mean = sums[:-1, -1] / self.weight, sums[-1, :-1] / self.weight
        self._b = sums[:-1, :-1]
        if fit_intercept:
            self._b = self._b - self.weight * np.outer(self.kernel_mean, self.target_mean)
        self._zeros = replace(rows, T=np.zeros((len(rows), s)))

    def right_hand_side(self) -> np.ndarray:
        return self._b

    def _product(self, P: np.ndarray, dtype: type) -> np.ndarray:
        none = np.zeros(P.shape[1])
        H = -engine.gradient(self.cross, self._zeros, P, none, n_jobs=self.n_jobs, dtype=dtype)[:-1]
        if self.fit_intercept:
            H -= self.weight * np.outer(self.kernel_mean, self.kernel_mean @ P)
        return H + engine.apply(self.cross, self.cross.Z, P, dtype=dtype, n_jobs=self.n_jobs) / self.C

    def product(self, P: np.ndarray) -> np.ndarray:
        return self._product(P, self.dtype)

    def widen(self) -> bool:
        narrow, self.dtype = self.dtype == np.float32, np.float64
        self.reach = REACH[np.dtype(np.float64)]
        return bool(narrow)

    def residual(self, A: np.ndarray) -> np.ndarray:
        return self._b - self._product(A, np.float64)

    def inner(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->j", U, V)

    def columns(self, values: np.ndarray) -> np.ndarray:
        return values

    def solve(self, tolerance: float, max_iter: int, verbose: bool = False) -> tuple[Iterated, np.ndarray]:
        """The weights on kernel values with their record, and the intercept."""
        found = conjugate_gradients(self, tolerance=tolerance, max_iter=max_iter, verbose=verbose)
        if not self.fit_intercept:
            return found, np.zeros(self.rows.T.shape[1])
        return found, self.target_mean - self.kernel_mean @ found.a

    def leverages(self, X: np.ndarray) -> np.ndarray:
        """Leverages of a few rows under ``M`` in place of ``H``."""
        K = engine.transform_rows(self.cross, X)
        if self.fit_intercept:
            K -= self.kernel_mean
        V = self.triangles.half(K.T)
        return np.einsum("ij,ij->j", V, V) + (1.0 / self.weight if self.fit_intercept else 0.0)
