"""Rows on the way to the device: tensors as they are, arrays through two pinned buffers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ulmus import engine
from ulmus.devices.accelerator import Accelerator
from ulmus.engine import Rows

#: Bytes of features that the device holds at a time, and of rows in one transfer.
BLOCK_BYTES = 2**31
TRANSFER_BYTES = 2**27
#: Rows are kept on the device when they take up no more than this share of its free memory.
RESIDENT_SHARE = 0.4


class HostView:
    """A tensor of the GPU that NumPy code can read: what is indexed is copied, the rest stays where it is.

    Rows that came as an array are on both sides, and are read from there.
    """

    #: Checked by :func:`checked`, or by scikit-learn before it came here.
    is_checked = True

    def __init__(self, tensor: Any, array: np.ndarray | None = None) -> None:
        self.tensor, self.array = tensor, array
        self.shape = tuple(tensor.shape)
        self.ndim = tensor.ndim
        self.dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self.tensor[rows].cpu().numpy()) if self.array is None else self.array[rows]

    def rows_of_small_keys(
        self, count: int, odd: np.ndarray, offset: np.uint64, weight: np.ndarray | None
    ) -> np.ndarray:
        """Rows with the smallest keys (:mod:`ulmus.features.sampling`), among them ``count`` distinct ones."""
        torch = __import__("torch")
        device = self.tensor.device
        factors = torch.from_numpy(odd.view(np.int64)).to(device)
        seen = None if weight is None else torch.from_numpy(weight > 0).to(device)
        share = (2.0 * count + 1000.0) / len(self)
        while True:
            # keys are uniform over 64 bits; as signed numbers they begin at −2⁶³
            limit = min(int(share * 2.0**64), 2**64 - 1) - 2**63
            found, distinct = [], 0
            for piece in engine.pieces(len(self), 2**24):
                keys = _keys(torch, self.tensor[piece], factors, int(offset))
                near = keys <= limit if seen is None else (keys <= limit) & seen[piece]
                found.append(near.nonzero()[:, 0] + piece.start)
                distinct += len(keys[near].unique())
            if distinct >= count or share >= 1.0:
                return np.asarray(torch.cat(found).cpu().numpy())
            share *= 16

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.tensor.cpu().numpy() if self.array is None else self.array, dtype=dtype)


_MIX = 0xD6E8FEB86659FD93 - 2**64


def _shifted(h: Any) -> Any:
    """The upper half of a word in the place of the lower."""
    return (h >> 32) & 0xFFFFFFFF


def _keys(torch: Any, X: Any, factors: Any, offset: int) -> Any:
    """The keys of :func:`ulmus.features.sampling.row_keys`, with the sign bit turned so that they sort as signed."""
    h = (X.double() + 0.0).view(torch.int64)
    h = (h ^ _shifted(h)) * _MIX
    keys = (h * factors).sum(1) + offset
    for _ in range(2):
        keys = (keys ^ _shifted(keys)) * _MIX
    return (keys ^ _shifted(keys)) ^ (-(2**63))


def checked(X: HostView) -> HostView:
    """The checks that arrays get from scikit-learn, made on the device."""
    torch = __import__("torch")
    if X.ndim != 2:
        raise ValueError(f"X must be a table of rows, got a tensor of shape {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        X = HostView(X.tensor.to(torch.float64))
    if 0 in X.shape:
        raise ValueError(f"X has {X.shape[0]} rows and {X.shape[1]} features; at least one of each is needed")
    for piece in engine.pieces(len(X), max(1, 2**27 // X.shape[1])):
        if not bool(torch.isfinite(X.tensor[piece]).all()):
            raise ValueError("Input X contains NaN or infinity (found on the GPU); drop or impute those rows")
    return X


def block_rows(n_features: int) -> int:
    """Rows whose features fill a block: a power of two, so that products run at full rate."""
    return int(np.clip(2 ** int(np.log2(BLOCK_BYTES / (8 * max(1, n_features)))), 1024, 2**20))


def on_both_sides(accelerator: Accelerator, rows: Rows) -> Rows:
    """The rows with their inputs copied to the GPU, where they are dense and fit; as they are where not."""
    if not accelerator.is_gpu or not isinstance(rows.X, np.ndarray):
        return rows
    there = DeviceRows(accelerator, rows)
    return replace(rows, X=HostView(there._X, rows.X)) if there.resident else rows


class DeviceRows:
    """Inputs, targets and weights of rows, block by block on the device.

    What fits is copied once and stays; else every pass sends it again, one block under way while the last is worked on.
    """

    def __init__(self, accelerator: Accelerator, rows: Rows, *, keep: bool = True) -> None:
        self.accelerator, self.rows = accelerator, rows
        self.n, (_, self.s) = len(rows), rows.T.shape
        self.d = int(rows.X.shape[1])
        self.resident = keep and self._bytes() <= RESIDENT_SHARE * accelerator.free_bytes()
        self._X: Any = rows.X.tensor if isinstance(rows.X, HostView) else None
        self._T: Any = None
        self._w: Any = None
        if self.resident:
            self._upload()

    def __len__(self) -> int:
        return self.n

    @property
    def inputs(self) -> Any:
        """All inputs, where they are on the device; None where they are sent block by block."""
        return self._X

    def _bytes(self) -> int:
        size = 0 if isinstance(self.rows.X, HostView) else np.dtype(self.rows.X.dtype).itemsize * self.d
        return self.n * (size + 8 * self.s + 8)

    def _upload(self) -> None:
        torch, device = self.accelerator.torch, self.accelerator.device
        if self._X is None:
            X = torch.empty((self.n, self.d), dtype=getattr(torch, self.rows.X.dtype.name), device=device)
            for piece, block in self._sent(max(1024, TRANSFER_BYTES // (8 * self.d))):
                X[piece] = block
            self._X = X
        self._T = self.accelerator.tensor(self.rows.T)
        self._w = None if self.rows.weight is None else self.accelerator.tensor(self.rows.weight)

    def blocks(self, size: int) -> Iterator[tuple[slice, Any, Any, Any]]:
        """Where a block stands, its inputs, targets and weights (None where there are none)."""
        if self._X is not None:
            for piece in engine.pieces(self.n, size):
                yield piece, self._X[piece], *self._targets(piece)
            return
        for piece, X in self._sent(size):
            yield piece, X, *self._targets(piece)

    def _targets(self, piece: slice) -> tuple[Any, Any]:
        if self._T is not None:
            return self._T[piece], None if self._w is None else self._w[piece]
        weight = self.rows.weight
        return (
            self.accelerator.tensor(self.rows.T[piece]),
            None if weight is None else self.accelerator.tensor(weight[piece]),
        )

    def _sent(self, size: int) -> Iterator[tuple[slice, Any]]:
        """Blocks of inputs, the next one under way while the last is worked on."""
        lanes, pieces = Lanes(self.accelerator), list(engine.pieces(self.n, size))
        coming = lanes.send(self.rows.X[pieces[0]]) if pieces else None
        for k, piece in enumerate(pieces):
            assert coming is not None
            block = coming.take()
            if k + 1 < len(pieces):
                coming = lanes.send(self.rows.X[pieces[k + 1]])
            yield piece, block


@dataclass(frozen=True)
class Coming:
    """A block on its way to the device."""

    block: Any
    arrived: Any = None

    def take(self) -> Any:
        """The block, for what is done on the device from here on."""
        if self.arrived is not None:
            here = __import__("torch").cuda.current_stream()
            here.wait_event(self.arrived)
            self.block.record_stream(here)
        return self.block


class Lanes:
    """Two pinned buffers: while one block is copied to the GPU from the first, the next is put into the second.

    ``send`` waits for nothing but its own buffer; on CPU tensors nothing is copied.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator, self._turn = accelerator, 0
        self._stream = accelerator.torch.cuda.Stream() if accelerator.is_gpu else None
        self._pinned: list[Any] = [None, None]
        self._arrived: list[Any] = [None, None]

    def send(self, X: Any) -> Coming:
        """Rows, dense or sparse, as a block that will be on the device."""
        torch = self.accelerator.torch
        block = torch.from_numpy(np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X))
        if self._stream is None:
            return Coming(block)
        self._turn, lane = 1 - self._turn, self._turn
        if self._arrived[lane] is not None:
            self._arrived[lane].synchronize()  # the buffer is free again
        buffer = self._pinned[lane]
        if buffer is None or buffer.dtype != block.dtype or len(buffer) < block.numel():
            buffer = self._pinned[lane] = torch.empty(block.numel(), dtype=block.dtype, pin_memory=True)
        staged = buffer[: block.numel()].view(block.shape)
        staged.copy_(block)
        with torch.cuda.stream(self._stream):
            there = staged.to(self.accelerator.device, non_blocking=True)
            arrived = self._arrived[lane] = torch.cuda.Event()
            arrived.record(self._stream)
        return Coming(there, arrived)
