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

from ulmus.explain.influence import LeavesRows, OwnEffects


@dataclass(frozen=True)
class BesideTrees:
    """Kernels that rows leave, and the share of the trees.

    ``trees`` answers rows as the model does, ``grown`` gives :meth:`~ulmus.solvers.boosted.PartTrees.answers`, in the
    units of the targets.
    """

    kernels: LeavesRows
    share: float
    U: np.ndarray
    T: np.ndarray
    trees: Callable[[np.ndarray], np.ndarray]
    grown: Callable[[], Callable[[np.ndarray, np.ndarray], np.ndarray]]

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        return (1.0 - self.share) * self.kernels.answers(X, T) + self.share * self.trees(X)

    def effects(self, X: Any) -> np.ndarray:
        return (1.0 - self.share) * self.kernels.effects(X)

    def own_effects(self, rows: np.ndarray) -> OwnEffects:
        """What the scores of rows owe to training rows, those that trees know by heart included."""
        kernels, unseen = self.kernels.own_effects(rows), self._unseen

        def effects(X: Any) -> np.ndarray:
            return (1.0 - self.share) * kernels(X) + self.share * (self.trees(X) - unseen(X, rows))

        return effects

    @cached_property
    def _unseen(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return self.grown()

    @cached_property
    def _missed(self) -> np.ndarray:
        """What trees that did not see training rows miss them by."""
        return self.T - self._unseen(self.U, np.arange(len(self.T)))

    @property
    def left_out(self) -> np.ndarray:
        """Residuals of training rows: by kernels without the row, and trees without its part."""
        return (1.0 - self.share) * self.kernels.left_out + self.share * self._missed

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """The same when another row leaves the kernels too."""
        return (1.0 - self.share) * self.kernels.left_out_pairs(rows) + self.share * self._missed[rows, None]
