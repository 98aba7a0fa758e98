"""The losses of one model for every C, and the grid of C that grows where the best value is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

#: How far, in powers of two, a grid of C may be widened when its best value sits at an end.
C_LIMITS = (-30.0, 35.0)
_WIDEN = 5
#: Relative differences in loss below this are none.
FLAT = 1e-3

#: A climb goes by factors of four, this many at most, and ends where a step gains less than this share.
MAX_CLIMB, WORTH_A_STEP = 6, 0.01
#: Neighbouring values of log2 C may lie so far apart, beside the best as elsewhere.
GAP = 2.0


def lowest(loss: np.ndarray) -> int:
    """The first loss that is practically the lowest."""
    return int(np.flatnonzero(loss <= (1 + FLAT) * loss.min())[0])


def climb(better: Callable[[int], int], here: int = 0) -> int:
    """Where steps to better neighbours end; ``better`` names that of a step, or the step itself where none is."""
    while (there := better(here)) != here:
        here = there
    return here


def climbed(loss_at: Callable[[float], float], start: float, share: float = WORTH_A_STEP) -> float:
    """The best of ``start · 4^k`` by a climb that ends where a step gains less than this share, or after six steps."""
    losses: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in losses:
            losses[k] = loss_at(start * 4.0**k)
        return losses[k]

    def better(here: int) -> int:
        if abs(here) == MAX_CLIMB:
            return here
        best = min((here - 1, here + 1), key=at)
        return here if at(best) > (1 - share) * at(here) else best

    return float(start * 4.0 ** climb(better))


@dataclass(frozen=True)
class Trial:
    """The losses of every C for one width and one size of the features.

    Trials of an adaptive model say which view it was too: how columns were prepared, the kernel, and whether it saw
    them through a metric ("plain" or "learned").
    """

    stage: str
    width: float
    size: int
    n_rows: int
    C: np.ndarray
    loss: np.ndarray
    row_losses: np.ndarray = field(repr=False)
    seconds: float = 0.0
    preparation: str = ""
    kernel: str = ""
    metric: str = ""

    @property
    def best(self) -> int:
        """The smallest C whose loss is practically the lowest: beyond it, only digits are lost."""
        return lowest(self.loss)

    @property
    def best_C(self) -> float:
        return float(self.C[self.best])

    @property
    def best_loss(self) -> float:
        return float(self.loss[self.best])


class Surface:
    """The losses of one size while its grid of C grows; a ``sparing`` one asks for one more C at a time.

    No log2 C above ``most`` is asked for: beyond it losses are round-off.
    """

    def __init__(self, paths: list[Any], size: int, *, sparing: bool = False, most: float = np.inf) -> None:
        self.paths, self.size, self.sparing, self.most = paths, size, sparing, most
        self.grid = np.empty(0)
        self.loss: np.ndarray = np.empty(0)
        self.row_losses: np.ndarray = np.empty((0, 0))

    @property
    def best(self) -> int:
        return lowest(self.loss)

    def wanted(self, start: np.ndarray) -> np.ndarray:
        """The log2 C to score next: all of ``start``, then whatever lies past an end, or in a gap, beside the best."""
        grid, loss, best = self.grid, self.loss, self.best if len(self.grid) else 0
        if not len(grid):
            return self._below(start) if len(start) > 1 else start
        if len(grid) == 1:
            return grid[:0]
        if best == len(grid) - 1 and grid[-1] < min(C_LIMITS[1], self.most):
            more = grid[-1] + (np.array([GAP]) if self.sparing else np.arange(1.0, _WIDEN + 1))
            return self._below(more)
        if best == 0 and grid[0] > C_LIMITS[0] and loss[0] < loss[-1]:
            return grid[0] - (np.array([GAP]) if self.sparing else np.arange(1.0, _WIDEN + 1))
        if self.sparing:
            beside = min((k for k in (best - 1, best + 1) if 0 <= k < len(grid)), key=lambda k: loss[k])
            return grid[[best, beside]].mean(keepdims=True) if abs(grid[best] - grid[beside]) > 1.0 else grid[:0]
        gaps = [np.arange(a + 1.0, b) for a, b in pairwise(grid[max(0, best - 1) : best + 2]) if b - a > GAP]
        return np.concatenate(gaps) if gaps else grid[:0]

    def _below(self, log2_C: np.ndarray) -> np.ndarray:
        """These values, with ``most`` for those above it; where one is left, all of them so much lower."""
        below = np.unique(np.minimum(log2_C, self.most))
        return below if len(below) > 1 or len(self.grid) else log2_C - log2_C.max() + self.most

    def add(self, more: np.ndarray, losses: np.ndarray, weight: np.ndarray) -> None:
        """Losses ``[C, row]`` of more values of C."""
        if not len(more):
            return
        self.grid = np.append(self.grid, more)
        self.row_losses = np.concatenate([self.row_losses, losses]) if self.row_losses.size else losses
        order = np.argsort(self.grid)
        self.grid, self.row_losses = self.grid[order], self.row_losses[order]
        self.loss = np.average(self.row_losses, axis=1, weights=weight)
