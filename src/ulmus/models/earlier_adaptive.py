"""Adaptive models of earlier versions: view, map and leaves were attributes of their own, columns of frames too."""

from dataclasses import replace
from typing import Any

import numpy as np

from ulmus.features.columns import UNKNOWN, Reader
from ulmus.features.dates import DateParts
from ulmus.features.table_encoder import TableEncoder, layout
from ulmus.features.written import Kind
from ulmus.models.adaptive_fit import AdaptiveFit, TableColumns

#: Attributes by the names of before, and the parts of a fit that they are.
_PARTS = {
    "view_": "view",
    "_part_seed": "part_seed",
    "trials_": "trials",
    "map_": "features",
    "beta_": "beta",
    "intercept_": "intercept",
    "C_": "C",
    "_leverage": "leverage",
    "local_": "local",
    "local_losses_": "local_losses",
    "feature_importances_": "importances",
    "loss_": "loss",
    "losses_": "losses",
    "monotone_violation_": "fall",
    "_variances": "variances",
}
#: Other attributes that are gone.
_GONE = ["encoder_", "_categorical", "_inputs", "memory_", "_view_C", "_later", "_levels", "_timed", "_dated", "_dates"]


def adaptive_parts(cls: Any, state: dict[str, Any]) -> tuple[AdaptiveFit, dict[str, Any]]:
    """What was fitted, put together, and what else the model has."""
    parts: dict[str, Any] = {part: state.get(name) for name, part in _PARTS.items()}
    parts["trials"] = parts["trials"] or ()
    if cls.__name__ == "AdaptiveClassifier":
        parts["loss"] = parts["loss"] or "squared"
    encoder = state.get("encoder_")
    if "_levels" in state and "feature_names_in_" in state:
        encoder = _encoder_of_before(state)
    categorical = state["_categorical"]
    columns = TableColumns(encoder, categorical, state.get("_inputs", np.arange(len(categorical))))
    rest = {name: value for name, value in state.items() if name not in (*_PARTS, *_GONE)}
    return AdaptiveFit(columns=columns, **parts), rest


#: What a missing value was called as a level, in files of before.
_WAS_MISSING = ("None", "nan", "<NA>", "NaT")


def _encoder_of_before(state: dict[str, Any]) -> TableEncoder:
    names, levels = [str(name) for name in state["feature_names_in_"]], state["_levels"]
    timed, dates, readers = state.get("_timed") or {}, state.get("_dates"), []
    for name, is_code in zip(names, state["_categorical"], strict=False):
        kind = Kind(*{"time": ("time", "share")}.get(timed.get(name, ""), (timed.get(name, "number"),)))
        reader = Reader(name, Kind("category") if is_code else kind)
        if name in levels:
            missing = next((float(levels[name].index(gone)) for gone in _WAS_MISSING if gone in levels[name]), UNKNOWN)
            reader = replace(reader, levels=tuple(levels[name]), missing=missing, rare=1.0)
        if kind.name == "date" and not is_code and dates is not None:
            own = DateParts()
            own.n_features_in_, own.periods_ = 1, [dates.periods_[list(state["_dated"]).index(names.index(name))]]
            reader = replace(reader, dates=own)
        readers.append(reader)
    encoder = TableEncoder(prepared=False)
    encoder.readers_, encoder.preparation_, encoder.left_out_ = tuple(readers), None, {}
    encoder.kinds_ = {reader.name: reader.kind.name for reader in readers}
    encoder.n_features_in_, encoder.feature_names_in_ = len(names), np.asarray(names, dtype=object)
    encoder.names_ = tuple(names)
    encoder.inputs_, encoder.categorical_ = layout(readers, names)
    return encoder
