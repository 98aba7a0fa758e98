r"""Samples of rows that depend on the kernel between them (spec of the extensions, B12 and B13).

Both methods work on a pool of distinct rows, of total weights :math:`w_i`: what they do is what they would do on
:math:`W^{1/2} K W^{1/2}`, so that a weight of k equals k copies.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelLike, KernelParameters, dense, gram_matrix
from ulmus.features.whitening import DEFER, DROP, nested_cholesky

#: Pivots proposed at a time: this fraction of the number wanted, within these limits.
PROPOSALS, FEWEST, MOST = 1 / 8, 8, 128
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Pool:
    """Distinct rows, the weight of each, and the kernel between them."""

    X: Any
    weight: np.ndarray
    kernel: KernelLike = "rbf"
    parameters: KernelParameters = KernelParameters()  # noqa: RUF009 - frozen
    n_jobs: int | None = -1

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return dense(self.X[indices], np.float64)

    def gram(self, indices: np.ndarray) -> np.ndarray:
        return gram_matrix(self.kernel, self.rows(indices), self.parameters)

    def cross_kernel(self, indices: np.ndarray) -> CrossKernel:
        return CrossKernel(self.kernel, self.rows(indices), self.parameters)

    def diagonal(self) -> np.ndarray:
        """``κ(x, x)`` of every row."""
        return self.cross_kernel(np.arange(1)).diagonal(self.X)


@dataclass(frozen=True)
class Pivots:
    """Pivots in the order they were drawn, and ``r(x, x)`` of every row of the pool after the last of them."""

    rows: np.ndarray
    residual: np.ndarray


def randomly_pivoted_cholesky(pool: Pool, count: int, rng: np.random.RandomState) -> Pivots:
    r"""Pivots drawn one after another with probability :math:`\propto w_i\, r(x_i, x_i)`.

    The accelerated form: a block of proposals is drawn from the residuals of its start, and each is accepted with
    probability (residual now) / (residual at the start), which leaves the law of the sequence as it is. The factor
    grows by one matrix product per block. Rows whose residual is round-off are not drawn, so that fewer than
    ``count`` pivots come back when the kernel has no more rank.

    References
    ----------
    E. N. Epperly, J. A. Tropp, R. J. Webber (2024). Embrace rejection: kernel matrix approximation by accelerated
    randomly pivoted Cholesky.
    """
    n, count = len(pool), min(count, len(pool))
    F, pivots = np.empty((n, count)), np.empty(0, dtype=int)
    d = np.maximum(pool.diagonal(), 0.0)
    floor = _round_off(d, count)
    size = int(np.clip(PROPOSALS * count, FEWEST, MOST))
    while len(pivots) < count and (mass := np.cumsum(pool.weight * d))[-1] > 0:
        proposals = np.searchsorted(mass, rng.random_sample(size) * mass[-1], side="right").clip(max=n - 1)
        chances = rng.random_sample(size)
        k = len(pivots)
        H = pool.gram(proposals) - F[proposals, :k] @ F[proposals, :k].T
        accepted, R = _accept(H, chances, floor[proposals], count - k)
        new = proposals[accepted]
        _extend(pool, F, k, new, R, d)
        pivots = np.concatenate([pivots, new])
        # The first proposal is taken unless its residual is round-off: either way it is not drawn again.
        d[new] = d[proposals[0]] = 0.0
        d[d <= floor] = 0.0
    return Pivots(pivots, d)


def _round_off(diagonal: np.ndarray, rank: int) -> np.ndarray:
    """Residuals that are nothing: below them a landmark would be dropped from the map."""
    return DROP * max(rank, 16) * EPS * np.maximum(diagonal, 0.0)


def _accept(H: np.ndarray, chances: np.ndarray, floor: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Which proposals to take, given the kernel ``H`` that is left between them, and their Cholesky factor."""
    accepted: list[int] = []
    start = np.diag(H).copy()
    for j in range(len(H)):
        if H[j, j] > max(floor[j], chances[j] * start[j]) and len(accepted) < most:
            accepted.append(j)
            H[j, j:] /= np.sqrt(H[j, j])
            H[j + 1 :, j + 1 :] -= np.outer(H[j, j + 1 :], H[j, j + 1 :])
    return np.array(accepted, dtype=int), np.ascontiguousarray(np.triu(H[np.ix_(accepted, accepted)]).T)


