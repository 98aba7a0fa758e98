"""NKELM: Nyström map + ridge."""

from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from ulmus import engine
from ulmus._sklearn import Interval, StrOptions
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS, heuristic_gamma, uses_gamma
from ulmus.features.nystrom import KERNEL_CONSTRAINTS, LANDMARK_CONSTRAINTS, NystromMap
from ulmus.models._assembly import COMMON_CONSTRAINTS, digits_kept
from ulmus.models._docs import NYSTROM, documented
from ulmus.models._features import leverages
from ulmus.models._sequential import Sequential
from ulmus.models._tasks import Classification, Regression
from ulmus.solvers.certificate import Certificate
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge, nystrom_statistics
from ulmus.solvers.ridge import Solution
from ulmus.statistics import Extent, Statistics, Summary
from ulmus.tuning.search import FIRST_SIZE


class NystromFamily(Sequential):
    """Nyström features and their ridge weights."""

    _width: ClassVar[str] = "gamma_"
    _plain: ClassVar[dict[str, Any]] = {"C": 1.0, "n_landmarks": 50}
    _factor_names: ClassVar[tuple[str, ...]] = ("_leverage", "landmark_weights_", "_folds_in", "_certificate")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        **LANDMARK_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
        "n_landmarks": [StrOptions({"auto"}), *LANDMARK_CONSTRAINTS["n_landmarks"]],
        "max_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_landmarks: int | str = "auto",
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float | str = "auto",
        landmarks: Any = "uniform",
        rank: int | None = None,
        max_landmarks: int = 2000,
        fit_intercept: bool | str = "auto",
        criterion: str = "auto",
        cv: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.landmarks = landmarks
        self.rank = rank
        self.max_landmarks = max_landmarks
        self.fit_intercept = fit_intercept
        self.criterion = criterion
        self.cv = cv
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _begin(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, *, spare: bool = False
    ) -> Statistics | None:
        seed = int(rng.randint(2**31 - 1))

        def make_map(gamma: float, size: int) -> NystromMap:
            return NystromMap(
                size,
                kernel=self.kernel,
                gamma=gamma,
                degree=self.degree,
                coef0=self.coef0,
                landmarks=self.landmarks,
                rank=self.rank,
                random_state=seed,
                n_jobs=self.n_jobs,
            )

        gamma: Any = self.gamma if self.gamma != "auto" else heuristic_gamma(self.kernel, rows.X, rows.weight, rng)
        size: Any = self.n_landmarks
        if not (isinstance(self.landmarks, str) and self.landmarks != "all"):
            size = min(len(rows), self.max_landmarks)
        elif size == "auto" and self.rank is not None:
            size = max(FIRST_SIZE, 2 * self.rank)
        self.C_ = self.C
        stats = None
        tune_gamma = self.gamma == "auto" and uses_gamma(self.kernel)
        if tune_gamma or self.C == "auto" or size == "auto":
            tuner = self._tuner(rows, make_map, self._statistics, folds, rng)
            if tune_gamma:
                gamma = tuner.choose_width(gamma, FIRST_SIZE if size == "auto" else size)
            grow = size == "auto"
            found = tuner.choose_size(gamma, self.max_landmarks) if grow else tuner.choose_C(gamma, size)
            self.map_, stats = found.features, found.statistics
            self.C_ = found.C if self.C == "auto" else self.C
            self.tuning_ = tuner.result(gamma, found)
            if grow and spare:
                size = min(2 * self.map_.n_landmarks, self.max_landmarks)
                self.map_, stats = make_map(gamma, size).fit(rows.X, self._labels(rows), rows.weight), None
        else:
            self.map_ = make_map(gamma, size).fit(rows.X, self._labels(rows), rows.weight)
        self.gamma_, self.n_landmarks_ = self.map_.gamma_, len(self.map_.landmarks_)
        return stats

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, novelty: float | None = None
    ) -> Self:
        """Learn a block of rows, or one row.

        Landmarks and all that is left to the data are chosen from the first 500 rows (or as many as there are to be
        landmarks), or from the rows of an earlier ``fit``; until then predictions come from a model of the rows so far.

        Parameters
        ----------
        X, y, sample_weight : arrays
            As ``fit`` takes them.
        classes : array, optional
            All classes that will come, for classifiers. Without it classes may appear later.
        novelty : float, optional
            After the warm-up, rows of which the landmarks leave more than this share of :math:`\\kappa(x,x)`
            unexplained (:meth:`residual_kernel`) become landmarks first, up to ``max_landmarks``. Rows learned before
            are not at hand any more and count as 0 in the new features: approximate for the past, exact from here on.

        Returns
        -------
        self
        """
        if novelty is None or "stream_" not in self.__dict__ or self.stream_.recursion is None:
            return super().partial_fit(X, y, classes, sample_weight)
        if not 1e-3 <= novelty < 1:
            raise ValueError(f"novelty must lie between 0.001 and 1, got {novelty!r}")
        rows, _ = self._block(X, y, sample_weight)
        features, stream = self.map_.grown(rows.X, novelty, self.max_landmarks), self.stream_
        if features is self.map_:
            return super().partial_fit(X, y, classes, sample_weight)
        before, state = dict(self.__dict__), deepcopy(stream)
        for _ in range(features.n_lifted - self.map_.n_lifted):
            stream.recursion.widen()
            stream.births += (stream.memory.count + stream.memory.n_recent,)
        stream.memory.forget_sample()
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
        return nystrom_statistics(features, rows, n_jobs=self.n_jobs)

    def _extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T, self.map_.cross_kernel_.diagonal(rows.X), rows.weight)

    def _fitted_extent(self, rows: Rows) -> Extent:
        known = self._certificate
        return replace(Extent.of(rows.T), diagonal_sum=known.diagonal_sum, diagonal_max=known.delta)

    def _solve(self, rows: Rows, stats: Statistics | None) -> Solution:
        return fit_nystrom_ridge(
            self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
        )

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        self.n_landmarks_ = len(self.map_.landmarks_)
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage = solution.leverage
        self._certificate = Certificate.of(self.map_, source, self.C_, solution, fit_intercept=self._intercept)
        self._fold(source.target_bound)

    def _fold(self, scale: float) -> None:
        """Fold the whitening into the weights where that keeps the digits: ``f(x) = k_xz (R⁻ᵀβ)``."""
        self.landmark_weights_ = self.map_.weight_to_landmarks(self.beta_)
        bound = float(np.abs(self.map_.cross_kernel_.diagonal(self.map_.landmarks_)).max())
        self._folds_in = tuple(
            t for t in (np.float64, np.float32) if digits_kept(self.landmark_weights_, bound, scale, t)
        )

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = X.dtype.type if X.dtype.type in self._folds_in else np.float64
        if dtype in self._folds_in:
            return engine.apply(self.map_.cross_kernel_, X, self.landmark_weights_, dtype=dtype, n_jobs=self.n_jobs)
        return engine.apply(self.map_, X, self.beta_, n_jobs=self.n_jobs)

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        h = leverages(self.map_, X, self._leverage, self.n_jobs)
        return h, self.C_ * self.map_.residual_kernel(X)

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
        return self.map_.residual_kernel(self._checked(X))

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
        return self._certificate.bound(self.map_.cross_kernel_.diagonal(X), self.map_.residual_kernel(X))


