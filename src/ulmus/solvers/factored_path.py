r"""Leave-one-out predictions of very many features for a few C, by a Cholesky factor for each.

With :math:`\Phi^TW\Phi + I/C = LL^T`, weights cost :math:`L^3/3` and the leverages of n rows,
:math:`\|L^{-1}\phi\|^2`, a triangular solve of :math:`nL^2`, which is most of the work. As a function of
:math:`\log C` the leverage of a row is a sum of logistic curves, and smooth: between two C whose leverages are known
it follows from these. The logit is taken as linear in :math:`\log C`, and what that misses as a quadratic function of
both logits, whose coefficients come from some rows, with leverages from the smallest to the largest, for which the
solve is made. On them it also shows how well that does; where :math:`1 - h` is off by more than :data:`CLOSE`, every
row is solved for. Where a weight u leaves with a row, h is :math:`u\|L^{-1}\phi\|^2`, which is what has to be near 1.

Features of a Nyström map need not be white: with :math:`\Phi^TW\Phi + RR^T/C = LL^T` of kernel values, and R the factor
of their landmarks', weights on kernel values and leverages are found in the same way, and :math:`nL^2` of whitening is
saved.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ulmus import engine
from ulmus._blas import cholesky_in_place, solve_factored, solve_lower, solve_lower_transposed
from ulmus.engine import Rows
from ulmus.solvers.path import ROUGH, SINGLE_REACH, RidgePath
from ulmus.solvers.ridge import leave_out
from ulmus.statistics import Statistics

#: Powers of two between the two C, at most; rows that are solved for in between; what 1 − h may be off by, as a share
#: of it and in the root of the mean square.
APART, SOME, CLOSE = 4.0, 256, 0.02
#: Leverages are at least this far from 0 and 1 where their logits are taken.
INSIDE = 1e-7
#: Rows of a product that are computed at a time; steps of power iteration that tell the size of an inverse.
PANEL, STEPS = 256, 6


class ScoredRows(Protocol):
    """Rows whose predictions without them are wanted."""

    def __len__(self) -> int: ...

    @property
    def unit(self) -> np.ndarray | None:
        """The weight that leaves with each of them; None where it is 1."""

    def each(self, work: Callable[[slice, np.ndarray, Rows], None]) -> None:
        """Call with pieces of the rows: which they are, their features and the rows; on threads."""

    def some(self, places: np.ndarray) -> np.ndarray:
        """The features of some of them."""


class FactoredPath:
    """Predictions of rows by models without them; leverages that were solved for are kept for the C in between.

    With a ``whitening`` (lower triangular R) rows and statistics are of ``φ``, and the model is that of ``φ R⁻ᵀ``.
    """

    def __init__(
        self,
        stats: Statistics,
        *,
        fit_intercept: bool = False,
        whitening: np.ndarray | None = None,
        n_jobs: int | None = -1,
    ) -> None:
        self.stats, self.fit_intercept, self.n_jobs = stats, fit_intercept, n_jobs
        self.whitening = whitening
        self.penalty = None if whitening is None else _lower_square(whitening, n_jobs)
        self.centre = stats.feature_mean if fit_intercept else np.zeros(stats.n_features)
        self.target_mean = stats.target_mean if fit_intercept else np.zeros(stats.n_outputs)
        self.constant = 1.0 / stats.weight if fit_intercept else 0.0
        self.known: dict[float, np.ndarray] = {}
        self._workspace = engine.Workspace()

    def left_out(self, C: np.ndarray, rows: ScoredRows) -> np.ndarray:
        """Predictions ``[C, row, output]`` of rows by the models without them, always of the same rows."""
        used = self.stats.centred() if self.fit_intercept else self.stats
        unit = np.ones(len(rows)) if rows.unit is None else rows.unit

        largest, heaviest = float(np.max(C)), float(np.max(unit))
        white = self.penalty is None and self._single(used, largest, None, heaviest)

        def factored(c: float) -> tuple[np.ndarray, np.ndarray] | None:
            if self.penalty is None:
                A = np.array(used.gram.T, order="F")  # it is symmetric
                A[np.diag_indices(len(A))] += 1.0 / c
            else:
                A = self.penalty * (1.0 / c)
                A += used.gram.T
            if cholesky_in_place(A):
                return None
            return A.astype(np.float32 if white else np.float64, copy=False), solve_factored(A, used.cross)

        factors = [found for found in engine.ordered_map(factored, list(C), self.n_jobs) if found is not None]
        if len(factors) < len(C):  # a matrix without a factor
            return self._decomposed(C, rows)
        roots, weights = zip(*factors, strict=True)
        powers = np.log2(C)
        if self.penalty is not None and self._single(used, largest, roots[int(np.argmax(C))], heaviest):
            roots = tuple(root.astype(np.float32) for root in roots)
        solved = self._to_solve(powers)
        residual, h, T = self._pass(rows, [roots[k] for k in solved], weights)
        self.known |= {float(powers[k]): unit * h[j] for j, k in enumerate(solved)}
        leverages = np.empty((len(C), len(rows)))
        for k, power in enumerate(powers):
            known = self.known.get(power)
            leverages[k] = self._between(power, roots[k], rows, unit) if known is None else known
        return leave_out(T, residual, 1.0 - leverages)

    def _single(self, used: Statistics, C: float, root: np.ndarray | None, heaviest: float) -> bool:
        """Whether single precision is enough for leverages, here with the largest C and, of raw rows, the factor there.

        What it costs a row that is not white is ``2ε‖φ‖‖L⁻¹‖``, in units of the features in which the factored matrix
        has a unit diagonal.
        """
        weight = self.stats.weight
        if self.penalty is None or root is None:
            return C * heaviest * float(np.trace(self.stats.gram)) / weight <= SINGLE_REACH
        diagonal = np.diag(used.gram) + np.diag(self.penalty) / C
        unit = np.sqrt(diagonal)[:, None]
        w, size = np.random.RandomState(0).standard_normal(unit.shape), 1.0
        for _ in range(STEPS):
            w *= unit / np.linalg.norm(w)
            solve_lower(root, w)
            solve_lower(root, w, transposed=True)
            w *= unit
            size = float(np.linalg.norm(w))
        row = float(np.sum(np.diag(used.gram) / diagonal)) / weight
        return 2.0 * float(np.finfo(np.float32).eps) * np.sqrt(heaviest * row * size) <= ROUGH

    def _to_solve(self, powers: np.ndarray) -> list[int]:
        """Which of the powers do not lie between two that are known, or will be."""
        solved: list[int] = []
        for k in np.argsort(-np.abs(powers - powers.mean()), kind="stable"):
            if _beside(powers[k], [*self.known, *powers[solved]]) is None:
                solved.append(int(k))
        return solved

    def _pass(
        self, rows: ScoredRows, roots: list[np.ndarray], weights: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Residuals for all weights, leverages of a weight of 1 for these factors, and targets."""
        n, stacked = len(rows), np.concatenate(weights, axis=1)
        T, h = np.empty((n, self.stats.n_outputs)), np.empty((len(roots), n))
        residual = np.empty((len(weights), n, self.stats.n_outputs))
        shift = self.target_mean - (self.centre @ stacked).reshape(len(weights), -1)

        def work(piece: slice, Phi: np.ndarray, some: Rows) -> None:
            T[piece] = some.T
            fitted = (Phi @ stacked).reshape(len(some), len(weights), -1).transpose(1, 0, 2) + shift[:, None]
            residual[:, piece] = some.T - fitted
            for k, root in enumerate(roots):
                h[k, piece] = self._leverages(root, Phi)

        rows.each(work)
        return residual, h, T

    def _leverages(self, root: np.ndarray, Phi: np.ndarray) -> np.ndarray:
        V = self._workspace.array("solved", Phi.shape, root.dtype)
        np.subtract(Phi, self.centre, out=V, casting="same_kind")
        solve_lower_transposed(root, V)
        return np.einsum("ij,ij->i", V, V).astype(np.float64) + self.constant

    def _between(self, power: float, root: np.ndarray, rows: ScoredRows, unit: np.ndarray) -> np.ndarray:
        """Leverages at a power between two of which they are known."""
        beside = _beside(power, list(self.known))
        assert beside is not None
        low, high = (_logit(self.known[p]) for p in beside)
        share = (power - beside[0]) / (beside[1] - beside[0])
        line = low + share * (high - low)
        places = np.argsort(low + high, kind="stable")[np.linspace(0, len(low) - 1, min(SOME, len(low))).astype(int)]
        exact = unit[places] * self._leverages(root, rows.some(places))
        terms = np.column_stack([np.ones(len(low)), low, high, low * low, low * high, high * high])
        line += terms @ np.linalg.lstsq(terms[places], _logit(exact) - line[places], rcond=None)[0]
        found = 1.0 / (1.0 + np.exp(-line))
        off = (1.0 - found[places]) / np.maximum(1.0 - exact, INSIDE) - 1.0
        if np.sqrt(np.mean(off**2)) <= CLOSE:
            return found
        rows.each(lambda piece, Phi, _: found.__setitem__(piece, unit[piece] * self._leverages(root, Phi)))
        self.known[power] = found
        return found

    def _decomposed(self, C: np.ndarray, rows: ScoredRows) -> np.ndarray:
        P = np.empty((len(C), len(rows), self.stats.n_outputs))
        R = self.whitening
        stats = self.stats if R is None else self.stats.whitened(R, self.n_jobs)
        of_rows = RidgePath(stats, fit_intercept=self.fit_intercept, whitening=R).leave_one_out(C, rows.unit)
        rows.each(lambda piece, Phi, some: P.__setitem__((slice(None), piece), of_rows(Phi, some.T, some.unit)[0]))
        return P


def _lower_square(R: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """The lower triangle of ``R Rᵀ``, in Fortran order, of a lower triangular R."""
    out = np.zeros(R.shape, order="F")

    def work(rows: slice) -> None:
        out[rows, : rows.stop] = R[rows, : rows.stop] @ R[: rows.stop, : rows.stop].T

    engine.on_threads(work, list(engine.pieces(len(R), PANEL)), n_jobs)
    return out


def _beside(power: float, powers: list[float]) -> tuple[float, float] | None:
    """The two nearest powers on either side; None where there are none, or they are far apart."""
    low = max((p for p in powers if p < power), default=-np.inf)
    high = min((p for p in powers if p > power), default=np.inf)
    return (low, high) if high - low <= APART and power not in powers else None


def _logit(h: np.ndarray) -> np.ndarray:
    h = np.clip(h, INSIDE, 1.0 - INSIDE)
    return np.asarray(np.log(h / (1.0 - h)))
