"""The sums that a closed-form model needs, and nothing else.

For rows ``[φ, t, 1]`` with weights ``w`` every statistic is a block of one matrix of second moments,

    Σ w [φ t 1]ᵀ[φ t 1]  =  | G   B   q |        G = ΦᵀWΦ,  B = ΦᵀWT,  q = Σ w φ
                            | Bᵀ  S   t |        S = TᵀWT,             t = Σ w t
                            | qᵀ  tᵀ  w |

Sums add (threads, files, machines, time), scale (forgetting) and subtract (unlearning).
:class:`Statistics` holds the matrix; :class:`TriangularStatistics` holds its triangular factor, which keeps the
digits that squaring loses.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ulmus._blas import mirror_upper, solve_lower, solve_lower_transposed, syrk, times_own_transpose
from ulmus._threads import on_threads

#: Sizes of targets whose squares, and sums of a million of them, are numbers in float64.
SQUARABLE = (1e-151, 1e151)
#: Features up to which sums are whitened at once; of more, so many at a time.
WHITENED_AT_ONCE = 512


def refuse_sizes(T: np.ndarray, least: float, most: float) -> None:
    """Refuse targets, an output a column, of which the largest is not 0 and not within these sizes."""
    sizes = np.abs(T[0] if len(T) == 1 else T)
    for j, size in enumerate(sizes if len(T) == 1 else sizes.max(axis=0, initial=0.0)):
        if size > most or 0 < size < least:
            which = "" if T.shape[1] == 1 else f" of output {j}"
            raise ValueError(
                f"the largest target{which} is {size:.3g}, and float64 holds what a fit computes from targets of "
                f"{least:.0e} to {most:.0e}; fit y / {size:.1g} and multiply the predictions by {size:.1g}"
            )


def power_of_two(size: np.ndarray) -> np.ndarray:
    """The power of two below every size (1 for 0): units that cost no digit."""
    return np.asarray(np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0)))))


def root_mean_square(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """``√(Σwv²/Σw)`` of every column, also where the squares are no numbers in float64."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    unit = power_of_two(largest)
    return np.asarray(unit * np.sqrt(np.average((values / unit) ** 2, axis=0, weights=weight)))


def design_matrix(Phi: np.ndarray, T: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Rows ``√w [φ t 1]``."""
    D = Phi.shape[1]
    rows = np.empty((len(T), D + T.shape[1] + 1))
    rows[:, :D], rows[:, D:-1], rows[:, -1] = Phi, T, 1.0
    if weight is not None:
        rows *= np.sqrt(weight)[:, None]
    return rows


def upper_factor(rows: np.ndarray) -> np.ndarray:
    """``R`` of the QR factorisation (NumPy's runs outside the interpreter lock)."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


@dataclass
class Statistics:
    """Second moments of the rows ``[φ t 1]``.

    While rows are being added only the upper triangle is kept up to date; :meth:`symmetrise` completes it.
    """

    moments: np.ndarray
    n_outputs: int
    n_rows: int = 0

    @classmethod
    def zeros(cls, n_features: int, n_outputs: int) -> Self:
        width = n_features + n_outputs + 1
        return cls(np.zeros((width, width)), n_outputs)

    @classmethod
    def of(cls, Phi: np.ndarray, T: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """Statistics of the given feature rows and targets."""
        rows = design_matrix(Phi, T, weight)
        return cls(times_own_transpose(rows.T), T.shape[1], len(T))

    def reset(self) -> None:
        self.moments[:] = 0.0
        self.n_rows = 0

    def add_rows(self, rows: np.ndarray, scratch: np.ndarray | None = None) -> None:
        """Add rows ``√w [φ t 1]``.

        A float32 block is multiplied in float32, into ``scratch`` (its lower triangle is zero), and summed in float64.
        """
        if rows.dtype == np.float64:
            syrk(rows, self.moments, accumulate=True)
        else:
            assert scratch is not None
            syrk(rows, scratch, accumulate=False)
            self.moments += scratch
        self.n_rows += len(rows)

    def symmetrise(self) -> Self:
        """Mirror the upper triangle."""
        mirror_upper(self.moments)
        return self

    def _with(self, moments: np.ndarray, n_rows: int) -> Self:
        return replace(self, moments=moments, n_rows=n_rows)

    def __iadd__(self, other: "Statistics") -> Self:
        self.moments += other.moments
        self.n_rows += other.n_rows
        return self

    def __add__(self, other: Self) -> Self:
        return self._with(self.moments + other.moments, self.n_rows + other.n_rows)

    def __sub__(self, other: Self) -> Self:
        return self._with(self.moments - other.moments, self.n_rows - other.n_rows)

    def scaled(self, factor: float) -> Self:
        """Every row counted ``factor`` times: exponential forgetting when ``factor < 1``."""
        return self._with(factor * self.moments, self.n_rows)

    def prefix(self, n_features: int) -> Self:
        """Statistics of the model that uses the first features only."""
        if n_features == self.n_features:
            return self
        keep = np.r_[0:n_features, self.n_features : len(self.moments)]
        return self._with(self.moments[np.ix_(keep, keep)], self.n_rows)

    def recoded(self, M: np.ndarray) -> "Statistics":
        """Statistics of the targets ``[t 1] M``: columns that any known columns and the constant give."""
        D, change = self.n_features, np.column_stack([M, np.eye(len(M))[:, -1]])
        out = np.empty((D + change.shape[1],) * 2)
        beside = self.moments[:, D:] @ change
        out[:D, :D], out[:D, D:], out[D:, :D] = self.gram, beside[:D], beside[:D].T
        out[D:, D:] = change.T @ beside[D:]
        return Statistics(out, M.shape[1], self.n_rows)

    def whitened(self, R: np.ndarray, n_jobs: int | None = 1) -> Self:
        """Statistics of the features ``φ R⁻ᵀ``, for a lower triangular ``R``."""
        D = self.n_features
        if D > WHITENED_AT_ONCE:
            return self._whitened_in_panels(R, n_jobs)
        out = self.moments.copy()
        solve_lower(R, out[:D])
        left = out[:, :D].copy()
        solve_lower_transposed(R, left)
        out[:, :D] = left
        return self._with((out + out.T) / 2, self.n_rows)

    def _whitened_in_panels(self, R: np.ndarray, n_jobs: int | None) -> Self:
        """The same by threads, each with some rows; of the second half of the work, one triangle is enough."""
        D, M = self.n_features, self.moments
        half, out = np.empty((len(M), D)), np.empty_like(M)

        def first(rows: slice) -> None:
            half[rows] = M[rows, :D]
            solve_lower_transposed(R, half[rows])

        def second(rows: slice) -> None:
            few = np.ascontiguousarray(half[: rows.stop, rows].T)
            solve_lower_transposed(R[: rows.stop, : rows.stop], few)
            out[: rows.stop, rows] = few.T

        starts = range(0, D, WHITENED_AT_ONCE)
        panels = [slice(start, min(start + WHITENED_AT_ONCE, D)) for start in starts]
        on_threads(first, [*panels, slice(D, len(M))], n_jobs)
        on_threads(second, panels, n_jobs)
        out[:, D:], out[D:, :D] = M[:, D:], half[D:]
        out[:D, D:] = half[D:].T
        mirror_upper(out[:D, :D])
        return self._with(out, self.n_rows)

    @property
    def n_features(self) -> int:
        return len(self.moments) - self.n_outputs - 1

    @property
    def gram(self) -> np.ndarray:
        """``G``."""
        return self.moments[: self.n_features, : self.n_features]

    @property
    def cross(self) -> np.ndarray:
        """``B``."""
        return self.moments[: self.n_features, self.n_features : -1]

    @property
    def target(self) -> np.ndarray:
        """``S``."""
        return self.moments[self.n_features : -1, self.n_features : -1]

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.moments[-1, -1])

    @property
    def feature_mean(self) -> np.ndarray:
        return self.moments[: self.n_features, -1] / self.weight

    @property
    def target_mean(self) -> np.ndarray:
        return self.moments[self.n_features : -1, -1] / self.weight

    def centred(self) -> Self:
        """Statistics of the rows with the weighted means of features and targets taken out."""
        total = self.moments[:, -1] / self.weight
        out = self.moments - self.weight * np.outer(total, total)
        out[-1, -1] = self.weight
        return self._with(out, self.n_rows)

    def about_means(self, fit_intercept: bool) -> tuple[Self, np.ndarray, np.ndarray]:
        """Centred sums with the means of features and targets, for an intercept; without, all about zero."""
        if fit_intercept:
            return self.centred(), self.feature_mean, self.target_mean
        return self, self._zeros(self.n_features), self._zeros(self.n_outputs)

    def _zeros(self, count: int) -> np.ndarray:
        return np.zeros(count)


@dataclass(frozen=True)
class Extent:
    """What sums do not tell of the rows: the range of every target, and of a kernel ``κ(x,x)`` its sum and maximum."""

    low: np.ndarray
    high: np.ndarray
    diagonal_sum: float = 0.0
    diagonal_max: float = 0.0

    @classmethod
    def of(cls, T: np.ndarray, diagonal: np.ndarray | None = None, weight: np.ndarray | None = None) -> "Extent":
        """Of the targets of rows (none of them is infinitely small) and of their ``κ(x,x)``."""
        low, high = (T[0], T[0]) if len(T) == 1 else (T.min(axis=0, initial=np.inf), T.max(axis=0, initial=-np.inf))
        if diagonal is None or not len(T):
            return cls(low, high)
        total = float(diagonal.sum() if weight is None else weight @ diagonal)
        return cls(low, high, total, float(diagonal.max()))

    def __add__(self, other: "Extent") -> "Extent":
        return Extent(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.diagonal_sum + other.diagonal_sum,
            max(self.diagonal_max, other.diagonal_max),
        )

    @property
    def target_bound(self) -> float:
        return float(max(self.high.max(), -self.low.min()))

    @property
    def target_reach(self) -> np.ndarray:
        """Half the range of every target: what predictions have to tell apart, wherever 0 may be."""
        return self.high / 2 - self.low / 2


@dataclass(frozen=True)
class Summary:
    """Sums of all rows and, when there are folds, of each fold; and the extent of the rows."""

    total: Statistics
    folds: tuple[Statistics, ...] = ()
    extent: Extent | None = None

    @classmethod
    def of(
        cls, statistics: Callable[[Any], Statistics], rows: Any, folds: np.ndarray | None, n_folds: int | None = None
    ) -> "Summary":
        """Those of rows that can be taken by number; rows of fold −1 are in the total only."""
        if folds is None:
            return cls(statistics(rows))
        n_folds = int(folds.max()) + 1 if n_folds is None else n_folds
        parts = tuple(statistics(rows.take(np.flatnonzero(folds == k))) for k in range(n_folds))
        never_tested = np.flatnonzero(folds < 0)
        total = sum(parts[1:], parts[0])
        if len(never_tested):
            total = total + statistics(rows.take(never_tested))
        return cls(total, parts)

    def __add__(self, other: "Summary") -> "Summary":
        extent = self.extent if other.extent is None else other.extent
        if self.extent is not None and other.extent is not None:
            extent = self.extent + other.extent
        folds = tuple(a + b for a, b in zip(self.folds, other.folds, strict=True))
        return Summary(self.total + other.total, folds, extent)

    def prefix(self, n_features: int) -> "Summary":
        """Those of the model that uses the first features only."""
        folds = tuple(part.prefix(n_features) for part in self.folds)
        return Summary(self.total.prefix(n_features), folds, self.extent)

    @property
    def target_bound(self) -> float:
        assert self.extent is not None
        return self.extent.target_bound

    @property
    def target_reach(self) -> np.ndarray:
        assert self.extent is not None
        return self.extent.target_reach


@dataclass
class TriangularStatistics:
    """Triangular form: ``factorᵀ factor`` holds the second moments of the rows ``[1 φ t]``.

    The constant stands first, so that the factor below its first line is that of the **centred** rows.
    """

    factor: np.ndarray
    n_outputs: int
    n_rows: int = 0

    @classmethod
    def zeros(cls, n_features: int, n_outputs: int) -> Self:
        return cls(np.zeros((0, 1 + n_features + n_outputs)), n_outputs)

    def add_rows(self, rows: np.ndarray) -> None:
        """Add rows ``√w [φ t 1]`` by QR of the stacked ``[factor; rows]``."""
        self.factor = upper_factor(np.vstack([self.factor, np.roll(rows, 1, axis=1)]))
        self.n_rows += len(rows)

    def __iadd__(self, other: "TriangularStatistics") -> Self:
        self.factor = upper_factor(np.vstack([self.factor, other.factor]))
        self.n_rows += other.n_rows
        return self

    def scaled(self, factor: float) -> "TriangularStatistics":
        """Every row counted ``factor`` times."""
        return TriangularStatistics(np.sqrt(factor) * self.factor, self.n_outputs, self.n_rows)

    @property
    def n_features(self) -> int:
        return self.factor.shape[1] - 1 - self.n_outputs

    def least_squares(self, centred: bool) -> tuple[np.ndarray, np.ndarray]:
        """``A, Y`` with ``‖Aβ − Y‖`` equal to the (centred) residual norm of the rows, up to a constant."""
        R = self.factor[1:] if centred else self.factor
        return R[:, 1 : self.n_features + 1], R[:, self.n_features + 1 :]

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted means of the features and of the targets."""
        first = self.factor[0] / self.factor[0, 0]
        return first[1 : self.n_features + 1], first[self.n_features + 1 :]

    def to_gram(self) -> Statistics:
        """The Gram form of the same rows."""
        R: Any = np.roll(self.factor, -1, axis=1)
        return Statistics(times_own_transpose(R.T), self.n_outputs, self.n_rows)


#: Variance of one column over that of all others beyond which it dominates all distances; rows that tell.
DWARFS, DWARFING_ROWS = 1e4, 20_000


def dwarfing(X: Any) -> tuple[int, float, float] | None:
    """A column whose variance dwarfs that of all others together, its deviation and theirs; None without one."""
    if not isinstance(X, np.ndarray) or X.shape[1] < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        variance = np.asarray(X[:DWARFING_ROWS], dtype=np.float64).var(axis=0)
    if not np.isfinite(variance).all() or not (variance > 0).sum() > 1:
        return None
    largest = int(variance.argmax())
    others = float(variance.sum() - variance[largest])
    return (largest, float(np.sqrt(variance[largest])), others**0.5) if variance[largest] >= DWARFS * others else None
