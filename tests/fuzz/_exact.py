"""Multiple precision, on NumPy arrays of mpmath numbers: each formula once, with nothing clever.

Rows are given as they are summed, ``√w [1 φ t]``; ``E`` is the penalty's diagonal, 0 for the constant.
"""

import mpmath
import numpy as np

DIGITS = 60
mpf = np.vectorize(mpmath.mpf, otypes=[object])
exact_sqrt = np.vectorize(mpmath.sqrt, otypes=[object])
exact_exp = np.vectorize(mpmath.exp, otypes=[object])


def exactly(*arrays):
    """Arrays of floats as multiple-precision numbers."""
    return tuple(mpf(np.asarray(a, dtype=float)) for a in arrays)


def rounded(A):
    """Back to float64."""
    return np.asarray(A, dtype=float)


def solve(A, B):
    """``A⁻¹B`` by elimination with partial pivoting."""
    n, M = len(A), np.concatenate([A, B], axis=1)
    for k in range(n):
        p = k + int(np.argmax([abs(v) for v in M[k:, k]]))
        if M[p, k] == 0:
            raise ZeroDivisionError("the exact system is singular")
        M[[k, p]] = M[[p, k]]
        M[k] = M[k] / M[k, k]
        for i in range(n):
            if i != k and M[i, k] != 0:
                M[i] = M[i] - M[i, k] * M[k]
    return M[:, n:]


def identity(n):
    return mpf(np.eye(n))


def root(A):
    """The lower Cholesky factor."""
    n = len(A)
    L = mpf(np.zeros((n, n)))
    for j in range(n):
        L[j, j] = mpmath.sqrt(A[j, j] - (L[j, :j] @ L[j, :j] if j else 0))
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - (L[i, :j] @ L[j, :j] if j else 0)) / L[j, j]
    return L


class Ridge:
    """``(MᵀM + E/C) β = MᵀT`` for the columns M of the rows, solved exactly."""

    def __init__(self, M, T, penalty):
        K = M.T @ M + np.diag(penalty)
        self.inverse = solve(K, identity(len(K)))
        self.beta = self.inverse @ (M.T @ T)
        self.K = K

    def predict(self, Q):
        return Q @ self.beta

    def leverage(self, Q):
        return np.einsum("ij,ij->i", Q @ self.inverse, Q)


def left_out(M, T, penalty, w, u, i):
    """The prediction of row i by the model from which the weight ``u`` of its ``w`` was taken."""
    keep = exact_sqrt((w - u) / w)
    M2, T2 = M.copy(), T.copy()
    M2[i], T2[i] = M[i] * keep[i], T[i] * keep[i]
    return Ridge(M2, T2, penalty).predict((M[i] / exact_sqrt(w[i : i + 1])[0])[None])[0]


def studentised(M, T, penalty, w, u):
    """``e₋ / √(1 + h₋)`` of every row, by the model from which the weight ``u`` of its ``w`` was taken.

    Where all copies of a row are left out at once, each of them is seen as one row of their weight.
    """
    K, B = M.T @ M + np.diag(penalty), M.T @ T
    out = np.empty(T.shape, dtype=object)
    for i in range(len(M)):
        phi, t = (A[i] / mpmath.sqrt(w[i]) for A in (M, T))
        right = np.column_stack([B - u[i] * np.outer(phi, t), phi])
        found = phi @ solve(K - u[i] * np.outer(phi, phi), right)
        out[i] = (t - found[:-1]) / mpmath.sqrt(1 + found[-1])
    return out


def kernel_studentised(K, T, C, w, u, intercept):
    """The same for a kernel: ``h₋ = C (κ(x, x) − k A₋⁻¹ kᵀ)``, with the border of an intercept.

    Weight that leaves together with copies, ``u > w``, is a row of weight ``w − u < 0`` beside them.
    """
    n = len(K)
    out = np.empty(T.shape, dtype=object)
    for i in range(n):
        rest = w.copy()
        rest[i] = w[i] - u[i]
        keep = np.flatnonzero(rest != 0)
        m = len(keep)
        A = K[np.ix_(keep, keep)] + np.diag(1 / (C * rest[keep]))
        k, right = K[i, keep], T[keep]
        if intercept:
            one = mpf(np.ones((m, 1)))
            A = np.concatenate([np.concatenate([A, one], 1), np.concatenate([one.T, mpf(np.zeros((1, 1)))], 1)])
            k, right = np.append(k, mpmath.mpf(1)), np.concatenate([right, mpf(np.zeros((1, T.shape[1])))])
        found = k @ solve(A, np.column_stack([right, k]))
        out[i] = (T[i] - found[:-1]) / mpmath.sqrt(max(1 + C * (K[i, i] - found[-1]), mpmath.mpf(1e-30)))
    return out


