"""Sources that Arrow reads: Parquet, CSV and Arrow files, alone, in folders, by glob, or as a ``pyarrow.dataset``.

Every file is looked at before the first row is read: columns and types must be those of the first file.
"""

import glob
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.streaming._extras import need
from ulmus.streaming.batches import Batch
from ulmus.streaming.errors import SourceError

#: Bytes at three places of a file that go into its identity.
STAMP = 2**16
#: File name endings and Arrow's names of their formats.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".feather": "feather",
}


@dataclass(frozen=True)
class Columns:
    """Which columns are what; ``None`` for features means all the others."""

    target: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    weight: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        named = (*(self.features or ()), *self.target, *self.keep)
        return list(dict.fromkeys((*named, self.weight) if self.weight else named))


@dataclass(frozen=True)
class ArrowChunk:
    """A record batch of one file; columns that the folder names carry are constant."""

    data: Any
    constants: dict[str, Any]
    where: str

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def cut(self, start: int, stop: int) -> "ArrowChunk":
        """Some of these rows."""
        return replace(self, data=self.data.slice(start, stop - start))

    def column(self, name: str) -> Any:
        if name in self.constants:
            return need("pyarrow", "stream").repeat(self.constants[name], len(self))
        return self.data.column(name)


@dataclass(frozen=True)
class File:
    """One file of a source: its fragment, its size, when it was changed, its rows (unknown for CSV)."""

    fragment: Any
    path: str
    size: int | None
    changed: int | None
    n_rows: int | None
    group_rows: tuple[int, ...]
    constants: dict[str, Any]


