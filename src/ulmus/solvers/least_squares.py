"""Least squares with a triangular or small dense matrix: by QR with a penalty, by singular values without one."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular, svd

from ulmus._blas import upper_rcond
from ulmus.exceptions import NumericalWarning
from ulmus.statistics import upper_factor

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class LeastSquares:
    """Minimiser, its condition number and a root of its normal equations, as :class:`Leverage` takes it."""

    beta: np.ndarray
    condition: float
    root: np.ndarray
    spectral: bool = False


def least_squares(A: np.ndarray, Y: np.ndarray, C: float | None, n_rows: int) -> LeastSquares:
    """Minimiser of ``‖Aβ − Y‖² + ‖β‖²/C``, of smallest norm when ``C`` is None.

    ``n_rows`` is the number of rows that ``A`` sums up, less one if they are centred. Without a penalty, directions
    whose singular value is below ``ε max(n_rows, D)`` times the largest are cut: so much of it is round-off of the sum.
    """
    D = A.shape[1]
    if C is not None:
        ridge = np.column_stack([np.eye(D) / np.sqrt(C), np.zeros((D, Y.shape[1]))])
        R = upper_factor(np.vstack([np.column_stack([A, Y]), ridge]))
        rcond = upper_rcond(R[:D, :D])
        beta = solve_triangular(R[:D, :D], R[:D, D:], check_finite=False)
        return LeastSquares(beta, float(1 / max(rcond, 1e-150) ** 2), R[:D, :D].T)
    U, s, Vt = svd(A, full_matrices=False, check_finite=False)
    cut = EPS * max(n_rows, D) * s[0]
    rank = int(np.count_nonzero(s > cut))
    root = Vt[:rank].T / s[:rank]
    if rank < min(D, n_rows):
        warnings.warn(
            f"the hidden layer has rank {rank} of {min(D, n_rows)} in float64 (singular values below {cut:.1e} are "
            "round-off); the least-squares weights of smallest norm were taken. A ridge (C=...), fewer nodes or "
            "columns that do not repeat each other would be more stable",
            NumericalWarning,
            stacklevel=2,
        )
    condition = float((s[0] / s[rank - 1]) ** 2) if rank else 1.0
    return LeastSquares(root @ (U[:, :rank].T @ Y), condition, root, spectral=True)
