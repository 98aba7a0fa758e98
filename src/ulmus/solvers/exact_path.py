r"""Leave-one-out predictions of kernel ridge regression for a few C, where all rows are landmarks.

With :math:`A = K + W^{-1}/C` and :math:`\alpha = A^{-1}T` the residual of a row is :math:`\alpha_i/(C w_i)` and its
leverage, for a weight of 1, :math:`(1 - (A^{-1})_{ii}/(C w_i))/w_i`: a Cholesky factor and its inverse, :math:`2n^3/3`
for every C. On the features of n landmarks it would be whitening, squaring and a solve for every row,
:math:`3n^3` and more. An intercept is the border of the system (:mod:`ulmus.solvers.kernel_ridge`).
"""

import numpy as np
from scipy.linalg import lapack

from ulmus import engine
from ulmus._blas import cholesky_in_place, solve_factored
from ulmus.engine import Rows
from ulmus.solvers.kernel_ridge import largest_C
from ulmus.solvers.ridge import leave_out


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
