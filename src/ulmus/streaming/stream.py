"""A source with all that a pass over it needs: batches, threads, checkpoints and progress."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import sparse

from ulmus import engine
from ulmus.streaming.arrays import checksum
from ulmus.streaming.batches import Batch, RowSource, batches, read_ahead
from ulmus.streaming.errors import CheckpointError, SourceError
from ulmus.streaming.journal import Journal, Saved
from ulmus.streaming.progress import Progress, Show


class Accumulator(Protocol):
    """What a pass adds up, and how it is saved."""

    def add(self, part: Any) -> None:
        """Add the result of a batch; batches come in order."""

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays, and plain values."""

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        """Go back to a dumped state."""


AnyAccumulator = TypeVar("AnyAccumulator", bound=Accumulator)


@dataclass
class Stream:
    """Passes over a source.

    ``prepare`` turns the features of a batch into numbers; ``journal`` remembers what passes have come to.
    """

    source: RowSource
    batch_rows: int
    journal: Journal
    prepare: Callable[[Any], Any] | None = None
    n_jobs: int | None = -1
    progress: Show = None
    n_rows: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.n_rows = self.source.n_rows
        self._identity = self.source.identity()
        #: Check sum of all rows of a source that has no files to know it by, and whether they were read in this run.
        self._whole: int | None = None
        self._compared = getattr(self.source, "seekable", True)

    def reduce(self, name: str, accumulator: AnyAccumulator, work: Callable[[Batch], Any]) -> AnyAccumulator:
        """One pass: ``work`` on every batch, in threads; results added in order; saved now and then.

        A pass that is finished in the journal is not done again; one that was interrupted goes on where it was saved.
        """
        saved = self.journal.load(name) or Saved()
        if saved.arrays or saved.notes:
            accumulator.restore(saved.arrays, saved.notes["tally"])
        if saved.done:
            self.n_rows = saved.rows
            self._whole = saved.notes.get("crc") if self._whole is None else self._whole
            return accumulator
        if self.source.identity() != self._identity:
            raise SourceError("a file of the source has changed since the fit began; start again")
        crc = saved.notes.get("crc", 0)

        def save(rows: int, done: bool) -> None:
            arrays, notes = accumulator.dump()
            self.journal.save(name, Saved(rows, done, arrays, {"tally": notes, "crc": crc}))

        rows, whole = saved.rows, True
        self.journal.started(rows)
        items = read_ahead(self._read(rows, crc))
        parts = engine.ordered_map(lambda item: (*item, work(item[0])), items, self.n_jobs)
        with Progress(name, self.n_rows, self.progress, rows) as progress, closing(items), closing(parts):
            try:
                for batch, batch_crc, part in parts:
                    whole = False
                    accumulator.add(part)
                    rows, crc, whole = batch.stop, batch_crc, True
                    progress.advance(len(batch))
                    if self.journal.due(rows):
                        save(rows, False)
            except CheckpointError:
                raise
            except BaseException:
                if whole:  # not in the middle of an addition
                    save(rows, False)
                raise
        self._check_whole(crc)
        save(rows, True)
        self.n_rows = rows
        return accumulator

    def confirm(self) -> None:
        """Look whether the rows are those of the checkpoint, where every pass was in it and none was read."""
        if self._compared or self._whole is None:
            return
        crc = 0
        with (
            Progress("comparing", self.n_rows, self.progress) as progress,
            closing(read_ahead(batches(self.source, self.batch_rows))) as read,
        ):
            for batch in read:
                crc = checksum(crc, batch.X, batch.y, batch.weight)
                progress.advance(len(batch))
        self._check_whole(crc)

    def _check_whole(self, crc: int) -> None:
        """All rows of a pass are those of the passes before it, for a source that is known by its rows alone."""
        if getattr(self.source, "seekable", True):
            return
        if self._whole is not None and crc != self._whole:
            said = "delete the checkpoint folder to start over" if self.journal.folder else "start again"
            raise (SourceError if self.journal.folder is None else CheckpointError)(
                "the source yielded other rows than in the previous pass; it must yield the same rows in the same "
                f"order every time. Make it repeatable, and {said}"
            )
        self._whole, self._compared = crc, True

    def _read(self, start: int, crc: int) -> Iterator[tuple[Batch, int]]:
        if getattr(self.source, "seekable", True):
            for batch in batches(self.source, self.batch_rows, start):
                yield self._prepared(batch), 0
            return
        # rows without a file are known by what they are
        running = 0
        for batch in batches(self.source, self.batch_rows):
            running = checksum(running, batch.X, batch.y, batch.weight)
            if batch.stop == start and running != crc:
                raise CheckpointError(
                    f"the first {start} rows of the source are not those that the checkpoint has summed; "
                    "delete the checkpoint folder to start over"
                )
            if batch.stop > start:
                yield self._prepared(batch), running

    def _prepared(self, batch: Batch) -> Batch:
        X = batch.X if self.prepare is None else self.prepare(batch.X)
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if X.dtype not in (np.float32, np.float64):
            try:
                X = X.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise SourceError(
                    f"{batch.where}: features are {X.dtype}, not numbers ({error}); pass preprocess=, a transformer "
                    "that encodes them"
                ) from error
        return replace(batch, X=X)


def check_finite(batch: Batch, names: list[str] | None, *, missing: bool = False) -> None:
    """Refuse missing (unless they are allowed) and infinite values, with the file, the row and the column."""
    values = batch.X.data if sparse.issparse(batch.X) else batch.X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.isinf if missing else lambda a: ~np.isfinite(a)
    if not bad(values).any():
        return
    row, column = np.argwhere(bad(batch.X.toarray() if sparse.issparse(batch.X) else batch.X))[0]
    name = column if names is None or column >= len(names) else repr(names[column])
    what = "an infinite value" if missing else "a missing (NaN) or infinite value"
    raise SourceError(
        f"{batch.where}: row {batch.start + row} of the source has {what} in column {name}; "
        "drop such rows, or pass preprocess=, a transformer that fills them in"
    )
