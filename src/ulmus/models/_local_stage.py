"""Whether a local stage pays, and which: scored on rows, or folds, that the global model behind it has not seen."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.sampling import distinct_keys, merged
from ulmus.models._effort import Effort
from ulmus.tuning.folds import held_count
from ulmus.tuning.local import LocalChoice, LocalSearch, Remainder
from ulmus.tuning.views import View

#: Landmarks of the global model: half of the rows, but not less than this, nor more than the effort allows.
MIN_LANDMARKS = 150
#: Width and penalty are sought on leaves this many times smaller.
SMALLER = 3


def held_sets(rows: Rows, rng: np.random.RandomState) -> list[np.ndarray]:
    """Masks of the rows that score the local stage, with all their copies; none when there are too few rows.

    One set, or every fold where there are folds: that of a tenth of the rows, or nearest to it, comes first.
    """
    keys, distinct = distinct_keys(rows.X, int(rng.randint(2**31 - 1)))
    if len(distinct) <= 2 * MIN_LANDMARKS:
        return []
    count = min(held_count(len(distinct)), len(distinct) // 2)
    if rows.fold is None:
        return [keys <= distinct[count - 1]]
    folds = [rows.fold == k for k in np.unique(rows.fold[rows.fold >= 0])]
    return sorted(folds, key=lambda mask: abs(int(mask.sum()) - count))


def score_local(
    rows: Rows,
    held: list[np.ndarray],
    P: list[np.ndarray],
    view: View,
    effort: Effort,
    coding: Coding,
    criterion: str,
    rng: np.random.RandomState,
    backend: Any,
) -> tuple[LocalChoice, HeldOut]:
    """The best stage and its predictions of rows held out; ``P`` are those of global models that did not see each set.

    Width and penalty are chosen on the first set; whether they pay all sets say.
    """
    choices, parts = list[LocalChoice](), list[HeldOut]()
    for mask, predicted in zip(held, P, strict=True):
        test, some = rows.take(mask), merged(replace(rows, T=rows.T - predicted).take(~mask), rng)
        data = Remainder(some.X, some.T, some.weight, test.X, test.T, predicted[mask], test.weight)
        given = (view.kernel, view.gamma, data, coding, criterion, backend.n_jobs)
        search = LocalSearch(*given, trials=backend.leaf_trials)
        size = effort.leaf(len(some))
        if not choices:
            small, leaves = (backend.partition(some.X, rows_each, rng) for rows_each in (size // SMALLER, size))
            choice = search.choose(small, leaves, effort.scored_leaves)
        else:
            choice = search.scored(choices[0], backend.partition(some.X, size, rng), effort.scored_leaves)
        parts.append(HeldOut.by_others(test.take(choice.rows), choice.P, np.zeros(len(choice.rows))))
        choices.append(choice)
    masses = [float(part.weight.sum()) for part in parts]
    return choices[0].pooled(choices[1:], masses), HeldOut.joined(parts)
