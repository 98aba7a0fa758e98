"""Files → batches of columns. Text formats are read as text; what a column is, is told later, from all of it."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from io import TextIOWrapper
from itertools import count, islice
from typing import Any

from ulmus.tables.errors import TableError
from ulmus.tables.sniff import Layout, Source

#: Texts that mean that a value is missing.
MISSING = ("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "#N/A", "#NA", "<NA>")
#: Bytes of text in one batch.
BATCH = 1 << 24
#: Largest batch, for rows that are longer.
LARGEST = (1 << 31) - 1
csv.field_size_limit(LARGEST)


@dataclass(frozen=True)
class Batch:
    """Some rows: columns by name, and the number of the first row, as a spreadsheet counts (the header is row 1)."""

    columns: dict[str, Any]
    first_row: int
    file: str

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        near = get_close_matches(name, list(self.columns), 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {_few(list(self.columns))}"
        raise TableError(f"there is no such column{hint}", file=self.file, column=name)


def read_table(path: str) -> Batch:
    """The whole of a file."""
    return join_batches(list(read_batches(path)))


def join_batches(batches: list[Batch]) -> Batch:
    """Batches that follow each other, as one; a column that some of them lack is missing there."""
    if len(batches) == 1:
        return batches[0]
    names = dict.fromkeys(name for b in batches for name in b.columns)
    columns = {name: _joined([(b.columns.get(name), b.n_rows) for b in batches]) for name in names}
    return Batch(columns, batches[0].first_row, batches[0].file)


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


def read_batches(path: str) -> Iterator[Batch]:
    """A file, piece by piece. A file without rows is an error."""
    source = Source(path)
    layout = source.layout()
    reader = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet}[layout.format]
    row = 2 if layout.format == "csv" else 1
    rows = 0
    for table in reader(source, layout):
        if not table.num_rows:
            continue
        names = unique_names(table.column_names)
        yield Batch(dict(zip(names, table.columns, strict=True)), row + rows, source.name)
        rows += table.num_rows
    if not rows:
        raise TableError(
            "the file has no rows, only a header" if layout.format == "csv" else "no rows", file=source.name
        )


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
    size = BATCH
    while True:
        options = arrow.ReadOptions(
            encoding=layout.encoding, block_size=size, skip_rows=layout.skip + 1, column_names=header
        )
        try:
            yield from map(pa.table, arrow.open_csv(source.open(), options, parse, convert))
            return
        except (pa.ArrowInvalid, UnicodeDecodeError, OSError, EOFError) as error:
            if "Empty CSV" in str(error) or "Could not skip" in str(error):
                return
            if not ("straddling" in str(error) and size < LARGEST):
                raise _explained(error, source, layout, len(header)) from None
            size = min(8 * size, LARGEST)  # a row is longer than a batch


def _header(source: Source, layout: Layout) -> list[str]:
    """The names in the first line; the file is not read further."""
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    with source.open() as stream:
        lines = islice(TextIOWrapper(stream, encoding=encoding, errors="replace", newline=""), layout.skip, None)
        first = next((line for line in lines if line.strip()), "")
    if first.count('"') % 2:
        raise TableError("a name in the header is broken over two lines", file=source.name, row=1)
    return unique_names(next(csv.reader([first], delimiter=layout.separator), []))


def _explained(error: Exception, source: Source, layout: Layout, n_fields: int) -> TableError:
    """pyarrow's complaint, with file and row."""
    if not re.search(r"Expected \d+ columns, got \d+", str(error)):
        return TableError(f"cannot be read as a table: {error}", file=source.name)
    with source.open() as stream:
        text = TextIOWrapper(stream, encoding=layout.encoding, errors="replace", newline="")
        rows = filter(None, csv.reader(islice(text, layout.skip, None), delimiter=layout.separator))
        row, got = next(((i, len(r)) for i, r in enumerate(rows, 1) if len(r) != n_fields), (None, 0))
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
        for number, line in enumerate(stream, 1):
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


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _few(names: list[str], count: int = 8) -> str:
    return ", ".join(repr(n) for n in names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
