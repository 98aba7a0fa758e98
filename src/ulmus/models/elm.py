"""ELM and RELM: random layer + least squares or ridge."""

from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.random_layer import LAYER_CONSTRAINTS, RandomLayer
from ulmus.models._assembly import COMMON_CONSTRAINTS, Assembly, Classification, Regression, digits_kept
from ulmus.solvers.ridge import Problem, fit_ridge


class RandomFamily(Assembly):
    """A random layer and its output weights."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LAYER_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
        "C": [*COMMON_CONSTRAINTS["C"], None],
    }

    def __init__(
        self,
        n_hidden: int = 200,
        *,
        activation: str = "sigmoid",
        weights: str = "uniform",
        scale: float | str = "auto",
        slope: float = 1.0,
        direct_links: bool = False,
        C: float | None = 1024.0,
        fit_intercept: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        self.n_hidden = n_hidden
        self.activation = activation
        self.weights = weights
        self.scale = scale
        self.slope = slope
        self.direct_links = direct_links
        self.C = C
        self.fit_intercept = fit_intercept
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _train(self, rows: Rows) -> None:
        self.map_ = RandomLayer(
            self.n_hidden,
            activation=self.activation,
            weights=self.weights,
            scale=self.scale,
            slope=self.slope,
            direct_links=self.direct_links,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        ).fit(rows.X, sample_weight=rows.weight)
        self.C_, self.n_hidden_ = self.C, self.n_hidden
        solution = fit_ridge(Problem(self.map_, rows, self.C_, self.fit_intercept, self.n_jobs))
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._narrow = digits_kept(self.beta_, 1.0, float(np.abs(rows.T).max()), np.float32)

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = np.float32 if X.dtype == np.float32 and self._narrow else np.float64
        return engine.apply(self.map_, X, self.beta_, dtype=dtype, n_jobs=self.n_jobs)


class ELMRegressor(Regression, RandomFamily):
    """doc"""


class ELMClassifier(Classification, RandomFamily):
    """doc"""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RandomFamily._parameter_constraints,
        "class_weight": [dict, str, None],
    }

    def __init__(
        self,
        n_hidden: int = 200,
        *,
        activation: str = "sigmoid",
        weights: str = "uniform",
        scale: float | str = "auto",
        slope: float = 1.0,
        direct_links: bool = False,
        C: float | None = 1024.0,
        fit_intercept: bool = False,
        class_weight: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(
            n_hidden,
            activation=activation,
            weights=weights,
            scale=scale,
            slope=slope,
            direct_links=direct_links,
            C=C,
            fit_intercept=fit_intercept,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight
