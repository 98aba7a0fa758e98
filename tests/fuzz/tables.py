"""Tables that something has happened to, given to the command line.

A sound CSV file is changed in one to four places: bytes, cells, rows, columns, quotes, separators, line ends, encoding,
compression. ``ulmus predict`` and ``ulmus fit`` then give an answer, or say in one line what is wrong with the table:
with row or column, unless the file as a whole is no table. Nothing else is raised, no prediction is missing, there are
as many as the file has rows for Python's own reader, the input stays what it was to the last byte, and an output is
whole or not there. A row that is told to be above the header, or a row of labels below it, is none.
"""

import csv
import gzip
import io
import os
import random
import re
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np

from ulmus.cli.console import BAD_TABLE, OK
from ulmus.cli.main import main
from ulmus.tables.sniff import Source

#: What is said of files that are no tables as a whole: these name no row.
WHOLE = (
    "the file is empty",
    "only a header",
    "not a table",
    "cannot be read as a table",
    "damaged",
    "a ZIP archive",
    "a JSON array",
    "no column is left",
    "there is only the target",
    "MiB, which is too long",
    "the training rows have",
)
#: Values that cells come to hold.
CELLS = (
    *("", " ", "NA", "-", "?", "nan", "inf", "-inf", "1e400", "1e-400", "0x1F", "1,5", "1.5", "1.234,50", "€ 12.30"),
    *("42%", "00012", "true", "ja", "2024-02-30", "31.12.2024", "12:60", "=1+1", "'", '"', '""', "a\nb", "a;b", "a,b"),
    *("\t", "\u200b", "ß", "漢字", "🙂", "x" * 3000, "9" * 400, "-0", "+", "1 000", "(5)", "#REF!", "\ufeff", "Summe"),
)
#: Bytes that are put in.
BYTES = (
    b'"',
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\x80",
    b"''",
    b"\\",
)


def check(seed: int) -> str:
    """One case."""
    rng = random.Random(seed)
    command = "predict" if rng.random() < 0.85 else "fit"
    goal = rng.choice(("price", "kind"))
    text = changed(rng, table(60, rng.randrange(5), goal))
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "data.csv"), Path(folder, "out.csv" if command == "predict" else "out.ulmus")
        data.write_bytes(text)
        if command == "predict":
            asked = [
                "predict",
                str(model(goal)),
                str(data),
                "-o",
                str(out),
                *rng.choice(((), ("--force",), ("--keep",))),
            ]
        else:
            asked = ["fit", str(data), "--target", goal, "-o", str(out), "--model", "nkelm", "--no-baselines"]
        said, code = told(asked)
        assert data.read_bytes() == text, "the input was changed"
        left = sorted(os.listdir(folder))
        if code == OK:
            assert left == sorted({"data.csv", out.name}), left
            answer = "answered"
            if command == "predict":
                rows = list(csv.DictReader(io.StringIO(out.read_text())))
                assert rows, "no row was predicted"
                expected = n_rows(data, said.count("is above the header"))
                expected -= said.count("is a note below the table") + said.count("is below the header")
                expected -= said.count("repeats the header") + sum(map(int, re.findall(r"so do (\d+) more", said)))
                assert len(rows) == expected, f"{len(rows)} rows of {expected} were predicted"
                assert all(row["prediction"] not in ("", "nan", None) for row in rows), "a prediction is missing"
        else:
            assert code == BAD_TABLE, f"exit code {code}: {said[-500:]}"
            assert left == ["data.csv"], left
            reason = [line for line in said.splitlines() if "error: " in line]
            assert len(reason) == 1, said[-2000:]
            assert "Traceback" not in said, said[-2000:]
            placed = re.search(r"\brow \d+|column ['\"]", reason[0]) is not None
            assert placed or any(words in reason[0] for words in WHOLE), reason[0]
            answer = "refused, with its place" if placed else "refused as a whole"
    return f"{command}: {answer}"


def n_rows(data: Path, titles: int) -> int:
    """Rows below the header that are not blank, as Python's reader counts them."""
    source = Source(str(data))
    layout = source.layout()
    with source.open() as file:
        text = file.read().decode(layout.encoding, errors="replace").lstrip("\ufeff")
    records = list(csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator))[layout.skip :]
    filled = [k for k, row in enumerate(records) if any(cell.strip() for cell in row)]
    return sum(map(bool, records[filled[titles] + 1 :]))


def told(arguments: list[str]) -> tuple[str, int]:
    """What a command says of its work, and its exit code."""
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        code = main(arguments)
    return said.getvalue(), code


def table(n: int, seed: int, goal: str) -> list[list[str]]:
    """A table with columns of several kinds, as a header and rows of text."""
    rng = np.random.RandomState(seed)
    size, town = rng.uniform(20, 200, n), rng.choice(["Ulm", "Köln", "Bad, Homburg"], n)
    price = 3000 * size * (1 + (town == "Köln")) + rng.normal(size=n) * 1e4
    day = np.datetime64("2023-01-01") + rng.randint(700, size=n)
    known = [f"{value:.1f}" if k % 11 else "" for k, value in enumerate(size)]
    kind = np.where(price > np.median(price), "dear", "cheap")
    ready = rng.choice(["true", "false"], n)
    note = rng.choice(["quiet, near the wood", 'the "old" house', "by the road"], n)
    last = [f"{value:.2f}" for value in price] if goal == "price" else kind.tolist()
    rows = zip(known, town, day.astype(str), ready, note, last, strict=True)
    return [["size", "town", "sold", "ready", "note", goal], *([str(cell) for cell in row] for row in rows)]


