"""What a fit has found is one frozen value; attributes of a model that end in ``_`` are views of it.

A refit, and a refusal, is one assignment (or none) of ``fitted_``, so that whoever reads a model while it learns sees
the state before a block or after it, never between. What is derived from the value is computed at the first call and
kept with it, so that it never outlives it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from ulmus.backend import predicting
from ulmus.calibration import HeldOut, MapLeaning, variance_terms
from ulmus.engine import Rows, apply, single_suffices, transform_rows
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import KernelVariance
from ulmus.solvers.nystrom_ridge import Certificate
from ulmus.statistics import Extent
from ulmus.tuning import Tuning

#: Rows that are predicted without the engine's threads.
FEW_ROWS = 64


@dataclass(frozen=True)
class Fitted:
    """All that a fit has found: weights, what targets are, how sure answers are, and the metric that features see by.

    ``keys`` are hashes of the ``n_rows`` rows, for a model that may be asked to unlearn one. While a model learns on,
    the ``certainty``, and the factor behind its weights, are None until somebody asks for them. ``columns`` are what
    scikit-learn notes of the columns that were fitted: a refit to others notes those before it has an answer for them.
    """

    weights: Any
    targets: Any
    certainty: Any = None
    metric: np.ndarray | None = None
    keys: np.ndarray | None = None
    n_rows: int | None = None
    columns: dict[str, Any] | None = None

    def has(self, *needs: str) -> bool:
        """Whether the parts that a reader needs are there: "weights", the "factor" behind them, the "certainty"."""
        no_factor = "factor" in needs and getattr(self.weights, "leverage", ()) is None
        return not (no_factor or ("certainty" in needs and self.certainty is None))


_NONE = object()
#: Attributes of which None is a value: no penalty, no local stage or trees, none that were tried, no frame.
_MAY_BE_NONE = ("C_", "local_", "local_losses_", "encoder_", "trees_", "tree_losses_")
#: Parts of a fit that need more than its weights.
_NEEDS = {"certainty": "certainty", "certificate": "factor", "leverage": "factor"}


class FittedView:
    """An attribute of an estimator that shows a part of its ``fitted_``; there is none where that part is None.

    ``kind`` and ``text`` are its entry in the docstring of the estimator, if it has one.
    """

    def __init__(self, name: str, path: str, kind: str = "", text: str = "") -> None:
        self.name, self.kind, self.text = name, kind, text
        self.part, *self.inside = path.split(".")
        self.need = next((_NEEDS[part] for part in path.split(".") if part in _NEEDS), "weights")

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        try:
            value = reduce(getattr, self.inside, model._part(self.part, self.need))
        except (NotFittedError, AttributeError):
            value = _NONE
        if value is _NONE or (value is None and self.name not in _MAY_BE_NONE):
            raise AttributeError(f"this {type(model).__name__} has no {self.name}")
        return value

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is what fit has found and cannot be set; call fit again")


class Derived:
    """``fitted_`` of a model that learns on: derived when it is asked for, until the next block comes."""

    def __get__(self, model: Any, owner: type) -> Fitted:
        if model is None:
            raise AttributeError(f"{owner.__name__} is a class; fitted_ is an attribute of its instances")
        try:
            found: Fitted = model._now("weights")
        except NotFittedError as error:
            raise AttributeError(f"this {owner.__name__} has learned nothing yet") from error
        return found


def views(**shown: str | tuple[str, str, str]) -> dict[str, FittedView]:
    """Attributes by name, each with the part of ``fitted_`` that it shows, and with kind and text for the docstring."""
    entries = {f"{name}_": (entry,) if isinstance(entry, str) else entry for name, entry in shown.items()}
    return {name: FittedView(name, *entry) for name, entry in entries.items()}


@dataclass(frozen=True)
class Learned:
    """The rows behind weights, so that a recursion can go on from them: how many, their weight, and their extent."""

    n_rows: int
    weight: float
    extent: Extent | None


@dataclass(frozen=True)
class RandomFit:
    """A random layer and output weights β on its nodes: ``f(x) = h(x)β + b``.

    ``narrow`` tells whether float32 rows may be predicted in float32, ``fall`` how far a model that is to be monotone
    is not.
    """

    features: Any
    beta: np.ndarray
    intercept: np.ndarray
    C: Any
    width: float
    size: int
    route: str
    leverage: Any
    narrow: bool
    tuning: Tuning | None = None
    learned: Learned | None = None
    fall: float | None = None

    def form(self, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
        """By what rows are predicted: features, and weights on them."""
        return self.features, self.beta

    def leaning(self, rows: HeldOut, n_jobs: int | None) -> Any:
        """What predictions of new rows lean on every row that was left out."""
        return MapLeaning.of(self.features, self.leverage, self.beta, rows)

    def scores(self, X: Any, device: str, n_jobs: int | None) -> np.ndarray:
        """``h(x)β`` of every row."""
        narrow = X.dtype == np.float32 and self.narrow
        if X.shape[0] > FEW_ROWS or narrow or device != "cpu":
            return applied(device, self.features, X, self.beta, np.float32 if narrow else np.float64, n_jobs)
        return np.asarray(transform_rows(self.features, X) @ self.beta)

    def variance_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Leverage of rows, and what their features leave of the prior variance, times C."""
        return variance_terms(self.features, X, self.leverage, n_jobs)


