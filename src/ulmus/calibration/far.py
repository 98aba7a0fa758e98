"""Rows that are unlike those of the training: predictions there have a larger variance than those of rows left out."""

import numpy as np

from ulmus.calibration.conformal import upper


def far(variance: np.ndarray, held: np.ndarray, weight: np.ndarray, rate: float) -> np.ndarray:
    """Whether the variance ``h + C r`` of new rows exceeds those of rows left out.

    It does so for a share ``rate`` of rows that come from where these came from, at most (but for round-off).
    """
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie between 0 and 1, got {rate!r}")
    limit = upper(_one(held), weight, np.array([1.0 - rate]))[0, 0]
    return _one(variance) > limit * (1.0 + 1e-9) + 1e-12


def _one(variance: np.ndarray) -> np.ndarray:
    """Of several outputs the mean."""
    return variance if variance.ndim == 1 else variance.mean(axis=1)
