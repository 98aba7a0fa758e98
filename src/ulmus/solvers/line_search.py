r"""The Wolfe–Powell search for a step length.

For :math:`\varphi(\alpha) = L(w + \alpha d)` a step is accepted when

.. math:: \varphi(\alpha) \le \varphi(0) + \delta_1\alpha\varphi'(0), \qquad \varphi'(\alpha) \ge \delta_2\varphi'(0),

with :math:`0 < \delta_1 < 1/2` and :math:`\delta_1 < \delta_2 < 1`: it goes down enough, and not too short.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: α → value and slope of φ.
Phi = Callable[[float], tuple[float, float]]

EPS = float(np.finfo(float).eps)
#: Trials before the search settles for a step that goes down enough.
MAX_TRIALS = 60


@dataclass(frozen=True)
class Step:
    """An accepted step: its length, and φ and φ' at its two ends."""

    length: float
    value: float
    slope: float
    end_value: float
    end_slope: float


@dataclass(frozen=True)
class WolfePowell:
    """The search with its five numbers; ``beta``, ``rho`` and ``rho1`` say where it looks when 1 will not do."""

    delta1: float = 1e-4
    delta2: float = 0.9
    beta: float = 1.0
    rho: float = 0.5
    rho1: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.delta1 < 0.5:
            raise ValueError(f"delta1 must lie between 0 and 0.5, got {self.delta1!r}")
        if not self.delta1 < self.delta2 < 1:
            raise ValueError(f"delta2 must lie between delta1={self.delta1!r} and 1, got {self.delta2!r}")
        if not self.beta > 0:
            raise ValueError(f"beta must be positive, got {self.beta!r}")
        for name, value in (("rho", self.rho), ("rho1", self.rho1)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")

    def search(self, phi: Phi) -> Step:
        """A step length that meets both conditions (up to the round-off of φ)."""
        value, slope = phi(0.0)
        tried: dict[float, tuple[float, float]] = {}

        def at(alpha: float) -> tuple[float, float]:
            if alpha not in tried:
                tried[alpha] = phi(alpha)
            return tried[alpha]

        def down_enough(alpha: float) -> bool:
            return at(alpha)[0] <= value + self.delta1 * alpha * slope + 16 * EPS * abs(value)

        def long_enough(alpha: float) -> bool:
            return at(alpha)[1] >= self.delta2 * slope

        def accepted(alpha: float) -> Step:
            return Step(alpha, value, slope, *at(alpha))

        # what φ could fall by is below its round-off: there is nothing to search for
        if -slope <= 16 * EPS * abs(value) or (down_enough(1.0) and long_enough(1.0)):
            return accepted(1.0)
        alpha = self._largest(down_enough)
        while not long_enough(alpha) and len(tried) < MAX_TRIALS:
            # α/ρ does not go down enough: come back from it
            gap = alpha / self.rho - alpha
            while not down_enough(alpha + gap) and gap > EPS * alpha:
                gap *= self.rho1
            alpha += gap
        return accepted(alpha)

    def _largest(self, down_enough: Callable[[float], bool]) -> float:
        """The largest of ``β ρ^j``, j any whole number, that goes down enough."""
        alpha = self.beta
        for _ in range(MAX_TRIALS):
            if not down_enough(alpha):
                break
            alpha /= self.rho
        for _ in range(20 * MAX_TRIALS):
            if down_enough(alpha) or alpha == 0.0:
                break
            alpha *= self.rho
        return alpha
