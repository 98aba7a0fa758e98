"""The rows of a file, predicted batch by batch into another."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.features.findings import drift
from ulmus.tables.read import read_batches
from ulmus.tables.schema import Schema, Tell, columns_as_arrays, frame
from ulmus.tables.write import Kept, Writer, written_as_text

#: Rows by which drift is told.
LOOKED_AT = 20_000


def predict_file(
    model: Any,
    schema: Schema,
    data: str,
    output: str,
    *,
    proba: bool = False,
    interval: float | None = None,
    keep: bool = True,
    decimal: str = "auto",
    force: bool = False,
    tell: Tell = lambda text: None,
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """How many rows were predicted; ``model`` is a pipeline, and ``tell`` is told what is odd about the rows."""
    rows, keeper = 0, Kept(typed=not written_as_text(output), decimal=decimal)
    with Writer(output) as writer:
        for batch in read_batches(data):
            X = frame(batch, schema, tell, decimal=decimal, force=force)
            if not rows and schema.profile:
                for finding in drift(schema.profile, columns_as_arrays(X[:LOOKED_AT])):
                    tell(finding.text)
            kept = keeper.columns(batch) if keep else {}
            writer.write(_table(model, X, kept, proba, interval))
            rows += len(X)
            progress(rows)
    return rows


def _table(model: Any, X: Any, columns: dict[str, Any], proba: bool, interval: float | None) -> Any:
    import pyarrow as pa

    predicted = model.predict(X)
    columns["prediction"] = pa.array(predicted.tolist() if predicted.dtype.kind in "UO" else predicted)
    if proba:
        P = model.predict_proba(X)
        columns |= {f"probability of {label}": P[:, k] for k, label in enumerate(model[-1].classes_)}
    if interval is not None:
        low, high = _interval(model, X, interval).T
        columns |= {"low": low, "high": high}
    return pa.table(columns)


def _interval(model: Any, X: Any, coverage: float) -> np.ndarray:
    for _, step in model.steps[:-1]:
        X = step.transform(X)
    return np.asarray(model[-1].predict_interval(X, coverage=coverage))
