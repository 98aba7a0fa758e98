"""Quantiles of scores of rows left out, with the correction for the new row that would be one more."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

#: Round-off in sums of weights.
SLACK = 1e-9


@dataclass(frozen=True)
class Tails:
    """How misses are shared out: ``"equal"``, ``"symmetric"`` about the prediction, or the share that lies below."""

    given: Any = "equal"

    def __post_init__(self) -> None:
        share = isinstance(self.given, Real) and not isinstance(self.given, bool) and 0 <= self.given <= 1  # type: ignore[operator]
        if not share and self.given not in ("equal", "symmetric"):
            raise ValueError(
                'tails must be "equal", "symmetric" or the share of misses that may lie below the interval (0 to 1; '
                f"0 gives upper bounds only), got {self.given!r}"
            )

    @property
    def symmetric(self) -> bool:
        """Whether both ends are as far from the prediction."""
        return isinstance(self.given, str) and self.given == "symmetric"

    def levels(self, coverage: np.ndarray) -> np.ndarray:
        """Levels of the lower and the upper end for every coverage, ``[coverage, end]``; 0 and 1 are no bound.

        Of symmetric intervals they are those of quantiles of ``−|score|`` and ``|score|``.
        """
        if self.symmetric:
            return np.column_stack([1.0 - coverage, coverage])
        below = 0.5 if isinstance(self.given, str) else float(self.given)
        return np.column_stack([below * (1.0 - coverage), 1.0 - (1.0 - below) * (1.0 - coverage)])


def coverages(coverage: Any) -> tuple[np.ndarray, bool]:
    """Coverages as an array, and whether there was but one."""
    one = isinstance(coverage, Real)
    values = np.atleast_1d(np.asarray([coverage] if one else coverage, dtype=object))
    given: list[Any] = values.tolist()
    good = values.ndim == 1 and len(values) and all(isinstance(c, Real) and 0 < float(c) < 1 for c in given)
    if not good:
        raise ValueError(
            f"coverage must lie between 0 and 1, got {coverage!r}; a list of such numbers asks for several intervals"
        )
    return values.astype(float), one


def lower(scores: np.ndarray, weight: np.ndarray, levels: np.ndarray, own: Any = 1.0) -> np.ndarray:
    """Conformal lower quantiles, ``[new row, level]``: mirror images of upper ones."""
    return -upper(-scores, weight, 1.0 - levels, own)


def upper(scores: np.ndarray, weight: np.ndarray, levels: np.ndarray, own: Any = 1.0) -> np.ndarray:
    """Conformal upper quantiles, ``[new row, level]``: the least score with mass ``level (Σw + own)`` up to it.

    ``own`` is the weight of the new row, or of every new row. Scores are ``[row]``, or ``[new row, row]`` where new
    rows have their own. Where the rows do not bear a level, the largest score is what there is; level 1 is infinite.
    """
    seen = weight > 0
    if not seen.any():
        raise ValueError("there is no row of positive weight to calibrate on")
    scores, weight = np.atleast_2d(scores)[:, seen], weight[seen]
    order = np.argsort(scores, axis=1, kind="stable")
    mass, ranked = np.cumsum(weight[order], axis=1), np.take_along_axis(scores, order, axis=1)
    asked = levels * (mass[0, -1] + np.reshape(own, (-1, 1))) - SLACK  # [new row, level]
    if len(ranked) == 1:
        out = ranked[0, np.minimum(np.searchsorted(mass[0], asked), ranked.shape[1] - 1)]
    else:
        place = (mass[:, :, None] < asked[:, None, :]).sum(axis=1)
        out = np.take_along_axis(ranked, np.minimum(place, ranked.shape[1] - 1), axis=1)
    return np.where(levels >= 1, np.inf, out)


def borne(total: float, levels: np.ndarray) -> bool:
    """Whether this many rows bear these levels, ``[coverage, end]``."""
    ends = np.stack([levels[:, 0], 1.0 - levels[:, 1]])
    return bool((ends[ends > 0] * (total + 1.0) >= 1.0 - SLACK).all())
