"""Folds: in which of them each row is tested."""

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

#: Rows that score a local stage, at least.
FEWEST_HELD = 500


def renumbered(folds: np.ndarray | None) -> np.ndarray | None:
    """The folds of a sample of the rows, numbered without gaps; −1 stays."""
    if folds is None:
        return None
    present, number = np.unique(folds, return_inverse=True)
    number = number - int(present[0] < 0)
    if number.max() < 1:
        raise ValueError(
            f"a sample of {len(folds)} rows has rows of a single fold: one group has nearly all rows, so models cannot "
            "be scored on groups that they have not seen; leave groups out, or make them smaller"
        )
    return number


def grouped(groups: Any, n_folds: int | None, weight: np.ndarray | None = None) -> np.ndarray:
    """Folds of whole groups, as equal as may be: the heaviest first, each to the lightest fold so far.

    As ``GroupKFold`` deals them, but for ties; a weight of k counts as k rows. By default there are five folds, or one
    for each group.
    """
    groups = np.asarray(groups)
    w = np.ones(len(groups)) if weight is None else np.asarray(weight, dtype=np.float64)
    _, which = np.unique(groups, return_inverse=True)
    mass = np.bincount(which, weights=w)
    count = int((mass > 0).sum())
    if count < 2:
        raise ValueError("groups must name at least two groups, got one; leave groups out to do without")
    n_folds = min(5, count) if n_folds is None else n_folds
    if not 2 <= n_folds <= count:
        raise ValueError(f"cv={n_folds} folds cannot be made of {count} groups; use 2 to {count}")
    load, fold = np.zeros(n_folds), np.empty(len(mass), np.intp)
    for group in np.argsort(mass, kind="stable")[::-1]:
        fold[group] = np.argmin(load)
        load[fold[group]] += mass[group]
    return fold[which]


def fold_numbers(
    cv: Any, X: Any, y: np.ndarray, groups: Any, classifier: bool, weight: Any = None
) -> np.ndarray | None:
    """The number of the fold in which each row is tested; None asks for leave-one-out.

    Groups are kept together: with ``groups`` and no splitter they are dealt to five folds (:func:`grouped`).
    """
    if cv is None and groups is None:
        return None
    _check_groups(groups)
    if groups is not None and (cv is None or isinstance(cv, int)):
        check_consistent_length(X, y, groups)
        return grouped(groups, cv, weight)
    from sklearn.model_selection import check_cv

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
    if (number < 0).all():
        raise ValueError("cv gave no split; was it a generator that is used up? Pass a list of splits, or a splitter")
    return number


def _check_groups(groups: Any) -> None:
    """Refuse groups that are not there, or cannot be told apart."""
    names = np.asarray([] if groups is None else groups)
    if names.dtype != object:
        return
    listed = names.tolist()
    gone = [i for i, name in enumerate(listed) if name is None]
    if gone:
        raise ValueError(
            f"groups is missing (None) in {len(gone)} of {len(listed)} rows, first in row {gone[0]} (counted from 0); "
            "give every row a group, one of its own where it belongs to none"
        )
    try:
        np.unique(names)
    except TypeError:
        types = sorted({type(name).__name__ for name in listed})
        raise TypeError(f"groups must be of one type, got {' and '.join(types)}; pass them as strings") from None


def held_count(n_rows: int) -> int:
    """Rows that score a local stage: a tenth of all, at least 500; of more than 50,000, 5,000, or a twentieth.

    A stage is scored in few leaves, and these are a smaller share the more rows there are: a fixed number of rows would
    leave a handful to score by.
    """
    return int(np.clip(n_rows // 10, FEWEST_HELD, max(5_000, n_rows // 20)))
