"""Ordinal models: the ordered code on a random layer, an exact kernel or Nyström features."""

from typing import Any, Self

import numpy as np

from ulmus.models import _growing
from ulmus.models._logistic import FeatureBits, KernelBits
from ulmus.models._nystrom import NystromFamily
from ulmus.models._sequential import Sequential
from ulmus.models.elm import RandomFamily
from ulmus.models.kelm import KernelFamily
from ulmus.models.options import BIT_LOSS, ELM, KELM, NKELM, ORDERED, RUN
from ulmus.parameters import estimator


@estimator(ELM | BIT_LOSS | ORDERED | RUN, positional=1)
class ELMOrdinalClassifier(FeatureBits, RandomFamily, Sequential):
    r"""Ordinal regression on a layer of random hidden nodes (ELMOR).

    One ±1 target for every class but the lowest, "is it at least this class?", fitted as in
    :class:`ELMRegressor`, and loss-based decoding: the class with the smallest
    :math:`\sum_j \exp(-o_j c^{(k)}_j)`. Two codes differ in as many bits as their classes are apart, so what is
    trained is close to what is judged: the mean absolute error in ranks. Parameters are chosen by it.

    When classes have no order, or only the share of right answers counts, use :class:`ELMClassifier`. The kernel models
    are usually more accurate; this one is the cheapest to evaluate.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
        All classes, lowest first.
    present_ : ndarray of int
        Positions in ``classes_`` of those seen in training; only these are predicted.
    temperature_ : float
        Factor that turns bits into log-odds.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    C_, slope_, n_hidden_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : RandomLayer
        The hidden layer.
    beta_, intercept_ : ndarray
        Output weights, one column per bit.
    route_ : str
        How the weights were computed.

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


@estimator(KELM | BIT_LOSS | ORDERED | RUN)
class KELMOrdinalClassifier(KernelBits, KernelFamily):
    r"""Ordinal regression with an exact kernel (KELMOR).

    One ±1 target for every class but the lowest, "is it at least this class?", all fitted by one factorisation of
    :math:`K + I/C`, and loss-based decoding: the class with the smallest :math:`\sum_j \exp(-o_j c^{(k)}_j)`. Two codes
    differ in as many bits as their classes are apart, so what is trained is close to what is judged: the mean absolute
    error in ranks. Parameters are chosen by it.

    When classes have no order, or only the share of right answers counts, use :class:`KELMClassifier`. Time grows with
    the cube of the rows and memory with their square: beyond some 20,000 rows use :class:`NKELMOrdinalClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
        All classes, lowest first.
    present_ : ndarray of int
        Positions in ``classes_`` of those seen in training; only these are predicted.
    temperature_ : float
        Factor that turns bits into log-odds.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    C_, gamma_ : float
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    cross_kernel_ : CrossKernel
        The kernel between new rows and the training rows.
    alpha_, intercept_ : ndarray
        Dual weights, one column per bit.

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


@estimator(NKELM | BIT_LOSS | ORDERED | RUN, positional=1)
class NKELMOrdinalClassifier(FeatureBits, NystromFamily, Sequential):
    r"""Ordinal regression with a kernel, linear in the number of rows by landmark rows.

    The bits of :class:`KELMOrdinalClassifier` on the Nyström features of :class:`NKELMRegressor`:
    :math:`\beta = (I/C + \hat F^T\hat F)^{-1}\hat F^T T`, :math:`o = \hat F(x)\beta`, and loss-based decoding. With as
    many landmarks as rows it is the exact model. Memory does not grow with the rows.

    When classes have no order, or only the share of right answers counts, use :class:`NKELMClassifier`. For a few
    thousand rows :class:`KELMOrdinalClassifier` is exact.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
        All classes, lowest first.
    present_ : ndarray of int
        Positions in ``classes_`` of those seen in training; only these are predicted.
    temperature_ : float
        Factor that turns bits into log-odds.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    C_, gamma_, n_landmarks_ : float, float, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : NystromMap
        The fitted feature map.
    beta_, intercept_ : ndarray
        Output weights on the features of ``map_``, one column per bit.
    landmark_weights_ : ndarray of shape (n_landmarks, n_bits)
        The same weights on kernel values.
    route_ : str
        How the weights were computed.

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

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, novelty: float | None = None
    ) -> Self:
        self._refuse_logistic("partial_fit")
        return _growing.partial_fit(self, X, y, classes, sample_weight, novelty=novelty)

    partial_fit.__doc__ = _growing.partial_fit.__doc__

    def error_bound(self, X: Any) -> np.ndarray:
        """How far the bits can be from those of the exact kernel model, at every row; see :class:`NKELMRegressor`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Euclidean norm over the bits.
        """
        if self.loss != "squared":
            raise ValueError(f'error_bound speaks of the closed form: it needs loss="squared", got {self.loss!r}')
        return super().error_bound(X)
