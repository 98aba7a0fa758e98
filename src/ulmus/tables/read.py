"""Files → batches of columns. Text formats are read as text; the kind of a column is found later, from all of it."""

import csv
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from glob import glob
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.engine import physical_memory
from ulmus.tables import pieces
from ulmus.tables.delimited import (
    RowNumbers,
    header_again,
    header_notes,
    header_of,
    is_drawn,
    is_no_row,
    lines_of,
    mixed_encodings,
    rows_in_values,
    unequal_fields,
)
from ulmus.tables.errors import TableError
from ulmus.tables.objects import json_array, json_lines, table_of
from ulmus.tables.pieces import Piece, is_number
from ulmus.tables.sniff import DAMAGED, TITLES, Layout, Source

#: How the names of tables end, in folders.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
#: Share of the machine's memory that a table which is read whole may take.
WHOLE = 1 / 2


@dataclass(frozen=True)
class TableBatch:
    """Some rows: columns by name, and the number of each row, as a spreadsheet counts (a header is row 1).

    ``files`` says how many of them come from which file, one after the other; ``notes`` are warnings about them.
    """

    columns: dict[str, Any]
    numbers: np.ndarray
    files: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()

    def at(self, i: int) -> dict[str, Any]:
        """File and row of the i-th row here, for errors."""
        ends = np.cumsum([count for _, count in self.files])
        return {"file": self.files[int(np.searchsorted(ends, i, side="right"))][0], "row": int(self.numbers[i])}

    def without(self, rows: list[int]) -> "TableBatch":
        """The same but for these rows."""
        if not rows:
            return self
        kept = np.delete(np.arange(self.n_rows), rows)
        ends = np.searchsorted(kept, np.cumsum([count for _, count in self.files]))
        counts = np.diff(ends, prepend=0).tolist()
        files = tuple((file, count) for (file, _), count in zip(self.files, counts, strict=True) if count)
        return TableBatch(
            {name: c.take(kept) for name, c in self.columns.items()}, self.numbers[kept], files, self.notes
        )

    @property
    def file(self) -> str:
        """The file, the first of several."""
        return self.files[0][0]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def require(self, names: Iterable[str]) -> None:
        """Refuse a table that lacks one of these columns; the error names all that are missing."""
        gone = [name for name in names if name not in self.columns]
        if gone:
            self.column(gone[0], also=gone[1:])

    def column(self, name: str, also: list[str] | None = None) -> Any:
        """A column; ``also`` names others that are missing, for the error."""
        if name in self.columns:
            return self.columns[name]
        near, below = get_close_matches(name, list(self.columns), 1), self._header_below(name)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {_few(list(self.columns))}"
        if len(self.columns) == 1 and name in next(iter(self.columns)).split():
            hint += ". Blanks do not divide these rows evenly: save the table with commas, semicolons or tabs"
        elif len(self.columns) == 1 and name in re.split(r'[,;\t|]"?', next(iter(self.columns))):
            hint += (
                ". The rows do not divide as the header does: quotes in values must be doubled, not have a backslash"
            )
        elif below is not None:
            hint += f". The name stands in row {below}: take out what is above it, so that it is in the first row"
        elif 2 * sum(map(is_number, self.columns)) >= len(self.columns):
            hint += ". The first row reads like values: put a row with the names of the columns above it"
        nor = f", nor {_few(also)}" if also else ""
        raise TableError(f"no such column{nor}{hint}", file=self.file, column=name)

    def _header_below(self, name: str) -> int | None:
        """The row in which a name stands that is none of a column: titles, or another header, are above it."""
        for i in range(min(TITLES, self.n_rows)):
            for column in self.columns.values():
                value = column[i].as_py()
                if isinstance(value, str) and name in (part.strip(' "') for part in re.split(r"[,;\t|]", value)):
                    return int(self.numbers[i])
        return None


def read_table(path: str) -> TableBatch:
    """The whole of a file; refused where it would take more than half of the machine's memory."""
    batches, size, most = [], 0, WHOLE * (physical_memory() or float("inf"))
    for batch in read_batches(path):
        size += sum(column.nbytes for column in batch.columns.values())
        if size > most:
            raise TableError(
                f"its first {int(batch.numbers[-1]):,} rows take more than {most / 2**30:.3g} GiB, half of "
                "this machine's memory; the table cannot be held as a whole, read it as a stream (--stream)",
                file=batch.file,
            )
        batches.append(batch)
    return join_batches(batches)


