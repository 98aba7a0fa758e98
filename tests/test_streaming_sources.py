"""Sources: every kind gives the same batches, and what cannot be read is named."""

import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather
from scipy import sparse

from data import regression
from ulmus.streaming import SourceError
from ulmus.streaming.batches import batches, read_ahead
from ulmus.streaming.sources import open_source

X, Y = regression(300)
W = np.random.RandomState(1).uniform(0.5, 2.0, 300)
NAMES = ["a", "b", "c"]


def frame(start=0, stop=300):
    return pd.DataFrame(X[start:stop], columns=NAMES).assign(y=Y[start:stop], w=W[start:stop])


def write_parts(folder, cuts, suffix=".parquet"):
    """The rows in consecutive files; equal cuts make empty files."""
    folder.mkdir(exist_ok=True)
    for k, (start, stop) in enumerate(zip([0, *cuts], [*cuts, 300], strict=True)):
        path = folder / f"part-{k:02}{suffix}"
        if suffix == ".parquet":
            frame(start, stop).to_parquet(path, row_group_size=37)
        elif suffix == ".csv":
            frame(start, stop).to_csv(path, index=False)
        else:
            feather.write_feather(frame(start, stop), path)
    return folder


def read(source, batch_rows=64, start=0):
    parts = list(batches(source, batch_rows, start))
    arrays = zip(*((b.X, b.y, b.weight) for b in parts), strict=True)
    return parts, [np.concatenate(a) for a in arrays]


def by_batches():
    for start in (0, 10, 10, 150):
        stop = {0: 10, 10: 150, 150: 300}[start]
        yield X[start:stop], Y[start:stop], W[start:stop]
        if start == 10:
            yield X[:0], Y[:0], W[:0]


def mapped(folder):
    path = folder / "all.npy"
    np.save(path, np.column_stack([X, Y, W]))
    return np.load(path, mmap_mode="r")


def once():
    yield from ((X[a : a + 70], Y[a : a + 70], W[a : a + 70]) for a in range(0, 300, 70))


