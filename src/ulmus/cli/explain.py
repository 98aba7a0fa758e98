"""``ulmus explain``."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ulmus.cli.console import check_outputs, console, say, warn, working
from ulmus.cli.models import load_model
from ulmus.explain import Explanation
from ulmus.explain import explain as explained
from ulmus.explain.values import BACKGROUND
from ulmus.tables.read import read_batches, read_table
from ulmus.tables.schema import Schema, frame
from ulmus.tables.write import Kept, Writer, written_as_text

#: Rows that are explained at a time.
ROWS = 500


def explain(
    file: str,
    data: str,
    output: str,
    *,
    background: str | None,
    keep: bool,
    decimal: str,
    force: bool,
    threads: int,
) -> None:
    """Reasons for the predictions of a file's rows, some rows at a time."""
    check_outputs({"-o": output}, [file, data, background])
    about, model = load_model(file)
    schema = Schema.from_json(about.notes.get("table"), file)
    model[-1].n_jobs = threads
    usual = None
    if background is not None:
        usual = frame(read_table(background), schema, warn, decimal=decimal, force=force)[:BACKGROUND]
    rows, worst = 0, 0.0
    keeper = Kept(typed=not written_as_text(output), decimal=decimal)
    with Writer(output) as writer, working(f"explaining {data}") as progress:
        for batch in read_batches(data):
            X = frame(batch, schema, warn, decimal=decimal, force=force)
            kept = keeper.columns(batch) if keep else {}
            parts = [explained(model, X[start : start + ROWS], usual) for start in range(0, len(X), ROWS)]
            writer.write(_table(model, X, kept, parts))
            worst = max(worst, *(float(part.errors.max(initial=0.0)) for part in parts), 0.0)
            rows += len(X)
            progress.update(progress.task_ids[0], description=f"explaining {data}: {rows:,} rows")
    if output != "-" or console.is_terminal:
        how = f"sampled, standard errors up to {worst:.2g}" if worst else "exact"
        say(f"{rows:,} predictions with their reasons ({how}): {'standard output' if output == '-' else output}")


def _table(model: Any, X: Any, columns: dict[str, Any], parts: list[Explanation]) -> Any:
    import pyarrow as pa

    predicted = model.predict(X)
    columns["prediction"] = pa.array(predicted.tolist() if predicted.dtype.kind in "UO" else predicted)
    values = np.concatenate([part.values for part in parts]) if parts else np.empty((0, X.shape[1]))
    base = np.concatenate([part.base_values for part in parts]) if parts else np.empty(0)
    if values.ndim == 3:  # of the class that is predicted
        which = np.searchsorted(model[-1].classes_, predicted) if is_classifier(model[-1]) else np.zeros(len(X), int)
        values, base = values[np.arange(len(X)), :, which], base[np.arange(len(X)), which]
    columns["base value"] = base
    return pa.table(columns | {f"reason {name}": values[:, j] for j, name in enumerate(X.columns)})
