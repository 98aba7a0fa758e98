"""ELM and RELM: random layer + least squares or ridge."""

from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.calibration import variance_terms
from ulmus.engine import Rows
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.random_layer import RandomLayer
from ulmus.models._assembly import digits_kept
from ulmus.models._sequential import Sequential
from ulmus.models._tasks import Classification, Regression
from ulmus.models.options import CLASS_WEIGHT, ELM, RUN
from ulmus.parameters import estimator
from ulmus.solvers.ridge import Problem, Solution, fit_ridge
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.search import FIRST_SIZE


class RandomFamily(Sequential):
    """A random layer and its output weights."""

    _width: ClassVar[str] = "slope_"
    _plain: ClassVar[dict[str, Any]] = {"C": 1.0, "slope": 1.0, "n_hidden": 50}

    n_hidden: Any

    def _begin(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, *, spare: bool = False
    ) -> Statistics | None:
        seed = int(rng.randint(2**31 - 1))

        def make_map(slope: float, size: int) -> RandomLayer:
            return RandomLayer(
                size,
                activation=self.activation,
                weights=self.weights,
                scale=self.scale,
                slope=slope,
                direct_links=self.direct_links,
                random_state=seed,
                n_jobs=self.n_jobs,
            )

        # Without a penalty there is nothing to choose by: the document's network, as drawn.
        tune = self.C is not None
        slope: Any = 1.0 if self.slope == "auto" else self.slope
        size: Any = self.n_hidden if tune or self.n_hidden != "auto" else min(FIRST_SIZE, max(1, len(rows) // 4))
        self.C_ = self.C
        stats = None
        tune_slope = tune and self.slope == "auto"
        if tune_slope or self.C == "auto" or size == "auto":
            tuner = self._tuner(rows, make_map, self._statistics, folds, rng)
            if tune_slope:
                slope = tuner.choose_width(slope, FIRST_SIZE if size == "auto" else size)
            grow = size == "auto"
            found = tuner.choose_size(slope, self.max_hidden) if grow else tuner.choose_C(slope, size)
            self.map_, stats = found.features, found.statistics
            self.C_ = found.C if self.C == "auto" else self.C
            self.tuning_ = tuner.result(slope, found)
            if grow and spare:
                size = min(2 * self.map_.n_hidden, self.max_hidden)
                self.map_, stats = make_map(slope, size).fit(rows.X, sample_weight=rows.weight), None
        else:
            self.map_ = make_map(slope, size).fit(rows.X, sample_weight=rows.weight)
        self.slope_, self.n_hidden_ = self.map_.slope, self.map_.n_hidden
        return stats

    def _warm_up(self) -> int:
        left = "auto" in (self.scale, self.slope, self.n_hidden, self.C)
        radial = ACTIVATIONS[self.activation].argument == "distance"
        return self._warm_up_rows if (left or radial) and self.C is not None else 1

    @property
    def _open_size(self) -> bool:
        return self.n_hidden == "auto" and self.C is not None

    def _statistics(self, features: RandomLayer, rows: Rows) -> Statistics:
        if self._driver is not None:
            return self._driver.statistics(features, rows)
        return engine.gram_statistics(features, rows, n_jobs=self.n_jobs)

    def _solve(self, rows: Rows, stats: Statistics | None) -> Solution:
        if self._driver is not None:
            from ulmus.devices import direct

            return direct.fit_ridge(
                self._driver, self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
            )
        return fit_ridge(Problem(self.map_, rows, self.C_, self._intercept, self.n_jobs), stats)

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        self.n_hidden_ = self.map_.n_hidden
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage = solution.leverage
        self._fold(source.target_reach)

    def _fold(self, scale: Any) -> None:
        """Predict float32 rows in float32 where that keeps the digits."""
        self._narrow = digits_kept(self.beta_, 1.0, scale, np.float32)

    def _most_features(self, rows: Rows) -> int:
        return self.max_hidden if self.n_hidden == "auto" else self.n_hidden

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = np.float32 if X.dtype == np.float32 and self._narrow else np.float64
        return self._apply(self.map_, X, self.beta_, dtype)

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return variance_terms(self.map_, X, self._leverage, self.n_jobs)


@estimator(ELM | RUN, positional=1)
class ELMRegressor(Regression, RandomFamily):
    r"""Regression on a layer of random hidden nodes: one linear solve.

    :math:`f(x) = h(x)\beta` with :math:`h_j(x) = g(w_j\cdot x + b_j)`, random weights and
    :math:`\beta = (I/C + H^TH)^{-1}H^TT`, or :math:`\beta = H^{\dagger}T` for ``C=None``.
    Called without arguments it chooses the slope of the nodes, their number and C from the data.

    The kernel models are usually more accurate for the same number of features; this one is the cheapest to evaluate.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    C_, slope_, n_hidden_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : RandomLayer
        The hidden layer.
    beta_, intercept_ : ndarray
        Output weights.
    route_ : str
        How the weights were computed.

    References
    ----------
    G.-B. Huang, Q.-Y. Zhu, C.-K. Siew (2006). Extreme learning machine: theory and applications. Neurocomputing 70.
    Older relatives: random-weight networks (Schmidt et al., 1992), RVFL (Pao et al., 1994).

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import ELMRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> model = ELMRegressor(random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.01)
    True
    """


@estimator(ELM | CLASS_WEIGHT | RUN, positional=1)
class ELMClassifier(Classification, RandomFamily):
    r"""Classification on a layer of random hidden nodes: one linear solve.

    One ±1 target per class, fitted as in :class:`ELMRegressor`; the largest score wins.

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
    C_, slope_, n_hidden_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : RandomLayer
        The hidden layer.
    beta_, intercept_ : ndarray
        Output weights.
    route_ : str
        How the weights were computed.

    References
    ----------
    G.-B. Huang, Q.-Y. Zhu, C.-K. Siew (2006). Extreme learning machine: theory and applications. Neurocomputing 70.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ulmus import ELMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(ELMClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """
