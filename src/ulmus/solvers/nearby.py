r"""Rows of many features, squared seldom: curvatures that are near each other precondition each other.

A step of Newton's method solves with :math:`M = \Phi^T D\Phi + I/C`, centred where there is an intercept. Squaring rows
is nearly all of the work: as much as hundreds of products with them. From step to step, and from one C to the next, D
moves little. So the matrix of an earlier D, factored for the C at hand, preconditions conjugate gradients for the D
that is; rows are squared where that takes too many of them, and where leverages are asked for, which are exact.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError

from ulmus import engine
from ulmus.engine import Precomputed, Rows
from ulmus.solvers.newton_rows import HeldRows, primal
from ulmus.solvers.objective import Evaluation, Leverages, System
from ulmus.statistics import Statistics

#: Conjugate gradients end where the error has fallen to this share.
SHARE = 1e-2
#: Steps of them that cost about what squaring does: one for so many features, and some.
STEP_FEATURES, FEWEST_STEPS = 40, 8
#: Curvatures whose squares are kept.
KEPT = 2


@dataclass
class _Squares:
    """Curvatures of all rows, and the sums of rows that were squared with them; the last ones.

    ``steps`` of conjugate gradients were taken since.
    """

    steps: int = 0
    kept: list[tuple[np.ndarray, Statistics]] = field(default_factory=list)
    factor: tuple[np.ndarray, float, float, System] | None = None

    def nearest(self, d: np.ndarray) -> tuple[np.ndarray, Statistics] | None:
        return min(self.kept, key=lambda known: float(np.abs(known[0] - d).sum()), default=None)

    def add(self, d: np.ndarray, moments: Statistics) -> None:
        self.kept, self.steps = [*self.kept[1 - KEPT :], (d, moments)], 0

    def factored(self, d: np.ndarray, moments: Statistics, C: float, fit_intercept: bool, penalty: float) -> System:
        """The system of a curvature that was squared; the last one is kept."""
        known = self.factor
        if known is None or known[0] is not d or known[1:3] != (C, penalty):
            self.factor = known = d, C, penalty, primal(moments, C, fit_intercept, penalty)
        return known[3]


@dataclass(frozen=True)
class NearbyRows(HeldRows):
    """Rows whose features are kept, for runs that lie near each other."""

    squares: _Squares = field(default_factory=_Squares, repr=False, compare=False)

    def without(self, left_out: np.ndarray) -> "NearbyRows":
        return replace(self, Phi=self.Phi[~left_out], rows=self.rows.take(~left_out), squares=_Squares())

    @property
    def squared_at_once(self) -> bool:
        return False

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        assert found.diagonal is not None
        if np.count_nonzero(found.diagonal) < self.n_features:
            return super().system(found, C, bias_penalty)
        return NearSystem.of(self, found.diagonal, C, bias_penalty)

    def exact(self, d: np.ndarray, C: float, bias_penalty: float) -> System:
        """The factored system of these curvatures."""
        near = self.squares.nearest(d)
        if near is None or not np.array_equal(near[0], d):
            rows = Rows(self.Phi, np.empty((len(d), 0)), d)
            near = d, engine.gram_statistics(Precomputed(self.n_features), rows, n_jobs=self.n_jobs)
            self.squares.add(*near)
        return self.squares.factored(*near, C, self.fit_intercept, bias_penalty)


@dataclass(frozen=True)
class NearSystem:
    """``ΦᵀDΦ + I/C``, solved with by conjugate gradients."""

    rows: NearbyRows
    d: np.ndarray
    C: float
    bias_penalty: float
    centre: np.ndarray
    weight: float

    @classmethod
    def of(cls, rows: NearbyRows, d: np.ndarray, C: float, bias_penalty: float) -> "NearSystem":
        centre, weight = np.zeros(rows.n_features), 0.0
        if rows.fit_intercept:
            weight = float(d.sum()) + bias_penalty / C
            if not 0 < weight < np.inf:
                raise LinAlgError("the loss has no curvature at any row, so that nothing determines the constant")
            centre = rows.Phi.T @ d / weight
        return cls(rows, d, C, bias_penalty, centre, weight)

    @property
    def leverage(self) -> Leverages:
        return self.rows.exact(self.d, self.C, self.bias_penalty).leverage

    def inverse(self, B: np.ndarray) -> np.ndarray:
        near = self.rows.squares.nearest(self.d)
        if near is not None and not np.array_equal(near[0], self.d):
            try:
                about = self.rows.squares.factored(*near, self.C, self.rows.fit_intercept, self.bias_penalty)
                columns = [self._solved(about, b) for b in B.T]
            except LinAlgError:
                columns = [None]
            if all(column is not None for column in columns):
                return np.column_stack([column for column in columns if column is not None])
        return self.rows.exact(self.d, self.C, self.bias_penalty).inverse(B)

    def _times(self, v: np.ndarray) -> np.ndarray:
        Phi = self.rows.Phi
        return Phi.T @ (self.d * (Phi @ v)) - self.centre * (self.weight * float(self.centre @ v)) + v / self.C

    def _solved(self, about: System, b: np.ndarray) -> np.ndarray | None:
        """``M⁻¹ b`` by conjugate gradients; None where they have taken as much time as squaring since that was done."""
        most = max(FEWEST_STEPS, self.rows.n_features // STEP_FEATURES)
        x, r = np.zeros_like(b), b
        z = about.inverse(r[:, None])[:, 0]
        p, size = z, float(r @ z)
        enough = SHARE**2 * size
        while self.rows.squares.steps < most:
            if not size > enough:
                return x if np.isfinite(size) else None
            self.rows.squares.steps += 1
            q = self._times(p)
            step = size / float(p @ q)
            x, r = x + step * p, r - step * q
            z = about.inverse(r[:, None])[:, 0]
            last, size = size, float(r @ z)
            p = z + size / last * p
        return None
