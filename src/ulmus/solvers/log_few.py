"""Log models of several classes on few rows with as many features: in the space of the kernel between the rows.

Weights of the features are ``β = Φᵀα``, so that nothing but ``K = ΦΦᵀ`` is needed, and a model for every C may use it.
"""

from dataclasses import dataclass, replace

import numpy as np

from ulmus._blas import times_own_transpose
from ulmus.engine import Precomputed
from ulmus.solvers.log_joint import Space
from ulmus.solvers.log_metric import DENSE
from ulmus.solvers.softmax import LogProblem

#: Rows, at most, and rows for each feature.
MOST_ROWS, A_FEATURE = 2_000, 1.5


def is_few(n: int, L: int, m: int) -> bool:
    """Whether rows are few, features and columns of scores being so many: no Hessian of two classes is too large."""
    return m > 1 and n <= min(MOST_ROWS, A_FEATURE * L) and (L + 1) * m > DENSE


@dataclass(frozen=True)
class FewRows:
    """A problem whose features are at hand, and the kernel between its rows."""

    problem: LogProblem
    K: np.ndarray

    @classmethod
    def of(cls, problem: LogProblem) -> "FewRows | None":
        """None where rows are many, classes are two, or the Hessian itself is small."""
        n, L, m = len(problem.rows), problem.features.n_features_out, problem.rows.T.shape[1]
        plain = problem.whitening is None and problem.scale is None and problem.offset is None
        at_hand = isinstance(problem.features, Precomputed) and problem.rows.X.dtype == np.float64
        if not (plain and at_hand and is_few(n, L, m)):
            return None
        return cls(problem, times_own_transpose(problem.rows.X))

    def at(self, C: float) -> "FewRows":
        """The same with another penalty."""
        return replace(self, problem=replace(self.problem, C=C))

    def space(self) -> Space:
        """What it bends in."""
        return Space.of(self.K, self.problem.weight, 1.0 / self.problem.C, self.problem.fit_intercept)
