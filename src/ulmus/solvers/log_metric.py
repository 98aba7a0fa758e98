r"""The curvature of a log loss as one Kronecker product.

The Hessian of :math:`\sum_i w_i\ell(\phi_i\beta) + \|\beta\|^2/2C` is
:math:`\sum_i w_i(\operatorname{diag}p_i - p_ip_i^T)\otimes\phi_i\phi_i^T + I/C`, of order Lk. Here every row's class
matrix is replaced by its trace :math:`d_i = \sum_c p_{ic}(1-p_{ic})` times the mean of all,

.. math:: S = \frac{\sum_i w_i(\operatorname{diag}p_i - p_ip_i^T)}{\sum_i w_id_i} = V\operatorname{diag}(s)V^T,
   \qquad M = S\otimes G + I/C,\quad G = \Phi^TWD\,\Phi,

which is the Hessian itself for two classes, and for any number where all rows are equally unsure. In the columns of V
it falls apart into k − 1 matrices :math:`s_jG + I/C` of order L (the last s is 0: scores that all rise together change
nothing). Neighbouring s within a factor of :data:`ALIKE` share the factor of their geometric mean, and their columns
are solved for together. With :math:`D = \frac12` and S = I it is Böhning's bound, above the Hessian at every point.
Where classes are unsure in different places, that takes too many products; a matrix for every class
(:class:`ClassMetric`) costs k times as much and is nearer. Where Lk is small the Hessian itself is factored
(:class:`DenseMetric`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ulmus._blas import cholesky_in_place, solve_factored, solve_lower_transposed
from ulmus.solvers.log_loss import curvature, second_derivative

#: A share of the largest diagonal entry that is added, tenfold more each time, where round-off leaves no factor; up to
#: all of it, as a metric only points the way.
JITTER = 1e-13
MAX_JITTERS = 15
#: Order of the Hessian up to which it is taken as it is.
DENSE = 700
#: Eigenvalues of S below this share of the largest are those of rounding.
NOTHING = 1e-12
#: Eigenvalues of S that lie within this factor are taken for one: M points the way, no more.
ALIKE = 2.0


def class_curvature(P: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``S`` of rows with these proportions."""
    wP = weight[:, None] * P
    S = np.diag(wP.sum(axis=0)) - wP.T @ P if P.shape[1] > 1 else np.array([[float((wP * (1 - P)).sum())]])
    total = float(weight @ curvature(P))
    return S / total if total > 0 else np.eye(P.shape[1]) / P.shape[1]


