r"""Shapley values and interactions of any scores by antithetic permutations, with their standard errors.

Players come in one after another, in a random order and then in the opposite one; what the score rises by when a player
comes in, averaged over orders, is its value. Every pair of orders starts from one background row, and all of these take
equal turns, so that values add up to the prediction exactly. Pairs of opposite orders cancel all interactions of two
players (Mitchell et al. 2022), so that a sum of main effects and pairs is explained without error by one pair for each
background row.

Interactions are sampled from random coalitions T that every player joins with probability t, t uniform: with
:math:`T \triangle g` for T with g let in or out, and signs 1 for players in T and −1 for others,

.. math:: s_g s_h\bigl(v(T) - v(T \triangle g) - v(T \triangle h) + v(T \triangle \{g, h\})\bigr)

has the interaction index of g and h for its mean, so that one coalition tells of all pairs. Every background row is
given a coalition and its complement, and t takes equal steps over the background rows.

References
----------
R. Mitchell, J. Cooper, E. Frank, G. Holmes (2022). Sampling permutations for Shapley value estimation. JMLR 23(43).
"""

from collections.abc import Callable

import numpy as np

from ulmus import engine
from ulmus.explain.game import Comparison

#: Coordinates → ``[row, output]``.
Score = Callable[[np.ndarray], np.ndarray]
#: Rows that are scored at a time.
ROWS = 20_000


def sampled_values(
    score: Score, compared: Comparison, rounds: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Values of every row and their standard errors, ``[row, player, output]``, by pairs of opposite orders.

    Each background row has one in a round. A single pair of orders of more than two players shows no spread: then
    errors are NaN.
    """
    groups, U, background, weight = compared
    d, B = len(groups), len(background)
    n_outputs = score(background[:1]).shape[1]
    total, squares = np.zeros((2, len(U), d, n_outputs))
    height = max(1, ROWS // (B * (2 * d + 2)))
    for _ in range(rounds):
        orders = np.argsort(rng.uniform(size=(B, d)), axis=1)
        for piece in engine.pieces(len(U), height):
            pairs = _pairs(score, groups, U[piece], background, orders)  # [row, background row, player, output]
            mean = np.einsum("xbgk,b->xgk", pairs, weight)
            total[piece] += mean
            squares[piece] += np.einsum("xbgk,b->xgk", pairs**2, weight)
    values = total / rounds
    return values, _standard_errors(values, squares / rounds, rounds, weight, d)


def _standard_errors(mean: np.ndarray, square: np.ndarray, rounds: int, weight: np.ndarray, d: int) -> np.ndarray:
    """Standard errors of means, from mean squares of what each background row says in each round, of d players.

    They hold the spread between background rows, which all take part, and so are too large rather than too small.
    """
    if d <= 2:  # an order and its opposite, or a coalition and its complement, are all there are
        return np.zeros(mean.shape)
    freedom = rounds / float((weight**2).sum()) - 1.0
    if freedom < 1e-9:
        return np.full(mean.shape, np.nan)
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0) / freedom))


def _pairs(
    score: Score, groups: list[np.ndarray], U: np.ndarray, background: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """Rises of the score as players come in, averaged over an order and its opposite."""
    n, (B, d) = len(U), orders.shape
    place = np.argsort(orders, axis=1)  # of a player in the order of a background row
    steps = np.arange(d + 1)[:, None, None]
    out = np.zeros((n, B, d, score(background[:1]).shape[1]))
    for where in (place, d - 1 - place):
        coming = np.zeros((d + 1, B, U.shape[1]), bool)
        for g, columns in enumerate(groups):
            coming[:, :, columns] = where[:, g][None, :, None] < steps
        mixed = np.where(coming[None], U[:, None, None, :], background)
        scores = score(mixed.reshape(-1, U.shape[1])).reshape(n, d + 1, B, -1)
        rises = np.diff(scores, axis=1)  # of whoever comes in at a step
        out += np.take_along_axis(rises, where.T[None, :, :, None], axis=1).transpose(0, 2, 1, 3)
    return out / 2


def sampled_interactions(
    score: Score, compared: Comparison, rounds: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Interaction indices of pairs of every row and their standard errors, ``[row, player, player, output]``.

    They are 0 on the diagonal.
    """
    groups, U, background, weight = compared
    d, B = len(groups), len(background)
    n_outputs = score(background[:1]).shape[1]
    first, second = np.triu_indices(d, 1)
    total, squares = np.zeros((2, len(U), len(first), n_outputs))
    turned = np.zeros((1 + d + len(first), d), bool)  # who is let in or out: nobody, one, two
    turned[np.arange(1, d + 1), np.arange(d)] = True
    turned[d + 1 :] = turned[1 + first] | turned[1 + second]
    height = max(1, ROWS // (2 * len(turned)))
    for _ in range(rounds):
        t = (rng.permutation(B) + rng.uniform(size=B)) / B
        T = rng.uniform(size=(B, d)) < t[:, None]
        for row, u in enumerate(U):
            for piece in engine.pieces(B, height):
                pairs = _second_differences(score, groups, u, background[piece], T[piece], turned)
                total[row] += np.einsum("bpk,b->pk", pairs, weight[piece])
                squares[row] += np.einsum("bpk,b->pk", pairs**2, weight[piece])
    mean = total / rounds
    spread = _standard_errors(mean, squares / rounds, rounds, weight, d)
    out = np.zeros((2, len(U), d, d, n_outputs))
    for array, found in zip(out, (mean, spread), strict=True):
        array[:, first, second] = array[:, second, first] = found
    return out[0], out[1]


def _second_differences(
    score: Score,
    groups: list[np.ndarray],
    u: np.ndarray,
    background: np.ndarray,
    T: np.ndarray,
    turned: np.ndarray,
) -> np.ndarray:
    """Of all pairs of players, ``[background row, pair, output]``: the mean over a coalition and its complement."""
    d = T.shape[1]
    first, second = np.triu_indices(d, 1)
    both = np.concatenate([T, ~T])
    coalitions = both[:, None] ^ turned  # [background row, who was turned, player]
    known = np.zeros((*coalitions.shape[:2], len(u)), bool)
    for g, columns in enumerate(groups):
        known[:, :, columns] = coalitions[:, :, g, None]
    mixed = np.where(known, u, np.concatenate([background, background])[:, None])
    v = score(mixed.reshape(-1, len(u))).reshape(*mixed.shape[:2], -1)
    sign = np.where(both, 1.0, -1.0)
    found = v[:, :1] - v[:, 1 + first] - v[:, 1 + second] + v[:, d + 1 :]
    found *= (sign[:, first] * sign[:, second])[:, :, None]
    return np.asarray(found.reshape(2, len(T), *found.shape[1:]).mean(axis=0))
