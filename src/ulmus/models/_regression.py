"""The task of regression: targets that are numbers, whatever the features of a model are."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from ulmus.calibration import FoldLeaning, HeldOut, IntervalRequest, New, PredictiveDistribution, Spread
from ulmus.codings import Coding, Numbers, Plain
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.shown import shown_by
from ulmus.models import _counterfactuals, _effects, _reasons
from ulmus.models.base import Model
from ulmus.models.fitted import Fitted, FittedView
from ulmus.models.reading import validated
from ulmus.statistics import SQUARABLE, refuse_sizes


class Regression(RegressorMixin, Model):
    """Targets as they are; one or several outputs."""

    _default_intercept: ClassVar[bool] = True
    _criteria: ClassVar[tuple[str, ...]] = ("auto", "squared", "absolute", "gcv")
    #: The largest target has to lie between these.
    _target_sizes: ClassVar[tuple[float, float]] = SQUARABLE

    spread_ = FittedView("spread_", "certainty")
    explain, influences, row_values = _reasons.explain, _reasons.influences, _reasons.row_values
    partial_dependence, accumulated_effects = _effects.partial_dependence, _effects.accumulated_effects
    left_out_importances, counterfactuals = _effects.left_out_importances, _counterfactuals.counterfactuals

    def _row_loss(self, T: np.ndarray) -> Any:
        """Squared error of scores of training rows, which are given by number."""
        return lambda P, rows: ((P - T[rows]) ** 2).sum(axis=1)

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        X, y = validated(self, X, y, reset=reset, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _targets_of(self, y: np.ndarray, given: Any) -> Numbers:
        return Numbers(y.ndim == 1)

    def _code(self, targets: Numbers, y: np.ndarray, weight: np.ndarray | None, *, block: bool = False) -> Any:
        T = targets.encode(y)
        least, most = self._target_sizes
        refuse_sizes(T, 0.0 if block else least, most)  # other blocks may have larger ones
        return T, None

    def _coding(self, targets: Numbers, rows: Rows) -> Coding:
        return Plain.of(rows.T, rows.weight)

    def _certainty(self, targets: Numbers, held_out: HeldOut, rows: Rows) -> Any:
        return Spread.of(held_out)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""Predicted targets.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Return the standard deviation of the prediction as well: that of the Gaussian process of which this model is
            the mean, :math:`\sigma\sqrt{h(x) + C\,r(x,x)}`, with the noise :math:`\sigma` estimated from leave-one-out
            residuals, the leverage h and the residual kernel r. It grows away from the data.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Or a pair of them.
        """
        if not return_std:
            fitted = self._now("weights")
            return fitted.targets.shaped(self._scores_of(X, fitted))
        fitted = self._now("factor", "certainty")
        X = self._checked(X, fitted)
        h, rest = self._deviation_factors(X, fitted)
        deviation = np.sqrt(h + rest).reshape(len(h), -1) * fitted.certainty.noise
        return fitted.targets.shaped(self._outputs(X, fitted)), fitted.targets.shaped(deviation)

    def predict_interval(
        self,
        X: Any,
        coverage: Any = 0.9,
        *,
        method: str = "normalised",
        tails: Any = "equal",
        groups: Any = None,
        shift: Any = None,
    ) -> np.ndarray:
        """Intervals that contain a new target with probability ``coverage``, calibrated on held-out rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        coverage : float or list of float, default=0.9
            Probability with which the target lies inside; a list gives an interval for each.
        method : {"normalised", "jackknife+", "cv+", "plain"}, default="normalised"
            ``"normalised"`` intervals are as wide as errors are large at such rows, by a model of the sizes of left-out
            residuals. ``"plain"`` ones are nearly as wide everywhere: f(x) + √(1 + h + C r) q, with the leverage h,
            the residual kernel r, and quantiles q of the studentised left-out residuals. ``"jackknife+"`` takes the
            quantiles of the predictions by the models without each row plus the errors of these; whatever the data,
            it covers 2 coverage − 1 at least. It is exact, and offered by models whose leave-one-out is: ELM, OSELM,
            NKELM, KELM and, in the view that all rows have chosen, adaptive ones with ``loss="squared"``.
            ``"cv+"`` is the same with the models without each fold,
            for ELM and NKELM models that were fitted with ``cv=`` or groups.
        tails : {"equal", "symmetric"} or float, default="equal"
            Ends such that as many targets lie below as above, or equally far from the prediction; a number is the
            share of misses that lie below, so that 0 gives an upper bound only, and 1 a lower bound only.
        groups : int, str, list or callable, optional
            Coverage within every group, not only on average: a column of X whose values are the groups (by its number,
            or its name in a frame), several columns, or a function from rows to labels. Functions are given arrays, or
            frames where X is one: of the columns that are numbers, categories or dates, with levels that are missing or
            new as None.
        shift : "estimate" or callable, optional
            For new rows that come from elsewhere than those of the training, while targets depend on rows as before:
            a function from rows to how much more frequent they are among new rows than among those of the training, or
            ``"estimate"``, which compares X, taken as a whole, with the rows left out.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends. For a list of k coverages there is one more axis, of k, before the last.
        """
        asked, fitted = IntervalRequest(coverage, method, tails, groups, shift), self._now("factor", "certainty")
        if method != "jackknife+":
            self._warn_of_crowding(fitted.certainty.rows)
        show = shown_by(X, getattr(self, "feature_names_in_", None), getattr(self, "encoder_", None))
        X, spread, scale = self._checked(X, fitted), fitted.certainty, self._scale_features(fitted)
        P = self._outputs(X, fitted)
        like = spread.like(asked, X, show, *scale)
        if method in ("jackknife+", "cv+"):
            leaning = self._leaning(fitted) if method == "jackknife+" else self._fold_leaning(fitted)
            ends = spread.jackknife(leaning, X, P, asked, like)
        else:
            ends = spread.ends(self._new(X, P, fitted, method), asked, like)
        ends = fitted.targets.shaped(ends)
        return ends[..., 0, :] if np.ndim(coverage) == 0 else ends

    def _scale_features(self, fitted: Fitted) -> tuple[Any, Any]:
        """The features by which sizes of errors are modelled, and how these see checked rows."""
        return fitted.weights.features, lambda X: self._seen(X, fitted)

    def _warn_of_crowding(self, held_out: HeldOut | None) -> None:
        if held_out is None or self._family is None or not self._family.is_crowded(held_out):
            return
        warnings.warn(
            f"the model has {held_out.freedom:.2f} degrees of freedom per row and nearly interpolates the targets, so "
            "leave-one-out errors say little about new rows and intervals may undercover. Use "
            'method="jackknife+", fewer nodes, or a penalty (C)',
            NumericalWarning,
            stacklevel=3,
        )

    def _fold_leaning(self, fitted: Fitted) -> Any:
        """What predictions of new rows lose with the fold of every row that was left out, for CV+."""
        rows, weights = fitted.certainty.rows, fitted.weights
        known = rows is not None and rows.folds is not None and rows.curves is None and self._family is not None
        if not known or self._is_monotone:
            raise ValueError(
                'method="cv+" needs the models without each fold, and this one keeps none: fit an ELM or NKELM model '
                'with loss="squared" and with cv=5 or groups, or use method="normalised"'
            )
        return FoldLeaning(weights.features, weights.beta, weights.intercept, rows)

    def predict_distribution(self, X: Any, *, method: str = "normalised") -> PredictiveDistribution:
        """Predictive distribution of new targets: cdf, quantiles (``ppf``), samples and ``crps``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        method : {"normalised", "plain"}, default="normalised"
            Whether errors are as large as at such rows, or nearly of one size; see :meth:`predict_interval`.

        Returns
        -------
        PredictiveDistribution
        """
        if method not in ("normalised", "plain"):
            raise ValueError(f'method must be "normalised" or "plain" for a distribution, got {method!r}')
        fitted = self._now("factor", "certainty")
        X, spread = self._checked(X, fitted), fitted.certainty
        new = self._new(X, self._outputs(X, fitted), fitted, method)
        scores, weight = spread.scores(new.sizes, bent=new.knots is not None)
        middle = None if spread.curves is None else float(spread.curves.levels[spread.curves.middle])
        parts = new.knots, spread.near(new), spread.atoms(new), middle
        return PredictiveDistribution(new.P, new.widths, scores, weight, fitted.targets.single, *parts)

    def _new(self, X: Any, P: np.ndarray, fitted: Fitted, method: str) -> New:
        """What is known of checked rows, whose predictions are P."""
        h, rest = self._variance_factors(X, fitted)
        return fitted.certainty.new(P, h + rest, X, method, *self._scale_features(fitted))

    def predict_quantiles(self, X: Any, q: Any = (0.05, 0.5, 0.95), *, method: str = "normalised") -> np.ndarray:
        """Quantiles of new targets; they never cross.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        q : float or list of float, default=(0.05, 0.5, 0.95)
        method : {"normalised", "plain"}, default="normalised"

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles)
            Without the last axis for a single number.
        """
        return self.predict_distribution(X, method=method).ppf(q)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
