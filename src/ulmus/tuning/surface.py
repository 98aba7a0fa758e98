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


def climbed(loss_at: Callable[[float], float], start: float, share: float = WORTH_A_STEP) -> float:
    """The best of ``start · 4^k`` by a climb that ends where a step gains less than this share, or after six steps."""
    losses: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in losses:
            losses[k] = loss_at(start * 4.0**k)
        return losses[k]

    here = 0
    while abs(here) < MAX_CLIMB:
        best = min((here - 1, here + 1), key=at)
        if at(best) > (1 - share) * at(here):
            break
        here = best
    return start * 4.0**here


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
    """The losses of one size while its grid of C grows; a ``sparing`` one asks for one more C at a time."""

    def __init__(self, paths: list[Any], size: int, *, sparing: bool = False) -> None:
        self.paths, self.size, self.sparing = paths, size, sparing
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
            return start
        if len(grid) == 1:
            return grid[:0]
        if best == len(grid) - 1 and grid[-1] < C_LIMITS[1]:
            return grid[-1] + (np.array([GAP]) if self.sparing else np.arange(1.0, _WIDEN + 1))
        if best == 0 and grid[0] > C_LIMITS[0] and loss[0] < loss[-1]:
            return grid[0] - (np.array([GAP]) if self.sparing else np.arange(1.0, _WIDEN + 1))
        if self.sparing:
            beside = min((k for k in (best - 1, best + 1) if 0 <= k < len(grid)), key=lambda k: loss[k])
            return grid[[best, beside]].mean(keepdims=True) if abs(grid[best] - grid[beside]) > 1.0 else grid[:0]
        gaps = [np.arange(a + 1.0, b) for a, b in pairwise(grid[max(0, best - 1) : best + 2]) if b - a > GAP]
        return np.concatenate(gaps) if gaps else grid[:0]

    def add(self, more: np.ndarray, losses: np.ndarray, weight: np.ndarray) -> None:
        """Losses ``[C, row]`` of more values of C."""
        if not len(more):
            return
        self.grid = np.append(self.grid, more)
        self.row_losses = np.concatenate([self.row_losses, losses]) if self.row_losses.size else losses
        order = np.argsort(self.grid)
        self.grid, self.row_losses = self.grid[order], self.row_losses[order]
        self.loss = np.average(self.row_losses, axis=1, weights=weight)
