r"""Recursive ridge: weights that follow their rows, in three forms that give the same answer.

Every form stands for :math:`K = E/C + \sum_i \omega_i a_i a_i^T` and :math:`B = \sum_i \omega_i a_i t_i^T` over rows
:math:`a = [1\ \phi]` (or :math:`\phi` alone), with weights :math:`\beta = K^{-1}B`. The constant is not penalised:
E is the identity without its entry. A row fades by ``forgetting`` with every row that follows it, the penalty does not.

===============  ======================================  ============================================================
form             holds                                   a row costs
===============  ======================================  ============================================================
``information``  :math:`K, B`                            :math:`L^2` to add; :math:`L^3/3` when weights are asked for
``covariance``   :math:`P = K^{-1}, \beta`               :math:`2L^2`; subtracts, so that round-off grows
``root``         :math:`R, z`: :math:`R^TR = K`,         :math:`2L^2` in blocks; orthogonal, so that no digit is lost;
                 :math:`z = R^{-T}B`                     weights by two triangular solves when asked for
===============  ======================================  ============================================================

Rows of the ``root`` form wait until there are enough (:data:`BLOCK`, :data:`WAITING`). Until then weights come from the
factor and the waiting rows H by Woodbury's identity, with :math:`V = R^{-T}H^T`,

.. math:: \beta = R^{-1}\big(z + V (I + V^TV)^{-1} (T - V^Tz)\big),

which costs one triangular solve per new row and changes nothing in the state.

Forgetting lets the penalty fade with the rows, to :math:`(1-\delta)E/C`. What is missing is put back exactly when
weights are asked for, :math:`(I + \mu K^{-1}E)\beta_{kept} = \beta` with :math:`\mu=\delta/C`, by conjugate gradients;
that matrix has eigenvalues between 1 and 2 as long as :math:`\delta \le 1/2`, and the factor is mended when it is more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, lapack
from scipy.linalg.blas import dtrsm

from ulmus import engine
from ulmus.solvers.ridge import EPS, Leverage, Solution, fit_sums
from ulmus.statistics import Statistics, TriangularStatistics, upper_factor

#: Rows that wait to be taken into the factor together: half as many as features, within these bounds.
BLOCK = (32, 512)
#: Waiting rows that are taken into the factor at once, as weights are computed among fewer. Whether any were asked for
#: does not matter: answers to the same rows are the same bits, whoever was answered in between.
WAITING = 128
#: Share of the penalty that may have faded before the factor is mended.
FADED = 0.5
#: What is left of a row's weight in itself, 1 − h, below which taking it out leaves nothing but round-off.
LEAST_REMAINDER = 1e-10
#: Loss of digits (round-off times condition number) up to which a batch of rows is squared instead of orthogonalised.
SQUARED = 1e-8


class NotDefiniteError(ValueError):
    """Rows cannot be taken out: what is left would not be positive definite."""


@dataclass(frozen=True)
class Shape:
    """What the recursion is about: features, outputs, the penalty, and whether there is a constant."""

    n_features: int
    n_outputs: int
    C: float | None
    fit_intercept: bool

    @property
    def width(self) -> int:
        """Columns of ``a``."""
        return self.n_features + self.fit_intercept

    @property
    def ridge(self) -> np.ndarray:
        """The diagonal of ``E/C``."""
        ridge = np.full(self.width, 0.0 if self.C is None else 1.0 / self.C)
        ridge[: int(self.fit_intercept)] = 0.0
        return ridge

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``a`` and ``[t 1]`` of rows ``√w [φ t 1]``."""
        D = self.n_features
        A = np.concatenate([rows[:, -1:], rows[:, :D]], axis=1) if self.fit_intercept else rows[:, :D]
        return A, rows[:, D:]

    def solution(self, beta: np.ndarray, form: str, leverage: Leverage) -> Solution:
        """Weights of the features, and of the constant, for the targets without the constant target."""
        # not as part of the solve's array: a copy that was pickled has its own, and BLAS sums by how arrays lie
        beta = np.ascontiguousarray(beta[:, : self.n_outputs])
        if self.fit_intercept:
            return Solution(beta[1:], beta[0], form, np.nan, leverage)
        return Solution(beta, np.zeros(self.n_outputs), form, np.nan, leverage)


Method = TypeVar("Method", bound=Callable[..., Any])


def few_threads(method: Method) -> Method:
    """A method that runs BLAS on one thread while matrices are small: several would mostly wait for each other."""

    @wraps(method)
    def limited(self: "Recursion", *args: Any, **options: Any) -> Any:
        with engine.threads_for(self.shape.width):
            return method(self, *args, **options)

    return limited  # type: ignore[return-value]


