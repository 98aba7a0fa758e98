"""A category as a kernel wants it: columns of its frequent levels, and the mean target of each level."""

from dataclasses import dataclass
from typing import Any

import numpy as np

#: Rows that a target mean borrows from the overall mean.
PRIOR = 20.0
#: Levels of a category that get a column of their own, at most; where there are more, those with less than this share
#: of the rows of a mean level get none: which of many levels of one row each come first is chance.
LEVELS, RARE = 32, 0.5


@dataclass(frozen=True)
class Category:
    """One category: a 0/1 column for each frequent level, and the smoothed mean target of every level.

    ``levels`` are codes; a level that was never seen has no column, and the overall mean.
    """

    levels: np.ndarray
    shown: np.ndarray
    mass: np.ndarray
    sums: np.ndarray
    overall: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, T: np.ndarray, w: np.ndarray, like: "Category | None" = None) -> "Category":
        """Learn one category; ``like`` brings levels and columns that were found in more rows."""
        if like is None:
            levels, place = np.unique(codes, return_inverse=True)
        else:
            levels, place = like.levels, np.searchsorted(like.levels, codes)
        mass = np.bincount(place, weights=w, minlength=len(levels))
        sums = np.empty((len(levels), T.shape[1]))
        for k, t in enumerate(T.T):
            sums[:, k] = np.bincount(place, weights=w * t, minlength=len(levels))
        frequent = np.sort(np.argsort(-mass, kind="stable")[:LEVELS])
        if len(levels) > LEVELS:
            frequent = frequent[mass[frequent] >= RARE * mass.sum() / len(levels)]
        shown = like.shown if like is not None else levels[frequent[1:] if len(levels) == 2 else frequent]
        return cls(levels, shown, mass, sums, np.average(T, axis=0, weights=w))

    def __add__(self, other: "Category") -> "Category":
        """What both say: the levels of either."""
        levels, place = np.unique(np.concatenate([self.levels, other.levels]), return_inverse=True)
        mass = np.bincount(place, np.concatenate([self.mass, other.mass]), len(levels))
        both = np.concatenate([self.sums, other.sums])
        sums = np.stack([np.bincount(place, s, len(levels)) for s in both.T], axis=1)
        return Category(levels, self.shown, mass, sums, sums.sum(axis=0) / mass.sum())

    @property
    def has_means(self) -> bool:
        """Two levels need no mean: their column says the same."""
        return len(self.levels) > 2

    def dummies(self, codes: np.ndarray) -> np.ndarray:
        return (codes[:, None] == self.shown).astype(np.float64)

    def means(self, codes: np.ndarray, less: "Category | None" = None, own: Any = None) -> np.ndarray:
        """Smoothed mean targets, from all rows, from all but those of ``less``, or from all but the row itself.

        ``own`` are the weight and the targets that every row takes along.
        """
        place = np.minimum(np.searchsorted(self.levels, codes), len(self.levels) - 1)
        known = self.levels[place] == codes
        mass, sums = np.where(known, self.mass[place], 0.0), np.where(known[:, None], self.sums[place], 0.0)
        if own is not None:
            mass, sums = np.maximum(mass - own[0], 0.0), sums - own[0][:, None] * own[1]
        if less is not None:
            there = np.minimum(np.searchsorted(less.levels, codes), len(less.levels) - 1)
            same = less.levels[there] == codes
            mass = mass - np.where(same, less.mass[there], 0.0)
            sums = sums - np.where(same[:, None], less.sums[there], 0.0)
        return (sums + PRIOR * self.overall) / (mass + PRIOR)[:, None]
