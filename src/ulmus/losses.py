r"""Robust losses as a table: value, derivatives and the facts that a solver asks for.

Every loss is :math:`f(x) = c\,F(x/c)` with a transition :math:`c > 0`: below it small errors count almost like squares
(or hardly at all), above it errors count by their size. So :math:`f' = F'(x/c)` and :math:`f'' = F''(x/c)/c`, and a row
can pull with a force of 1 at most. In the letters of the literature :math:`c = 1/h` or :math:`c = \sqrt\tau`.

==============  ============================================  ==========================  ======================
name            :math:`F(t)`, where :math:`t = |x|/c < 1`     :math:`F'(t)/t`             :math:`F''(t)`
==============  ============================================  ==========================  ======================
``polynomial``  :math:`t^3 - t^4/2 + 1/2`                     :math:`3t - 2t^2`           :math:`6t(1-t)`
``cubic``       :math:`t^2 - t^3/3 + 1/3`                     :math:`2 - t`               :math:`2(1-t)`
``quartic``     :math:`(3 + 6t^2 - t^4)/8`                    :math:`(3-t^2)/2`           :math:`3(1-t^2)/2`
``huber``       :math:`(t^2 + 1)/2`                           :math:`1`                   :math:`1`
``sqrt``        :math:`\sqrt{1+t^2}` for every t              :math:`(1+t^2)^{-1/2}`      :math:`(1+t^2)^{-3/2}`
``logcosh``     :math:`\log\cosh t` for every t               :math:`\tanh(t)/t`          :math:`1-\tanh^2 t`
``squared``     :math:`t^2/2` for every t, c = 1              :math:`1`                   :math:`1`
==============  ============================================  ==========================  ======================

The first four are :math:`|x|` for :math:`|x| \ge c`. ``polynomial`` is flat at 0, a soft tube in which errors hardly
count.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

#: A function of t = |x|/c.
Shape = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Loss:
    """A loss ``f(x) = c F(x/c)``.

    Facts: ``parameter`` is the name of its scale (None: it has none); ``reweightable`` whether ``f'(x)/x`` never rises
    with ``|x|``, so that reweighted least squares lowers the objective; ``twice`` whether ``f''`` is continuous;
    ``linear_beyond`` the t from which ``f'' = 0``; ``steepest``, ``sharpest`` and ``heaviest`` the largest ``F'``,
    ``F''`` and ``F'(t)/t``; ``efficient`` the c, in deviations of Gaussian errors, at which estimates are 95 % as
    precise as those of least squares.
    """

    name: str
    parameter: str | None
    shape: Shape
    ratio: Shape
    bend: Shape
    reweightable: bool = True
    twice: bool = True
    linear_beyond: float = np.inf
    steepest: float = 1.0
    sharpest: float = 1.0
    heaviest: float = 1.0
    efficient: float = 1.0

    def value(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """``f(x)``."""
        return c * self.shape(np.abs(x) / c)

    def slope(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """``f'(x)``."""
        t = np.asarray(x) / c
        return t * self.ratio(np.abs(t))

    def curvature(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """``f''(x)``."""
        return self.bend(np.abs(x) / c) / c

    def weight(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """``f'(x)/x``: how much a row with this error counts in reweighted least squares."""
        return self.ratio(np.abs(x) / c) / c

    def bound(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """The largest ``f''``, for every x."""
        return np.broadcast_to(self.sharpest / c, np.shape(x)).copy()

    def relative_weight(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """``f'(x)/x`` over its largest value: between 0 and 1."""
        return self.ratio(np.abs(x) / c) / self.heaviest

    def transition(self, value: float) -> float:
        """The transition c of a value of the parameter: ``1/h`` or ``√τ``."""
        return TRANSITIONS[self.parameter][0](value)

    def parameter_at(self, c: float) -> float:
        """The value of the parameter whose transition is c."""
        with np.errstate(over="ignore", under="ignore"):  # τ = c² beyond what float64 holds
            return TRANSITIONS[self.parameter][1](c)


@dataclass(frozen=True)
class Pinball(Loss):
    r"""The loss whose minimum is the quantile ``level``, with its corner rounded off.

    With :math:`e = f - t` the pinball loss is :math:`\rho_q(t - f) = \frac12|e| + (\frac12 - q)\,e`: half of an
    absolute error, tilted. Here :math:`|e|` is one of the losses of the table, which is :math:`|e|` beyond its c.
    """

    level: float = 0.5

    @property
    def _tilt(self) -> float:
        return 0.5 - self.level

    def value(self, x: Any, c: Any = 1.0) -> np.ndarray:
        return 0.5 * super().value(x, c) + self._tilt * np.asarray(x)

    def slope(self, x: Any, c: Any = 1.0) -> np.ndarray:
        return 0.5 * super().slope(x, c) + self._tilt

    def curvature(self, x: Any, c: Any = 1.0) -> np.ndarray:
        return 0.5 * super().curvature(x, c)

    def weight(self, x: Any, c: Any = 1.0) -> np.ndarray:
        """How much a row counts in reweighted least squares: the tilt is a constant force, and no weight."""
        return 0.5 * super().weight(x, c)

    def bound(self, x: Any, c: Any = 1.0) -> np.ndarray:
        return 0.5 * super().bound(x, c)


#: Parameter → (its value → c, c → its value).
TRANSITIONS: dict[str | None, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "h": (lambda h: 1.0 / h, lambda c: 1.0 / c),
    "tau": (lambda tau: float(np.sqrt(tau)), lambda c: c**2),
    None: (lambda _: 1.0, lambda _: 1.0),
}


def _joined(inside: Shape, outside: Shape) -> Shape:
    """``inside(t)`` for t < 1 and ``outside(t)`` beyond."""

    def both(t: np.ndarray) -> np.ndarray:
        return np.where(t < 1, inside(np.minimum(t, 1.0)), outside(np.maximum(t, 1.0)))

    return both


def _piecewise(name: str, shape: Shape, ratio: Shape, bend: Shape, **facts: Any) -> Loss:
    """A loss that is |x| beyond its transition."""
    parts = (
        _joined(shape, lambda t: t),
        _joined(ratio, lambda t: 1.0 / t),
        _joined(bend, np.zeros_like),
    )
    return Loss(name, "h", *parts, linear_beyond=1.0, **facts)


def _tanh_ratio(t: np.ndarray) -> np.ndarray:
    safe = np.maximum(t, 1e-8)
    return np.where(t < 1e-8, 1.0, np.tanh(safe) / safe)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        _piecewise(
            "polynomial",
            lambda t: t**3 - t**4 / 2 + 0.5,
            lambda t: 3 * t - 2 * t**2,
            lambda t: 6 * t * (1 - t),
            reweightable=False,
            sharpest=1.5,
            heaviest=1.125,
            efficient=1.4999,
        ),
        _piecewise(
            "cubic",
            lambda t: t**2 - t**3 / 3 + 1 / 3,
            lambda t: 2 - t,
            lambda t: 2 * (1 - t),
            sharpest=2.0,
            heaviest=2.0,
            efficient=2.1506,
        ),
        _piecewise(
            "quartic",
            lambda t: (3 + 6 * t**2 - t**4) / 8,
            lambda t: (3 - t**2) / 2,
            lambda t: 1.5 * (1 - t**2),
            sharpest=1.5,
            heaviest=1.5,
            efficient=1.8311,
        ),
        _piecewise("huber", lambda t: (t**2 + 1) / 2, np.ones_like, np.ones_like, twice=False, efficient=1.3450),
        Loss(
            "sqrt",
            "tau",
            lambda t: np.hypot(1.0, t),
            lambda t: 1 / np.hypot(1.0, t),
            lambda t: np.hypot(1.0, t) ** -3,
            efficient=1.2871,
        ),
        Loss(
            "logcosh",
            "h",
            lambda t: t + np.log1p(np.exp(-2 * t)) - np.log(2),
            _tanh_ratio,
            lambda t: 1 - np.tanh(t) ** 2,
            efficient=1.2047,
        ),
        Loss("squared", None, lambda t: t**2 / 2, np.ones_like, np.ones_like, steepest=np.inf),
    )
}


def pinball(level: float) -> Pinball:
    """The smoothed pinball loss of a level: half of ``quartic``, tilted."""
    base = LOSSES["quartic"]
    facts = {each.name: getattr(base, each.name) for each in fields(base)}
    return Pinball(**(facts | {"name": "quantile"}), level=level)


def check_levels(quantiles: Any) -> np.ndarray:
    """Levels of quantiles in ascending order; what is no level is refused."""
    levels = np.unique(np.asarray(quantiles, dtype=float))
    if np.ndim(quantiles) != 1 or not len(levels) or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"quantiles must be numbers between 0 and 1, such as (0.05, 0.5, 0.95), got {quantiles!r}")
    return levels
