"""How wide a kernel is to begin with."""

import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import KERNELS, KernelLike, dense, overflow, squared_norms, uses_gamma
from ulmus.features.sampling import distinct_rows


def heuristic_gamma(
    kernel: KernelLike,
    X: Any,
    weight: np.ndarray | None,
    rng: np.random.RandomState,
    max_rows: int = 500,
) -> float:
    """A scale-aware start: one over the median (squared) distance, or over the mean squared norm."""
    if not uses_gamma(kernel):
        return 1.0
    assert isinstance(kernel, str)
    rows, w = distinct_rows(X, max_rows, weight, rng)
    S = dense(X[rows], np.float64)
    embedding = KERNELS[kernel].embedding
    with np.errstate(over="ignore"):
        if embedding in ("inner", "arc"):
            spread = float(np.average(squared_norms(S), weights=w))
        else:
            distances = pdist(S, {"rbf": "sqeuclidean", "laplacian_l1": "cityblock"}.get(kernel, "euclidean"))
            pairs = None if (w == w[0]).all() else np.multiply(*w[np.array(np.triu_indices(len(w), 1))])
            spread = _weighted_median(distances, pairs)
    if not np.isfinite(spread):
        raise ValueError(overflow(S))
    if spread > 1 / np.finfo(float).max:
        return 1.0 / spread
    if np.ptp(S, axis=0).any():
        warnings.warn(
            f"the rows differ by at most {np.ptp(S, axis=0).max():.3g}, too little for the kernel {kernel!r}, which "
            "sees them as one; standardise the features (sklearn.preprocessing.StandardScaler)",
            NumericalWarning,
            stacklevel=2,
        )
    return 1.0


def _weighted_median(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Median of the positive values; 0 when there is none."""
    keep = values > 0
    v = values[keep]
    if not len(v):
        return 0.0
    if weight is None:
        middle = (len(v) - 1) // 2
        return float(np.partition(v, middle)[middle])
    order = np.argsort(v)
    mass = np.cumsum(weight[keep][order])
    return float(v[order][np.searchsorted(mass, mass[-1] / 2)])