class ArrowFiles:
    """Files with the same columns, read one after the other."""

    def __init__(self, dataset: Any, columns: Columns, *, raw: bool = False) -> None:
        self.raw = raw
        fragments = list(dataset.get_fragments())
        if not fragments:
            raise SourceError("the source holds no files")
        self.files = [_file(fragment, number) for number, fragment in enumerate(fragments)]
        first = self._schema(self.files[0])
        names = [*first, *self.files[0].constants]
        chosen = columns.features
        if chosen is None:
            chosen = tuple(n for n in names if n not in (*columns.target, *columns.keep, columns.weight))
        self.columns = replace(columns, features=chosen)
        self.feature_names: list[str] | None = list(chosen)
        if not chosen:
            raise SourceError(f"{self.files[0].path}: no feature columns; it has {names}")
        for file in self.files:
            self._check(file, first)
        counts = [file.n_rows for file in self.files]
        self.n_rows = None if any(c is None for c in counts) else sum(c for c in counts if c is not None)
        self.dtype = self._numeric_type(first)

    @property
    def first_rows(self) -> dict[str, int]:
        """The number of the first row of every file, as far as the files before it tell theirs."""
        found: dict[str, int] = {}
        row = 0
        for file in self.files:
            found.setdefault(file.path, row)  # one that is given twice is read at the first
            if file.n_rows is None:
                break
            row += file.n_rows
        return found

    @staticmethod
    def _schema(file: File) -> dict[str, Any]:
        pa = need("pyarrow", "stream")
        try:
            return {field.name: field.type for field in file.fragment.physical_schema}
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{file.path} cannot be read: {error}") from error

    def _check(self, file: File, first: dict[str, Any]) -> None:
        """Columns and types of a file are those of the first."""
        schema = self._schema(file)
        for name in self.columns.needed:
            if name in file.constants:
                continue
            if name not in schema:
                raise SourceError(f"{file.path} has no column {name!r}; it has {[*schema, *file.constants]}")
            if schema[name] != first.get(name):
                raise SourceError(
                    f"{file.path}: column {name!r} is {schema[name]}, in {self.files[0].path} it is {first.get(name)}; "
                    "write the files with one schema"
                )

    def _numeric_type(self, schema: dict[str, Any]) -> Any:
        """float32 when every feature is; else float64. Other columns than numbers need a transformer."""
        types = need("pyarrow", "stream").types
        narrow = True
        for name in self.columns.features or ():
            kind = schema.get(name)
            number = kind is not None and (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
            if not (number or self.raw):
                raise SourceError(
                    f"{self.files[0].path}: column {name!r} is {kind if kind is not None else 'a folder name'}, not a "
                    "number; leave it out by features=[...], or pass preprocess=, a transformer that encodes it"
                )
            narrow = narrow and number and types.is_float32(kind)
        return np.dtype(np.float32 if narrow else np.float64)

    def identity(self, thorough: bool = False) -> dict[str, Any]:
        """Columns; the files in their order; of every file its size, its last change, and a check sum of some bytes."""
        files = [_file(f.fragment, k, count=False) for k, f in enumerate(self.files)]
        return {
            "features": list(self.columns.features or ()),
            "target": list(self.columns.target),
            "weight": self.columns.weight,
            "files": {f.path: [f.size, f.changed, *([_stamp(f)] if thorough else [])] for f in files},
            "order": [f.path for f in files],
        }

    def chunks(self, start: int) -> Iterator[ArrowChunk]:
        """Rows of one file after the other; files and row groups before ``start`` are not read."""
        skip = start
        for file in self.files:
            groups = list(range(len(file.group_rows)))
            while groups and skip >= file.group_rows[groups[0]]:
                skip -= file.group_rows[groups.pop(0)]
            if file.group_rows and not groups:
                continue
            columns = [n for n in self.columns.needed if n not in file.constants]
            try:
                for data in _record_batches(file, columns, groups):
                    passed = min(skip, data.num_rows)
                    skip -= passed
                    yield ArrowChunk(data.slice(passed), file.constants, file.path)
            except (need("pyarrow", "stream").ArrowException, OSError) as error:
                raise SourceError(f"{file.path} cannot be read: {error}") from error

    def assemble(self, chunks: list[ArrowChunk], start: int) -> Batch:
        """One batch: features as rows of an array, or as a frame for the transformer."""
        columns = self.columns
        paths = dict.fromkeys(chunk.where for chunk in chunks)
        where = " and ".join(paths)
        X = self.frame(chunks, list(columns.features or ())) if self.raw else self._matrix(chunks)
        y = None
        if columns.target:
            y = np.column_stack([_labels(chunks, name) for name in columns.target])
            y = y[:, 0] if len(columns.target) == 1 else y
        weight = None
        if columns.weight is not None:
            weight = np.concatenate([_numbers(c.column(columns.weight)) for c in chunks]).astype(np.float64)
        pa = need("pyarrow", "stream")
        kept = {name: pa.chunked_array([chunk.column(name) for chunk in chunks]) for name in columns.keep}
        return Batch(X, y, weight, start, where, kept)

    def _matrix(self, chunks: list[ArrowChunk]) -> np.ndarray:
        names = self.columns.features or ()
        X = np.empty((sum(map(len, chunks)), len(names)), self.dtype)
        row = 0
        for chunk in chunks:
            for j, name in enumerate(names):
                X[row : row + len(chunk), j] = _numbers(chunk.column(name))
            row += len(chunk)
        return X

    @staticmethod
    def frame(chunks: list[ArrowChunk], names: list[str]) -> Any:
        """Columns as a pandas frame."""
        pa = need("pyarrow", "stream")
        need("pandas", "stream")
        columns = {name: pa.chunked_array([chunk.column(name) for chunk in chunks]) for name in names}
        return pa.table(columns).to_pandas()


def _numbers(column: Any) -> np.ndarray:
    """Values of a column; missing ones become NaN."""
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype == object else values


def _labels(chunks: list[ArrowChunk], name: str) -> np.ndarray:
    """Targets or class labels of a column; strings as strings."""
    pa = need("pyarrow", "stream")
    parts = []
    for chunk in chunks:
        column = chunk.column(name)
        if column.null_count:
            raise SourceError(f"{chunk.where}: {column.null_count} targets in column {name!r} are missing")
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        values = column.to_numpy(zero_copy_only=False)
        parts.append(values.astype(str) if values.dtype == object and pa.types.is_string(column.type) else values)
    return np.concatenate(parts)


def _record_batches(file: File, columns: list[str], groups: list[int]) -> Iterator[Any]:
    """Record batches of a file. Parquet is decoded batch by batch, not a row group at a time as a scanner does."""
    if not file.group_rows:
        yield from file.fragment.to_batches(columns=columns, batch_size=2**14, batch_readahead=2, fragment_readahead=1)
        return
    parquet = need("pyarrow.parquet", "stream")
    with file.fragment.filesystem.open_input_file(file.fragment.path) as handle:
        reader = parquet.ParquetFile(handle, pre_buffer=False)
        yield from reader.iter_batches(batch_size=2**14, row_groups=groups, columns=columns)


def _file(fragment: Any, number: int, *, count: bool = True) -> File:
    """What there is to know of a fragment without reading its rows."""
    pa = need("pyarrow", "stream")
    dataset = need("pyarrow.dataset", "stream")
    path = getattr(fragment, "path", None)
    if path is None:
        return File(fragment, f"fragment {number}", None, None, fragment.count_rows() if count else None, (), {})
    try:
        info = fragment.filesystem.get_file_info(path)
        if info.size is None:
            raise SourceError(f"{path} is gone")
        groups: tuple[int, ...] = ()
        n_rows = None
        if count and isinstance(fragment, dataset.ParquetFileFragment):
            groups = tuple(g.num_rows for g in fragment.row_groups)
            n_rows = sum(groups)
        elif count and not isinstance(fragment.format, dataset.CsvFileFormat):
            n_rows = fragment.count_rows()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from error
    constants = dataset.get_partition_keys(fragment.partition_expression)
    return File(fragment, path, info.size, info.mtime_ns, n_rows, groups, constants)


def _stamp(file: File) -> int:
    """Check sum of the first, middle and last bytes: where formats keep their schema, values, and what they count.

    Of rows in memory, which have no file, of all.
    """
    crc = 0
    if file.size is None:
        for batch in file.fragment.to_batches():
            crc = zlib.crc32(batch.serialize(), crc)
        return crc
    try:
        with file.fragment.filesystem.open_input_file(file.fragment.path) as handle:
            for start in sorted({0, max(0, (file.size - STAMP) // 2), max(0, file.size - STAMP)}):
                handle.seek(start)
                crc = zlib.crc32(handle.read(STAMP), crc)
    except (need("pyarrow", "stream").ArrowException, OSError) as error:
        raise SourceError(f"{file.path} cannot be read: {error}") from error
    return crc


def find_files(where: str | Path) -> list[str]:
    """Files of a path, a folder (with its subfolders) or a glob, in order of their names."""
    path = Path(where)
    if path.is_dir():
        hidden = ("_", ".")
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix.lower() in FORMATS)
        found = [str(p) for p in inside if not any(part.startswith(hidden) for part in p.relative_to(path).parts)]
        if not found:
            raise SourceError(f"folder {where} holds no files that end in {', '.join(FORMATS)}")
        return found
    if path.exists():
        return [str(path)]
    found = sorted(glob.glob(str(where), recursive=True))
    if not found:
        raise SourceError(f"no file, folder or glob {str(where)!r}")
    return found


def open_files(paths: list[str], columns: Columns, *, raw: bool) -> ArrowFiles:
    """Files of one format as a source."""
    pa = need("pyarrow", "stream")
    dataset = need("pyarrow.dataset", "stream")
    known = FORMATS.get(Path(paths[0]).suffix.lower())
    formats = {FORMATS.get(Path(p).suffix.lower()) for p in paths}
    if len(formats) > 1 or None in formats:
        odd = next((p for p in paths if FORMATS.get(Path(p).suffix.lower()) != known), paths[0])
        raise SourceError(f"files must all be of one format, and end in one of {', '.join(FORMATS)}; got {odd}")
    form: Any = formats.pop()
    if form == "csv" and not raw:
        form = _numeric_csv(paths[0], columns)
    try:
        return ArrowFiles(dataset.dataset(paths, format=form, partitioning="hive"), columns, raw=raw)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{_first_unreadable(paths, form)} cannot be read: {error}") from error


def _numeric_csv(path: str, columns: Columns) -> Any:
    """CSV whose features are read as float64: a column that begins with integers may go on with fractions."""
    pa = need("pyarrow", "stream")
    dataset, csv = need("pyarrow.dataset", "stream"), need("pyarrow.csv", "stream")
    names = columns.features
    if names is None:
        header = dataset.dataset(path, format="csv").schema
        named = {*columns.target, *columns.keep, columns.weight}
        numbers = (pa.types.is_integer, pa.types.is_floating)
        names = tuple(f.name for f in header if f.name not in named and any(is_number(f.type) for is_number in numbers))
    types = dict.fromkeys((*names, columns.weight) if columns.weight else names, pa.float64())
    return dataset.CsvFileFormat(convert_options=csv.ConvertOptions(column_types=types))


def _first_unreadable(paths: list[str], form: Any) -> str:
    """The file that Arrow cannot open, for the message."""
    pa = need("pyarrow", "stream")
    dataset = need("pyarrow.dataset", "stream")
    for path in paths:
        try:
            dataset.dataset(path, format=form)
        except (pa.ArrowException, OSError):
            return path
    return paths[0]
