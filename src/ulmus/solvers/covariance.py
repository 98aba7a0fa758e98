"""The covariance form of recursive ridge: the recursion of the literature, by Sherman, Morrison and Woodbury.

See :mod:`ulmus.solvers.recursive` for what the form stands for.
"""

import warnings

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsymm, dsyr, dsyrk

from ulmus.exceptions import NumericalWarning
from ulmus.solvers.recursive import (
    FADED,
    Recursion,
    Shape,
    check_remainder,
    few_threads,
    keep_ridge,
    leverage_of,
    matrix,
    recoded,
    right_hand_side,
    solve_root,
    solve_upper,
    sums_of,
    upper_root,
    widened,
)
from ulmus.solvers.ridge import DOUBLE, EPS, Solution
from ulmus.statistics import Statistics, TriangularStatistics


class Covariance(Recursion):
    """``P = K⁻¹`` and ``β``, by Sherman, Morrison and Woodbury (symmetric by construction: one triangle is kept)."""

    form = "covariance"

    def __init__(self, shape: Shape, sums: Statistics | None = None) -> None:
        super().__init__(shape)
        self.faded = 0.0
        self.P: np.ndarray | None = None
        self.beta = np.zeros((shape.width, shape.n_outputs + 1))
        if sums is not None:
            self._invert(matrix(sums, shape), right_hand_side(sums, shape))
        elif (shape.ridge > 0).all():
            self.P = np.asfortranarray(np.diag(1.0 / shape.ridge))

    def _invert(self, K: np.ndarray, B: np.ndarray) -> None:
        """``P = K⁻¹`` and ``β = PB``."""
        R = upper_root(K)
        self.beta = solve_root(R, B)
        self.P = np.asarray(lapack.dpotri(R, lower=0)[0])

    @few_threads
    def add(self, rows: np.ndarray, forgetting: float = 1.0) -> None:
        if not len(rows):
            return
        if self.P is None:  # with an unpenalised constant, or no penalty, the start is one factorisation
            n = len(rows)
            rows = rows * forgetting ** (0.5 * np.arange(n - 1, -1, -1))[:, None]
            self.add_statistics(Statistics(rows.T @ rows, self.shape.n_outputs, n), forgetting**n)
            return
        # a block fades what is before it to no less than half
        most = len(rows) if forgetting == 1.0 else max(1, int(np.log(FADED) / np.log(forgetting)))
        for start in range(0, len(rows), most):
            self._add_block(*self.shape.split(rows[start : start + most]), forgetting)

    def _add_block(self, H: np.ndarray, T: np.ndarray, forgetting: float) -> None:
        self._fade(forgetting ** len(H))
        if len(H) == 1:
            self._add_one(H[0], T[0])
            return
        if forgetting < 1.0:
            age = forgetting ** (0.5 * np.arange(len(H) - 1, -1, -1))[:, None]
            H, T = H * age, T * age
        # gain: P₊Hᵀ = PHᵀ(I + HPHᵀ)⁻¹
        PH = dsymm(1.0, self.P, np.asfortranarray(H.T))
        S = upper_root(np.eye(len(H)) + H @ PH)
        half = solve_upper(S, PH.T, transposed=True)
        self.beta += PH @ solve_root(S, T - H @ self.beta)
        self.P = dsyrk(-1.0, np.asfortranarray(half), beta=1.0, c=self.P, trans=1, overwrite_c=1)

    def _add_one(self, h: np.ndarray, t: np.ndarray) -> None:
        """``P ← P − Phhᵀ P/(1 + hᵀPh)``, ``β ← β + Ph(tᵀ − hᵀβ)/(1 + hᵀPh)``."""
        Ph = dsymm(1.0, self.P, h[:, None])[:, 0]
        s = 1.0 + h @ Ph
        self.beta += np.outer(Ph / s, t - h @ self.beta)
        self.P = dsyr(-1.0 / s, Ph, a=self.P, overwrite_a=1)

    def _fade(self, decay: float) -> None:
        if decay == 1.0:
            return
        assert self.P is not None
        self.P /= decay
        self.faded = 1.0 - decay * (1.0 - self.faded)
        if self.faded > FADED:
            B = self._information() @ self.beta
            self._invert(self._information() + np.diag(self.faded * self.shape.ridge), B)
            self.faded = 0.0

    def _round_off(self, P: np.ndarray, H: np.ndarray) -> float:
        """By how much ``HPHᵀ`` may be off: P has lost the digits of the largest that it ever was."""
        first = 1.0 / self.shape.ridge[self.shape.ridge > 0]
        size = max(float(np.abs(P).max()), float(first.max(initial=0.0)))
        return self.shape.width * EPS * size * float((H**2).sum())

    def _full(self) -> np.ndarray:
        assert self.P is not None
        return np.triu(self.P) + np.triu(self.P, 1).T

    def _information(self) -> np.ndarray:
        return solve_root(upper_root(self._full()), np.eye(self.shape.width))

    @few_threads
    def add_statistics(self, sums: Statistics | TriangularStatistics, decay: float = 1.0) -> None:
        sums = sums if isinstance(sums, Statistics) else sums.to_gram()
        total = sums if self.P is None else self.to_statistics().scaled(decay) + sums
        self._invert(matrix(total, self.shape), right_hand_side(total, self.shape))
        self.faded = 0.0

    @few_threads
    def remove(self, rows: np.ndarray) -> None:
        H, T = self.shape.split(rows)
        P = self._full()
        V = upper_root(P) @ H.T
        check_remainder(V, self._round_off(P, H))
        PH = P @ H.T
        S = np.eye(len(H)) - H @ PH
        # P₋ = P + PHᵀ(I − HPHᵀ)⁻¹HP, β₋ = β − P₋Hᵀ(T − Hβ)
        self.beta = self.beta - PH @ np.linalg.solve(S, T - H @ self.beta)
        P = P + PH @ np.linalg.solve(S, PH.T)
        self.P = np.asfortranarray((P + P.T) / 2)

    @few_threads
    def solution(self) -> Solution:
        beta = self.weights()  # not those that go on changing
        K = self._information() + np.diag(self.faded * self.shape.ridge)
        R = upper_root(K)
        rcond, _ = lapack.dpocon(R, float(np.abs(K).sum(axis=0).max()), uplo="U")
        if rcond * DOUBLE.correct < EPS:
            warnings.warn(
                f'form="covariance" has lost digits: the condition number is {1 / max(rcond, 1e-300):.1e} and weights '
                f"may be off by {min(1.0, EPS / max(rcond, 1e-300)):.0e} of their size; "
                'form="root" keeps them, and a smaller C or slope loses fewer',
                NumericalWarning,
                stacklevel=2,
            )
        return self.shape.solution(beta, self.form, leverage_of(R, self.shape))

    @few_threads
    def weights(self) -> np.ndarray:
        """``β`` alone."""
        if self.faded == 0.0:
            return self.beta.copy()
        P = self._full()
        return keep_ridge(self.beta, self.faded * self.shape.ridge, lambda x: P @ x)

    def recode(self, M: np.ndarray) -> None:
        self.beta = np.column_stack([self.beta @ M, self.beta[:, -1]])
        self.shape = recoded(self.shape, M)

    def widen(self) -> None:
        P = self._full()
        self.shape = widened(self.shape)
        self.P = np.asfortranarray(np.pad(P, (0, 1)))
        self.P[-1, -1] = 1.0 / ((1.0 - self.faded) * self.shape.ridge[-1])
        self.beta = np.pad(self.beta, ((0, 1), (0, 0)))

    @few_threads
    def to_statistics(self) -> Statistics:
        K = self._information()
        return sums_of(K - np.diag((1.0 - self.faded) * self.shape.ridge), K @ self.beta, self.shape)
