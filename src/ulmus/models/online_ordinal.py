"""Online ordinal regression: the ordered code on a random layer with recursive ridge."""

from ulmus.models._ordinal import Ordinal
from ulmus.models.attributes import RANDOM
from ulmus.models.incremental import Incremental
from ulmus.models.online import RecursiveFamily
from ulmus.models.options import ORDERED, OSELM, RUN_ON_CPU
from ulmus.parameters import estimator


@estimator(OSELM | ORDERED | RUN_ON_CPU, positional=1, shows=RANDOM)
class OSELMOrdinalClassifier(Incremental, Ordinal):
    r"""Online ordinal regression on a random layer: it learns one row, or one block, at a time.

    A class may appear at any time and any place in the order: the bit of a new top class was −1 for all rows so far,
    that of one between two others was the bit of the upper one, and what the model knows is then, exactly, what it
    would know had it expected that class from the start.

    When all rows are at hand, :class:`~ulmus.ELMOrdinalClassifier` and :class:`~ulmus.NKELMOrdinalClassifier` are
    faster and choose the number of nodes as well.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>
    stream_ : OnlineState
        The recursion, and what is remembered of rows.

    See Also
    --------
    ELMOrdinalClassifier : The same model of rows that are all at hand.
    OSELMClassifier : Classes that have no order.

    Notes
    -----
    The bits of :class:`~ulmus.ELMOrdinalClassifier`, "is it at least this class?", :math:`o(x) = h(x)\beta` with
    :math:`\beta = (E/C + H^TH)^{-1}H^TT` of all rows so far, learned as in :class:`~ulmus.OSELMRegressor`, and
    loss-based decoding: the class k with the smallest :math:`\sum_j \exp(-o_j c^{(k)}_j)`.

    References
    ----------
    P. Li, Y. Shi, H. Wang, L. Niu (2018). Ordered code-based kernel extreme learning machine for ordinal regression.
    Journal of Electronics & Information Technology 40(6), 1287-1293.
    N.-Y. Liang, G.-B. Huang, P. Saratchandran, N. Sundararajan (2006). A fast and accurate online sequential learning
    algorithm for feedforward networks. IEEE Transactions on Neural Networks 17(6).

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import OSELMOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])
    >>> model = OSELMOrdinalClassifier(100, random_state=0)
    >>> for start in range(0, 2000, 100):
    ...     model = model.partial_fit(X[start : start + 100], y[start : start + 100])
    >>> model.predict([[-0.9, 0.0], [0.1, 0.1], [0.9, 0.9]]).tolist()
    [0, 1, 3]
    """

    _family = RecursiveFamily()
