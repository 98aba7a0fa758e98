r"""How large errors are, row by row: a model of the size of residuals of rows that were left out.

With the size :math:`a_i = |e_{-i}|` of a studentised left-out residual, :math:`\log s(x) = g(x) = \psi(x)\beta + b`
minimises the deviance of an exponential distribution,

.. math:: \sum_i w_i\left(a_i e^{-g_i} + g_i\right) + \lambda\|\beta\|^2 / 2,

by Fisher scoring: every step is a ridge regression of :math:`z_i = g_i + a_i e^{-g_i} - 1` with the same Gram matrix,
so that one decomposition serves all steps and all :math:`\lambda`. (Least squares on :math:`\log a`, its first cousin,
has more than twice the variance: a logarithm sees mostly the smallest residuals.) A ratio :math:`a e^{-g}` counts as 5
at most, which keeps an outlier from deciding. A row leaves as in :mod:`ulmus.solvers.path`,
:math:`g_{-i} = g_i - (z_i - g_i)\,u h_i/(1 - u h_i)`; that is of first order, so rows of folds, and fewer than 600,
leave by fits without each of ten parts. :math:`\lambda` is that of the least left-out deviance; with
:math:`\lambda = \infty` the size is the same everywhere.

The features :math:`\psi(x)` are the first ones of the model, one for eight rows (for 32 where rows leave by folds) and
a hundred at most. Functions of the left-out prediction must not be among them: beside the features it tells
:math:`f_{-i}(x_i) - f(x_i)`, which is a share of the very error whose size is sought.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import FeatureMap
from ulmus.features.kernels import dense
from ulmus.features.sampling import column_ranks, keys_in_any_order, row_keys
from ulmus.solvers.robust import weighted_median
from ulmus.statistics import power_of_two

#: Features of the model that the size of its errors is fitted on, at most, and rows for each: alone, or in folds.
SIZE, ROWS_EACH, GROUPED_EACH = 100, 8, 32
#: The penalties, for features whose mean square is 1; the last leaves a constant.
LAMBDAS = np.append(4.0 ** np.arange(-4, 8), np.inf)
#: Steps of Fisher scoring, how far one may go, and the most that a ratio of a residual to its size counts.
STEPS, REACH, MOST = 12, 1.0, 5.0
#: Sizes beyond this many times the middle one count as no larger: steps would not come back from where they begin.
FAR = 1e3
#: Least ``1 − u h`` of a row, fewest distinct rows from which a size is learned, and from which rows leave by formula.
LEAST_REMAINDER, FEW, MANY = 0.05, 60, 600
#: Parts of the rows that are left out of fits otherwise, at most.
PARTS = 10


@dataclass(frozen=True)
class Scale:
    """A fitted size of errors of one output: features, weights; and the size of the left-out rows, each left out.

    Sizes of new rows stay between the least and the largest of these. ``unit`` is a power of two: where targets are
    multiplied by one, so are sizes, to the last digit. ``shifts`` is by how much the mean logarithm of sizes moves
    where each of these rows leaves.
    """

    features: Any
    centre: np.ndarray
    beta: np.ndarray
    intercept: float
    left_out: np.ndarray
    unit: float = 1.0
    shifts: np.ndarray | float = 0.0

    @staticmethod
    def size_for(X: Any, fold: np.ndarray | None) -> int:
        """Number of features for this many distinct rows; rows of folds tell less, as they come in groups."""
        each = ROWS_EACH if fold is None else GROUPED_EACH
        return int(np.clip(len(np.unique(row_keys(X, 0))) // each, 1, SIZE))

    @classmethod
    def of(
        cls, features: FeatureMap | None, X: Any, sizes: np.ndarray, weight: np.ndarray, fold: np.ndarray | None = None
    ) -> "Scale | None":
        """From rows as the features see them, sizes of errors, weights, and folds that leave together.

        None where they say nothing.
        """
        first, place = _distinct(X, fold)
        w = np.bincount(place, weight)
        if features is None or len(first) < FEW or not np.dot(weight, sizes) > 0:
            return None
        known, given = (weight > 0) & (sizes > 0), np.bincount(place, weight * sizes)
        sizes = np.minimum(sizes, FAR * weighted_median(sizes[known], weight[known]))
        unit = float(power_of_two(np.average(sizes, weights=weight)))
        a = np.bincount(place, weight * (sizes / unit)) / np.where(w > 0, w, 1.0)
        Psi = engine.transform_rows(features, X[first])
        centre = np.average(Psi, axis=0, weights=w)
        size = np.sqrt(np.average(np.sum((Psi - centre) ** 2, axis=1), weights=w)) or 1.0
        part = _parts(X[first], given / np.where(w > 0, w, 1.0)) if len(first) < MANY else None
        if fold is not None:
            part = np.unique(fold, return_inverse=True)[1][first] % PARTS
        beta, intercept, g, shifts = _fit((Psi - centre) / size, a, w, part)
        return cls(features, centre, beta / size, float(intercept), unit * np.exp(g)[place], unit, shifts[place])

    def __call__(self, X: Any) -> np.ndarray:
        """The size of errors of new rows."""
        out = np.empty(X.shape[0])
        for piece in engine.pieces(len(out), engine.block_rows(len(self.centre), np.float64)):
            out[piece] = (engine.transform_rows(self.features, X[piece]) - self.centre) @ self.beta + self.intercept
        return np.clip(self.unit * np.exp(np.clip(out, -700.0, 700.0)), self.left_out.min(), self.left_out.max())


def _parts(X: Any, sizes: np.ndarray) -> np.ndarray:
    """Parts with errors of all sizes; of equal errors the ranks of inputs decide, which know no units."""
    ranks = column_ranks(dense(X, np.float64))
    order = np.lexsort((row_keys(ranks, 0), keys_in_any_order(ranks), sizes))
    return np.argsort(order) % PARTS


def deviance(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``a e⁻ᵍ + g``, and from the ratio :data:`MOST` on as steep as there."""
    with np.errstate(divide="ignore"):
        beyond = np.log(a) - g - np.log(MOST)
    return np.where(beyond > 0, MOST * (1.0 + beyond), a * np.exp(-g)) + g


