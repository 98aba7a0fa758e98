"""The local stage of a stream: rows to disk by cell, then cell by cell from disk to leaves."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ulmus._files import UNFINISHED
from ulmus.models.adaptive_steps import AdaptiveSteps
from ulmus.solvers.cells import Cell, CellSolver
from ulmus.solvers.local import LocalKernels
from ulmus.streaming.adaptive_passes import Recorded, Seen
from ulmus.streaming.journal import Journal, Saved
from ulmus.streaming.progress import Progress
from ulmus.streaming.shelves import Shelves, record_type, require
from ulmus.tuning.local import LocalChoice

#: Rows of a cell, at most; fewer where ``max_memory`` is small.
CELL_ROWS = 2**17
#: Share of ``max_memory`` that the rows of a cell may take; what is made of them takes some times as much.
CELL_SHARE = 1 / 16


@dataclass(frozen=True)
class LeavesOnDisk:
    """The local stage of a stream: rows go to disk by cell, cells are solved one after the other."""

    stream: Any
    journal: Journal
    #: Where the leaves stay, to be mapped; None for leaves in memory.
    folder: Path | None = None

    @property
    def mapped(self) -> bool:
        return self.folder is not None

    def __call__(
        self, steps: AdaptiveSteps, seen: Seen, choice: LocalChoice, rounds: int, backend: Any
    ) -> LocalKernels:
        sample = steps.sample
        kind = record_type(sample.X.shape[1], sample.T.shape[1])
        most = CELL_SHARE * steps.max_bytes / kind.itemsize
        tops = steps.tops(rounds, float(np.clip(most, 4 * steps.leaf_rows, CELL_ROWS)))
        solver = steps.solver(choice, apart=self.mapped)
        names = [[f"cell-{p}-{cell}" for cell in range(top.n_leaves)] for p, top in enumerate(tops)]
        with _scratch(self.journal, self.folder) as books:
            assert books.folder is not None
            saved = {name: books.load(name, arrays=False) for several in names for name in several}
            if not all(saved.values()):
                self._solve(steps, Recorded.of(steps, seen, tops), kind, solver, saved, books, backend)
            n_rows = sum(found.rows for name in names[0] if (found := books.load(name, arrays=False)))
            cells = (map(_cell, [books] * len(several), several) for several in names)
            if self.folder is None:
                return solver.together(tops, cells, n_rows)
            files = MappedArrays(self.folder)
            return files.mapped(solver.together(tops, cells, n_rows, files.allocate))

    def _solve(
        self,
        steps: AdaptiveSteps,
        recorded: "Recorded",
        kind: Any,
        solver: CellSolver,
        saved: dict[str, Saved | None],
        books: Journal,
        backend: Any,
    ) -> None:
        """Write the rows, and solve the cells that are not solved yet."""
        folder, counts, rounds = books.folder, steps.counts, len(recorded.tops)
        assert folder is not None
        rows, distinct = counts.n_rows * rounds * kind.itemsize, counts.n_distinct
        d, m, copies = steps.sample.X.shape[1], steps.sample.T.shape[1], rounds if self.mapped else 1
        needed = rows + (2 if self.mapped else 1) * 4 * distinct * (copies * d + 2 * rounds * (m + 1))
        there = sum(path.stat().st_size for name in ("rows-*.bin", "cell-*.npz") for path in folder.glob(name))
        require(folder, needed, there)
        shelves = Shelves(folder, kind, [top.n_leaves for top in recorded.tops])
        steps.say(f"leaves: {sum(shelves.n_cells)} cells, {needed / 1e9:.3g} GB of disk in {folder}")
        self.stream.reduce("rows", shelves, recorded)
        todo = [(p, cell) for p, count in enumerate(shelves.n_cells) for cell in range(count)]
        with Progress("leaves", len(todo), self.stream.progress, unit="cells") as progress:
            for p, cell in todo:
                if saved[f"cell-{p}-{cell}"] is None:
                    found = solver.solve(shelves.cell(p, cell), p, cell, backend)
                    books.save(f"cell-{p}-{cell}", Saved(len(found.numbers), True, found.dump(), {}))
                progress.advance(1)
        shelves.clear()


def _cell(books: Journal, name: str) -> Cell:
    saved = books.load(name)
    assert saved is not None
    return Cell.restored(saved.arrays)


class MappedArrays:
    """Arrays in files of a folder, written anew beside those of before, which take their place when all are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array to be written to."""
        path = self.folder / f"{name}.npy{UNFINISHED}"
        self._files[name] = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        return np.asarray(self._files[name])

    def mapped(self, local: LocalKernels) -> LocalKernels:
        """The stage, with its arrays mapped from the finished files."""
        for name, array in self._files.items():
            array.flush()
            os.replace(self.folder / f"{name}.npy{UNFINISHED}", self.folder / f"{name}.npy")
        self._files = {}
        orders = [replace(p, order=self._mapped(f"order-{k}")) for k, p in enumerate(local.partitions)]
        alphas = tuple(self._mapped(f"alpha-{k}") for k in range(len(local.alphas)))
        return replace(local, U=self._mapped("U"), partitions=tuple(orders), alphas=alphas)

    def _mapped(self, name: str) -> np.ndarray:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r")


@contextmanager
def _scratch(journal: Journal, beside: Path | None) -> Iterator[Journal]:
    """The checkpoint folder, or one that is deleted at the end: there, or among temporary files."""
    if journal.folder is not None:
        yield journal
        return
    with tempfile.TemporaryDirectory(prefix="ulmus-leaves-", dir=beside) as folder:
        books = Journal(folder, {})
        try:
            yield books
        finally:
            books.close()
