"""Models of earlier versions: what was an attribute of its own then is a part of ``fitted_`` now.

Files, and pickles, of those versions hold attributes; here they are put together. Nothing else knows their names.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.calibration import LogOdds, Temperature
from ulmus.codings import Numbers, OneVsAll, Ordered
from ulmus.models.choice import Choice
from ulmus.models.fitted import Fitted, KernelFit, Learned, NystromFit, RandomFit, RobustFit

#: Attributes of the parts, which are gone once these are put together.
_TASK = "_single_output classes_ present_ _declared temperature_ floor_ class_count_ spread_ _metric"
_WEIGHTS = (
    "map_ beta_ intercept_ C_ gamma_ slope_ n_landmarks_ n_hidden_ route_ tuning_ cross_kernel_ landmark_weights_ "
    "_leverage _narrow _folds_in _certificate _fitted_on _fitted_keys n_iter_ residual_ alpha_ _weight _constant "
    "_bend _leverages transition_ h_ tau_ weights_ converged_ path_ penalty_tuning_ _errors"
)


def migrated(cls: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a model as it is now; one of an earlier version is known by attributes that are none any more."""
    old = {name: state[name] for name in _TASK.split() if name in state}
    if "view_" in state:
        return _adaptive(cls, state, old)
    if not old:
        return state
    if "map_" in state or "alpha_" in state:
        old |= {name: state[name] for name in _WEIGHTS.split() if name in state}
    rest = {name: value for name, value in state.items() if name not in old and name != "fitted_"}
    get = old.get
    targets, certainty, metric = _targets(cls, state, get), _certainty(get), get("_metric")
    stream = state.get("stream_")
    if stream is not None:
        width: Any = get("gamma_", get("slope_"))
        plan = None if "map_" not in old else Choice(width, get("C_"), get("map_"), tuning=get("tuning_"))
        stream.plan, stream.targets, stream.metric = plan, targets, metric
        stream.certainty, stream.errors = certainty, get("_errors")
        return rest
    weights = state["fitted_"] if "fitted_" in state else _weights(get)
    if weights is None:
        return rest
    return {**rest, "fitted_": Fitted(weights, targets, certainty, metric, get("_fitted_keys"))}


def _adaptive(cls: Any, state: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Adaptive models kept what they had fitted as attributes, beside a ``fitted_`` of their task."""
    from ulmus.models.earlier_adaptive import adaptive_parts

    weights, rest = adaptive_parts(cls, {name: value for name, value in state.items() if name not in old})
    if old or "fitted_" not in state:
        return {**rest, "fitted_": Fitted(weights, _targets(cls, state, old.get), _certainty(old.get))}
    return {**rest, "fitted_": replace(state["fitted_"], weights=weights)}


def _targets(cls: Any, state: dict[str, Any], get: Any) -> Any:
    if get("_single_output") is not None:
        return Numbers(get("_single_output"))
    classes = get("classes_")
    if "Ordinal" not in cls.__name__ or classes is None:
        return None if classes is None else OneVsAll(classes)
    present = get("present_", np.empty(0, int))
    return Ordered(classes, present, state.get("decoding", "loss"), get("_declared") is not None)


def _certainty(get: Any) -> Any:
    if get("temperature_") is None:
        return get("spread_")
    if get("class_count_") is not None:
        return LogOdds(get("temperature_"), count=get("class_count_"))
    return Temperature(get("temperature_"), get("floor_"))


def _weights(get: Any) -> Any:
    if get("alpha_") is not None:
        return KernelFit(
            get("cross_kernel_"),
            get("alpha_"),
            get("intercept_"),
            get("C_"),
            get("gamma_"),
            get("_weight"),
            get("_constant", False),
            get("_narrow"),
            get("tuning_"),
        )
    if get("map_") is None:
        return None
    past = get("_fitted_on")
    shared: dict[str, Any] = {
        "features": get("map_"),
        "beta": get("beta_"),
        "intercept": get("intercept_"),
        "C": get("C_"),
        "width": get("gamma_", get("slope_")),
        "size": get("n_landmarks_", get("n_hidden_")),
        "route": get("route_", "newton"),
        "leverage": get("_leverage"),
        "tuning": get("tuning_"),
        "learned": None if past is None else Learned(*past),
    }
    if get("cross_kernel_") is None:
        found: Any = RandomFit(narrow=get("_narrow"), **shared)
    else:
        found = NystromFit(
            cross=get("cross_kernel_"),
            landmark_weights=get("landmark_weights_"),
            folds_in=get("_folds_in"),
            certificate=get("_certificate"),
            n_iter=get("n_iter_", 1),
            residual=get("residual_"),
            **shared,
        )
    if get("_leverages") is None:
        return found
    return RobustFit(
        plain=found,
        C=get("C_"),
        leverages=get("_leverages"),
        bend=get("_bend"),
        transition=get("transition_"),
        h=get("h_"),
        tau=get("tau_"),
        row_weights=get("weights_"),
        n_iter=get("n_iter_"),
        converged=get("converged_"),
        path=get("path_"),
        penalty_tuning=get("penalty_tuning_"),
    )
