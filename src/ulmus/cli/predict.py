"""``ulmus predict``."""

from dataclasses import dataclass
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
    quantiles: str | None,
    sets: float | None,
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
    if quantiles is not None and is_classifier(model[-1]):
        raise UsageError(f"{file}: --quantiles are for numbers, and this model predicts classes; use --proba or --sets")
    if sets is not None and not is_classifier(model[-1]):
        raise UsageError(f"{file}: --sets are for classes, and this model predicts numbers; use --interval 0.9")
    for option, value in (("--interval", interval), ("--sets", sets)):
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{option} takes a number between 0 and 1, got {value}")
    doubt = Doubt(proba, interval, sets, _levels(quantiles))
    rows = 0
    keeper = Kept(typed=not written_as_text(output), decimal=decimal)
    with Writer(output) as writer, working(f"predicting {data}") as progress:
        for batch in read_batches(data):
            X = frame(batch, schema, warn, decimal=decimal, force=force)
            kept = keeper.columns(batch) if keep else {}
            writer.write(_table(model, X, kept, doubt))
            rows += len(X)
            progress.update(progress.task_ids[0], description=f"predicting {data}: {rows:,} rows")
    if output != "-" or console.is_terminal:
        say(f"{rows:,} predictions: {'standard output' if output == '-' else output}")


@dataclass(frozen=True)
class Doubt:
    """What is asked for beside a prediction."""

    proba: bool
    interval: float | None
    sets: float | None
    quantiles: tuple[float, ...]


def _levels(quantiles: str | None) -> tuple[float, ...]:
    """Numbers between 0 and 1, separated by commas."""
    try:
        levels = tuple(float(q) for q in quantiles.split(",")) if quantiles else ()
    except ValueError:
        levels = (np.nan,)
    if not all(0 < q < 1 for q in levels):
        raise UsageError(f"--quantiles takes numbers between 0 and 1, separated by commas, got {quantiles!r}")
    return levels


def _table(model: Any, X: Any, columns: dict[str, Any], asked: Doubt) -> Any:
    import pyarrow as pa

    predicted = model.predict(X)
    columns["prediction"] = pa.array(predicted.tolist() if predicted.dtype.kind in "UO" else predicted)
    if asked.proba:
        P = model.predict_proba(X)
        columns |= {f"probability of {label}": P[:, k] for k, label in enumerate(model[-1].classes_)}
    if asked.interval is not None:
        low, high = _asked(model, X, "predict_interval", asked.interval).T
        columns |= {"low": low, "high": high}
    if asked.quantiles:
        Q = _asked(model, X, "predict_quantiles", asked.quantiles)
        columns |= {f"quantile {q:g}": Q[:, k] for k, q in enumerate(asked.quantiles)}
    if asked.sets is not None:
        inside, labels = _asked(model, X, "predict_set", asked.sets), [str(label) for label in model[-1].classes_]
        columns["set"] = pa.array([" | ".join(labels[k] for k in np.flatnonzero(row)) for row in inside])
    return pa.table(columns)


def _asked(model: Any, X: Any, method: str, how: Any) -> np.ndarray:
    """What the model at the end of a pipeline says."""
    for _, step in model.steps[:-1]:
        X = step.transform(X)
    return np.asarray(getattr(model[-1], method)(X, how))
