r"""Convex combinations of predictors: accuracy and diversity in one quadratic programme."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

#: Ridge on the error products, relative to their mean: equal members share their weight.
RIDGE = 1e-10


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
