"""Where names of columns stand in a table: below titles, in one row or in several."""

from collections import Counter

from ulmus.features.amounts import taken_apart
from ulmus.features.written import MISSING
from ulmus.tables.errors import TableError
from ulmus.tables.pieces import is_number
from ulmus.tables.sniff import TITLES

#: Rows of labels below the header, at most; columns of numbers, and numbers in each, by which they are known.
LABELS, COLUMNS, NUMBERS = 3, 2, 5
#: Share of a column that must be numbers.
MOSTLY = 0.9


def title_note(file: str, row: int, fields: list[str]) -> str:
    """Warnings about a row above the header."""
    first = next(cell.strip() for cell in fields if cell.strip())
    return str(TableError(f"{first!r} is above the header and was skipped", file=file, row=row))


def label_note(file: str, row: int, fields: list[str]) -> str:
    """Warnings about a row below the header that has labels, no values."""
    first = next(cell.strip() for cell in fields if cell.strip())
    return str(TableError(f"{first!r} is below the header, a row of labels, and was skipped", file=file, row=row))


def place_of_header(records: list[list[str]]) -> int:
    """Which of the first records is the header.

    A row that is shorter than most, or at most half of which has values, is a title where the first row below that is
    fuller reads like names: all different, none a number, none a value of its column.
    """
    width = max(Counter(len(fields) for fields in records).items(), key=lambda pair: (pair[1], pair[0]))[0]
    for k, fields in enumerate(records[: TITLES + 1]):
        cells = [cell.strip() for cell in fields]
        filled = [cell for cell in cells if cell]
        if width > (1 if cells[0] else 2) and (len(cells) < width or 2 * len(filled) <= width):
            continue
        rest = [row for row in records[k + 1 :] if row != fields and len(row) == width]
        below = [{row[j].strip() for row in rest if j < width} - {""} for j in range(len(cells))]
        named = len(cells) == width and all(cell or not values for cell, values in zip(cells, below, strict=True))
        other = not any(is_number(cell) or cell in values for cell, values in zip(cells, below, strict=True))
        return k if named and other and len(set(filled)) == len(filled) else 0
    return 0


def padded(names: list[str], rows: list[list[str]]) -> list[str]:
    """As many names as the rows have fields, where what is too much is empty."""
    if not rows:
        return names
    width = Counter(map(len, rows)).most_common(1)[0][0]
    more = [cell for row in rows for cell in row[len(names) :]]
    if width > len(names) and not any(cell.strip() for cell in more):
        return names + [""] * (width - len(names))
    if width < len(names) and not any(name.strip() for name in names[width:]):
        return names[:width]
    return names


def labels_below(records: list[list[str]]) -> int:
    """How many rows below the first of the records, a header, have labels: units, or names in full.

    Such a row has words in all columns that have numbers in all others, and none of its words comes again.
    """
    width = len(records[0])
    if any(map(is_number, records[0])):
        return 0
    rows = [[cell.strip() for cell in fields] for fields in records[1:] if len(fields) == width]
    if len(rows) < len(records) - 1 and any(len(fields) != width for fields in records[1 : LABELS + 1]):
        return 0
    for count in range(min(LABELS, len(rows)), 0, -1):
        labels, body = rows[:count], rows[count:]
        values = [[row[j] for row in body if row[j] not in MISSING] for j in range(width)]
        numeric = [j for j in range(width) if _are_numbers(values[j])]
        if len(numeric) >= COLUMNS and all(_is_label(row, numeric, values) for row in labels):
            return count
    return 0


def _are_numbers(values: list[str]) -> bool:
    return len(values) >= NUMBERS and sum(map(is_number, values)) >= MOSTLY * len(values)


def _is_label(row: list[str], numeric: list[int], values: list[list[str]]) -> bool:
    """Whether a row has a word in every column of numbers, and nothing that is in its column elsewhere."""
    words = all(row[j] not in MISSING and taken_apart(row[j]) is None for j in numeric)
    return words and not any(cell and cell in values[j] for j, cell in enumerate(row))
