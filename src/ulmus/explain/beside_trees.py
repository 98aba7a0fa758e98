r"""Kernels beside boosted trees: rows leave the kernels, and the trees stay as they are.

The scores are :math:`(1 - s)\,k(x) + s\,t(x)`, kernels and trees fitted apart to the same targets. With the trees and
their share s held fixed, a row that leaves moves the score by :math:`(1 - s)\,(k(x) - k_{-i}(x))`. What a row is missed
by must not come from trees that know its target: for that they are grown again without each of several parts of the
rows, and a row is answered by those that did not see it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ulmus.explain.influence import LeavesRows


@dataclass(frozen=True)
class BesideTrees:
    """Kernels that rows leave, and the share of the trees; ``grown`` gives answers of training rows by trees that did
    not see them, not a number where there are none.
    """

    kernels: LeavesRows
    share: float
    T: np.ndarray
    trees: Callable[[np.ndarray], np.ndarray]
    grown: Callable[[], np.ndarray]

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        return (1.0 - self.share) * self.kernels.answers(X, T) + self.share * self.trees(X)

    def effects(self, X: Any) -> np.ndarray:
        return (1.0 - self.share) * self.kernels.effects(X)

    @cached_property
    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """Shares of the trees, 0 where they have no answer, ``[row, 1]``, and what they miss training rows by."""
        answers = self.grown()
        known = ~np.isnan(answers).any(axis=1, keepdims=True)
        return self.share * known, np.where(known, self.T - answers, 0.0)

    @property
    def left_out(self) -> np.ndarray:
        """Residuals of training rows: by kernels without the row, and trees without its part."""
        share, missed = self._held
        return (1.0 - share) * self.kernels.left_out + share * missed

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """The same when another row leaves the kernels too."""
        share, missed = self._held
        kernels = self.kernels.left_out_pairs(rows)
        return (1.0 - share[rows, None]) * kernels + (share * missed)[rows, None]
