r"""Ridge models as weighted sums of their training targets, and those sums without a row.

The score of a row is :math:`f(x) = \sum_i c_i(x)\,t_i`, with weights :math:`c(x) = l(x) R + o` that do not hang on the
targets:

==============  =======================  ===========================================================  ===============
model           :math:`l(x)`             :math:`R`                                                    :math:`o`
==============  =======================  ===========================================================  ===============
with features   :math:`\phi(x) - \mu`    :math:`(\tilde\Phi^TW\tilde\Phi + I/C)^{-1}\tilde\Phi^T W`   :math:`w/\sum w`
exact kernel    :math:`k_x`              :math:`P = A^{-1} - uu^T/1^Tu`, :math:`A = K + W^{-1}/C`,    :math:`u/1^Tu`
                                         :math:`u = A^{-1}1`
==============  =======================  ===========================================================  ===============

(o, and the terms with μ and u, are those of an intercept.) A row that leaves may as well stay with the target that the
model without it predicts: with the residual e, :math:`D = I - C`, C the matrix of :math:`c_i(x_j)`, that target is
:math:`t_i - e_i/D_{ii}`, and so

.. math:: f_{-i}(x) = f(x) - c_i(x)\,\frac{e_i}{D_{ii}}, \qquad
   \begin{pmatrix} e_i \\ e_j \end{pmatrix}_{-ij} =
   \begin{pmatrix} D_{ii} & D_{ij} \\ D_{ji} & D_{jj} \end{pmatrix}^{-1} \begin{pmatrix} e_i \\ e_j \end{pmatrix},

exactly, for rows of any weight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from ulmus import engine
from ulmus._blas import cholesky_in_place
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import kernel_system
from ulmus.solvers.ridge import Leverage

#: Least ``D_ii``: what is below it is round-off.
TINY = 1e-13


@dataclass(frozen=True)
class Smoother:
    """Weights of training targets: ``left(x) @ right + offset``; residuals and ``D_ii`` of the training rows.

    ``own`` are ``left`` of the training rows. ``dual`` is ``1/(C w)`` of an exact kernel, for which D is ``dual · R``.
    """

    left: Callable[[Any], np.ndarray]
    own: np.ndarray
    right: np.ndarray
    offset: np.ndarray
    residual: np.ndarray
    remainder: np.ndarray
    dual: np.ndarray | None = None

    @classmethod
    def of_features(
        cls, features: Any, leverage: Leverage, X: Any, T: np.ndarray, w: np.ndarray, n_jobs: int | None = -1
    ) -> "Smoother":
        """Of ridge regression on features."""

        def left(X: Any) -> np.ndarray:
            return engine.transform(features, X, n_jobs=n_jobs) - leverage.centre

        own = left(X)
        right = leverage.inverse(np.ascontiguousarray(own.T)) * w
        offset = leverage.constant * w
        fitted = own @ (right @ T) + offset @ T
        remainder = 1.0 - np.einsum("ij,ji->i", own, right) - offset
        return cls(left, own, right, offset, T - fitted, np.maximum(remainder, TINY))

    @classmethod
    def of_kernel(
        cls,
        cross: CrossKernel,
        C: float,
        T: np.ndarray,
        w: np.ndarray,
        *,
        fit_intercept: bool,
        n_jobs: int | None = -1,
    ) -> "Smoother":
        """Of exact kernel ridge on the rows of ``cross``."""

        def left(X: Any) -> np.ndarray:
            return engine.transform(cross, X, n_jobs=n_jobs)

        A, _ = kernel_system(cross, cross.Z, C, w, n_jobs)
        if cholesky_in_place(A):
            raise np.linalg.LinAlgError(
                "the kernel matrix plus I/C is not positive definite, so that no row can leave in closed form; choose "
                "a smaller C, or a positive definite kernel"
            )
        P = cho_solve((A, True), np.eye(len(A)), check_finite=False)
        offset = np.zeros(len(P))
        if fit_intercept:
            u = P.sum(axis=1)
            P, offset = P - np.outer(u, u) / u.sum(), u / u.sum()
        dual = 1.0 / (C * w)
        remainder = np.maximum(dual * P.diagonal(), TINY)
        return cls(left, np.empty((0, 0)), P, offset, dual[:, None] * (P @ T), remainder, dual)

    def weights(self, X: Any) -> np.ndarray:
        """``c_i(x)``: ``[row, training row]``."""
        return self.left(X) @ self.right + self.offset

    @property
    def left_out(self) -> np.ndarray:
        """Residuals of training rows under the models without them, ``e_i/D_ii``."""
        return self.residual / self.remainder[:, None]

    def complement(self, rows: slice) -> np.ndarray:
        """Rows of ``D = I − C``."""
        if self.dual is not None:
            return self.dual[rows, None] * self.right[rows]
        D = -(self.own[rows] @ self.right + self.offset)
        D[np.arange(len(D)), np.arange(len(self.residual))[rows]] += 1.0
        return D

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """Residuals of these rows, when they and another are left out: ``[row, the other, output]``."""
        D, d = self.complement(rows), self.remainder
        across = self._across(rows)  # D_ji
        determinant = d[rows, None] * d - D * across
        determinant[np.arange(len(D)), np.arange(len(d))[rows]] = np.inf
        e, own = self.residual, self.residual[rows]
        return (d[:, None] * own[:, None] - D[:, :, None] * e) / np.maximum(determinant, TINY**2)[:, :, None]

    def _across(self, rows: slice) -> np.ndarray:
        """Columns of D, transposed: ``[row, training row]``."""
        if self.dual is not None:
            return self.right[:, rows].T * self.dual
        D = -(self.own @ self.right[:, rows] + self.offset[rows]).T
        D[np.arange(len(D)), np.arange(len(self.residual))[rows]] += 1.0
        return D


@dataclass(frozen=True)
class OneStage:
    """One ridge model: what rows do to answers, and how far answers of rows left out miss."""

    smoother: Smoother

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        return self.smoother.weights(X) @ T

    def effects(self, X: Any) -> np.ndarray:
        return self.smoother.weights(X)[:, :, None] * self.smoother.left_out

    def own_effects(self, rows: np.ndarray) -> Callable[[Any], np.ndarray]:
        s = self.smoother
        right, offset, left_out = s.right[:, rows], s.offset[rows], s.left_out[rows]
        return lambda X: (np.einsum("ij,ji->i", s.left(X), right) + offset)[:, None] * left_out

    @property
    def left_out(self) -> np.ndarray:
        return self.smoother.left_out

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """Residuals of rows when they and another are left out."""
        return self.smoother.left_out_pairs(rows)
