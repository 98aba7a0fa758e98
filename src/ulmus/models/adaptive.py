"""Adaptive models: a learned metric, a global Nyström model in it, and exact local kernels on what it leaves over."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut, LogScores, Temperature
from ulmus.engine import Rows
from ulmus.losses import check_levels
from ulmus.models._adaptive import AdaptiveModel
from ulmus.models._adaptive_options import ADAPTIVE, ADAPTIVE_QUANTILES, ADAPTIVE_RUN, TREES
from ulmus.models._classification import Classification
from ulmus.models._left_out import LeftOutLater
from ulmus.models._log_stage import LogStages, calibrated_loss
from ulmus.models._ordinal import Ordinal
from ulmus.models._regression import Regression
from ulmus.models._stages import Stages
from ulmus.models.adaptive_fit import LOSSES_SHOWN, MONOTONE_SHOWN, SHOWN, AdaptiveFit, ViewChoice
from ulmus.models.choice import Training
from ulmus.models.class_options import CLASS_LOSS, DECISION
from ulmus.models.fitted import Outcome
from ulmus.models.options import CLASS_WEIGHT, MONOTONE, ORDERED
from ulmus.parameters import estimator

#: ``loss="auto"`` takes squares where they lower the log loss of held-out rows by more than this share.
CLEARLY = 0.02
#: Views are compared by squares where all labels but the most common one have less than this share of the weight.
RARE = 0.05


@estimator(ADAPTIVE | TREES | ADAPTIVE_QUANTILES | MONOTONE | ADAPTIVE_RUN, shows=SHOWN | MONOTONE_SHOWN)
class AdaptiveRegressor(Regression, AdaptiveModel):
    r"""Regression on raw tables: a kernel model with a learned metric and local corrections.

    It needs no scaling, takes frames with text, categories, dates and missing values, and aims at the accuracy of
    boosted trees. The local stage keeps the training rows: for a small model, or for updates, use
    :class:`NKELMRegressor`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    AdaptiveClassifier : The same for classes.
    AdaptiveOrdinalClassifier : The same for ordered classes.
    NKELMRegressor : A small model that can learn on, for scaled numbers.

    Notes
    -----
    The prediction is :math:`f(x) + \frac1P\sum_p g_p(x)`: a Nyström model f (:class:`NKELMRegressor`) of the rows as
    the chosen *view* shows them, and exact kernel ridge regression :math:`g_p` on the residuals of f in the leaves of P
    random partitions. The view is a preparation of the columns, a kernel, a width, and a metric that stretches the
    features along which f varies. Everything is chosen by leave-one-out or on held-out rows.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin (2024). Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models. Science 383, 1461-1467.

    Examples
    --------
    >>> from ulmus import AdaptiveRegressor, datasets
    >>> X, y = datasets.load("abalone").data, datasets.load("abalone").target
    >>> model = AdaptiveRegressor(effort="fast", categorical_features=[0], random_state=0).fit(X[:3000], y[:3000])
    >>> bool(model.score(X[3000:], y[3000:]) > 0.5)
    True
    """

    def _train(self, training: Training) -> Outcome:
        if self._by_quantiles and self._is_monotone:
            raise ValueError('monotonic_cst needs loss="squared", got loss="quantile"')
        if self._is_monotone:  # before anything is fitted
            from ulmus.models.monotone import column_signs

            column_signs(self, training.columns)
            if training.rows.T.shape[1] > 1:
                raise ValueError("monotonic_cst does not support several outputs: it needs one")
        levels = check_levels(self.quantiles) if self._by_quantiles else None
        found = super()._train(training)
        return found if levels is None else self._moved_to_quantiles(found, levels)

    def _moved_to_quantiles(self, found: Outcome, levels: np.ndarray) -> Outcome:
        """Curves of the errors of rows left out; the model itself becomes that of the middle one."""
        from ulmus.calibration.error_curves import error_curves

        fit: AdaptiveFit = found.weights
        held_out = fit.later(self.n_jobs) if isinstance(fit.later, LeftOutLater) else found.held_out
        held_out = error_curves(fit.features, fit.coordinates(held_out.X), held_out, levels)
        curves = held_out.curves
        assert curves is not None
        one, beta = slice(curves.middle, None, len(levels)), fit.beta.copy()
        beta[: len(curves.beta)] += curves.beta[:, one]
        moved = replace(fit, beta=beta, intercept=fit.intercept + curves.intercept[one], later=None)
        return Outcome(moved, held_out)


@estimator(ADAPTIVE | TREES | CLASS_LOSS | DECISION | CLASS_WEIGHT | ADAPTIVE_RUN, shows=SHOWN | LOSSES_SHOWN)
class AdaptiveClassifier(Classification, AdaptiveModel):
    r"""Classification on raw tables: a kernel model with a learned metric and local corrections.

    It needs no scaling, takes frames with text, categories, dates and missing values, and aims at the accuracy of
    boosted trees, with calibrated probabilities. The local stage keeps the training rows: for a small model, or for
    updates, use :class:`NKELMClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    AdaptiveRegressor : The same for numbers, with the two stages explained.
    AdaptiveOrdinalClassifier : The same for ordered classes.
    NKELMClassifier : A small model that can learn on, for scaled numbers.

    Notes
    -----
    Scores are :math:`f(x) + \frac1P\sum_p g_p(x)`, as those of :class:`AdaptiveRegressor`; f and the leaves minimise
    the log loss, softmax for several classes or logistic for two. The largest score wins.

    Examples
    --------
    >>> from ulmus import AdaptiveClassifier, datasets
    >>> wine = datasets.load("wine")
    >>> model = AdaptiveClassifier(effort="fast", random_state=0).fit(wine.data[::2], wine.target[::2])
    >>> bool(model.score(wine.data[1::2], wine.target[1::2]) > 0.93)
    True
    """

    _takes_indicators = True

    def _view_scoring(self, rows: Rows, coding: Any) -> dict[str, Any]:
        if self.loss == "squared":
            return {"criterion": self.criterion}
        share = np.bincount(coding.numbers(rows.T), rows.weights) / rows.total_weight
        # who is right tells nothing of a view where nearly all rows have one label
        return {"by_log": True, "criterion": "squared" if 1 - share.max() < RARE else "auto"}

    def _stages(self, rows: Rows, coding: Any, chosen: ViewChoice, rng: np.random.RandomState, backend: Any) -> Stages:
        by_squares = partial(super()._stages, rows, coding, chosen, rng, backend)
        if self.loss == "squared":
            return replace(by_squares(), loss="squared")
        criterion = "log_loss" if self.criterion == "auto" else str(self.criterion)
        with engine.threads_for(self._spent.landmarks):
            work = self._work(rows, coding, chosen.view, rng, criterion, backend)
            stages = replace(LogStages(work, near_C=chosen.C).fit(chosen.landmarks), loss="log")
        if self.loss != "auto":
            return stages
        squares = replace(by_squares(), loss="squared")
        losses = {"log": calibrated_loss(stages.held_out), "squared": calibrated_loss(squares.held_out)}
        self._say(f"log loss of held-out rows: {losses['log']:.4g} by log loss, {losses['squared']:.4g} by squares")
        better = squares if losses["squared"] < (1 - CLEARLY) * losses["log"] else stages
        return replace(better, losses=losses)

    def _probabilities_by(self, held_out: HeldOut) -> Any:
        return (LogScores if held_out.by_log else Temperature).of


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
