"""Brute force: the formulas of the method, dense, in float64, one entry at a time, with nothing clever.

Every function here is meant to be checked by reading. Numbers in brackets are the equations of the method
(W.-Y. Deng, Q.-H. Zheng, L. Chen, 2014).
"""

import math

import mpmath
import numpy as np
from scipy.linalg import eigh, lstsq, qr, solve_triangular

EPS = np.finfo(float).eps


def _distance(x, z):
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(x, z)))


def _city(x, z):
    return math.fsum(abs(a - b) for a, b in zip(x, z))


def _dot(x, z):
    return math.fsum(a * b for a, b in zip(x, z))


def _cosine(x, z):
    norms = math.sqrt(_dot(x, x)) * math.sqrt(_dot(z, z))
    return _dot(x, z) / norms if norms else 0.0


def _arcsine(x, z, gamma):
    # 2/π arcsin(2 x̃·z̃ / √((1 + 2 x̃·x̃)(1 + 2 z̃·z̃))) with x̃ = [√γ x, 1]
    xz, xx, zz = (1 + gamma * _dot(a, b) for a, b in ((x, z), (x, x), (z, z)))
    return 2 / math.pi * math.asin(2 * xz / math.sqrt((1 + 2 * xx) * (1 + 2 * zz)))


def _matern32(r):
    return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)


#: name → κ(x, z) of two rows.
KERNELS = {
    "linear": lambda x, z, gamma, degree, coef0: _dot(x, z),
    "poly": lambda x, z, gamma, degree, coef0: (gamma * _dot(x, z) + coef0) ** degree,
    "sigmoid": lambda x, z, gamma, degree, coef0: math.tanh(gamma * _dot(x, z) + coef0),
    "cosine": lambda x, z, gamma, degree, coef0: _cosine(x, z),
    "arcsine": lambda x, z, gamma, degree, coef0: _arcsine(x, z, gamma),
    "rbf": lambda x, z, gamma, degree, coef0: math.exp(-gamma * _distance(x, z) ** 2),
    "laplacian": lambda x, z, gamma, degree, coef0: math.exp(-gamma * _distance(x, z)),
    "laplacian_l1": lambda x, z, gamma, degree, coef0: math.exp(-gamma * _city(x, z)),
    "matern32": lambda x, z, gamma, degree, coef0: _matern32(gamma * _distance(x, z)),
}

POSITIVE_DEFINITE = tuple(name for name in KERNELS if name != "sigmoid")

#: name → g(a) of one pre-activation (or of one distance in widths, for radial nodes).
ACTIVATIONS = {
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)) if a > -700 else 0.0,
    "tanh": math.tanh,
    "sine": math.sin,
    "cosine": math.cos,
    "hardlim": lambda a: 1.0 if a >= 0 else 0.0,
    "relu": lambda a: max(a, 0.0),
    "softplus": lambda a: math.log1p(math.exp(a)) if a < 30 else a + math.exp(-a),
    "mexican_hat": lambda a: (1 - a * a) * math.exp(-a * a / 2),
    "identity": lambda a: a,
    "gaussian": lambda a: math.exp(-a * a),
    "multiquadric": lambda a: math.sqrt(1 + a * a),
}


def kernel_matrix(name, X, Z, gamma=1.0, degree=3, coef0=1.0):
    """``κ(x_i, z_j)``, entry by entry (10, 11)."""
    kernel = KERNELS[name]
    X, Z = np.asarray(X, float).tolist(), np.asarray(Z, float).tolist()
    return np.array([[kernel(x, z, gamma, degree, coef0) for z in Z] for x in X])


def activate(name, A):
    """``g`` of every entry."""
    return np.vectorize(ACTIVATIONS[name], otypes=[float])(A)


def hidden_layer(name, X, W, b):
    """``H`` with ``h_j(x) = g(w_j·x + b_j)`` (2); the nodes are the columns of ``W``."""
    return activate(name, np.asarray(X, float) @ W + b)


def radial_layer(name, U, centres, widths, slope=1.0):
    """``h_j(u) = g(slope ‖u − c_j‖ / r_j)``."""
    return activate(name, np.array([[slope * _distance(u, c) / r for c, r in zip(centres, widths)] for u in U]))


