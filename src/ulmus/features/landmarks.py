"""Which rows become landmarks: strategies as a table.

A strategy returns an **ordered** choice, so that the first l landmarks are a sensible choice of l.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.features.kernels import dense
from ulmus.features.sampling import distinct_rows

Strategy = Callable[[Any, int, np.ndarray | None, np.random.RandomState], np.ndarray]


def _uniform(X: Any, count: int, weight: np.ndarray | None, rng: np.random.RandomState) -> np.ndarray:
    """Distinct rows, drawn uniformly (a row drawn twice would make the landmark kernel singular)."""
    return dense(X[distinct_rows(X, count, weight, rng)[0]], np.float64)


def _all(X: Any, count: int, weight: np.ndarray | None, rng: np.random.RandomState) -> np.ndarray:
    """Every row, in order: the exact kernel, for small tables and for comparison."""
    rows = slice(None) if weight is None else np.flatnonzero(weight)
    return dense(X[rows], np.float64)


STRATEGIES: dict[str, Strategy] = {"uniform": _uniform, "all": _all}


def choose_landmarks(
    strategy: str | Any, X: Any, count: int, weight: np.ndarray | None, rng: np.random.RandomState
) -> np.ndarray:
    """Landmark rows by a named strategy, or the user's own rows."""
    if isinstance(strategy, str):
        return STRATEGIES[strategy](X, count, weight, rng)
    Z = dense(strategy, np.float64)
    if Z.ndim != 2 or Z.shape[1] != X.shape[1] or not len(Z):
        raise ValueError(f"landmarks must be rows with {X.shape[1]} features, got an array of shape {Z.shape}")
    if not np.isfinite(Z).all():
        raise ValueError("landmarks contain NaN or infinity")
    return Z
