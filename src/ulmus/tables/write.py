"""Predictions → files, batch by batch; format and compression by the name of the file."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from ulmus._files import failed, replacing
from ulmus.tables.errors import TableError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
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
            raise TableError(f"cannot tell a format from the name; end it in one of {known}", file=path)
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
