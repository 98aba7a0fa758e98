r"""The nearest row whose answer is on the other side of a threshold, by analytic gradients.

With :math:`m(x) \ge 0` on the side that is wanted, the row is moved to

.. math:: x' = x + D^2 g\,\frac{g^T(x' - x) - m(x')}{g^T D^2 g}, \qquad g = \nabla m(x'),

the nearest point of the tangent at the last one (Hasofer and Lind 1974; Rackwitz and Fiessler 1978), with the
deviations D of the inputs as units, within the range of the data. Categories, dates and whatever else is no number come
from rows of the data that are on that side already; each is set back to what it was as long as the answer stays there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Rows of the data from which a search starts, and steps of it.
STARTS, STEPS = 8, 60
#: Points that are tried at once on the way back, and how often what lies between two of them is looked at closer.
POINTS, CLOSER = 128, 4
#: How much farther away than the nearest point one may be that changes fewer numbers.
FARTHER = 1.05
#: The least share of the distance that a step has to gain.
NEARER = 1e-6

#: Numbers and takes (of other columns: from which row, 0 the own, 1 the other) of rows → margins.
Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: The same for one row → slopes of the margin along the numbers.
Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Nearest:
    """The search for one row: its numbers, their range and units, and which of them are whole."""

    own: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unit: np.ndarray
    whole: np.ndarray

    def distance(self, numbers: np.ndarray, takes: np.ndarray) -> float:
        """Deviations of the numbers, as a sum of squares, and one for every other column that changes."""
        return float((((numbers - self.own) / self.unit) ** 2).sum() + takes.sum())

    def search(
        self, other: np.ndarray, takes: np.ndarray, margin: Margin, slope: Slope
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """From a row on the wanted side to the nearest one that is found; None if it is not on that side."""
        numbers = np.clip(other, self.low, self.high)

        def which(tried: np.ndarray, takes: np.ndarray) -> np.ndarray:
            return np.asarray(margin(tried, takes[None]) >= 0)

        def there(numbers: np.ndarray, takes: np.ndarray) -> bool:
            return bool(which(numbers[None], takes)[0])

        if not there(numbers, takes):
            return None
        for k in np.flatnonzero(takes):
            back = takes.copy()
            back[k] = 0
            takes = back if there(numbers, back) else takes
        numbers = self._nearer(numbers, takes, which)
        best = numbers
        for _ in range(STEPS):
            g, off = slope(numbers, takes), float(margin(numbers[None], takes[None])[0])
            steep = float(g @ (self.unit**2 * g))
            if not steep > 0:
                break
            step = self.own + self.unit**2 * g * (float(g @ (numbers - self.own)) - off) / steep
            moved = np.clip(step, self.low, self.high)
            ways = numbers + np.array([1.0, 0.5, 0.25, 0.1])[:, None] * (moved - numbers)
            enough = (1.0 - NEARER) * self.distance(best, takes)
            for way in ways[which(ways, takes)]:
                tried = self._nearer(way, takes, which)
                if self.distance(tried, takes) < enough:
                    break
            else:
                break
            best = numbers = tried
        best = self._sparser(self._nearer(self._fewer(best, takes, which), takes, which), takes, which)
        return self._rounded(best, other, takes, which), takes

    def _nearer(self, numbers: np.ndarray, takes: np.ndarray, which: Callable[..., np.ndarray]) -> np.ndarray:
        """The first point on the wanted side, of those tried, on the straight way from the row to such a point."""
        low, high = 0.0, 1.0
        for _ in range(1 + CLOSER):
            share = np.linspace(low, high, POINTS + 1)
            wanted = which(self.own + share[:-1, None] * (numbers - self.own), takes)
            first = int(np.argmax(np.append(wanted, True)))
            if first == 0:
                return self.own + low * (numbers - self.own)
            low, high = share[first - 1], share[first]
        return self.own + high * (numbers - self.own)

    def _fewer(self, numbers: np.ndarray, takes: np.ndarray, which: Callable[..., np.ndarray]) -> np.ndarray:
        """Numbers that need not change are as they were, the least changed first."""
        away = np.abs(numbers - self.own) / np.maximum(self.unit, 1e-300)
        changed = np.flatnonzero(away)
        if not len(changed):
            return numbers
        alone = np.repeat(numbers[None], len(changed), axis=0)
        alone[np.arange(len(changed)), changed] = self.own[changed]
        needless = changed[which(alone, takes)]  # by itself; then as long as it goes
        for k in needless[np.argsort(away[needless], kind="stable")]:
            back = numbers.copy()
            back[k] = self.own[k]
            numbers = back if which(back[None], takes)[0] else numbers
        return numbers

    def _sparser(self, numbers: np.ndarray, takes: np.ndarray, which: Callable[..., np.ndarray]) -> np.ndarray:
        """Numbers that hardly change are as they were, where the others reach the point by going a little farther."""
        none = np.zeros(0)
        most = FARTHER * self.distance(numbers, none) ** 0.5
        away = np.abs(numbers - self.own) / np.maximum(self.unit, 1e-300)
        for k in np.argsort(away, kind="stable")[:-1]:
            back = numbers.copy()
            back[k] = self.own[k]
            reach = self.distance(back, none) ** 0.5
            if back[k] == numbers[k] or not 0 < reach <= most:
                continue
            ways = np.clip(
                self.own + np.linspace(1.0, most / reach, POINTS)[:, None] * (back - self.own), self.low, self.high
            )
            wanted = which(ways, takes)
            if wanted.any():
                numbers = ways[int(np.argmax(wanted))]
        return numbers

    def _rounded(
        self, numbers: np.ndarray, other: np.ndarray, takes: np.ndarray, which: Callable[..., np.ndarray]
    ) -> np.ndarray:
        """Whole numbers, rounded away from what they were: at the point, or as little beyond it as it takes.

        Where none of these is on the wanted side, whole numbers are those of the row from which the search started,
        each moved back as far as the answer allows.
        """
        if not self.whole.any():
            return numbers
        ways = self._away(self.own + np.linspace(1.0, 2.0, POINTS)[:, None] * (numbers - self.own))
        wanted = which(ways, takes)
        if wanted.any():
            return self._fewer(ways[int(np.argmax(wanted))], takes, which)
        real = np.clip(np.where(self.whole, other, numbers), self.low, self.high)
        real = real if which(real[None], takes)[0] else np.clip(other, self.low, self.high)
        real = self._fewer(real, takes, which)
        for k in np.argsort(-np.abs(real - self.own) / self.unit, kind="stable"):
            if real[k] != self.own[k]:
                ways = np.repeat(real[None], POINTS + 1, axis=0)
                ways[:, k] = np.linspace(self.own[k], real[k], POINTS + 1)
                ways = self._away(ways)
                real = ways[int(np.argmax(which(ways, takes)))]
        return real

    def _away(self, numbers: np.ndarray) -> np.ndarray:
        """Whole numbers that change, rounded away from what they were; all within their range."""
        away = np.where(numbers > self.own, np.ceil(numbers), np.floor(numbers))
        return np.clip(np.where(self.whole & (numbers != self.own), away, numbers), self.low, self.high)
