"""Leaves of a partition in batches of nearly equal size, and factors of many small matrices at once.

Leaves are padded to the largest of their batch by rows so far from all others that their kernel values vanish: the
matrix of such a leaf is its own, beside ones on the diagonal, and no mask is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.features.partition import Partition

#: Bytes of the kernel matrices of a batch.
BATCH_BYTES = 2**33
#: How large leaves of a batch are, in units of the largest; and how many need not be.
ALIKE, FEW = 0.9, 32
#: Share of the free memory that they may take: a factor and right-hand sides lie beside them.
SHARE = 0.1
#: Distance from all rows, and from each other, of rows that pad a leaf, in units of the kernel's width.
FAR = 1e6
#: Rows of a factor that are solved for at a time.
PANEL = 256


@dataclass(frozen=True)
class LeafBatch:
    """Some leaves: places ``[leaf, row]`` in the order of the partition, and which of them are no padding."""

    place: Any
    inside: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Leaves, and rows of the largest."""
        return tuple(self.place.shape)


def leaf_batches(
    accelerator: Accelerator,
    partition: Partition,
    leaves: np.ndarray,
    beside: np.ndarray | None = None,
    alike: float = ALIKE,
) -> Iterator[tuple[np.ndarray, LeafBatch]]:
    """Numbers of some leaves of similar size, and their rows; ``beside`` are rows that each is multiplied with.

    All are at least ``alike`` times as large as the largest, where they are more than a few.
    """
    torch, starts = accelerator.torch, partition.starts
    sizes = np.diff(starts)[leaves]
    rows = sizes if beside is None else beside
    bytes_ = min(BATCH_BYTES, SHARE * accelerator.free_bytes())
    order = np.lexsort((-sizes, -rows))
    first = 0
    while first < len(order):
        stop = first + 1
        high, wide = int(rows[order[first]]), int(sizes[order[first]])
        while stop < len(order):
            wide = max(wide, int(sizes[order[stop]]))
            if beside is None and sizes[order[stop]] < alike * high and stop - first >= FEW:
                break
            if 8.0 * (stop + 1 - first) * max(high, 1) * wide > bytes_:
                break
            stop += 1
        some = leaves[order[first:stop]]
        most = int(np.diff(starts)[some].max())
        ahead = torch.arange(most, device=accelerator.device)
        begin = accelerator.tensor(starts[some], torch.int64)[:, None]
        size = accelerator.tensor(np.diff(starts)[some], torch.int64)[:, None]
        inside = ahead < size
        yield order[first:stop], LeafBatch(torch.where(inside, begin + ahead, begin), inside)
        first = stop


def padded(sets: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of several sets as rows of one matrix, and which of them are no padding."""
    sizes = np.array([len(each) for each in sets])
    inside = np.arange(sizes.max()) < sizes[:, None]
    out = np.repeat(np.array([each[0] for each in sets])[:, None], inside.shape[1], axis=1)
    out[inside] = np.concatenate(sets)
    return out, inside


def scaled_columns(torch: Any, rows: Any, inside: Any, scale: float) -> Any:
    """Rows ``[batch, row, column]`` scaled, as ``[batch, column, row]``; padding is far from everything."""
    X = (rows * scale).transpose(1, 2).contiguous()
    if not bool(inside.all()):
        away = FAR * torch.arange(1, inside.shape[1] + 1, dtype=X.dtype, device=X.device)
        X[:, 0] = torch.where(inside, X[:, 0], X[:, 0].abs().amax() + away)
    return X


class Factors:
    """Solves with lower triangular factors ``[batch, n, n]``, panel by panel: each entry is read once in a sweep."""

    def __init__(self, torch: Any, L: Any) -> None:
        self.torch, self.L, n = torch, L, L.shape[1]
        self.panels = [slice(start, min(start + PANEL, n)) for start in range(0, n, PANEL)]
        self.inverses = []
        for p in self.panels:
            eye = torch.eye(p.stop - p.start, dtype=L.dtype, device=L.device).expand(len(L), -1, -1)
            self.inverses.append(torch.linalg.solve_triangular(L[:, p, p], eye, upper=False))

    def solve(self, B: Any) -> Any:
        """``(LLᵀ)⁻¹B`` of right-hand sides ``[batch, n, side]``."""
        X = B.clone()
        for p, inverse in zip(self.panels, self.inverses, strict=True):
            rest = X[:, p] - self.L[:, p, : p.start] @ X[:, : p.start] if p.start else X[:, p]
            X[:, p] = inverse @ rest
        for p, inverse in zip(reversed(self.panels), reversed(self.inverses), strict=True):
            below = slice(p.stop, None)
            rest = X[:, p] - self.L[:, below, p].transpose(1, 2) @ X[:, below] if p.stop < X.shape[1] else X[:, p]
            X[:, p] = inverse.transpose(1, 2) @ rest
        return X
