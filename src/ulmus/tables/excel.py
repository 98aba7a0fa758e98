"""The first sheet of a workbook, as rows; the first that has values, below titles, names columns. Needs openpyxl."""

import datetime
from typing import Any

from ulmus.tables.delimited import HEAD, place_of_header, title_note
from ulmus.tables.errors import TableError
from ulmus.tables.sniff import Source


def rows_of_workbook(source: Source) -> tuple[list[str], list[list[Any]], list[int], tuple[str, ...]]:
    """Names; rows of numbers, truth values and texts, dates as ISO 8601; their numbers; and warnings."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise TableError(
            'a workbook; get openpyxl with pip install "ulmus[excel]", or save the sheet as CSV', file=source.name
        ) from error
    try:
        with source.open() as file:
            book = load_workbook(file, read_only=True, data_only=True)
            cells = [[_plain(value) for value in row] for row in book.worksheets[0].iter_rows(values_only=True)]
    except (InvalidFileException, KeyError, ValueError, OSError, IndexError) as error:
        raise TableError(f"the workbook cannot be read: {error}", file=source.name) from None
    numbers = [number for number, row in enumerate(cells, 1) if any(value is not None for value in row)]
    rows = [cells[number - 1] for number in numbers]
    if not rows:
        raise TableError("the first sheet is empty", file=source.name)
    width = max(j + 1 for row in rows for j, value in enumerate(row) if value is not None)
    rows = [(row + [None] * width)[:width] for row in rows]
    head = [["" if value is None else str(value) for value in row] for row in rows[:HEAD]]
    k = place_of_header(head)
    notes = tuple(title_note(source.name, numbers[i], head[i]) for i in range(k))
    return head[k], rows[k + 1 :], numbers[k + 1 :], notes


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
