"""Rows longer than a batch are read once; those that never end, and tables past memory, are refused with words."""

import bz2
import gzip
import json

import numpy as np
import pytest

from ulmus.tables import TableError, pieces, read
from ulmus.tables.read import read_batches, read_table


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of 4 KiB, rows of 32 KiB at most."""
    monkeypatch.setattr(pieces, "BATCH", 1 << 12)
    monkeypatch.setattr(pieces, "LONGEST", 1 << 15)


def lines(n, long, length, blank=False):
    """Rows of which some are long; every so often an empty line."""
    for i in range(n):
        if blank and i % 7 == 0:
            yield "\n"
        yield f"{i},{'x' * (length if i in long else 9)},{i % 5}\n"


@pytest.mark.parametrize("opened", [open, gzip.open, bz2.open])
@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("long", [{0}, {3}, {900}, {900, 1200}, {1999}])
def test_a_row_longer_than_a_batch_is_read_once_like_all_others(tmp_path, long, blank, opened):
    path = tmp_path / "rows.csv"
    with opened(path, "wt") as file:
        file.write("id,text,y\n")
        file.writelines(lines(2000, long, 20_000, blank))
    batches = list(read_batches(str(path)))
    ids = [int(i) for b in batches for i in b.columns["id"].to_pylist()]
    assert ids == list(range(2000))
    expected = np.arange(2000) + 2 + (np.arange(2000) // 7 + 1 if blank else 0)
    np.testing.assert_array_equal(np.concatenate([b.numbers for b in batches]), expected)
    texts = read_table(str(path)).columns["text"].to_pylist()
    assert {i for i, text in enumerate(texts) if len(text) > 9} == long


@pytest.mark.parametrize("opened", [open, gzip.open])
def test_a_row_that_never_ends_is_refused_and_the_rows_before_it_are_reported(tmp_path, opened):
    path = tmp_path / "rows.csv"
    with opened(path, "wt") as file:
        file.write("id,text,y\n")
        file.writelines(lines(10, {9}, 100_000))
    with pytest.raises(TableError, match=r"rows\.csv: after row \d+ there is a row of more than 0 MiB"):
        read_table(str(path))
    with opened(path, "wt") as file:
        file.write('a,b\n1,"2\n' + "3,4\n" * 20_000)
    with pytest.raises(TableError, match=r"row 2: this quote is never closed"):
        read_table(str(path))


@pytest.mark.parametrize("start", ["a,b", '{"a": "'])
def test_a_first_line_that_never_ends_is_not_read_to_its_end(tmp_path, start):
    path = tmp_path / "rows.gz"
    with gzip.open(path, "wt") as file:
        file.write(start + "x" * 400_000)
    with pytest.raises(TableError, match="after line 0 there is a row of more than"):
        read_table(str(path))


def test_a_json_line_that_is_too_long_is_refused_with_its_number(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"a": "x" * n}) + "\n" for n in (5, 20_000, 50_000)))
    with pytest.raises(TableError, match="after line 2 there is a row of more than"):
        read_table(str(path))


def test_a_table_that_unpacks_to_more_than_half_of_the_memory_is_refused_before_it_is_held(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("id,text,y\n")
        file.writelines(lines(20_000, set(), 0))
    assert path.stat().st_size < 100_000
    assert read_table(str(path)).n_rows == 20_000
    monkeypatch.setattr(read, "physical_memory", lambda: 400_000)
    with pytest.raises(TableError, match=r"rows\.csv\.gz: its first [\d,]+ rows take more than .* GiB, half of this"):
        read_table(str(path))
    assert sum(b.n_rows for b in read_batches(str(path))) == 20_000
