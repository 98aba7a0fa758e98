"""Rows that are JSON objects: lines of a file, those of an array, or what comes over the wire."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ulmus.features.frames import LONG
from ulmus.features.spelling import spelled
from ulmus.tables import pieces
from ulmus.tables.errors import TableError
from ulmus.tables.pieces import Piece
from ulmus.tables.sniff import Layout, Source

#: What to do with rows that do not stand on lines of their own.
LINES = 'write one object per line, as pandas does with to_json(path, orient="records", lines=True)'


def json_lines(source: Source, layout: Layout) -> Iterator[Piece]:
    """Tables of all names seen so far: a name may come later, and be missing in a line."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    names: dict[str, None] = {}
    size = 0
    with source.open() as stream:
        for number, line in enumerate(iter(lambda: stream.readline(pieces.LONGEST), b""), 1):
            if len(line) >= pieces.LONGEST:
                raise pieces.too_long(source.name, f"after line {number - 1}")
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode(layout.encoding).lstrip("\ufeff"))
            except ValueError as error:
                raise TableError(f"not a line of JSON: {error}", file=source.name, row=number) from None
            row = _plain(row, number, source.name)
            rows.append(row)
            numbers.append(number)
            names.update(dict.fromkeys(row))
            size += len(line)
            if size >= pieces.BATCH:
                yield Piece(table_of(rows, names), np.array(numbers))
                rows, numbers, size = [], [], 0
    yield Piece(table_of(rows, names), np.array(numbers, dtype=np.int64))


def json_array(source: Source, layout: Layout) -> Iterator[Piece]:
    """The objects of an array, which is read as a whole."""
    with source.open() as stream:
        content = stream.read(pieces.LONGEST)
    if len(content) == pieces.LONGEST:
        raise TableError(
            f"a JSON array of more than {pieces.LONGEST >> 20} MiB; {LINES}",
            file=source.name,
        )
    try:
        found = json.loads(content.decode(layout.encoding).lstrip("\ufeff"))
    except ValueError as error:
        raise TableError(f"not a JSON array: {error}", file=source.name) from None
    rows = [_plain(row, number, source.name) for number, row in enumerate(found, 1)]
    yield Piece(table_of(rows, dict.fromkeys(name for row in rows for name in row)), np.arange(1, len(rows) + 1))


def _plain(row: Any, number: int, file: str) -> dict[str, Any]:
    """A row of plain values; a whole table in one object is refused."""
    place: dict[str, Any] = {"file": file, "row": number}
    if not isinstance(row, dict):
        raise TableError('a row must be a JSON object, like {"x": 1}', **place)
    columns = [list(value) for value in row.values() if isinstance(value, dict)]
    if columns and len(columns) == len(row) and all(key.isdigit() for keys in columns for key in keys):
        raise TableError(f"one JSON object holds all rows; {LINES}", **place)
    found = flat(row)
    for name, value in found.items():
        refuse_nested(value, **place, column=name)
    return found


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row without objects in it: {"size": {"m": 2}} has a column size.m."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = flat(value) if isinstance(value, dict) else None
        found |= {name: value} if inner is None else {f"{name}.{key}": one for key, one in inner.items()}
    return found


def refuse_nested(value: Any, **place: Any) -> None:
    """Refuse a value that is no plain one, nor a list of these."""
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, list | dict) for part in parts):
        words = "a value must be a number, a text, true, false, null, or a list of these"
        rows = f"; if it holds the rows, {LINES}" if any(isinstance(part, dict) for part in parts) else ""
        raise TableError(words + rows, **place)


def table_of(rows: list[dict[str, Any]], names: dict[str, None]) -> Any:
    import pyarrow as pa

    return pa.table({name: _typed([row.get(name) for row in rows]) for name in names})


def _is_long(value: Any) -> bool:
    """Whether a whole number has so many digits that it is a name: as a text it keeps them."""
    return isinstance(value, int) and abs(value) >= LONG


def _typed(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(v) for v in values if v is not None}
    if list in kinds:
        parts = [[] if v is None else v if isinstance(v, list) else [v] for v in values]
        lists = [[spelled(part) for part in some if part is not None] for some in parts]
        return pa.array(lists, pa.list_(pa.string()))
    if kinds <= {bool} or (kinds <= {int, float} and not any(_is_long(v) for v in values)):
        return pa.array(values, pa.bool_() if kinds == {bool} else pa.float64() if kinds else pa.null())
    return pa.array(
        [None if v is None else v if isinstance(v, str) else spelled(v).lower() for v in values], pa.string()
    )
