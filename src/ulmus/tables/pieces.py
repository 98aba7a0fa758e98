"""Files are read piece by piece: what a piece is, and how much text is read at a time, and at most."""

import csv
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.tables.errors import TableError

#: Bytes of text in one batch.
BATCH = 1 << 24
#: Bytes of the longest row that is read, and of the largest batch. A file of a megabyte can unpack to one row of a
#: gigabyte, and a quote that is left open makes one row of all that follows.
LONGEST = 1 << 27
csv.field_size_limit(LONGEST)


@dataclass(frozen=True)
class Piece:
    """Some rows of one file: a table of Arrow's, the number of each row there, and warnings about them."""

    table: Any
    numbers: np.ndarray
    notes: tuple[str, ...] = ()


def too_long(file: str, where: str) -> TableError:
    """A row that does not end where rows end at the latest."""
    return TableError(
        f"{where} there is a row of more than {LONGEST >> 20} MiB, which is too long; is there an unclosed quote, "
        "or is this not a table?",
        file=file,
    )


def is_number(text: str) -> bool:
    """Whether a text reads like a number, with a decimal point or comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
