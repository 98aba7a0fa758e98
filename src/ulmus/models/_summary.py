"""What a fitted model has chosen, in words."""

from numbers import Real
from typing import Any

#: Attributes that hold a choice.
NAMES = ("n_landmarks_", "n_hidden_", "gamma_", "slope_", "C_", "n_components_", "n_neighbors_")


def summary(model: Any) -> dict[str, str]:
    """Name → value of all that a fitted model has chosen, or was given in its place."""
    values = {name.rstrip("_"): getattr(model, name, None) for name in NAMES}
    found = {name: f"{value:.4g}" for name, value in values.items() if isinstance(value, Real)}
    if getattr(model, "loss_", "squared") != "squared":
        found["loss"] = model.loss_
    return {**_view(model), **found, **_local(model)} if hasattr(model, "view_") else found


def _view(model: Any) -> dict[str, str]:
    view = model.view_
    metric = "learned" if (view.metric != 1).any() else "plain"
    return {
        "columns": view.preparation.columns.kind,
        **({"cuts": f"{len(view.preparation.cuts)}"} if view.preparation.cuts is not None else {}),
        "metric": metric,
        "kernel": view.kernel,
        "gamma": f"{view.gamma:.4g}",
        "n_landmarks": f"{model.map_.n_lifted}",
        **({"loss": model.loss_} if hasattr(model, "loss_") else {}),
    }


def _local(model: Any) -> dict[str, str]:
    if model.local_ is None:
        return {"local stage": "left out"}
    leaves = sum(partition.n_leaves for partition in model.local_.partitions)
    return {"local stage": f"{leaves:,} leaves in {len(model.local_.partitions)} partitions"}
