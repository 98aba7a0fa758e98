"""KLDA: exact kernel + discriminant analysis."""

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.nystrom import KERNEL
from ulmus.features.recipes import NystromFeatures
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._heads import Part, ScoredFolds
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models._references import References
from ulmus.models.attributes import PROJECTED_KERNEL
from ulmus.models.choice import RidgeSearch, Training, choose
from ulmus.models.discriminant_fit import KernelProjection, fit_head, scored_folds
from ulmus.models.fitted import Fitted
from ulmus.models.kelm import calibration_last
from ulmus.models.options import DISCRIMINANT_SEARCH, HEAD, METRIC, PENALTY, PROJECTION, RUN_ON_CPU
from ulmus.parameters import POSITIVE, Parameter, estimator
from ulmus.solvers.discriminant import mixing
from ulmus.solvers.kernel_ridge import fit_kernel_ridge
from ulmus.tuning import Tuning

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
    | {"C": PENALTY["C"].but(text=r"Inverse strength of the penalty, :math:`\gamma = 1/C` in the scatter.")}
    | HEAD
    | DISCRIMINANT_SEARCH
    | RUN_ON_CPU,
    shows=PROJECTED_KERNEL,
)
class KLDA(DiscriminantModel):
    r"""Exact kernel discriminant analysis.

    Called without arguments it chooses gamma and C from the data.

    Time grows with the cube of the rows and memory with their square; beyond some 10,000 rows use
    ``ENDA(features="nystrom")``, which is this model when every row is a landmark. Standardise features of different
    units first.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    ENDA : The same on random nodes, or on landmark rows, for any number of rows.
    KELMClassifier : Labels alone, from the exact kernel.

    Notes
    -----
    In the feature space of the kernel, with the scatter :math:`S_b` between the classes and :math:`S_w` within them,
    the directions :math:`w = \sum_i \alpha_i\phi(x_i)` are those of largest :math:`\lambda` in
    :math:`S_b w = \lambda (S_w + I/C) w`. They are found in one n × n Cholesky factorisation, through the kernel ridge
    regression that spans the same space.

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

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)
    _leaves_projection = False

    def _learn(self, training: Training) -> Fitted:
        rows, folds, rng, p = training.rows, training.folds, training.rng, training.targets.n_components
        check_memory(len(rows))
        gamma, C, tuning = choose_kernel(self, training)
        seed, parameters = int(rng.randint(2**31 - 1)), KernelParameters(gamma, self.degree, self.coef0)
        order, n_last = calibration_last(len(rows), folds) if self.head == "mean" else (None, 1)
        if order is not None:
            rows, folds = rows.take(order), None if folds is None else folds[order]
        last_folds = None if folds is None or self.head != "mean" else folds[-n_last:]
        cross = CrossKernel(self.kernel, dense(rows.X, np.float64), parameters)
        solution = fit_kernel_ridge(
            cross, rows, C, fit_intercept=True, n_last=n_last, last_folds=last_folds, n_jobs=self.n_jobs
        )
        C = C if solution.C is None else solution.C
        counts = rows.T.sum(axis=0) if rows.weight is None else rows.weight @ rows.T
        found = mixing(rows.T.T @ solution.alpha / C, counts)
        A, means = found.A[:, :p], found.means[:, :p]
        projection = KernelProjection(
            *(cross, solution.alpha @ A, solution.intercept @ A, found.eigenvalues[:p], C, gamma, tuning)
        )
        references = References(cross.Z, rows.T.argmax(axis=1), rows.weight, folds)
        Z = projection(references.X, self.n_jobs)

        def score() -> ScoredFolds:
            if self.head != "mean":
                return scored_folds(references, seed, len(counts), lambda divisions: ((Z, means) for _ in divisions))
            # the last rows by the regression without them; their own labels drew them to their means
            last = HeldOut.of(rows.take(slice(len(rows) - n_last, len(rows))), solution.residual, solution.remainder)
            about = (last.P @ A, last.T.argmax(axis=1), last.weight)
            return ScoredFolds((Part(*about, *about, means),), len(counts))

        head = fit_head(self, references, Z, means, max(counts.sum() - len(counts), 1.0) / 2, score)
        return Fitted(projection, training.targets, head, training.metric)


def choose_kernel(model: KLDA, training: Training) -> tuple[float, float, Tuning | None]:
    """Choose gamma and C on a Nyström model, which is this one when its landmarks are all the rows."""
    gamma = model.gamma
    if model.sigma is not None:
        if model.kernel != "rbf" or model.gamma != "auto":
            raise ValueError(
                f"sigma is the width of the Gaussian kernel in place of gamma, got sigma={model.sigma!r} with "
                f"kernel={model.kernel!r} and gamma={model.gamma!r}; "
                'leave kernel="rbf" and gamma="auto", or sigma=None'
            )
        gamma = 1.0 / (2.0 * model.sigma**2)
    if gamma != "auto" and model.C != "auto":
        return float(gamma), float(model.C), None
    size = min(len(training.rows), _TUNING_LANDMARKS)
    recipe = NystromFeatures.of(model, n_landmarks=size, gamma=gamma)
    ridge = RidgeSearch(model.C, True, model.criterion, bool(model.verbose))
    plan = choose(recipe, ridge, training)
    return plan.features.gamma_, plan.C, plan.tuning


def check_memory(n: int) -> None:
    """Say what an n × n kernel matrix would need before it is allocated."""
    needed, present = 8 * n * n, engine.physical_memory()
    if present is not None and needed > present:
        raise MemoryError(
            f"KLDA of {n} rows needs {needed / 2**30:.1f} GiB for its kernel matrix and this machine has "
            f'{present / 2**30:.1f} GiB; use ENDA(features="nystrom"), whose memory does not grow with the rows'
        )
