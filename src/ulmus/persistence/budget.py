"""How much memory a file may take when it is loaded: a multiple of its own size, whatever sizes it declares.

Raw arrays are views of the bytes that were read, so that they cost what they take in the file. What costs more is
charged before it is built: the description, lists of lists that take a byte each, texts of one width (a long one widens
all others), the arrays that a kernel derives from its rows, and dimensions beside one of length 0, which the file does
not pay for.
"""

import math
from typing import Any

import numpy as np

#: Bytes that loading takes at most for each byte of a file, and besides.
MULTIPLE, BASE = 64, 1 << 24
#: Bytes that a kernel derives from one number of its rows, at most: copies in float64 and float32, and work space.
PER_ENTRY = 48
#: Columns that the embedding of a row adds to it.
ADDED = 2
#: Bytes of a random generator.
GENERATOR = 4096
#: Bytes of the values in a JSON text: for each character, each list and each object, at most.
CHARACTER, LIST, OBJECT = 6, 100, 200
#: Bytes of a container that is made from JSON, and of each of its entries: a set, the largest, has a sparse table.
EMPTY, ENTRY = 220, {"list": 9, "tuple": 18, "set": 80, "frozenset": 80, "dict": 110}


class BudgetError(ValueError):
    """A file declares more than its size allows."""


class LoadBudget:
    """What is left of the memory that a file of this many bytes may take."""

    def __init__(self, n_bytes: int) -> None:
        self.allowed = allowance(n_bytes)
        self._left = self.allowed

    def check(self, n_bytes: int, what: str) -> None:
        """Refuse what would be too large by itself."""
        if n_bytes > self.allowed:
            self._refuse(what)

    def charge(self, n_bytes: int, what: str) -> None:
        """Take memory, or refuse."""
        self._left -= n_bytes
        if self._left < 0:
            self._refuse(what)

    def _refuse(self, what: str) -> None:
        raise BudgetError(
            f"{what} would take more memory than a file of this size may: {self.allowed:,} bytes, {MULTIPLE} for each "
            f"of its own and {BASE:,} besides"
        )


def allowance(n_bytes: int) -> int:
    """Bytes that loading a file of this many bytes may take."""
    return MULTIPLE * n_bytes + BASE


def json_cost(text: bytes | str) -> int:
    """Bytes of a JSON text and of the values in it."""
    lists, objects = (
        (text.count(b"["), text.count(b"{")) if isinstance(text, bytes) else (text.count("["), text.count("{"))
    )
    return CHARACTER * len(text) + LIST * lists + OBJECT * objects


def container_cost(kind: str, length: int) -> int:
    """Bytes of a container of this many entries."""
    return (64 if kind == "list" else EMPTY) + ENTRY[kind] * length


def extent(shape: tuple[int, ...], item: int) -> int:
    """Bytes of an array, a dimension of length 0 counted as 1: sums along it have the length of the others."""
    return item * math.prod(max(1, s) for s in shape)


def text_cost(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """Bytes of an array of texts or objects, and of the copy that fills it."""
    return 2 * extent(shape, dtype.itemsize)


def kernel_cost(Z: np.ndarray) -> int:
    """Bytes that the kernel of these rows derives from them."""
    return extent((Z.shape[0], Z.shape[1] + ADDED), PER_ENTRY)


def sparse_cost(parts: Any, shape: Any) -> int:
    """Bytes of a sparse matrix: copies of its parts, and sums over its rows."""
    return 3 * sum(np.asarray(p).nbytes for p in parts) + 8 * sum(shape)
