"""Text with separators, as it is: where its header stands, which lines are blank, whether quotes are closed.

A row is what a spreadsheet counts: blank lines and what is above the header are rows, a line break between quotes
makes none.
"""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from itertools import count, islice
from typing import Any

import numpy as np

from ulmus.tables import pieces
from ulmus.tables.errors import TableError
from ulmus.tables.headers import label_note, labels_below, padded, place_of_header, title_note
from ulmus.tables.pieces import is_number
from ulmus.tables.sniff import DAMAGED, TITLES, Layout, Source

#: Rows, and lines, by which a header is found; lines that it may take.
HEAD, LINES, NAMES = 200, 2_000, 50
#: Bytes of a block that are looked at again with the next.
LINE = 64
#: Lines that are no rows: blank ones, and what :data:`NO_ROW` may match.
_ODD = re.compile(rb"\n\n|\n\r|\r\r|[\r\n][ \t]*(?:#|[-+|=:]*--|\(\d+ row)")
#: Bytes that are no UTF-8, as ``surrogateescape`` shows them.
_HALF = re.compile("[\udc80-\udcff]")
#: Lines that programs put among rows, where they do not have the fields of one: comments, drawn lines, counts.
NO_ROW = re.compile(r"\s*(#.*|[-+|=:\s]*--[-+|=:\s]*|\(\d+ rows?( affected)?\)\s*)", re.DOTALL)


@dataclass(frozen=True)
class Header:
    """Names of the columns, the row in which they end, and the lines of the file through that row."""

    names: list[str]
    row: int
    lines: int
    notes: tuple[str, ...] = ()


def lines_of(source: Source, layout: Layout, errors: str = "replace") -> Iterator[str]:
    """Lines of a text, with their ends, below the line that names the separator; one that never ends is not read."""
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    with source.open() as stream:
        text = TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")
        for number in count(1):
            line = text.readline(pieces.LONGEST)
            if not line:
                return
            if len(line) >= pieces.LONGEST:
                raise pieces.too_long(source.name, f"after line {number - 1}")
            if number > layout.skip:
                yield line


def header_of(source: Source, layout: Layout) -> Header:
    """The header; titles and blank lines may stand above it.

    Rows of words right below it, where all others have numbers, belong to it: units, or names in full. Separators at
    the end of every row but the header make columns without a name, those at the end of the header alone make none.
    """
    reader = csv.reader(islice(lines_of(source, layout), LINES), delimiter=layout.separator)
    records: list[tuple[int, int, list[str]]] = []
    try:
        for row, fields in enumerate(islice(reader, HEAD), 1):
            if any(cell.strip() for cell in fields):
                records.append((row, reader.line_num, fields))
            if len(records) == 1 and reader.line_num - row > NAMES:
                break
    except csv.Error as error:
        raise TableError(f"cannot be read as a table: {error}", file=source.name) from None
    except TableError:  # a row that never ends
        if not records:
            raise
    if len(records) == 1 and records[0][1] - records[0][0] > NAMES:
        raise TableError(
            "a column name spans many lines; is there an unclosed quote?", file=source.name, row=records[0][0]
        )
    if not records:
        return Header([], 1, 1)
    k = place_of_header([fields for *_, fields in records])
    last = k + labels_below([fields for *_, fields in records[k:]])
    row, end, _ = records[last]
    notes = [title_note(source.name, row, fields) for row, _, fields in records[:k]]
    notes += [label_note(source.name, row, fields) for row, _, fields in records[k + 1 : last + 1]]
    names = padded(records[k][2], [fields for *_, fields in records[last + 1 :]])
    return Header(names, row, layout.skip + end, tuple(notes))


@dataclass(frozen=True)
class RowNumbers:
    """Which rows of the file the rows of the table are: ``blank`` says how many come before each blank one.

    Below a blank line, the last rows may be notes: ``notes`` has their numbers and their fields. Comments and drawn
    lines among the rows count as blank ones do; ``skipped`` is the first of them, and how many there are.
    """

    first: int
    blank: np.ndarray
    notes: tuple[tuple[int, list[str]], ...] = ()
    skipped: tuple[int, str, int] = (0, "", 0)

    @classmethod
    def of(cls, source: Source, layout: Layout, header: Header) -> "RowNumbers":
        """Look through the file; a quote that is never closed is refused, and so is half a character in a bad row.

        To pyarrow, which prints a traceback where the text of a row that it hands over is not UTF-8, neither comes.
        """
        some, odd = _surveyed(source, layout)
        if odd and (row := _left_open(source, layout)) is not None:
            raise TableError("this quote is never closed", file=source.name, row=row)
        if not some:
            return cls(header.row + 1, np.zeros(0, np.int64))
        lines = lines_of(source, layout, "surrogateescape" if layout.encoding == "utf-8" else "replace")
        records = islice(csv.reader(lines, delimiter=layout.separator), header.row, None)
        found, rows, last, skipped = list[int](), 0, list[tuple[int, list[str]]](), list[tuple[int, str]]()
        try:
            for number, fields in enumerate(records, header.row + 1):
                if len(fields) not in (0, len(header.names)) and _HALF.search("".join(fields)):
                    raise unequal_fields(source.name, number, len(fields), len(header.names))
                if fields and is_no_row(fields, len(header.names)):
                    found.append(rows)
                    skipped.append((number, fields[0].strip()))
                elif fields:
                    rows += 1
                    last = [*last, (number, fields)][: TITLES + 1] if found else []
                else:
                    found.append(rows)
                    last = last if _are_notes(last, len(header.names)) else []
        except csv.Error:
            last = []  # who reads the rows will say so
        notes = tuple(last) if _are_notes(last, len(header.names)) and len(last) < rows else ()
        first = (*skipped[0], len(skipped)) if skipped else (0, "", 0)
        return cls(header.row + 1, np.array(found, dtype=np.int64), notes, first)

    def handler(self, separator: str, width: int) -> Callable[[Any], str] | None:
        """What pyarrow asks of a row with other than the fields of the header: each note is passed over, once.

        None where no row is passed over.
        """
        if not self.notes and not self.skipped[2]:
            return None
        left = [fields for _, fields in self.notes]

        def handle(row: Any) -> str:
            fields = next(csv.reader([row.text], delimiter=separator), [])
            if is_no_row(fields, width):
                return "skip"
            if fields not in left:
                return "error"
            left.remove(fields)
            return "skip"

        return handle

    def without_notes(self, table: Any, numbers: np.ndarray) -> tuple[Any, np.ndarray]:
        """Rows of the table, and their numbers, less the notes below."""
        kept = numbers < self.notes[0][0] if self.notes else np.ones(len(numbers), bool)
        return (table, numbers) if kept.all() else (table.slice(0, int(kept.sum())), numbers[kept])

    def footer_notes(self, file: str) -> list[str]:
        """Warnings about notes below the rows, and about what was skipped among them."""
        texts = [(row, next(cell for cell in fields if cell.strip())) for row, fields in self.notes]
        what = "is a note below the table and was skipped"
        found = [str(TableError(f"{text.strip()!r} {what}", file=file, row=row)) for row, text in texts]
        row, text, count = self.skipped
        more = f" (and {count - 1} more)" if count > 1 else ""
        found += [str(TableError(f"{text!r} is not a row and was skipped{more}", file=file, row=row))] if count else []
        return found

    def numbers(self, start: int, n_rows: int) -> np.ndarray:
        """Of rows of the table from ``start`` on."""
        k = np.arange(start, start + n_rows)
        return self.first + k + np.searchsorted(self.blank, k, side="right")


def unequal_fields(file: str, row: int | None, found: int, expected: int) -> TableError:
    """The error of a row that has more or fewer fields than the header."""
    why = "is there an unquoted separator in a value?"
    if found < expected:
        why = "is it a note below the table, or an unquoted value with a line break?"
    return TableError(f"the header has {expected} fields but this row has {found}; {why}", file=file, row=row)


def is_no_row(fields: list[str], width: int) -> bool:
    """Whether fields are a comment, a drawn line or a count, and not as many as a row has."""
    return (
        bool(fields)
        and len(fields) != width
        and NO_ROW.fullmatch(fields[0] if fields[0].lstrip()[:1] == "#" else "|".join(fields)) is not None
    )


def _are_notes(rows: list[tuple[int, list[str]]], width: int) -> bool:
    """Whether rows are notes: in each a single value, of words, and the first without separators behind it."""
    values = [[cell for cell in fields if cell.strip()] for _, fields in rows]
    words = all(len(found) == 1 and not is_number(found[0]) for found in values)
    return words and 0 < len(rows) <= TITLES and len(rows[0][1]) == 1 < width


