"""The adaptive model for labels that have an order."""

from typing import ClassVar

from ulmus.models._adaptive import AdaptiveModel
from ulmus.models._adaptive_options import ADAPTIVE, ADAPTIVE_RUN
from ulmus.models._ordinal import Ordinal
from ulmus.models.adaptive_fit import SHOWN
from ulmus.models.options import ORDERED
from ulmus.parameters import estimator


@estimator(ADAPTIVE | ORDERED | ADAPTIVE_RUN, shows=SHOWN)
class AdaptiveOrdinalClassifier(Ordinal, AdaptiveModel):
    r"""Ordinal classification on raw tables: a kernel model with a learned metric and local corrections.

    It needs no scaling and takes frames with text, categories, dates and missing values. The local stage keeps the
    training rows: for a small model use :class:`NKELMOrdinalClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    AdaptiveRegressor : The same for numbers, with the two stages explained.
    AdaptiveClassifier : The same for classes without order.
    NKELMOrdinalClassifier : A small model that can learn on, for scaled numbers.

    Notes
    -----
    The bits of the ordered code, "is it at least this class?" (:class:`NKELMOrdinalClassifier`), are fitted as
    :class:`AdaptiveRegressor` fits targets, :math:`o(x) = f(x) + \frac1P\sum_p g_p(x)`, and decoded to the class with
    the smallest :math:`\sum_j \exp(-o_j c^{(k)}_j)`.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import AdaptiveOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (400, 3))
    >>> rank = np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])
    >>> model = AdaptiveOrdinalClassifier(effort="fast", random_state=0).fit(X[:300], rank[:300])
    >>> bool(abs(model.predict(X[300:]) - rank[300:]).mean() < 0.2)
    True
    """

    loss: ClassVar[str] = "squared"
