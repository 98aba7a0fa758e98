"""The only place that names private parts of scikit-learn."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Hidden, Interval, Options, StrOptions
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_monotonic_cst as check_monotonic_cst
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Hidden",
    "Interval",
    "Options",
    "StrOptions",
    "check_feature_names_in",
    "check_monotonic_cst",
    "check_sample_weight",
    "fit_context",
]
