"""The family of Nyström models: map, ridge on its features, rows that come in blocks."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ulmus.calibration import variance_terms
from ulmus.engine import Lift, Rows
from ulmus.features.kernels import KERNELS
from ulmus.features.recipes import NystromFeatures
from ulmus.models._assembly import digits_kept
from ulmus.models._between import reads
from ulmus.models._features import MappedFamily
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.solvers.certificate import Certificate
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.ridge import Solution
from ulmus.statistics import Extent, Summary


class NystromFamily(MappedFamily):
    """Nyström features and their ridge weights."""

    _plain: ClassVar[dict[str, Any]] = {"C": 1.0, "n_landmarks": 50}
    _factor_names: ClassVar[tuple[str, ...]] = (
        "_leverage",
        "cross_kernel_",
        "landmark_weights_",
        "_folds_in",
        "_certificate",
    )

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)
    n_landmarks: Any
    _folds_in: tuple[Any, ...]
    _certificate: Certificate | None

    @property
    def _recipe(self) -> NystromFeatures:
        given = not isinstance(self.landmarks, str)
        landmarks = self._shown(np.asarray(self.landmarks, dtype=np.float64)) if given else self.landmarks
        return NystromFeatures.of(self, landmarks=landmarks)

    def _summed_form(self) -> tuple[Lift, np.ndarray | None]:
        return summed_form(self.map_)

    def _extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T, self.map_.cross_kernel_.diagonal(rows.X), rows.weight)

    def _fitted_extent(self, rows: Rows) -> Extent:
        known = self._certificate
        assert known is not None
        return replace(Extent.of(rows.T), diagonal_sum=known.diagonal_sum, diagonal_max=known.delta)

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        self.n_landmarks_ = len(self.map_.landmarks_)
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage = solution.leverage
        self._certificate = Certificate.of(self.map_, source, self.C_, solution, fit_intercept=self._intercept)
        self._fold(source.target_reach)

    def _fold(self, scale: Any) -> None:
        """Fold the whitening into the weights where that keeps the digits: ``f(x) = k_xz (R⁻ᵀβ)``."""
        self.cross_kernel_ = self.map_.cross_kernel_
        self.landmark_weights_ = self.map_.weight_to_landmarks(self.beta_)
        self._folds_in = self._types_kept(scale)

    def _types_kept(self, scale: Any) -> tuple[Any, ...]:
        """In which types the weights on kernel values keep the digits of predictions of this size."""
        bound = float(np.abs(self.cross_kernel_.diagonal(self.cross_kernel_.Z)).max())
        return tuple(t for t in (np.float64, np.float32) if digits_kept(self.landmark_weights_, bound, scale, t))

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = X.dtype.type if X.dtype.type in self._folds_in else np.float64
        features, weights = prediction_form(self, dtype)
        return self._apply(features, X, weights, dtype)

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        h, r = variance_terms(self.map_, X, self._leverage, self.n_jobs)
        return h, self.C_ * r

    @reads
    def residual_kernel(self, X: Any) -> np.ndarray:
        r""":math:`\kappa(x,x) - \|\hat F(x)\|^2` of every row: what the landmarks leave unexplained.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            0 on the span of the landmarks; near :math:`\kappa(x,x)` far from all of them.
        """
        X = self._checked(X)
        return self.map_.residual_kernel(X)

    @reads
    def error_bound(self, X: Any) -> np.ndarray:
        r"""How far this model can be from the exact kernel model (KELM with the same parameters), at every row.

        .. math:: \|\hat f(x) - f(x)\| \le C\sqrt n\,\tau\sqrt{r(x,x)\operatorname{tr} R}
           + C^2 n\,\delta\,\tau\operatorname{tr} R,

        with the largest target norm :math:`\tau`, the largest :math:`\delta = \kappa(x_i,x_i)`, the residual kernel r
        and its sum :math:`\operatorname{tr} R` over the training rows. It holds for every data set, so it is coarse: it
        says something only while :math:`C\operatorname{tr} R < 2`, and is 0, up to round-off, with all rows as
        landmarks. With an intercept it is a few times larger.
        For classifiers it bounds ``decision_function``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Euclidean norm over the outputs.
        """
        X = self._checked(X)
        if isinstance(self.kernel, str) and not KERNELS[self.kernel].positive_definite:
            raise ValueError(
                f"error_bound needs a positive definite kernel, and kernel={self.kernel!r} is not one; "
                'compare with a KELM model instead, or use e.g. kernel="rbf"'
            )
        if self._certificate is None:
            raise ValueError(
                f"error_bound needs the direct route, and this model was fitted by the route {self.route_!r}; fit it "
                'with solver="direct"'
            )
        return self._certificate.bound(self.map_.cross_kernel_.diagonal(X), self.map_.residual_kernel(X))


def prediction_form(model: Any, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
    """By what rows are predicted: kernel values and weights on them where these keep the digits, the map otherwise."""
    if dtype in model._folds_in:
        return model.cross_kernel_, model.landmark_weights_
    return model.map_, model.beta_
