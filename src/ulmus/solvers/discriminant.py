r"""Discriminant analysis on statistics: one Cholesky factor and an eigenproblem as large as there are classes.

With one indicator column per class, the statistics of ``[φ t 1]`` hold class counts :math:`N_k` (:math:`T^TT`), class
sums (:math:`\Phi^TT`) and the Gram matrix, and from them

.. math:: S_w = \Phi^T\Phi - \sum_k N_k\mu_k\mu_k^T, \qquad S_b = GG^T, \qquad G = [\sqrt{N_k}(\mu_k - \mu)]_k .

The directions with the largest :math:`\lambda` in :math:`S_b w = \lambda(S_w + \gamma I)w` are
:math:`W = L^{-T}U` with :math:`S_w + \gamma I = LL^T`, :math:`L^{-1}G = U\Lambda^{1/2}V^T`; then
:math:`W^T(S_w + \gamma I)W = I` and :math:`W^TS_bW = \Lambda`. Nothing is squared, so that directions in which the
classes do not differ are distinguished from those in which they differ little.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack, solve_triangular, svd

from ulmus import engine
from ulmus._blas import lower_factor
from ulmus.exceptions import NumericalWarning
from ulmus.statistics import Statistics

EPS = float(np.finfo(np.float64).eps)
#: Entries of a direction that differ by less than this share are equal.
ALIKE = 1e-6
#: Round-off times condition number that a solve may have; beyond it the penalty is raised.
GIVE_UP = 1e-2
#: Share of the weight below which a class has no rows.
NOTHING = 1e-12
#: Share of the scatter below which what a ridge regression explains is round-off.
UNEXPLAINED = 1e-10


def class_counts(stats: Statistics) -> np.ndarray:
    """``N_k``: the total weight of each class; round-off of rows that were taken away is none."""
    counts = stats.moments[stats.n_features : -1, -1]
    return np.where(counts > NOTHING * stats.weight, counts, 0.0)


def class_means(stats: Statistics) -> np.ndarray:
    """``μ_k``, one column per class; the total mean for classes without rows."""
    counts = class_counts(stats)
    means = stats.cross / np.where(counts > 0, counts, 1.0)
    means[:, counts <= 0] = stats.feature_mean[:, None]
    return means


def within_scatter(stats: Statistics) -> np.ndarray:
    """``S_w = G − Σ N_k μ_k μ_kᵀ``."""
    means = class_means(stats)
    return stats.gram - (means * class_counts(stats)) @ means.T


def between_root(stats: Statistics) -> np.ndarray:
    """``G = [√N_k (μ_k − μ)]`` with ``S_b = G Gᵀ``."""
    return (class_means(stats) - stats.feature_mean[:, None]) * np.sqrt(np.maximum(class_counts(stats), 0.0))


def with_classes(stats: Statistics, places: np.ndarray, n_classes: int) -> Statistics:
    """The same rows with columns for ``n_classes`` classes, the old ones at ``places``; new ones have no rows yet."""
    D = stats.n_features
    wide = Statistics.zeros(D, n_classes)
    keep = np.r_[0:D, D + np.asarray(places, dtype=np.intp), D + n_classes]
    wide.moments[np.ix_(keep, keep)] = stats.moments
    wide.n_rows = stats.n_rows
    return wide


@dataclass(frozen=True)
class Directions:
    """Discriminant directions of features: ``z = Wᵀ(φ − μ)``.

    ``weights`` is W, ``centre`` μ, ``eigenvalues`` λ in falling order, ``means`` the projected class means (one row
    per class, NaN for classes without rows), ``gamma`` the penalty in use, ``factor`` the lower Cholesky factor of
    ``S_w + γI``.
    """

    weights: np.ndarray
    centre: np.ndarray
    eigenvalues: np.ndarray
    means: np.ndarray
    gamma: float
    condition: float
    factor: np.ndarray

    @property
    def rank(self) -> int:
        """Number of directions that separate something."""
        return int(np.count_nonzero(self.eigenvalues))


def rotate(GtY: np.ndarray, least: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """``V, λ`` of ``GᵀY = V Λ Vᵀ``: the largest c − 1 in falling order, round-off (up to ``least``) set to 0.

    The largest entry of each column of V is positive, so that pictures do not flip.
    """
    lam, V = eigh((GtY + GtY.T) / 2, check_finite=False)
    lam, V = lam[::-1][:-1], V[:, ::-1][:, :-1]
    V = V * _upright(V)
    lam = np.where(lam > max(len(V) * EPS * lam.max(initial=0.0), least), lam, 0.0)
    return V, lam


def _upright(V: np.ndarray) -> np.ndarray:
    """The signs that make the largest entry of each column positive.

    Of several that are as large up to round-off (two classes of one size) it is the first.
    """
    size = np.abs(V)
    largest = (size >= (1 - ALIKE) * size.max(axis=0, initial=0.0)).argmax(axis=0)
    return np.sign(V[largest, np.arange(V.shape[1])])


def separated(half: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``U, V, λ`` of ``L⁻¹G = U Λ^{1/2} Vᵀ``, the largest c − 1; roots of λ up to ``noise`` separate nothing."""
    D, c = half.shape
    left, sigma, right = svd(half, full_matrices=c > D, check_finite=False)
    U, V, root = np.zeros((D, c - 1)), right.T[:, : c - 1], np.zeros(c - 1)
    p = min(D, c - 1)
    root[:p] = np.where(sigma[:p] > noise, sigma[:p], 0.0)
    sign = _upright(V)
    U[:, :p] = left[:, :p] * sign[:p] * (root[:p] > 0)
    return U, V * sign, root**2


