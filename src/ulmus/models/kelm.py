"""KELM: exact kernel + ridge."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.recipes import NystromFeatures
from ulmus.models._assembly import Assembly, digits_kept
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models._tasks import Classification, Regression
from ulmus.models.choice import Choice, Training, search
from ulmus.models.fitted import FittedView, KernelFit
from ulmus.models.options import CLASS_WEIGHT, KELM, RUN
from ulmus.parameters import estimator

#: Rows whose leave-one-out predictions come with the solve.
_LAST_ROWS = 1_000
#: Landmarks of the Nyström model on which parameters are chosen; exact for fewer rows.
_TUNING_LANDMARKS = 2_000


def _calibration_last(n: int, folds: np.ndarray | None) -> tuple[np.ndarray | None, int]:
    """An order of the rows in which those that calibrate stand last, whole folds of them, and their number."""
    rng = np.random.RandomState(0)
    if folds is None:
        return (rng.permutation(n) if n > _LAST_ROWS else None), min(n, _LAST_ROWS)
    turn = rng.permutation(int(folds.max()) + 1)
    ends = np.cumsum(np.bincount(folds[folds >= 0], minlength=len(turn))[turn])
    taken = turn[: int(np.searchsorted(ends, min(_LAST_ROWS, ends[-1]))) + 1]
    last = np.isin(folds, taken)
    return np.argsort(last, kind="stable"), int(last.sum())


class KernelFamily(Assembly):
    """The exact kernel and its dual weights."""

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)
    fitted_: KernelFit
    spread_: Any
    alpha_, intercept_, cross_kernel_ = FittedView("alpha"), FittedView("intercept"), FittedView("cross")
    C_, gamma_, tuning_ = FittedView("C"), FittedView("gamma"), FittedView("tuning")

    def _train(self, training: Training) -> HeldOut:
        rows, folds = training.rows, training.folds
        choice = self._choose(training)
        order, n_last = _calibration_last(len(rows), folds)
        rows = rows if order is None else rows.take(order)
        parameters = KernelParameters(choice.width, self.degree, self.coef0)
        cross = CrossKernel(self.kernel, dense(rows.X, np.float64), parameters)
        last_folds = None if folds is None or order is None else folds[order][-n_last:]
        solution = training.backend.fit_kernel(
            cross,
            rows,
            choice.C,
            fit_intercept=self._intercept,
            n_last=n_last,
            last_folds=last_folds,
        )
        alpha, intercept = solution.alpha, solution.intercept
        choice = choice if solution.C is None else replace(choice, C=solution.C)
        narrow = keeps_digits_narrow(cross, alpha, rows.target_reach)
        self.fitted_ = KernelFit(
            cross, alpha, intercept, choice.C, choice.width, rows.weight, self._intercept, narrow, choice.tuning
        )
        last = replace(rows.take(slice(len(rows) - n_last, len(rows))), fold=last_folds)
        return replace(HeldOut.of(last, solution.residual, solution.remainder), one_by_one=folds is None)

    def _choose(self, training: Training) -> Choice:
        """Choose gamma and C on a Nyström model, which is this one when its landmarks are all the rows."""
        rows, rng, backend = training.rows, training.rng, training.backend
        size = min(len(rows), _TUNING_LANDMARKS)
        recipe, ridge = NystromFeatures.of(self, n_landmarks=size), self._ridge_search
        choice = Choice(recipe.start(rows, rng), self.C)
        if recipe.open_width or ridge.open:
            make = recipe.maker(int(rng.randint(2**31 - 1)))
            choice = search(recipe, ridge, training, lambda *asked: backend.adopt(make(*asked)), choice.width, size)
        return replace(choice, width=float(choice.width))

    def _outputs(self, X: Any) -> np.ndarray:
        fitted = self.fitted_
        dtype = np.float32 if X.dtype == np.float32 and fitted.narrow else np.float64
        return self._apply(fitted.cross, X, fitted.alpha, dtype)

    def _most_features(self, rows: Rows) -> int:
        return len(rows)

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        variance = self.fitted_.variance(X, self.n_jobs)
        return variance, np.zeros_like(variance)

    @property
    def _noise_features(self) -> Any:
        return self.fitted_.cross

    def _leaning(self) -> Any:
        rows = self.spread_.rows
        if rows is None or not rows.one_by_one:
            raise ValueError(
                'method="jackknife+" needs left-out predictions of single rows, and this model was calibrated on whole '
                'folds or by an earlier version; use method="normalised", or fit with cv=None and no groups'
            )
        return self.fitted_.leaning(len(rows.T), self.n_jobs)

    _migrated = staticmethod(KernelFit.of_attributes)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(self._migrated(state))


def keeps_digits_narrow(cross: CrossKernel, alpha: np.ndarray, scale: Any) -> bool:
    """Whether weights on kernel values keep the digits of float32 predictions of this size."""
    return digits_kept(alpha, float(np.abs(cross.diagonal(cross.Z)).max()), scale, np.float32)


@estimator(KELM | RUN)
class KELMRegressor(Regression, KernelFamily):
    r"""Exact kernel ridge regression: :math:`f(x) = k_x (I/C + K)^{-1} T`.

    Time grows with the cube of the rows and memory with their square: one n × n matrix, factored in place. Beyond some
    20,000 rows use :class:`NKELMRegressor`. Called without arguments it chooses gamma and C from the data.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    C_, gamma_ : float
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    alpha_, intercept_ : ndarray
        Dual weights, one row per training row (in the order of ``cross_kernel_.Z``).
    cross_kernel_ : CrossKernel
        The kernel to the training rows.

    References
    ----------
    G.-B. Huang, H. Zhou, X. Ding, R. Zhang (2012). Extreme learning machine for regression and multiclass
    classification. IEEE Trans. SMC-B 42(2). Kernel ridge regression: C. Saunders, A. Gammerman, V. Vovk (1998).

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import KELMRegressor
    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> model = KELMRegressor(gamma=1.0, C=1e3).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(0.5)) < 1e-3)
    True
    """


@estimator(KELM | CLASS_WEIGHT | RUN)
class KELMClassifier(Classification, KernelFamily):
    r"""Exact kernel classification: one ±1 target per class, :math:`f(x) = k_x (I/C + K)^{-1} T`, largest score wins.

    Time grows with the cube of the rows and memory with their square; beyond some 20,000 rows use
    :class:`NKELMClassifier`. Called without arguments it chooses gamma and C from the data.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    temperature_ : float
        Factor that turns scores into probabilities.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    C_, gamma_ : float
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    alpha_, intercept_ : ndarray
        Dual weights, one row per training row (in the order of ``cross_kernel_.Z``).
    cross_kernel_ : CrossKernel
        The kernel to the training rows.

    References
    ----------
    G.-B. Huang, H. Zhou, X. Ding, R. Zhang (2012). Extreme learning machine for regression and multiclass
    classification. IEEE Trans. SMC-B 42(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ulmus import KELMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KELMClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """
