"""Sources that are arrays already: memory-mapped or not, and anything that yields batches of them again and again."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.streaming.batches import Batch
from ulmus.streaming.errors import SourceError

#: Rows that are copied out of an array at a time.
_PIECE = 2**14
#: Rows of an array that go into its identity, unless all do.
_PROBES = 1_000


@dataclass(frozen=True)
class ArrayChunk:
    """Rows of arrays or frames."""

    X: Any
    y: Any
    weight: Any
    where: str

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def cut(self, start: int, stop: int) -> "ArrayChunk":
        """Some of these rows."""
        X, y, weight = (None if a is None else taken(a, slice(start, stop)) for a in (self.X, self.y, self.weight))
        return replace(self, X=X, y=y, weight=weight)


def taken(rows: Any, which: slice | np.ndarray) -> Any:
    """Some rows of an array or frame, by their place."""
    return rows.iloc[which] if hasattr(rows, "iloc") else rows[which]


def joined(parts: list[Any]) -> Any:
    """Rows below each other: arrays, frames or CSR."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    if hasattr(parts[0], "iloc"):
        import pandas

        return pandas.concat(parts)
    if type(parts[0]).__module__.partition(".")[0] == "polars":
        import polars

        return polars.concat(parts)
    return np.concatenate([np.asarray(p) for p in parts])


def assemble_arrays(chunks: list[ArrayChunk], start: int) -> Batch:
    """One batch of array chunks."""
    y, weight = (
        None if chunks[0].y is None else joined([np.asarray(c.y) for c in chunks]),
        None if chunks[0].weight is None else joined([np.asarray(c.weight, dtype=np.float64) for c in chunks]),
    )
    where = chunks[0].where if len(chunks) == 1 else f"{chunks[0].where} to {chunks[-1].where}"
    X = joined([c.X for c in chunks])
    # a copy, so that pages of a mapped file are read here, ahead of their use
    return Batch(np.array(X) if isinstance(X, np.ndarray) else X, y, weight, start, where)


class Arrays:
    """Arrays ``X``, ``y`` and weights, in memory or mapped from files."""

    def __init__(self, X: Any, y: Any = None, weight: Any = None) -> None:
        X, y, weight = (a if a is None or hasattr(a, "shape") else np.asarray(a) for a in (X, y, weight))
        if len(X.shape) != 2:
            raise SourceError(f"X must have two dimensions, got shape {X.shape}")
        self.X, self.y, self.weight = X, y, weight
        self.n_rows: int | None = int(X.shape[0])
        names = getattr(X, "columns", None)
        self.feature_names = None if names is None else [str(n) for n in names]
        for name, array in (("y", y), ("weight", weight)):
            if array is not None and len(array) != self.n_rows:
                raise SourceError(f"{name} has {len(array)} rows, X has {self.n_rows}")

    def identity(self, thorough: bool = False) -> dict[str, Any]:
        """Shapes, types and a check sum of some rows, or of all; of mapped files, size and time of the last change."""
        return {
            name: _array_identity(array, thorough)
            for name, array in (("X", self.X), ("y", self.y), ("weight", self.weight))
            if array is not None
        }

    def chunks(self, start: int) -> Iterator[ArrayChunk]:
        """Slices of the arrays."""
        assert self.n_rows is not None
        whole = ArrayChunk(self.X, self.y, self.weight, "rows of the arrays")
        for a in range(start, self.n_rows, _PIECE):
            b = min(a + _PIECE, self.n_rows)
            yield replace(whole.cut(a, b), where=f"rows {a} to {b - 1} of the arrays")

    def assemble(self, chunks: list[ArrayChunk], start: int) -> Batch:
        """One batch."""
        return assemble_arrays(chunks, start)


def _array_identity(array: Any, thorough: bool) -> dict[str, Any]:
    n = int(array.shape[0])
    found: dict[str, Any] = {"shape": [int(k) for k in array.shape], "dtype": str(getattr(array, "dtype", "frame"))}
    filename = getattr(array, "filename", None)
    if thorough and filename is None:
        found["crc"] = 0
        for a in range(0, n, _PIECE):
            found["crc"] = checksum(found["crc"], taken(array, slice(a, a + _PIECE)))
    else:
        found["crc"] = checksum(0, taken(array, slice(None, None, max(1, n // _PROBES))))
    if filename is not None:
        stat = Path(filename).stat()
        found["file"] = [str(filename), stat.st_size, stat.st_mtime_ns]
    return found


def checksum(crc: int, *arrays: Any) -> int:
    """A running check sum of arrays, by their bytes."""
    for array in arrays:
        if array is None:
            continue
        if sparse.issparse(array):
            crc = checksum(crc, array.data, array.indices, array.indptr)
            continue
        values = np.ascontiguousarray(array)
        data = repr(values.tolist()).encode() if values.dtype == object else values.view(np.uint8).data
        crc = zlib.crc32(data, crc)
    return crc


class ArrayBatches:
    """Anything that yields ``(X, y)`` or ``(X, y, weight)``, or ``X`` alone, each time it is asked to begin.

    Rows that a resumed run passes over are compared, by check sum, with those that the interrupted run had read.
    """

    seekable = False
    n_rows: int | None = None

    def __init__(self, begin: Callable[[], Iterator[Any]], *, labelled: bool = True) -> None:
        self.begin, self.labelled = begin, labelled
        first = next(iter(begin()), None)
        parts: tuple[Any, Any, Any] = (None, None, None) if first is None else self._parts(first, 0)
        names = getattr(parts[0], "columns", None)
        self.feature_names = None if names is None else [str(n) for n in names]
        self._first = {"shape": None if first is None else list(parts[0].shape), "crc": checksum(0, *parts)}

    def identity(self, thorough: bool = False) -> dict[str, Any]:
        """The first batch: nothing is known of rows that have not been read."""
        return {"batches": True, "first": self._first}

    def _parts(self, item: Any, number: int) -> tuple[Any, Any, Any]:
        parts = item if isinstance(item, tuple) else (item,)
        wanted = (2, 3) if self.labelled else (1, 2, 3)
        if len(parts) not in wanted:
            raise SourceError(
                f"batch {number} of the source must be (X, y) or (X, y, weight), got {type(item).__name__} "
                f"of length {len(parts)}"
            )
        X, y, weight = (*parts, None, None)[:3]
        if sparse.issparse(X):
            X = X.tocsr()
        elif not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) != 2:
            raise SourceError(f"X of batch {number} of the source must have two dimensions, got shape {X.shape}")
        y = None if y is None or not self.labelled else np.asarray(y)
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        for name, array in (("y", y), ("weight", weight)):
            if array is not None and len(array) != X.shape[0]:
                raise SourceError(f"batch {number} of the source has {X.shape[0]} rows of X and {len(array)} of {name}")
        return X, y, weight

    def chunks(self, start: int) -> Iterator[ArrayChunk]:
        """Every batch, less the first ``start`` rows."""
        passed, width = 0, None
        for number, item in enumerate(self.begin()):
            X, y, weight = self._parts(item, number)
            width = X.shape[1] if width is None else width
            if X.shape[1] != width:
                raise SourceError(f"batch {number} of the source has {X.shape[1]} columns, those before it {width}")
            chunk = ArrayChunk(X, y, weight, f"batch {number} of the source")
            skip = min(len(chunk), start - passed)
            passed += skip
            if skip < len(chunk):
                yield chunk.cut(skip, len(chunk))

    def assemble(self, chunks: list[ArrayChunk], start: int) -> Batch:
        return assemble_arrays(chunks, start)
