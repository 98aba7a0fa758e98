"""KELM: exact kernel + ridge."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.recipes import NystromFeatures
from ulmus.models._classification import Classification
from ulmus.models._regression import Regression
from ulmus.models.attributes import KERNEL, LOSS
from ulmus.models.choice import Choice, Training, search
from ulmus.models.class_options import CLASSES
from ulmus.models.fitted import KernelFit, Outcome
from ulmus.models.options import KELM, RUN
from ulmus.parameters import estimator

#: Rows whose leave-one-out predictions come with the solve.
_LAST_ROWS = 1_000
#: Landmarks of the Nyström model on which parameters are chosen; exact for fewer rows.
_TUNING_LANDMARKS = 2_000


def calibration_last(n: int, folds: np.ndarray | None) -> tuple[np.ndarray | None, int]:
    """An order of the rows in which those that calibrate stand last, whole folds of them, and their number."""
    rng = np.random.RandomState(0)
    if folds is None:
        return (rng.permutation(n) if n > _LAST_ROWS else None), min(n, _LAST_ROWS)
    turn = rng.permutation(int(folds.max()) + 1)
    ends = np.cumsum(np.bincount(folds[folds >= 0], minlength=len(turn))[turn])
    taken = turn[: int(np.searchsorted(ends, min(_LAST_ROWS, ends[-1]))) + 1]
    last = np.isin(folds, taken)
    return np.argsort(last, kind="stable"), int(last.sum())


class KernelFamily:
    """The exact kernel and its dual weights."""

    def adapts(self, model: Any, found: Outcome) -> bool:
        """Not to so few parameters (:meth:`ulmus.models.families.FeatureFamily.adapts`)."""
        return False

    def is_crowded(self, held_out: HeldOut) -> bool:
        """Never: the kernel says what may be between rows."""
        return False

    def fit(self, model: Any, training: Training) -> Outcome:
        """Choose gamma and C, solve, and predict rows by models that did not see them."""
        rows, folds = training.rows, training.folds
        choice = self._choose(model, training)
        order, n_last = calibration_last(len(rows), folds)
        rows = rows if order is None else rows.take(order)
        parameters = KernelParameters(choice.width, model.degree, model.coef0)
        cross = CrossKernel(model.kernel, dense(rows.X, np.float64), parameters)
        last_folds = None if folds is None or order is None else folds[order][-n_last:]
        solution = training.backend.fit_kernel(
            cross, rows, choice.C, fit_intercept=model._intercept, n_last=n_last, last_folds=last_folds
        )
        choice = choice if solution.C is None else replace(choice, C=solution.C)
        found = KernelFit.of(cross, solution, choice, rows, model._intercept, order, rows.target_reach)
        last = replace(rows.take(slice(len(rows) - n_last, len(rows))), fold=last_folds)
        held_out = HeldOut.of(last, solution.residual, solution.remainder)
        return Outcome(found, replace(held_out, one_by_one=folds is None))

    def fit_log(self, model: Any, training: Training) -> Outcome:
        """The same by the log loss, with one factor of the kernel and a curvature."""
        from ulmus.models.by_log import criterion_in_use, in_memory, with_log_C, with_log_width
        from ulmus.tuning.log_choice import choose_kernel_C, fit_exact

        began, choice, recipe = time.perf_counter(), self._choose(model, training), NystromFeatures.of(model)
        if recipe.open_width:
            width, choice = with_log_width(model, recipe, choice, training, _TUNING_LANDMARKS)
            choice = replace(choice, width=float(width))
        rows, folds = replace(in_memory(training.rows), fold=training.folds), training.folds
        parameters = KernelParameters(choice.width, model.degree, model.coef0)
        how: dict[str, Any] = {"fit_intercept": model._intercept, "n_jobs": model.n_jobs}
        if model.C == "auto":
            found = choose_kernel_C(
                model.kernel, parameters, rows, choice.C, criterion_in_use(model), training.rng, **how
            )
            choice = with_log_C(choice, found, len(rows), time.perf_counter() - began)
        order, n_last = calibration_last(len(rows), folds)
        rows = rows if order is None else rows.take(order)
        cross = CrossKernel(model.kernel, dense(rows.X, np.float64), parameters)
        solution, P = fit_exact(cross, rows, choice.C, n_last, **how)
        weights = KernelFit.of(cross, solution, choice, rows, model._intercept, order, 1.0)
        last = rows.take(slice(len(rows) - n_last, len(rows)))
        return Outcome(weights, HeldOut.by_others(last, P, np.zeros(n_last)))

    def _choose(self, model: Any, training: Training) -> Choice:
        """Choose gamma and C on a Nyström model, which is this one when its landmarks are all the rows."""
        rows, rng, backend = training.rows, training.rng, training.backend
        size = min(len(rows), _TUNING_LANDMARKS)
        recipe, ridge = NystromFeatures.of(model, n_landmarks=size), model._ridge_search
        choice = Choice(recipe.start(rows, rng), model.C)
        if recipe.open_width or ridge.open:
            make = recipe.maker(int(rng.randint(2**31 - 1)))
            make_map = lambda *asked: backend.adopt(make(*asked))  # noqa: E731
            choice = search(recipe, ridge, training, make_map, choice.width, size, all_rows=True)
        return replace(choice, width=float(choice.width))

    def most_features(self, model: Any, rows: Rows) -> int:
        return len(rows)


@estimator(KELM | RUN, shows=KERNEL)
class KELMRegressor(Regression):
    r"""Exact kernel ridge regression.

    Time grows with the cube of the rows and memory with their square: one n × n matrix, factored in place. Beyond some
    20,000 rows use :class:`NKELMRegressor`. Called without arguments it chooses gamma and C from the data.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMRegressor : The same on landmark rows, linear in the number of rows.
    AdaptiveRegressor : Raw tables, with text, categories and missing values.

    Notes
    -----
    :math:`f(x) = k_x (I/C + K)^{-1} T` with :math:`K_{ij} = \kappa(x_i, x_j)` and :math:`k_x` the kernel between x and
    the training rows; weights w of rows make it :math:`(W^{-1}/C + K)^{-1} T`.

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

    _family = KernelFamily()


@estimator(KELM | CLASSES | RUN, shows={**KERNEL, **LOSS})
class KELMClassifier(Classification):
    r"""Exact kernel classification: one ±1 target per class, and the largest score wins.

    Time grows with the cube of the rows and memory with their square; beyond some 20,000 rows use
    :class:`NKELMClassifier`. Called without arguments it chooses gamma and C from the data.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMClassifier : The same on landmark rows, linear in the number of rows.
    AdaptiveClassifier : Raw tables, with text, categories and missing values.
    KELMOrdinalClassifier : Classes that have an order.

    Notes
    -----
    Scores are :math:`f(x) = k_x (I/C + K)^{-1} T` with one ±1 column of T per class, as in :class:`KELMRegressor`.
    ``loss="log"`` minimises the softmax loss of the scores instead.

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

    _takes_indicators = True
    _family = KernelFamily()
