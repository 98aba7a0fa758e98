"""Text whose columns stand apart by blanks, at fixed places or not, as text with commas; a line stays a line.

R's ``write.table``, listings of programs and databases: where every line has as many words, words are values. Else the
places that are blank in all lines of the sample divide the columns, and a value there in a later line is an error.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, RawIOBase, StringIO, TextIOWrapper
from typing import Any

import numpy as np

from ulmus.tables.errors import TableError
from ulmus.tables.pieces import is_number

#: Lines from which places are found, at least; share of a column of numbers that are such.
ENOUGH, NUMBERS = 10, 0.8


@dataclass(frozen=True)
class Blanks:
    """How lines are divided: into words, or at ``gaps``, from the end of a column to the start of the next.

    ``unnamed`` says that the first column has no name.
    """

    gaps: tuple[tuple[int, int], ...] = ()
    unnamed: bool = False

    def fields(self, line: str) -> list[str]:
        """The values of a line; one that fills a gap is an error."""
        line = line.expandtabs().rstrip()
        if not self.gaps:
            return _words(line)
        cuts = [0]
        for end, start in self.gaps:
            gap = line[end:start].ljust(start - end)
            if " " not in gap:
                raise ValueError(line[line.rfind(" ", 0, end) + 1 :].split()[0])
            cuts.append(start if not gap.strip() else end + gap.index(" "))
        return [line[a:b].strip() for a, b in zip(cuts, [*cuts[1:], None], strict=True)]


def detect_blanks(text: str) -> Blanks | None:
    """How blanks divide the lines of a text; None where they do not make a table with a column of numbers."""
    lines = [line.expandtabs().rstrip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    rows = [_words(line) for line in lines]
    width = len(rows[-1])
    if {len(row) for row in rows[1:]} == {width} and (width > 2 or (width == 2 and all(map(is_number, rows[-1])))):
        unnamed = len(rows[0]) == width - 1 and lines[0].startswith('"')
        if (unnamed or len(rows[0]) == width) and _has_numbers(rows[1:]):
            return Blanks(unnamed=unnamed)
    return _placed(lines) if len(lines) >= ENOUGH else None


def _words(line: str) -> list[str]:
    """Words of a line, quoted ones whole; a ``#`` before the names is none."""
    start = line.removeprefix("#") if line.startswith("# ") else line
    return next(csv.reader([start.strip().replace("\t", " ")], delimiter=" ", skipinitialspace=True), [])


def _has_numbers(rows: list[list[str]]) -> bool:
    columns = [[cell for cell in column if cell] for column in zip(*rows, strict=True)]
    return any(sum(map(is_number, column)) > NUMBERS * len(column) for column in columns)


def _placed(lines: list[str]) -> Blanks | None:
    """Columns that stand below each other; a part without a name, or without values, belongs to one beside it."""
    used = np.zeros(max(map(len, lines)) + 1, bool)
    for line in lines:
        used[: len(line)] |= np.frombuffer(line.encode("utf-32-le"), dtype=np.uint32) != ord(" ")
    turns = np.flatnonzero(np.diff(used, prepend=False)).tolist()
    gaps = list(zip(turns[1:-1:2], turns[2::2], strict=True))
    parts = [Blanks(tuple(gaps)).fields(line) for line in lines] if gaps else []
    head, rest = (parts[0], [any(column) for column in zip(*parts[1:], strict=True)]) if parts else ([], [])
    kept = tuple(
        gap
        for k, gap in enumerate(gaps)
        if head[k + 1] and ((rest[k] and rest[k + 1]) or lines[0][: gap[1]].endswith("  "))
    )
    found = Blanks(kept)
    rows = [found.fields(line) for line in lines] if kept else []
    apart = any("  " in cell for row in rows for cell in row)  # more columns than there are names
    named = kept and not apart and all(rows[0]) and len(set(rows[0])) == len(rows[0])
    return found if named and _has_numbers(rows[1:]) else None


def divided(stream: Any, encoding: str, blanks: Blanks, file: str) -> Any:
    """The text with commas, as bytes of UTF-8."""
    return BufferedReader(_Lines(_divided(stream, encoding, blanks, file)))


def _divided(stream: Any, encoding: str, blanks: Blanks, file: str) -> Iterator[bytes]:
    text = TextIOWrapper(stream, encoding=encoding, errors="replace")
    first = True
    for number, line in enumerate(text, 1):
        try:
            fields = blanks.fields(line.removeprefix("\ufeff") if first else line) if line.strip() else []
        except ValueError as error:
            raise TableError(
                f"{str(error)!r} spans two columns, as the spaces of the first lines divide them; "
                "save the table with commas, semicolons or tabs",
                file=file,
                row=number,
            ) from None
        if first and fields:
            fields, first = [""] * blanks.unnamed + fields, False
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerow(fields)
        yield out.getvalue().encode()


class _Lines(RawIOBase):
    """Lines as a file."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines, self._rest = lines, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._lines, b"")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)
