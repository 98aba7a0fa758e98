"""Shapley values by their definition: every coalition is scored."""

from collections.abc import Callable, Sequence
from itertools import product
from math import factorial

import numpy as np

Score = Callable[[np.ndarray], np.ndarray]


def coalition_scores(
    score: Score, groups: Sequence[Sequence[int]], U: np.ndarray, background: np.ndarray, weight: np.ndarray
) -> dict[tuple[int, ...], np.ndarray]:
    """Coalition (0/1 for each player) → mean score of the rows, other players taken from the background."""
    out = {}
    for coalition in product([0, 1], repeat=len(groups)):
        columns = [j for group, there in zip(groups, coalition, strict=True) if there for j in group]
        mixed = np.repeat(background, len(U), axis=0)
        mixed[:, columns] = np.tile(U[:, columns], (len(background), 1))
        out[coalition] = np.tensordot(weight, score(mixed).reshape(len(background), len(U), -1), 1)
    return out


def shapley_by_definition(scores: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """``[row, player, output]``."""
    d = len(next(iter(scores)))
    values = np.zeros((*next(iter(scores.values())).shape, d))
    for coalition, score in scores.items():
        s = sum(coalition)
        for g, there in enumerate(coalition):
            others = s - there
            share = factorial(others) * factorial(d - 1 - others) / factorial(d)
            values[..., g] += (share if there else -share) * score
    return np.swapaxes(values, 1, 2)


def interactions_by_definition(scores: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """The interaction index of every pair, ``[row, player, player, output]``, 0 on the diagonal."""
    d = len(next(iter(scores)))
    n, k = next(iter(scores.values())).shape
    out = np.zeros((n, d, d, k))
    for coalition, score in scores.items():
        for g in range(d):
            for h in range(d):
                if g == h:
                    continue
                there = coalition[g] + coalition[h]
                others = sum(coalition) - there
                share = factorial(others) * factorial(d - 2 - others) / factorial(d - 1)
                out[:, g, h] += (-share if there == 1 else share) * score
    return out
