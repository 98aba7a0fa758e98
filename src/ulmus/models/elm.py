"""ELM and RELM: random layer + least squares or ridge."""

from ulmus.models._classification import Classification
from ulmus.models._regression import Regression
from ulmus.models.attributes import LOSS, RANDOM
from ulmus.models.class_options import CLASSES
from ulmus.models.families import RandomFamily
from ulmus.models.incremental import Incremental
from ulmus.models.options import ELM, MONOTONE, QUANTILE_LOSS, RUN
from ulmus.parameters import estimator


@estimator(ELM | QUANTILE_LOSS | MONOTONE | RUN, positional=1, shows=RANDOM)
class ELMRegressor(Incremental, Regression):
    r"""Regression on a layer of random hidden nodes: one linear solve.

    Called without arguments it chooses the slope of the nodes, their number and C from the data.

    The kernel models are usually more accurate for the same number of features; this one is the cheapest to evaluate.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMRegressor : Kernel ridge regression on landmark rows, usually more accurate.
    OSELMRegressor : The same model, row by row.
    RobustELMRegressor : The same layer, where some targets are wrong.

    Notes
    -----
    :math:`f(x) = h(x)\beta` with :math:`h_j(x) = g(w_j\cdot x + b_j)`, random weights :math:`w_j, b_j` and
    :math:`\beta = (I/C + H^TH)^{-1}H^TT`, or :math:`\beta = H^{\dagger}T` for ``C=None``.

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

    _family = RandomFamily()


@estimator(ELM | CLASSES | MONOTONE | RUN, positional=1, shows={**RANDOM, **LOSS})
class ELMClassifier(Incremental, Classification):
    r"""Classification on a layer of random hidden nodes: one linear solve.

    Called without arguments it chooses the slope of the nodes, their number and C from the data.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMClassifier : Kernel classification on landmark rows, usually more accurate.
    OSELMClassifier : The same model, row by row.
    ELMOrdinalClassifier : Classes that have an order.

    Notes
    -----
    One ±1 target per class, :math:`f(x) = h(x)\beta` with :math:`\beta = (I/C + H^TH)^{-1}H^TT` as in
    :class:`ELMRegressor`; the largest score wins. ``loss="log"`` minimises the softmax loss of the scores instead.

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

    _takes_indicators = True
    _family = RandomFamily()
