"""Files → batches of columns. Text formats are read as text; what a column is, is told later, from all of it."""

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from glob import glob
from io import TextIOWrapper
from itertools import count, islice
from pathlib import Path
from typing import Any

from ulmus.engine import physical_memory
from ulmus.tables.errors import TableError
from ulmus.tables.sniff import DAMAGED, Layout, Source

#: Texts that mean that a value is missing.
MISSING = ("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "#N/A", "#NA", "<NA>")
#: Rows that may stand above a header.
TITLES = 10
#: How the names of tables end, in folders.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
#: Bytes of text in one batch.
BATCH = 1 << 24
#: Bytes of the longest row that is read, and of the largest batch. A file of a megabyte can unpack to one row of a
#: gigabyte, and a quote that is left open makes one row of all that follows.
LONGEST = 1 << 27
#: Share of the machine's memory that a table which is read whole may take.
WHOLE = 1 / 2
csv.field_size_limit(LONGEST)


@dataclass(frozen=True)
class TableBatch:
    """Some rows: columns by name, and the number of the first row, as a spreadsheet counts (the header is row 1)."""

    columns: dict[str, Any]
    first_row: int
    file: str
    #: Of batches that were joined: file, first row and number of rows of each.
    parts: tuple[tuple[str, int, int], ...] = ()

    def at(self, i: int) -> dict[str, Any]:
        """File and row of the i-th row here, for errors."""
        for file, first, n_rows in self.parts:
            if i < n_rows:
                return {"file": file, "row": first + i}
            i -= n_rows
        return {"file": self.file, "row": self.first_row + i}

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        near, below = get_close_matches(name, list(self.columns), 1), self._header_below(name)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {_few(list(self.columns))}"
        if below is not None:
            hint += f". The name stands in row {below}: take out what is above it, so that it is in the first row"
        raise TableError(f"there is no such column{hint}", file=self.file, column=name)

    def _header_below(self, name: str) -> int | None:
        """The row in which a name stands that is none of a column: titles, or another header, are above it."""
        for i in range(min(TITLES, self.n_rows)):
            for column in self.columns.values():
                value = column[i].as_py()
                if isinstance(value, str) and name in (part.strip(' "') for part in re.split(r"[,;\t|]", value)):
                    return self.first_row + i
        return None


def read_table(path: str) -> TableBatch:
    """The whole of a file; refused where it would take more than half of the machine's memory."""
    batches, size, most = [], 0, WHOLE * (physical_memory() or float("inf"))
    for batch in read_batches(path):
        size += sum(column.nbytes for column in batch.columns.values())
        if size > most:
            raise TableError(
                f"its first {batch.first_row + batch.n_rows:,} rows take more than {most / 2**30:.3g} GiB, half of "
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
    parts = tuple((b.file, b.first_row, b.n_rows) for b in batches)
    return TableBatch(columns, batches[0].first_row, batches[0].file, parts)


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
            raise TableError(f"the folder holds no table ({', '.join(ENDINGS)}, compressed or not)", file=path)
        return found
    if any(sign in path for sign in "*?[") and not os.path.exists(path):
        found = sorted(file for file in glob(path, recursive=True) if os.path.isfile(file))
        if not found:
            raise TableError("no file is called so", file=path)
        return found
    return [path]


def _is_table(file: Path) -> bool:
    known = any(suffix.lower() in ENDINGS for suffix in file.suffixes[-2:])
    return known and file.is_file() and not file.name.startswith((".", "_"))


def batch_of_rows(rows: list[dict[str, Any]], file: str = "") -> TableBatch:
    """Rows that are JSON objects, of plain values; the first is row 1."""
    names = dict.fromkeys(name for row in rows for name in row)
    table = _table(rows, names)
    return TableBatch(dict(zip(table.column_names, table.columns, strict=True)), 1, file)


def read_batches(path: str) -> Iterator[TableBatch]:
    """A file, or those of a folder or a pattern, piece by piece. A file without rows is an error."""
    for file in files_of(path):
        yield from _read_file(file)


def _read_file(path: str) -> Iterator[TableBatch]:
    source = Source(path)
    layout = source.layout()
    reader = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet, "xlsx": _workbook}[layout.format]
    row = 2 if layout.format in ("csv", "xlsx") else 1
    rows = 0
    try:
        for table in reader(source, layout):
            if not table.num_rows:
                continue
            names = unique_names(table.column_names)
            yield TableBatch(dict(zip(names, table.columns, strict=True)), row + rows, source.name)
            rows += table.num_rows
    except DAMAGED as error:
        where = f"after row {row + rows - 1}" if rows else "from its start"
        raise TableError(f"the compressed file is damaged, {where}: {error}", file=source.name) from None
    if not rows:
        raise TableError("the file has no rows, only a header" if row == 2 else "no rows", file=source.name)


def unique_names(names: list[str]) -> list[str]:
    """Empty names become ``column 3``, repeated ones ``price.1``."""
    plain = [name.strip() or f"column {i + 1}" for i, name in enumerate(names)]
    taken, found = set(plain), dict[str, None]()
    for name in plain:
        free = (
            name
            if name not in found
            else next(f"{name}.{k}" for k in count(1) if f"{name}.{k}" not in found and f"{name}.{k}" not in taken)
        )
        found[free] = None
    return list(found)


def _csv(source: Source, layout: Layout) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    header = _header(source, layout)
    parse = arrow.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    convert = arrow.ConvertOptions(
        column_types={name: pa.string() for name in header}, null_values=list(MISSING), strings_can_be_null=True
    )
    given = 0  # rows that were handed on; a file that is begun again passes over them
    for size in (BATCH, LONGEST):
        options = arrow.ReadOptions(
            encoding=layout.encoding, block_size=size, skip_rows=layout.skip + 1, column_names=header
        )
        passed = 0
        try:
            with source.open() as stream, arrow.open_csv(stream, options, parse, convert) as batches:
                for batch in batches:
                    new = batch.slice(min(max(given - passed, 0), batch.num_rows))
                    passed += batch.num_rows
                    given = max(given, passed)
                    yield pa.table(new)
            return
        except (pa.ArrowInvalid, UnicodeDecodeError, OSError, EOFError) as error:
            if "Empty CSV" in str(error) or "Could not skip" in str(error):
                return
            if "straddling" not in str(error):
                raise _explained(error, source, layout, len(header)) from None
    raise too_long(source.name, f"after row {given + 1}")


def too_long(file: str, where: str) -> TableError:
    return TableError(
        f"{where} comes a row of more than {LONGEST >> 20} MiB, longer than any that is read; is a quote left open, or "
        "is this no table?",
        file=file,
    )


def _lines(source: Source, encoding: str) -> Iterator[str]:
    """Lines of a text, with their ends; one that never ends is not read to its end."""
    with source.open() as stream:
        text = TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
        for number in count(1):
            line = text.readline(LONGEST)
            if not line:
                return
            if len(line) >= LONGEST:
                raise too_long(source.name, f"after line {number - 1}")
            yield line


def _header(source: Source, layout: Layout) -> list[str]:
    """The names in the first line; the file is not read further."""
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    first = next((line for line in islice(_lines(source, encoding), layout.skip, None) if line.strip()), "")
    if first.count('"') % 2:
        raise TableError("a name in the header is broken over two lines", file=source.name, row=1)
    return unique_names(next(csv.reader([first], delimiter=layout.separator), []))


def _explained(error: Exception, source: Source, layout: Layout, n_fields: int) -> TableError:
    """pyarrow's complaint, with file and row."""
    if not re.search(r"Expected \d+ columns, got \d+", str(error)):
        return TableError(f"cannot be read as a table: {error}", file=source.name)
    text = islice(_lines(source, layout.encoding), layout.skip, None)
    rows = filter(None, csv.reader(text, delimiter=layout.separator))
    try:
        row, got = next(((i, len(r)) for i, r in enumerate(rows, 1) if len(r) != n_fields), (None, 0))
    except csv.Error as failed:
        return TableError(f"cannot be read as a table: {failed}", file=source.name)
    return TableError(
        f"the header has {n_fields} fields and this row {got}; is a separator inside a text without quotes?",
        file=source.name,
        row=row,
    )


def _json_lines(source: Source, layout: Layout) -> Iterator[Any]:
    """Tables of all names seen so far: a name may come later, and be missing in a line."""
    import json

    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    size = 0
    with source.open() as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST), b""), 1):
            if len(line) >= LONGEST:
                raise too_long(source.name, f"after line {number - 1}")
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode(layout.encoding).lstrip("\ufeff"))
            except ValueError as error:
                raise TableError(f"not a line of JSON: {error}", file=source.name, row=number) from None
            if not isinstance(row, dict):
                raise TableError('a row must be a JSON object, like {"x": 1}', file=source.name, row=number)
            for name, value in row.items():
                if isinstance(value, list | dict):
                    raise TableError(
                        "a value must be a number, a text, true, false or null",
                        file=source.name,
                        row=number,
                        column=name,
                    )
            rows.append(row)
            names.update(dict.fromkeys(row))
            size += len(line)
            if size >= BATCH:
                yield _table(rows, names)
                rows, size = [], 0
    yield _table(rows, names)


def _table(rows: list[dict[str, Any]], names: dict[str, None]) -> Any:
    import pyarrow as pa

    return pa.table({name: _typed([row.get(name) for row in rows]) for name in names})


def _typed(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(v) for v in values if v is not None}
    if kinds <= {bool} or kinds <= {int, float}:
        return pa.array(values, pa.bool_() if kinds == {bool} else pa.float64() if kinds else pa.null())
    return pa.array([None if v is None else v if isinstance(v, str) else str(v).lower() for v in values], pa.string())


def _parquet(source: Source, layout: Layout) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(source.open())
        for batch in file.iter_batches(batch_size=1 << 17):
            yield pa.table(batch)
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(f"not a whole Parquet file: {error}", file=source.name) from None


def _workbook(source: Source, layout: Layout) -> Iterator[Any]:
    from ulmus.tables.excel import rows_of_workbook

    header, rows = rows_of_workbook(source)
    names = unique_names(header)
    for start in range(0, len(rows), 1 << 17):
        some = rows[start : start + (1 << 17)]
        yield _table([dict(zip(names, row, strict=True)) for row in some], dict.fromkeys(names))


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _few(names: list[str], count: int = 8) -> str:
    return ", ".join(repr(n) for n in names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