def kernel_ridge(K, T, ridge, intercept):
    """``α`` and ``b`` of ``(K + ridge) α + 1b = T`` and ``1ᵀα = 0``; what each takes of T: ``∂α/∂T`` and ``∂b/∂T``."""
    n = len(K)
    A = K + np.diag(ridge)
    if not intercept:
        inverse = solve(A, identity(n))
        return inverse @ T, mpf(np.zeros(T.shape[1])), inverse, mpf(np.zeros(n))
    one = mpf(np.ones((n, 1)))
    whole = np.concatenate([np.concatenate([A, one], 1), np.concatenate([one.T, mpf(np.zeros((1, 1)))], 1)])
    inverse = solve(whole, identity(n + 1))
    found = inverse @ np.concatenate([T, mpf(np.zeros((1, T.shape[1])))])
    return found[:-1], found[-1], inverse[:n, :n], inverse[n, :n]


def _squared(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z))


def _dot(x, z):
    return sum(a * b for a, b in zip(x, z))


def _cosine(x, z):
    norms = mpmath.sqrt(_dot(x, x)) * mpmath.sqrt(_dot(z, z))
    return _dot(x, z) / norms if norms else mpmath.mpf(0)


def _arcsine(x, z, gamma):
    xz, xx, zz = (1 + gamma * _dot(a, b) for a, b in ((x, z), (x, x), (z, z)))
    return 2 / mpmath.pi * mpmath.asin(2 * xz / mpmath.sqrt((1 + 2 * xx) * (1 + 2 * zz)))


def _matern32(r):
    return (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r)


#: name → κ(x, z) of two rows; the polynomial has degree 3 and coef0 1.
KERNELS = {
    "linear": lambda x, z, gamma: _dot(x, z),
    "poly": lambda x, z, gamma: (gamma * _dot(x, z) + 1) ** 3,
    "cosine": lambda x, z, gamma: _cosine(x, z),
    "arcsine": _arcsine,
    "rbf": lambda x, z, gamma: mpmath.exp(-gamma * _squared(x, z)),
    "laplacian": lambda x, z, gamma: mpmath.exp(-gamma * mpmath.sqrt(_squared(x, z))),
    "laplacian_l1": lambda x, z, gamma: mpmath.exp(-gamma * sum(abs(a - b) for a, b in zip(x, z))),
    "matern32": lambda x, z, gamma: _matern32(gamma * mpmath.sqrt(_squared(x, z))),
}


def kernel_matrix(name, X, Z, gamma):
    """``κ(x_i, z_j)`` of exact rows."""
    kernel, gamma = KERNELS[name], mpmath.mpf(gamma)
    return np.array([[kernel(x, z, gamma) for z in Z] for x in X], dtype=object).reshape(len(X), len(Z))


def _log_cosh_slope(t):
    return mpmath.tanh(t)


#: name → (F'(t), F''(t)) for t ≥ 0, as the table of ulmus.losses has them.
SLOPES = {
    "polynomial": (lambda t: 3 * t**2 - 2 * t**3 if t < 1 else 1, lambda t: 6 * t * (1 - t) if t < 1 else 0),
    "cubic": (lambda t: 2 * t - t**2 if t < 1 else 1, lambda t: 2 * (1 - t) if t < 1 else 0),
    "quartic": (lambda t: (3 * t - t**3) / 2 if t < 1 else 1, lambda t: 3 * (1 - t**2) / 2 if t < 1 else 0),
    "huber": (lambda t: t if t < 1 else 1, lambda t: 1 if t < 1 else 0),
    "sqrt": (lambda t: t / mpmath.sqrt(1 + t**2), lambda t: (1 + t**2) ** mpmath.mpf(-1.5)),
    "logcosh": (_log_cosh_slope, lambda t: 1 - mpmath.tanh(t) ** 2),
    "squared": (lambda t: t, lambda t: 1),
}
