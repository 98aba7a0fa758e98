"""What an adaptive model has fitted in its view: a global model, a local stage, and answers of rows held out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_count
from ulmus.models._effort import Effort
from ulmus.models._local_stage import MIN_LANDMARKS
from ulmus.solvers.boosted import BoostedTrees
from ulmus.solvers.local import LocalKernels
from ulmus.tuning.views import View


@dataclass(frozen=True)
class Work:
    """What the stages of one fit work on: rows as the view shows them, how they are scored, and what may be spent.

    ``backend`` is where it is done.
    """

    rows: Rows
    view: View
    effort: Effort
    coding: Coding
    criterion: str
    max_bytes: float
    rng: np.random.RandomState
    backend: Any
    say: Callable[[str], None]
    enter: Callable[[str], None]

    @property
    def n_jobs(self) -> int | None:
        """Threads of what is done on the CPU."""
        return self.backend.n_jobs


@dataclass(frozen=True)
class Stages:
    """Landmarks, C, weights and constants of the global model, the local stage, and predictions of rows left out.

    These are None where rows are left out when somebody asks. ``local_losses`` are those of rows held out with a local
    stage, and without one, where one was scored; ``losses`` those by log loss and by squares, where both were tried.
    ``loss`` is what a classifier minimises. ``trees`` answer beside both stages, all in shares that add
    up to 1; ``tree_losses`` are those of rows held out with trees and without.
    """

    landmark_map: NystromMap
    C: float
    beta: np.ndarray
    intercept: np.ndarray
    local: LocalKernels | None
    held_out: Any
    leverage: Any = None
    local_losses: tuple[float, float] | None = None
    loss: str | None = None
    losses: dict[str, float] | None = None
    trees: BoostedTrees | None = None
    tree_losses: tuple[float, float] | None = None
    tree_weight: float = 0.0


def landmarks_of(rows: Rows, most: int) -> int:
    """Half of the distinct rows, within bounds."""
    return min(most, max(MIN_LANDMARKS, distinct_count(rows.X, 2 * most) // 2))
