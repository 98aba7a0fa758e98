"""What Newton's method asks of rows, and what it gets: a point goes out, sums at that point come in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ulmus.engine import Rows
from ulmus.losses import Loss
from ulmus.statistics import Statistics


@dataclass(frozen=True)
class Request:
    """A point, and what D is to be there: ``"curvature"`` f'', ``"weight"`` f'(e)/e, or None for no D at all.

    D only points the way, so where rows are many it may come from some of them, unless it is to be ``thorough``.
    """

    beta: np.ndarray
    intercept: float
    wanted: str | None
    thorough: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Residuals ``φβ + b − t``, the gradient of ``Σ w f`` in β and b, and D as sums or row by row.

    Where nothing is held per row there are no residuals, but ``Σ w f`` and ``Σ w f''``: ``value`` and ``bend``.
    """

    residual: np.ndarray
    gradient: np.ndarray
    gradient_b: float
    moments: Statistics | None = None
    diagonal: np.ndarray | None = None
    value: float = np.nan
    bend: float = np.nan


class Leverages(Protocol):
    """``φ̃ᵀ(ΦᵀDΦ + I/C)⁻¹φ̃`` and the constant's share, as :class:`ulmus.solvers.ridge.Leverage` has them."""

    @property
    def centre(self) -> np.ndarray: ...

    @property
    def constant(self) -> float: ...

    def __call__(self, Phi: np.ndarray) -> np.ndarray: ...

    def inverse(self, V: np.ndarray) -> np.ndarray: ...

    def scaled(self, factor: float) -> "Leverages": ...


class System(Protocol):
    """A factored ``ΦᵀDΦ + I/C``, centred where there is an intercept."""

    @property
    def centre(self) -> np.ndarray: ...

    @property
    def weight(self) -> float: ...

    @property
    def leverage(self) -> Leverages: ...

    def inverse(self, B: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Way:
    """From one evaluated point of an output, by the direction ``(d, d_b)``, to the other: the full step."""

    output: int
    here: Evaluation
    there: Evaluation
    beta: np.ndarray
    intercept: float
    d: np.ndarray
    d_b: float

    def point(self, alpha: float) -> Request:
        """So much of the step."""
        return Request(self.beta + alpha * self.d, self.intercept + alpha * self.d_b, None)


class Objective(Protocol):
    """``Σ w f(φβ + b − t)`` as Newton's method sees it, wherever the rows are.

    ``tolerance`` is that of the stop rule, unless one is given. A factor is used again while residuals move by less
    than ``reuse`` times the transition.
    """

    tolerance: ClassVar[float]
    reuse: ClassVar[float]

    @property
    def fit_intercept(self) -> bool: ...

    @property
    def n_features(self) -> int: ...

    @property
    def largest_targets(self) -> np.ndarray:
        """The largest absolute target of every output."""

    def value(self, loss: Loss, c: float, found: Evaluation) -> float:
        """``Σ w f`` at an evaluated point."""

    def bend(self, loss: Loss, c: float, found: Evaluation) -> float:
        """``Σ w f''`` at an evaluated point."""

    def along(self, loss: Loss, c: np.ndarray, way: Way) -> Callable[[float], tuple[float, float]]:
        """``Σ w f`` and its slope for every share of a step; ``c`` is that of every output."""

    def sweep(self, loss: Loss, c: np.ndarray, requests: Mapping[int, Request]) -> dict[int, Evaluation]:
        """Evaluate the objective of each output (a key of ``requests``) at its point, in one pass."""

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        """Factor what the sweep found; LinAlgError where that is not positive definite."""


class NewtonRows(Objective, Protocol):
    """The same over rows in memory, with a residual for each."""

    @property
    def rows(self) -> Rows: ...

    def without(self, left_out: np.ndarray) -> "NewtonRows":
        """The rows for which ``left_out`` is False."""

    def with_targets(self, T: np.ndarray) -> "NewtonRows":
        """The same rows with other targets."""
