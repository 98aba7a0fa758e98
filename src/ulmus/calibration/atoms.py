r"""Targets that many rows share: ends of intervals that miss one by no more than a row moves predictions stop at it.

A row left out is predicted by the others, a new row by all rows. Both predictions differ by :math:`O(1/n)`, which is
nothing beside errors that are spread out, and everything where they are equal: of a model that is the mean
:math:`\bar y`, all rows with the target a have the left-out error :math:`a - \bar y_{-i}`, and a new row of that target
has :math:`a - \bar y`, so that an interval about the whole mass may be a sliver beside it. Full conformal prediction
knows the tie: with the new row among them, the others would be predicted as it is. By how much they move then, on the
mean over new rows, is known,

.. math:: d_i = |e_{-i}|\left(\left(1 + \tfrac{u}{\sum w}\right)e^{|m_i|} - 1\right) + |v_i|,

as rows of a smoother with an intercept add up to 1; :math:`m_i` is what the mean logarithm of predicted sizes moves by
when the row leaves (:mod:`ulmus.calibration.scale`), and :math:`v_i` the mean movement of predictions where others left
beside it (folds, parts); a quantile loss adds twice the width of its rounded corner. An end that lies beyond a, while
that of the targets :math:`y_i \mp d_i` does not, is a.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.calibration.conformal import SLACK
from ulmus.calibration.held_out import HeldOut
from ulmus.solvers.quantile import LAST
from ulmus.solvers.robust import deviations

#: The share of the weight of the rows, and the weight, from which on the target of some is an atom.
SHARE, WEIGHT = 0.01, 5.0
#: Round-off of predictions, in units of the largest target; and of those by models without a row.
ROUND_OFF, TIED = 1e-13, 1e-9
#: Fitted quantiles are as far from an atom as the corner of their loss is round, or so many times as far.
CORNERS = 2.0


def atoms_of(T: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Values that many targets have, in ascending order, of every output; ``weight[row, output]``."""
    found = []
    for t, w in zip(T.T, weight.T, strict=True):
        values, place = np.unique(t, return_inverse=True)
        mass = np.bincount(place.ravel(), w)
        found.append(values[mass >= max(SHARE * mass.sum(), WEIGHT) * (1.0 - SLACK)])
    return tuple(found)


def movements(rows: HeldOut, weight: np.ndarray, shifts: np.ndarray | float = 0.0) -> np.ndarray:
    """``d``, ``[row, output]``: how far new rows may lie from rows left out of equal targets.

    ``shifts[row, output]`` are those of the logarithms of sizes, ``weight[row, output]`` those of the rows.
    """
    E, total = rows.T - rows.P, np.maximum(weight.sum(axis=0), 1.0)
    unit = 1.0 if rows.unit is None else rows.unit[:, None]
    out = np.abs(E) * np.expm1(np.log1p(unit / total) + np.abs(shifts))
    if rows.moved is not None:
        out += np.abs(rows.moved)
    if rows.fold is not None:
        place = np.unique(rows.fold, return_inverse=True)[1].ravel()
        sums = np.column_stack([np.bincount(place, e) for e in (weight * E).T])
        out += np.abs(sums / total)[place]
    if rows.curves is not None:
        out += CORNERS * LAST * deviations(E, rows.weight, rows.T)
    return np.asarray((1.0 + SLACK) * out + ROUND_OFF * np.abs(rows.T).max(axis=0, initial=0.0))


def low_end(values: np.ndarray, ends: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Lower ends; those above an atom that is within ``reach`` are the lowest such atom."""
    found = np.append(values, np.inf)[np.searchsorted(values, reach)]
    return np.where(found < ends, found, ends)


def high_end(values: np.ndarray, ends: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Upper ends, likewise."""
    found = np.append(-np.inf, values)[np.searchsorted(values, reach, side="right")]
    return np.where(found > ends, found, ends)


@dataclass(frozen=True)
class Atoms:
    """Atoms of every output, and by how much scores of the rows left out fall and rise with ``y ∓ d``.

    ``fall`` and ``rise`` are ``[row, output]``, and 0 for rows at no atom.
    """

    values: tuple[np.ndarray, ...]
    fall: np.ndarray
    rise: np.ndarray

    @classmethod
    def of(
        cls, rows: HeldOut, weight: np.ndarray, shifts: Any, scores_at: Callable[[np.ndarray], np.ndarray]
    ) -> "Atoms | None":
        """Of rows left out, where ``scores_at(a)`` are scores of targets that lie by a beside theirs; None of none."""
        values = atoms_of(rows.T, weight)
        if not any(map(len, values)):
            return None
        there = np.column_stack([np.isin(t, v) for t, v in zip(rows.T.T, values, strict=True)])
        d = np.where(there, movements(rows, weight, shifts), 0.0)
        below, at, above = (scores_at(sign * d) for sign in (-1.0, 0.0, 1.0))
        return cls(values, np.maximum(at - below, 0.0), np.maximum(above - at, 0.0))

    def moves(self, j: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
        """``fall`` and ``rise`` of output j, or the larger of both for both."""
        fall, rise = self.fall[:, j], self.rise[:, j]
        return (np.maximum(fall, rise),) * 2 if symmetric else (fall, rise)
