"""Weights of smallest norm that pass through targets, without one of the rows."""

import numpy as np

from ulmus.solvers.ridge import Leverage


def without_own_row(
    leverage: Leverage, Phi: np.ndarray, beta: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of rows that the weights pass through, once each has left, and variances of their predictions.

    With ``u = w G⁺φ̃`` the weights without a row that no others determine (its leverage is 1) are
    ``β − u (uᵀβ)/‖u‖²``: those of other rows are kept, and nothing is left in the direction that only this row saw.
    So it is missed by ``uᵀβ/‖u‖²``, and predicted with the variance ``uᵀG⁺u/‖u‖⁴ − 1/w``.
    """
    U = leverage.inverse((Phi - leverage.centre).T) * weight
    size = np.einsum("ij,ij->j", U, U)
    variance = np.einsum("ij,ij->j", U, leverage.inverse(U)) / size**2 - 1 / weight
    return U.T @ beta / size[:, None], np.maximum(variance, 0.0)
