"""OS-ELM: random layer + recursive ridge, for rows that never end."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.losses import LOSSES
from ulmus.models._classification import Classification
from ulmus.models._ordinal import Ordinal
from ulmus.models._regression import Regression
from ulmus.models.attributes import RANDOM
from ulmus.models.choice import Training
from ulmus.models.class_options import DECISION
from ulmus.models.families import RandomFamily
from ulmus.models.fitted import Fitted, Outcome
from ulmus.models.incremental import Incremental
from ulmus.models.options import CLASS_WEIGHT, ONLINE_LOSS, ORDERED, OSELM, RUN_ON_CPU
from ulmus.online import Learner
from ulmus.online.learner import aged
from ulmus.parameters import estimator
from ulmus.solvers.ridge import Problem

#: Errors of recent rows by which the usual size of errors is known.
RECENT_ERRORS = 500
#: Rounds of reweighting of the first rows.
ROUNDS = 5


class RecursiveFamily(RandomFamily):
    """A random layer whose weights follow the rows: a fit is the first block that its learner learns."""

    def fit(self, model: Any, training: Training) -> Outcome:
        rows, folds, rng = training.rows, training.folds, training.rng
        blank = Learner(model._new_memory(), announced=False, targets=training.targets, metric=training.metric)
        learner = model._started(blank, rows, folds, rng)
        solution, plan = learner.solution(), learner.plan
        found = self.weights(model, plan, solution, learner.summary())
        held_out = training.backend.left_out(plan.features, aged(rows, model.forgetting), solution, rng, plan.C)
        return Outcome(found, held_out, learner)

    def weights(self, model: Any, plan: Any, solution: Any, source: Any) -> Any:
        """In float64 for rows of every type: a row alone and in a block have the same answer."""
        return replace(super().weights(model, plan, solution, source), narrow=False)

    def adapts(self, model: Any, found: Outcome) -> bool:
        return super().adapts(model, found) and model.forgetting == 1.0

    def check(self, model: Any) -> None:
        """Refuse parameters that do not go together."""
        if model.C is None and model.forgetting < 1.0:
            raise ValueError(
                f"forgetting={model.forgetting!r} with C=None would leave nothing to hold the weights in directions "
                "that rows no longer visit; give a penalty such as C=1e6"
            )


def loss_weights(model: "OSELMRegressor", E: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """``f'(e)/e`` of every row, 1 for no error; with several outputs, of the root mean square of their errors."""
    loss = LOSSES[model.loss]
    deviation = np.maximum(1.4826 * np.median(errors, axis=0), np.finfo(float).tiny)
    if model.loss_scale == "auto":
        size, c = np.sqrt(np.mean((E / deviation) ** 2, axis=1)), loss.efficient
    else:
        size, c = np.sqrt(np.mean(E**2, axis=1)), float(model.loss_scale)
    return np.maximum(loss.relative_weight(size, c), np.finfo(float).eps)


