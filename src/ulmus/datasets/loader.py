"""Find a data set, read it, and say what it is."""

import difflib
import io
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.datasets import download
from ulmus.datasets.catalogue import CATALOGUE, Entry

Part = tuple[np.ndarray, np.ndarray]

EMBEDDED = files("ulmus.datasets") / "data"
FOLDER_VARIABLE = "ULMUS_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set and its facts.

    Attributes
    ----------
    name, task, description, licence, source, citation : str
    traps : tuple of str
        What a reader of published figures may stumble over.
    data : ndarray of shape (n_samples, n_features)
        Raw features.
    target : ndarray of shape (n_samples,)
        Integer labels, or floating targets for regression.
    feature_names : tuple of str
    splits : tuple of boolean ndarrays
        The official splits, True where a row is for training; empty when there is none.
    """

    name: str
    task: str
    description: str
    licence: str
    source: str
    citation: str
    traps: tuple[str, ...]
    data: np.ndarray
    target: np.ndarray
    feature_names: tuple[str, ...]
    splits: tuple[np.ndarray, ...] = ()

    @property
    def split(self) -> np.ndarray | None:
        """The (first) official split, or None."""
        return self.splits[0] if self.splits else None

    def part(self, which: str, split: int = 0) -> Part:
        """``(X, y)`` of the ``"train"`` or the ``"test"`` rows of one official split."""
        if not self.splits:
            raise ValueError(f"{self.name} has no official split; make one, e.g. with train_test_split")
        rows = {"train": self.splits[split], "test": ~self.splits[split]}[which]
        return self.data[rows], self.target[rows]

    @property
    def train(self) -> Part:
        """``(X, y)`` of the training rows."""
        return self.part("train")

    @property
    def test(self) -> Part:
        """``(X, y)`` of the test rows."""
        return self.part("test")

    def __repr__(self) -> str:
        n, m = self.data.shape
        return f"<{self.name}: {n} rows, {m} features, {self.task}, {len(self.splits)} official split(s)>"


def load(name: str, *, dtype: Any = np.float64, download_if_missing: bool = True) -> Dataset:
    """A data set by name.

    Looks among the sets that come with the package, then for ``NAME.parquet`` in the folder that the environment
    variable ``ULMUS_DATA`` names (with a column ``target``, and columns ``split...`` of "train" and "test" where
    official splits exist), then in the cache of fetched sets, and at last asks OpenML (whose copies carry no splits).

    Parameters
    ----------
    name : str
        One of :func:`ulmus.datasets.list`.
    dtype : dtype, default=float64
        Floating type of the features.
    download_if_missing : bool, default=True
        Whether OpenML may be asked. The cache is the folder that ``ULMUS_CACHE`` names, or ``~/.cache/ulmus``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from ulmus import datasets
    >>> satimage = datasets.load("satimage")
    >>> X, y = satimage.train
    >>> X.shape, satimage.test[0].shape
    ((4435, 36), (2000, 36))
    >>> satimage.traps
    ('labels are 1, 2, 3, 4, 5, 7: there is no class 6',)
    """
    if name in embedded_names():
        return read_embedded(name, dtype)
    folder = _folder()
    if folder is not None and name in _names_in(folder):
        return read_parquet(folder / f"{name}.parquet", dtype)
    if name in download.OPENML:
        content = download.cached(name)
        if content is None and download_if_missing:
            content = _fetched(name, folder)
        if content is not None:
            return _read_npz(name, io.BytesIO(content), dtype)
    raise ValueError(_not_found(name, folder))


def _fetched(name: str, folder: Path | None) -> bytes:
    try:
        return download.fetch(name)
    except OSError as error:  # URLError, timeouts and refused connections are OSErrors
        raise ValueError(f"{_not_found(name, folder)}. OpenML could not be reached: {error}") from error


def available() -> list[str]:
    """Names that :func:`load` can find now, without asking anybody.

    Examples
    --------
    >>> from ulmus import datasets
    >>> "satimage" in datasets.list()
    True
    """
    folder = _folder()
    fetched = {file.stem for file in download.cache_folder().glob("*.npz")} & set(download.OPENML)
    return sorted(embedded_names() | fetched | (_names_in(folder) if folder is not None else set()))


def embedded_names() -> set[str]:
    """Names of the sets that come with the package."""
    return {file.name.removesuffix(".npz") for file in EMBEDDED.iterdir() if file.name.endswith(".npz")}


def _folder() -> Path | None:
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else None


def _names_in(folder: Path) -> set[str]:
    return {file.stem for file in folder.glob("*.parquet")}


def _not_found(name: str, folder: Path | None) -> str:
    here = available()
    known = f" ({CATALOGUE[name].title})" if name in CATALOGUE else ""
    looked = f"{FOLDER_VARIABLE}={folder} holds no {name}.parquet" if folder else f"{FOLDER_VARIABLE} is not set"
    close = difflib.get_close_matches(name, [*here, *CATALOGUE], n=1)
    hint = f"Did you mean {close[0]!r}? " if close and close[0] != name else ""
    return (
        f"no data set {name!r}{known}: it does not come with the package and {looked}. {hint}"
        f"Point {FOLDER_VARIABLE} to a folder that holds {name}.parquet, or choose among: {', '.join(here)}"
    )


def _describe(name: str, target: np.ndarray) -> Entry:
    """The catalogue's entry, or what can be said of a file that it does not hold."""
    task = "regression" if np.issubdtype(target.dtype, np.floating) else "classification"
    unknown = "not known to the catalogue"
    return CATALOGUE.get(name) or Entry(name, task, f"{name}.parquet, {unknown}", unknown, unknown, unknown)


def _assemble(
    name: str, data: np.ndarray, target: np.ndarray, feature_names: tuple[str, ...], splits: tuple[np.ndarray, ...]
) -> Dataset:
    about = _describe(name, target)
    return Dataset(
        name,
        about.task,
        about.title,
        about.licence,
        about.source,
        about.citation,
        about.traps,
        data,
        target,
        feature_names,
        splits,
    )


def read_embedded(name: str, dtype: Any) -> Dataset:
    with (EMBEDDED / f"{name}.npz").open("rb") as file:
        return _read_npz(name, file, dtype)


def _read_npz(name: str, file: Any, dtype: Any) -> Dataset:
    with np.load(file, allow_pickle=False) as stored:
        target = stored["target"]
        if np.issubdtype(target.dtype, np.integer):
            target = target.astype(np.int64)
        data = np.ascontiguousarray(stored["data"], dtype=dtype)
        return _assemble(name, data, target, tuple(map(str, stored["feature_names"])), tuple(stored["splits"]))


def read_parquet(path: Path, dtype: Any) -> Dataset:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f'{path.name} is a Parquet file; reading it needs pip install "ulmus[stream]"') from error
    table = parquet.read_table(path)
    if "target" not in table.column_names:
        raise ValueError(f"{path.name} has no column named target; its columns are {table.column_names}")
    split_names = [c for c in table.column_names if c.startswith("split")]
    feature_names = tuple(c for c in table.column_names if c != "target" and c not in split_names)
    data = np.empty((table.num_rows, len(feature_names)), dtype)
    for j, column in enumerate(feature_names):
        data[:, j] = table[column].to_numpy()
    target = table["target"].to_numpy()
    if np.issubdtype(target.dtype, np.integer):
        target = target.astype(np.int64)
    splits = tuple(table[c].to_numpy() == "train" for c in split_names)
    return _assemble(path.stem, data, target, feature_names, splits)
