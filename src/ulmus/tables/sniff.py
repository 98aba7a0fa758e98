"""What a file is: compression, format, encoding, separator; known from its bytes, not from its name."""

import bz2
import codecs
import csv
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader, BytesIO, StringIO
from itertools import islice
from typing import Any, BinaryIO

from ulmus.tables.blanks import Blanks, detect_blanks, divided
from ulmus.tables.errors import TableError
from ulmus.tables.pieces import is_number


def _zstd(source: Any) -> Any:
    import pyarrow as pa

    return BufferedReader(pa.CompressedInputStream(pa.PythonFile(source), "zstd"))


#: Bytes from which the rest is inferred.
SAMPLE = 1 << 18
#: Share of accented letters, of the others, in text of western Europe, at most.
WESTERN = 0.25
SEPARATORS = (",", ";", "\t", "|")
#: Rows that may stand above a header.
TITLES = 10
#: First bytes → how to open.
COMPRESSIONS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
#: What reading a damaged one raises, beside OSError.
DAMAGED = (EOFError, lzma.LZMAError, zlib.error)
#: First bytes of files that people have, and what to do with them.
OTHERS = {
    b"PK\x03\x04": "a ZIP archive, or a document of an office program; unpack it, or save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"SQLite format 3": "a database; export the table as CSV",
    b"%PDF": "a PDF document, not a table",
    b"ARROW1": "an Arrow or Feather file; save it as Parquet, as pandas does with read_feather(path).to_parquet(other)",
    b"<stata_dta>": "a Stata file; save it as Parquet, as pandas does with read_stata(path).to_parquet(other)",
    b"$FL": "an SPSS file; save it as CSV",
    b"\x93NUMPY": "a NumPy array; save it as CSV, with a row of names",
    b"\x80\x04": "a Python pickle; save the table as Parquet",
    b"\x80\x05": "a Python pickle; save the table as Parquet",
    b"\x89HDF": "an HDF5 file; save the table as Parquet",
}
#: First letters of text that is no table, and what to do with it.
PAGES = {
    "<html": "a web page, whatever its name says; open it in a spreadsheet program and save the table as CSV",
    "<!doctype html": "a web page, whatever its name says; open it in a spreadsheet program and save the table as CSV",
    "<table": "a web page, whatever its name says; open it in a spreadsheet program and save the table as CSV",
    "@relation": "an ARFF file; scipy.io.arff.loadarff reads it: save the table as CSV",
    "<?xml": "an XML document; open it in a spreadsheet program and save the table as CSV",
}

BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Layout:
    """How the text of a file is laid out."""

    format: str
    encoding: str = "utf-8"
    separator: str = ","
    skip: int = 0


