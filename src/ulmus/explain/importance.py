"""Permutation importance of inputs, on rows left out: how much worse answers are with an input of another row.

Every row is answered by the model without it, so that an input that merely helps to know a row again is worth nothing,
and no rows need be set aside. The loss is squared error or log loss, which moves where accuracy does not: under
imbalance a classifier may say the same class whatever is shuffled, and yet be less sure of it.
"""

from collections.abc import Callable

import numpy as np

from ulmus import engine
from ulmus.explain.influence import HELD, LeavesRows, Loss
from ulmus.explain.smoother import OneStage


def left_out_scores(model: LeavesRows, U: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores of changed rows by the models without the rows that they were; ``scores`` are those of the whole model."""
    if isinstance(model, OneStage):
        s = model.smoother
        weight = np.einsum("ij,ji->i", s.left(U), s.right[:, rows]) + s.offset[rows]
        return scores - weight[:, None] * s.left_out[rows]
    out = scores.copy()
    for piece in engine.pieces(len(U), max(1, HELD // len(model.left_out))):
        index = np.arange(len(U))[piece]
        out[piece] -= model.effects(U[piece])[np.arange(len(index)), rows[piece]]
    return out


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
    before = share @ loss(T[asked] - model.left_out[asked], asked)
    out = np.zeros((len(groups), repeats))
    for turn in range(repeats):
        other = rng.permutation(len(asked))
        for g, columns in enumerate(groups):
            mixed = U[asked]
            mixed[:, columns] = U[asked[other]][:, columns]
            out[g, turn] = share @ loss(left_out_scores(model, mixed, asked, score(mixed)), asked) - before
    return out
