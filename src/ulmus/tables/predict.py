"""The rows of a file, predicted batch by batch into another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.features.findings import drift
from ulmus.tables.read import read_batches
from ulmus.tables.schema import BY_COMMAND, Schema, Warn, columns_as_arrays, frame
from ulmus.tables.write import Kept, Writer, written_as_text

#: Rows by which drift is detected.
LOOKED_AT = 20_000


@dataclass(frozen=True)
class Doubt:
    """What is asked for beside a prediction."""

    proba: bool = False
    interval: float | None = None
    sets: float | None = None
    quantiles: tuple[float, ...] = ()


def predict_file(
    model: Any,
    schema: Schema,
    data: str,
    output: str,
    *,
    doubt: Doubt | None = None,
    keep: bool = True,
    decimal: str = "auto",
    force: bool = False,
    advice: dict[str, str] = BY_COMMAND,
    warn: Warn = lambda text: None,
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """How many rows were predicted; ``model`` is a pipeline, and ``warn`` gets what is odd about the rows."""
    rows, keeper = 0, Kept(typed=not written_as_text(output), decimal=decimal)
    with Writer(output) as writer:
        for batch in read_batches(data):
            X = frame(batch, schema, warn, decimal=decimal, force=force, advice=advice)
            if not rows and schema.profile:
                for finding in drift(schema.profile, columns_as_arrays(X[:LOOKED_AT])):
                    warn(finding.text)
            kept = keeper.columns(batch) if keep else {}
            writer.write(_table(model, X, kept, doubt or Doubt()))
            rows += len(X)
            progress(rows)
    return rows


def _table(model: Any, X: Any, columns: dict[str, Any], asked: Doubt) -> Any:
    import pyarrow as pa

    predicted = model.predict(X)
    columns["prediction"] = pa.array(predicted.tolist() if predicted.dtype.kind in "UO" else predicted)
    if asked.proba:
        P = model.predict_proba(X)
        columns |= {f"probability of {label}": P[:, k] for k, label in enumerate(model[-1].classes_)}
    if asked.interval is not None:
        low, high = _answers_of(model, X, "predict_interval", asked.interval).T
        columns |= {"low": low, "high": high}
    if asked.quantiles:
        Q = _answers_of(model, X, "predict_quantiles", asked.quantiles)
        columns |= {f"quantile {q:g}": Q[:, k] for k, q in enumerate(asked.quantiles)}
    if asked.sets is not None:
        inside, labels = _answers_of(model, X, "predict_set", asked.sets), [str(label) for label in model[-1].classes_]
        columns["set"] = pa.array([" | ".join(labels[k] for k in np.flatnonzero(row)) for row in inside])
    return pa.table(columns)


def _answers_of(model: Any, X: Any, method: str, how: Any) -> np.ndarray:
    """What the model at the end of a pipeline says."""
    for _, step in model.steps[:-1]:
        X = step.transform(X)
    return np.asarray(getattr(model[-1], method)(X, how))
