r"""Jackknife+: predictions of new rows by the models without each training row, from the factor of the model of all.

With :math:`A = \tilde\Phi^TW\tilde\Phi + I/C` the model without row i has :math:`\beta_{-i} = \beta - u e_{-i} A^{-1}
\tilde\phi_i`, so that at a new row

.. math:: f_{-i}(x) = f(x) - u\,e_{-i}\left(\tilde\phi(x)^TA^{-1}\tilde\phi_i + \tfrac1{\sum w}\right),

the last term with an intercept. Where the row leaves as a landmark too (:mod:`ulmus.solvers.own_landmarks`),
:math:`A^{-1}\tilde\phi_i` loses its share along :math:`s = A^{-1}v`, and :math:`f` itself loses
:math:`\tilde\phi(x)^Ts\,v^T\beta / v^Ts`.

With folds, f₋ᵢ is the model without the fold of row i, whose weights are kept, and this is CV+.

The interval is made of the quantiles of :math:`f_{-i}(x) + e_{-i}` over the rows (Barber, Candès, Ramdas, Tibshirani
2021): whatever the data, a new target lies inside with probability :math:`1 - 2\alpha` at least, and nearly always
with :math:`1 - \alpha`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.calibration.conformal import Tails, lower, upper
from ulmus.calibration.held_out import HeldOut
from ulmus.engine import Rows
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.ridge import Leverage

#: Bytes of left-out predictions that are held at a time.
BLOCK_BYTES = 2**25

#: New rows → ``[row, held-out row]`` what their predictions lean on each, and what they lose with it as a landmark
#: (``[row, held-out row, output]``, or 0).
Leaning = Callable[[Any], tuple[np.ndarray, Any]]


@dataclass(frozen=True)
class MapLeaning:
    """Of a model on features: ``φ̃(x)ᵀ A⁻¹ φ̃ᵢ + 1/Σw`` for every held-out row."""

    features: Any
    leverage: Leverage
    columns: np.ndarray
    index: np.ndarray
    directions: np.ndarray
    lost: np.ndarray

    @classmethod
    def of(cls, features: Any, leverage: Leverage, beta: np.ndarray, held_out: HeldOut) -> "MapLeaning":
        Phi = engine.transform_rows(features, held_out.X)
        Phi -= leverage.centre
        columns = leverage.inverse(Phi.T)
        own = OwnLandmarks.of(features, Rows(held_out.X, held_out.T, held_out.weight, held_out.unit))
        if own is None:
            none = np.empty(0, int)
            return cls(features, leverage, columns, none, columns[:, none], np.empty((0, held_out.T.shape[1])))
        S = leverage.inverse(own.V)
        directions = S / np.einsum("ij,ij->j", own.V, S)
        columns[:, own.index] -= directions * np.einsum("ij,ji->i", Phi[own.index], S)
        return cls(features, leverage, columns, own.index, directions, own.V.T @ beta)

    def __call__(self, X: Any) -> tuple[np.ndarray, Any]:
        Phi = engine.transform_rows(self.features, X)
        Phi -= self.leverage.centre
        leans = Phi @ self.columns + self.leverage.constant
        if not len(self.index):
            return leans, 0.0
        lost = np.zeros((*leans.shape, self.lost.shape[1]))
        lost[:, self.index] = (Phi @ self.directions)[:, :, None] * self.lost
        return leans, lost


@dataclass(frozen=True)
class FoldLeaning:
    """Of a model that was calibrated in folds, for CV+: what its answers lose with the fold of every held-out row."""

    features: Any
    beta: np.ndarray
    intercept: np.ndarray
    held_out: HeldOut

    def __call__(self, X: Any) -> tuple[np.ndarray, Any]:
        folds, fold = self.held_out.folds, self.held_out.fold
        assert folds is not None
        assert fold is not None
        Phi = engine.transform_rows(self.features, X)
        P = Phi @ self.beta + self.intercept
        lost = P[:, None] - (np.einsum("ij,kjm->ikm", Phi, folds.beta, optimize=True) + folds.intercept)
        place = np.searchsorted(folds.numbers, fold)
        return np.zeros((len(P), len(place))), lost[:, place]


def jackknife_ends(
    leaning: Leaning,
    held_out: HeldOut,
    X: Any,
    centre: np.ndarray,
    levels: np.ndarray,
    tails: Tails,
    own: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Ends ``[row, output, coverage, end]`` about the predictions ``centre``; ``levels[coverage, end]``.

    ``own`` is the weight of the new row, or of each.
    """
    own = np.broadcast_to(own, len(centre))
    E = held_out.T - held_out.P
    taken = E if held_out.unit is None else E * held_out.unit[:, None]
    out = np.empty((*centre.shape, *levels.shape))
    length = max(1, BLOCK_BYTES // (8 * E.size))
    for piece in engine.pieces(len(centre), length):
        leans, lost = leaning(X[piece])
        left_out = centre[piece, None, :] - leans[:, :, None] * taken - lost
        for j, e in enumerate(E.T):
            below, above = (-np.abs(e), np.abs(e)) if tails.symmetric else (e, e)
            low = lower(left_out[:, :, j] + below, held_out.weight, levels[:, 0], own[piece])
            high = upper(left_out[:, :, j] + above, held_out.weight, levels[:, 1], own[piece])
            out[piece, j] = np.stack([low, high], axis=-1)
    return out
