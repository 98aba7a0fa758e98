"""``ulmus fit --stream``: tables that do not fit in memory, read batch by batch, pass after pass."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ulmus import streaming
from ulmus.cli.console import say, warn, working
from ulmus.cli.fit import FitRequest, chosen, command_line, described, finished, rows_of, shown
from ulmus.cli.free_memory import free
from ulmus.cli.models import chosen_model, model_for
from ulmus.scores import Score, scores
from ulmus.tables.read import join_batches, read_batches, read_table
from ulmus.tables.schema import Schema, frame, learn, target

#: Rows from the beginning of the table by which kinds and scales of columns are found.
SAMPLE_ROWS = 200_000
#: Share of the free memory that an adaptive model may hold.
HELD = 1 / 4


class Batches:
    """Features and targets of a table, read anew each time; what is wrong with a column is printed once.

    Features are made numbers by the ``columns``, if there are some, and are frames otherwise.
    """

    def __init__(self, path: str, schema: Schema, columns: Any = None) -> None:
        self.path, self.schema, self.columns = path, schema, columns
        self._warned: set[str] = set()
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        rows = 0
        for batch in read_batches(self.path):
            X, (y, there) = frame(batch, self.schema, self._tell, force=True), target(batch, self.schema, self._tell)
            rows += int(np.count_nonzero(there))
            if there.any():
                yield X[there] if self.columns is None else np.asarray(self.columns.transform(X[there])), y[there]
        self.rows = rows

    def _tell(self, text: str) -> None:
        column = text.partition("column ")[2].partition(":")[0]
        if column not in self._warned:
            self._warned.add(column)
            warn(text)


def fit_stream(request: FitRequest) -> None:
    """Fit to a table that is never in memory as a whole; scores and report are on the test table."""
    data, test, effort, seed, began = request.data, request.test, request.effort, request.seed, time.perf_counter()
    with working(f"looking at {data}"):
        first = []
        for batch, rows in _counted(read_batches(data)):
            first.append(batch)
            if rows >= SAMPLE_ROWS:
                break
        sample = join_batches(first)
        schema = learn(sample, request.goal, request.task, request.order, request.decimal)
        X, y = rows_of(sample, schema, data)
        name = chosen_model(request.model, schema)
        pipeline = model_for(schema, name, effort=effort, seed=seed, threads=request.threads, verbose=request.verbose)
        columns = None if name == "adaptive" else pipeline[0].fit(X)
        described(schema, X, y, f"the first {len(y):,} rows")
        del sample, first, X, y
    batches = Batches(data, schema, columns)
    if columns is None:  # leaves keep the rows, as many of them as there is memory for
        pipeline[-1].set_params(max_memory=min(pipeline[-1].max_memory, HELD * free() / 1e9))
    with working(f"fitting {data}"):
        found_model = streaming.fit(pipeline[-1], batches)
    fitted = Pipeline([*([] if columns is None else [("columns", columns)]), ("model", found_model)])
    chosen(found_model)
    found: list[Score] = []
    rows_seen: tuple[Any, Any] = (None, None)
    if test:
        rows_seen = rows_of(read_table(test), schema, test)
        found = scores(fitted, *rows_seen)
        shown(found, "the test file", batches.rows)
    else:
        say("no --test was given, so there are no scores", "yellow")
    if request.report and not test:
        warn("no --test was given, so there is no report")
        request = replace(request, report=None)
    options = f"--model {name}" + (f" --effort {effort}" if name == "adaptive" else "")
    command = command_line(data, schema, seed, f"{options} --stream")
    finished(request, fitted, fitted, schema, batches.rows, found, rows_seen, command, began)


def _counted(batches: Any) -> Iterator[tuple[Any, int]]:
    rows = 0
    for batch in batches:
        rows += batch.n_rows
        yield batch, rows