@documented(*NYSTROM)
class NKELMRegressor(Regression, NystromFamily):
    r"""Kernel ridge regression made linear in the number of rows by landmark rows.

    :math:`f(x) = \hat F(x)\beta` with :math:`\hat F(x) = k_{xz}R^{-T}`, :math:`K_{zz} = RR^T` and
    :math:`\beta = (I/C + \hat F^T\hat F)^{-1}\hat F^T T`. With as many landmarks as rows it is exact kernel ridge.
    Called without arguments it chooses gamma, L and C from the data.

    Standardise features of different units first. For a few thousand rows :class:`KELMRegressor` is exact; for jumps
    and thresholds in single features, trees do better.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    C_, gamma_, n_landmarks_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : NystromMap
        The fitted feature map.
    beta_, intercept_ : ndarray
        Output weights on the features of ``map_``.
    landmark_weights_ : ndarray of shape (n_landmarks, n_outputs)
        The same weights on kernel values.
    route_ : str
        How the weights were computed.

    References
    ----------
    W.-Y. Deng, Q.-H. Zheng, L. Chen (2014). Large-scale kernel extreme learning machine.
    Chinese Journal of Computers 37(11), 2235-2246.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import NKELMRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = np.sinc(X[:, 0]) + 0.05 * rng.normal(size=500)
    >>> model = NKELMRegressor(random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[0.0], [1.0]]) - [1.0, 0.0]).max() < 0.05)
    True
    >>> low, high = model.predict_interval([[0.0]], coverage=0.9)[0]
    >>> bool(0.1 < high - low < 0.25)
    True
    """


@documented(*NYSTROM, "class_weight")
class NKELMClassifier(Classification, NystromFamily):
    r"""Kernel classification made linear in the number of rows by landmark rows.

    One ±1 target per class, fitted by ridge regression on Nyström features (see :class:`NKELMRegressor`); the largest
    score wins. Called without arguments it chooses gamma, L and C from the data.

    Standardise features of different units first. For a few thousand rows :class:`KELMClassifier` is exact.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    temperature_ : float
        Factor that turns scores into probabilities.
    C_, gamma_, n_landmarks_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : NystromMap
        The fitted feature map.
    beta_, intercept_ : ndarray
        Output weights on the features of ``map_``.
    landmark_weights_ : ndarray of shape (n_landmarks, n_outputs)
        The same weights on kernel values.
    route_ : str
        How the weights were computed.

    References
    ----------
    W.-Y. Deng, Q.-H. Zheng, L. Chen (2014). Large-scale kernel extreme learning machine.
    Chinese Journal of Computers 37(11), 2235-2246.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ulmus import NKELMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NKELMClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NystromFamily._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        n_landmarks: int | str = "auto",
        *,
        kernel: Any = "rbf",
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1.0,
        C: float | str = "auto",
        landmarks: Any = "uniform",
        rank: int | None = None,
        max_landmarks: int = 2000,
        fit_intercept: bool | str = "auto",
        criterion: str = "auto",
        cv: Any = None,
        class_weight: Any = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
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
            max_landmarks=max_landmarks,
            fit_intercept=fit_intercept,
            criterion=criterion,
            cv=cv,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight
