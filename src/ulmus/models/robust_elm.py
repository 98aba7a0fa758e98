"""RobustELM and RobustNKELM: random layer or Nyström map + a robust loss + Newton's method."""

from typing import ClassVar

from ulmus.models import landmarks
from ulmus.models._robust import Robust, RobustFamily
from ulmus.models.attributes import ROBUST_NYSTROM, ROBUST_RANDOM
from ulmus.models.families import NystromFamily, RandomFamily
from ulmus.models.options import ROBUST_ELM, ROBUST_NKELM
from ulmus.parameters import estimator


@estimator(ROBUST_ELM, positional=1, shows=ROBUST_RANDOM)
class RobustELMRegressor(Robust):
    r"""Regression on a layer of random hidden nodes that outlying targets do not pull off course.

    Called without arguments it chooses the loss's scale, the slope of the nodes, their number and C from the data, and
    outliers have no say in that either.

    It resists wrong *targets*. Rows with wrong *inputs* (leverage points) are not recognised. For skewed noise robust
    losses estimate something between median and mean: where the mean is wanted, take :class:`ELMRegressor`, which is
    also two to four times as fast.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    ELMRegressor : The same layer with squared errors.
    RobustNKELMRegressor : The same losses on kernel features.

    Notes
    -----
    The output weights minimise :math:`\frac12\|\beta\|^2 + C\sum_i w_i f(h(x_i)\beta + b - t_i)` with a loss f that
    grows like the error, not like its square, so that a row pulls with a force of at most 1 however wrong it is. They
    are found by Newton's method with a Wolfe–Powell search.

    References
    ----------
    M. Han, Y.-N. Wang. Newton algorithm for solving nonlinear regression problems.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import ELMRegressor, RobustELMRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> y[::10] += 30
    >>> truth = np.sin(X[:, 0])
    >>> robust, plain = (make(50, random_state=0).fit(X, y) for make in (RobustELMRegressor, ELMRegressor))
    >>> bool(abs(robust.predict(X) - truth).mean() < 0.1 < 1 < abs(plain.predict(X) - truth).mean())
    True
    >>> bool((robust.outlier_scores(X, y)[::10] > 100).all())
    True
    """

    _family: ClassVar[RobustFamily] = RobustFamily(RandomFamily(), "slope", "n_hidden")


@estimator(ROBUST_NKELM, positional=1, shows=ROBUST_NYSTROM)
class RobustNKELMRegressor(Robust):
    r"""Kernel regression on landmark rows that outlying targets do not pull off course.

    Called without arguments it chooses the loss's scale, gamma, L and C from the data, and outliers have no say in that
    either.

    It resists wrong *targets*, not wrong inputs. Standardise features of different units first. For skewed noise robust
    losses estimate something between median and mean: where the mean is wanted, take :class:`NKELMRegressor`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMRegressor : The same features with squared errors.
    RobustELMRegressor : The same losses on a layer of random nodes.

    Notes
    -----
    Robust kernel regression in the span of the landmarks: the weights minimise
    :math:`\frac12\|\beta\|^2 + C\sum_i w_i f(\hat F(x_i)\beta + b - t_i)` by Newton's method; see
    :class:`RobustELMRegressor` for the loss f and :class:`NKELMRegressor` for the features :math:`\hat F`.

    References
    ----------
    M. Han, Y.-N. Wang. Newton algorithm for solving nonlinear regression problems.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import RobustNKELMRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = np.sinc(X[:, 0]) + 0.05 * rng.normal(size=500)
    >>> y[:50] = 10.0
    >>> model = RobustNKELMRegressor(random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[0.0], [1.0]]) - [1.0, 0.0]).max() < 0.1)
    True
    >>> bool(model.weights_[:50].max() < 0.05 < 0.3 < np.median(model.weights_[50:]))
    True
    """

    _family: ClassVar[RobustFamily] = RobustFamily(NystromFamily(), "gamma", "n_landmarks")
    residual_kernel = landmarks.residual_kernel
