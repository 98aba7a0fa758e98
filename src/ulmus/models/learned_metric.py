"""A learned metric as a step of a pipeline."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus._sklearn import StrOptions, check_feature_names_in, fit_context
from ulmus.codings import Coding, OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.features.frames import given_rows
from ulmus.features.metric import GRADIENTS
from ulmus.features.sampling import left_out_together
from ulmus.models._metric import importances, learn_metric
from ulmus.models.reading import checked_weight, given_targets, of_positive_weight
from ulmus.parameters import THREADS, Parameter, estimator
from ulmus.tuning import fold_numbers
from ulmus.tuning.metric import FORMS


@estimator(
    {
        "kernel": Parameter(
            "rbf",
            (StrOptions({*GRADIENTS, "laplacian_l1"}),),
            "str",
            "Kernel of the model whose gradients are taken; see :class:`~ulmus.NystromMap`.",
        ),
        "form": Parameter(
            "diagonal",
            (StrOptions(set(FORMS)),),
            '{"diagonal", "full", "low_rank"}',
            """One factor for each feature; all of A; or only its leading directions, which hold 99 % of the mean
            squared slope.""",
        ),
    }
    | THREADS,
    positional=1,
)
class LearnedMetric(TransformerMixin, BaseEstimator):
    r"""Stretch the features along which the target varies, and shrink the others.

    Put it before any model that looks at distances, ours or not. The kernel models of this library do the same by
    themselves with ``metric="auto"``.

    Standardise features of different units first. With few rows and many features the gradients are noise.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    metric_ : ndarray of shape (n_features,) or (n_features, n_directions)
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the mean squared slope; it depends on the units, so standardise first.

    See Also
    --------
    NKELMRegressor : Learns the same metric with ``metric="auto"``.
    AdaptiveRegressor : Learns a metric of every table by itself.

    Notes
    -----
    A Nyström model f of the target is fitted, its gradients are averaged to
    :math:`M = \operatorname{mean}\nabla f\,\nabla f^T`, and rows become :math:`Ax` with :math:`A = M^{1/2}`; that is
    repeated while the leave-one-out loss falls.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin (2024). Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models. Science 383, 1461-1467.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import LearnedMetric
    >>> X = np.random.RandomState(0).normal(size=(400, 5))
    >>> metric = LearnedMetric(random_state=0).fit(X, np.sin(2 * X[:, 1]))
    >>> int(metric.feature_importances_.argmax()), bool(metric.feature_importances_[1] > 0.9)
    (1, True)
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, or class labels.
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.
        groups : array of shape (n_samples,), optional
            Rows of one group are left out together when metrics are scored.

        Returns
        -------
        self
        """
        X, y = validate_data(self, given_rows(X), given_targets(y), dtype=np.float64, multi_output=True)
        weight = checked_weight(sample_weight, X)
        folds = fold_numbers(None, X, y, groups, False, weight)
        weight, X, y, folds = of_positive_weight(weight, X, y, folds)
        continuous = type_of_target(y).startswith("continuous") or y.ndim == 2
        if continuous:
            T = y.astype(np.float64).reshape(len(y), -1)
            coding: Coding = Plain.of(T, weight)
        else:
            classes, indices = np.unique(y, return_inverse=True)
            coding = OneVsAll(classes)
            T = coding.encode(indices) if len(classes) > 1 else np.ones((len(y), 1))
        rows = Rows(X, T, weight, left_out_together(X, T, weight), folds)
        rng = check_random_state(self.random_state)
        self.metric_ = learn_metric(
            rows, coding, self.kernel, rng, form=self.form, fit_intercept=continuous, n_jobs=self.n_jobs
        )
        self.feature_importances_ = importances(self.metric_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows as the metric shows them.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_directions)
        """
        check_is_fitted(self)
        X = validate_data(self, given_rows(X), dtype=np.float64, reset=False)
        return X * self.metric_ if self.metric_.ndim == 1 else X @ self.metric_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns: those of the inputs, or ``metric0`` and so on for directions.

        Parameters
        ----------
        input_features : array of str, optional

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if self.metric_.ndim == 2:
            return np.asarray([f"metric{k}" for k in range(self.metric_.shape[1])], dtype=object)
        return check_feature_names_in(self, input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