def _surveyed(source: Source, layout: Layout) -> tuple[bool, bool]:
    """Whether there may be lines that are no rows, and whether the number of quotes is odd."""
    some, quotes, end = False, 0, b""
    try:
        with source.open() as stream:
            for block in _blocks(stream, layout.encoding):
                text = end + block
                some = some or _ODD.search(text) is not None
                quotes += block.count(b'"')
                end = text[-LINE:]
    except (OSError, UnicodeError, *DAMAGED):
        pass  # who reads the rows will say so
    return some, quotes % 2 == 1


def _blocks(stream: Any, encoding: str) -> Iterator[bytes]:
    """Of bytes in which an end of line is one byte."""
    if not encoding.startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
        yield from iter(lambda: stream.read(1 << 20), b"")
        return
    text = TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    for block in iter(lambda: text.read(1 << 20), ""):
        yield block.encode(errors="replace")


def _left_open(source: Source, layout: Layout) -> int | None:
    """The row in which a quote is opened that nothing closes."""
    kept: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines_of(source, layout):
            kept.append(line)
            yield line

    last, row = "", 0
    try:
        for row, _ in enumerate(csv.reader(watched(), delimiter=layout.separator), 1):  # noqa: B007
            last = "".join(kept)
            kept.clear()
        list(csv.reader(StringIO(last, newline=""), delimiter=layout.separator, strict=True))
    except csv.Error as error:
        return row if "unexpected end" in str(error) else None
    return None


def header_again(table: Any) -> np.ndarray:
    """Rows that repeat the header, as files do that were put together: every value is the name of its column.

    A byte order mark before the first of them is that of the second file.
    """
    import pyarrow.compute as pc

    rows = np.arange(table.num_rows)
    for k, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if not len(rows):
            break
        if not name.startswith("column "):
            texts = pc.utf8_trim_whitespace(column)
            texts = texts if k else pc.utf8_ltrim(texts, "\ufeff")
            rows = rows[np.asarray(pc.equal(texts, name).fill_null(False))[rows]]
    return rows if any(not name.startswith("column ") for name in table.column_names) else rows[:0]


def is_drawn(table: Any) -> bool:
    """Whether the first row is a line drawn below the header, as in Markdown."""
    values = [column[0].as_py() for column in table.columns] if table.num_rows else []
    texts = [value.strip() for value in values if value is not None]
    return bool(texts) and all(re.fullmatch(":?-{2,}:?|={2,}", text) for text in texts)


def header_notes(file: str, rows: np.ndarray) -> list[str]:
    """Warnings about rows that repeat the header."""
    if not len(rows):
        return []
    more = f"; so do {len(rows) - 1} more, which were skipped too" if len(rows) > 1 else ""
    return [str(TableError(f"the row repeats the header and was skipped{more}", file=file, row=int(rows[0])))]


def mixed_encodings(table: Any, encoding: str, numbers: np.ndarray, file: str) -> list[str]:
    """Warnings about UTF-8 among rows of another encoding, as files have that were put together."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if encoding != "cp1252" or not pa.types.is_string(column.type):
            continue
        odd = pc.match_substring_regex(column, "[ÂÃÄÅ][^ -~]").fill_null(False)
        for i in np.flatnonzero(np.asarray(odd))[:1000]:
            value = column[int(i)].as_py()
            try:
                meant = value.encode(encoding).decode()
            except UnicodeError:
                continue
            text = f"{value!r} is {meant!r} in UTF-8, and other rows are in {encoding}: save the file in one encoding"
            return [str(TableError(text, file=file, row=int(numbers[i]), column=name))]
    return []


def rows_in_values(table: Any, separator: str, numbers: np.ndarray, file: str) -> list[str]:
    """Warnings about values over several lines that read like rows: a quote was opened where none should be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_string(column.type) or table.num_columns < 2:
            continue
        broken = pc.match_substring_regex(column, r"[\r\n]").fill_null(False)
        for i in np.flatnonzero(np.asarray(broken))[:1000]:
            more = column[int(i)].as_py().splitlines()[1:]
            whole = [line for line in more[:-1] if _fields(line, separator) == table.num_columns]
            if whole or (more and more[-1].endswith('"') and separator in more[-1]):
                text = f"a value of {len(more) + 1} lines that read like rows of the table; is a quote left open in it?"
                return [str(TableError(text, file=file, row=int(numbers[i]), column=name))]
    return []


def _fields(line: str, separator: str) -> int:
    return len(next(csv.reader([line], delimiter=separator), []))
