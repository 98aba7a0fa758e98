"""Which model a table gets."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import ulmus
from ulmus.persistence import Description, LoadError, describe, load
from ulmus.tables.schema import Schema
from ulmus.tables.vectorise import encoder

#: Model → task → class.
MODELS: dict[str, dict[str, Any]] = {
    "adaptive": {
        "classification": ulmus.AdaptiveClassifier,
        "regression": ulmus.AdaptiveRegressor,
        "ordinal": ulmus.AdaptiveOrdinalClassifier,
    },
    "nkelm": {
        "classification": ulmus.NKELMClassifier,
        "regression": ulmus.NKELMRegressor,
        "ordinal": ulmus.NKELMOrdinalClassifier,
    },
}
#: Columns beyond which the search of adaptive models takes too long: its gradients are taken feature by feature.
WIDE = 1_000


def chosen_model(model: str, schema: Schema) -> str:
    """What "auto" is for a table in memory."""
    return model if model != "auto" else "nkelm" if len(schema.columns) > WIDE else "adaptive"


def model_for(schema: Schema, model: str, *, effort: str, seed: int, threads: int, verbose: bool = False) -> Pipeline:
    """An unfitted pipeline for a table of this schema."""
    options: dict[str, Any] = {"random_state": seed, "n_jobs": threads, "verbose": verbose}
    if schema.categories is not None:
        options["categories"] = list(schema.categories)
    kind = MODELS[model][schema.task]
    if model == "adaptive":  # it prepares frames itself
        return Pipeline([("model", kind(**options, effort=effort, encoder=encoder(schema.columns, prepared=False)))])
    return Pipeline([("columns", encoder(schema.columns)), ("model", kind(**options))])


def load_model(file: str) -> tuple[Description, Any]:
    """What a model file says of itself, and the model; a file that cannot be read is a model that cannot be used."""
    try:
        return describe(file), load(file)
    except OSError as error:
        raise LoadError(f"{file} cannot be read: {error.strerror or error}") from None


def with_chosen(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, unfitted, with the parameters that were chosen where they can be given: for more rows."""
    model = pipeline[-1]
    chosen = {
        name: getattr(model, f"{name}_")
        for name, value in model.get_params(deep=False).items()
        if isinstance(value, str) and value == "auto" and hasattr(model, f"{name}_")
    }
    if "fit_intercept" in model.get_params(deep=False):
        chosen["fit_intercept"] = bool(np.any(model.intercept_))
    again = clone(pipeline)
    again[-1].set_params(**chosen)
    return again
