"""``ulmus predict``."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ulmus.cli.console import UsageError, check_outputs, console, say, warn, working
from ulmus.cli.models import load_model
from ulmus.tables.read import read_batches
from ulmus.tables.schema import Schema, frame
from ulmus.tables.write import Kept, Writer, written_as_text


def predict(
    file: str,
    data: str,
    output: str,
    *,
    proba: bool,
    interval: float | None,
    keep: bool,
    decimal: str,
    force: bool,
    threads: int,
) -> None:
    """Predictions for the rows of a file, a batch at a time."""
    check_outputs({"-o": output}, [file, data])
    about, model = load_model(file)
    schema = Schema.from_json(about.notes.get("table"), file)
    model[-1].n_jobs = threads
    if proba and not is_classifier(model[-1]):
        raise UsageError(f"{file}: --proba is for classes, and this model predicts numbers; use --interval 0.9")
    if interval is not None and is_classifier(model[-1]):
        raise UsageError(f"{file}: --interval is for numbers, and this model predicts classes; use --proba")
    if interval is not None and not 0 < interval < 1:
        raise UsageError(f"--interval takes a number between 0 and 1, got {interval}")
    rows = 0
    keeper = Kept(typed=not written_as_text(output), decimal=decimal)
    with Writer(output) as writer, working(f"predicting {data}") as progress:
        for batch in read_batches(data):
            X = frame(batch, schema, warn, decimal=decimal, force=force)
            kept = keeper.columns(batch) if keep else {}
            writer.write(_table(model, X, kept, proba, interval))
            rows += len(X)
            progress.update(progress.task_ids[0], description=f"predicting {data}: {rows:,} rows")
    if output != "-" or console.is_terminal:
        say(f"{rows:,} predictions: {'standard output' if output == '-' else output}")


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
