"""The only place that names private parts of scikit-learn, and parts that only some of its versions have."""

from typing import TYPE_CHECKING

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Hidden, Interval, Options, StrOptions
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_monotonic_cst as check_monotonic_cst
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

if TYPE_CHECKING:

    class CallbackSupport:
        """``set_callbacks``, from scikit-learn 1.9 on."""

else:
    try:
        from sklearn.callback import CallbackSupportMixin as CallbackSupport
    except ImportError:

        class CallbackSupport:
            """Before 1.9 there are no callbacks."""


__all__ = [
    "CallbackSupport",
    "Hidden",
    "Interval",
    "Options",
    "StrOptions",
    "check_feature_names_in",
    "check_monotonic_cst",
    "check_sample_weight",
    "fit_context",
]