def nystrom_whitening(K_zz, rank=None, cut=None):
    """``U_z S_z^{-1/2}`` (25–27), without the pairs that are round-off."""
    s, U = eigh(K_zz)
    s, U = s[::-1][:rank], U[:, ::-1][:, :rank]
    keep = s > (len(K_zz) * EPS if cut is None else cut) * s[0]
    return U[:, keep] / np.sqrt(s[keep])


def best_factor(K, rank):
    """``U_L S_L^{1/2}`` (22, 23)."""
    s, U = eigh(K)
    return (U * np.sqrt(np.maximum(s, 0)))[:, ::-1][:, :rank]


def _as_columns(T):
    T = np.asarray(T, float)
    return T[:, None] if T.ndim == 1 else T


def _centred(Phi, T, weight, fit_intercept):
    """Rows times √w, after the weighted means are taken out where there is an intercept."""
    w = np.ones(len(T)) if weight is None else np.asarray(weight, float)
    phi_mean, t_mean = np.zeros(Phi.shape[1]), np.zeros(T.shape[1])
    if fit_intercept:
        phi_mean, t_mean = w @ Phi / w.sum(), w @ T / w.sum()
    root = np.sqrt(w)[:, None]
    return root * (Phi - phi_mean), root * (T - t_mean), phi_mean, t_mean


def least_squares(Phi, T, weight=None, fit_intercept=False):
    """``β = Φ†T`` (1) by singular values, and the intercept."""
    A, Y, phi_mean, t_mean = _centred(Phi, _as_columns(T), weight, fit_intercept)
    beta = lstsq(A, Y, cond=EPS * max(A.shape), lapack_driver="gelsd")[0]
    return beta, t_mean - phi_mean @ beta


def ridge(Phi, T, C, weight=None, fit_intercept=False):
    """``β = (I/C + ΦᵀWΦ)⁻¹ΦᵀWT`` (5, 20, 28) by QR of the stacked ``[Φ; I/√C]``, and the intercept."""
    if C is None:
        return least_squares(Phi, T, weight, fit_intercept)
    A, Y, phi_mean, t_mean = _centred(Phi, _as_columns(T), weight, fit_intercept)
    D = A.shape[1]
    Q, R = qr(np.vstack([A, np.eye(D) / math.sqrt(C)]), mode="economic")
    beta = solve_triangular(R, Q.T @ np.vstack([Y, np.zeros((D, Y.shape[1]))]))
    return beta, t_mean - phi_mean @ beta


def kelm(K, T, C, weight=None, fit_intercept=False):
    """``α`` with ``f(x) = k_x α + b`` (9): ``(K + W⁻¹/C) α + 1b = T``, and ``1ᵀα = 0`` where there is a ``b``."""
    T = _as_columns(T)
    n, s = T.shape
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    A = K + np.diag(1 / (C * w))
    if not fit_intercept:
        return np.linalg.solve(A, T), np.zeros(s)
    border = np.block([[A, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(border, np.vstack([T, np.zeros((1, s))]))
    return solution[:-1], solution[-1]


def nkelm(K_xz, K_zz, T, C, weight=None, fit_intercept=False, rank=None):
    """Algorithm 2: the whitening and the weights ``β`` on it, and the intercept."""
    W = nystrom_whitening(K_zz, rank)
    beta, b = ridge(K_xz @ W, T, C, weight, fit_intercept)
    return W, beta, b


def repeat_rows(X, weight, *others):
    """Row i, ``weight[i]`` times."""
    times = np.asarray(weight).astype(int)
    return tuple(np.repeat(a, times, axis=0) for a in (X, *others))


def exact_nkelm(X, Z, Q, T, gamma, C, digits=60):
    """Predictions of NKELM with the RBF kernel, by (24) in so many digits that nothing has to be cut.

    ``f(q) = k_qz (K_zz/C + K_xzᵀ K_xz)⁻¹ K_xzᵀ T``.
    """
    with mpmath.workdps(digits):

        def kernel(A, B):
            A, B = ([[mpmath.mpf(float(v)) for v in row] for row in M] for M in (A, B))
            return mpmath.matrix([[mpmath.exp(-gamma * sum((x - z) ** 2 for x, z in zip(a, b))) for b in B] for a in A])

        K_xz = kernel(X, Z)
        A = kernel(Z, Z) / C + K_xz.T * K_xz
        B = K_xz.T * mpmath.matrix([[float(t)] for t in T])
        return np.array([float(v) for v in kernel(Q, Z) * mpmath.lu_solve(A, B)])
