r"""Exact Shapley values of product kernels, in polynomial time.

With factors :math:`p_g = k_g(x_g, z_g)` of the row and :math:`q_g = k_g(b_g, z_g)` of a background row, the game of one
term is :math:`v(S) = \prod_{g \in S} p_g \prod_{g \notin S} q_g`. Its multilinear extension has every player in with
probability t, and the Shapley value is the integral of its slope (Owen 1972):

.. math:: \phi_g = (p_g - q_g)\int_0^1 \prod_{h \ne g}\bigl(t\,p_h + (1 - t)\,q_h\bigr)\,dt .

The integrand is a polynomial of degree d - 1, so Gauss-Legendre quadrature with :math:`\lceil d/2\rceil` nodes is
exact; everything in it is positive, so no digits are lost. Values are linear in the game: they are summed over the
terms of the model and averaged over the background, which is the interventional value of the package ``shap``.

Players are taken three at a time. The product of three is :math:`\sum_S t^{|S|}(1-t)^{3-|S|}\,p_S\,q_{\bar S}`, a
matrix product of the monomials of rows, :math:`p_S`, and those of background rows; products without one group are
prefixes times suffixes, and never a quotient.

References
----------
G. Owen (1972). Multilinear extensions of games. Management Science 18(5).

M. Mohammadi, S. L. Chau, K. Muandet (2025). Computing exact Shapley values in polynomial time for product-kernel
methods. arXiv 2505.16516. (A recursion on elementary symmetric polynomials, for the game with one reference.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product as cartesian

import numpy as np

from ulmus import engine
from ulmus.explain.game import Comparison, Products

#: Players in a group.
SIZE = 3
#: Numbers in the products of a block of rows at all nodes: this many stay in cache.
BLOCK = 24_000
#: Background rows at a time, at most.
BACKGROUND = 128
#: Bytes of the monomials of background rows that are held at a time.
HELD = 32 * 2**20


def nodes(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) and weights that integrate polynomials of this degree exactly."""
    x, w = np.polynomial.legendre.leggauss(degree // 2 + 1)
    return (x + 1) / 2, w / 2


@dataclass(frozen=True)
class Rule:
    """Quadrature for a game of this many players, in groups of :data:`SIZE`."""

    n_players: int

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        return nodes(max(self.n_players - 1, 0))

    @property
    def n_groups(self) -> int:
        return -(-self.n_players // SIZE)

    @cached_property
    def subsets(self) -> np.ndarray:
        """Which players of a group are in: ``[subset, player]``."""
        return np.array(list(cartesian([False, True], repeat=SIZE)))

    @cached_property
    def inclusion(self) -> np.ndarray:
        """``t^|S| (1 − t)^(3 − |S|)``: ``[subset, node]``."""
        t, size = self.nodes[0], self.subsets.sum(axis=1)[:, None]
        return t**size * (1 - t) ** (SIZE - size)

    @cached_property
    def slopes(self) -> np.ndarray:
        """Quadrature weight times the slope of the inclusion of S as a player comes in: ``[node, subset, player]``."""
        t, w = self.nodes
        others = self.subsets.sum(axis=1)[:, None] - self.subsets  # how many others are in
        rest = SIZE - 1 - others
        slope = t[:, None, None] ** others * (1 - t)[:, None, None] ** rest
        return w[:, None, None] * np.where(self.subsets, slope, -slope)

    def monomials(self, factors: np.ndarray, *, inside: bool) -> np.ndarray:
        """Products of the factors of the players in (or out of) every subset: ``[landmark, group, subset, row]``."""
        L, d, n = factors.shape
        padded = np.ones((L, self.n_groups * SIZE, n))
        padded[:, :d] = factors
        of_groups = padded.reshape(L, self.n_groups, 1, SIZE, n)
        chosen = self.subsets if inside else ~self.subsets
        return np.where(chosen[:, :, None], of_groups, 1.0).prod(axis=3)


def shapley_values(products: tuple[Products, ...], compared: Comparison, n_jobs: int | None = -1) -> np.ndarray:
    """Values of every row, ``[row, player, output]``; ``products`` are the terms of the scores."""
    groups, U, background, weight = compared
    rule = Rule(len(groups))
    n_nodes = len(rule.nodes[0])
    width = min(len(background), BACKGROUND)
    height = max(1, BLOCK // (n_nodes * width))
    out = np.zeros((len(U), len(groups), products[0].weights.shape[1]))
    held = max(1, HELD // (8 * 2**SIZE * rule.n_groups * width))
    for part, columns in _blocks(products, len(background), width, held):
        B, w = background[columns], weight[columns]
        Q = rule.monomials(part.factors(B, groups), inside=False)
        in_background = part.inside(B, groups)

        def work(
            rows: slice,
            part: Products = part,
            Q: np.ndarray = Q,
            w: np.ndarray = w,
            in_background: np.ndarray | None = in_background,
        ) -> None:
            P = part.factors(U[rows], groups)
            inside = part.inside(U[rows], groups)
            if inside is None or in_background is None:
                out[rows] += _summed(rule, P, Q, w, part.weights)
            else:
                out[rows] += _boxed(rule, P, Q, w, part.weights, inside, in_background)

        engine.on_threads(work, list(engine.pieces(len(U), height)), n_jobs)
    return out


def _blocks(
    products: tuple[Products, ...], n_background: int, width: int, held: int
) -> Iterator[tuple[Products, slice]]:
    """Some landmarks with some background rows at a time."""
    for part in products:
        for terms in engine.pieces(len(part.Z), held):
            some = Products(part.kernel, part.gamma, part.Z[terms], part.weights[terms], part.low, part.high)
            for columns in engine.pieces(n_background, width):
                yield some, columns


def _boxed(
    rule: Rule,
    P: np.ndarray,
    Q: np.ndarray,
    w: np.ndarray,
    weights: np.ndarray,
    inside: np.ndarray,
    in_background: np.ndarray,
) -> np.ndarray:
    """As :func:`_summed`, for factors that are 0 outside a box; pairs of rows that never enter it are left out."""
    out = np.zeros((P.shape[2], P.shape[1], weights.shape[1]))
    reach = (inside[:, None, :] | in_background).all(axis=2)
    rows, columns = np.flatnonzero(reach.any(axis=1)), np.flatnonzero(reach.any(axis=0))
    if not len(rows):
        return out
    P = P[:, :, rows] * inside[rows].T
    # a monomial of the background is 0 where one of its players is out of the box
    there = rule.monomials(in_background[columns].T[None].astype(np.float64), inside=False)
    out[rows] = _summed(rule, P, Q[..., columns] * there, w[columns], weights)
    return out


def _summed(rule: Rule, P: np.ndarray, Q: np.ndarray, w: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values of rows with factors P, against background rows with monomials Q: ``[row, player, output]``."""
    (L, d, n), B = P.shape, Q.shape[3]
    T, G, S = len(rule.nodes[0]), rule.n_groups, len(rule.subsets)
    P = np.ascontiguousarray(rule.monomials(P, inside=True).transpose(0, 1, 3, 2))
    weighted = np.ascontiguousarray((Q * w).transpose(0, 1, 3, 2))
    slopes = rule.slopes.reshape(T * S, SIZE)
    V, before = np.empty((2, G, n, T * B))
    after, others = np.empty((2, n, T * B))
    values = np.empty((n, G, SIZE))
    out = np.zeros((n, G * SIZE, weights.shape[1]))
    for term in range(L):
        before[0] = 1.0
        for g in range(G):
            right = (rule.inclusion[:, :, None] * Q[term, g][:, None, :]).reshape(S, T * B)
            np.matmul(P[term, g], right, out=V[g])
            if g + 1 < G:
                np.multiply(before[g], V[g], out=before[g + 1])
        after[:] = 1.0
        for g in reversed(range(G)):
            np.multiply(before[g], after, out=others)
            of_subsets = (others.reshape(n * T, B) @ weighted[term, g]).reshape(n, T, S) * P[term, g][:, None, :]
            np.matmul(of_subsets.reshape(n, T * S), slopes, out=values[:, g])
            if g:
                np.multiply(after, V[g], out=after)
        out += values.reshape(n, G * SIZE, 1) * weights[term]
    return out[:, :d]
