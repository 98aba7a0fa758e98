"""``ulmus predict``."""

import numpy as np
from sklearn.base import is_classifier

from ulmus.cli.console import UsageError, check_outputs, console, say, warn, working
from ulmus.cli.models import load_model
from ulmus.tables.predict import Doubt, predict_file
from ulmus.tables.read import files_of
from ulmus.tables.schema import Schema


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
    check_outputs({"-o": output}, [file, *files_of(data)])
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
    with working(f"predicting {data}") as progress:

        def show(rows: int) -> None:
            progress.update(progress.task_ids[0], description=f"predicting {data}: {rows:,} rows")

        options = {"keep": keep, "decimal": decimal, "force": force}
        rows = predict_file(model, schema, data, output, doubt=doubt, **options, warn=warn, progress=show)  # type: ignore[arg-type]
    if output != "-" or console.is_terminal:
        say(f"{rows:,} predictions: {'standard output' if output == '-' else output}")


def _levels(quantiles: str | None) -> tuple[float, ...]:
    """Numbers between 0 and 1, separated by commas."""
    try:
        levels = tuple(float(q) for q in quantiles.split(",")) if quantiles else ()
    except ValueError:
        levels = (np.nan,)
    if not all(0 < q < 1 for q in levels):
        raise UsageError(f"--quantiles takes numbers between 0 and 1, separated by commas, got {quantiles!r}")
    return levels
