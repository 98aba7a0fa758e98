"""Folds: in which of them each row is tested, and the sums of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from ulmus.engine import Rows
from ulmus.statistics import Statistics, Summary


def summarise(
    statistics: Callable[[Rows], Statistics], rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None
) -> Summary:
    """Statistics of the rows and of each fold; rows of fold −1 are in the total only."""
    if folds is None:
        return Summary(statistics(rows))
    n_folds = int(folds.max()) + 1 if n_folds is None else n_folds
    parts = tuple(statistics(rows.take(np.flatnonzero(folds == k))) for k in range(n_folds))
    never_tested = np.flatnonzero(folds < 0)
    total = sum(parts[1:], parts[0])
    if len(never_tested):
        total = total + statistics(rows.take(never_tested))
    return Summary(total, parts)


def fold_numbers(cv: Any, X: Any, y: np.ndarray, groups: Any, classifier: bool) -> np.ndarray | None:
    """The number of the fold in which each row is tested; None asks for leave-one-out.

    Groups are kept together: with ``groups`` and no splitter, ``GroupKFold`` with five folds (or one for each group)
    is used.
    """
    if cv is None and groups is None:
        return None
    if groups is not None and (cv is None or isinstance(cv, int)):
        count = len(np.unique(np.asarray(groups)))
        if count < 2:
            raise ValueError("groups names one group only; rows of at least two are needed, or no groups at all")
        cv = GroupKFold(min(5, count) if cv is None else cv)
    number = np.full(X.shape[0], -1)
    for k, (train, test) in enumerate(check_cv(cv, y, classifier=classifier).split(X, y, groups)):
        if (number[test] >= 0).any():
            raise ValueError("cv must test every row at most once; a repeated split was given")
        if len(train) + len(test) != len(number):
            raise ValueError(
                f"cv must train on every row that it does not test; split {k} trains on {len(train)} and tests on "
                f"{len(test)} of {len(number)} rows"
            )
        number[test] = k
    return number
