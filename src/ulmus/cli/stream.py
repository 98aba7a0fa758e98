"""``ulmus fit --stream``: tables that do not fit in memory, read batch by batch, twice."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ulmus import streaming
from ulmus.cli.console import say, warn, working
from ulmus.cli.fit import chosen, command_line, described, finished, rows_of, shown
from ulmus.cli.models import model_for
from ulmus.scores import Score, scores
from ulmus.tables.read import join_batches, read_batches, read_table
from ulmus.tables.schema import Schema, frame, learn, target

#: Rows from the beginning of the table by which columns are told apart and scaled.
SAMPLE_ROWS = 200_000


class Batches:
    """Features and targets of a table, read anew each time; what is wrong with a column is told once."""

    def __init__(self, path: str, schema: Schema, columns: Any) -> None:
        self.path, self.schema, self.columns = path, schema, columns
        self._told: set[str] = set()
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows = 0
        for batch in read_batches(self.path):
            X, (y, there) = frame(batch, self.schema, self._tell, force=True), target(batch, self.schema)
            rows += int(np.count_nonzero(there))
            if there.any():
                yield np.asarray(self.columns.transform(X[there])), y[there]
        self.rows = rows

    def _tell(self, text: str) -> None:
        column = text.partition("column ")[2].partition(":")[0]
        if column not in self._told:
            self._told.add(column)
            warn(text)


def fit_stream(
    data: str,
    goal: str,
    *,
    task: str,
    categories: list[str] | None,
    test: str | None,
    output: str | None,
    report: str | None,
    decimal: str,
    seed: int,
    threads: int,
    verbose: bool,
) -> None:
    """Fit to a table that is never in memory as a whole; scores and report are on the test table."""
    began = time.perf_counter()
    with working(f"looking at {data}"):
        first = []
        for batch, rows in _counted(read_batches(data)):
            first.append(batch)
            if rows >= SAMPLE_ROWS:
                break
        sample = join_batches(first)
        schema = learn(sample, goal, task, categories, decimal)
        X, y = rows_of(sample, schema, data)
        pipeline = model_for(schema, "nkelm", effort="default", seed=seed, threads=threads, verbose=verbose)
        columns = pipeline[0].fit(X)
        described(schema, X, y, f"the first {len(y):,} rows")
        del sample, first, X, y
    batches = Batches(data, schema, columns)
    with working(f"fitting {data}"):
        model = streaming.fit(pipeline[-1], batches)
    fitted = Pipeline([("columns", columns), ("model", model)])
    chosen(model)
    found: list[Score] = []
    rows_seen: tuple[Any, Any] = (None, None)
    if test:
        rows_seen = rows_of(read_table(test), schema, test)
        found = scores(fitted, *rows_seen)
        shown(found, "the test file", batches.rows)
    else:
        say("there is no --test, so there are no scores", "yellow")
    if report and not test:
        warn("there is no --test, so there is no report")
        report = None
    command = command_line(data, schema, seed, "--stream")
    finished(fitted, fitted, schema, batches.rows, found, rows_seen, output, report, command, began)


def _counted(batches: Any) -> Iterator[tuple[Any, int]]:
    rows = 0
    for batch in batches:
        rows += batch.n_rows
        yield batch, rows
