"""The family of Nyström models: map, ridge on its features, rows that come in blocks."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from ulmus.calibration import variance_terms
from ulmus.engine import Lift, Rows
from ulmus.features.kernels import KERNELS, uses_gamma
from ulmus.features.nystrom import NystromMap
from ulmus.features.widths import heuristic_gamma
from ulmus.models._assembly import digits_kept
from ulmus.models._between import learns, reads
from ulmus.models._sequential import Sequential
from ulmus.solvers.certificate import Certificate
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge, nystrom_statistics, summed_form
from ulmus.solvers.ridge import Solution
from ulmus.statistics import Extent, Statistics, Summary
from ulmus.tuning.search import FIRST_SIZE, Found


class NystromFamily(Sequential):
    """Nyström features and their ridge weights."""

    _width: ClassVar[str] = "gamma_"
    _plain: ClassVar[dict[str, Any]] = {"C": 1.0, "n_landmarks": 50}
    _factor_names: ClassVar[tuple[str, ...]] = (
        "_leverage",
        "cross_kernel_",
        "landmark_weights_",
        "_folds_in",
        "_certificate",
    )

    n_landmarks: Any
    _folds_in: tuple[Any, ...]
    _certificate: Certificate | None

    def _begin(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, *, spare: bool = False
    ) -> Statistics | None:
        size = self._size(rows)
        map_of, found = self._search(rows, folds, rng, size)
        stats: Statistics | None = None
        if found is not None:
            self.map_, stats = found.features, found.statistics
        if found is None or (spare and size == "auto"):
            size = size if found is None else min(2 * self.map_.n_landmarks, self.max_landmarks)
            self.map_, stats = map_of(size).fit(rows.X, self._labels(rows), rows.weight), None
        self.gamma_, self.n_landmarks_ = self.map_.gamma_, len(self.map_.landmarks_)
        return stats

    def _size(self, rows: Rows) -> Any:
        """The number of landmarks; ``"auto"`` where it is to be chosen."""
        if not (isinstance(self.landmarks, str) and self.landmarks != "all"):
            return min(len(rows), self.max_landmarks)
        if self.n_landmarks == "auto" and self.rank is not None:
            return max(FIRST_SIZE, 2 * self.rank)
        return self.n_landmarks

    def _search(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, size: Any
    ) -> tuple[Callable[[int], NystromMap], Found | None]:
        """Maps of any size with the gamma that is best, and the model of this size, where something was to choose."""
        seed = int(rng.randint(2**31 - 1))
        given = not isinstance(self.landmarks, str)
        landmarks = self._shown(np.asarray(self.landmarks, dtype=np.float64)) if given else self.landmarks

        def make_map(gamma: float, size: int) -> NystromMap:
            features = NystromMap(
                size,
                kernel=self.kernel,
                gamma=gamma,
                degree=self.degree,
                coef0=self.coef0,
                landmarks=landmarks,
                rank=self.rank,
                random_state=seed,
                n_jobs=self.n_jobs,
            )
            return features if self._driver is None else self._driver.adopt(features)

        gamma: Any = self.gamma if self.gamma != "auto" else heuristic_gamma(self.kernel, rows.X, rows.weight, rng)
        found = None
        self.C_ = self.C
        tune_gamma = self.gamma == "auto" and uses_gamma(self.kernel)
        if tune_gamma or self.C == "auto" or size == "auto":
            tuner = self._tuner(rows, make_map, self._statistics, folds, rng)
            if tune_gamma:
                gamma = tuner.choose_width(gamma, FIRST_SIZE if size == "auto" else size)
            grow = size == "auto"
            found = tuner.choose_size(gamma, self.max_landmarks) if grow else tuner.choose_C(gamma, size)
            self.C_ = found.C if self.C == "auto" else self.C
            self.tuning_ = tuner.result(gamma, found)
        return partial(make_map, gamma), found

    @learns
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, novelty: float | None = None
    ) -> Self:
        """Learn a block of rows, or one row.

        Landmarks and all else that is open are chosen from the first 500 rows (more, if there are to be more landmarks)
        or from those of an earlier ``fit``; until then predictions come from a model of the rows so far.

        Parameters
        ----------
        X, y, classes, sample_weight : arrays
            As :meth:`OSELMClassifier.partial_fit` takes them; ``classes`` are all that will come, if they are known.
        novelty : float, optional
            After the warm-up, rows of which the landmarks leave more than this share of κ(x,x) unexplained
            (:meth:`residual_kernel`) become landmarks first, up to ``max_landmarks``. Rows learned before count as 0 in
            the new features: approximate for the past, exact from here on.

        Returns
        -------
        self
        """
        self._begin_blocks()
        if novelty is None or "stream_" not in self.__dict__ or self.stream_.recursion is None:
            return super().partial_fit(X, y, classes, sample_weight)
        if not 1e-3 <= novelty < 1:
            raise ValueError(f"novelty must lie between 0.001 and 1, got {novelty!r}")
        rows, _ = self._block(X, y, sample_weight)
        stream, features = self.stream_, self.map_.grown(rows.X, novelty, self.max_landmarks)
        if features is self.map_:
            return super().partial_fit(X, y, classes, sample_weight)
        before, state = dict(self.__dict__), deepcopy(stream)
        new = features.n_lifted - self.map_.n_lifted
        for _ in range(new):
            stream.recursion.widen()
        stream.memory.widen(new)
        self.map_, self.n_landmarks_ = features, len(features.landmarks_)
        try:
            return super().partial_fit(X, y, classes, sample_weight)
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before, stream_=state)
            raise

    def _warm_up(self) -> int:
        wanted = 0 if isinstance(self.n_landmarks, str) else self.n_landmarks
        return max(self._warm_up_rows, wanted)

    @property
    def _open_size(self) -> bool:
        drawn = isinstance(self.landmarks, str) and self.landmarks != "all"
        return self.n_landmarks == "auto" and self.rank is None and drawn

    def _statistics(self, features: NystromMap, rows: Rows) -> Statistics:
        if self._driver is not None:
            return self._driver.statistics(features, rows)
        return nystrom_statistics(features, rows, n_jobs=self.n_jobs)

    def _summed_form(self) -> tuple[Lift, np.ndarray | None]:
        return summed_form(self.map_)

    def _extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T, self.map_.cross_kernel_.diagonal(rows.X), rows.weight)

    def _fitted_extent(self, rows: Rows) -> Extent:
        known = self._certificate
        assert known is not None
        return replace(Extent.of(rows.T), diagonal_sum=known.diagonal_sum, diagonal_max=known.delta)

    def _solve(self, rows: Rows, stats: Statistics | None) -> Solution:
        if self._driver is not None:
            self._driver.release(self.map_)
            from ulmus.devices import direct

            return direct.fit_ridge(
                self._driver, self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
            )
        return fit_nystrom_ridge(
            self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
        )

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        self.n_landmarks_ = len(self.map_.landmarks_)
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage = solution.leverage
        self._certificate = Certificate.of(self.map_, source, self.C_, solution, fit_intercept=self._intercept)
        self._fold(source.target_reach)

    def _most_features(self, rows: Rows) -> int:
        return self.max_landmarks if self.n_landmarks == "auto" else min(self.n_landmarks, len(rows))

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
        if dtype in self._folds_in:
            return self._apply(self.cross_kernel_, X, self.landmark_weights_, dtype)
        return self._apply(self.map_, X, self.beta_)

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