def solve_upper(R: np.ndarray, X: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """``R⁻¹X`` or ``R⁻ᵀX``. (LAPACK's own triangular solve wakes all threads for the smallest matrix.)"""
    return np.asarray(dtrsm(1.0, R, X, trans_a=int(transposed)))


def solve_root(R: np.ndarray, X: np.ndarray) -> np.ndarray:
    """``(RᵀR)⁻¹X``."""
    return solve_upper(R, solve_upper(R, X, transposed=True))


def upper_root(K: np.ndarray) -> np.ndarray:
    """The upper triangular ``R`` with ``RᵀR = K``, in Fortran order; LinAlgError when there is none."""
    R, info = lapack.dpotrf(K, lower=0, clean=1)
    if info:
        raise LinAlgError(f"not positive definite at row {info}")
    return np.asarray(R)


def keep_ridge(beta: np.ndarray, mu: np.ndarray, inverse: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """``(K + diag μ)⁻¹ K β`` from ``K⁻¹``, by conjugate gradients on ``x + K⁻¹ diag(μ) x = β`` where ``μ > 0``."""
    on = mu > 0
    if not on.any():
        return beta
    root = np.sqrt(mu[on])[:, None]

    def apply(x: np.ndarray) -> np.ndarray:
        full = np.zeros_like(beta)
        full[on] = root * x
        return inverse(full)

    # symmetric in y = √μ β: (I + √μ K⁻¹ √μ) y = √μ β
    y = np.zeros((int(on.sum()), beta.shape[1]))
    r = root * beta[on]
    p, rr = r.copy(), np.einsum("ij,ij->j", r, r)
    goal = (32 * EPS) ** 2 * rr
    for _ in range(100):
        if (rr <= goal).all():
            break
        q = p + root * apply(p)[on]
        step = rr / np.maximum(np.einsum("ij,ij->j", p, q), np.finfo(float).tiny)
        y += step * p
        r -= step * q
        new = np.einsum("ij,ij->j", r, r)
        p = r + new / np.maximum(rr, np.finfo(float).tiny) * p
        rr = new
    return beta - apply(y)


class Recursion(ABC):
    """What every form can do. Rows are ``√w [φ t 1]``, oldest first."""

    form: ClassVar[str]

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @abstractmethod
    def add(self, rows: np.ndarray, forgetting: float = 1.0) -> None:
        """Learn rows; each lets all before it fade by ``forgetting``."""

    @abstractmethod
    def add_statistics(self, sums: Statistics | TriangularStatistics, decay: float = 1.0) -> None:
        """Learn rows by their sums, what was there before fading by ``decay``."""

    @abstractmethod
    def remove(self, rows: np.ndarray) -> None:
        """Take rows out; :class:`NotDefiniteError` when that is impossible, with nothing changed."""

    def merge(self, other: Any) -> None:
        """Learn all that another recursion of this form has learned."""
        self.add_statistics(other.to_statistics())

    @abstractmethod
    def solution(self) -> Solution:
        """Weights, and the leverages that come with them."""

    @abstractmethod
    def recode(self, M: np.ndarray) -> None:
        """Make the targets ``[t 1] M``."""

    @abstractmethod
    def widen(self) -> None:
        """Append a feature that no row so far has had (its weight starts from the penalty)."""

    @abstractmethod
    def to_statistics(self) -> Statistics:
        """``K − E/C`` and ``B`` as sums; what the form does not hold of them (``TᵀT``) is zero."""

    @property
    def squares(self) -> bool:
        """Whether a batch of rows may be given as squared sums."""
        return True


class Information(Recursion):
    """``K`` and ``B`` as sums."""

    form = "information"

    def __init__(self, shape: Shape, sums: Statistics | None = None) -> None:
        super().__init__(shape)
        # a copy: sums are added to in place
        self._sums = sums.scaled(1.0) if sums is not None else Statistics.zeros(shape.n_features, shape.n_outputs)
        self._mirrored = True

    @property
    def sums(self) -> Statistics:
        """The sums; while rows are added only one triangle is kept up to date."""
        if not self._mirrored:
            self._sums.symmetrise()
            self._mirrored = True
        return self._sums

    @few_threads
    def add(self, rows: np.ndarray, forgetting: float = 1.0) -> None:
        n = len(rows)
        if forgetting < 1.0:
            rows = rows * forgetting ** (0.5 * np.arange(n - 1, -1, -1))[:, None]
            self._sums.moments *= forgetting**n
        self._sums.add_rows(np.ascontiguousarray(rows))
        self._mirrored = False

    def add_statistics(self, sums: Statistics | TriangularStatistics, decay: float = 1.0) -> None:
        sums = sums if isinstance(sums, Statistics) else sums.to_gram()
        self._sums = (self.sums if decay == 1.0 else self.sums.scaled(decay)) + sums

    @few_threads
    def remove(self, rows: np.ndarray) -> None:
        A, _ = self.shape.split(rows)
        K = matrix(self.sums, self.shape)
        check_remainder(solve_upper(upper_root(K), A.T, transposed=True))
        self._sums = self.sums - Statistics(rows.T @ rows, self.shape.n_outputs, len(rows))

    @few_threads
    def solution(self) -> Solution:
        return fit_sums(self.sums, self.shape.C, self.shape.fit_intercept)

    @few_threads
    def recode(self, M: np.ndarray) -> None:
        self._sums = self.sums.recoded(M)
        self.shape = recoded(self.shape, M)

    def widen(self) -> None:
        D = self.shape.n_features
        moments = np.insert(np.insert(self.sums.moments, D, 0.0, axis=0), D, 0.0, axis=1)
        self._sums = Statistics(moments, self.sums.n_outputs, self.sums.n_rows)
        self.shape = widened(self.shape)

    def to_statistics(self) -> Statistics:
        return self.sums


def matrix(sums: Statistics, shape: Shape) -> np.ndarray:
    """``K``."""
    D = shape.n_features
    order = np.r_[len(sums.moments) - 1, 0:D] if shape.fit_intercept else np.arange(D)
    return sums.moments[np.ix_(order, order)] + np.diag(shape.ridge)


def right_hand_side(sums: Statistics, shape: Shape) -> np.ndarray:
    """``B``, for the targets ``[t 1]``."""
    D = shape.n_features
    B = sums.moments[:, D:]
    return np.concatenate([B[-1:], B[:D]]) if shape.fit_intercept else B[:D]


def sums_of(K: np.ndarray, B: np.ndarray, shape: Shape) -> Statistics:
    """Sums with this ``K`` (without its penalty) and ``B``."""
    D = shape.n_features
    sums = Statistics.zeros(D, shape.n_outputs)
    M, c = sums.moments, int(shape.fit_intercept)
    M[:D, :D], M[:D, D:] = K[c:, c:], B[c:]
    if shape.fit_intercept:
        M[-1, D:] = B[0]
    M[D:, :D] = M[:D, D:].T
    M[D:-1, -1] = M[-1, D:-1]
    return sums


def start_of(solution: Solution, shape: Shape, total: float) -> tuple[np.ndarray, np.ndarray]:
    """``R`` and ``z`` (for the targets ``[t 1]``) of a batch solution, ``total`` being the sum of its weights."""
    leverage, C = solution.leverage, shape.C
    if leverage.rows is not None:
        G = upper_factor(np.vstack([leverage.rows, np.eye(shape.n_features) / np.sqrt(C or np.inf)]))
    elif leverage.spectral:
        if leverage.root.shape[1] < shape.n_features:
            raise LinAlgError(f"rank {leverage.root.shape[1]} of {shape.n_features}")
        G = upper_factor(np.linalg.pinv(leverage.root))
    else:
        G = np.triu(leverage.root.T)
    if not shape.fit_intercept:
        return G, np.column_stack([G @ solution.beta, np.zeros(len(G))])
    # rows [1 φ] about their mean: the first line is √n [1 mean], the rest is the factor of the centred rows
    root = np.sqrt(total)
    top = np.concatenate([[1.0], leverage.centre])
    R = np.block([[root * top[:1], root * top[1:]], [np.zeros((len(G), 1)), G]])
    weights = np.vstack([solution.intercept, solution.beta])
    return R, np.column_stack([R @ weights, R[:, 0]])


def check_remainder(V: np.ndarray, round_off: float = 0.0) -> np.ndarray:
    """The factor ``C`` of ``I − VVᵀ = CᵀC``, or :class:`NotDefiniteError`, for ``V = R⁻ᵀHᵀ`` of rows to take out.

    What is left must be more than its round-off.
    """
    h = np.linalg.norm(V, 2) ** 2 if V.size else 0.0
    if not 1.0 - h > LEAST_REMAINDER:
        raise NotDefiniteError(f"1 − h = {1.0 - h:.1e}")
    if not 1.0 - h > round_off:
        raise NotDefiniteError(
            f'1 − h = {1.0 - h:.1e}, of which {round_off:.1e} may be round-off; form="root" keeps more digits'
        )
    S = -(V @ V.T)
    S[np.diag_indices_from(S)] += 1.0
    return upper_root(S)


def leverage_of(R: np.ndarray, shape: Shape) -> Leverage:
    """Leverages under ``K = RᵀR``: with a constant, about the mean of the rows."""
    if not shape.fit_intercept:
        return Leverage(np.ascontiguousarray(R.T), np.zeros(shape.n_features), 0.0)
    return Leverage(np.ascontiguousarray(R[1:, 1:].T), R[0, 1:] / R[0, 0], 1.0 / R[0, 0] ** 2)


def recoded(shape: Shape, M: np.ndarray) -> Shape:
    return replace(shape, n_outputs=M.shape[1])


def widened(shape: Shape) -> Shape:
    return replace(shape, n_features=shape.n_features + 1)
