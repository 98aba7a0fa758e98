"""What a fit has found is one frozen value; attributes of a model that end in ``_`` are views of it.

A refit, and a refusal, is one assignment (or none) of ``fitted_``. What is derived from the value is computed at the
first call and kept with it, so that it never outlives it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import KernelVariance
from ulmus.tuning import Tuning


class FittedView:
    """An attribute of an estimator that shows a part of its ``fitted_``; there is none where that part is None."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        fitted = vars(model).get("fitted_")
        value = None if fitted is None else getattr(fitted, self.part)
        if value is None:
            raise AttributeError(f"this {type(model).__name__} has no {self.name}")
        return value

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} shows what the fit has found and cannot be set; fit again")


#: What the parts of a kernel fit were called as attributes of a model, in their order.
_ATTRIBUTES = ("cross_kernel_", "alpha_", "intercept_", "C_", "gamma_", "_weight", "_constant", "_narrow", "tuning_")


@dataclass(frozen=True)
class KernelFit:
    """An exact kernel model: the kernel to its rows, dual weights α (one row each), and what they were solved with.

    ``weight`` are the weights of the rows, ``fit_intercept`` tells whether there was a constant, and ``narrow`` whether
    float32 rows may be predicted in float32.
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

    def _factored(self, n_jobs: int | None) -> KernelVariance:
        """The factored kernel system, computed at the first call."""
        kept = vars(self)
        if "_variance" not in kept:
            kept["_variance"] = KernelVariance.of(self.cross, self.C, self.weight, self.fit_intercept, n_jobs)
        found: KernelVariance = kept["_variance"]
        return found

    def variance(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Variance of predictions in units of the noise's."""
        return np.asarray(self._factored(n_jobs)(X))

    def leaning(self, n_last: int, n_jobs: int | None) -> Callable[[Any], tuple[np.ndarray, float]]:
        """What predictions of rows lean on each of the last rows of the fit."""
        system = self._factored(n_jobs)
        weight = np.ones(n_last) if self.weight is None else self.weight[len(self.weight) - n_last :]
        return lambda X: (system.leans(X, n_last) / weight, 0.0)

    def __getstate__(self) -> dict[str, Any]:
        """What was found, without what is derived from it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of_attributes(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a model that was saved when all of this was attributes of its own."""
        if "alpha_" not in state:
            return state
        state = {"_weight": None, "_constant": False, "tuning_": None, **state}
        found = cls(*(state.pop(name) for name in _ATTRIBUTES))
        return {**state, "fitted_": found}
