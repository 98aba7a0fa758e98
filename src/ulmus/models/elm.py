"""ELM and RELM: random layer + least squares or ridge."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor

from ulmus.calibration import variance_terms
from ulmus.engine import Lift, Rows
from ulmus.features.recipes import RandomFeatures
from ulmus.models._assembly import digits_kept
from ulmus.models._features import MappedFamily
from ulmus.models._sequential import Sequential
from ulmus.models._tasks import Classification, Regression
from ulmus.models.options import CLASS_WEIGHT, ELM, RUN
from ulmus.parameters import estimator
from ulmus.solvers.ridge import Solution
from ulmus.statistics import Extent, Summary


class RandomFamily(MappedFamily):
    """A random layer and its output weights."""

    _plain: ClassVar[dict[str, Any]] = {"C": 1.0, "slope": 1.0, "n_hidden": 50}

    n_hidden: Any

    @property
    def _recipe(self) -> RandomFeatures:
        return RandomFeatures.of(self)

    @property
    def _adapts(self) -> bool:
        return is_regressor(self) and self.C is not None and (self._recipe.open_width or self._recipe.open_size)

    def _summed_form(self) -> tuple[Lift, np.ndarray | None]:
        """What a driver may sum instead of ``map_``, and the triangular factor that whitens the sum at the end."""
        return self.map_, None

    def _extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T)

    def _fitted_extent(self, rows: Rows) -> Extent:
        """The extent of rows that were fitted just now."""
        return self._extent(rows)

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        self.n_hidden_ = self.map_.n_hidden
        self.beta_, self.intercept_, self.route_ = solution.beta, solution.intercept, solution.form
        self._leverage = solution.leverage
        self._fold(source.target_reach)

    def _fold(self, scale: Any) -> None:
        """Predict float32 rows in float32 where that keeps the digits."""
        self._narrow = digits_kept(self.beta_, 1.0, scale, np.float32)

    def _outputs(self, X: Any) -> np.ndarray:
        dtype = np.float32 if X.dtype == np.float32 and self._narrow else np.float64
        return self._apply(self.map_, X, self.beta_, dtype)

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return variance_terms(self.map_, X, self._leverage, self.n_jobs)


@estimator(ELM | RUN, positional=1)
class ELMRegressor(Regression, RandomFamily, Sequential):
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
class ELMClassifier(Classification, RandomFamily, Sequential):
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
