r"""Rows of nearly as many features as there are: Newton's method by a matrix of the order of the rows.

With :math:`K = \tilde\Phi\tilde\Phi^T` of all rows, multiplied once, the inverse of
:math:`\tilde\Phi^TD\tilde\Phi + I/C` is :math:`C(I - A^TB^{-1}A)`, where A holds the rows :math:`\sqrt{D}\tilde\Phi` of
the D that are not 0 and :math:`B = \sqrt{D}K\sqrt{D} + I/C`. A step is then one factor, without squaring rows anew, and
leverages of the rows themselves are the diagonal of :math:`B^{-1}`: :math:`(1 - (B^{-1})_{ii}/C)/d_i`.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, lapack

from ulmus._blas import lower_factor, solve_lower, times_own_transpose
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.objective import Evaluation, System

#: Rows for each feature up to which a factor of the order of the rows is less work, and rows that are too few to care.
ROWS_EACH, FEW = 1.75, 300


@dataclass
class _Products:
    """``ΦΦᵀ`` of rows, made when it is first asked for."""

    K: np.ndarray | None = None

    def of(self, Phi: np.ndarray) -> np.ndarray:
        if self.K is None:
            self.K = times_own_transpose(Phi)
        return self.K


@dataclass(frozen=True)
class DualRows(HeldRows):
    """Rows whose features are kept, for a search among penalties."""

    products: _Products = field(default_factory=_Products, repr=False, compare=False)
    reuse: ClassVar[float] = 0.2

    @property
    def squared_at_once(self) -> bool:
        return False

    def without(self, left_out: np.ndarray) -> "DualRows":
        return replace(self, Phi=self.Phi[~left_out], rows=self.rows.take(~left_out), products=_Products())

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        d = found.diagonal
        assert d is not None
        if bias_penalty and self.fit_intercept:
            return super().system(found, C, bias_penalty)
        return DualSystem.of(self, d, C)


@dataclass(frozen=True)
class DualSystem:
    """``Φ̃ᵀDΦ̃ + I/C`` by the factor of B."""

    rows: DualRows
    d: np.ndarray
    C: float
    active: np.ndarray
    shift: tuple[np.ndarray, float]
    factor: np.ndarray
    centre: np.ndarray
    weight: float

    @classmethod
    def of(cls, rows: DualRows, d: np.ndarray, C: float) -> "DualSystem":
        K, active, weight = rows.products.of(rows.Phi), np.flatnonzero(d), float(d.sum())
        shift, centre = (np.zeros(len(d)), 0.0), np.zeros(rows.n_features)
        if rows.fit_intercept:
            if not 0 < weight < np.inf:
                raise LinAlgError("the loss has no curvature at any row, so that nothing determines the constant")
            mean = K @ d / weight
            shift, centre = (mean, float(d @ mean) / weight), rows.Phi.T @ d / weight
        root = np.sqrt(d[active])
        B = _centred(K, shift, active, active)
        B *= root
        B *= root[:, None]
        B[np.diag_indices(len(B))] += 1.0 / C
        factor, info = lower_factor(B.T)
        if info:
            raise LinAlgError(f"the dual system is not positive definite at row {info}")
        return cls(rows, d, C, active, shift, factor, centre, weight)

    def inverse(self, V: np.ndarray) -> np.ndarray:
        root, Phi = np.sqrt(self.d)[:, None], self.rows.Phi
        inside = np.zeros((len(self.d), V.shape[1]))
        seen = root * (Phi @ V - self.centre @ V)
        inside[self.active] = cho_solve((self.factor, True), seen[self.active], check_finite=False)
        inside *= root
        return self.C * (V - Phi.T @ inside + np.outer(self.centre, inside.sum(axis=0)))

    @property
    def leverage(self) -> "DualLeverage":
        return DualLeverage(self)


@dataclass(frozen=True)
class DualLeverage:
    """Leverages of the rows themselves, or a slice of them, and of others."""

    system: DualSystem
    factor: float = 1.0

    @property
    def centre(self) -> np.ndarray:
        return self.system.centre

    @property
    def constant(self) -> float:
        return self.factor / self.system.weight if self.system.rows.fit_intercept else 0.0

    def scaled(self, factor: float) -> "DualLeverage":
        """Leverages that are larger by this factor."""
        return replace(self, factor=factor * self.factor)

    def inverse(self, V: np.ndarray) -> np.ndarray:
        """``(Φ̃ᵀDΦ̃ + I/C)⁻¹ V``."""
        return self.factor * self.system.inverse(V)

    def __call__(self, Phi: np.ndarray) -> np.ndarray:
        known = slice_of(Phi, self.system.rows.Phi)
        h = self._of(self.system, Phi - self.centre) if known is None else self._every[known]
        return self.factor * h + self.constant

    def _of(self, s: DualSystem, V: np.ndarray) -> np.ndarray:
        seen = np.sqrt(s.d[s.active])[:, None] * ((s.rows.Phi[s.active] - self.centre) @ V.T)
        solve_lower(s.factor, seen)
        left = np.einsum("ij,ij->i", V, V) - np.einsum("ij,ij->j", seen, seen)
        return s.C * np.maximum(left, 0.0)

    @cached_property
    def _every(self) -> np.ndarray:
        s = self.system
        K, h = s.rows.products.of(s.rows.Phi), np.empty(len(s.d))
        inverse, _ = lapack.dtrtri(s.factor, lower=1)
        h[s.active] = (1.0 - np.einsum("ij,ij->j", inverse, inverse) / s.C) / s.d[s.active]
        if len(rest := np.flatnonzero(s.d == 0)):
            seen = np.sqrt(s.d[s.active])[:, None] * _centred(K, s.shift, s.active, rest)
            solve_lower(s.factor, seen)
            own = K[rest, rest] - 2 * s.shift[0][rest] + s.shift[1]
            h[rest] = s.C * np.maximum(own - np.einsum("ij,ij->j", seen, seen), 0.0)
        return np.maximum(h, 0.0)


def slice_of(some: np.ndarray, rows: np.ndarray) -> slice | None:
    """Which of the rows these are, where they are a slice of them in memory, forwards and of all columns."""
    if some.shape[1:] != rows.shape[1:] or some.dtype != rows.dtype or some.strides[1:] != rows.strides[1:]:
        return None
    if not len(some) or not np.may_share_memory(some, rows):
        return None
    start, beside = divmod(some.ctypes.data - rows.ctypes.data, rows.strides[0])
    step, between = divmod(some.strides[0], rows.strides[0])
    if beside or between or step < 1 or not 0 <= start <= start + step * (len(some) - 1) < len(rows):
        return None
    return slice(start, start + step * (len(some) - 1) + 1, step)


def _centred(K: np.ndarray, shift: tuple[np.ndarray, float], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """``K`` of these rows and columns about the mean."""
    mean, middle = shift
    every = len(rows) == len(columns) == len(K)
    part = K - mean[:, None] if every else K[np.ix_(rows, columns)] - mean[rows, None]
    part -= mean[columns] - middle
    return part
