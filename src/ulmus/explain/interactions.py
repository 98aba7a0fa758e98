r"""Exact pairwise interactions of product kernels.

The interaction index of two players (Grabisch and Roubens 1999) of one term is
:math:`(p_g - q_g)(p_h - q_h)\int_0^1 \prod_{i \ne g, h}(t\,p_i + (1 - t)\,q_i)\,dt`. As in the package ``shap``
each of the two players is then given half of it, and what is left of a player's value stands on the diagonal, so that
rows add up to Shapley values and all of it to the prediction (:mod:`ulmus.explain.values`).
"""

from itertools import combinations

import numpy as np

from ulmus import engine
from ulmus.explain.game import Comparison, Products
from ulmus.explain.shapley import nodes

#: Numbers in the factors of a block of terms at all nodes.
BLOCK = 200_000


def interaction_values(products: tuple[Products, ...], compared: Comparison, n_jobs: int | None = -1) -> np.ndarray:
    """Interaction indices of every row, ``[row, player, player, output]``; 0 on the diagonal."""
    groups, U, background, weight = compared
    d = len(groups)
    t, w = nodes(max(d - 2, 0))
    out = np.zeros((len(U), d, d, products[0].weights.shape[1]))
    at = [_with_box(part, background, groups) for part in products]

    def work(row: int) -> None:
        for part, q in zip(products, at, strict=True):
            p = _with_box(part, U[row : row + 1], groups)
            size = max(1, BLOCK // (len(t) * d * len(background)))
            for terms in engine.pieces(len(part.Z), size):
                pairs = _pairs(p[terms], q[terms], t, w) @ weight
                out[row] += np.einsum("lgh,lk->ghk", pairs, part.weights[terms])

    engine.on_threads(work, list(range(len(U))), n_jobs)
    return out


def _with_box(part: Products, U: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
    factors, inside = part.factors(U, groups), part.inside(U, groups)
    return factors if inside is None else factors * inside.T


def _pairs(p: np.ndarray, q: np.ndarray, t: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Both sides of the index: ``[term, player, player, background row]``; 0 on the diagonal."""
    d = p.shape[1]
    mixed = t[:, None, None, None] * p + (1 - t)[:, None, None, None] * q  # [node, term, player, background row]
    change = p - q
    out = np.zeros((len(p), d, d, q.shape[2]))
    before = [np.ones_like(mixed[:, :, 0])]
    for g in range(d):
        before.append(before[-1] * mixed[:, :, g])
    after = [np.ones_like(before[0])] * (d + 1)
    for g in reversed(range(d)):
        after[g] = after[g + 1] * mixed[:, :, g]
    between = np.ones_like(before[0])
    last = -1
    for g, h in combinations(range(d), 2):
        between = np.ones_like(between) if g != last else between * mixed[:, :, h - 1]
        last = g
        rest = np.tensordot(w, before[g] * between * after[h + 1], axes=1)
        out[:, g, h] = out[:, h, g] = change[:, g] * change[:, h] * rest
    return out
