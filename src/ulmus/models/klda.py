"""KLDA: exact kernel + discriminant analysis."""

from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.nystrom import KERNEL
from ulmus.features.recipes import NystromFeatures
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models._references import References
from ulmus.models.choice import RidgeSearch, Training, choose
from ulmus.models.options import DISCRIMINANT_SEARCH, HEAD, METRIC, PENALTY, PROJECTION, RUN_ON_CPU
from ulmus.parameters import POSITIVE, Parameter, estimator
from ulmus.solvers.discriminant import mixing
from ulmus.solvers.kernel_ridge import fit_kernel_ridge

#: Landmarks of the Nyström model on which parameters are chosen; exact for fewer rows.
_TUNING_LANDMARKS = 2_000


@estimator(
    {"kernel": KERNEL["kernel"], "gamma": KERNEL["gamma"]}
    | {
        "sigma": Parameter(
            None,
            (POSITIVE, None),
            "float",
            r"""Width of the Gaussian kernel by the other convention, :math:`\exp(-\|x-z\|^2/(2\sigma^2))`, instead of
            gamma.""",
        )
    }
    | KERNEL
    | METRIC
    | PROJECTION
    | {"C": PENALTY["C"].but(text=r"Penalty; larger is weaker, :math:`\gamma = 1/C` in the scatter.")}
    | HEAD
    | DISCRIMINANT_SEARCH
    | RUN_ON_CPU
)
class KLDA(DiscriminantModel):
    r"""Exact kernel discriminant analysis.

    The directions :math:`w = \sum_i \alpha_i\phi(x_i)` of largest :math:`\lambda` in
    :math:`S_b w = \lambda (S_w + I/C) w`, in the feature space of the kernel. They are found in one n × n Cholesky
    factorisation, through the kernel ridge regression that spans the same space. Called without arguments it chooses
    gamma and C from the data.

    Time grows with the cube of the rows and memory with their square; beyond some 10,000 rows use
    ``ENDA(features="nystrom")``, which is this model when every row is a landmark. Standardise features of different
    units first.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    n_components_ : int
    C_, gamma_, n_neighbors_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    alpha_ : ndarray of shape (n_samples, n_components)
        Dual directions, one row per training row (in the order of ``cross_kernel_.Z``).
    offset_ : ndarray of shape (n_components,)
    eigenvalues_ : ndarray of shape (n_components,)
        :math:`\lambda`: scatter between classes over (penalised) scatter within, along each direction.
    means_ : ndarray of shape (n_classes, n_components)
        Projected class means.
    cross_kernel_ : CrossKernel
        The kernel to the training rows.
    head_ : Neighbours or Means
        The classifier in the projection.

    References
    ----------
    S. Mika, G. Rätsch, J. Weston, B. Schölkopf, K.-R. Müller (1999). Fisher discriminant analysis with kernels.

    G. Baudat, F. Anouar (2000). Generalized discriminant analysis using a kernel approach. Neural Computation 12.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ulmus import KLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> KLDA(sigma=1.0, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    _transient: ClassVar[tuple[str, ...]] = ("_Z", "_references")
    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)

    def _learn(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> None:
        check_memory(len(rows))
        self.gamma_, self.C_ = self._choose(rows, folds, rng)
        self._seed = int(rng.randint(2**31 - 1))
        parameters = KernelParameters(self.gamma_, self.degree, self.coef0)
        self.cross_kernel_ = CrossKernel(self.kernel, dense(rows.X, np.float64), parameters)
        solution = fit_kernel_ridge(self.cross_kernel_, rows, self.C_, fit_intercept=True, n_jobs=self.n_jobs)
        self.C_ = self.C_ if solution.C is None else solution.C
        counts = rows.T.sum(axis=0) if rows.weight is None else rows.weight @ rows.T
        found = mixing(rows.T.T @ solution.alpha / self.C_, counts)
        p = self.n_components_
        A = found.A[:, :p]
        self.alpha_, self.offset_ = solution.alpha @ A, solution.intercept @ A
        self.eigenvalues_ = found.eigenvalues[:p]
        references = References(self.cross_kernel_.Z, rows.T.argmax(axis=1), rows.weight, folds)
        self._set_head(references, found.means[:, :p], max(counts.sum() - len(counts), 1.0) / 2)

    def _choose(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> tuple[float, float]:
        """Choose gamma and C on a Nyström model, which is this one when its landmarks are all the rows."""
        gamma = self.gamma
        if self.sigma is not None:
            if self.kernel != "rbf" or self.gamma != "auto":
                raise ValueError(
                    f"sigma is the width of the Gaussian kernel in place of gamma, got sigma={self.sigma!r} with "
                    f"kernel={self.kernel!r} and gamma={self.gamma!r}; "
                    'leave kernel="rbf" and gamma="auto", or sigma=None'
                )
            gamma = 1.0 / (2.0 * self.sigma**2)
        if gamma != "auto" and self.C != "auto":
            return float(gamma), float(self.C)
        size = min(len(rows), _TUNING_LANDMARKS)
        recipe = NystromFeatures.of(self, n_landmarks=size, gamma=gamma)
        training = Training(rows, self._coding(rows), folds, rng, Host(self.n_jobs))
        plan = choose(recipe, RidgeSearch(self.C, True, self.criterion, bool(self.verbose)), training)
        if plan.tuning is not None:
            self.tuning_ = plan.tuning
        return plan.features.gamma_, plan.C

    def _project(self, X: Any) -> np.ndarray:
        return engine.apply(self.cross_kernel_, X, self.alpha_, n_jobs=self.n_jobs) + self.offset_


def check_memory(n: int) -> None:
    """Say what an n × n kernel matrix would need before it is allocated."""
    needed, present = 8 * n * n, engine.physical_memory()
    if present is not None and needed > present:
        raise MemoryError(
            f"KLDA of {n} rows needs {needed / 2**30:.1f} GiB for its kernel matrix and this machine has "
            f'{present / 2**30:.1f} GiB; use ENDA(features="nystrom"), whose memory does not grow with the rows'
        )