class Source:
    """A file, or standard input for ``"-"``, that can be opened again and again, decompressed."""

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == "-" else path
        self._data = sys.stdin.buffer.read() if path == "-" else None
        self._path = path
        self._blanks: tuple[str, Blanks] | None = None

    def open(self) -> BinaryIO:
        """The bytes; of text whose columns stand apart by blanks, those of the same with commas."""
        stream = self._unpacked()
        return divided(stream, *self._blanks, self.name) if self._blanks else stream

    def _unpacked(self) -> BinaryIO:
        raw: Any = BytesIO(self._data) if self._data is not None else self._opened()
        start = raw.read(6)
        raw.seek(0)
        for magic, opener in COMPRESSIONS.items():
            if start.startswith(magic):
                return opener(raw)
        return raw

    @property
    def compressed(self) -> bool:
        raw: Any = BytesIO(self._data) if self._data is not None else self._opened()
        with raw:
            start = raw.read(6)
        return any(start.startswith(magic) for magic in COMPRESSIONS)

    def _opened(self) -> BinaryIO:
        try:
            return open(self._path, "rb")
        except OSError as error:
            raise TableError(f"cannot be read: {error.strerror}", file=self._path) from None

    def sample(self) -> bytes:
        """The first bytes."""
        try:
            with self.open() as stream:
                return stream.read(SAMPLE)
        except (OSError, *DAMAGED) as error:
            raise TableError(f"the compressed file is damaged: {error}", file=self.name) from None

    def layout(self) -> Layout:
        """The format of the file."""
        sample = self.sample()
        if not sample.strip():
            raise TableError("the file is empty", file=self.name)
        if sample.startswith(b"PAR1"):
            return Layout("parquet")
        if sample.startswith(b"PK\x03\x04") and b"xl/" in sample:
            return Layout("xlsx")
        for magic, words in OTHERS.items():
            if sample.startswith(magic):
                raise TableError(words, file=self.name)
        encoding = detect_encoding(sample, len(sample) < SAMPLE)
        text = sample.decode(encoding, errors="ignore").lstrip("\ufeff")
        for start, words in PAGES.items():
            if text.lstrip()[: len(start)].lower() == start:
                raise TableError(words, file=self.name)
        if text.lstrip().startswith("{"):
            return Layout("jsonl", encoding)
        if text.lstrip().startswith("[") and text.lstrip()[1:].lstrip()[:1] in ("{", "["):
            return Layout("json", encoding)
        if "\0" in text:
            raise TableError("not a table: neither text nor Parquet; save it as CSV or Parquet", file=self.name)
        first = text.partition("\n")[0].strip()
        if first.lower().startswith("sep=") and len(first) == 5:
            return Layout("csv", encoding, first[4], skip=1)
        if re.match(r"\S+( \d+:\S+)+\s*$", first):
            raise TableError(
                "an svmlight file; sklearn.datasets.load_svmlight_file reads it: save it as Parquet",
                file=self.name,
            )
        divides, separator = best_separator(text)
        whole = text if len(sample) < SAMPLE else text.rpartition("\n")[0]
        if not divides and (blanks := detect_blanks(whole)) is not None:
            self._blanks = encoding, blanks
            return Layout("csv")
        return Layout("csv", encoding, separator)


def detect_encoding(sample: bytes, whole: bool) -> str:
    """By byte order mark; else UTF-8 where the bytes allow it; else Windows-1252 for letters that are mostly Latin.

    What is left (Cyrillic, Greek, Chinese, …) is left to charset-normalizer, which needs more text than a few umlauts.
    """
    for mark, encoding in BOMS.items():
        if sample.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
    except UnicodeDecodeError:
        high = sum(byte >= 0x80 for byte in sample)
        if high < WESTERN * sum(chr(byte).isalpha() for byte in sample if byte < 0x80):
            return "cp1252"
        from charset_normalizer import from_bytes

        best = from_bytes(sample).best()
        return best.encoding if best is not None else "cp1252"
    return "utf-8"


def best_separator(text: str) -> tuple[bool, str]:
    """Whether a separator divides most rows into as many fields, more than one, the first row included; and which.

    A title above may have fewer of them. Where no separator does, there is one column, and the separator is one that
    its values do not hold.
    """
    lines = text.splitlines(keepends=True)
    text = "".join(lines[:-1] if len(lines) > 1 and len(text) >= SAMPLE // 4 else lines)
    best, chosen = (False, 0.0, 0), ","
    for separator in SEPARATORS:
        reader = csv.reader(StringIO(text, newline=""), delimiter=separator)
        try:
            rows = [row for row in islice(reader, 200) if any(cell.strip() for cell in row)]
        except csv.Error:
            continue
        if not rows:
            continue
        counts = [len(row) for row in rows]
        fields = max(set(counts), key=lambda count: (counts.count(count), count))
        fields = fields if _divides(rows, fields) else counts[0]
        share = counts.count(fields) / len(counts)
        score = (fields > 1 and share >= 0.5, share, fields)
        if score > best:
            best, chosen = score, separator
    return best[0], chosen


def _divides(rows: list[list[str]], fields: int) -> bool:
    """Whether most rows have this many fields, and a header too: the first row, or one below titles with fewer."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == fields]
    if len(first) == fields:
        return True
    if not any(cell.strip() for row in (first[fields:], *(row[len(first) :] for row in rest)) for cell in row):
        return True  # but for separators at the end of the first, or of all others
    k = next(i for i, row in enumerate(rows) if len(row) == fields)
    full = [any(row[j].strip() for row in rest) for j in range(fields)]
    names = all((cell.strip() or not some) and not is_number(cell) for cell, some in zip(rows[k], full, strict=True))
    return names and k <= TITLES and all(len(row) < fields for row in rows[:k])
