r"""The curvature of a log loss in the space of a kernel between few rows, classes and all.

The Hessian of :math:`\sum_iw_i\ell(\phi_i\beta) + \frac\lambda2\|\beta\|^2` is :math:`\Phi^TA\Phi + \lambda I`, A the
matrices :math:`w_i(\operatorname{diag}p_i - p_ip_i^T)` of the rows, and with :math:`K = \Phi\Phi^T`, the same for every
class,

.. math:: \lambda(\Phi^TA\Phi + \lambda I)^{-1} = I - \Phi^TS\,\Phi,\qquad S = (K + \lambda A^{-1})^{-1}.

Of :math:`A^{-1}` what couples the classes is of rank one for a row: with :math:`s_i = \sum_cp_{ic}` it is
:math:`\operatorname{diag}(1/w_ip_i) + 11^T/w_i(1 - s_i)`. So, as in Laplace's approximation of Gaussian processes
(C. E. Rasmussen and C. K. I. Williams, 2006, section 3.5), with
:math:`E_c = (K + \lambda\operatorname{diag}(1/wp_c))^{-1}`,

.. math:: Sz = e - Eu,\qquad e = Ez,\qquad
   \Bigl(\operatorname{diag}(w(1 - s)/\lambda) + \textstyle\sum_cE_c\Bigr)u = \sum_ce_c.

A row of which a class is nearly impossible bends nothing for that class: where :math:`w_ip_{ic}` times the variance of
its score before anything is known (:math:`K_{ii}/\lambda`, of a centred kernel: a constant is no matter of few rows) is
below :data:`DULL`, p is taken for 0, and :math:`E_c` is of the order of the rows that are left. With many classes these
are few, and all :math:`E_c` together cost less than one matrix of all rows. What comes out is the Hessian but for some
parts in ten, whatever the classes have to do with each other; conjugate gradients do the rest.

The same rows are enough for the leverages :math:`\phi^T(\Phi^TWD_c\Phi + \lambda I)^{-1}\phi`,
:math:`d_c = p_c(1 - p_c)`, of rows that are left out (:mod:`ulmus.solvers.log_leave_out`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ulmus import engine
from ulmus._blas import mirror_upper, solve_factored, solve_lower_transposed
from ulmus.solvers.log_metric import factored

#: Rows up to which there may be such a matrix.
MOST_ROWS = 4_000
#: What a weight, a probability and a prior variance come to below which a row bends nothing in a metric.
DULL = 1.0
#: The same for leverages; rows that have together more than this share of a class's curvature count in any case.
SHARP, SURE = 0.01, 0.005
#: Scores that move by less than this when a row leaves are left where they are.
MOVED = 0.01
#: Prior variances of scores up to which leverages may be computed in single precision.
SINGLE = 2.0**13
#: The least prior variance of an intercept, which has no penalty.
INTERCEPT = 100.0
#: Multiplications in the time in which an entry of a matrix is gathered from memory.
GATHERED = 60.0


@dataclass(frozen=True)
class Space:
    """A kernel between rows, both triangles, their weights, the penalty, and what an intercept adds to the kernel."""

    K: np.ndarray
    w: np.ndarray
    ridge: float
    constant: float

    @classmethod
    def of(cls, K: np.ndarray, w: np.ndarray, ridge: float, fit_intercept: bool) -> "Space":
        mean = float(K.diagonal().mean())
        return cls(K, w, ridge, max(mean, INTERCEPT * ridge) if fit_intercept else 0.0)

    def variance(self) -> np.ndarray:
        """Of the scores of rows, before anything is known."""
        return np.asarray(self.K.diagonal() / self.ridge)

    def spread(self) -> np.ndarray:
        """The same of what scores have beyond a constant."""
        mean = self.K.mean(axis=1)
        return np.asarray(np.maximum(self.K.diagonal() - 2 * mean + mean.mean(), 0.0) / self.ridge)

    def regularised(self, r: np.ndarray, d: np.ndarray) -> np.ndarray:
        """``K + λ/d`` of some rows, in Fortran order."""
        A: np.ndarray = self.K[r[:, None], r].T
        A += self.constant
        A[np.diag_indices_from(A)] += self.ridge / d
        return A

    def bending(self, P: np.ndarray) -> np.ndarray | None:
        """Which p of which rows bend the loss, ``[row, class]``; None where they are less than half of a class."""
        kept = P * (self.w * self.spread())[:, None] > DULL
        return kept if (2 * (self.w @ (P * kept)) >= self.w @ P).all() else None


def joint_flops(kept: np.ndarray) -> float:
    """Multiplications that the matrices of these rows and classes are worth."""
    r = kept.sum(axis=0).astype(float)
    return float(1.5 * ((r**3).sum() + len(kept) ** 3 / 3) + GATHERED * (r**2).sum())


@dataclass(frozen=True)
class JointInverse:
    """``S``: the rows and the matrix ``E_c`` of every class, and the factor of what couples them."""

    rows: tuple[np.ndarray, ...]
    own: tuple[np.ndarray, ...]
    coupling: np.ndarray

    @classmethod
    def of(cls, space: Space, P: np.ndarray, kept: np.ndarray) -> "JointInverse":
        n, w = len(P), space.w
        P, coupling = np.where(kept, P, 0.0), np.zeros((n, n))
        rows, own = list[np.ndarray](), list[np.ndarray]()
        for p, which in zip(P.T, kept.T, strict=True):
            r = np.flatnonzero(which)
            E = _inverse(space.regularised(r, w[r] * p[r]))
            coupling[r[:, None], r] += E
            rows.append(r)
            own.append(E)
        rest = w * np.maximum(1.0 - P.sum(axis=1), np.finfo(float).eps) / space.ridge
        coupling[np.diag_indices(n)] += np.where(w > 0, rest, 1.0)
        return cls(tuple(rows), tuple(own), factored(coupling.T))

    def solve(self, Z: np.ndarray) -> np.ndarray:
        """``SZ`` of scores ``[row, class]``."""
        e = np.zeros(Z.shape)
        for c, (r, E) in enumerate(zip(self.rows, self.own, strict=True)):
            e[r, c] = E @ Z[r, c]
        u = solve_factored(self.coupling, e.sum(axis=1, keepdims=True))[:, 0]
        for c, (r, E) in enumerate(zip(self.rows, self.own, strict=True)):
            e[r, c] -= E @ u[r]
        return e


def _inverse(A: np.ndarray) -> np.ndarray:
    """The inverse of a positive definite matrix, both triangles."""
    if not len(A):
        return A
    inverse, info = lapack.dpotri(factored(A), lower=1, overwrite_c=1)
    if info:
        raise np.linalg.LinAlgError("the curvature of the loss is singular; are the features finite?")
    mirror_upper(inverse.T)
    return np.asarray(inverse)


def class_leverages(
    space: Space, P: np.ndarray, Y: np.ndarray, rows: slice | np.ndarray, rough: bool = False
) -> np.ndarray:
    """``φᵀ(ΦᵀWD_cΦ + λI)⁻¹φ`` of these rows, ``[row, class]``; 0 where a score hardly moves when its row leaves.

    ``rough`` ones, by which models are compared, are in single precision where that is right to some 1e-3.
    """
    variance, spread, asked = space.variance(), space.spread(), np.arange(len(P))[rows]
    dtype = np.float32 if rough and float(variance.mean()) <= SINGLE else np.float64
    D, h = space.w[:, None] * P * (1.0 - P), np.zeros((len(asked), P.shape[1]))
    for c in range(P.shape[1]):
        r = counting(D[:, c], spread)
        moved = _moved(P[asked, c] - Y[asked, c], spread[asked], D[:, c])
        i = asked[moved]
        V = space.K[i[:, None], r].astype(dtype, copy=False)
        V += V.dtype.type(space.constant)
        solve_lower_transposed(factored(space.regularised(r, D[r, c])).astype(dtype, copy=False), V)
        h[moved, c] = variance[i] + (space.constant - np.einsum("ij,ij->i", V, V)) / space.ridge
    return h


def feature_leverages(
    design: np.ndarray,
    w: np.ndarray,
    penalty: np.ndarray,
    P: np.ndarray,
    Y: np.ndarray,
    index: np.ndarray,
    dtype: Any,
    n_jobs: int | None,
) -> np.ndarray:
    """The same from features, of which there are fewer than rows."""
    h, white = np.zeros((len(index), P.shape[1])), design.astype(dtype, copy=False)
    spread = (design - design.mean(axis=0)) ** 2 @ (1.0 / np.where(penalty > 0, penalty, np.inf))

    def of_class(c: int) -> None:
        d = w * P[:, c] * (1.0 - P[:, c])
        r = counting(d, spread)
        Z = design[r] * np.sqrt(d[r])[:, None]
        H = Z.T @ Z
        H[np.diag_indices_from(H)] += penalty
        moved = _moved(P[index, c] - Y[index, c], spread[index], d)
        V = white[index[moved]]
        solve_lower_transposed(factored(H).astype(dtype, copy=False), V)
        h[moved, c] = np.einsum("ij,ij->i", V, V)

    engine.on_threads(of_class, range(P.shape[1]), n_jobs)
    return h


def counting(d: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Rows whose curvature counts: those that bend the loss, and all but a share of the whole in any case."""
    order = np.argsort(d, kind="stable")
    sums = np.cumsum(d[order])
    counts = d * spread > SHARP
    counts[order[int(np.searchsorted(sums, SURE * sums[-1])) :]] = True
    return np.flatnonzero(counts)


def _moved(pull: np.ndarray, spread: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Rows whose score moves when they leave: leverages are no larger than of what varies, and of the constant."""
    of_constant = 1.0 / max(float(d.sum()), np.finfo(float).tiny)
    return np.flatnonzero(np.abs(pull) * (spread + of_constant) > MOVED)
