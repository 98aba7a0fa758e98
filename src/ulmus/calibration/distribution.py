"""The distribution of new targets: the prediction, plus errors of rows left out in units of their size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ulmus import engine
from ulmus.calibration.atoms import Atoms, high_end, low_end
from ulmus.calibration.conformal import lower, upper
from ulmus.calibration.curves import Knots
from ulmus.calibration.nearness import Nearness, near_parts

#: Numbers that are held at a time.
BLOCK = 2**22


@dataclass(frozen=True, repr=False)
class PredictiveDistribution:
    r"""Of every new row: :math:`f(x) + \sigma(x) R`, with R the normalised errors of rows left out, by their weights.

    ``location`` and ``width`` are those of the rows, ``[row, output]``; ``scores`` and ``weight`` those of the rows
    left out, ``[row, output]``; those of a similar size count for more where ``near`` knows them. Under a quantile loss
    the line :math:`f + \sigma R` is a broken one, through ``knots``, and the prediction is its quantile ``middle``.
    ``atoms`` are targets that many rows have. Answers have the shape of predictions, ``single`` tells that there is one
    output.
    """

    location: np.ndarray
    width: np.ndarray
    scores: np.ndarray
    weight: np.ndarray
    single: bool = True
    knots: Knots | None = None
    near: Nearness | None = None
    atoms: Atoms | None = None
    middle: float | None = None

    def __repr__(self) -> str:
        outputs = "" if self.single else f", {self.location.shape[1]} outputs"
        return (
            f"<PredictiveDistribution of {len(self.location)} rows{outputs}, by the errors of {len(self.scores)} rows "
            "left out: cdf, ppf, mean, std, sample, crps>"
        )

    def _points(self, j: int, r: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Targets at scores ``r[row, place]``, or ``r[place]`` for all rows."""
        if self.knots is not None:
            return self.knots.targets(j, np.atleast_2d(r), rows)
        return np.asarray(self.location[rows, j, None] + self.width[rows, j, None] * r)

    def _places(self, j: int, y: np.ndarray) -> np.ndarray:
        """Scores of targets, one for each row."""
        if self.knots is not None:
            return self.knots.scores(j, y)
        return np.asarray((y - self.location[:, j]) / self.width[:, j])

    def _each(self) -> Iterator[tuple[int, Any, np.ndarray, np.ndarray]]:
        """Number, rows, ranked scores and their shares, of every output and all rows for which these are the same."""
        every = np.arange(len(self.location))
        for j, (r, w) in enumerate(zip(self.scores.T, self.weight.T, strict=True)):
            order = np.argsort(r, kind="stable")
            for rows, counted in near_parts(self.near, j, w):
                yield j, every[rows], r[order], counted[order] / counted.sum()

    def _over_points(self, value_of: Any) -> np.ndarray:
        """``value_of(points[row, place], shares, rows, j)`` of every row, some rows at a time."""
        out = np.empty(self.location.shape)
        for j, rows, ranked, p in self._each():
            for piece in engine.pieces(len(rows), max(1, BLOCK // len(ranked))):
                some = rows[piece]
                out[some, j] = value_of(self._points(j, ranked, some), p, some, j)
        return self._shaped(out.T)

    def _shaped(self, columns: Any) -> np.ndarray:
        columns = list(columns)
        return columns[0] if self.single else np.stack(columns, axis=1)

    def _targets(self, y: Any) -> np.ndarray:
        y = np.asarray(y, dtype=float)
        return np.broadcast_to(y if y.ndim == 2 else y.reshape(-1, 1), self.location.shape)

    def cdf(self, y: Any) -> np.ndarray:
        """Probability that the target is at most ``y``, a number or one for every row.

        Parameters
        ----------
        y : float or array of the shape of the predictions

        Returns
        -------
        ndarray of the shape of the predictions
        """
        out, T = np.empty(self.location.shape), self._targets(y)
        for j, (r, w) in enumerate(zip(self.scores.T, self.weight.T, strict=True)):
            for rows, counted in near_parts(self.near, j, w):
                out[rows, j] = self._mass(j, r, counted / counted.sum(), T[:, j])[rows]
        return self._shaped(out.T)

    def _mass(self, j: int, r: np.ndarray, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The share of scores up to targets of every row; rows at an atom lie neither below nor above it."""
        found = _up_to(r, p, self._places(j, y))
        if self.atoms is None:
            return found
        for a in self.atoms.values[j]:
            at = self._places(j, np.full(len(y), a))
            under = _up_to(r + self.atoms.rise[:, j], p, at, side="left")
            found = np.where(y < a, np.minimum(found, under), found)
        for a in self.atoms.values[j]:
            at = self._places(j, np.full(len(y), a))
            found = np.where(y >= a, np.maximum(found, _up_to(r - self.atoms.fall[:, j], p, at)), found)
        return found

    def ppf(self, q: Any) -> np.ndarray:
        """Quantiles; a list of k gives one more, last axis of k.

        They have the correction of conformal prediction, so that those of 0.05 and 0.95 are the ends of the interval of
        coverage 0.9, and they never cross.

        Parameters
        ----------
        q : float or list of float
            Between 0 and 1.

        Returns
        -------
        ndarray of the shape of the predictions, or with one more axis
        """
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles must lie between 0 and 1, got {q!r}")
        out, every = np.empty((*self.location.shape[::-1], len(levels))), np.arange(len(self.location))
        for j, (r, w) in enumerate(zip(self.scores.T, self.weight.T, strict=True)):
            for some, counted in near_parts(self.near, j, w):
                out[j, every[some]] = self._ends(j, r, counted, levels, every[some])
            if self.middle is not None:
                P = self.location[:, j, None]
                out[j] = np.where(levels < self.middle, np.minimum(out[j], P), out[j])
                out[j] = np.where(levels > self.middle, np.maximum(out[j], P), out[j])
        found = self._shaped(out)
        return found[..., 0] if np.ndim(q) == 0 else found

    def _ends(self, j: int, r: np.ndarray, weight: np.ndarray, levels: np.ndarray, rows: Any) -> np.ndarray:
        """Quantiles of rows, ``[row, level]``, by scores and weights of the rows left out."""
        over = levels > 0.5

        def points(down: Any, up: Any) -> np.ndarray:
            ends = np.where(over, upper(r + up, weight, levels)[0], lower(r - down, weight, levels)[0])
            return self._points(j, ends, rows)

        found = points(0.0, 0.0)
        if self.atoms is None:
            return found
        reach, values = points(self.atoms.fall[:, j], self.atoms.rise[:, j]), self.atoms.values[j]
        return np.where(over, high_end(values, found, reach), low_end(values, found, reach))

    def mean(self) -> np.ndarray:
        """Mean of every row."""
        return self._over_points(lambda points, p, rows, j: points @ p)

    def std(self) -> np.ndarray:
        """Standard deviation of every row: that of noise and prediction together, in units of the target."""
        return self._over_points(lambda points, p, rows, j: np.sqrt((points - (points @ p)[:, None]) ** 2 @ p))

    def sample(self, size: int = 1, random_state: Any = None) -> np.ndarray:
        """Targets drawn for every row.

        Parameters
        ----------
        size : int, default=1
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, size) or (n_samples, n_outputs, size)
        """
        rng = random_state if isinstance(random_state, np.random.RandomState) else np.random.RandomState(random_state)
        out = np.empty((*self.location.shape[::-1], size))
        for j, rows, ranked, p in self._each():
            out[j, rows] = self._points(j, ranked[rng.choice(len(p), (len(rows), size), p=p)], rows)
        return self._shaped(out)

    def crps(self, y: Any) -> np.ndarray:
        r"""Continuous ranked probability score of targets, :math:`E|Y - y| - E|Y - Y'|/2`: small is good.

        Parameters
        ----------
        y : array of the shape of the predictions

        Returns
        -------
        ndarray of the shape of the predictions
        """
        T = self._targets(y)

        def score(points: np.ndarray, p: np.ndarray, rows: Any, j: int) -> np.ndarray:
            away = np.abs(points - T[rows, j, None]) @ p
            # points ascend: Σ_kl p_k p_l |Y_k − Y_l| = 2 Σ_k p_k Y_k (mass below − mass above)
            below = np.cumsum(p) - p
            return np.asarray(away - points @ (p * (2.0 * below + p - 1.0)))

        return self._over_points(score)


def _up_to(
    scores: np.ndarray, p: np.ndarray, places: np.ndarray, side: Literal["left", "right"] = "right"
) -> np.ndarray:
    """The share of scores that are at most (``"left"``: less than) each place."""
    order = np.argsort(scores, kind="stable")
    return np.append(0.0, np.cumsum(p[order]))[np.searchsorted(scores[order], places, side=side)]
