"""NKELM: Nyström map + ridge."""

from ulmus.models import landmarks
from ulmus.models._classification import Classification
from ulmus.models._regression import Regression
from ulmus.models.attributes import ITERATED, LOSS
from ulmus.models.class_options import CLASSES
from ulmus.models.families import IterativeFamily
from ulmus.models.incremental import Incremental
from ulmus.models.options import ITERATIVE, MONOTONE, NKELM, QUANTILE_LOSS, RUN
from ulmus.parameters import estimator


@estimator(NKELM | ITERATIVE | QUANTILE_LOSS | MONOTONE | RUN, positional=1, shows=ITERATED)
class NKELMRegressor(Incremental, Regression):
    r"""Kernel ridge regression made linear in the number of rows by landmark rows.

    With as many landmarks as rows it is exact kernel ridge. Called without arguments it chooses gamma, L and C from
    the data.

    Standardise features of different units first. For a few thousand rows :class:`KELMRegressor` is exact; for jumps
    and thresholds in single features, trees do better.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    KELMRegressor : The exact kernel, for up to some 20,000 rows.
    AdaptiveRegressor : Raw tables, with text, categories and missing values.
    RobustNKELMRegressor : The same features, where some targets are wrong.

    Notes
    -----
    :math:`f(x) = \hat F(x)\beta` with :math:`\hat F(x) = k_{xz}R^{-T}`, :math:`K_{zz} = RR^T` of the L landmarks z, and
    :math:`\beta = (I/C + \hat F^T\hat F)^{-1}\hat F^T T`. Predictions are :math:`k_{xz}a` with :math:`a = R^{-T}\beta`.

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

    _family = IterativeFamily()
    partial_fit = landmarks.partial_fit
    residual_kernel, error_bound = landmarks.residual_kernel, landmarks.error_bound


@estimator(NKELM | ITERATIVE | CLASSES | MONOTONE | RUN, positional=1, shows={**ITERATED, **LOSS})
class NKELMClassifier(Incremental, Classification):
    r"""Kernel classification made linear in the number of rows by landmark rows.

    Called without arguments it chooses gamma, L and C from the data.

    Standardise features of different units first. For a few thousand rows :class:`KELMClassifier` is exact.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    KELMClassifier : The exact kernel, for up to some 20,000 rows.
    AdaptiveClassifier : Raw tables, with text, categories and missing values.
    NKELMOrdinalClassifier : Classes that have an order.

    Notes
    -----
    One ±1 target per class, fitted by ridge regression on Nyström features, :math:`f(x) = \hat F(x)\beta` with
    :math:`\beta = (I/C + \hat F^T\hat F)^{-1}\hat F^T T` (see :class:`NKELMRegressor`); the largest score wins.
    ``loss="log"`` minimises the softmax loss of the scores instead.

    References
    ----------
    W.-Y. Deng, Q.-H. Zheng, L. Chen (2014). Large-scale kernel extreme learning machine.
    Chinese Journal of Computers 37(11), 2235-2246.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ulmus import NKELMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NKELMClassifier(random_state=0).fit(X[:500], y[:500])
    >>> bool(model.score(X[500:], y[500:]) > 0.9)
    True
    """

    _takes_indicators = True
    _family = IterativeFamily()
    partial_fit = landmarks.partial_fit
    residual_kernel, error_bound = landmarks.residual_kernel, landmarks.error_bound
