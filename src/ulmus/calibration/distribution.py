"""The distribution of new targets: the prediction, plus errors of rows left out in units of their size."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.calibration.conformal import lower, upper


@dataclass(frozen=True)
class PredictiveDistribution:
    r"""Of every new row: :math:`f(x) + \sigma(x) R`, with R the normalised errors of rows left out, by their weights.

    ``location`` and ``width`` are those of the rows, ``[row, output]``; ``scores`` and ``weight`` those of the rows
    left out, ``[row, output]``. Answers have the shape of predictions, ``single`` tells that there is one output.
    """

    location: np.ndarray
    width: np.ndarray
    scores: np.ndarray
    weight: np.ndarray
    single: bool = True

    def _each(self) -> Any:
        return zip(self.location.T, self.width.T, self.scores.T, self.weight.T, strict=True)

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
        out = []
        for t, (f, s, r, w) in zip(self._targets(y).T, self._each(), strict=True):
            order = np.argsort(r)
            mass = np.append(0.0, np.cumsum(w[order]))
            out.append(mass[np.searchsorted(r[order], (t - f) / s, side="right")] / mass[-1])
        return self._shaped(out)

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
        out = []
        for f, s, r, w in self._each():
            ends = np.where(levels > 0.5, upper(r, w, levels)[0], lower(r, w, levels)[0])
            out.append(f[:, None] + s[:, None] * ends)
        found = self._shaped(out)
        return found[..., 0] if np.ndim(q) == 0 else found

    def mean(self) -> np.ndarray:
        """Mean of every row."""
        return self._shaped(f + s * np.average(r, weights=w) for f, s, r, w in self._each())

    def std(self) -> np.ndarray:
        """Standard deviation of every row: that of noise and prediction together, in units of the target."""
        return self._shaped(
            s * np.sqrt(np.average((r - np.average(r, weights=w)) ** 2, weights=w)) for f, s, r, w in self._each()
        )

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
        out = []
        for f, s, r, w in self._each():
            drawn = r[rng.choice(len(r), (len(f), size), p=w / w.sum())]
            out.append(f[:, None] + s[:, None] * drawn)
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
        out = []
        for t, (f, s, r, w) in zip(self._targets(y).T, self._each(), strict=True):
            order = np.argsort(r)
            ranked, p = r[order], w[order] / w.sum()
            mass, moment = np.append(0.0, np.cumsum(p)), np.append(0.0, np.cumsum(p * ranked))
            z = (t - f) / s
            k = np.searchsorted(ranked, z, side="right")
            away = z * (2.0 * mass[k] - 1.0) + moment[-1] - 2.0 * moment[k]
            among = 2.0 * np.dot(p, ranked * mass[:-1] - moment[:-1])
            out.append(s * (away - 0.5 * among))
        return self._shaped(out)
