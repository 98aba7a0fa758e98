"""Parts of the rows: those whose target means others make, and those on either side of a comparison."""

import numpy as np

from ulmus.engine import Rows
from ulmus.features.preparation import PARTS
from ulmus.features.sampling import row_keys

#: Copies that a row stands for, on the average, when target means need not be kept from its own.
MANY = 10


def parts_of(rows: Rows, rng: np.random.RandomState) -> np.ndarray:
    """The part of every row, drawn anew."""
    return value_parts(rows, int(rng.randint(2**31 - 1)))


def value_parts(rows: Rows, seed: int) -> np.ndarray:
    """The part of every row, by its values, so that equal rows share one; -1 for all where each stands for many.

    One of many copies tells nothing of its target to a mean over all of them, and a part of so few distinct rows would
    take too much from it. Folds are parts: what a row learns of a level must not come from its own group.
    """
    if rows.fold is None and rows.effective_count >= MANY * len(rows):
        return np.full(len(rows), -1)
    by_values = (row_keys(rows.X, seed) % np.uint64(PARTS)).astype(np.intp)
    if rows.fold is None:
        return by_values
    return np.where(rows.fold >= 0, rows.fold, rows.fold.max() + 1 + by_values)


def apart(rows: Rows, most: int) -> tuple[Rows, Rows]:
    """The first ``most`` rows, and those after them; with folds, the rows of some and those of the others.

    Either side needs two folds, so that one can be left out; of fewer than four, all rows are on the first.
    """
    later = later_rows(rows, most)
    return rows.take(~later)[:most], rows.take(later)


def later_rows(rows: Rows, most: int) -> np.ndarray:
    """Which rows come after the first ``most``, or are of the later folds."""
    if rows.fold is None:
        return np.arange(len(rows)) >= most
    present = np.unique(rows.fold[rows.fold >= 0])
    return np.isin(rows.fold, present[(len(present) + 1) // 2 :]) & (len(present) >= 4)