def _fit(
    Psi: np.ndarray, a: np.ndarray, w: np.ndarray, part: np.ndarray | None
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Weights, constant, left-out ``g`` and what its mean moves by, for the λ of the least left-out deviance."""
    beta, m, g, h = _scoring(Psi, a, w)
    left = g - _score(a, g) * h / np.maximum(1.0 - h, LEAST_REMAINDER)
    shifts = -_score(a, left) * w[:, None] / w.sum()
    for k in np.unique([] if part is None else part):
        inside = part == k
        without = np.where(inside, 0.0, w)
        if np.dot(without, a) > 0:
            b, m_k = _scoring(Psi, a, without)[:2]
            left[inside], shifts[inside] = Psi[inside] @ b + m_k, m_k - m
    best = int(np.argmin(w @ deviance(a[:, None], left)))
    return beta[:, best], m[best], left[:, best], shifts[:, best]


def _scoring(Psi: np.ndarray, a: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights, constants, ``g`` and leverages for every λ."""
    total, centre = w.sum(), np.average(Psi, axis=0, weights=w)
    s, U = np.linalg.eigh(((Psi - centre) * w[:, None]).T @ (Psi - centre))
    A = (Psi - centre) @ U
    shrink = 1.0 / (np.maximum(s, 0.0)[:, None] + LAMBDAS)
    level = np.log(np.dot(w, a) / total)
    m, coefficients = np.full(len(LAMBDAS), level), np.zeros(shrink.shape)
    g = np.full((len(a), len(LAMBDAS)), level)
    for _ in range(STEPS):
        z = g + _score(a, g)
        new_m = w @ z / total
        new = shrink * (A.T @ (w[:, None] * (z - new_m)))
        change = new_m + A @ new - g
        step = np.minimum(1.0, REACH / np.maximum(np.abs(change).max(axis=0), REACH))
        m, coefficients, g = m + step * (new_m - m), coefficients + step * (new - coefficients), g + step * change
    h = w[:, None] * ((A**2) @ shrink + 1.0 / total)
    beta = U @ coefficients
    return beta, m - centre @ beta, g, h


def _score(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``min(a e⁻ᵍ, 5) − 1``."""
    return np.minimum(a[:, None] * np.exp(-g), MOST) - 1.0


def _distinct(X: Any, fold: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The first of rows with equal inputs (and folds), and for every row the number of its first."""
    keys = row_keys(X, 0)
    if fold is not None:
        keys = keys + np.uint64(3) * row_keys(np.asarray(fold, dtype=float)[:, None], 1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place
