"""Discriminant models of earlier versions: projection, classes and head were attributes of their own."""

from dataclasses import replace
from typing import Any

from ulmus.models.discriminant_fit import HeadFit, Indicators, KernelProjection, MapProjection, NetworkProjection
from ulmus.models.fitted import Fitted

_HEAD = "classes_ n_components_ means_ head_ n_neighbors_ left_out_ n_samples_fit_ _metric _references _seed"
#: What each model had beside these, in the order of the parts of its projection; the width has two names.
_PROJECTIONS = {
    "ENDA": "map_ weights_ centre_ eigenvalues_ C_ slope_|gamma_ statistics_",
    "KLDA": "cross_kernel_ alpha_ offset_ eigenvalues_ C_ gamma_",
    "NNDA": "activation coefs_ intercepts_ loss_curve_",
    "ENDAEnsemble": "members_ member_weights_ _sizes turns_ shrinkage_ held_out_error_",
}
_OTHERS = "tuning_ n_hidden_ n_landmarks_ n_iter_"


def migrated(cls: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a model as it is now."""
    if "classes_" not in state:
        return state
    names = [name.split("|") for name in _PROJECTIONS[cls.__name__].split()]
    parts = [next(state[each] for each in name if each in state) for name in names]
    gone = {each for name in names for each in name} | {*_HEAD.split(), *_OTHERS.split()}
    rest = {name: value for name, value in state.items() if name not in gone or name == "activation"}
    get = state.get
    head = HeadFit(get("head_"), get("means_"), get("left_out_"), get("_seed"), get("_references"))
    targets = Indicators(state["classes_"], state["n_components_"])
    projection = _projection(cls.__name__, parts, get("tuning_"))
    return {**rest, "fitted_": Fitted(projection, targets, head, get("_metric"), n_rows=get("n_samples_fit_"))}


def _projection(name: str, parts: list[Any], tuning: Any) -> Any:
    if name == "ENDA":
        return replace(MapProjection(*parts), tuning=tuning)
    if name == "KLDA":
        return replace(KernelProjection(*parts), tuning=tuning)
    if name == "NNDA":
        return NetworkProjection(*parts)
    from ulmus.models.enda_ensemble import Members

    return Members(*parts)
