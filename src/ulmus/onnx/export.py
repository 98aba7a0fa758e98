"""From a fitted model or pipeline to an ONNX file."""

import os
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus._files import write_bytes
from ulmus.models._adaptive import AdaptiveModel
from ulmus.onnx.adaptive import coordinates
from ulmus.onnx.graph import Graph
from ulmus.onnx.models import convert
from ulmus.onnx.preprocessing import Columns, read_columns, transform

TYPES = {"float32": np.float32, "float64": np.float64}


def export(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: str = "float32",
    compute: str = "float64",
    columns: dict[str, str] | None = None,
) -> Any:
    """Write a model, or a pipeline that ends in one, as an ONNX file for any runtime.

    Regressors give ``prediction``, classifiers ``label`` and ``probabilities``, feature maps ``features``, discriminant
    models ``projection``, with label and probabilities where these are by class means and not by neighbours. A model
    takes one matrix ``X``. A pipeline over named columns, or an adaptive model of a frame, where some columns are text,
    takes one input of shape (n, 1) per column, under its name: numbers, with NaN where they are missing, or strings,
    with ``""`` where they are missing.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted.
    path : str or path-like, optional
        Where to write; the model is also returned.
    dtype : {"float32", "float64"}, default="float32"
        Type of the numbers that go in and come out.
    compute : {"float32", "float64"}, default="float64"
        Type in which the graph computes. With float64 results agree with those of the library to the last digits of
        ``dtype``; float32 is smaller and runs where there is no double precision, but kernel models with a weak
        penalty lose digits in it.
    columns : dict of str to {"number", "string"}, optional
        Kinds of the columns of a pipeline, where its encoders do not tell.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import numpy as np, onnxruntime, ulmus
    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> model = ulmus.NKELMRegressor(20, C=1024.0, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> exported = ulmus.onnx.export(model, dtype="float64")
    >>> session = onnxruntime.InferenceSession(exported.SerializeToString())
    >>> (y,) = session.run(["prediction"], {"X": X})
    >>> bool(abs(y - model.predict(X)).max() < 1e-10)
    True
    """
    for name, value in (("dtype", dtype), ("compute", compute)):
        if value not in TYPES:
            raise ValueError(f"{name} must be one of {sorted(TYPES)}, got {value!r}")
    check_is_fitted(model)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    g = Graph(TYPES[compute])
    block = read_columns(g, steps, TYPES[dtype], columns)
    for step in steps[:-1]:
        block = transform(g, block, step)
    last = steps[-1]
    rows = coordinates(g, block, last) if isinstance(last, AdaptiveModel) else matrix(g, block)
    for name, (value, kind, width) in convert(g, rows, last).items():
        number = np.dtype(kind) == g.dtype
        shape: list[int | None] = [None] if width is None else [None, width]
        g.result(g.cast(value, TYPES[dtype]) if number else value, name, TYPES[dtype] if number else kind, shape)
    made = g.model(ulmus_version=version("ulmus"), model=type(last).__name__)
    if path is not None:
        write_bytes(path, made.SerializeToString())
    return made


def matrix(g: Graph, block: Columns) -> str:
    """All columns as one matrix of numbers."""
    wrong = [c.name for c in block if c.kind != "number"]
    if wrong:
        raise TypeError(f"the model takes numbers, but column {wrong[0]!r} is text that no step turns into numbers")
    return g.join(*(c.value for c in block))
