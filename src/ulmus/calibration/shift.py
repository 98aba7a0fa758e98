r"""How much more frequent rows are where the model is used than where it was calibrated: a ratio of densities.

:math:`r(x) = \max(\psi(x)\alpha, 0)` with the :math:`\alpha` of least squares (Kanamori, Hido, Sugiyama 2009),

.. math:: \alpha = (H + \lambda I)^{-1} \bar\psi_{new}, \qquad H = \sum_i w_i\psi_i^T\psi_i / \sum_i w_i,

which minimises :math:`\tfrac12 E_{old}\,r^2 - E_{new}\,r` up to the penalty; :math:`\lambda` is that of the least such
loss over five parts left out. Features are those of the model, and a constant.
"""

from typing import Any

import numpy as np

#: Penalties, for features whose mean square is 1, and parts that are left out in turn.
LAMBDAS, PARTS = 10.0 ** np.arange(-4.0, 3.0), 5


def density_ratio(old: np.ndarray, weight: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ratio at old and at new rows, whose features these are; its mean over old rows is 1."""
    centre = np.average(old, axis=0, weights=weight)
    size = np.sqrt(np.average(np.sum((old - centre) ** 2, axis=1), weights=weight)) or 1.0
    A, B = (np.column_stack([np.ones(len(each)), (each - centre) / size]) for each in (old, new))
    losses = np.zeros(len(LAMBDAS))
    for k in range(PARTS):
        out, out_new = np.arange(len(A)) % PARTS == k, np.arange(len(B)) % PARTS == k
        if not (weight[~out].any() and weight[out].any() and (~out_new).any() and out_new.any()):
            continue
        for j, alpha in enumerate(_solved(A[~out], weight[~out], B[~out_new])):
            r, r_new = np.maximum(A[out] @ alpha, 0.0), np.maximum(B[out_new] @ alpha, 0.0)
            losses[j] += 0.5 * np.average(r**2, weights=weight[out]) - r_new.mean()
    alpha = _solved(A, weight, B)[len(LAMBDAS) - 1 - int(np.argmin(losses[::-1]))]  # of equal ones the strongest
    r, r_new = np.maximum(A @ alpha, 0.0), np.maximum(B @ alpha, 0.0)
    mean = np.average(r, weights=weight)
    return (r / mean, r_new / mean) if mean > 0 else (np.ones(len(A)), np.ones(len(B)))


def _solved(A: np.ndarray, weight: np.ndarray, B: np.ndarray) -> list[np.ndarray]:
    """α for every λ; the constant is not penalised."""
    H, h = (A * weight[:, None]).T @ A / weight.sum(), B.mean(axis=0)
    penalty = np.append(0.0, np.ones(A.shape[1] - 1))
    return [np.linalg.solve(H + np.diag(lam * penalty), h) for lam in LAMBDAS]


def checked_ratio(ratio: Any, n: int) -> np.ndarray:
    """A ratio that was given for this many rows."""
    values = np.asarray(ratio, dtype=float)
    if values.shape != (n,) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise ValueError(
            f"shift must give {n} numbers for {n} rows, finite, not negative and not all 0; got an array of shape "
            f"{values.shape}"
        )
    return values


def effective_count(weight: np.ndarray) -> float:
    """``(Σw)²/Σw²``: how many rows of equal weight tell as much."""
    return float(weight.sum() ** 2 / np.maximum((weight**2).sum(), np.finfo(float).tiny))
