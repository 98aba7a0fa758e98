"""The Nyström feature map."""

import warnings
from collections.abc import Callable
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus._sklearn import Interval, StrOptions, check_sample_weight, fit_context
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters, dense, gram_matrix
from ulmus.features.landmarks import STRATEGIES, Draw, choose_landmarks, heuristic_gamma, needs_labels
from ulmus.features.whitening import NestedCholesky, eigen_whitening, nested_cholesky
from ulmus.parameters import AUTO, COUNT, POSITIVE, THREADS, Parameter, Parameters, estimator

KERNEL: Parameters = {
    "kernel": Parameter(
        "rbf",
        (StrOptions(set(KERNELS)), callable),
        "str or callable",
        "See :class:`~ulmus.NystromMap` for the names and formulas.",
    ),
    "gamma": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        r"Kernel scale, :math:`\exp(-\gamma\|x-z\|^2)` for ``rbf``.",
    ),
    "degree": Parameter(3, (POSITIVE,), "float", "Of the polynomial kernel."),
    "coef0": Parameter(
        1.0, (Interval(Real, None, None, closed="neither"),), "float", "Of the polynomial and sigmoid kernels."
    ),
}
LANDMARKS: Parameters = {
    "landmarks": Parameter(
        "uniform",
        (StrOptions(set(STRATEGIES)), "array-like"),
        "str or array of shape (n_landmarks, n_features)",
        "How landmark rows are drawn, or the rows themselves; see :class:`~ulmus.NystromMap`.",
    ),
    "rank": Parameter(None, (COUNT, None), "int", "Keep the first ``rank`` eigenpairs of the landmark kernel."),
}


def decompose(
    kernel: str | Callable[..., np.ndarray], Z: np.ndarray, parameters: KernelParameters
) -> tuple[np.ndarray | None, NestedCholesky, float]:
    """``K_zz``, its nested Cholesky factor, and its condition number."""
    with engine.threads_for(len(Z)):
        K = gram_matrix(kernel, Z, parameters)
        nested = nested_cholesky(K)
    with engine.threads_for(1):
        return K, nested, nested.condition if len(nested.order) else 1.0


#: Error that float32 may add to features, which are of size 1.
DIGITS_LOST = 1e-4


