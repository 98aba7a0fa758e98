"""Ties: two C whose losses differ by round-off where the rule of choice has its threshold.

The smallest C whose loss is within a thousandth of the lowest is chosen (:func:`ulmus.tuning.surface.lowest`). Losses
of a huge C have few digits, so that a loss may lie on the threshold but for round-off. Then either C is right, and what
must hold is: **with the same choice at the tie, all answers agree**. :func:`settled` makes the choices of the first fit
again in the second, wherever the losses of both differ by round-off, and nowhere else.

How much that is depends on the case and on the processor, so it is measured in the case: the first fit is done again
with its rows in other orders, which changes nothing but the order of sums. A tie may move losses by ten times what
these orders do, as copies and weights are other sums too, and by less than the thousandth. Where orders alone move
losses by more than that, order has a meaning, and nothing is a tie.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from ulmus.tuning import surface

from . import _estimators

#: Orders of the rows that are tried, and how many times the largest change among them a tie may show.
ORDERS, SAFETY = 4, 10.0


@dataclass
class Choices:
    """Losses and choices of the first fit, in their order, and how many the second would have made otherwise.

    ``orders`` are the losses of the same choices with rows in other orders, a list for every order.
    """

    rule: Callable[[np.ndarray], int]
    fits: int = 0
    made: list[tuple[np.ndarray, int]] = field(default_factory=list)
    orders: list[list[np.ndarray]] = field(default_factory=list)
    measuring: bool = False
    asked: int = 0
    ties: int = 0

    def __call__(self, loss: np.ndarray) -> int:
        own = self.rule(loss)
        if self.measuring:
            place = len(self.orders[-1])
            self.orders[-1].append(loss.copy())
            return self.made[place][1] if place < len(self.made) and len(loss) == len(self.made[place][0]) else own
        if self.fits < 2:
            self.made.append((loss.copy(), own))
            return own
        place, self.asked = self.asked, self.asked + 1
        before, chosen = self.made[place] if place < len(self.made) else (loss[:0], own)
        if chosen == own or before.shape != loss.shape:
            return own
        deciding = [own, chosen, int(np.argmin(before)), int(np.argmin(loss))]
        if not self._round_off(place, np.abs(before - loss)[deciding].max(), deciding):
            return own
        self.ties += 1
        return chosen

    def _round_off(self, place: int, moved: float, deciding: list[int]) -> bool:
        """Whether losses that moved so far did so by round-off, as the orders of the rows show it."""
        before = self.made[place][0]
        others = [losses[place] for losses in self.orders if place < len(losses)]
        known = [np.abs(loss - before)[deciding].max() for loss in others if loss.shape == before.shape]
        flat = surface.FLAT * before.min()
        return bool(known) and max(known) < flat and moved <= min(SAFETY * max(known), flat)

    def measure(self, model: Any, X: Any, y: Any, weight: Any) -> None:
        """Do the first fit again with its rows in other orders."""
        rng, self.measuring = np.random.default_rng(0), True
        for _ in range(ORDERS):
            self.orders.append([])
            order = rng.permutation(X.shape[0])
            again = (None if a is None else a[order] for a in (y, weight))
            _FITTED(clone(model), X[order], *again)
        self.measuring = False


_FITTED = _estimators.fitted


@contextmanager
def settled() -> Iterator[Choices]:
    """Within, the second fit chooses as the first where it is a tie."""
    choices = Choices(surface.lowest)

    def counted(model: Any, X: Any, y: Any, weight: Any = None) -> Any:
        choices.fits += 1
        found = _FITTED(model, X, y, weight)
        if choices.fits == 1:
            choices.measure(model, X, y, weight)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "lowest", choices)
        patch.setattr(_estimators, "fitted", counted)
        yield choices
