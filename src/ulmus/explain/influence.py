"""Rows behind answers: what an answer owes to each of them, and what the model does."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ulmus import engine

#: Numbers that are held at a time.
HELD = 2_000_000
#: Rows at which the training rows that were given are tried, and how far answers may be off, relative to the largest:
#: of exact solves, and of leaves that were solved in single precision.
TRIED, SAME, SAME_SINGLE = 20, 1e-5, 1e-3
#: The same of log models, which stop before the last digit: rows, and how far shares of classes may be off. Scores of
#: rows that are certain may move far, and change nothing.
TRIED_LOG, SAME_SHARES = 200, 0.05

#: Scores of rows and row numbers → the loss of each.
Loss = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Rows, as many as there are training rows that leave → what the score of each owes to that training row.
OwnEffects = Callable[[Any], np.ndarray]


class LeavesRows(Protocol):
    """A model that can do without one of its rows."""

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        """Scores of rows, from the targets."""

    def effects(self, X: Any) -> np.ndarray:
        """``f(x) − f₋ᵢ(x)``: ``[row, training row, output]``."""

    def own_effects(self, rows: np.ndarray) -> OwnEffects:
        """The effects of these training rows, each on another row: ``f(x) − f₋ᵢ(x)`` of pairs alone."""

    @property
    def left_out(self) -> np.ndarray:
        """Residuals of training rows under the models without them."""

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """Residuals of rows when they and another are left out: ``[row, the other, output]``."""


def check_rows(
    model: LeavesRows, X: Any, T: np.ndarray, scores: Callable[[Any], np.ndarray], *, within: float = SAME
) -> None:
    """Refuse rows that are not those of the fit: the model can be told from them."""
    some = X[:TRIED]
    expected = scores(some)
    off = float(np.abs(model.answers(some, T) - expected).max())
    size = max(float(np.abs(expected).max()), float(np.abs(T).max()))
    _refuse(off, size, within)


def check_log_rows(model: LeavesRows, X: Any, T: np.ndarray, scores: Any, shares: Any) -> None:
    """The same for log models, by the shares of classes that scores give."""
    some = X[:TRIED_LOG]
    _refuse(float(np.abs(shares(model.answers(some, T)) - shares(scores(some))).max()), 1.0, SAME_SHARES)


def _refuse(off: float, size: float, within: float) -> None:
    if not off <= within * size:
        raise other_rows(f"predictions computed from them are off by {off:.2g}, where predictions are up to {size:.2g}")


def other_rows(why: str) -> ValueError:
    """The error about rows that are not those of the fit."""
    return ValueError(
        f"the rows, targets and weights that were given are not those that the model was fitted to: {why}. Pass all "
        "rows of the last fit"
    )


def row_values(model: LeavesRows, T: np.ndarray, w: np.ndarray, loss: Loss) -> np.ndarray:
    r"""By how much the total loss of rows left out would rise without each row.

    .. math:: v_i = \sum_{j \ne i} w_j\left[\ell_j(f_{-ij}) - \ell_j(f_{-j})\right] - w_i\,\ell_i(f_{-i}).

    What a row does for others, less what itself is missed by.
    """
    n = len(T)
    everything = np.arange(n)
    before = loss(T - model.left_out, everything)
    values = -w * before
    for rows in engine.pieces(n, max(1, HELD // (n * T.shape[1]))):
        scores = T[rows, None] - model.left_out_pairs(rows)  # of rows, without every other
        count = rows.stop - rows.start
        place = np.repeat(everything[rows], n)
        after = loss(scores.reshape(count * n, -1), place).reshape(count, n)
        change = after - before[rows, None]
        change[np.arange(count), everything[rows]] = 0.0
        values += w[rows] @ change
    return values
