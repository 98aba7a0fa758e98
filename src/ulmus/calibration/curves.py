r"""Quantiles as functions of rows, made valid by rows left out.

Fitted levels :math:`q_1 < \dots < q_K` give every row the knots :math:`f_{q_k}(x)`; the broken line through the points
:math:`(z_k, f_{q_k}(x))`, with :math:`z_k = \Phi^{-1}(q_k)`, is straight for Gaussian noise and goes on straight beyond
its ends. The place of a target on the line of its row is its **score**; where the fitted quantiles are right, scores
are Gaussian. They need not be: the quantile q of a new row is the point of its line at the conformal quantile q of the
scores of rows left out (distributional conformal prediction; Chernozhukov, Wüthrich, Zhu 2021). So every level is
covered as promised, fitted or not, and quantiles never cross: knots are sorted on either side of the middle one, which
is the prediction, and kept apart.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ulmus import engine
from ulmus.solvers.robust import weighted_median

#: Knots stay so far apart, in units of the middle distance of those of rows left out.
APART = 0.02


@dataclass(frozen=True)
class Curves:
    """Fitted quantiles: levels, weights on features and constants; and those of rows left out.

    ``beta`` is ``[feature, output · level]`` on the first features of the model, ``left_out`` ``[row, output, level]``
    and C that of every level. ``relative`` curves are of errors about the prediction, that of the middle level.
    """

    levels: np.ndarray
    beta: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray
    C: np.ndarray
    relative: bool = False

    @property
    def middle(self) -> int:
        """The place of the level that is nearest to the median."""
        return int(np.argmin(np.abs(self.levels - 0.5)))

    def __call__(self, X: Any, P: np.ndarray, features: Any) -> np.ndarray:
        """Curves at rows, with predictions P, ``[row, output, level]``."""
        first = features if len(self.beta) == features.n_features_out else features.prefix(len(self.beta))
        out = engine.apply(first, X, self.beta) + self.intercept
        at = out.reshape(len(out), -1, len(self.levels))
        return P[:, :, None] + at - at[:, :, [self.middle]] if self.relative else at

    def around(self, ends: np.ndarray, P: np.ndarray, levels: np.ndarray, symmetric: bool) -> np.ndarray:
        """Intervals ``[…, coverage, end]`` with the predictions inside, where the middle level lies between theirs.

        The median of scores is a little off that level, by chance. ``levels[coverage, end]``.
        """
        middle = self.levels[self.middle]
        within = symmetric | ((levels[:, 0] < middle) & (middle < levels[:, 1]))
        low, high = np.minimum(ends[..., 0], P), np.maximum(ends[..., 1], P)
        return np.where(within[:, None], np.stack([low, high], axis=-1), ends)

    def knots(self, at: np.ndarray, weight: np.ndarray) -> "Knots":
        """Lines through curves at new rows; rows left out have this weight."""
        gaps = np.diff(np.sort(self.left_out, axis=2), axis=2)
        middle = [[weighted_median(gap, weight) for gap in output.T] for output in gaps.swapaxes(0, 1)]
        k = self.middle
        pinned = at[:, :, [k]]  # the prediction stays where it is, and curves that cross it do not
        at = np.concatenate([np.minimum(at[:, :, :k], pinned), pinned, np.maximum(at[:, :, k + 1 :], pinned)], axis=2)
        return Knots.of(self.levels, at, APART * np.reshape(middle, gaps.shape[1:]), k)


@dataclass(frozen=True)
class Knots:
    """A rising broken line for every row and output: ``at[row, output, level]`` over ``z[level]``."""

    z: np.ndarray
    at: np.ndarray

    @classmethod
    def of(cls, levels: np.ndarray, at: np.ndarray, apart: np.ndarray, middle: int) -> "Knots":
        """Sorted, and at least as far ``apart`` (``[output, gap]``) as is said, about that of the middle level."""
        at = np.sort(at, axis=2)
        if len(levels) > 1:
            tiny = 4 * np.finfo(float).eps * np.abs(at).max(axis=2, keepdims=True) + np.finfo(float).tiny
            steps = np.maximum(np.diff(at, axis=2), np.maximum(apart, tiny))
            from_first = np.concatenate([np.zeros((*at.shape[:2], 1)), np.cumsum(steps, axis=2)], axis=2)
            at = at[:, :, [middle]] + from_first - from_first[:, :, [middle]]
        return cls(ndtri(levels), at)

    def targets(self, j: int, r: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """The points of the lines of output j at scores ``r[row, place]`` (one row serves all)."""
        at = self.at[rows, j]
        r = np.broadcast_to(r, (len(at), np.shape(r)[-1]))
        if len(self.z) == 1:
            return np.asarray(at + r)
        k = np.clip(np.searchsorted(self.z, r) - 1, 0, len(self.z) - 2)
        low, slope = np.take_along_axis(at, k, axis=1), np.take_along_axis(self._slopes(at), k, axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(low + slope * (r - self.z[k]))

    def scores(self, j: int, y: np.ndarray) -> np.ndarray:
        """The places of targets, one for each row, on the lines of output j."""
        at = self.at[:, j]
        if len(self.z) == 1:
            return np.asarray(y - at[:, 0])
        k = np.clip((at < y[:, None]).sum(axis=1) - 1, 0, len(self.z) - 2)[:, None]
        low, slope = np.take_along_axis(at, k, axis=1)[:, 0], np.take_along_axis(self._slopes(at), k, axis=1)[:, 0]
        return np.asarray(self.z[k[:, 0]] + (y - low) / slope)

    def _slopes(self, at: np.ndarray) -> np.ndarray:
        return np.diff(at, axis=1) / np.diff(self.z)