def join_batches(batches: list[TableBatch]) -> TableBatch:
    """Batches that follow each other, as one; a column that some of them lack is missing there."""
    if len(batches) == 1:
        return batches[0]
    names = dict.fromkeys(name for b in batches for name in b.columns)
    columns = {name: _joined([(b.columns.get(name), b.n_rows) for b in batches]) for name in names}
    files = tuple(part for b in batches for part in b.files)
    notes = tuple(text for b in batches for text in b.notes)
    return TableBatch(columns, np.concatenate([b.numbers for b in batches]), files, notes)


def _joined(parts: list[tuple[Any, int]]) -> Any:
    """Chunks of one type: that of all that have values, or text where these differ."""
    import pyarrow as pa

    types = {part.type for part, _ in parts if part is not None and not pa.types.is_null(part.type)}
    common = types.pop() if len(types) == 1 else pa.string() if types else pa.null()
    chunks = []
    for part, rows in parts:
        found = pa.nulls(rows, common) if part is None else part
        chunks += [chunk if chunk.type == common else chunk.cast(common) for chunk in _chunks(found)]
    return pa.chunked_array(chunks, common)


def files_of(path: str) -> list[str]:
    """The files that a path names: itself, the tables in a folder, or what a pattern (``day-*.csv``) matches."""
    if path != "-" and os.path.isdir(path):
        found = sorted(str(file) for file in Path(path).iterdir() if _is_table(file))
        if not found:
            inner = any(Path(path).iterdir()) and all(each.is_dir() for each in Path(path).iterdir())
            way = f"; for those of its folders use a pattern, such as '{path.rstrip('/')}/*/*'" if inner else ""
            raise TableError(f"the folder contains no table ({', '.join(ENDINGS)}, compressed or not){way}", file=path)
        return found
    if any(sign in path for sign in "*?[") and not os.path.exists(path):
        found = sorted(file for file in glob(path, recursive=True) if os.path.isfile(file))
        if not found:
            raise TableError("no file matches this pattern", file=path)
        return found
    return [path]


def _is_table(file: Path) -> bool:
    known = any(suffix.lower() in ENDINGS for suffix in file.suffixes[-2:])
    return known and file.is_file() and not file.name.startswith((".", "_"))


def batch_of_rows(rows: list[dict[str, Any]], file: str = "") -> TableBatch:
    """Rows that are JSON objects, of plain values; the first is row 1."""
    names = dict.fromkeys(name for row in rows for name in row)
    table = table_of(rows, names)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return TableBatch(columns, np.arange(1, len(rows) + 1), ((file, len(rows)),))


def read_batches(path: str) -> Iterator[TableBatch]:
    """A file, or those of a folder or a pattern, piece by piece. A file without rows is an error."""
    for file in files_of(path):
        yield from _read_file(file)


def _read_file(path: str) -> Iterator[TableBatch]:
    source = Source(path)
    layout = source.layout()
    reader = {"csv": _csv, "json": json_array, "jsonl": json_lines, "parquet": _parquet, "xlsx": _workbook}[
        layout.format
    ]
    last = None
    try:
        for piece in reader(source, layout):
            if not len(piece.numbers):
                continue
            names = unique_names(piece.table.column_names)
            columns = dict(zip(names, piece.table.columns, strict=True))
            notes = piece.notes if last is not None else (*renamed(piece.table.column_names, source.name), *piece.notes)
            yield TableBatch(columns, piece.numbers, ((source.name, len(piece.numbers)),), notes)
            last = int(piece.numbers[-1])
    except DAMAGED as error:
        where = "from its start" if last is None else f"after row {last}"
        raise TableError(f"the compressed file is damaged, {where}: {error}", file=source.name) from None
    if last is None:
        only = layout.format in ("csv", "xlsx")
        raise TableError("the file has no rows, only a header" if only else "no rows", file=source.name)


def unique_names(names: list[str]) -> list[str]:
    """Empty names become ``column 3``, repeated ones ``price.1``; a line break in one is a blank."""
    plain = [re.sub(r"\s*[\r\n]\s*", " ", name.strip()) or f"column {i + 1}" for i, name in enumerate(names)]
    taken, found = set(plain), dict[str, None]()
    for name in plain:
        free = (
            name
            if name not in found
            else next(f"{name}.{k}" for k in count(1) if f"{name}.{k}" not in found and f"{name}.{k}" not in taken)
        )
        found[free] = None
    return list(found)