@cache
def model(goal: str) -> Path:
    """A model of the table as it is."""
    folder = Path(tempfile.mkdtemp(prefix="ulmus-fuzz-"))
    data = folder / "train.csv"
    data.write_bytes(written(table(200, 9, goal)))
    said, code = told(["fit", str(data), "--target", goal, "-o", str(folder / "m.ulmus"), "--effort", "fast"])
    assert code == OK, said
    return folder / "m.ulmus"


def written(rows: list[list[str]], separator: str = ",", end: str = "\n", encoding: str = "utf-8") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end).writerows(rows)
    return text.getvalue().encode(encoding, errors="replace")


# changes


def changed(rng: random.Random, rows: list[list[str]]) -> bytes:
    """The bytes of a table to which some things have happened."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        if rows and rows[0]:
            rows = rng.choice(ROWS)(rng, [list(row) for row in rows])
    separator, end = rng.choice((",", ",", ";", "\t", "|")), rng.choice(("\n", "\n", "\r\n", "\r"))
    data = written(rows, separator, end, rng.choice(("utf-8", "utf-8", "utf-8-sig", "cp1252", "utf-16")))
    for _ in range(rng.choice((0, 1, 1, 2))):
        data = rng.choice(CHANGES)(rng, data)
    return data


def _cell(rng, rows):
    row = rng.choice(rows)
    if row:
        row[rng.randrange(len(row))] = rng.choice(CELLS)
    return rows


def _cells(rng, rows):
    column, value = rng.randrange(len(rows[0])), rng.choice(CELLS)
    for row in rows[1:]:
        if column < len(row) and rng.random() < rng.choice((0.1, 0.6, 1.0)):
            row[column] = value
    return rows


def _header(rng, rows):
    rows[0][rng.randrange(len(rows[0]))] = rng.choice((*CELLS, *rows[0]))
    return rows


def _shorter(rng, rows):
    return [row[: len(row) - (rng.random() < 0.05)] for row in rows]


def _longer(rng, rows):
    rng.choice(rows).append(rng.choice(CELLS))
    return rows


def _column_gone(rng, rows):
    gone = rng.randrange(len(rows[0]))
    return [row[:gone] + row[gone + 1 :] for row in rows]


def _column_twice(rng, rows):
    again = rng.randrange(len(rows[0]))
    return [[*row, row[again]] if again < len(row) else row for row in rows]


def _rows_gone(rng, rows):
    return rows[: rng.choice((0, 1, 2, 3, len(rows) // 2))]


def _header_again(rng, rows):
    rows.insert(rng.randrange(len(rows)), list(rows[0]))
    return rows


def _total(rng, rows):
    return [*rows, ["Summe", *[""] * (len(rows[0]) - 2), "123456.78"]]


def _blank(rng, rows):
    rows.insert(rng.randrange(len(rows) + 1), rng.choice(([], [""] * len(rows[0]))))
    return rows


def _title(rng, rows):
    return [["Report of sales 2024"], *[[]] * rng.randrange(3), *rows]


def _note(rng, rows):
    return [*rows, [], ["Source: the office of statistics"]]


def _separator_at_the_end(rng, rows):
    return [rows[0], *([*row, ""] for row in rows[1:])]


def _blanks(rng, rows):
    return [each for row in rows for each in ([row, []] if rng.random() < 0.3 else [row])]


def _quote(rng, rows):
    row = rng.choice(rows)
    if row:
        row[rng.randrange(len(row))] += '"'
    return rows


def _commas(rng, rows):
    return [
        rows[0],
        *([cell.replace(".", ",") if re.fullmatch(r"[\d.]+", cell) else cell for cell in row] for row in rows[1:]),
    ]


ROWS = (
    *(_cell, _cells, _header, _shorter, _longer, _column_gone, _column_twice, _rows_gone, _header_again, _total),
    *(_blank, _blanks, _title, _note, _separator_at_the_end, _quote, _commas),
)


def _put_in(rng, data):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(BYTES) * rng.choice((1, 1, 3)) + data[place:]


def _flipped(rng, data):
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _taken_out(rng, data):
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[place + rng.choice((1, 2, 30, 500)) :]


def _repeated(rng, data):
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[max(0, place - rng.choice((1, 7, 200))) :]


def _cut_off(rng, data):
    return data[: rng.randrange(len(data) + 1)]


def _packed(rng, data):
    packed = gzip.compress(data, mtime=0)
    return packed if rng.random() < 0.5 else _flipped(rng, _cut_off(rng, packed))


def _other_marks(rng, data):
    old, new = rng.choice(((b",", b";"), (b'"', b"'"), (b'"', b""), (b"\n", b"\n\n"), (b"\n", b","), (b",", b", ")))
    return data.replace(old, new)


CHANGES = (_put_in, _put_in, _flipped, _taken_out, _repeated, _cut_off, _packed, _other_marks)
