"""Which of several views a log model likes best: small log models on rows held out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.metric import through
from ulmus.features.nystrom import NystromMap
from ulmus.tuning.log_held import log_held_sets, path_near, posed

#: Sets of rows that score views by log loss, at most, steps of their path of C, what may be left of objectives, and the
#: share by which the log loss of a rougher view than that of squares must be lower.
LOG_SETS, LOG_STEP, LOG_TOLERANCE, LOG_CLEAR = 2, 16.0, 1e-2, 0.05


class ViewLike(Protocol):
    """How a kernel looks at rows."""

    @property
    def metric(self) -> np.ndarray: ...

    @property
    def kernel(self) -> str: ...

    @property
    def gamma(self) -> float: ...


def lowest_by_log(
    rows: Rows,
    views: Sequence[tuple[ViewLike, float]],
    landmarks: int,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> int:
    """Which view, each beside a good C of squares, has the lowest log loss of rows held out: the last, unless clearly
    worse.
    """
    held = log_held_sets(rows, rng)[:LOG_SETS]

    def loss(each: tuple[ViewLike, float]) -> float:
        view, C = each
        seen = replace(rows, X=through(rows.X, view.metric))
        first = seen.X[:landmarks]
        features = NystromMap(len(first), landmarks=first, kernel=view.kernel, gamma=view.gamma, n_jobs=1)
        problem = posed(features.fit(seen.X, sample_weight=seen.weight), seen, np.inf, 1)
        trials = path_near(problem, C, held, "log_loss", step=LOG_STEP, behind=1, most=3, tol=LOG_TOLERANCE)
        return min(trial.loss for trial in trials)

    found = list(engine.ordered_map(loss, views, n_jobs))
    return int(np.argmin([*found[:-1], (1 - LOG_CLEAR) * found[-1]]))
