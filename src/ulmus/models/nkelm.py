"""NKELM: Nyström map + ridge."""

from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.nystrom import KERNEL_CONSTRAINTS, LANDMARK_CONSTRAINTS, NystromMap
from ulmus.models._assembly import COMMON_CONSTRAINTS, Assembly, Classification, Regression, digits_kept
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge


class NystromFamily(Assembly):
    """Nyström features and their ridge weights."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        **LANDMARK_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        n_landmarks: int = 500,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float = 1024.0,
        landmarks: Any = "uniform",
        rank: int | None = None,
        fit_intercept: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.landmarks = landmarks
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _train(self, rows: Rows) -> None:
        self.map_ = NystromMap(
            self.n_landmarks,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            landmarks=self.landmarks,
            rank=self.rank,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        ).fit(rows.X, sample_weight=rows.weight)
        self.C_, self.gamma_, self.n_landmarks_ = self.C, self.map_.gamma_, len(self.map_.landmarks_)
        solution = fit_nystrom_ridge(self.map_, rows, self.C_, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs)
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._fold(float(np.abs(rows.T).max()))

    def _fold(self, scale: float) -> None:
        """Fold the whitening into the weights where that keeps the digits: ``f(x) = k_xz (R⁻ᵀβ)``."""
        self.landmark_weights_ = self.map_.weight_to_landmarks(self.beta_)
        bound = float(self.map_.cross_kernel_.diagonal(self.map_.landmarks_).max())
        self._folds_in = tuple(
            t for t in (np.float64, np.float32) if digits_kept(self.landmark_weights_, bound, scale, t)
        )

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = X.dtype.type if X.dtype.type in self._folds_in else np.float64
        if dtype in self._folds_in:
            return engine.apply(self.map_.cross_kernel_, X, self.landmark_weights_, dtype=dtype, n_jobs=self.n_jobs)
        return engine.apply(self.map_, X, self.beta_, n_jobs=self.n_jobs)


class NKELMRegressor(Regression, NystromFamily):
    """doc"""


class NKELMClassifier(Classification, NystromFamily):
    """doc"""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NystromFamily._parameter_constraints,
        "class_weight": [dict, str, None],
    }

    def __init__(
        self,
        n_landmarks: int = 500,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float = 1024.0,
        landmarks: Any = "uniform",
        rank: int | None = None,
        fit_intercept: bool = False,
        class_weight: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(
            n_landmarks,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            C=C,
            landmarks=landmarks,
            rank=rank,
            fit_intercept=fit_intercept,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight
