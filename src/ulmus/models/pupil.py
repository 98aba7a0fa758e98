"""What a smooth model is taught by a rougher one: its answers at the training rows, and at mixtures of these.

Leaves, and kernels with kinks, cannot be kept from falling between the points at which they are asked. A smooth model
can, and it need not learn from targets with noise what another has learned already.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.widths import heuristic_gamma
from ulmus.models._stages import Stages
from ulmus.models.adaptive_fit import TableColumns, ViewChoice
from ulmus.models.monotone import MonotoneFit, column_signs
from ulmus.solvers.ridge import Solution
from ulmus.tuning.metric import quietly

#: The kernel of monotone models: what has kinks falls between them.
SMOOTH = "rbf"

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


def monotone_stages(
    model: Any,
    stages: Stages,
    chosen: ViewChoice,
    rows: Rows,
    table: np.ndarray,
    columns: TableColumns,
    rng: np.random.RandomState,
) -> tuple[ViewChoice, Stages, float]:
    """A global model with a smooth kernel that says what both stages say, without falls along some columns.

    With it come the view that it is in, and how far it falls all the same.
    """
    signs = column_signs(model, columns)
    if signs is None:
        return chosen, stages, 0.0
    if rows.T.shape[1] > 1:
        raise ValueError("monotonic_cst does not go with several outputs: it needs one")
    seed, n_jobs, see = int(rng.randint(2**31 - 1)), model.n_jobs, chosen.view.transform
    host, fit_intercept = Host(n_jobs), model._intercept
    table, rows = lessons(stages, table, rows, see, rng, n_jobs)
    size = min(max(stages.landmark_map.n_features_out, model._spent.landmarks), len(rows))

    def make(gamma: float) -> NystromMap:
        made = NystromMap(size, kernel=SMOOTH, gamma=gamma, random_state=seed, n_jobs=n_jobs)
        return made.fit(rows.X, sample_weight=rows.weight)

    def solve(features: Any, C: float) -> Solution:
        return host.fit_ridge(features, rows, C, fit_intercept, None)

    with quietly():
        gamma = heuristic_gamma(SMOOTH, rows.X, rows.weight, rng)
        fit = MonotoneFit(make, solve, rows, table, see, signs, seed, n_jobs)
        found = fit.choose(2.0 * gamma, 1.0, open_width=True, open_C=True)
    model._say(f"monotone: {SMOOTH} kernel, C = {found.C:.3g}, {found.n_binding} steps bind")
    chosen, s = replace(chosen, view=replace(chosen.view, kernel=SMOOTH, gamma=found.width)), found.solution
    return chosen, Stages(found.features, found.C, s.beta, s.intercept, None, stages.held_out, s.leverage), found.fall