def inverse_root(lam: np.ndarray) -> np.ndarray:
    """``λ^{-1/2}``, 0 where λ is."""
    return np.divide(1.0, np.sqrt(lam), out=np.zeros_like(lam), where=lam > 0)


def projected_means(V: np.ndarray, lam: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``Wᵀ(μ_k − μ) = N_k^{-1/2} V_k Λ^{1/2}``, one row per class; NaN for classes without rows."""
    root = np.sqrt(np.where(counts > 0, counts, np.nan))
    return V / root[:, None] * np.sqrt(lam)


def solve_discriminant(stats: Statistics, gamma: float) -> Directions:
    """All directions that the classes have, from sums alone.

    ``S_w`` is singular when features outnumber rows or depend on each other. A penalty too small for float64 is raised,
    with a warning that says to what.
    """
    counts = class_counts(stats)
    G = between_root(stats)
    with engine.threads_for(stats.n_features):
        summed = float(np.abs(stats.gram).sum(axis=0).max())
        factor, gamma, condition = _factor(within_scatter(stats), gamma, summed)
        half = solve_triangular(factor, G, lower=True, check_finite=False)
        # round-off of the means and of the factor, as the inverse of L enlarges it
        noise = sum(G.shape) * EPS * np.sqrt(condition) * max(1.0, float(np.linalg.norm(half)))
        U, V, lam = separated(half, noise)
        W = solve_triangular(factor, U, lower=True, trans=1, check_finite=False)
    means = projected_means(V, lam, counts)
    return Directions(W, stats.feature_mean, lam, means, gamma, condition, factor)


def _factor(S_w: np.ndarray, gamma: float, summed: float) -> tuple[np.ndarray, float, float]:
    """Cholesky factor of ``S_w + γI``, the γ in use and the condition number, counting round-off of ``summed``."""
    norm = float(np.abs(S_w).sum(axis=0).max())
    if not np.isfinite(norm):
        raise ValueError("the scatter of the features overflows; standardise the inputs first")
    floor = EPS / GIVE_UP * max(summed, norm, np.finfo(float).tiny / EPS)
    for tried in (gamma, *(floor * 10.0**step for step in range(1, 6))):
        if tried < gamma:
            continue
        A = S_w.copy(order="F")
        A[np.diag_indices_from(A)] += tried
        factor, info = lower_factor(A)
        if info:
            continue
        rcond, _ = lapack.dpocon(factor, norm + tried, uplo="L")
        condition = max(summed, norm + tried) / (norm + tried) / max(float(rcond), 1e-300)
        if EPS * condition <= GIVE_UP or tried > gamma:
            break
    if tried > gamma:
        warnings.warn(
            f"the within-class scatter is singular (more features than rows, or features that depend on each other) "
            f"and a penalty of {gamma:.3g} is below round-off; {tried:.3g} was used. Choose C <= {1 / tried:.3g}, or "
            'C="auto"',
            NumericalWarning,
            stacklevel=4,
        )
    return factor, tried, condition


@dataclass(frozen=True)
class Mixing:
    """What turns the scores of a ridge regression on class indicators into discriminant coordinates.

    ``z = (f − t̄) A``; ``eigenvalues`` and ``means`` are those of the directions.
    """

    A: np.ndarray
    eigenvalues: np.ndarray
    means: np.ndarray


def mixing(unexplained: np.ndarray, counts: np.ndarray) -> Mixing:
    r"""Discriminant coordinates of a ridge regression with the same penalty, from what it leaves unexplained.

    ``unexplained`` is :math:`T^TW(T - F)`. With :math:`D = \mathrm{diag}(N_k)`, :math:`v_0 = D^{1/2}1/\sqrt N` and
    :math:`B = D^{-1/2}T^TW(T - F)D^{-1/2}`, the share of the scatter that is explained is
    :math:`I - B - v_0v_0^T = V\mathrm{diag}(\mu)V^T`, and :math:`\lambda = \mu/(1-\mu)`,
    :math:`A = D^{-1/2}V(1+\lambda)\lambda^{-1/2}`.
    """
    root = np.sqrt(counts)
    B = unexplained / np.outer(root, root)
    v0 = root / np.linalg.norm(root)
    V, mu = rotate(np.eye(len(B)) - B - np.outer(v0, v0), UNEXPLAINED)
    left = np.maximum(np.einsum("ij,ik,kj->j", V, (B + B.T) / 2, V), EPS)
    lam = np.minimum(mu, 1.0) / left
    A = V / root[:, None] * (1.0 + lam) * inverse_root(lam)
    return Mixing(A, lam, projected_means(V, lam, counts))
