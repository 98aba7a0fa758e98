"""Adaptive models on a cluster: the model of memory from a sample of all rows, that of a stream otherwise."""

import os
import signal

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from data import cases, relative_error
from test_distributed import client, slow  # noqa: F401 (a fixture)
from test_streaming_adaptive import CASES, SMALL, N, X, model_of, scores, table
from ulmus import distributed, streaming
from ulmus.streaming import leaves

#: Phases of a fit in which a worker is killed; ``make test`` kills one in mid-fit in test_distributed.py.
PHASES = ("survey", "sums-1", "regions", "leaves")


def few_rows_in_cells(patch):
    patch.setattr(leaves, "CELL_ROWS", 700)
    patch.setattr(distributed, "CELL_ROWS", 700)


@pytest.fixture
def small_cells(monkeypatch):
    few_rows_in_cells(monkeypatch)


def chunks(array, rows=400):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def fit_far(name, n=N, rows=400, **options):
    kind, y, weight, more = CASES[name]
    w = None if weight is None else chunks(weight[:n], rows)
    return distributed.fit(model_of(kind, **more), chunks(X[:n], rows), chunks(y[:n], rows), sample_weight=w, **options)


@pytest.mark.parametrize("name", cases(["regression", "weights", "log loss", "ordered"], "weights", "log loss"))
def test_a_sample_of_all_rows_gives_the_model_of_memory(name):
    kind, y, weight, more = CASES[name]
    memory = model_of(kind, **more).fit(X[:500], y[:500], None if weight is None else weight[:500])
    np.testing.assert_array_equal(scores(fit_far(name, n=500, rows=120)), scores(memory))


@pytest.mark.parametrize("name", cases(["weights", "squares", "log loss"], "weights"))
def test_a_small_sample_gives_the_model_of_a_stream(name, small_cells):
    kind, y, weight, more = CASES[name]
    source = (X, y) if weight is None else (X, y, weight)
    streamed, far = streaming.fit(model_of(kind, **more), source, **SMALL), fit_far(name, sample_rows=500)
    assert [p.n_leaves for p in far.local_.partitions] == [p.n_leaves for p in streamed.local_.partitions]
    assert len(far.local_.U) == N
    # sums of batches and of partitions differ by round-off, which leaves in single precision, and steps of the log
    # loss that end early, make visible
    assert relative_error(scores(far), scores(streamed)) < (2e-3 if name == "log loss" else 1e-4)


def test_a_dataframe_with_columns_of_every_kind_is_read_as_in_memory(tmp_path):
    frame, y = table(900)
    frame.assign(y=y).to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    rows = dd.read_parquet(tmp_path / "rows.parquet", split_row_groups=True)
    assert rows.npartitions > 2
    memory = model_of("Regressor").fit(frame, y)
    named = distributed.fit(model_of("Regressor"), rows, "y")
    np.testing.assert_array_equal(named.predict(frame), memory.predict(frame))
    apart = distributed.fit(model_of("Regressor"), rows[list(frame.columns)], rows["y"])
    np.testing.assert_array_equal(apart.predict(frame), memory.predict(frame))
    lazy = distributed.predict(apart, rows[list(frame.columns)])
    assert relative_error(lazy.compute().to_numpy(), memory.predict(frame)) < 1e-6


def test_a_column_that_is_not_there_is_named():
    rows = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=2)
    with pytest.raises(ValueError, match="X has no column 'z'; it has"):
        distributed.fit(model_of("Regressor"), rows, "z")


def test_a_partition_without_rows_adds_nothing(small_cells):
    kind, y, _, _ = CASES["regression"]
    empty = da.concatenate([chunks(X), chunks(X)[:0], chunks(X)[:0]])
    far = distributed.fit(model_of(kind), empty, da.concatenate([chunks(y), chunks(y)[:0], chunks(y)[:0]]))
    assert relative_error(far.predict(X), fit_far("regression").predict(X)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_that_is_killed_changes_no_bit(phase, client, small_cells):  # noqa: F811
    kind, y, _, _ = CASES["regression"]
    options = {"client": client, "sample_rows": 500}
    expected = fit_far("regression", **options)
    victim, killed = next(iter(client.run(os.getpid).values())), []

    def kill(report):
        if report.label == phase and report.rows > 0 and not killed:
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    rows = chunks(X).map_blocks(slow)
    found = distributed.fit(model_of(kind), rows, chunks(y), progress=kill, **options)
    assert killed
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    client.wait_for_workers(2, timeout=30)
