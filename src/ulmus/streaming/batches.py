"""Rows of a source as batches of one fixed length, whatever its files are, read ahead in a thread.

Sums are the same to the last bit only when the same rows are multiplied together and added in the same order. So
batches are counted from the first row of the source, across the borders of files, and a run that starts in the middle
starts at the border of a batch.
"""

import queue
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")

#: Rows in a batch by default: the engine's slab.
BATCH_ROWS = 16_384
#: Batches that are read before they are asked for.
AHEAD = 4


@dataclass(frozen=True)
class Batch:
    """Rows as arrays (``X`` may be a frame when it is still to be preprocessed), and where they came from.

    ``kept`` holds columns that are copied to the output; ``part`` is the number of a partition whose rows are counted
    apart.
    """

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    start: int
    where: str
    kept: dict[str, Any] = field(default_factory=dict)
    part: int = 0

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def stop(self) -> int:
        return self.start + len(self)

    @property
    def numbers(self) -> np.ndarray:
        """A number for every row, rising in the order of the source."""
        return np.arange(self.start, self.stop) + (self.part << 40)


class Chunk(Protocol):
    """Consecutive rows as they lie in a source."""

    @property
    def where(self) -> str:
        """The file or batch that holds them."""

    def __len__(self) -> int: ...

    def cut(self, start: int, stop: int) -> "Chunk":
        """Some of these rows, not copied."""


class RowSource(Protocol):
    """Rows that can be read again and again, always in the same order."""

    n_rows: int | None
    feature_names: list[str] | None

    def identity(self, thorough: bool = False) -> dict[str, Any]:
        """What tells this source from another one, or from itself after a change; plain JSON.

        A ``thorough`` one looks at content, and is asked for when checkpoints are compared.
        """

    def chunks(self, start: int) -> Iterator[Chunk]:
        """All rows from number ``start`` on."""

    def assemble(self, chunks: list[Any], start: int) -> Batch:
        """One batch out of a few chunks."""


def batches(source: RowSource, batch_rows: int, start: int = 0) -> Iterator[Batch]:
    """Batches of exactly ``batch_rows`` rows (the last one may be shorter), from row ``start`` on."""
    held: list[Chunk] = []
    count = 0
    for chunk in source.chunks(start):
        while len(chunk):
            take = min(len(chunk), batch_rows - count)
            held.append(chunk.cut(0, take))
            count += take
            chunk = chunk.cut(take, len(chunk))  # noqa: PLW2901 - what is left of it
            if count == batch_rows:
                yield source.assemble(held, start)
                start, held, count = start + count, [], 0
    if held:
        yield source.assemble(held, start)


class _Wanted:
    """Lives as long as somebody wants items."""


def read_ahead(items: Iterable[Item], depth: int = AHEAD) -> Generator[Item, None, None]:
    """The same items, made in a thread while the last ones are being used.

    An error of the thread is raised where its item would have come. The thread ends with the iterator, also where an
    interrupt comes between any two of its steps: it looks whether the iterator still lives.
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stop, wanted = threading.Event(), _Wanted()
    thread = threading.Thread(
        target=_read, args=(items, ready, stop, weakref.ref(wanted)), name="ulmus-read-ahead", daemon=True
    )
    try:
        thread.start()
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        if thread.is_alive():
            thread.join()
        del wanted


def _read(
    items: Iterable[Any], ready: "queue.Queue[tuple[str, Any]]", stop: threading.Event, wanted: Callable[[], Any]
) -> None:
    def put(kind: str, value: Any = None) -> bool:
        while not stop.is_set() and wanted() is not None:
            try:
                ready.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    try:
        for item in items:
            if not put("item", item):
                return
        put("end")
    except BaseException as error:
        put("error", error)