SOURCES = {
    "parquet folder": lambda p: open_source(write_parts(p / "d", [100, 100, 250]), target="y", weight="w"),
    "parquet file": lambda p: open_source(write_parts(p / "d", []) / "part-00.parquet", target="y", weight="w"),
    "glob": lambda p: open_source(str(write_parts(p / "d", [30]) / "*.parquet"), target="y", weight="w"),
    "list": lambda p: open_source(
        sorted(map(str, write_parts(p / "d", [30]).glob("*.parquet"))), target="y", weight="w"
    ),
    "csv folder": lambda p: open_source(write_parts(p / "d", [120], ".csv"), target="y", weight="w"),
    "arrow folder": lambda p: open_source(write_parts(p / "d", [120], ".feather"), target="y", weight="w"),
    "dataset": lambda p: open_source(ds.dataset(write_parts(p / "d", [200])), target="y", weight="w"),
    "dataset in memory": lambda p: open_source(
        ds.dataset(pa.Table.from_pandas(frame(), preserve_index=False)), target="y", weight="w"
    ),
    "dataset of CSV": lambda p: open_source(
        ds.dataset(write_parts(p / "d", [200], ".csv"), format="csv"), target="y", weight="w"
    ),
    "arrays": lambda p: open_source((X, Y, W)),
    "lists": lambda p: open_source((X.tolist(), Y.tolist(), W.tolist())),
    "frames": lambda p: open_source(
        (pd.DataFrame(X, index=np.arange(300)[::-1]), pd.Series(Y, index=np.arange(300)[::-1]), W)
    ),
    "mapped array": lambda p: open_source(mapped(p), target=3, weight=4),
    "function of batches": lambda p: open_source(once),
    "list of batches": lambda p: open_source([(X[:50], Y[:50], W[:50]), (X[50:], Y[50:], W[50:])]),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("start", [0, 128, 256])
def test_every_source_gives_the_same_rows_in_the_same_batches(kind, start, tmp_path):
    source = SOURCES[kind](tmp_path)
    parts, (X_read, y_read, w_read) = read(source, 64, start)
    assert [len(b) for b in parts] == [len(X[k : k + 64]) for k in range(start, 300, 64)]
    assert [b.start for b in parts] == list(range(start, 300, 64))
    # text has all digits of a number too
    np.testing.assert_array_equal(X_read, X[start:])
    np.testing.assert_array_equal(y_read, Y[start:])
    np.testing.assert_array_equal(w_read, W[start:])


@given(cuts=st.lists(st.integers(0, 300), max_size=5), batch_rows=st.integers(1, 400), skip=st.integers(0, 5))
def test_batches_do_not_depend_on_where_one_file_ends(cuts, batch_rows, skip, tmp_path_factory):
    source = open_source(write_parts(tmp_path_factory.mktemp("d"), sorted(cuts)), target="y", weight="w")
    start = min(skip * batch_rows, 300 // batch_rows * batch_rows)
    parts = list(batches(source, batch_rows, start))
    assert all(len(b) == batch_rows for b in parts[:-1])
    assert source.n_rows == 300
    np.testing.assert_array_equal(np.concatenate([X[:0], *(b.X for b in parts)]), X[start:])


def test_columns_are_chosen_by_name(tmp_path):
    source = open_source(write_parts(tmp_path / "d", [10]), target=["y", "w"], features=["c", "a"])
    parts, _ = read_columns(source)
    np.testing.assert_array_equal(parts[0].X, X[:64, [2, 0]])
    np.testing.assert_array_equal(parts[0].y, np.column_stack([Y, W])[:64])
    assert source.feature_names == ["c", "a"]


def read_columns(source):
    return list(batches(source, 64)), None


def test_folder_names_are_columns(tmp_path):
    for year in (2001, 2002):
        (tmp_path / f"year={year}").mkdir()
        frame(0, 5).to_parquet(tmp_path / f"year={year}" / "a.parquet")
    source = open_source(ds.dataset(tmp_path, partitioning="hive"), target="year", features=NAMES)
    assert list(np.concatenate([b.y for b in batches(source, 3)])) == [2001] * 5 + [2002] * 5


def test_strings_and_categories_stay_labels(tmp_path):
    labels = np.array(["yes", "no", "maybe"])[np.arange(300) % 3]
    frame().assign(y=labels, z=pd.Categorical(labels)).to_parquet(tmp_path / "a.parquet")
    for target in ("y", "z"):
        source = open_source(tmp_path / "a.parquet", target=target, features=NAMES)
        np.testing.assert_array_equal(next(batches(source, 300)).y, labels)


def test_float32_columns_stay_float32(tmp_path):
    frame().astype(np.float32).to_parquet(tmp_path / "a.parquet")
    assert next(batches(open_source(tmp_path / "a.parquet", target="y"), 10)).X.dtype == np.float32


def test_sparse_batches_stay_sparse():
    source = open_source(lambda: iter([(sparse.csr_array(X[:100]), Y[:100]), (sparse.csr_array(X[100:]), Y[100:])]))
    parts = list(batches(source, 90))
    assert all(sparse.issparse(b.X) for b in parts)
    np.testing.assert_array_equal(np.concatenate([b.X.toarray() for b in parts]), X)


def damage(folder, how):
    """Spoil the second file of three, and say how the message should name it."""
    write_parts(folder, [100, 200])
    bad = folder / "part-01.parquet"
    whole = bad.read_bytes()
    if how == "truncated":
        bad.write_bytes(whole[:-100])
    elif how == "not parquet":
        bad.write_bytes(b"hello")
    elif how == "empty file":
        bad.write_bytes(b"")
    elif how == "column missing":
        frame(100, 200).drop(columns="b").to_parquet(bad)
    elif how == "other type":
        frame(100, 200).astype({"b": np.float32}).to_parquet(bad)
    elif how == "text":
        frame(100, 200).assign(b="x").to_parquet(bad)
    return bad


@pytest.mark.parametrize("how", ["truncated", "not parquet", "empty file", "column missing", "other type", "text"])
def test_a_bad_file_is_named_before_anything_is_read(how, tmp_path):
    bad = damage(tmp_path / "d", how)
    with pytest.raises(SourceError, match=bad.name):
        open_source(tmp_path / "d", target="y", weight="w")


def test_a_file_that_breaks_off_while_it_is_read_is_named(tmp_path):
    folder = write_parts(tmp_path / "d", [100, 200])
    source = open_source(folder, target="y")
    bad = folder / "part-01.parquet"
    data = bytearray(bad.read_bytes())
    data[4:2000] = b"\0" * 1996  # the pages, not the footer
    bad.write_bytes(bytes(data))
    with pytest.raises(SourceError, match=bad.name):
        list(batches(source, 64))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nowhere/*.parquet", {"target": "y"}, "nowhere"),
        ((X,), {}, r"\(X, y\)"),
        ((X, Y[:5]), {}, "y has 5 rows, X has 300"),
        (iter([(X, Y)]), {}, "only once"),
        (3, {}, "a source is a path"),
        ([(X, Y)], {"target": "y"}, "target="),
        (X, {}, "target="),
    ],
)
def test_what_is_no_source_is_refused_with_advice(source, options, message):
    with pytest.raises(SourceError, match=message):
        open_source(source, **options)


@pytest.mark.parametrize(
    ("batches_given", "message"),
    [
        ([(X, Y), (X[:, :2], Y)], "batch 1 of the source has 2 columns"),
        ([(X, Y), (X, Y[:7])], "batch 1 of the source has 300 rows of X and 7 of y"),
        ([(X, Y), X], "batch 1 of the source must be"),
    ],
)
def test_a_bad_batch_is_numbered(batches_given, message):
    with pytest.raises(SourceError, match=message):
        list(batches(open_source(batches_given), 64))


def test_text_columns_ask_for_a_transformer(tmp_path):
    frame().assign(colour="red").to_parquet(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"colour.*preprocess="):
        open_source(tmp_path / "a.parquet", target="y")


def test_a_folder_needs_a_target(tmp_path):
    with pytest.raises(SourceError, match="target="):
        open_source(write_parts(tmp_path / "d", []))


def test_reading_ahead_overlaps_and_keeps_order():
    made = []

    def slow():
        for k in range(6):
            made.append(k)
            yield k

    items = read_ahead(slow(), 3)
    assert next(items) == 0
    waited = time.monotonic()
    while len(made) < 4 and time.monotonic() - waited < 5:
        time.sleep(0.001)
    assert len(made) >= 4  # three more while the first was being used
    assert list(items) == [1, 2, 3, 4, 5]


def test_an_error_of_the_reader_comes_after_the_rows_before_it():
    def broken():
        yield 1
        raise SourceError("b.parquet")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(SourceError, match=r"b\.parquet"):
        next(items)


def test_the_reader_ends_with_its_consumer():
    items = read_ahead(iter(range(10**9)), 2)
    next(items)
    items.close()
    assert not [t for t in threading.enumerate() if t.name == "ulmus-read-ahead"]


@pytest.mark.parametrize("step", ["start", "set", "join"])
def test_the_reader_ends_wherever_an_interrupt_comes(step, monkeypatch):
    """Between beginning the thread and waiting for its first item, and at every step of the end."""
    owner = threading.Event if step == "set" else threading.Thread
    real, hit, ending = getattr(owner, step), [], []

    def interrupted(self, *args):
        if step == "start" or ending:
            hit.append(True)
            monkeypatch.undo()
            if step == "start":
                real(self, *args)
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(owner, step, interrupted)

    def begin_and_end():
        items = read_ahead(iter(range(10**9)), 2)
        next(items)
        ending.append(True)
        items.close()

    with pytest.raises(KeyboardInterrupt):
        begin_and_end()
    assert hit
    for thread in threading.enumerate():
        if thread.name == "ulmus-read-ahead":
            thread.join(10)
            assert not thread.is_alive()


def test_fingerprints_change_with_the_files(tmp_path):
    folder = write_parts(tmp_path / "d", [100])
    before = open_source(folder, target="y").identity()
    assert open_source(folder, target="y").identity() == before
    table = pq.read_table(folder / "part-01.parquet")
    pq.write_table(table, folder / "part-01.parquet")
    assert open_source(folder, target="y").identity() != before
