r"""Convex combinations of predictors: accuracy and diversity in one quadratic programme."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from ulmus import engine

#: Ridge on the error products, relative to their mean: equal members share their weight.
RIDGE = 1e-10
#: Rows whose products are held at a time.
PIECE_ROWS = 256


def error_products(E: np.ndarray, mass: np.ndarray, shrinkage: float | str = "auto") -> tuple[np.ndarray, float]:
    r"""The matrix :math:`S_{qr} = \sum_i m_i\langle e_{qi}, e_{ri}\rangle` of ``E[member, row, output]``, shrunk.

    S is measured on few rows, and members that differ by their draw alone differ in it by chance: weights that follow
    it are worse than equal ones. So it is drawn towards :math:`T`, the matrix with its mean diagonal and its mean off
    the diagonal, to :math:`\delta T + (1 - \delta)S`. ``"auto"`` takes for :math:`\delta` the share of
    :math:`\|S - T\|^2` that chance explains: the variance of its entries over rows. Returns the matrix and
    :math:`\delta`.
    """
    m, Q = mass / mass.sum(), len(E)
    own = np.eye(Q, dtype=bool)

    def target(S: np.ndarray) -> np.ndarray:
        diagonal = S[:, own].mean(axis=1)[:, None, None]
        rest = S[:, ~own].mean(axis=1)[:, None, None] if Q > 1 else 0.0
        return np.where(own, diagonal, rest)

    S, squares = np.zeros((1, Q, Q)), 0.0
    for piece in engine.pieces(E.shape[1], PIECE_ROWS):
        P = np.einsum("qic,ric->iqr", E[:, piece], E[:, piece], optimize=True)
        S += np.tensordot(m[piece], P, axes=1)
        squares += float(m[piece] ** 2 @ ((P - target(P)) ** 2).sum(axis=(1, 2)))
    T = target(S)
    apart = float(((S - T) ** 2).sum())
    if shrinkage == "auto":
        chance = max(squares - float(m @ m) * apart, 0.0)
        shrinkage = min(chance / apart, 1.0) if apart > 0 else 1.0
    delta = float(shrinkage)
    return (delta * T + (1 - delta) * S)[0], delta


def combine(S: np.ndarray, kappa: float) -> np.ndarray:
    r"""Weights a that minimise :math:`\kappa\,a^TSa + (1-\kappa)\,a^T\mathrm{diag}(S)` with :math:`a\ge0, 1^Ta=1`.

    ``S[q, r]`` is the inner product of the errors of members q and r. :math:`\kappa = 1` is the squared error of the
    combination, larger values reward members that differ, :math:`\kappa = 0` keeps the single best one.

    On the simplex the objective is a homogeneous quadratic, up to a constant:
    with :math:`e = \frac{1-\kappa}{2\kappa}\mathrm{diag}(S)` and :math:`S = U^TU` it is :math:`\kappa\|Ra\|^2`,
    :math:`R = U + U^{-T}e1^T`. For such an objective the non-negative least squares solution of
    :math:`\|Ra\|^2 + \rho^2(1^Ta - 1)^2` is a multiple of the one on the simplex, whatever :math:`\rho`.
    """
    d = np.diag(S)
    if kappa == 0:
        return np.eye(len(S))[int(np.argmin(d))]
    scale = float(d.mean())
    if not scale > 0:  # no member errs
        return np.full(len(S), 1 / len(S))
    U = cholesky(S / scale + RIDGE * np.eye(len(S)), check_finite=False)
    e = (1 - kappa) / (2 * kappa) * d / scale
    R = U + np.outer(solve_triangular(U, e, trans=1, check_finite=False), np.ones(len(S)))
    rho = float(np.linalg.norm(R))
    a, _ = nnls(np.vstack([R, np.full(len(S), rho)]), np.append(np.zeros(len(S)), rho))
    return a / a.sum()
