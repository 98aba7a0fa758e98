"""The only place that names private parts of scikit-learn, and parts that only some of its versions have."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Hidden, Interval, Options, StrOptions
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_monotonic_cst as check_monotonic_cst
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

#: ``set_callbacks``, from scikit-learn 1.9 on; nothing before.
CallbackSupport: Any = type("CallbackSupport", (), {})
if find_spec("sklearn.callback") is not None:
    CallbackSupport = import_module("sklearn.callback").CallbackSupportMixin

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
    "safe_indexing",
]
