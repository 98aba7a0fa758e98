"""Ties: two C whose losses differ by round-off where the rule of choice has its threshold.

The smallest C whose loss is within a thousandth of the lowest is chosen (:func:`ulmus.tuning.surface.lowest`). Losses
of a huge C have few digits, so that a loss may lie on the threshold but for round-off. Then either C is right, and what
must hold is: **with the same choice at the tie, all answers agree**. :func:`settled` makes the choices of the first fit
again in the second, wherever the losses of both agree to 0.15 of that thousandth, and nowhere else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from ulmus.tuning import surface

from . import _estimators

#: Losses that differ by less than this share may be on either side of the threshold.
TIED = 0.15 * surface.FLAT


@dataclass
class Choices:
    """Losses and choices of the first fit, in their order, and how many the second would have made otherwise."""

    rule: Callable[[np.ndarray], int]
    fits: int = 0
    made: list[tuple[np.ndarray, int]] = field(default_factory=list)
    asked: int = 0
    ties: int = 0

    def __call__(self, loss: np.ndarray) -> int:
        own = self.rule(loss)
        if self.fits < 2:
            self.made.append((loss.copy(), own))
            return own
        before, chosen = self.made[self.asked] if self.asked < len(self.made) else (loss[:0], own)
        self.asked += 1
        if chosen == own or before.shape != loss.shape:
            return own
        deciding = [own, chosen, int(np.argmin(before)), int(np.argmin(loss))]
        if np.abs(before[deciding] - loss[deciding]).max() > TIED * loss.min():
            return own
        self.ties += 1
        return chosen


@contextmanager
def settled() -> Iterator[Choices]:
    """Within, the second fit chooses as the first where it is a tie."""
    choices, fitted = Choices(surface.lowest), _estimators.fitted

    def counted(*args: object, **kwargs: object) -> object:
        choices.fits += 1
        return fitted(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "lowest", choices)
        patch.setattr(_estimators, "fitted", counted)
        yield choices
