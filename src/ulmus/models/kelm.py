"""KELM: exact kernel + ridge."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, dense, heuristic_gamma
from ulmus.features.nystrom import KERNEL_CONSTRAINTS
from ulmus.models._assembly import COMMON_CONSTRAINTS, Assembly, Classification, Regression, digits_kept
from ulmus.solvers.kernel_ridge import fit_kernel_ridge


class KernelFamily(Assembly):
    """The exact kernel and its dual weights."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**KERNEL_CONSTRAINTS, **COMMON_CONSTRAINTS}

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float = 1024.0,
        fit_intercept: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.fit_intercept = fit_intercept
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _train(self, rows: Rows) -> None:
        rng = check_random_state(self.random_state)
        gamma = self.gamma if self.gamma != "auto" else heuristic_gamma(self.kernel, rows.X, rows.weight, rng)
        self.C_, self.gamma_ = self.C, float(gamma)
        parameters = KernelParameters(self.gamma_, self.degree, self.coef0)
        self.cross_kernel_ = CrossKernel(self.kernel, dense(rows.X, np.float64), parameters)
        solution = fit_kernel_ridge(
            self.cross_kernel_,
            rows.X,
            rows.T,
            self.C_,
            weight=rows.weight,
            fit_intercept=self.fit_intercept,
            n_jobs=self.n_jobs,
        )
        self.alpha_, self.intercept_ = solution.alpha, solution.intercept
        bound = float(np.abs(self.cross_kernel_.diagonal(rows.X)).max())
        self._narrow = digits_kept(self.alpha_, bound, float(np.abs(rows.T).max()), np.float32)

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = np.float32 if X.dtype == np.float32 and self._narrow else np.float64
        return engine.apply(self.cross_kernel_, X, self.alpha_, dtype=dtype, n_jobs=self.n_jobs)


class KELMRegressor(Regression, KernelFamily):
    """doc"""


class KELMClassifier(Classification, KernelFamily):
    """doc"""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelFamily._parameter_constraints,
        "class_weight": [dict, str, None],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float = 1024.0,
        fit_intercept: bool = False,
        class_weight: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            C=C,
            fit_intercept=fit_intercept,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight
