r"""Log models without a row, by one Newton step.

At the solution of :math:`\sum_i w_i\ell_i + \|\beta\|^2/2C` a log model is a ridge model of itself: with the shares p,
the weights :math:`d = w\,p(1 - p)` and the working targets :math:`z = f + (y - p)/p(1 - p)` the ridge regression of z
with weights d and the same C has the scores f. What a row does to that regression, exactly (:mod:`ulmus.explain.
smoother`), is one Newton step with the Hessian of the other rows towards the log model without it: an approximation,
good to the second order in what the row moves. Of several classes every score is taken against the rest, without the
curvature between classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.explain.smoother import Smoother

#: Least ``p(1 − p)``: what is below it is certain, and moves nothing.
LEAST = 1e-9


@dataclass(frozen=True)
class LogRows:
    """A smoother for every score, their working targets, and the codes of the rows."""

    smoothers: tuple[Smoother, ...]
    working: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        shares: np.ndarray,
        codes: np.ndarray,
        weight: np.ndarray,
        make: Callable[..., Smoother],
    ) -> "LogRows":
        """From scores and shares of training rows; ``make(targets, weights)`` smooths one column."""
        d = np.maximum(shares * (1.0 - shares), LEAST)
        working = scores + (0.5 * (1.0 + codes) - shares) / d
        smoothers = [make(z[:, None], weight * c) for z, c in zip(working.T, d.T, strict=True)]
        return cls(tuple(smoothers), working, codes)

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        """Scores of rows, from the working targets."""
        each = zip(self.smoothers, self.working.T, strict=True)
        return np.column_stack([smoother.weights(X) @ z for smoother, z in each])

    def effects(self, X: Any) -> np.ndarray:
        return np.stack([one.weights(X) * one.left_out[:, 0] for one in self.smoothers], axis=2)

    @property
    def left_out(self) -> np.ndarray:
        """Codes of training rows less their scores by the models without them."""
        missed = np.column_stack([one.left_out[:, 0] for one in self.smoothers])
        return self.codes - (self.working - missed)

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """The same without the row and another: ``[row, the other, output]``."""
        missed = np.stack([one.left_out_pairs(rows)[:, :, 0] for one in self.smoothers], axis=2)
        return self.codes[rows, None] - (self.working[rows, None] - missed)