@estimator(
    {"n_landmarks": Parameter(100, (COUNT,), "int", "Number of landmark rows. More than there are rows means all.")}
    | KERNEL
    | {
        "kernel": KERNEL["kernel"].but(
            text=r"""One of "rbf", "laplacian", "laplacian_l1", "matern32", "linear", "poly", "cosine", "arcsine",
            "sigmoid". ``rbf`` is :math:`\exp(-\gamma\|x-z\|^2)`, ``laplacian`` :math:`\exp(-\gamma\|x-z\|)`,
            ``laplacian_l1`` :math:`\exp(-\gamma\|x-z\|_1)`, ``matern32``
            :math:`(1+\sqrt3\gamma\|x-z\|)\exp(-\sqrt3\gamma\|x-z\|)`, ``poly``
            :math:`(\gamma x\cdot z + c_0)^d`, ``sigmoid`` :math:`\tanh(\gamma x\cdot z + c_0)`, ``arcsine`` the kernel
            of an infinitely wide layer of error-function nodes. ``sigmoid`` is not positive definite: the landmarks
            that break definiteness are dropped. A callable takes two arrays of rows and returns the matrix between
            them."""
        ),
        "gamma": KERNEL["gamma"].but(
            text="""Kernel scale. ``"auto"`` is one over the median squared distance (distance, for the kernels that
            use it)."""
        ),
    }
    | LANDMARKS
    | {
        "landmarks": LANDMARKS["landmarks"].but(
            text="""One of "uniform", "kmeans", "rpcholesky", "leverage", "balanced", "all": how landmarks are chosen,
            or the rows themselves. The choice is ordered: its first l landmarks are a choice of l. ``"uniform"`` draws
            distinct rows. The next three look at about ``10 n_landmarks`` of them: ``"kmeans"`` takes centres of
            mini-batch k-means, which are not rows; ``"rpcholesky"`` (randomly pivoted Cholesky) draws rows that the
            landmarks before them explain badly, and stops where the kernel has no more rank; ``"leverage"`` draws by
            approximate ridge leverage scores. The last two are ``"uniform"`` for ``kernel="sigmoid"``, which is not
            positive definite; a callable kernel is taken to be. ``"balanced"`` gives every class of ``y`` the same
            number of landmarks while its rows last. ``"all"`` takes every row."""
        ),
        "rank": LANDMARKS["rank"].but(
            text="""Keep the first ``rank`` eigenpairs of the landmark kernel instead of the nested factor. With
            ``landmarks="all"`` this is the best rank-``rank`` factor of the whole kernel matrix."""
        ),
    }
    | THREADS,
    positional=1,
)
class NystromMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Features whose inner products approximate a kernel through landmark rows.

    The features **nest**: the first l columns are the map of the first l landmarks. Landmarks that depend on others
    (duplicates, constant data, more landmarks than the kernel has rank) are dropped, with a warning that says how many.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_kept, n_features)
        The landmarks in use, in order.
    gamma_ : float
    n_dropped_ : int
        Landmarks that depended on others.
    condition_ : float
        Estimated condition number of the landmark kernel matrix.
    whitening_ : ndarray of shape (n_kept, n_kept) or (n_kept, rank)
        The lower triangular ``R``, or the eigenvector whitening when ``rank`` is given.

    See Also
    --------
    RandomLayer : Random features that need no landmarks.
    NKELMRegressor : Ridge regression on these features.

    Notes
    -----
    :math:`\hat F(x) = k_{xz} R^{-T}` with :math:`K_{zz} = R R^T`, so that
    :math:`\hat F(x) \cdot \hat F(y) = k_{xz} K_{zz}^{+} k_{yz}^T`.

    References
    ----------
    W.-Y. Deng, Q.-H. Zheng, L. Chen (2014). Large-scale kernel extreme learning machine.
    Chinese Journal of Computers 37(11), 2235-2246.

    E. N. Epperly, J. A. Tropp, R. J. Webber (2024). Embrace rejection: kernel matrix approximation by accelerated
    randomly pivoted Cholesky.

    C. Musco, C. Musco (2017). Recursive sampling for the Nyström method.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import NystromMap
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> F = NystromMap(n_landmarks=10, gamma=20.0, random_state=0).fit_transform(X)
    >>> K = np.exp(-20.0 * (X - X.T) ** 2)
    >>> bool(abs(F @ F.T - K).max() < 0.1)
    True
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose landmarks and factor their kernel matrix.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,), optional
            Class labels, for ``landmarks="balanced"``; ignored by the other strategies.
        sample_weight : array of shape (n_samples,), optional
            Rows of weight 0 are never landmarks; the rest weigh in the choice of ``gamma="auto"`` and of landmarks
            by ``"kmeans"``, ``"rpcholesky"`` and ``"leverage"``, where a weight of k equals k copies of the row.

        Returns
        -------
        self
        """
        if getattr(X, "is_checked", False):
            self.n_features_in_ = X.shape[1]
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rng = check_random_state(self.random_state)
        gamma = self.gamma if self.gamma != "auto" else heuristic_gamma(self.kernel, X, sample_weight, rng)
        parameters = KernelParameters(float(gamma), self.degree, self.coef0)
        draw = Draw(X, self.n_landmarks, rng, sample_weight, y, self.kernel, parameters, self.n_jobs)
        return self.fit_landmarks(choose_landmarks(self.landmarks, draw), parameters)

    #: Another way to factor ``K_zz``.
    _decompose: ClassVar[Any] = None

    def factor_by(self, decompose: Callable[..., Any] | None) -> Self:
        """Factor the landmark kernel by another function (on another device), or by the usual one again.

        Parameters
        ----------
        decompose : callable or None
            Takes kernel, landmarks and parameters, and gives the kernel matrix (or None), its nested factor and its
            condition number; None is the usual one.

        Returns
        -------
        self
        """
        if decompose is None:
            self.__dict__.pop("_decompose", None)
        else:
            self._decompose = decompose  # type: ignore[misc]
        return self

    def fit_landmarks(self, Z: np.ndarray, parameters: KernelParameters) -> Self:
        """Factor the kernel matrix of given landmarks: what :meth:`fit` does with those that it has chosen.

        Parameters
        ----------
        Z : array of shape (n_landmarks, n_features)
        parameters : KernelParameters

        Returns
        -------
        self
        """
        self.gamma_, self.n_features_in_ = parameters.gamma, Z.shape[1]
        K, nested, condition = (self._decompose or decompose)(self.kernel, Z, parameters)
        if not len(nested.order):
            raise ValueError(
                f"no landmark has a positive kernel value with itself (kernel={self.kernel!r}); "
                "all-zero rows have none under an inner-product kernel"
            )
        n_drawn = len(Z)
        self.n_dropped_ = n_drawn - len(nested.order)
        self.condition_ = condition
        if self.rank is None:
            Z, whitening = Z[nested.order], nested.R
            if self.n_dropped_:
                warnings.warn(
                    f"{self.n_dropped_} of {n_drawn} landmarks depend on the others (duplicate rows, or more landmarks "
                    f"than the kernel has rank) and were dropped; {len(nested.order)} remain",
                    NumericalWarning,
                    stacklevel=3,
                )
        else:
            K = gram_matrix(self.kernel, Z, parameters) if K is None else K
            whitening = eigen_whitening(K, self.rank)
        self._set_factor(Z, whitening, parameters)
        return self

    @property
    def triangular(self) -> bool:
        """Whether the whitening is the nested triangular factor."""
        return self.rank is None

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        return int(self.whitening_.shape[1])

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        """Write the features of the rows ``X`` into ``out`` (no validation)."""
        W = self.whitening_ if out.dtype == np.float64 else self._whitening32
        if self.triangular:
            self.cross_kernel_.transform_block(X, out)
            solve_lower_transposed(W, out)
        else:
            K = np.empty((X.shape[0], self.cross_kernel_.n_features_out), out.dtype)
            self.cross_kernel_.transform_block(X, K)
            np.matmul(K, W, out=out)

    def transform(self, X: Any) -> np.ndarray:
        """Features of ``X``, in the floating type of ``X``; computed in float64 where whitening asks for its digits.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        # ‖R⁻¹‖ magnifies the round-off of kernel values
        lost = float(np.finfo(X.dtype).eps) * np.sqrt(self.condition_)
        out = np.empty((X.shape[0], self.n_features_out), X.dtype if lost <= DIGITS_LOST else np.float64)
        return engine.transform(self, X, out, n_jobs=self.n_jobs).astype(X.dtype, copy=False)

    def residual_kernel(self, X: Any) -> np.ndarray:
        r""":math:`\kappa(x,x) - \|\hat F(x)\|^2` of every row: 0 on the span of the landmarks, large away from it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        explained = np.empty((X.shape[0], 1))

        def work(slab: slice) -> None:
            F = engine.transform_rows(self, X[slab])
            explained[slab, 0] = np.einsum("ij,ij->i", F, F)

        rows = engine.block_rows(self.n_features_out, np.float64)
        engine.on_threads(work, engine.pieces(X.shape[0], rows), self.n_jobs)
        return np.maximum(self.cross_kernel_.diagonal(X) - explained[:, 0], 0.0)

    def prefix_sizes(self) -> list[int]:
        """Sizes of the smaller maps worth looking at."""
        have = self.n_features_out
        return sorted({max(1, have // 4), max(1, have // 2), have}) if self.triangular else [have]

    def prefix(self, size: int) -> "NystromMap":
        """The fitted map of the first ``size`` landmarks: its features are the first of these."""
        if size == self.n_features_out:
            return self
        short = clone(self).set_params(n_landmarks=size)
        if hasattr(self, "feature_names_in_"):
            short.feature_names_in_ = self.feature_names_in_
        return short.fit_landmarks(self.landmarks_[:size], self.cross_kernel_.parameters)

    def grown(self, X: Any, novelty: float, max_landmarks: int) -> "NystromMap":
        r"""This map with rows of ``X`` as further landmarks, as long as they are new to it.

        The row with the largest :math:`r(x,x)/\kappa(x,x)` is taken while that is above ``novelty``. With
        :math:`v = R^{-1}k_{zx}` and :math:`\rho = \sqrt{r(x,x)}` the factor grows by the row :math:`[v\ \rho]` and
        every row by the feature :math:`(\kappa(\cdot,x) - \hat F(\cdot)v)/\rho`; the others stay as they are.
        """
        if not self.triangular:
            raise ValueError(f"only nested features can grow; rank={self.rank} has rotated them")
        X, parameters = dense(X, np.float64), self.cross_kernel_.parameters
        F = engine.transform_rows(self, X)
        diagonal = self.cross_kernel_.diagonal(X)
        left = diagonal - np.einsum("ij,ij->i", F, F)
        Z, R = self.landmarks_, self.whitening_
        while len(Z) < max_landmarks:
            i = int(np.argmax(left / np.where(diagonal > 0, diagonal, 1.0)))
            if not left[i] > novelty * diagonal[i]:
                break
            k, rho = np.empty((len(X), 1)), np.sqrt(left[i])
            CrossKernel(self.kernel, X[i : i + 1], parameters).transform_block(X, k)
            new = (k[:, 0] - F @ F[i]) / rho
            R = np.block([[R, np.zeros((len(R), 1))], [F[i][None], rho]])
            Z, F, left = np.vstack([Z, X[i : i + 1]]), np.column_stack([F, new]), left - new**2
        if len(Z) == len(self.landmarks_):
            return self
        larger = copy(self).set_params(n_landmarks=len(Z))
        larger._set_factor(Z, np.ascontiguousarray(R), parameters)
        with engine.threads_for(1):
            larger.condition_ = NestedCholesky(np.arange(len(Z)), R).condition
        return larger

    def _set_factor(self, Z: np.ndarray, whitening: np.ndarray, parameters: KernelParameters) -> None:
        self.landmarks_, self.whitening_ = Z, whitening
        self.cross_kernel_ = CrossKernel(self.kernel, Z, parameters)
        with np.errstate(over="ignore"):
            self._whitening32 = whitening.astype(np.float32)

    def weight_to_landmarks(self, beta: np.ndarray) -> np.ndarray:
        """``a`` with ``F̂(x) β = k_xz a``: the whitening folded into the weights."""
        if not self.triangular:
            return self.whitening_ @ beta
        return solve_triangular(self.whitening_, beta, lower=True, trans=1, check_finite=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = needs_labels(self.landmarks)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