def renamed(names: list[str], file: str) -> list[str]:
    """Warnings about columns that have the name of another."""
    found = []
    for place, (name, free) in enumerate(zip(names, unique_names(names), strict=True), 1):
        if name.strip() and free != (plain := unique_names([name])[0]):
            text = f"several columns are called {plain!r}; the one in place {place} is called {free!r} here"
            found.append(str(TableError(text, file=file)))
    return found


def _csv(source: Source, layout: Layout) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    header = header_of(source, layout)
    rows, names = RowNumbers.of(source, layout, header), unique_names(header.names)
    convert = arrow.ConvertOptions(
        column_types={name: pa.string() for name in names}, null_values=[""], strings_can_be_null=True
    )
    given = 0  # rows that were handed on; a file that is begun again passes over them
    for size in (pieces.BATCH, pieces.LONGEST):
        options = arrow.ReadOptions(
            encoding=layout.encoding, block_size=size, skip_rows=header.lines, column_names=names
        )
        parse = arrow.ParseOptions(
            delimiter=layout.separator,
            newlines_in_values=True,
            invalid_row_handler=rows.handler(layout.separator, len(names)),
        )
        passed = 0
        try:
            with source.open() as stream, arrow.open_csv(stream, options, parse, convert) as batches:
                for batch in batches:
                    table = pa.table(batch.slice(min(max(given - passed, 0), batch.num_rows)))
                    passed += batch.num_rows
                    numbers = rows.numbers(max(given, passed - batch.num_rows), table.num_rows)
                    notes = (
                        [*header.notes, *renamed(header.names, source.name), *rows.footer_notes(source.name)]
                        if not given
                        else []
                    )
                    if not given and is_drawn(table):
                        table, numbers = table.slice(1), numbers[1:]
                    given = max(given, passed)
                    table, numbers = rows.without_notes(table, numbers)
                    again = header_again(table)
                    notes += header_notes(source.name, numbers[again])
                    kept = np.delete(np.arange(len(numbers)), again)
                    table, numbers = (table.take(kept), numbers[kept]) if len(again) else (table, numbers)
                    notes += mixed_encodings(table, layout.encoding, numbers, source.name)
                    notes += rows_in_values(table, layout.separator, numbers, source.name)
                    yield Piece(table, numbers, tuple(notes))
            return
        except (pa.ArrowInvalid, UnicodeDecodeError, OSError, EOFError) as error:
            if "Empty CSV" in str(error) or "Could not skip" in str(error):
                return
            if "straddling" not in str(error):
                raise _explained(error, source, layout, len(names)) from None
    raise pieces.too_long(source.name, f"after row {rows.first + given - 1}")


def _explained(error: Exception, source: Source, layout: Layout, n_fields: int) -> TableError:
    """pyarrow's complaint, with file and row."""
    if not re.search(r"Expected \d+ columns, got \d+", str(error)):
        return TableError(f"cannot be read as a table: {error}", file=source.name)
    header = header_of(source, layout)
    records = enumerate(csv.reader(lines_of(source, layout), delimiter=layout.separator), 1)
    try:
        wrong = (
            one
            for one in records
            if one[0] > header.row and one[1] and len(one[1]) != n_fields and not is_no_row(one[1], n_fields)
        )
        row, fields = next(wrong, (None, []))
    except csv.Error as failed:
        return TableError(f"cannot be read as a table: {failed}", file=source.name)
    return unequal_fields(source.name, row, len(fields), n_fields)


def _parquet(source: Source, layout: Layout) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow import parquet

    rows = 1
    try:
        file = parquet.ParquetFile(source.open())
        for batch in file.iter_batches(batch_size=1 << 17):
            yield Piece(pa.table(batch), np.arange(rows, rows + batch.num_rows))
            rows += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(f"not a whole Parquet file: {error}", file=source.name) from None


def _workbook(source: Source, layout: Layout) -> Iterator[Piece]:
    from ulmus.tables.excel import rows_of_workbook

    header, rows, numbers, notes = rows_of_workbook(source)
    names = unique_names(header)
    for start in range(0, len(rows), 1 << 17):
        some = slice(start, start + (1 << 17))
        table = table_of([dict(zip(names, row, strict=True)) for row in rows[some]], dict.fromkeys(names))
        yield Piece(table, np.array(numbers[some]), (*notes, *renamed(header, source.name)) if not start else ())


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _few(names: list[str], count: int = 8) -> str:
    return ", ".join(repr(n) for n in names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
