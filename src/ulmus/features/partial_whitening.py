r"""Features of which the leading ones are whitened, and the others freed of them.

With :math:`K_{zz} = R R^T`,

.. math:: R = \begin{pmatrix} R_{11} & 0 \\ R_{21} & R_{22} \end{pmatrix}, \qquad
   \hat F_1 = k_1 R_{11}^{-T}, \qquad E_2 = k_2 - \hat F_1 R_{21}^T,

the whitened rows are :math:`\hat F = [\hat F_1\ E_2]\,\tilde R^{-T}` with :math:`\tilde R = \operatorname{diag}(I,
R_{22})`. Squares of :math:`E_2` lose what the condition number of :math:`R_{22} R_{22}^T`, the residual kernel of the
other landmarks scaled to a unit diagonal, costs (a triangular solve does not see how its rows are scaled). Few leading
landmarks carry what makes :math:`K_{zz}` ill-conditioned, so that is smaller by many powers of ten, for
:math:`n l(2L - l)` of work instead of :math:`n L^2`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus._blas import solve_lower_transposed, subtract_product
from ulmus.engine import FeatureMap
from ulmus.features.whitening import NestedCholesky

#: Steps of power iteration that tell the order of magnitude of a condition number.
STEPS = 4


@dataclass
class PartialWhitening:
    r"""The map :math:`x \mapsto [\hat F_1\ E_2]`, and the factor :math:`\tilde R` that is left."""

    cross_kernel: FeatureMap
    R11: np.ndarray
    R21: np.ndarray
    remaining: np.ndarray

    @classmethod
    def of(cls, cross_kernel: FeatureMap, R: np.ndarray, leading: int) -> "PartialWhitening":
        """With this many leading landmarks."""
        remaining = np.eye(len(R))
        remaining[leading:, leading:] = R[leading:, leading:]
        R11, R21 = (np.ascontiguousarray(part[:, :leading]) for part in (R[:leading], R[leading:]))
        return cls(cross_kernel, R11, R21, remaining)

    def __post_init__(self) -> None:
        self.n_features_out = len(self.remaining)

    @property
    def condition(self) -> float:
        """Condition number of the residual kernel, scaled to a unit diagonal: its order of magnitude."""
        return residual_condition(self.remaining, len(self.R11))

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        leading = len(self.R11)
        self.cross_kernel.transform_block(X, out)
        F1 = np.ascontiguousarray(out[:, :leading])
        solve_lower_transposed(self.R11, F1)
        out[:, :leading] = F1
        subtract_product(F1, self.R21, out[:, leading:])


def residual_condition(R: np.ndarray, leading: int) -> float:
    """Condition number of ``R₂₂R₂₂ᵀ`` scaled to a unit diagonal, below this many leading rows of R."""
    rest = R[leading:, leading:]
    rest = rest / np.sqrt(np.einsum("ij,ij->i", rest, rest))[:, None]
    return NestedCholesky(np.arange(len(rest)), rest).condition_after(STEPS)
