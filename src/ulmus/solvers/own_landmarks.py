r"""Leaving a row out of a Nyström model when it is a landmark: it leaves as a landmark too.

A landmark is a row that the model knows twice, once as data and once as a feature; a new row is neither. With
:math:`K_{zz} = RR^T` the unit vector :math:`v \propto R^{-1}e_j` is orthogonal to the features of all landmarks but
the j-th, so that the model without landmark j is the one with :math:`v^T\beta = 0`. From
:math:`A = \tilde\Phi^TW\tilde\Phi + I/C` and :math:`s = A^{-1}v`,

.. math:: \beta' = \beta - s\,\frac{v^T\beta}{v^Ts}, \qquad h' = h - \frac{(\tilde\phi^Ts)^2}{v^Ts}, \qquad
   r'(x,x) = r(x,x) + (\phi^Tv)^2,

and several landmarks leave with the columns of an orthonormal V in place of v. With all rows as landmarks
:math:`h'_- + C\,r'` is :math:`h_-`, the variance of the exact model without the row, whose weights are in the span of
the other rows: there no landmark has to leave (:func:`all_landmarks`), and the features of row i are row i of R.

Where landmarks depended on others and were dropped, those would take the place of the one that leaves: the span stays,
and so do all landmarks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack, qr

from ulmus.engine import Rows, solve_rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import alone, row_keys
from ulmus.solvers.ridge import Leverage

#: ``A⁻¹ V``.
Inverse = Callable[[np.ndarray], np.ndarray]


def can_leave(features: Any) -> bool:
    """Whether landmarks of these features leave with their rows."""
    return isinstance(features, NystromMap) and features.triangular and not features.n_dropped_


def landmarks_among(Z: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that are landmarks, and of these landmarks."""
    X = np.asarray(rows.X) if hasattr(rows.X, "rows_of_small_keys") else rows.X
    keys, known = row_keys(X, 0), row_keys(Z, 0)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
    index = np.flatnonzero(known[place] == keys)
    return index, place[index]


def all_landmarks(features: Any, rows: Rows) -> np.ndarray | None:
    """The landmark that every row is, where all rows are landmarks, none of them twice, and none is dropped."""
    if not can_leave(features) or len(rows) != features.n_features_out:
        return None
    index, place = landmarks_among(features.landmarks_, rows)
    return place if len(index) == len(rows) == len(np.unique(place)) else None


def only_landmarks(features: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
    """Features of rows that are all landmarks and leave with their whole weight, and ``r'(x, x)`` of each."""
    place = all_landmarks(features, rows)
    whole = rows.unit is rows.weight is None or (rows.unit is not None and np.array_equal(rows.unit, rows.weights))
    if place is None or not whole:
        return None
    inverse, _ = lapack.dtrtri(features.whitening_.T, lower=0)
    return features.whitening_[place], 1.0 / np.einsum("ij,ij->i", inverse, inverse)[place]


def dual_leverages(leverage: Leverage, weight: np.ndarray | None) -> np.ndarray:
    """Leverages of the rows of a dual form, ``(1 − (B⁻¹)ᵢᵢ/C)/wᵢ`` with ``B = Φ̃Φ̃ᵀ + I/C``: no row is solved for."""
    inverse, _ = lapack.dtrtri(leverage.root, lower=1)
    h = 1.0 - np.einsum("ij,ij->j", inverse, inverse) / leverage.C
    return (h if weight is None else h / weight) + leverage.constant


@dataclass(frozen=True)
class OwnLandmarks:
    """Rows ``index`` that leave as landmarks too: their features, the unit vectors ``v`` (columns) and ``r'(x, x)``."""

    index: np.ndarray
    Phi: np.ndarray
    V: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, features: Any, rows: Rows, n_jobs: int | None = 1) -> "OwnLandmarks | None":
        """Those among these rows; None where no landmark leaves."""
        if not can_leave(features):
            return None
        index, place = landmarks_among(features.landmarks_, rows)
        leave = alone(rows)[index]
        index, place = index[leave], place[leave]
        V = _directions(features.whitening_, place, n_jobs)
        square = np.einsum("ij,ij->j", V, V)
        return cls(index, features.whitening_[place], V / np.sqrt(square), 1.0 / square)

    def without(
        self, inverse: Inverse, centre: np.ndarray, beta: np.ndarray, fitted: np.ndarray, h: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fitted values ``[row, output]`` and leverages of all rows, for these under the model without the landmark."""
        S = inverse(self.V)
        along = np.einsum("ij,ji->i", self.Phi - centre, S)
        share = along / np.einsum("ij,ij->j", self.V, S)
        fitted, h = fitted.copy(), h.copy()
        fitted[self.index] -= share[:, None] * (self.V.T @ beta)
        h[self.index] = np.maximum(h[self.index] - share * along, 0.0)
        return fitted, h

    def without_factor(
        self, leverage: Leverage, beta: np.ndarray, fitted: np.ndarray, h: np.ndarray, n_jobs: int | None = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same from the triangular factor of A, which is solved with once for v and once for the features.

        The leverages of these rows need not be known.
        """
        along, across = self.Phi - leverage.centre, np.array(self.V.T, order="C")
        for rows in (along, across):
            solve_rows(leverage.root, rows, n_jobs)
        seen = np.einsum("ij,ij->i", along, across)
        share = seen / np.einsum("ij,ij->i", across, across)
        fitted, h = fitted.copy(), h.copy()
        fitted[self.index] -= share[:, None] * (self.V.T @ beta)
        own = np.einsum("ij,ij->i", along, along) + leverage.constant
        h[self.index] = np.maximum(own - share * seen, 0.0)
        return fitted, h

    def residual_kernel(self, rest: np.ndarray) -> np.ndarray:
        """That of all rows, for these by the other landmarks."""
        rest = rest.copy()
        rest[self.index] = self.rest
        return rest


@dataclass(frozen=True)
class WithoutLandmarks:
    """A model without several of its landmarks; ``V`` is an orthonormal basis of what they alone explain."""

    V: np.ndarray

    @classmethod
    def of(cls, features: NystromMap, place: np.ndarray) -> "WithoutLandmarks":
        return cls(qr(_directions(features.whitening_, place), mode="economic", check_finite=False)[0])

    def without(
        self, inverse: Inverse, centre: np.ndarray, beta: np.ndarray
    ) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
        """Weights, and a function from features to what is less in h and in what is explained of ``κ(x, x)``."""
        S = inverse(self.V)
        M = np.linalg.inv(self.V.T @ S)

        def changes(Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            along, seen = (Phi - centre) @ S, Phi @ self.V
            return np.einsum("ij,jk,ik->i", along, M, along, optimize=True), np.einsum("ij,ij->i", seen, seen)

        return beta - S @ (M @ (self.V.T @ beta)), changes


def _directions(R: np.ndarray, place: np.ndarray, n_jobs: int | None = 1) -> np.ndarray:
    """Columns of ``R⁻¹``."""
    E = np.zeros((len(place), len(R)))
    E[np.arange(len(place)), place] = 1.0
    solve_rows(R, E, n_jobs)
    return E.T
