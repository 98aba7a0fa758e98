"""The local stage cell by cell: a part of the coordinates at a time is cut into leaves, solved and put away.

A *cell* is a leaf of the top of a partition's tree, cut on a sample of the rows; its rows, all of them, are cut on as
those of a whole table would be. Cells know nothing of each other, so they may be solved one after the other, or on
several machines, and a cell that is solved again gives the same bits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.features.partition import Partition, grafted
from ulmus.features.sampling import merged
from ulmus.solvers.local import LeafProblem, LocalKernels

DIFFERENT = "the partitions of a local stage hold different rows: its cells are not those of one fit"


@dataclass(frozen=True)
class Cell:
    """The leaves of one cell: its rows in their order, by number and (where they are kept) by coordinates."""

    numbers: np.ndarray
    alpha: np.ndarray
    partition: Partition
    U: np.ndarray | None = None

    def dump(self) -> dict[str, np.ndarray]:
        """As arrays; the order of the rows is that of the leaves."""
        p = self.partition
        arrays = {"numbers": self.numbers, "alpha": self.alpha, "starts": p.starts}
        arrays |= {name: getattr(p, name) for name in ("feature", "threshold", "children", "directions")}
        return arrays if self.U is None else arrays | {"U": self.U}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> "Cell":
        """The cell that was dumped."""
        tree = {name: arrays[name] for name in ("feature", "threshold", "children", "directions", "starts")}
        partition = Partition(**tree, order=np.arange(len(arrays["numbers"])))
        return cls(arrays["numbers"], arrays["alpha"], partition, arrays.get("U"))


@dataclass(frozen=True)
class CellSolver:
    """How the rows of a cell become leaves; a ``tolerance`` is that of the log loss, without one it is squares.

    Answers are multiplied by ``scale``. Coordinates have the digits of float32 (:func:`ulmus.features.metric.through`)
    and are kept so: once, in the order of the first partition, or once for every partition: then the rows of every leaf
    lie together (``apart``), as a file that is mapped wants them.
    """

    kernel: str
    gamma: float
    ridge: float
    leaf_rows: int
    seed: int
    tolerance: float | None = None
    scale: Any = 1.0
    apart: bool = False

    def solve(self, rows: Rows, partition: int, cell: int, backend: Any) -> Cell:
        """The leaves of these rows, whose targets are followed by global predictions, and whose places number them.

        The ``backend`` cuts and solves.
        """
        rng = np.random.RandomState([self.seed, partition, cell])
        rows = merged(rows, rng)
        m = rows.T.shape[1] // 2
        T, P = np.ascontiguousarray(rows.T[:, :m]), np.ascontiguousarray(rows.T[:, m:])
        tree = backend.partition(rows.X, self.leaf_rows, rng)
        about = LeafProblem(self.kernel, self.gamma, self.ridge, rows.X, T - P, rows.weight, [tree])
        if self.tolerance is None:
            (alpha,) = backend.fit_leaves(about)
        else:
            (alpha,) = backend.fit_leaves(replace(about, T=T, offset=P), self.tolerance)
        assert rows.place is not None
        U = rows.X[tree.order].astype(np.float32) if partition == 0 or self.apart else None
        return Cell(rows.place[tree.order], self.scale * alpha, tree, U)

    def together(
        self,
        tops: Sequence[Partition],
        cells: Iterable[Iterable[Cell]],
        n_rows: int,
        allocate: Callable[[str, tuple[int, ...], Any], np.ndarray] = lambda _, shape, dtype: np.empty(shape, dtype),
    ) -> LocalKernels:
        """The local stage of all cells: those of every partition, in the order of its top's leaves.

        Arrays that grow with the rows are ``allocate``d by name, shape and type; a cell is held at a time.
        """
        partitions, alphas = list[Partition](), list[np.ndarray]()
        copies = len(tops) if self.apart else 1
        U: Any = None
        first: Any = None
        for number, (top, several) in enumerate(zip(tops, cells, strict=True)):
            order, trees, end = allocate(f"order-{number}", (n_rows,), np.intp), list[Partition](), 0
            alpha: Any = None
            for cell in several:
                place = slice(end, end + len(cell.numbers))
                end = place.stop
                if end > n_rows:
                    raise RuntimeError(DIFFERENT)
                if alpha is None:
                    alpha = allocate(f"alpha-{number}", (n_rows, cell.alpha.shape[1]), np.float64)
                order[place], alpha[place] = cell.numbers, cell.alpha
                if cell.U is not None:
                    U = allocate("U", (copies * n_rows, cell.U.shape[1]), np.float32) if U is None else U
                    U[number * n_rows + place.start : number * n_rows + place.stop] = cell.U
                trees.append(replace(cell.partition, order=np.empty(0, np.intp)))
            if end != n_rows:
                raise RuntimeError(DIFFERENT)
            if self.apart:
                order[:] = np.arange(number * n_rows, (number + 1) * n_rows)
            elif number == 0:
                first = _Places.of(order)
                order[:] = np.arange(n_rows)
            else:
                order[:] = first.of_numbers(order)
            partitions.append(replace(grafted(top, trees), order=order))
            alphas.append(alpha)
        ridge = self.ridge if self.tolerance is None else None
        return LocalKernels(self.kernel, self.gamma, U, tuple(partitions), tuple(alphas), ridge)


@dataclass(frozen=True)
class _Places:
    """Where rows of these numbers, in rising order, stand."""

    numbers: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> "_Places":
        places = np.argsort(numbers, kind="stable")
        return cls(np.asarray(numbers[places]), places)

    def of_numbers(self, wanted: np.ndarray) -> np.ndarray:
        rank = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        if (self.numbers[rank] != wanted).any():
            raise RuntimeError(DIFFERENT)
        return np.asarray(self.places[rank])
