"""Kernel values of rows with the landmarks, kept: several passes over the same rows then evaluate them once."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus.engine import Precomputed, Rows
from ulmus.features.nystrom import NystromMap

#: Bytes of kernel values that are kept.
KEPT_BYTES = 2**28


@dataclass
class KeptMap:
    """A fitted map, for rows that are given by their kernel values with its landmarks."""

    landmark_map: NystromMap

    def __post_init__(self) -> None:
        self.cross_kernel_ = Precomputed(self.landmark_map.n_features_out)
        self.whitening_, self.condition_ = self.landmark_map.whitening_, self.landmark_map.condition_

    triangular = True

    @property
    def n_features_out(self) -> int:
        return self.landmark_map.n_features_out

    def transform_block(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write the features of the rows into ``out``."""
        out[:] = X
        solve_lower_transposed(self.whitening_, out)

    def weight_to_landmarks(self, beta: np.ndarray) -> np.ndarray:
        """Weights of the landmarks that give the same predictions."""
        return self.landmark_map.weight_to_landmarks(beta)


def keep(features: NystromMap, rows: Rows, n_jobs: int | None = -1) -> tuple[Any, Rows]:
    """The map and the rows for several passes: with kernel values evaluated once, where they fit in memory."""
    n, L = len(rows), features.n_features_out
    if 8 * n * L > KEPT_BYTES or not features.triangular:
        return features, rows
    K = engine.transform(features.cross_kernel_, rows.X, n_jobs=n_jobs)
    return KeptMap(features), replace(rows, X=K)
