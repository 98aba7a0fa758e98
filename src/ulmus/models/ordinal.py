"""Ordinal models: the ordered code on a random layer, an exact kernel or Nyström features."""

from ulmus.models import landmarks
from ulmus.models._ordinal import Ordinal
from ulmus.models.attributes import KERNEL, NYSTROM, RANDOM
from ulmus.models.families import NystromFamily, RandomFamily
from ulmus.models.incremental import Incremental
from ulmus.models.kelm import KernelFamily
from ulmus.models.options import BIT_LOSS, ELM, KELM, NKELM, ORDERED, RUN
from ulmus.parameters import estimator


@estimator(ELM | BIT_LOSS | ORDERED | RUN, positional=1, shows=RANDOM)
class ELMOrdinalClassifier(Incremental, Ordinal):
    r"""Ordinal regression on a layer of random hidden nodes (ELMOR).

    When classes have no order, or only the share of right answers counts, use :class:`ELMClassifier`. The kernel models
    are usually more accurate; this one is the cheapest to evaluate.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMOrdinalClassifier : The same code on a kernel, usually more accurate.
    OSELMOrdinalClassifier : The same model, row by row.
    ELMClassifier : Classes that have no order.

    Notes
    -----
    One ±1 target for every class but the lowest, "is it at least this class?", :math:`o(x) = h(x)\beta` with
    :math:`\beta = (I/C + H^TH)^{-1}H^TT` as in :class:`ELMRegressor`, and loss-based decoding: the class k with the
    smallest :math:`\sum_j \exp(-o_j c^{(k)}_j)`, where :math:`c^{(k)}` is its code. Two codes differ in as many bits as
    their classes are apart, so what is trained is close to what is scored: the mean absolute error in ranks. Parameters
    are chosen by it.

    References
    ----------
    P. Li, Y. Shi, H. Wang, L. Niu (2018). Ordered code-based kernel extreme learning machine for ordinal regression.
    Journal of Electronics & Information Technology 40(6), 1287-1293.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import ELMOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (300, 2))
    >>> grade = np.array(["poor", "fair", "good", "fine"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])]
    >>> model = ELMOrdinalClassifier(categories=["poor", "fair", "good", "fine"], random_state=0).fit(X, grade)
    >>> model.predict([[-0.9, 0.0], [0.1, 0.1], [0.9, 0.9]]).tolist()
    ['poor', 'fair', 'fine']
    >>> bool((np.diff(model.predict_cumulative(X), axis=1) <= 0).all())
    True
    """

    _family = RandomFamily()


@estimator(KELM | BIT_LOSS | ORDERED | RUN, shows=KERNEL)
class KELMOrdinalClassifier(Ordinal):
    r"""Ordinal regression with an exact kernel (KELMOR).

    When classes have no order, or only the share of right answers counts, use :class:`KELMClassifier`. Time grows with
    the cube of the rows and memory with their square: beyond some 20,000 rows use :class:`NKELMOrdinalClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    NKELMOrdinalClassifier : The same code on landmark rows, for any number of rows.
    KELMClassifier : Classes that have no order.

    Notes
    -----
    One ±1 target for every class but the lowest, "is it at least this class?", :math:`o(x) = k_x (I/C + K)^{-1} T`, all
    fitted by one factorisation, and loss-based decoding: the class k with the smallest
    :math:`\sum_j \exp(-o_j c^{(k)}_j)`, where :math:`c^{(k)}` is its code. Two codes differ in as many bits as their
    classes are apart, so what is trained is close to what is scored: the mean absolute error in ranks. Parameters are
    chosen by it.

    References
    ----------
    P. Li, Y. Shi, H. Wang, L. Niu (2018). Ordered code-based kernel extreme learning machine for ordinal regression.
    Journal of Electronics & Information Technology 40(6), 1287-1293.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import KELMOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (300, 2))
    >>> grade = np.array(["poor", "fair", "good", "fine"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])]
    >>> model = KELMOrdinalClassifier(categories=["poor", "fair", "good", "fine"], random_state=0).fit(X, grade)
    >>> model.predict([[-0.9, 0.0], [0.1, 0.1], [0.9, 0.9]]).tolist()
    ['poor', 'fair', 'fine']
    >>> bool((np.diff(model.predict_cumulative(X), axis=1) <= 0).all())
    True
    """

    _family = KernelFamily()


@estimator(NKELM | BIT_LOSS | ORDERED | RUN, positional=1, shows=NYSTROM)
class NKELMOrdinalClassifier(Incremental, Ordinal):
    r"""Ordinal regression with a kernel, linear in the number of rows by landmark rows.

    With as many landmarks as rows it is the exact model. Memory does not grow with the rows.

    When classes have no order, or only the share of right answers counts, use :class:`NKELMClassifier`. For a few
    thousand rows :class:`KELMOrdinalClassifier` is exact.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    KELMOrdinalClassifier : The exact kernel, for up to some 20,000 rows.
    AdaptiveOrdinalClassifier : Raw tables, with text, categories and missing values.
    NKELMClassifier : Classes that have no order.

    Notes
    -----
    The bits of :class:`KELMOrdinalClassifier` on the Nyström features of :class:`NKELMRegressor`:
    :math:`o(x) = \hat F(x)\beta` with :math:`\beta = (I/C + \hat F^T\hat F)^{-1}\hat F^T T`, and loss-based decoding:
    the class k with the smallest :math:`\sum_j \exp(-o_j c^{(k)}_j)`, where :math:`c^{(k)}` is its code. Two codes
    differ in as many bits as their classes are apart, so what is trained is close to what is scored: the mean absolute
    error in ranks. Parameters are chosen by it.

    References
    ----------
    P. Li, Y. Shi, H. Wang, L. Niu (2018). Ordered code-based kernel extreme learning machine for ordinal regression.
    Journal of Electronics & Information Technology 40(6), 1287-1293.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import NKELMOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (300, 2))
    >>> grade = np.array(["poor", "fair", "good", "fine"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])]
    >>> model = NKELMOrdinalClassifier(categories=["poor", "fair", "good", "fine"], random_state=0).fit(X, grade)
    >>> model.predict([[-0.9, 0.0], [0.1, 0.1], [0.9, 0.9]]).tolist()
    ['poor', 'fair', 'fine']
    >>> bool((np.diff(model.predict_cumulative(X), axis=1) <= 0).all())
    True
    """

    _family = NystromFamily()
    partial_fit = landmarks.partial_fit
    residual_kernel, error_bound = landmarks.residual_kernel, landmarks.error_bound
