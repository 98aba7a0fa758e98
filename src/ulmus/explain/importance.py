"""Permutation importance of inputs, on rows left out: how much worse answers are with an input of another row.

Every row is answered by the model without it, so that an input that merely helps to know a row again is worth nothing,
and no rows need be set aside. The loss is squared error or log loss, which moves where accuracy does not: under
imbalance a classifier may say the same class whatever is shuffled, and yet be less sure of it.
"""

from collections.abc import Callable

import numpy as np

from ulmus import engine
from ulmus.explain.influence import LeavesRows, Loss

#: Rows that leave at a time, times training rows and outputs.
HELD = 4_000_000


def permutation_importances(
    model: LeavesRows,
    score: Callable[[np.ndarray], np.ndarray],
    U: np.ndarray,
    T: np.ndarray,
    w: np.ndarray,
    groups: list[np.ndarray],
    loss: Loss,
    repeats: int,
    most: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Rise of the mean loss of rows left out: ``[input, repeat]``; ``most`` rows, drawn at random, are asked."""
    asked = np.sort(rng.permutation(len(T))[:most])
    share = w[asked] / w[asked].sum()
    others = [asked[rng.permutation(len(asked))] for _ in range(repeats)]
    out = np.full((len(groups), repeats), -float(share @ loss(T[asked] - model.left_out[asked], asked)))
    for piece in engine.pieces(len(asked), max(1, HELD // T.size)):
        rows = asked[piece]
        own_effects = model.own_effects(rows)
        for turn, other in enumerate(others):
            for g, columns in enumerate(groups):
                mixed = U[rows]
                mixed[:, columns] = U[other[piece]][:, columns]
                out[g, turn] += share[piece] @ loss(score(mixed) - own_effects(mixed), rows)
    return out