@estimator(OSELM | ONLINE_LOSS | RUN_ON_CPU, positional=1, shows=RANDOM)
class OSELMRegressor(Incremental, Regression):
    r"""Online regression on a random layer: it learns one row, or one block, at a time.

    After any blocks, in any order, the weights are those of :class:`~ulmus.ELMRegressor` on all rows with the same map
    and C, :math:`\beta = (I/C + H^TH)^{-1}H^TT`. Rows can be forgotten (``forgetting``), taken out again
    (:meth:`unlearn`), and learned apart (:meth:`merge`).

    When all rows are at hand, :class:`~ulmus.ELMRegressor` and :class:`~ulmus.NKELMRegressor` are faster and choose the
    number of nodes as well. A row costs :math:`O(L^2)`; for many thousand nodes use a linear model on the features.

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
    ELMRegressor : The same model of rows that are all at hand.
    OSELMClassifier : The same for classes.

    Notes
    -----
    After any blocks the weights are :math:`\beta = (E/C + H^TH)^{-1}H^TT` of all rows so far, where E is the identity
    but for the intercept, which is not penalised.

    Three forms give the same weights. ``form="root"`` carries the triangular factor of :math:`K = E/C + H^TH` and
    updates it by orthogonal transformations: no digit is lost, however many rows come. Rows wait until there are enough
    for a block, and are counted exactly if a prediction is asked for before. ``"covariance"`` is the recursion of the
    literature, :math:`P \leftarrow P - Phh^TP/(1+h^TPh)`; its round-off grows. ``"information"`` carries K and solves
    when asked.

    References
    ----------
    N.-Y. Liang, G.-B. Huang, P. Saratchandran, N. Sundararajan (2006). A fast and accurate online sequential learning
    algorithm for feedforward networks. IEEE Transactions on Neural Networks 17(6).

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import OSELMRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (2000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = OSELMRegressor(50, random_state=0)
    >>> for start in range(0, 2000, 100):
    ...     model = model.partial_fit(X[start : start + 100], y[start : start + 100])
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(1.5)) < 0.01)
    True
    """

    _family = RecursiveFamily()

    def _validate_params(self) -> None:
        super()._validate_params()
        if not LOSSES[self.loss].reweightable:
            allowed = [name for name, loss in LOSSES.items() if loss.reweightable]
            raise ValueError(
                f"loss={self.loss!r} cannot be learned row by row: its weight f'(e)/e rises with the error, so that "
                f"reweighting does not lower it. Use one of {allowed}, or RobustELMRegressor on rows in memory"
            )

    def _weighed(self, learner: Learner, rows: Rows) -> tuple[Rows, np.ndarray | None]:
        if self.loss == "squared":
            return rows, None
        features, errors = learner.plan.features, learner.errors
        if learner.n_rows:
            weights = self._now("weights").weights
            E = rows.T - engine.apply(features, rows.X, weights.beta, n_jobs=self.n_jobs) - weights.intercept
            weighed = rows.reweighted(loss_weights(self, E, errors if errors is not None else np.abs(E)))
        else:
            weighed = rows
            for _ in range(ROUNDS):
                solution = Problem(features, weighed, learner.plan.C, self._intercept, self.n_jobs).solve()
                fitted = engine.apply(features, rows.X, solution.beta, n_jobs=self.n_jobs) + solution.intercept
                E = rows.T - fitted
                errors = np.abs(E)
                weighed = rows.reweighted(loss_weights(self, E, errors))
        known = E[:0] if errors is None else errors
        return weighed, np.concatenate([known, np.abs(E)])[-RECENT_ERRORS:]

    def _leaning(self, fitted: Fitted) -> Any:
        if self.loss != "squared":
            raise ValueError(f'method="jackknife+" needs loss="squared", got {self.loss!r}; use method="normalised"')
        return super()._leaning(fitted)

    def _refuse(self, what: str) -> None:
        if what == "unlearn" and self.loss != "squared":
            raise ValueError(
                f"unlearn needs loss='squared': the weight that loss={self.loss!r} gave to a row is not remembered"
            )


@estimator(OSELM | DECISION | CLASS_WEIGHT | RUN_ON_CPU, positional=1, shows=RANDOM)
class OSELMClassifier(Incremental, Classification):
    r"""Online classification on a random layer: it learns one row, or one block, at a time.

    A class may appear at any time: what the model knows is then, exactly, what it would know had it expected that class
    from the start.

    When all rows are at hand, :class:`~ulmus.ELMClassifier` and :class:`~ulmus.NKELMClassifier` are faster and choose
    the number of nodes as well.

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
    ELMClassifier : The same model of rows that are all at hand.
    OSELMOrdinalClassifier : Classes that have an order.

    Notes
    -----
    One ±1 target per class, :math:`\beta = (E/C + H^TH)^{-1}H^TT` of all rows so far, learned as in
    :class:`OSELMRegressor`; the largest score wins.

    References
    ----------
    N.-Y. Liang, G.-B. Huang, P. Saratchandran, N. Sundararajan (2006). A fast and accurate online sequential learning
    algorithm for feedforward networks. IEEE Transactions on Neural Networks 17(6).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ulmus import OSELMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OSELMClassifier(random_state=0)
    >>> for start in range(0, 1500, 50):
    ...     model = model.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.85)
    True
    """

    _family = RecursiveFamily()


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