def factored(A: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor (Fortran order) of ``A``, its diagonal raised where there is none otherwise."""
    diagonal, jitter = A.diagonal().copy(), JITTER
    for _ in range(MAX_JITTERS):
        F = np.array(A, order="F")
        if not cholesky_in_place(F):
            return F
        A[np.diag_indices_from(A)] = diagonal + jitter * max(float(diagonal.max()), np.finfo(float).tiny)
        jitter *= 10
    raise np.linalg.LinAlgError("the curvature of the loss has no Cholesky factor; are the features finite?")


def _alike(s: np.ndarray) -> list[slice]:
    """Groups of rising eigenvalues, each within a factor of :data:`ALIKE`; those of rounding are one group."""
    groups, first = [], 0
    for j in range(1, len(s) + 1):
        small = s[first] <= NOTHING * s[-1]
        limit = NOTHING * s[-1] if small else ALIKE * s[first]
        if j == len(s) or s[j] > limit:
            groups.append(slice(first, j))
            first = j
    return groups


@dataclass(frozen=True)
class KroneckerMetric:
    """``M``, factored: the ``factors`` of ``s G + diag(penalty)`` belong to groups of ``columns`` of ``V``."""

    V: np.ndarray
    columns: tuple[slice, ...]
    factors: tuple[np.ndarray | None, ...]
    penalty: np.ndarray

    @classmethod
    def of(cls, G: np.ndarray, S: np.ndarray, penalty: np.ndarray) -> "KroneckerMetric":
        s, V = np.linalg.eigh(S)
        factors: list[np.ndarray | None] = []
        columns = _alike(s)
        for group in columns:
            low, high = s[group][[0, -1]]
            if high <= NOTHING * s[-1]:
                factors.append(None)
                continue
            A = (low if low == high else np.sqrt(low * high)) * G
            A[np.diag_indices_from(A)] += penalty
            factors.append(factored(A))
        return cls(V, tuple(columns), tuple(factors), penalty)

    def inverse(self, g: np.ndarray) -> np.ndarray:
        """``M⁻¹g``; where nothing is known of the curvature, only the penalised weights move."""
        r = g @ self.V
        free = np.where(self.penalty > 0, self.penalty, np.inf)[:, None]
        for group, factor in zip(self.columns, self.factors, strict=True):
            r[:, group] = r[:, group] / free if factor is None else solve_factored(factor, r[:, group])
        return r @ self.V.T

    def astype(self, dtype: Any) -> "KroneckerMetric":
        """With factors of this type, and with its digits."""
        factors = (None if factor is None else factor.astype(dtype, copy=False) for factor in self.factors)
        return replace(self, factors=tuple(factors))

    def leverage(self, Phi: np.ndarray) -> np.ndarray:
        """``φᵀM⁻¹φ`` of every row, ``[row, class, class]``."""
        return (self._levers(Phi)[:, None, :] * self.V) @ self.V.T

    def leverage_of(self, Phi: np.ndarray, E: np.ndarray) -> np.ndarray:
        """``φᵀM⁻¹φ e`` of every row, ``[row, class]``, without a matrix for each."""
        return (self._levers(Phi) * (E @ self.V)) @ self.V.T

    def _levers(self, Phi: np.ndarray) -> np.ndarray:
        """The same in the columns of V, where it is diagonal."""
        out = np.empty((len(Phi), len(self.V)))
        for group, factor in zip(self.columns, self.factors, strict=True):
            if factor is None:
                out[:, group] = (Phi**2 / np.where(self.penalty > 0, self.penalty, np.inf)).sum(axis=1)[:, None]
                continue
            V = np.array(Phi, dtype=factor.dtype, order="C")
            solve_lower_transposed(factor, V)
            out[:, group] = np.einsum("ij,ij->i", V, V)[:, None]
        return out


@dataclass(frozen=True)
class ClassMetric:
    """``Φᵀ W diag(p_c(1 − p_c)) Φ + diag(penalty)`` of every class c, factored: the blocks on the Hessian's diagonal.

    They know where each class is unsure, which the Kronecker product takes to be the same place for all. Scores that
    all rise together are no concern of the loss, so that directions have mean 0 over the classes.
    """

    factors: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, grams: Iterable[np.ndarray], penalty: np.ndarray) -> "ClassMetric":
        factors = []
        for G in grams:
            G[np.diag_indices_from(G)] += penalty
            factors.append(factored(G))
        return cls(tuple(factors))

    def inverse(self, g: np.ndarray) -> np.ndarray:
        """``M⁻¹g``, in directions of mean 0."""
        g = g - g.mean(axis=1, keepdims=True)
        d = np.column_stack([solve_factored(F, r[:, None])[:, 0] for F, r in zip(self.factors, g.T, strict=True)])
        return d - d.mean(axis=1, keepdims=True)

    def half(self, c: int, Z: np.ndarray) -> np.ndarray:
        """``M^{-1/2}`` of class c, times Z."""
        return np.asarray(solve_triangular(self.factors[c], Z, lower=True, trans=1, check_finite=False))


@dataclass(frozen=True)
class DenseMetric:
    """The Hessian itself, factored in directions whose columns add to 0, of which ``basis`` is an orthonormal basis.

    Scores that all rise together change no loss: there the Hessian is the penalty. Columns of weights stand one after
    the other.
    """

    factor: np.ndarray
    basis: np.ndarray
    penalty: np.ndarray

    @classmethod
    def of(cls, Phi: np.ndarray, P: np.ndarray, weight: np.ndarray, penalty: np.ndarray) -> "DenseMetric":
        Q, L = _contrasts(P.shape[1]), Phi.shape[1]
        A, k = Q.T @ second_derivative(P) @ Q, Q.shape[1]
        H = np.zeros((k, L, k, L))  # of which the lower triangle is read

        def along(curvature: np.ndarray) -> np.ndarray:
            """The Hessian along one direction of the scores; a product of a matrix with itself costs half."""
            own = Phi * np.sqrt(weight * np.maximum(curvature, 0.0))[:, None]
            return own.T @ own

        for a in range(k):
            H[a, :, a, :] = along(A[:, a, a])
            for b in range(a):  # 2 uᵀAv = (u + v)ᵀA(u + v) − uᵀAu − vᵀAv
                both = along(A[:, a, a] + 2.0 * A[:, a, b] + A[:, b, b])
                H[a, :, b, :] = 0.5 * (both - H[a, :, a, :] - H[b, :, b, :])
        flat = H.reshape(k * L, k * L)
        flat[np.diag_indices_from(flat)] += np.tile(penalty, k)
        return cls(factored(flat), Q, penalty)

    def inverse(self, g: np.ndarray) -> np.ndarray:
        """``H⁻¹g``; an intercept of all columns, which bends nothing, stays where it is."""
        k, all_alike = self.basis.shape[1], g.mean(axis=1, keepdims=True)
        inside = solve_factored(self.factor, (g @ self.basis).T.reshape(-1, 1)).reshape(k, -1).T
        return inside @ self.basis.T + all_alike / np.where(self.penalty > 0, self.penalty, np.inf)[:, None]

    def astype(self, dtype: Any) -> "DenseMetric":
        """With a factor of this type, and with its digits."""
        return replace(self, factor=self.factor.astype(dtype, copy=False))

    def leverage(self, Phi: np.ndarray) -> np.ndarray:
        """``φᵀH⁻¹φ`` of every row, ``[row, class, class]``, but for what all scores share, which no loss sees.

        What is solved for begins with zeros, and so does what comes out of it.
        """
        (n, L), k = Phi.shape, self.basis.shape[1]
        roots = list[np.ndarray]()
        lever = np.empty((n, k, k))
        for a in range(k):
            V = np.zeros((n, (k - a) * L), self.factor.dtype)
            V[:, :L] = Phi
            solve_lower_transposed(self.factor[a * L :, a * L :], V)
            roots.append(V)
            for b in range(a + 1):
                lever[:, a, b] = lever[:, b, a] = np.einsum("ij,ij->i", roots[b][:, (a - b) * L :], V)
        return self.basis @ lever @ self.basis.T


def _contrasts(m: int) -> np.ndarray:
    """Orthonormal columns that add to 0, one less than there are classes; of a single score, itself."""
    if m == 1:
        return np.ones((1, 1))
    Q = np.tri(m, m - 1, -1, dtype=float) / -np.arange(m - 1, 0, -1.0)
    Q[np.arange(m - 1), np.arange(m - 1)] = 1.0
    return Q / np.linalg.norm(Q, axis=0)
