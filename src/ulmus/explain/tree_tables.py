r"""Exact Shapley values and interactions of symmetric trees, from tables of their leaves.

A tree asks D questions, and the answers, as digits, are the number of the leaf. With the inputs of S known, questions
about these are answered by the row and all others by a background row, so that

.. math:: v(S) = \sum_b w_b\,\text{value}\bigl[(x \wedge \mu_S) \vee (b \wedge \neg\mu_S)\bigr],

:math:`\mu_S` the digits that belong to S. What counts of the background is therefore the weight of its rows in every
leaf, and what counts of a row is its leaf: values are tabled for all leaves of a tree, and rows look them up. At most D
inputs play in a tree, so that all subsets of them are few. Trees that divide their questions among inputs alike are
taken together.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from ulmus.engine import pieces
from ulmus.explain.game import Comparison
from ulmus.solvers.boosted import BoostedTrees

#: Numbers in the tables of some trees that are held at a time, about.
HELD = 2**22


def tree_values(trees: BoostedTrees, compared: Comparison, order: int = 1) -> np.ndarray:
    """Shapley values, ``[row, player, output]``; of order 2, interaction indices, ``[row, player, player, output]``."""
    groups, U, background, weight = compared
    player, k = np.full(U.shape[1], len(groups)), trees.value.shape[2]  # the last one is for all who do not play
    for g, columns in enumerate(groups):
        player[columns] = g
    out = np.zeros((len(U), *(len(groups) + 1,) * order, k))
    reached, usual = trees.reached(U), trees.reached(background)
    asked = player[trees.feature]
    for some, part in _alike(asked, k):
        m = part.max() + 1
        who = np.stack([asked[some, np.argmax(part == g)] for g in range(m)], axis=1)
        mass = np.stack([np.bincount(usual[:, t], weight, trees.value.shape[1]) for t in some])
        tables = _tables(trees.value[some], mass, part, order)
        for together, table in tables.items():
            found = table[np.arange(len(some)), reached[:, some]]  # [row, tree, output]
            for t, member in enumerate(who[:, together]):
                for place in {tuple(member), tuple(member[::-1])}:
                    out[(slice(None), *place)] += found[:, t]
    return out[(slice(None), *(slice(-1),) * order)]


def _alike(asked: np.ndarray, n_outputs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Trees whose questions are divided alike: their numbers, and which of their inputs every question is about."""
    shapes = [[list(dict.fromkeys(line)).index(one) for one in line] for line in asked.tolist()]
    for shape in sorted(set(map(tuple, shapes))):
        alike = np.flatnonzero([tuple(one) == shape for one in shapes])
        for piece in pieces(len(alike), max(1, HELD // (2 ** asked.shape[1] * n_outputs))):
            yield alike[piece], np.array(shape)


def _tables(value: np.ndarray, mass: np.ndarray, part: np.ndarray, order: int) -> dict[tuple[int, ...], np.ndarray]:
    """What every leaf gives to one player, or to two together: ``[tree, leaf, output]``.

    ``value[tree, leaf, output]``, ``mass[tree, leaf]`` of the background, ``part[question]`` is the player asked.
    """
    m, (n, leaves, k), digits = part.max() + 1, value.shape, (2,) * len(part)
    value, mass = value.reshape(n, *digits, k), mass.reshape(n, *digits, 1)
    out = {some: np.zeros((n, *digits, k)) for some in combinations(range(m), order)}
    for number in range(2**m):
        inside = [bool(number >> g & 1) for g in range(m)]
        known, unknown = (tuple(1 + np.flatnonzero(np.take(inside, part) == side)) for side in (True, False))
        worth = (value * mass.sum(axis=known, keepdims=True)).sum(axis=unknown, keepdims=True)
        for some in out:
            among = sum(inside[g] for g in some)  # the rest of S, out of all others, comes before them
            others = sum(inside) - among
            weight = 1 / (comb(m - order, others) * (m - order + 1))
            out[some] += (weight if (order - among) % 2 == 0 else -weight) * worth
    return {some: table.reshape(n, leaves, k) for some, table in out.items()}
