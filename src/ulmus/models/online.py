"""OS-ELM: random layer + recursive ridge, for rows that never end."""

from typing import Any, Self

import numpy as np

from ulmus import engine
from ulmus._sklearn import fit_context
from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.losses import LOSSES
from ulmus.models._sequential import Sequential
from ulmus.models._stream import OnlineState
from ulmus.models._tasks import Classification, Regression
from ulmus.models.choice import Training
from ulmus.models.elm import RandomFamily
from ulmus.models.options import CLASS_WEIGHT, ONLINE_LOSS, OSELM, RUN_ON_CPU
from ulmus.parameters import estimator
from ulmus.solvers.ridge import Problem, fit_ridge

#: Errors of recent rows that tell how large errors usually are.
RECENT_ERRORS = 500
#: Rounds of reweighting of the first rows.
ROUNDS = 5
#: Rows that are predicted without the engine's threads.
_FEW_ROWS = 64


class OnlineFamily(RandomFamily, Sequential):
    """A random layer whose weights follow the rows."""

    @property
    def _warm_up_rows(self) -> int:  # type: ignore[override]
        return self.warm_up

    @property
    def _form(self) -> str:  # type: ignore[override]
        return self.form

    @property
    def _forgetting(self) -> float:  # type: ignore[override]
        return self.forgetting

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.C is None and self.forgetting < 1.0:
            raise ValueError(
                f"forgetting={self.forgetting!r} with C=None would leave nothing to hold the weights in directions "
                "that rows no longer visit; give a penalty such as C=1e6"
            )

    def _train(self, training: Training) -> HeldOut:
        rows, folds, rng = training.rows, training.folds, training.rng
        self.stream_ = OnlineState(self._new_memory(), announced=False)
        self._start(rows, folds, rng)
        solution = self._solution()
        self._settle(solution, self._summary())
        return training.backend.left_out(self.map_, self._aged(rows), solution, rng, self.C_)

    def _outputs(self, X: Any) -> np.ndarray:
        if X.shape[0] > _FEW_ROWS:
            return super()._outputs(X)
        Phi = np.empty((X.shape[0], self.map_.n_lifted))
        self.map_.lift(X, Phi)
        return Phi @ self.beta_


@estimator(OSELM | ONLINE_LOSS | RUN_ON_CPU, positional=1)
class OSELMRegressor(Regression, OnlineFamily):
    r"""Regression on a random layer that goes on learning: one row, or one block, at a time.

    After any blocks, in any order, the weights are those of :class:`~ulmus.ELMRegressor` on all rows with the same map
    and C, :math:`\beta = (I/C + H^TH)^{-1}H^TT`. Rows can be forgotten (``forgetting``), taken out again
    (:meth:`unlearn`), and learned apart (:meth:`merge`).

    Three forms give the same weights. ``form="root"`` carries the triangular factor of :math:`K = E/C + H^TH` and
    updates it by orthogonal transformations: no digit is lost, however many rows come. Rows wait until there are enough
    for a block, and are counted exactly if a prediction is asked for before. ``"covariance"`` is the recursion of the
    literature, :math:`P \leftarrow P - Phh^TP/(1+h^TPh)`; its round-off grows. ``"information"`` carries K and solves
    when asked.

    When all rows are at hand, :class:`~ulmus.ELMRegressor` and :class:`~ulmus.NKELMRegressor` are faster and choose the
    number of nodes as well. A row costs :math:`O(L^2)`; for many thousand nodes use a linear model on the features.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    C_, slope_, n_hidden_ : float, float, int
        The values in use.
    map_ : RandomLayer
        The hidden layer.
    beta_, intercept_ : ndarray
        Output weights, computed when asked for.
    stream_ : OnlineState
        The recursion, and what is remembered of rows.

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

    def _validate_params(self) -> None:
        super()._validate_params()
        if not LOSSES[self.loss].reweightable:
            allowed = [name for name, loss in LOSSES.items() if loss.reweightable]
            raise ValueError(
                f"loss={self.loss!r} cannot be learned row by row: its weight f'(e)/e rises with the error, so that "
                f"reweighting does not lower it. Use one of {allowed}, or RobustELMRegressor on rows in memory"
            )

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model to rows in memory, oldest first, as a start.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), optional
        groups : array of shape (n_samples,), optional
            Rows of one group are kept in one fold when parameters are chosen.

        Returns
        -------
        self
        """
        self.__dict__.pop("_errors", None)
        return super().fit(X, y, sample_weight, groups)

    def _weighed(self, rows: Rows) -> Rows:
        if self.loss == "squared":
            return rows
        if self.stream_.n_rows:
            E = rows.T - engine.apply(self.map_, rows.X, self.beta_, n_jobs=self.n_jobs) - self.intercept_
            weighed = rows.reweighted(self._loss_weights(E))
        else:
            weighed = rows
            for _ in range(ROUNDS):
                solution = fit_ridge(Problem(self.map_, weighed, self.C_, self._intercept, self.n_jobs))
                fitted = engine.apply(self.map_, rows.X, solution.beta, n_jobs=self.n_jobs) + solution.intercept
                E = rows.T - fitted
                self._errors = np.abs(E)
                weighed = rows.reweighted(self._loss_weights(E))
        self._errors = np.concatenate([getattr(self, "_errors", E[:0]), np.abs(E)])[-RECENT_ERRORS:]
        return weighed

    def _loss_weights(self, E: np.ndarray) -> np.ndarray:
        """``f'(e)/e`` of every row, 1 for no error; with several outputs, of the root mean square of their errors."""
        loss = LOSSES[self.loss]
        deviation = np.maximum(1.4826 * np.median(self._errors, axis=0), np.finfo(float).tiny)
        if self.loss_scale == "auto":
            size, c = np.sqrt(np.mean((E / deviation) ** 2, axis=1)), loss.efficient
        else:
            size, c = np.sqrt(np.mean(E**2, axis=1)), float(self.loss_scale)
        return np.maximum(loss.relative_weight(size, c), np.finfo(float).eps)

    def _leaning(self) -> Any:
        if self.loss != "squared":
            raise ValueError(f'method="jackknife+" needs loss="squared", got {self.loss!r}; use method="normalised"')
        return super()._leaning()

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if self.loss != "squared":
            raise ValueError(
                f"unlearn needs loss='squared': the weight that loss={self.loss!r} gave to a row is not remembered"
            )
        return super().unlearn(X, y, sample_weight)

    unlearn.__doc__ = OnlineFamily.unlearn.__doc__


@estimator(OSELM | CLASS_WEIGHT | RUN_ON_CPU, positional=1)
class OSELMClassifier(Classification, OnlineFamily):
    r"""Classification on a random layer that goes on learning: one row, or one block, at a time.

    One ±1 target per class, learned as in :class:`OSELMRegressor`; the largest score wins. A class may appear at any
    time: what the model knows is then, exactly, what it would know had it expected that class from the start.

    When all rows are at hand, :class:`~ulmus.ELMClassifier` and :class:`~ulmus.NKELMClassifier` are faster and choose
    the number of nodes as well.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    temperature_ : float
        Factor that turns scores into probabilities, from a sample of the rows left out one by one.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    C_, slope_, n_hidden_ : float, float, int
        The values in use.
    map_ : RandomLayer
        The hidden layer.
    beta_, intercept_ : ndarray
        Output weights, computed when asked for.
    stream_ : OnlineState
        The recursion, and what is remembered of rows.

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
