"""The square-root form of recursive ridge: the triangular factor itself is carried, and never squared.

New rows are taken in by the QR factorisation of ``[R; H]``, which LAPACK has for a triangle over a block (``tpqrt``,
``tpmqrt``). See :mod:`ulmus.solvers.recursive` for what the form stands for.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, lapack
from scipy.linalg.blas import dsyrk, dtrsv

from ulmus._blas import upper_rcond
from ulmus.solvers.recursive import (
    BLOCK,
    FADED,
    SQUARED,
    WAITING,
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
from ulmus.solvers.ridge import EPS, Solution
from ulmus.statistics import Statistics, TriangularStatistics

_PANEL = 32
#: Columns up to which a triangle is solved with one by one: together they cost three times as much as one.
SEVERAL = 3
#: Sums that were tried last, and the factor with them in it.
_NOTHING: tuple[Statistics | None, np.ndarray] = (None, np.empty((0, 0)))


def take_in(R: np.ndarray, z: np.ndarray, H: np.ndarray, T: np.ndarray, triangular: bool = False) -> None:
    """``[R z]`` of the rows it stands for and of ``[H T]``, in place; a ``triangular`` H is upper triangular."""
    D, k = len(R), len(H)
    if not k:
        return
    low = k if triangular else 0
    panel = min(_PANEL, D)
    # both in Fortran order, so that LAPACK works in place
    H, T = np.array(H, order="F"), np.array(T, order="F")
    _, V, t, _ = lapack.dtpqrt(low, panel, R, H, overwrite_a=1, overwrite_b=1)
    lapack.dtpmqrt(low, V, t, z, T, side="L", trans="T", overwrite_a=1, overwrite_b=1)


class SquareRoot(Recursion):
    """``R`` with ``RᵀR = K`` and ``z = R⁻ᵀB``, and the rows that wait to be taken in.

    Waiting rows are scaled so that the fading of all before them is a factor on the whole (``decay``): forgetting
    changes neither R nor what was computed from it.
    """

    form = "root"
    #: ``VᵀV`` of waiting rows that weights were asked among. Copies and files begin with none, and come to the same.
    G: np.ndarray = np.empty((0, 0))

    def __init__(self, shape: Shape, start: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        super().__init__(shape)
        if start is None:
            start = np.diag(np.sqrt(shape.ridge)), np.zeros((shape.width, shape.n_outputs + 1))
        self.R, self.z = (np.array(a, dtype=np.float64, order="F") for a in start)
        self.faded, self.squared = 0.0, True
        self._tried = _NOTHING
        self._wait()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "G"}

    def _wait(self) -> None:
        """No row waits."""
        D = self.shape.width
        self.block = int(np.clip(D // 2, *BLOCK))
        self.H = np.empty((self.block, D))
        self.T = np.empty((self.block, self.shape.n_outputs + 1))
        self.V, self.G = np.empty((D, 0), order="F"), np.empty((0, 0))
        self.waiting, self.decay = 0, 1.0

    def add(self, rows: np.ndarray, forgetting: float = 1.0) -> None:
        H, T = self.shape.split(rows)
        if len(rows) == 1:
            return self._add_block(H, T, forgetting)
        for start in range(0, len(rows), self.block):
            self._add_block(H[start : start + self.block], T[start : start + self.block], forgetting)

    def _add_block(self, H: np.ndarray, T: np.ndarray, forgetting: float) -> None:
        if self.waiting + len(H) > self.block:
            self.flush()
        place = slice(self.waiting, self.waiting + len(H))
        self.H[place], self.T[place] = H, T
        if forgetting < 1.0:
            # everything is divided by the decay so far, which makes new rows larger instead of old ones smaller
            decay = self.decay * forgetting ** np.arange(1, len(H) + 1)
            self.H[place] /= np.sqrt(decay)[:, None]
            self.T[place] /= np.sqrt(decay)[:, None]
            self.decay = float(decay[-1])
        self.waiting += len(H)
        if self.waiting >= min(self.block, WAITING) or self.decay < FADED or not self._full:
            self.flush()

    @property
    def _full(self) -> bool:
        """Whether no diagonal entry is 0: none that is penalised is."""
        if self.shape.C is None:
            return bool(self.R.diagonal().all())
        return not self.shape.fit_intercept or bool(self.R[0, 0])

    def flush(self) -> None:
        """Take the waiting rows into the factor."""
        if self.waiting:
            self._flush()

    @few_threads
    def _flush(self) -> None:
        take_in(self.R, self.z, self.H[: self.waiting], self.T[: self.waiting])
        if self.decay < 1.0:
            self._fade(self.decay)
        self.waiting, self.decay = 0, 1.0
        self.V, self.G = self.V[:, :0], self.G[:0, :0]

    def _fade(self, decay: float) -> None:
        self.R *= np.sqrt(decay)
        self.z *= np.sqrt(decay)
        self.faded = 1.0 - decay * (1.0 - self.faded)
        if self.faded > FADED:
            self._mend()

    def _mend(self) -> None:
        """Put back the penalty that has faded."""
        missing = np.diag(np.sqrt(self.faded * self.shape.ridge))
        take_in(self.R, self.z, missing, np.zeros_like(self.z), triangular=True)
        self.faded = 0.0

    @few_threads
    def add_statistics(self, sums: Statistics | TriangularStatistics, decay: float = 1.0) -> None:
        self.flush()
        if decay < 1.0:
            self._fade(decay)
        if isinstance(sums, TriangularStatistics):
            c = int(self.shape.fit_intercept)
            H = sums.factor[:, 1 - c : 1 + self.shape.n_features]
            T = np.column_stack([sums.factor[:, 1 + self.shape.n_features :], sums.factor[:, 0]])
            take_in(self.R, self.z, H, T)
            return
        tried, R = self._tried
        if tried is not sums or decay < 1.0:
            R = self._squared_root(sums)
        self._tried = _NOTHING
        B = self.R.T @ self.z + right_hand_side(sums, self._bare)
        self.R, self.z = R, np.asfortranarray(solve_upper(R, B, transposed=True))

    @property
    def _bare(self) -> Shape:
        return replace(self.shape, C=None)

    def _squared_root(self, sums: Statistics) -> np.ndarray:
        """The factor with these sums in it, by squaring."""
        return upper_root(dsyrk(1.0, self.R, trans=1) + np.triu(matrix(sums, self._bare)))

    @few_threads
    def squarable(self, sums: Statistics) -> bool:
        """Whether taking in these sums keeps the digits; where it does not, later ones are not tried."""
        self.flush()
        try:
            R = self._squared_root(sums)
            rcond = upper_rcond(R)
        except LinAlgError:
            rcond = 0.0
        self.squared = rcond**2 * SQUARED >= EPS
        self._tried = (sums, R) if self.squared else _NOTHING
        return self.squared

    @few_threads
    def remove(self, rows: np.ndarray) -> None:
        self._take_out(*self.shape.split(rows))

    def _take_out(self, H: np.ndarray, T: np.ndarray) -> None:
        R, z = self._taken_in()
        V = solve_upper(R, H.T, transposed=True)
        # RᵀR − HᵀH = Rᵀ(I − VVᵀ)R
        C = check_remainder(V)
        self.R = np.asfortranarray(np.triu(C @ R))
        self.z = np.asfortranarray(solve_upper(C, z - V @ T, transposed=True))
        self.faded = self.faded_now  # the waiting rows are in R, and so is their decay
        self._wait()
        if self.faded > FADED:
            self._mend()

    @few_threads
    def merge(self, other: "SquareRoot") -> None:
        """Learn all that another recursion has learned; its penalty is not counted twice."""
        R, z = other._taken_in()
        self.flush()
        take_in(self.R, self.z, R, z, triangular=True)
        doubled = np.diag(np.sqrt((1.0 - other.faded_now) * self.shape.ridge))
        self._take_out(doubled, np.zeros_like(self.z))

    @property
    def faded_now(self) -> float:
        """The share of the penalty that has faded, by the waiting rows as well."""
        return 1.0 - self.decay * (1.0 - self.faded)

    def _taken_in(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of ``R`` and ``z`` with the waiting rows in them."""
        R, z = self.R.copy(order="F"), self.z.copy(order="F")
        take_in(R, z, self.H[: self.waiting], self.T[: self.waiting])
        return R * np.sqrt(self.decay), z * np.sqrt(self.decay)

    def _look_ahead(self) -> None:
        """``V = R⁻ᵀHᵀ`` and ``G = VᵀV`` for rows that have come to wait since the last time.

        One by one, as BLAS rounds by how many there are, and that is by when somebody asked before.
        """
        new = [dtrsv(self.R, h, trans=1) for h in self.H[len(self.G) : self.waiting]]
        if not new:
            return
        known, count = len(self.G), self.waiting
        V, G = np.empty((len(self.R), count), order="F"), np.empty((count, count))
        V[:, :known], G[:known, :known] = self.V[:, :known], self.G
        for k, v in enumerate(new, known):
            V[:, k] = v
            G[k, : k + 1] = G[: k + 1, k] = V[:, : k + 1].T @ v
        self.V, self.G = V, G

    @few_threads
    def weights(self) -> np.ndarray:
        """``β``, the waiting rows included."""
        self._look_ahead()
        V, R = self.V, self.R
        S = upper_root(np.eye(self.waiting) + self.G) if self.waiting else None

        def inner(x: np.ndarray) -> np.ndarray:
            """``(I + VVᵀ)⁻¹ x``."""
            return x if S is None else x - V @ solve_root(S, V.T @ x)

        def inverse(x: np.ndarray) -> np.ndarray:
            half = inner(solve_upper(R, x, transposed=True))
            return solve_upper(R, half)

        m = self.shape.n_outputs
        z = self.z[:, :m]
        if S is not None:
            z = z + V @ solve_root(S, self.T[: self.waiting, :m] - V.T @ z)
        beta = np.column_stack([dtrsv(R, each) for each in z.T]) if 0 < m <= SEVERAL else solve_upper(R, z)
        return keep_ridge(beta, self.faded_now / self.decay * self.shape.ridge, inverse)

    @few_threads
    def solution(self) -> Solution:
        beta = self.weights()
        R, z = self._taken_in()
        take_in(R, z, np.diag(np.sqrt(self.faded_now * self.shape.ridge)), np.zeros_like(z), triangular=True)
        return self.shape.solution(beta, self.form, leverage_of(R, self.shape))

    def recode(self, M: np.ndarray) -> None:
        self.flush()
        self.z = np.asfortranarray(np.column_stack([self.z @ M, self.z[:, -1]]))
        self.shape = recoded(self.shape, M)
        self._wait()

    def widen(self) -> None:
        self.flush()
        self.shape = widened(self.shape)
        self.R = np.asfortranarray(np.pad(self.R, (0, 1)))
        self.R[-1, -1] = np.sqrt((1.0 - self.faded) * self.shape.ridge[-1])
        self.z = np.asfortranarray(np.pad(self.z, ((0, 1), (0, 0))))
        self._wait()

    @few_threads
    def to_statistics(self) -> Statistics:
        R, z = self._taken_in()
        return sums_of(R.T @ R - np.diag((1.0 - self.faded_now) * self.shape.ridge), R.T @ z, self.shape)

    @property
    def squares(self) -> bool:
        return self.squared