@dataclass(frozen=True)
class NystromFit:
    """A Nyström map and weights on its features: ``f(x) = F̂(x)β + b``, which is ``k_xz (R⁻ᵀβ) + b``.

    ``landmark_weights`` are ``R⁻ᵀβ`` and ``folds_in`` the types in which they keep the digits (models of earlier
    versions may name none: rows are whitened). On the iterative route
    there is no β, and ``features`` is the map of the first landmarks.
    """

    features: Any
    beta: np.ndarray | None
    intercept: np.ndarray
    C: Any
    width: float
    size: int
    route: str
    leverage: Any
    cross: CrossKernel
    landmark_weights: np.ndarray
    folds_in: tuple[Any, ...]
    certificate: Certificate | None = None
    tuning: Tuning | None = None
    learned: Learned | None = None
    n_iter: int = 1
    residual: float | None = None
    fall: float | None = None

    def form(self, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
        """By what rows are predicted: kernel values and weights on them, or (earlier models, overflow) the map."""
        if dtype in self.folds_in:
            return self.cross, self.landmark_weights
        assert self.beta is not None
        return self.features, self.beta

    def leaning(self, rows: HeldOut, n_jobs: int | None) -> Any:
        """What predictions of new rows lean on every row that was left out."""
        assert self.beta is not None
        return MapLeaning.of(self.features, self.leverage, self.beta, rows)

    def scores(self, X: Any, device: str, n_jobs: int | None) -> np.ndarray:
        """``F̂(x)β`` of every row."""
        dtype = X.dtype.type if X.dtype.type in self.folds_in else np.float64
        features, weights = self.form(dtype)
        return applied(device, features, X, weights, dtype, n_jobs)

    def variance_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Leverage of rows, and their residual kernel, times C."""
        h, r = variance_terms(self.features, X, self.leverage, n_jobs)
        return h, self.C * r


@dataclass(frozen=True)
class RobustFit:
    """Weights under a robust loss: those of a plain fit, and the record of Newton's method.

    ``bend`` is the mean curvature of the loss of each output; ``transition`` the error at which it turns straight.
    """

    plain: Any
    C: Any
    leverages: list[Any]
    bend: np.ndarray
    transition: Any
    h: Any
    tau: Any
    row_weights: np.ndarray
    n_iter: int
    converged: bool
    path: Any
    penalty_tuning: Any = None

    @property
    def features(self) -> Any:
        return self.plain.features

    @property
    def intercept(self) -> np.ndarray:
        return np.asarray(self.plain.intercept)

    def form(self, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
        """By what rows are predicted: features, and weights on them."""
        return self.plain.form(dtype)

    def scores(self, X: Any, device: str, n_jobs: int | None) -> np.ndarray:
        """``φ(x)β`` of every row."""
        return np.asarray(self.plain.scores(X, device, n_jobs))

    def variance_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Those of the plain fit with the curvature of the loss for weights, for every output."""
        terms = [variance_terms(self.plain.features, X, leverage, n_jobs) for leverage in self.leverages]
        h, r = self.bend * np.column_stack([h for h, _ in terms]), terms[0][1]
        return h, self.bend * np.reshape(self.C, (1, -1)) * r[:, None]


@dataclass(frozen=True)
class KernelFit:
    """An exact kernel model: the kernel to its rows, dual weights α (one row each), and what they were solved with.

    ``weight`` are the weights of the rows, ``fit_intercept`` tells whether there was a constant, and ``narrow`` whether
    float32 rows may be predicted in float32. ``order`` tells which training row each of them was, where they were put
    into another order.
    """

    cross: CrossKernel
    alpha: np.ndarray
    intercept: np.ndarray
    C: Any
    gamma: float
    weight: np.ndarray | None
    fit_intercept: bool
    narrow: bool
    tuning: Tuning | None = None
    order: np.ndarray | None = None

    @property
    def features(self) -> CrossKernel:
        """What rows are described by."""
        return self.cross

    @classmethod
    def of(
        cls, cross: CrossKernel, solution: Any, choice: Any, rows: Rows, fit_intercept: bool, order: Any, scale: Any
    ) -> "KernelFit":
        """From dual weights of the rows, in this ``order``, for answers that lie ``scale`` apart."""
        narrow = single_suffices(solution.alpha, cross.largest, scale)
        given = (choice.C, choice.width, rows.weight, fit_intercept, narrow, choice.tuning, order)
        return cls(cross, solution.alpha, solution.intercept, *given)

    def form(self, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
        """By what rows are predicted: kernel values, and weights on them."""
        return self.cross, self.alpha

    def scores(self, X: Any, device: str, n_jobs: int | None) -> np.ndarray:
        """``k_x α`` of every row."""
        dtype = np.float32 if X.dtype == np.float32 and self.narrow else np.float64
        return applied(device, self.cross, X, self.alpha, dtype, n_jobs)

    def variance_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Variance of predictions in units of the noise's."""
        variance = np.asarray(self._factored(n_jobs)(X))
        return variance, np.zeros_like(variance)

    def left_out_variance(self, n_last: int, n_jobs: int | None) -> np.ndarray:
        """The same of the last rows of the fit under the models without each."""
        return self._factored(n_jobs).left_out(n_last, self.weight)

    def leaning(self, rows: HeldOut, n_jobs: int | None) -> Callable[[Any], tuple[np.ndarray, float]]:
        """What predictions of rows lean on each of the last rows of the fit, those that were left out."""
        system, n_last = self._factored(n_jobs), len(rows.T)
        weight = np.ones(n_last) if self.weight is None else self.weight[len(self.weight) - n_last :]
        return lambda X: (system.leans(X, n_last) / weight, 0.0)

    def _factored(self, n_jobs: int | None) -> KernelVariance:
        """The factored kernel system, computed at the first call."""
        kept = vars(self)
        if "_variance" not in kept:
            kept["_variance"] = KernelVariance.of(self.cross, self.C, self.weight, self.fit_intercept, n_jobs)
        return kept["_variance"]

    def __getstate__(self) -> dict[str, Any]:
        """What was found, without what is derived from it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class Outcome:
    """What a family's fit gives: weights, answers of rows that were left out, and a learner where rows go on.

    Answers are None where rows are left out when somebody asks.
    """

    weights: Any
    held_out: Any
    learner: Any = None


def keep_tuning(model: Any, tuning: Tuning) -> None:
    """Let a model show the search, in other rows, that its parameters come from."""
    fitted = model.fitted_
    weights = fitted.weights
    part = {"plain": replace(weights.plain, tuning=tuning)} if hasattr(weights, "plain") else {"tuning": tuning}
    model.fitted_ = replace(fitted, weights=replace(weights, **part))


def applied(device: str, features: Any, X: Any, weights: np.ndarray, dtype: Any, n_jobs: int | None) -> np.ndarray:
    """``Φ(X) β`` where it is fastest: a model that was fitted on a GPU predicts without one too."""
    work = float(X.shape[0]) * features.n_features_out
    with predicting(device, n_jobs, work) as backend:
        if backend.name == "cpu":
            return apply(features, X, weights, dtype=dtype, n_jobs=n_jobs)
        return backend.apply(features, X, weights)