def _extend(pool: Pool, F: np.ndarray, k: int, new: np.ndarray, R: np.ndarray, d: np.ndarray) -> None:
    """Columns ``k ..`` of the factor for the pivots ``new``, and the residual diagonal they leave."""
    if not len(new):
        return
    cross, F_new = pool.cross_kernel(new), F[new, :k]

    def work(slab: slice) -> None:
        G = np.empty((slab.stop - slab.start, len(new)))
        cross.transform_block(pool.X[slab], G)
        G -= F[slab, :k] @ F_new.T
        solve_lower_transposed(R, G)
        F[slab, k : k + len(new)] = G
        d[slab] -= np.einsum("ij,ij->i", G, G)

    engine.on_threads(work, engine.slabs(len(pool)), pool.n_jobs)


class _Whitened:
    """The Nyström map of some rows of a pool, as the engine takes it."""

    def __init__(self, pool: Pool, indices: np.ndarray) -> None:
        nested = nested_cholesky(pool.gram(indices))
        self.R = nested.R
        self.cross = pool.cross_kernel(indices[nested.order])
        self.n_features_out = len(nested.order)

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        self.cross.transform_block(X, out)
        solve_lower_transposed(self.R, out)


@dataclass(frozen=True)
class LeverageScores:
    """Both terms of the approximate ridge leverage scores of a pool, and their ridge."""

    explained: np.ndarray
    unexplained: np.ndarray
    ridge: float

    @property
    def total(self) -> np.ndarray:
        return np.minimum(1.0, self.explained + self.unexplained)


def ridge_leverage(pool: Pool, n_pilots: int, ridge: float | None = None) -> LeverageScores:
    r"""Approximate ridge leverage scores from the Nyström map of the first ``n_pilots`` rows (B13).

    .. math:: \tilde\ell_i = \min\{1,\; w_i \hat F(x_i) (\hat F^T W \hat F + \gamma I)^{-1} \hat F(x_i)^T
              + w_i\, r(x_i, x_i) / \gamma\}

    The first term never exceeds the true score. The default ridge is the residual trace per pilot,
    :math:`\gamma = \sum_i w_i\, r(x_i, x_i) / m`, or a millionth of the trace where that is more: what the pilots miss
    then counts as much as what they can explain, and the scores sum to at most 2m.
    """
    pilots = np.arange(min(n_pilots, len(pool)))
    features = _Whitened(pool, pilots)
    m, w, K = features.n_features_out, pool.weight, pool.diagonal()
    if not m:
        return LeverageScores(np.zeros(len(pool)), np.zeros(len(pool)), 0.0)
    F = engine.transform(features, pool.X, n_jobs=pool.n_jobs)
    r = K - np.einsum("ij,ij->i", F, F)
    r[r <= _round_off(K, m)] = 0.0
    if ridge is None:
        ridge = max(float(w @ r), DEFER * float(w @ np.maximum(K, 0.0))) / m
    G = engine.gram_statistics(engine.Precomputed(m), Rows(F, np.empty((len(F), 0)), w), n_jobs=pool.n_jobs).gram
    G[np.diag_indices(m)] += ridge
    A = np.ascontiguousarray(cholesky(G, lower=True, check_finite=False))
    solve_lower_transposed(A, F)
    return LeverageScores(w * np.einsum("ij,ij->i", F, F), w * r / ridge, ridge)


def weighted_order(score: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A random order of the rows: each next one is drawn, from those that are left, in proportion to its score."""
    # The smallest of independent exponential waiting times with these rates.
    waiting = rng.standard_exponential(len(score))
    with np.errstate(divide="ignore", over="ignore"):
        return np.argsort(waiting / score, kind="stable")
