"""Predictions → files, batch by batch; format and compression by the name of the file."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from ulmus._files import failed, replacing
from ulmus.tables.errors import TableError
from ulmus.tables.kinds import Kind, values, written
from ulmus.tables.read import TableBatch

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
#: Numbers that are whole, and those with more digits than a float holds.
WHOLE, LONG = r"^[+-]?(0|[1-9]\d{0,17})$", r"(\d[.,]?){16}"
LINES = (".jsonl", ".ndjson", ".json")


class Writer:
    """Writes tables of the same columns one after another; ``"-"`` is CSV to standard output.

    A file takes its place when the block ends; after an error the one that was there is kept.
    """

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self._arrow, self._path = pa, path
        suffixes = [s.lower() for s in Path(path).suffixes]
        self._compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
        named = suffixes[:-1] if self._compression else suffixes
        self._format = ".csv" if path == "-" else named[-1] if named else ""
        if self._format not in (*SEPARATORS, *LINES, ".parquet"):
            known = ", ".join((*SEPARATORS, *LINES[:2], ".parquet"))
            raise TableError(f"unknown output format; use a name that ends in one of {known}", file=path)
        self._stack = ExitStack()
        self._inner: Any = None

    def __enter__(self) -> Self:
        pa = self._arrow
        if self._path == "-":
            self._sink = pa.PythonFile(sys.stdout.buffer, mode="w")
        else:
            try:
                self._sink = pa.PythonFile(self._stack.enter_context(replacing(self._path)), mode="w")
            except OSError as error:
                raise failed(self._path, error) from error
            if self._compression:
                self._sink = self._stack.enter_context(pa.CompressedOutputStream(self._sink, self._compression))
        return self

    def write(self, table: Any) -> None:
        """Append the rows of an Arrow table."""
        try:
            self._write(table)
        except OSError as error:
            raise failed(self._path, error) from error

    def _write(self, table: Any) -> None:
        if self._format in LINES:
            for row in table.to_pylist():
                self._sink.write((json.dumps(row, default=str) + "\n").encode())
            return
        if self._inner is None:
            self._inner = self._stack.enter_context(self._opened(table.schema))
        self._inner.write_table(table)

    def _opened(self, schema: Any) -> Any:
        from pyarrow import csv, parquet

        if self._format == ".parquet":
            return parquet.ParquetWriter(self._sink, schema)
        options = csv.WriteOptions(delimiter=SEPARATORS[self._format], quoting_style="needed")
        return csv.CSVWriter(self._sink, schema, write_options=options)

    def __exit__(self, *problem: Any) -> None:
        try:
            self._stack.__exit__(*problem)
        except OSError as error:
            raise error if error is problem[1] else failed(self._path, error) from error
        if self._path == "-":
            sys.stdout.flush()


def written_as_text(path: str) -> bool:
    """Whether a file of this name holds text, to which a number and its digits are the same."""
    return path == "-" or any(suffix.lower() in SEPARATORS for suffix in Path(path).suffixes)


class Kept:
    """Columns of a text file as they are kept beside predictions: numbers are numbers where the output knows types.

    A column is a number if all values of the first batch are, and no digit is lost: codes ("00012") and numbers of more
    than fifteen digits stay text.
    """

    def __init__(self, *, typed: bool, decimal: str = "auto") -> None:
        self._typed, self._decimal = typed, decimal
        self._kinds: dict[str, Any] | None = None

    def columns(self, batch: TableBatch) -> dict[str, Any]:
        """The columns of a batch, by name."""
        if not self._typed:
            return {name: _as_text(column) for name, column in batch.columns.items()}
        if self._kinds is None:
            self._kinds = {name: self._type(column) for name, column in batch.columns.items()}
        return {name: self._cast(batch, name) for name in batch.columns}

    def _type(self, column: Any) -> tuple[Kind, Any] | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_string(column.type):
            return None
        text = pc.utf8_trim_whitespace(column)
        if pc.all(pc.match_substring_regex(text, WHOLE)).as_py() and column.null_count < len(column):
            return Kind("number", "plain"), pa.int64()
        kind = written(column, self._decimal)
        if kind.name != "number" or len(values(column, kind).wrong):
            return None
        return None if pc.any(pc.match_substring_regex(text, LONG)).as_py() else (kind, pa.float64())

    def _cast(self, batch: TableBatch, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        column, found = batch.columns[name], (self._kinds or {}).get(name)
        if found is None:
            return column
        kind, wanted = found
        try:
            if pa.types.is_integer(wanted):
                return pc.utf8_trim_whitespace(column).cast(wanted)
            known = values(column, kind)
            if not len(known.wrong):
                return pa.array(known.values, wanted, from_pandas=True)
        except pa.ArrowInvalid:
            pass
        raise TableError(
            "the column contained only numbers so far, but not here; write to a .csv file to keep it as it is",
            file=batch.file,
            column=name,
        )


def _as_text(column: Any) -> Any:
    """A column as a file of text can hold it: tags of a list with | between them, others as Python writes them."""
    import pyarrow as pa

    t = column.type
    if not (pa.types.is_nested(t) or pa.types.is_duration(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)):
        return column
    lists = pa.types.is_list(t) or pa.types.is_large_list(t)
    values = column.to_pylist()
    texts = [None if v is None else "|".join(map(str, v)) if lists else str(v) for v in values]
    return pa.array(texts, pa.string())
