"""Which model a task gets."""

from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

import ulmus
from ulmus.tables.schema import Schema
from ulmus.tables.vectorise import vectoriser

MODELS = {
    "classification": ulmus.NKELMClassifier,
    "regression": ulmus.NKELMRegressor,
    "ordinal": ulmus.NKELMOrdinalClassifier,
}


def model_for(schema: Schema, *, seed: int, threads: int, verbose: bool = False) -> Pipeline:
    """An unfitted pipeline for a table of this schema."""
    options: dict[str, Any] = {"random_state": seed, "n_jobs": threads, "verbose": verbose}
    if schema.categories is not None:
        options["categories"] = list(schema.categories)
    return Pipeline([("columns", vectoriser(schema.columns)), ("model", MODELS[schema.task](**options))])


def settled(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, unfitted, with the parameters that were chosen: for a fit to more rows."""
    model = pipeline[-1]
    chosen = {
        name: getattr(model, f"{name}_")
        for name, value in model.get_params(deep=False).items()
        if isinstance(value, str) and value == "auto" and hasattr(model, f"{name}_")
    }
    again = clone(pipeline)
    again[-1].set_params(**chosen, fit_intercept=model._intercept)
    return again
