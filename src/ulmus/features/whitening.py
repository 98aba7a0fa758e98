r"""Nested whitening of a landmark kernel matrix.

With :math:`K_{zz} = R R^T` and :math:`\hat F(x) = k_{xz} R^{-T}` the first l columns of :math:`\hat F` are the
Nyström map of the first l landmarks (spec of the method, equations 24–30; the features differ from the eigenvector
form by a rotation, which no prediction sees).

*Partial whitening*: features of which the leading ones are whitened, and the others freed of them.

With :math:`K_{zz} = R R^T`,

.. math:: R = \begin{pmatrix} R_{11} & 0 \\ R_{21} & R_{22} \end{pmatrix}, \qquad
   \hat F_1 = k_1 R_{11}^{-T}, \qquad E_2 = k_2 - \hat F_1 R_{21}^T,

the whitened rows are :math:`\hat F = [\hat F_1\ E_2]\,\tilde R^{-T}` with :math:`\tilde R = \operatorname{diag}(I,
R_{22})`. Squares of :math:`E_2` lose what the condition number of :math:`R_{22} R_{22}^T`, the residual kernel of the
other landmarks scaled to a unit diagonal, costs (a triangular solve does not see how its rows are scaled). Few leading
landmarks carry what makes :math:`K_{zz}` ill-conditioned, so that is smaller by many powers of ten, for
:math:`n l(2L - l)` of work instead of :math:`n L^2`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, lapack, solve_triangular

from ulmus._blas import lower_factor, solve_lower, solve_lower_transposed, subtract_product, times_own_transpose
from ulmus.engine import FeatureMap

#: A landmark whose residual kernel falls below this is put off to the end, where pivoting is complete.
DEFER = 1e-2
#: A landmark is dropped when its residual kernel is below this multiple of its own round-off: per landmark, and of what
#: the weakest pivot taken in order makes of it.
DROP = 16.0
#: The condition number is known well enough when a step changes neither of its parts by more.
CONVERGED = 0.02
_PANEL = 64


@dataclass(frozen=True)
class NestedCholesky:
    """``K[order][:, order] ≈ R Rᵀ``; ``order`` lists the landmarks that were kept, given order first."""

    order: np.ndarray
    R: np.ndarray

    @property
    def condition(self) -> float:
        """Condition number of the kept block of ``K``, by a few steps of (inverse) power iteration."""
        return self.condition_after(12)

    def condition_after(self, steps: int) -> float:
        """The same by this many steps at most; four tell its order of magnitude."""
        R = self.R / np.abs(self.R).max()
        v = np.random.RandomState(0).standard_normal(len(R))
        w = v[:, None] / np.linalg.norm(v)
        top = bottom = np.linalg.norm(v)
        for _ in range(steps):
            before = top, bottom
            v = R @ (R.T @ (v / top))
            top = np.linalg.norm(v)
            solve_lower(R, w)
            solve_lower(R, w, transposed=True)
            bottom = np.linalg.norm(w)
            w /= bottom
            if max(abs(top / before[0] - 1), abs(bottom / before[1] - 1)) <= CONVERGED:
                break
        return float(top * bottom)


def nested_cholesky(K: np.ndarray) -> NestedCholesky:
    """Cholesky factor of a kernel matrix in the given order, without its dependent rows.

    Rows are taken in order while their residual diagonal is sound. Weak ones wait until the end and are then taken by
    complete pivoting; what is left below round-off depends on the rest and is dropped.
    """
    diagonal = np.diag(K).copy()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = K / np.outer(scale, scale)
    R, info = lower_factor(np.array(unit, order="F")) if len(unit) else (unit, 0)
    if not info and (len(R) == 0 or (np.diag(R) ** 2).min() > DEFER):
        return NestedCholesky(np.arange(len(K)), np.ascontiguousarray(R * scale[:, None]))
    kept, R, deferred = _in_order(unit, np.flatnonzero(diagonal > 0))
    pivots, R = _complete(unit, kept, R, deferred)
    order = np.concatenate([kept, pivots]).astype(int)
    return NestedCholesky(order, np.ascontiguousarray(R * scale[order][:, None]))


def _in_order(K: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take rows in order, panel by panel, and put off those whose residual is small."""
    n = len(candidates)
    R = np.zeros((n, n))
    kept: list[int] = []
    deferred: list[int] = []
    for start in range(0, n, _PANEL):
        panel = candidates[start : start + _PANEL]
        k = len(kept)
        V = K[np.ix_(np.array(kept), panel)] if k else None
        if V is not None:
            solve_lower(R[:k, :k], V)
        S = K[np.ix_(panel, panel)] - (V.T @ V if V is not None else 0)
        taken: list[int] = []
        for j in range(len(panel)):
            if S[j, j] <= DEFER:
                deferred.append(int(panel[j]))
                continue
            row = len(kept)
            if V is not None:
                R[row, :k] = V[:, j]
            R[row, k:row] = S[taken, j]
            R[row, row] = np.sqrt(S[j, j])
            S[j, j + 1 :] /= R[row, row]
            S[j + 1 :, j + 1 :] -= np.outer(S[j, j + 1 :], S[j, j + 1 :])
            kept.append(int(panel[j]))
            taken.append(j)
    k = len(kept)
    return np.array(kept, dtype=int), R[:k, :k], np.array(deferred, dtype=int)


def _complete(K: np.ndarray, kept: np.ndarray, R: np.ndarray, deferred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Append the deferred rows by complete pivoting, down to round-off."""
    k = len(kept)
    if not len(deferred):
        return deferred, R
    V = solve_triangular(R, K[np.ix_(kept, deferred)], lower=True, check_finite=False) if k else np.zeros((0, 1))
    S = K[np.ix_(deferred, deferred)] - (times_own_transpose(V.T) if k else 0)
    pivots, factor = complete_pivoting(S, len(K))
    rank = len(pivots)
    if not rank:
        return deferred[:0], R
    out = np.zeros((k + rank, k + rank))
    out[:k, :k] = R
    if k:
        out[k:, :k] = V[:, pivots].T
    out[k:, k:] = factor
    return deferred[pivots], out


def complete_pivoting(S: np.ndarray, n_landmarks: int) -> tuple[np.ndarray, np.ndarray]:
    """Pivots of a residual kernel, largest first, down to the round-off of this many landmarks, and their factor."""
    tolerance = DROP * max(n_landmarks, 1 / DEFER / 4) * np.finfo(float).eps
    if S.diagonal().max() <= tolerance:  # LAPACK takes the first pivot without asking
        return np.empty(0, dtype=int), np.empty((0, 0))
    factor, pivots, rank, _ = lapack.dpstrf(S, tol=tolerance, lower=1)
    return pivots[:rank] - 1, np.tril(factor[:rank, :rank])


def eigen_whitening(K: np.ndarray, rank: int) -> np.ndarray:
    """``U_r S_r^{-1/2}`` of the ``rank`` largest eigenpairs (equation 27), without those below round-off."""
    n = len(K)
    s, U = eigh(K, subset_by_index=[max(0, n - rank), n - 1], check_finite=False)
    s, U = s[::-1], U[:, ::-1]
    keep = s > DROP * max(n, 16) * np.finfo(float).eps * max(s[0], 0.0)
    return np.ascontiguousarray(U[:, keep] / np.sqrt(s[keep]))


#: Steps of power iteration that tell the order of magnitude of a condition number.
STEPS = 4


@dataclass
class PartialWhitening:
    r"""The map :math:`x \mapsto [\hat F_1\ E_2]`, and the factor :math:`\tilde R` that is left."""

    cross_kernel: FeatureMap
    R11: np.ndarray
    R21: np.ndarray
    remaining: np.ndarray

    @classmethod
    def of(cls, cross_kernel: FeatureMap, R: np.ndarray, leading: int) -> "PartialWhitening":
        """With this many leading landmarks."""
        remaining = np.eye(len(R))
        remaining[leading:, leading:] = R[leading:, leading:]
        R11, R21 = (np.ascontiguousarray(part[:, :leading]) for part in (R[:leading], R[leading:]))
        return cls(cross_kernel, R11, R21, remaining)

    def __post_init__(self) -> None:
        self.n_features_out = len(self.remaining)

    @property
    def condition(self) -> float:
        """Condition number of the residual kernel, scaled to a unit diagonal: its order of magnitude."""
        return residual_condition(self.remaining, len(self.R11))

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        leading = len(self.R11)
        self.cross_kernel.transform_block(X, out)
        F1 = np.ascontiguousarray(out[:, :leading])
        solve_lower_transposed(self.R11, F1)
        out[:, :leading] = F1
        subtract_product(F1, self.R21, out[:, leading:])


def residual_condition(R: np.ndarray, leading: int) -> float:
    """Condition number of ``R₂₂R₂₂ᵀ`` scaled to a unit diagonal, below this many leading rows of R."""
    rest = R[leading:, leading:]
    rest = rest / np.sqrt(np.einsum("ij,ij->i", rest, rest))[:, None]
    return NestedCholesky(np.arange(len(rest)), rest).condition_after(STEPS)
