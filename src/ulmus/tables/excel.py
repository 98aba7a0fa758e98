"""The first sheet of a workbook, as rows; the first that has values, below titles, names columns. Needs openpyxl.

A cell that was merged with those below it holds for all of their rows.
"""

import datetime
import zipfile
from typing import Any

from ulmus.tables.delimited import HEAD
from ulmus.tables.errors import TableError
from ulmus.tables.headers import label_note, labels_below, place_of_header, title_note
from ulmus.tables.sniff import Source


def rows_of_workbook(source: Source) -> tuple[list[str], list[list[Any]], list[int], tuple[str, ...]]:
    """Names; rows of numbers, truth values and texts, dates as ISO 8601; their numbers; and warnings."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise TableError(
            'reading a workbook needs openpyxl: pip install "ulmus[excel]", or save the sheet as CSV', file=source.name
        ) from error
    try:
        with source.open() as file:
            book = load_workbook(file, read_only=True, data_only=True)
            cells = [[_plain(value) for value in row] for row in book.worksheets[0].iter_rows(values_only=True)]
        merged = _merged_down(source)
    except (InvalidFileException, KeyError, ValueError, OSError, IndexError, zipfile.BadZipFile) as error:
        raise TableError(f"the workbook cannot be read: {error}", file=source.name) from None
    numbers = [number for number, row in enumerate(cells, 1) if any(value is not None for value in row)]
    rows = [cells[number - 1] for number in numbers]
    if not rows:
        raise TableError("the first sheet is empty", file=source.name)
    width = max(j + 1 for row in rows for j, value in enumerate(row) if value is not None)
    rows = [(row + [None] * width)[:width] for row in rows]
    head = [["" if value is None else str(value) for value in row] for row in rows[:HEAD]]
    k = place_of_header(head)
    last = k + labels_below(head[k:])
    notes = tuple(title_note(source.name, numbers[i], head[i]) for i in range(k))
    notes += tuple(label_note(source.name, numbers[i], head[i]) for i in range(k + 1, last + 1))
    notes += _fill_down(rows, numbers, last, [cells for cells in merged if cells[2] < width], head[k], source.name)
    return head[k], rows[last + 1 :], numbers[last + 1 :], notes


def _fill_down(
    rows: list[list[Any]], numbers: list[int], k: int, merged: list[tuple[int, int, int]], names: list[str], file: str
) -> tuple[str, ...]:
    """Give rows below the header the values of the merged cells that they are in; what was done, column by column."""
    where, done = {number: i for i, number in enumerate(numbers)}, dict[int, list[tuple[int, int]]]()
    for first, last, j in merged:
        value = rows[where[first]][j] if first in where and first > numbers[k] else None
        below = [where[number] for number in range(first + 1, last + 1) if number in where]
        if value is not None and below:
            for i in below:
                rows[i][j] = value
            done.setdefault(j, []).append((first, last))
    return tuple(
        f"{file}, column {names[j] or f'column {j + 1}'!r}: merged cells were filled down ({len(cells)}; the first "
        f"spans rows {cells[0][0]} to {cells[0][1]})"
        for j, cells in done.items()
    )


def _merged_down(source: Source) -> list[tuple[int, int, int]]:
    """First and last row, and column from 0 on, of cells of the first sheet that are merged over several rows.

    A sheet that is read row by row does not tell; it is read as a whole only if something in the workbook is merged.
    """
    from openpyxl import load_workbook

    with source.open() as file, zipfile.ZipFile(file) as parts:
        sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        if not any(_has_merged(parts, name) for name in sheets):
            return []
    with source.open() as file:
        ranges = load_workbook(file, data_only=True).worksheets[0].merged_cells.ranges
        return sorted((c.min_row, c.max_row, c.min_col - 1) for c in ranges if c.max_row > c.min_row)


def _has_merged(parts: zipfile.ZipFile, name: str) -> bool:
    with parts.open(name) as sheet:
        before = b""
        while piece := sheet.read(1 << 20):
            if b"mergeCell " in before + piece:
                return True
            before = piece[-16:]
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value) if value.days == 0 else f"{value.days} days {datetime.timedelta(seconds=value.seconds)}"
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value).strip()
    return text or None
