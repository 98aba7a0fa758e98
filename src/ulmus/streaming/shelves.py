"""Rows on disk by cell: written as they come, read cell by cell.

There is one file for every partition. Rows wait in memory until there are enough, are sorted by their cells and added
at its end; how many came to each cell is all that has to be known to find them again. A file that is longer than what
is known is cut off there, so that a run that was broken off goes on with the same bytes.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.streaming.errors import CheckpointError

#: Bytes of rows that wait for the disk, of all partitions together.
WAITING = 2**26


def record_type(n_coordinates: int, n_outputs: int) -> np.dtype[Any]:
    """A row on disk: number, weight, coordinates (which have the digits of float32), targets and predictions."""
    fields: list[Any] = [("number", "<i8"), ("weight", "<f8"), ("U", "<f4", (n_coordinates,))]
    return np.dtype([*fields, ("T", "<f8", (n_outputs,)), ("P", "<f8", (n_outputs,))])


def records(rows: Rows, P: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Rows with predictions and numbers, as they are written."""
    out = np.empty(len(rows), record_type(rows.X.shape[1], rows.T.shape[1]))
    out["number"], out["weight"] = numbers, 1.0 if rows.weight is None else rows.weight
    out["U"], out["T"], out["P"] = rows.X, rows.T, P
    return out


def rows_of(found: np.ndarray) -> Rows:
    """Rows that were written: targets are followed by predictions, places are numbers."""
    weight = None if (found["weight"] == 1.0).all() else found["weight"].copy()
    both = np.concatenate([found["T"], found["P"]], axis=1)
    return Rows(found["U"].astype(np.float64), both, weight, place=found["number"].copy())


def divided(rows: np.ndarray, cell: np.ndarray, n_cells: int) -> list[np.ndarray]:
    """The rows of every cell, in the order in which they came; each may be let go by itself."""
    ends = np.cumsum(np.bincount(cell, minlength=n_cells))
    return [part.copy() for part in np.split(rows[np.argsort(cell, kind="stable")], ends[:-1])]


def require(folder: Path, needed: float, there: float = 0.0) -> None:
    """Refuse to begin what the disk has no room for; so much of it is ``there`` already."""
    free = shutil.disk_usage(folder).free + there
    if needed > free:
        raise CheckpointError(
            f"the leaves need {needed / 1e9:.3g} GB of disk in {folder} while they are made, and {free / 1e9:.3g} GB "
            'are free; give checkpoint= on a larger disk, or take effort="fast", which has fewer partitions'
        )


class Shelves:
    """The rows of all partitions, each by its cells; an accumulator that a pass fills."""

    def __init__(self, folder: Path, kind: "np.dtype[Any]", n_cells: list[int]) -> None:
        self.folder, self.kind, self.n_cells = folder, kind, n_cells
        #: How many rows came to each cell, ``[addition, cell]``, of every partition.
        self.counts = [np.empty((0, n), np.int64) for n in n_cells]
        self._waiting: list[tuple[np.ndarray, tuple[np.ndarray, ...]]] = []
        self._cut_off = False

    def path(self, partition: int) -> Path:
        """The file of a partition."""
        return self.folder / f"rows-{partition}.bin"

    def _cut(self) -> None:
        """Leave nothing in the files but what is known to be in them."""
        for number, counts in enumerate(self.counts):
            known, path = int(counts.sum()) * self.kind.itemsize, self.path(number)
            with open(path, "ab") as file:
                if file.tell() < known:
                    raise CheckpointError(f"{path} is damaged: it ends early; delete the checkpoint folder")
                file.truncate(known)
        self._cut_off = True

    def add(self, part: tuple[np.ndarray, tuple[np.ndarray, ...]]) -> None:
        """Rows of a batch, and the cell of every one in each partition."""
        self._waiting.append(part)
        if len(self.n_cells) * sum(rows.nbytes for rows, _ in self._waiting) > WAITING:
            self._write()

    def _write(self) -> None:
        if not self._cut_off:
            self._cut()
        if not self._waiting:
            return
        rows = np.concatenate([found for found, _ in self._waiting])
        for number, n_cells in enumerate(self.n_cells):
            cell = np.concatenate([cells[number] for _, cells in self._waiting])
            path = self.path(number)
            try:
                with open(path, "ab") as file:
                    file.write(rows[np.argsort(cell, kind="stable")].tobytes())
            except OSError as error:
                raise CheckpointError(f"{path} cannot be written: {error}; what was written before is kept") from error
            self.counts[number] = np.vstack([self.counts[number], np.bincount(cell, minlength=n_cells)])
        self._waiting = []

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What is known of the files, which are on the disk by then."""
        self._write()
        for number in range(len(self.n_cells)):
            with open(self.path(number), "rb") as file:
                os.fsync(file.fileno())
        return {f"counts-{k}": counts for k, counts in enumerate(self.counts)}, {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        self.counts = [arrays[f"counts-{k}"] for k in range(len(self.n_cells))]
        self._cut()

    def cell(self, partition: int, cell: int) -> Rows:
        """The rows of a cell, in the order in which they came."""
        counts = self.counts[partition]
        starts = np.append(0, np.cumsum(counts.sum(axis=1)))[:-1] + counts[:, :cell].sum(axis=1)
        found = np.empty(int(counts[:, cell].sum()), self.kind)
        end = 0
        with open(self.path(partition), "rb") as file:
            for start, count in zip(starts, counts[:, cell], strict=True):
                file.seek(int(start) * self.kind.itemsize)
                found[end : end + count] = np.fromfile(file, self.kind, int(count))
                end += int(count)
        return rows_of(found)

    def clear(self) -> None:
        """Delete the files."""
        for number in range(len(self.n_cells)):
            self.path(number).unlink(missing_ok=True)
