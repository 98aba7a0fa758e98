r"""How far a Nyström model can be from the exact kernel model: Theorem 4, corrected.

With :math:`R = K - \hat K`, the residual kernel :math:`r(x,x) = \kappa(x,x) - \|\hat F(x)\|^2`,
:math:`\|t_i\| \le \tau` and :math:`\kappa(x_i,x_i) \le \delta`,

.. math:: \|\hat f(x) - f(x)\| \le C\sqrt n\,\tau\sqrt{r(x,x)\,\|R\|_2} + C^2 n\,\delta(x)\,\tau\,\|R\|_2,
   \qquad \|R\|_2 \le \operatorname{tr} R = \sum_i r(x_i,x_i),

where :math:`\delta(x) = \sqrt{\kappa(x,x)\,\delta}` is :math:`\delta` itself for kernels with a constant diagonal.
Weights turn n into :math:`\sum w_i` and the trace into :math:`\sum w_i r(x_i,x_i)`. With an intercept the theorem is
applied to the centred kernel :math:`\langle\varphi(x) - \bar\varphi, \varphi(y) - \bar\varphi\rangle` and to centred
targets; :math:`\|\bar\varphi\|\le\sqrt\delta`, and what the landmarks leave of :math:`\bar\varphi` is at most
:math:`\|R\|_2/n`.
"""

from dataclasses import dataclass

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.ridge import Leverage, Solution
from ulmus.statistics import Summary

_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Certificate:
    """What the bound needs of the training rows: ``n`` (their weight), ``τ``, ``δ`` and ``tr R``; and ``Σ κ(x,x)``."""

    C: float
    n: float
    tau: float
    delta: float
    residual_trace: float
    centred: bool
    diagonal_sum: float = 0.0

    @classmethod
    def of(
        cls, features: NystromMap, rows: Rows | Summary, C: float, solution: Solution, *, fit_intercept: bool
    ) -> "Certificate":
        """From the rows, or their sums, and the factor of their solve, which holds ``tr F̂ᵀWF̂``."""
        if isinstance(rows, Summary):
            return cls._of_sums(features, rows, C, solution, fit_intercept)
        w = rows.weights
        T = rows.T - np.average(rows.T, axis=0, weights=w) if fit_intercept else rows.T
        n, total, delta = float(w.sum()), 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow end in an infinite bound
            for piece in engine.pieces(len(rows), _BLOCK_ROWS):
                diagonal = features.cross_kernel_.diagonal(rows.X[piece])
                total, delta = total + float(w[piece] @ diagonal), max(delta, float(diagonal.max()))
            left = total - explained_trace(solution.leverage, C, n)
            tau = float(np.sqrt(np.einsum("ij,ij->i", T, T).max()))
        trace = max(left, round_off(features.condition_, solution.form) * total) if np.isfinite(left) else np.inf
        return cls(C, n, tau, delta, trace, fit_intercept, total)

    @classmethod
    def _of_sums(
        cls, features: NystromMap, summary: Summary, C: float, solution: Solution, fit_intercept: bool
    ) -> "Certificate":
        """``τ`` is then the corner of the box that holds the targets."""
        stats, extent = summary.total, summary.extent
        assert extent is not None
        mean = stats.target_mean if fit_intercept else np.zeros(stats.n_outputs)
        with np.errstate(over="ignore", invalid="ignore"):
            tau = float(np.linalg.norm(np.maximum(extent.high - mean, mean - extent.low)))
            left = extent.diagonal_sum - explained_trace(solution.leverage, C, stats.weight)
        least = round_off(features.condition_, solution.form) * extent.diagonal_sum
        trace = max(left, least) if np.isfinite(left) else np.inf
        return cls(C, stats.weight, tau, extent.diagonal_max, trace, fit_intercept, extent.diagonal_sum)

    def bound(self, diagonal: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Bound of ``‖f̂(x) − f(x)‖`` from ``κ(x,x)`` and ``r(x,x)`` of every row."""
        C, n, tau, R = self.C, self.n, self.tau, self.residual_trace
        r, delta = np.sqrt(residual), np.sqrt(diagonal * self.delta)
        if self.centred:
            r = r + np.sqrt(R / n)
            delta = (np.sqrt(diagonal) + np.sqrt(self.delta)) * 2 * np.sqrt(self.delta)
        with np.errstate(over="ignore", invalid="ignore"):
            bound = C * np.sqrt(n) * tau * r * np.sqrt(R) + C * C * n * delta * tau * R
        return np.where(np.isnan(bound), np.inf, bound)


def explained_trace(leverage: Leverage, C: float, n: float) -> float:
    """``tr ΦᵀWΦ``, from the factor of ``Φ̃ᵀWΦ̃ + I/C`` or the rows of ``Φ̃``, and the mean of ``Φ``."""
    if leverage.spectral:  # columns are eigenvectors over the roots of their eigenvalues
        centred = float(np.sum(1.0 / np.sum(leverage.root**2, axis=0))) - leverage.root.shape[1] / C
    elif leverage.rows is None:
        centred = float(np.sum(leverage.root**2)) - len(leverage.root) / C
    else:
        centred = float(np.sum(leverage.rows**2))
    return centred + n * float(leverage.centre @ leverage.centre)


def round_off(condition: float, form: str) -> float:
    """Relative error of ``tr F̂ᵀF̂``: that of a triangular solve, whose condition number squares when sums are whitened.

    Above a condition number of 1e9 every block is whitened first (:data:`ulmus.solvers.nystrom_ridge.ROUTES`).
    """
    eps = float(np.finfo(np.float32 if form.endswith("float32") else np.float64).eps)
    squared = form.startswith("gram") and condition <= 1e9
    return eps * (condition if squared else float(np.sqrt(condition)))
