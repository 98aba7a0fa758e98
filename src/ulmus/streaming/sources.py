"""One door for everything that rows can come from."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.streaming.arrays import ArrayBatches, Arrays
from ulmus.streaming.arrow_files import ArrowFiles, FileColumns, find_files, open_files
from ulmus.streaming.batches import RowSource
from ulmus.streaming.errors import SourceError

Names = str | int | list[str] | list[int] | tuple[Any, ...] | None


def _tuple(names: Any) -> tuple[Any, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str | int | np.integer) else tuple(names)


def open_source(
    source: Any,
    *,
    target: Names = None,
    features: Names = None,
    weight: str | int | None = None,
    keep: Names = None,
    raw: bool = False,
    labelled: bool = True,
) -> RowSource:
    """The rows behind a path, folder, glob, list of paths, dataset, array, tuple of arrays or re-iterable.

    ``raw`` leaves the features of files as frames, for a transformer. ``labelled`` says that targets are wanted.
    """
    chosen = None if features is None else _tuple(features)
    if isinstance(source, str | Path):
        source = find_files(source)
    if isinstance(source, list) and source and all(isinstance(p, str | Path) for p in source):
        paths = [file for path in source for file in find_files(path)]
        return open_files(paths, _columns(target, chosen, weight, keep, labelled), raw=raw)
    if _is_dataset(source):
        return ArrowFiles(source, _columns(target, chosen, weight, keep, labelled), raw=raw)
    if isinstance(source, np.ndarray):
        return _one_array(source, target, chosen, weight, labelled)
    named = {"target": target, "features": features, "weight": weight, "keep": keep}
    given = [name for name, value in named.items() if value not in (None, (), [])]
    if given:
        raise SourceError(
            f"{given[0]}= names a column of files or of one array; batches and tuples of arrays are (X, y) or "
            "(X, y, weight) already"
        )
    if isinstance(source, tuple):
        if not 1 <= len(source) <= 3 or (labelled and len(source) < 2):
            raise SourceError(f"a tuple of arrays must be (X, y) or (X, y, weight), got {len(source)} of them")
        X, y, w = (*source, None, None)[:3]
        return Arrays(X, y if labelled else None, w)
    return _batches(source, labelled)


def _columns(target: Any, features: Any, weight: Any, keep: Any, labelled: bool) -> FileColumns:
    if labelled and target is None:
        raise SourceError("target= must name the column (or columns) to learn")
    return FileColumns(_tuple(target), features, weight, _tuple(keep))


def _is_dataset(source: Any) -> bool:
    """Whether this is a pyarrow dataset, without importing pyarrow."""
    return any(kind.__module__ == "pyarrow._dataset" for kind in type(source).__mro__)


def _one_array(array: np.ndarray, target: Any, features: Any, weight: Any, labelled: bool) -> Arrays:
    """Columns of one array, by number; a mapped file stays mapped."""
    if array.ndim != 2:
        raise SourceError(f"an array as source must have two dimensions, got shape {array.shape}")
    if not labelled and target is None and features is None:
        return Arrays(array)
    if labelled and target is None:
        raise SourceError("target= must give the number of the column (or columns) to learn; or pass (X, y)")
    targets = _tuple(target)
    left = [j for j in range(array.shape[1]) if j not in {*(t % array.shape[1] for t in targets), weight}]
    picked = list(left if features is None else features)
    y = _Picked(array, targets[0] if len(targets) == 1 else list(targets)) if labelled else None
    return Arrays(_Picked(array, picked), y, None if weight is None else _Picked(array, weight))


class _Picked:
    """Some columns of an array, copied only where rows are taken."""

    def __init__(self, array: np.ndarray, columns: Any) -> None:
        self.array, self.column_numbers = array, columns
        self.dtype = array.dtype
        self.shape = array[:0, columns].shape
        self.shape = (array.shape[0], *self.shape[1:])
        filename = getattr(array, "filename", None)
        if filename is not None:
            self.filename = filename

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Any:
        return self.array[rows][:, self.column_numbers]


def _batches(source: Any, labelled: bool) -> ArrayBatches:
    if callable(source):

        def begin() -> Iterator[Any]:
            return iter(source())

    elif isinstance(source, Iterable):
        if iter(source) is source:
            raise SourceError(
                f"a {type(source).__name__} can be read only once, and a fit reads twice; pass a function that "
                "returns a new one, or an object whose __iter__ does"
            )

        def begin() -> Iterator[Any]:
            return iter(source)

    else:
        raise SourceError(
            f"a source is a path, a folder, a glob, a pyarrow dataset, an array, a tuple of arrays, or an iterable of "
            f"(X, y) that can be read several times; got {type(source).__name__}"
        )
    return ArrayBatches(begin, labelled=labelled)
