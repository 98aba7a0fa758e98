"""Files under faults: the property of every writer, of the loader, and of paths that are shared.

- *writers*: whatever fails while a file is written (the k-th write, a sync, the move, a limit on its size, as on a full
  disk), the caller is told, the file that was there is kept to the last byte, and nothing is left beside it.
- *damaged* model files are refused by ``LoadError`` or load to the same model.
- *crafted* ones, changed and sealed again by somebody who knows the format, are refused or load to known types.
- *greedy* ones declare more than they hold. No load takes more memory than ``budget.allowance`` of its file, and none
  imports, opens or runs anything.
- *shared* paths: threads that write to one path leave one of the files they wrote, and a reader never sees half of one.
- two *processes*, forked or spawned, that save to, load from, predict into or checkpoint in one place do as well.
"""

import errno
import os
import random
import resource
import signal
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ulmus
from tests.fuzz._model_files import crafted, damaged, greedy, models
from tests.fuzz._two_processes import two_processes
from ulmus import _files, streaming


def check(seed: int) -> str:
    """One case."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rng.choice((writers, writers, damaged, crafted, crafted, greedy, shared, two_processes))(rng)


# writers


def _save(path: Path) -> None:
    ulmus.save(models()[0][0], path)


def _export(path: Path) -> None:
    ulmus.onnx.export(models()[2][0], path)


def _report(path: Path) -> None:
    from ulmus.report import document, report

    real = document.document
    document.document = lambda *_, **__: _page(real)  # the same page again and again, drawn once
    try:
        report(models()[2][0], models()[2][1], models()[2][1][:, 0], path)
    finally:
        document.document = real


@cache
def _page(document: Any) -> str:
    return str(document(models()[2][0], models()[2][1], models()[2][1][:, 0], title=None, seen=True, command=""))


def _predict(path: Path) -> None:
    streaming.predict(models()[2][0], (models()[2][1],), path, batch_rows=5)


def _table(path: Path) -> None:
    import pyarrow as pa

    from ulmus.tables.write import Writer

    with Writer(str(path)) as writer:
        for k in range(3):
            writer.write(pa.table({"x": np.arange(k, k + 50.0), "text": [f"row {i}" for i in range(50)]}))


def _journal(path: Path) -> None:
    from ulmus.streaming.journal import Journal, Saved

    with _only_checkpoints():
        journal = Journal(path.parent, {"source": {}})
        try:
            journal.save(path.stem, Saved(3, True, {"sums": np.ones(500)}, {}))
        finally:
            journal.close()  # as every run does, however it ends


def _cache(path: Path) -> None:
    from experiments.runner.cache import Cache

    Cache(path.parent, path.stem).put("cell", {"error": 1.0})


def _bytes(path: Path) -> None:
    _files.write_bytes(path, bytes(range(256)) * 1000)


#: Name of the file → what writes it. Every writer of the package is here.
WRITERS: dict[str, Callable[[Path], None]] = {
    "model.ulmus": _save,
    "model.onnx": _export,
    "report.html": _report,
    "rows.parquet": _predict,
    "table.csv": _table,
    "table.csv.gz": _table,
    "table.parquet": _table,
    "table.jsonl.bz2": _table,
    "pass.npz": _journal,
    "cell.json": _cache,
    "plain": _bytes,
}


@contextmanager
def _only_checkpoints() -> Any:
    """A checkpoint that cannot be written is an error of its own kind, caused by one of the system."""
    try:
        yield
    except streaming.CheckpointError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise error.__cause__ from None


class Fault:
    """A file system that fails at the k-th call that changes something; ``calls`` counts them."""

    def __init__(self, k: int | None, number: int) -> None:
        self.k, self.number, self.calls = k, number, 0

    def step(self) -> None:
        self.calls += 1
        if self.calls == self.k:
            raise OSError(self.number, os.strerror(self.number))

    @contextmanager
    def __call__(self) -> Any:
        fault, real = self, {name: getattr(os, name) for name in ("open", "fsync", "replace", "fchmod", "fchown")}

        class Failing(_files.FileIO):  # type: ignore[misc]
            def write(self, data: Any) -> int:
                fault.step()
                return int(super().write(data))

        def stepping(name: str) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                if not (name in ("open", "fsync") and _is_folder(arguments[0])):  # may fail in silence
                    fault.step()
                return real[name](*arguments, **named)

            return call

        proxy = type(sys)("os")
        proxy.__dict__.update(os.__dict__)
        proxy.__dict__.update({name: stepping(name) for name in real})
        before = _files.os, _files.FileIO
        _files.os, _files.FileIO = proxy, Failing  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            _files.os, _files.FileIO = before  # type: ignore[assignment,misc]


def _is_folder(place: Any) -> bool:
    return stat.S_ISDIR(os.stat(place).st_mode) if isinstance(place, int) else os.path.isdir(place)


@contextmanager
def _largest_file(limit: int) -> Any:
    """No file may grow past this: writes break off in the middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def writers(rng: random.Random) -> str:
    """Every k of one writer, and limits on the size."""
    name = rng.choice(list(WRITERS))
    number = rng.choice((errno.ENOSPC, errno.EIO, errno.EDQUOT))
    with tempfile.TemporaryDirectory() as folder:
        count = Fault(None, number)
        with count():
            WRITERS[name](Path(folder) / name)
        written = _content(Path(folder))
    size = max(map(len, written.values()))
    faults: list[tuple[str, Any]] = [
        (f"call {k} of {count.calls}", lambda k=k: Fault(k, number)) for k in range(1, count.calls + 1)
    ]
    limits = {0, 1, size // 2, size - 1, rng.randrange(size)}
    faults += [(f"a limit of {n} bytes of {size}", lambda n=n: _largest_file(n)) for n in sorted(limits)]
    for words, fault in faults:
        for old in ({}, dict.fromkeys(written, b"precious")):
            if name == "pass.npz" and old:  # a checkpoint that is not one is refused before it is written
                old["identity.json"] = written["identity.json"]
            _one_fault(name, words, fault, old, written)
    return f"writers {name}"


def _one_fault(name: str, words: str, fault: Any, old: dict[str, bytes], written: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file, content in old.items():
            (folder / file).write_bytes(content)
        failed, one = False, fault()
        try:
            with one() if isinstance(one, Fault) else one:
                WRITERS[name](folder / name)
        except OSError:
            failed = True
        found = _content(folder)
    if isinstance(one, Fault) and one.calls < (one.k or 0):  # less had to be written than the first time
        return
    assert failed, f"{name}: {words} failed and nobody was told"
    allowed = [{k: v for k, v in (written | old).items() if k in old or k == "identity.json"}, old]
    assert found in allowed, f"{name}: after {words} the folder holds {sorted(found)}, before it {sorted(old)}"


def _content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# paths that are shared


def shared(rng: random.Random) -> str:
    """Threads that write to one path, and one that reads it."""
    contents = [bytes([65 + k]) * rng.choice((0, 1, 5_000, 300_000)) for k in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(contents[0])
        done, strange = threading.Event(), []

        def write(content: bytes) -> None:
            for _ in range(6):
                _files.write_bytes(path, content)

        def read() -> None:
            while not done.is_set():
                found = path.read_bytes()
                if found not in contents:
                    strange.append(len(found))

        reader = threading.Thread(target=read)
        threads = [threading.Thread(target=write, args=(c,)) for c in contents]
        for thread in (reader, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        reader.join()
        assert not strange, f"a reader saw {strange[0]} bytes of files of {[len(c) for c in contents]}"
        assert os.listdir(folder) == ["file"], f"left beside it: {os.listdir(folder)}"
        assert path.read_bytes() in contents, "the last file is none that was written"
    return "shared"
