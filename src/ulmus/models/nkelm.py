"""NKELM: Nyström map + ridge."""

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from ulmus._sklearn import Interval, StrOptions
from ulmus.calibration import HeldOut
from ulmus.devices import direct
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS, heuristic_gamma, uses_gamma
from ulmus.features.nystrom import KERNEL_CONSTRAINTS, LANDMARK_CONSTRAINTS, NystromMap
from ulmus.models._assembly import COMMON_CONSTRAINTS, Assembly, digits_kept
from ulmus.models._docs import NYSTROM, documented
from ulmus.models._features import leave_one_out_sample, leverages
from ulmus.models._routes import fit_iteratively, route_of
from ulmus.models._tasks import Classification, Regression
from ulmus.solvers.certificate import Certificate
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge, nystrom_statistics
from ulmus.tuning.search import FIRST_SIZE


class NystromFamily(Assembly):
    """Nyström features and their ridge weights."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        **LANDMARK_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
        "n_landmarks": [StrOptions({"auto"}), *LANDMARK_CONSTRAINTS["n_landmarks"]],
        "max_landmarks": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "direct", "iterative"})],
        "tol": [Interval(Real, 0, 1, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
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
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 300,
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.criterion = criterion
        self.cv = cv
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    n_landmarks: Any
    _folds_in: tuple[Any, ...]

    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        seed = int(rng.randint(2**31 - 1))

        def make_map(gamma: float, size: int) -> NystromMap:
            features = NystromMap(
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
            return features if self._driver is None else self._driver.adopt(features)

        gamma: Any = self.gamma if self.gamma != "auto" else heuristic_gamma(self.kernel, rows.X, rows.weight, rng)
        size: Any = self.n_landmarks
        if not (isinstance(self.landmarks, str) and self.landmarks != "all"):
            size = min(len(rows), self.max_landmarks)
        elif size == "auto" and self.rank is not None:
            size = max(FIRST_SIZE, 2 * self.rank)
        iterative = route_of(self, rows, size) == "iterative"
        judged = min(size, self.max_landmarks) if iterative else size
        self.C_: Any = self.C
        stats: Any = None
        tune_gamma = self.gamma == "auto" and uses_gamma(self.kernel)
        if tune_gamma or self.C == "auto" or size == "auto":
            statistics: Any = partial(nystrom_statistics, n_jobs=self.n_jobs)
            if self._driver is not None:
                statistics = self._driver.statistics
            tuner = self._tuner(rows, make_map, statistics, folds, rng)
            if tune_gamma:
                gamma = tuner.choose_width(gamma, FIRST_SIZE if size == "auto" else judged)
            grow = size == "auto"
            found = tuner.choose_size(gamma, self.max_landmarks) if grow else tuner.choose_C(gamma, judged)
            self.map_, stats = found.features, found.statistics
            self.C_ = found.C if self.C == "auto" else self.C
            self.tuning_ = tuner.result(gamma, found)
        elif not iterative:
            self.map_ = make_map(gamma, size).fit(rows.X, self._labels(rows), rows.weight)
        if iterative:
            return self._iterate(rows, make_map(gamma, size), rng)
        self.gamma_, self.n_landmarks_ = self.map_.gamma_, len(self.map_.landmarks_)
        if self._driver is None:
            solution = fit_nystrom_ridge(
                self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
            )
        else:
            self._driver.release(self.map_)
            solution = direct.fit_ridge(
                self._driver, self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
            )
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage, self.n_iter_ = solution.leverage, 1
        self._certificate: Certificate | None = Certificate.of(
            self.map_, rows, self.C_, solution, fit_intercept=self._intercept
        )
        self.cross_kernel_ = self.map_.cross_kernel_
        self.landmark_weights_ = self.map_.weight_to_landmarks(self.beta_)
        self._fold(rows.target_bound)
        return leave_one_out_sample(self.map_, rows, solution, rng, self.n_jobs, self._driver)

    def _iterate(self, rows: Rows, features: NystromMap, rng: np.random.RandomState) -> HeldOut:
        """Weights by conjugate gradients; the map kept is that of the first landmarks."""
        fit = fit_iteratively(self, rows, features, self.C_, rng)
        self.cross_kernel_, self.map_, self.route_ = fit.cross, fit.companion, fit.route
        self.gamma_, self.n_landmarks_ = fit.companion.gamma_, fit.cross.n_lifted
        self.landmark_weights_, self.intercept_ = fit.found.a, fit.intercept
        self.n_iter_, self.residual_ = max(1, fit.found.n_iter), fit.found.residual
        self._leverage, self._certificate = fit.leverage, None
        self._fold(rows.target_bound)
        if np.float64 not in self._folds_in:
            self._folds_in = (np.float64,)  # no whitened weights to fall back on
        return fit.held_out

    def _most_features(self, rows: Rows) -> int:
        return self.max_landmarks if self.n_landmarks == "auto" else min(self.n_landmarks, len(rows))

    def _fold(self, scale: float) -> None:
        """In which types the weights on kernel values, ``f(x) = k_xz (R⁻ᵀβ)``, keep the digits of predictions."""
        bound = float(np.abs(self.cross_kernel_.diagonal(self.cross_kernel_.Z)).max())
        self._folds_in = tuple(
            t for t in (np.float64, np.float32) if digits_kept(self.landmark_weights_, bound, scale, t)
        )

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = X.dtype.type if X.dtype.type in self._folds_in else np.float64
        if dtype in self._folds_in:
            return self._apply(self.cross_kernel_, X, self.landmark_weights_, dtype)
        return self._apply(self.map_, X, self.beta_)

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
        if self._certificate is None:
            raise ValueError(
                f"error_bound needs the direct route, and this model was fitted by the route {self.route_!r}; fit it "
                'with solver="direct"'
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
        Output weights on the features of ``map_`` (no ``beta_`` on the iterative route).
    cross_kernel_ : CrossKernel
        The kernel to the landmarks.
    landmark_weights_ : ndarray of shape (n_landmarks, n_outputs)
        Output weights on kernel values.
    route_ : str
        How the weights were computed.
    n_iter_, residual_ : int, float
        Iterations (1 on the direct route), and the verified relative residual (iterative route only). There ``map_`` is
        the map of the first 1,000 landmarks, from which ``residual_kernel`` (then an upper bound), standard deviations
        and the widths of intervals come.

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
        Output weights on the features of ``map_`` (no ``beta_`` on the iterative route).
    cross_kernel_ : CrossKernel
        The kernel to the landmarks.
    landmark_weights_ : ndarray of shape (n_landmarks, n_outputs)
        Output weights on kernel values.
    route_ : str
        How the weights were computed.
    n_iter_, residual_ : int, float
        Iterations (1 on the direct route), and the verified relative residual (iterative route only). There ``map_`` is
        the map of the first 1,000 landmarks, from which ``residual_kernel`` (then an upper bound), standard deviations
        and the widths of intervals come.

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
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 300,
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
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            criterion=criterion,
            cv=cv,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight
