r"""The features of a search: kernel values with some landmarks, whitened after they are summed.

A choice between views does not hang on the last digits. So :math:`K_{zz} + \epsilon I = R R^T` is one plain Cholesky
factor: no landmark is dropped or put off, and :math:`\epsilon` bounds what squaring raw kernel values multiplies
round-off by (:mod:`ulmus.solvers.nystrom_ridge` keeps the digits of the model that is fitted in the end). Where a C
seems better for which these sums have no digits, rows are whitened first, and C goes on, but not without end: the
fitted model would need more digits than there are. Distances are the same for every width.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import lower_factor, solve_factored, solve_lower, solve_lower_transposed
from ulmus.engine import Precomputed, Rows
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.statistics import Statistics

#: What is added to the diagonal of K_zz, in units of its largest entry.
NUDGE = 1e-8
#: Round-off of raw sums, as a share of the penalty, up to which they are believed: losses are off by 1e-4 to 1e-3 then.
#: With white rows C may be this many times larger; raw ones have no digit left there.
LOST, FURTHER = 0.1, 2.0**7
#: Up to this many landmarks rows are whitened first in any case.
FEW = 64


@dataclass(frozen=True)
class Distances:
    """What a kernel is a function of, between rows and the first of them that differ: evaluated once for all widths."""

    cross: CrossKernel
    P: np.ndarray
    first: np.ndarray  # which rows the landmarks are

    @classmethod
    def of(
        cls, X: np.ndarray, kernel: str, gamma: float, landmarks: int, shape: dict[str, Any], n_jobs: int | None
    ) -> "Distances":
        first = _first_of_each(X[:landmarks])  # K_zz of copies is singular
        cross = CrossKernel(kernel, X[first], KernelParameters(gamma, **shape))
        P = engine.transform(_Arguments(cross), X, np.empty((len(X), len(first))), n_jobs=n_jobs)
        return cls(cross, P, first)

    def values(self, narrower: float, *, keep: bool) -> np.ndarray:
        """Kernel values at a gamma this many times larger; without ``keep`` they are written over the distances."""
        K = self.P.copy() if keep else self.P
        assert self.cross.kernel is not None
        self.cross.kernel.values(K, self.cross.parameters, narrower)
        return K


def _first_of_each(X: np.ndarray) -> np.ndarray:
    """The places of rows that none before them equals, in order."""
    seen: dict[bytes, int] = {}
    for i, row in enumerate(X + 0.0):  # in which −0 is 0
        seen.setdefault(row.tobytes(), i)
    return np.fromiter(seen.values(), dtype=np.intp)


class _Arguments:
    """The distances as features."""

    def __init__(self, cross: CrossKernel) -> None:
        self.cross, self.n_features_out = cross, cross.n_features_out

    def transform_block(self, X: np.ndarray, out: np.ndarray) -> None:
        self.cross.arguments(X, out)


@dataclass(frozen=True)
class Sketch:
    """Landmarks, their factor, and the kernel values of rows with them."""

    cross_kernel_: CrossKernel
    whitening_: np.ndarray
    K: np.ndarray

    @classmethod
    def of(cls, distances: Distances, narrower: float = 1.0, *, keep: bool = False) -> "Sketch | None":
        """That of a gamma this many times larger; None where ``K_zz`` has no factor."""
        cross = distances.cross
        K, p = distances.values(narrower, keep=keep), cross.parameters
        if narrower != 1.0:
            assert cross.kernel is not None
            cross = CrossKernel(cross.kernel.name, cross.Z, KernelParameters(narrower * p.gamma, p.degree, p.coef0))
        Kzz = 0.5 * (K[distances.first] + K[distances.first].T)
        Kzz[np.diag_indices_from(Kzz)] += NUDGE * np.abs(Kzz.diagonal()).max()
        R, info = lower_factor(np.asfortranarray(Kzz))
        return None if info else cls(cross, np.ascontiguousarray(R), K)

    @property
    def precomputed(self) -> Precomputed:
        """The features of rows that are kernel values."""
        return Precomputed(len(self.whitening_))

    def most_C(self, weight: float) -> float:
        """The C up to which round-off of raw sums, times what whitening makes of it, is small beside the penalty."""
        square = float(np.einsum("ij,ij->", self.K, self.K)) / len(self.K)
        round_off = np.finfo(float).eps * np.sqrt(weight) * square  # errors of rows have either sign
        return LOST * float(self.whitening_.diagonal().min()) ** 2 / round_off

    def white(self, rows: Rows) -> Rows:
        """The rows as white features: of what they lose, the square is lost in sums of raw ones."""
        Phi = self.K.copy()
        solve_lower_transposed(self.whitening_, Phi)
        return replace(rows, X=Phi)

    def statistics(self, features: Precomputed, rows: Rows, n_jobs: int | None = 1) -> Statistics:
        """Sums of whitened features, of rows that are kernel values."""
        return engine.gram_statistics(features, rows, n_jobs=n_jobs).whitened(self.whitening_)

    def weight_to_landmarks(self, beta: np.ndarray) -> np.ndarray:
        """Weights of the landmarks that give the same predictions."""
        a = np.array(beta, order="C")
        solve_lower(self.whitening_, a, transposed=True)
        return a


def has_distances(kernel: str) -> bool:
    """Whether one evaluation serves every width."""
    return KERNELS[kernel].embedding in ("cityblock", "distance")


def ridge_weights(stats: Statistics, C: float, fit_intercept: bool) -> np.ndarray:
    """``(G + I/C)⁻¹B``, of centred sums where there is an intercept."""
    used = stats.centred() if fit_intercept else stats
    A = np.array(used.gram, order="F")
    A[np.diag_indices_from(A)] += 1.0 / C
    factor, info = lower_factor(A)
    if info:
        return np.linalg.lstsq(used.gram + np.eye(len(A)) / C, used.cross, rcond=None)[0]
    return solve_factored(factor, used.cross)
