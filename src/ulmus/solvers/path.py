r"""The whole C path from one decomposition, with exact leave-one-out predictions.

With :math:`\Phi^T W \Phi = U \operatorname{diag}(s) U^T` and :math:`A = \Phi U` the weights for every C are
:math:`U\,(U^T\Phi^T W T) / (s + 1/C)`, the leverage of a row is :math:`h = \sum_j A_j^2 / (s_j + 1/C)`, and the
prediction of a row by the model that never saw it is

.. math:: t - \frac{t - A\,(U^T\Phi^TWT)/(s+1/C)}{1 - u h},

where u is the weight that is left out. A weight of k stands for k copies of a row, so that is the weight of one copy:
the row itself when its weight is at most 1. With an intercept, rows are centred and the constant adds
:math:`1/\sum w` to the leverage.

The rotation A is nearly all of the work, and only leverages need it: predictions are :math:`\Phi` times the weights. Of
many features it is taken in single precision, which moves h by some :math:`2\epsilon_{32}\|\phi\|\sqrt{C h}`, as
long as that is below 3e-5 (:data:`SINGLE_REACH`).

A decomposition of L features is some :math:`9 L^3`, on one thread. Of very many features a few C are scored by a
Cholesky factor for each (:mod:`ulmus.solvers.factored_path`).

*Where all rows are landmarks* (:class:`ExactPath`), a few C are scored by the kernel itself. With
:math:`A = K + W^{-1}/C` and :math:`\alpha = A^{-1}T` the residual of a row is :math:`\alpha_i/(C w_i)` and its
leverage, for a weight of 1, :math:`(1 - (A^{-1})_{ii}/(C w_i))/w_i`: a Cholesky factor and its inverse, :math:`2n^3/3`
for every C. On the features of n landmarks it would be whitening, squaring and a solve for every row,
:math:`3n^3` and more. An intercept is the border of the system (:mod:`ulmus.solvers.kernel_ridge`).
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from ulmus import engine
from ulmus._blas import cholesky_in_place, solve_factored, solve_lower
from ulmus.engine import Rows
from ulmus.solvers.kernel_ridge import largest_C
from ulmus.solvers.ridge import Leverage, Solution, leave_out
from ulmus.statistics import Statistics

#: Features above which leverages are computed in single precision, and the largest C·‖φ‖² for which they are.
MANY, SINGLE_REACH = 256, 2.0**16
#: Where models are only compared: features from which on, and what leverages may be off by.
SEVERAL, ROUGH = 128, 3e-3

#: ``(features, targets, weight of one copy)`` of rows → predictions ``[C, row, output]`` and leverages ``[C, row]``.
LeaveOneOut = Callable[[np.ndarray, np.ndarray, np.ndarray | None], tuple[np.ndarray, np.ndarray]]


class Spectrum:
    """What the eigenvalues of the sums give for every C."""

    def __init__(
        self, s: np.ndarray, Z: np.ndarray, target_square: np.ndarray, total: float, *, fit_intercept: bool = False
    ) -> None:
        self.s, self.Z, self.target_square, self.total, self.fit_intercept = s, Z, target_square, total, fit_intercept

    def _shrink(self, C: np.ndarray) -> np.ndarray:
        """``1 / (s + 1/C)``, one column per C."""
        return 1.0 / (self.s[:, None] + 1.0 / np.asarray(C, dtype=float)[None, :])

    def degrees_of_freedom(self, C: np.ndarray) -> np.ndarray:
        """Trace of the smoother for every C."""
        return self.s @ self._shrink(C) + self.fit_intercept

    def residual_square(self, C: np.ndarray) -> np.ndarray:
        """Weighted sum of squared training residuals, ``[C, output]``."""
        shrink = self._shrink(C).T[:, :, None]
        explained = (self.Z**2 * (2 * shrink - self.s[:, None] * shrink**2)).sum(axis=1)
        return np.maximum(self.target_square - explained, 0.0)

    def gcv(self, C: np.ndarray) -> np.ndarray:
        """Generalised cross-validation score ``n ‖e‖² / (n − tr)²``, ``[C, output]``."""
        n = self.total
        left = np.maximum(n - self.degrees_of_freedom(C), 1e-12 * n)
        return n * self.residual_square(C) / left[:, None] ** 2


class RidgePath(Spectrum):
    """Ridge solutions for every C from the statistics of the rows.

    With a ``whitening`` (lower triangular R) the statistics are those of ``φ R⁻ᵀ``, and rows are given as ``φ``, of
    entries near 1 at most: no row has to be whitened. With ``rough``, leverages may be off by :data:`ROUGH`.
    """

    def __init__(
        self,
        stats: Statistics,
        *,
        fit_intercept: bool = False,
        whitening: np.ndarray | None = None,
        rough: bool = False,
    ) -> None:
        used, self.centre, self.target_mean = stats.about_means(fit_intercept)
        with engine.threads_for(stats.n_features):
            s, self.U = np.linalg.eigh(used.gram)
            self.V = self.U
            if whitening is not None:
                self.V = self.U.copy()
                solve_lower(whitening, self.V, transposed=True)
        self.rough = rough
        Z, square = self.U.T @ used.cross, np.diag(used.target)
        self.mean_square = float(np.trace(stats.gram)) / stats.weight
        super().__init__(np.maximum(s, 0.0), Z, square, stats.weight, fit_intercept=fit_intercept)

    def weights(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights ``[feature, C, output]`` and intercepts ``[C, output]``."""
        shrunk = self.Z[:, None, :] * self._shrink(C)[:, :, None]
        beta = np.tensordot(self.U, shrunk, axes=1)
        return beta, self.target_mean - np.tensordot(self.centre, beta, axes=1)

    def row_weights(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights of rows as they are given."""
        beta, intercept = self.weights(C)
        shrunk = self.Z[:, None, :] * self._shrink(C)[:, :, None]
        return (beta if self.V is self.U else np.tensordot(self.V, shrunk, axes=1)), intercept

    def solution(self, C: float) -> Solution:
        """The model of one C, for rows that are not in the statistics."""
        beta, intercept = (value[..., 0, :] for value in self.weights(np.array([C])))
        shrink = self._shrink(np.array([C]))[:, 0]
        constant = 1.0 / self.total if self.fit_intercept else 0.0
        leverage = Leverage(self.U * np.sqrt(shrink), self.centre, constant, spectral=True)
        condition = float(shrink.max(initial=1.0) / shrink.min(initial=1.0))
        return Solution(beta, intercept, "eigenvalues", condition, leverage)

    def leave_one_out(self, C: np.ndarray, unit: np.ndarray | None = None) -> LeaveOneOut:
        """Function that gives exact leave-one-out predictions of rows that are in the statistics, for every C.

        ``unit`` are the weights that leave with those rows, where they are not 1: heavy ones need more digits of h.
        """
        shrink = self._shrink(C)
        shrunk = (self.Z[:, None, :] * shrink[:, :, None]).reshape(len(self.s), -1)
        constant = 1.0 / self.total if self.fit_intercept else 0.0
        dtype = np.float32 if self._single(C, _heaviest(unit)) else np.float64
        V, spread = self.V.astype(dtype, copy=False), shrink.astype(dtype, copy=False)
        offset = self.centre @ self.U
        weights = self.V @ shrunk if dtype == np.float32 else None
        workspace = engine.Workspace()

        def of_rows(Phi: np.ndarray, T: np.ndarray, unit: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            A = workspace.array("rotated", (len(Phi), V.shape[1]), dtype)
            np.matmul(Phi.astype(dtype, copy=False), V, out=A)
            if self.fit_intercept:
                A -= offset.astype(dtype, copy=False)
            fitted = A @ shrunk if weights is None else Phi @ weights - offset @ shrunk
            fitted = fitted.reshape(len(T), len(shrink.T), -1).transpose(1, 0, 2) + self.target_mean
            np.multiply(A, A, out=A)
            h = (A @ spread).T.astype(np.float64, copy=False) + constant
            return leave_out(T, T - fitted, 1.0 - (h if unit is None else unit * h)), h

        return of_rows

    def _single(self, C: np.ndarray, heaviest: float = 1.0) -> bool:
        """Whether single precision is enough for leverages; rows that are not white lose more in the rotation.

        Of a row of weight u, u h has to have digits: the leverage h is 1/u at most, and off by the root of that.
        """
        highest = float(np.max(C, initial=0.0))
        if self.rough and highest > 0 and len(self.s) >= SEVERAL:
            size = np.sqrt(len(self.s)) if self.V is not self.U else np.sqrt(self.mean_square)  # of a row
            lost = np.sqrt(heaviest) * np.linalg.norm(self.V, axis=0) / np.sqrt(self.s + 1.0 / highest)
            return 2.0 * float(np.finfo(np.float32).eps) * size * float(lost.max(initial=0.0)) <= ROUGH
        white = self.V is self.U and len(self.s) > MANY
        return white and highest * heaviest * self.mean_square <= SINGLE_REACH


def _heaviest(unit: np.ndarray | None) -> float:
    """The largest weight that leaves with a row, and at least 1."""
    return 1.0 if unit is None else float(np.max(unit, initial=1.0))


class ExactPath:
    """Predictions of rows by exact kernel models without them; K is that of the rows, none of them twice."""

    def __init__(self, K: np.ndarray, rows: Rows, *, fit_intercept: bool = False, n_jobs: int | None = -1) -> None:
        self.K, self.rows, self.fit_intercept, self.n_jobs = K, rows, fit_intercept, n_jobs
        norm = float(np.abs(K).sum(axis=0).max())
        self.most = float(np.floor(np.log2(largest_C(len(K), norm, rows.weight))))  # beyond, there is no factor

    def left_out(self, C: np.ndarray) -> np.ndarray:
        """Predictions ``[C, row, output]`` of all rows by the models without them."""
        with engine.threads_for(len(self.K)):
            return np.stack(list(engine.ordered_map(self._left_out, list(C), self.n_jobs)))

    def _left_out(self, C: float) -> np.ndarray:
        w, T = self.rows.weights, self.rows.T.astype(np.float64)
        mean = np.average(T, axis=0, weights=w) if self.fit_intercept else np.zeros(T.shape[1])
        T = T - mean
        A = np.array(self.K, order="F")
        A[np.diag_indices(len(A))] += 1.0 / (C * w)
        if cholesky_in_place(A):
            return np.full(T.shape, np.nan)
        alpha = solve_factored(A, np.column_stack([T, np.ones(len(T))]) if self.fit_intercept else T)
        half, _ = lapack.dtrtri(A, lower=1, overwrite_c=1)
        for j in range(1, len(half)):
            half[:j, j] = 0.0
        own = np.einsum("ij,ij->j", half, half)
        if self.fit_intercept:
            alpha, u = alpha[:, :-1], alpha[:, -1]
            alpha = alpha - np.outer(u, alpha.sum(axis=0) / u.sum())
            own = own - u**2 / u.sum()
        share = np.ones(len(w)) if self.rows.unit is None else self.rows.unit / w
        found = leave_out(T, alpha / (C * w)[:, None], 1.0 - share + share * own / (C * w))
        return np.asarray(found + mean)
