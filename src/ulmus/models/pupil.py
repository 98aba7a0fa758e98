"""What a smooth model is taught by a rougher one: its answers at the training rows, and at mixtures of these.

Leaves, and kernels with kinks, cannot be kept from falling between the points at which they are asked. A smooth model
can, and it need not learn from targets with noise what another has learned already.
"""

from collections.abc import Callable

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.models._stages import Stages

#: Rows that are learned from, mixtures among them, unless there are more rows; mixtures for each row, at most.
ROWS, MIXTURES = 6_000, 3
#: The share of columns that a mixture has from other rows.
SHARE = 0.3


def lessons(
    stages: Stages,
    table: np.ndarray,
    rows: Rows,
    see: Callable[[np.ndarray], np.ndarray],
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[np.ndarray, Rows]:
    """Rows of the table, and mixtures of them, with their coordinates and what both stages say of each."""
    count = int(np.clip(ROWS // len(table) - 1, 0, MIXTURES))
    every = np.concatenate([table, *(mixture(table, rng) for _ in range(count))])
    weight = None if rows.weight is None else np.tile(rows.weight, count + 1)
    U = see(every)
    return every, Rows(U, answers(stages, U, n_jobs), weight)


def mixture(table: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The rows, each with some columns of other rows."""
    donors = rng.randint(len(table), size=table.shape)
    taken = rng.uniform(size=table.shape) < SHARE
    return np.where(taken, np.take_along_axis(table, donors, axis=0), table)


def answers(stages: Stages, U: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """What both stages say of coordinates."""
    features = stages.landmark_map
    out = engine.apply(features.cross_kernel_, U, features.weight_to_landmarks(stages.beta), n_jobs=n_jobs)
    out += stages.intercept
    return out if stages.local is None else out + stages.local.predict(U, n_jobs)
