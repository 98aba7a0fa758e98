"""Checkpoints: a folder that holds what each pass over the rows has come to.

A run is a sequence of named passes, and what happens between passes depends on their results alone. So a run that
starts again finds the results of finished passes, goes on in the middle of the one that was interrupted, and ends
where it would have ended. Every file is written under another name, flushed to the disk and renamed: at any moment the
folder holds either the old file or the new one. Files are arrays and JSON, without pickle.
"""

import io
import json
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ulmus._files import replacing
from ulmus.streaming._lock import FolderLock
from ulmus.streaming.errors import CheckpointError

FORMAT = 6
_HEADER = "header"
#: Files of a folder that are not passes.
SEED, PREPROCESS = "seed", "preprocess"


@dataclass
class Saved:
    """State of a pass: how many rows are in it, whether it is finished, and its arrays and plain values."""

    rows: int = 0
    done: bool = False
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What differs between two plain values, by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in {**old, **new}:
            name = f"{path} {key}".strip()
            if key not in old:
                found.append(f"{name} is new")
            elif key not in new:
                found.append(f"{name} is gone")
            else:
                found += differences(old[key], new[key], name)
        return found
    return [] if old == new else [f"{path} was {_short(old)}, is now {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Journal:
    """The checkpoint folder of one run; without a folder it remembers nothing.

    Parameters
    ----------
    folder : path or None
    identity : dict
        Plain JSON that tells this run from others: model, source, columns. A folder of another run is refused.
    seconds, rows : float or None, int or None
        How often an unfinished pass is saved.
    first_rows : dict, optional
        Number of the first row of every file. A file that the first pass has not come to yet may change: a broken one
        can be repaired, and what was read before it is kept.

    The folder is locked until :meth:`close`: two runs would delete each other's files.
    """

    def __init__(
        self,
        folder: str | Path | None,
        identity: dict[str, Any],
        *,
        seconds: float | None = None,
        rows: int | None = None,
        first_rows: dict[str, int] | None = None,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.seconds, self.rows = seconds, rows
        self.last_time, self.last_rows = time.monotonic(), 0
        self.identity = json.loads(json.dumps({"format": FORMAT, **identity}))
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint={str(folder)!r} must be a folder that can be written: {error}"
            ) from error
        try:
            self._lock = FolderLock(self.folder)
        except OSError as error:
            raise CheckpointError(f"checkpoint {self.folder} cannot be locked: {error}") from error
        try:
            for left in self.folder.glob("*.partial"):
                left.unlink(missing_ok=True)
            self._check_identity(self.folder / "identity.json", first_rows or {})
        except BaseException:
            self.close()
            raise

    _lock: FolderLock | None = None

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            self._lock.release()

    def _check_identity(self, path: Path, first_rows: dict[str, int]) -> None:
        if not path.exists():
            if any(self.folder.glob("*.npz")):  # type: ignore[union-attr]
                raise CheckpointError(f"checkpoint {self.folder} holds passes but no identity.json; delete the folder")
            self._write(path, json.dumps(self.identity, indent=1).encode())
            return
        try:
            old = json.loads(path.read_text())
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged ({error}); delete the checkpoint folder") from error
        found = differences(old, self.identity)
        if found and self._only_unread(old, first_rows):
            self._write(path, json.dumps(self.identity, indent=1).encode())
        elif found:
            raise CheckpointError(
                f"checkpoint {self.folder} belongs to another run: {'; '.join(found[:5])}. "
                "Delete the folder to start over, or give another one"
            )

    def _only_unread(self, old: dict[str, Any], first_rows: dict[str, int]) -> bool:
        """Whether nothing differs but files that the first and only pass has not come to."""
        passes = [p.stem for p in self.folder.glob("*.npz") if p.stem not in (SEED, PREPROCESS)]  # type: ignore[union-attr]
        saved = self.load(passes[0]) if len(passes) == 1 else None
        if saved is None or saved.done:
            return False

        # a run reads files in their order: both must begin with the same ones, as many as hold the rows that were read
        now = self.identity.get("source", {}).get("order", [])
        count = sum(first_rows.get(name, 0) < saved.rows for name in now)

        def read(identity: dict[str, Any]) -> dict[str, Any]:
            source = identity.get("source", {})
            order = source.get("order", [])[:count]
            files = {k: v for k, v in source.get("files", {}).items() if k in order}
            return {**identity, "source": {**source, "files": files, "order": order}}

        return read(old) == read(self.identity)

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npz"

    def load(self, name: str, *, arrays: bool = True) -> Saved | None:
        """The state of a pass, if it was ever saved; without ``arrays``, only what is said of it."""
        if self.folder is None or not self._path(name).exists():
            return None
        path = self._path(name)
        try:
            with np.load(path, allow_pickle=False) as archive:
                found = {key: archive[key] for key in (archive.files if arrays else [_HEADER])}
            header = json.loads(found.pop(_HEADER).tobytes())
            return Saved(header["rows"], header["done"], found, header["notes"])
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{path} is damaged ({error}); delete this file to do that pass again") from error

    def due(self, rows: int) -> bool:
        """Whether an unfinished pass that has come to this row should be saved now."""
        if self.folder is None:
            return False
        late = self.seconds is not None and time.monotonic() - self.last_time >= self.seconds
        return late or (self.rows is not None and rows - self.last_rows >= self.rows)

    def started(self, rows: int) -> None:
        """A pass begins (or goes on) at this row."""
        self.last_time, self.last_rows = time.monotonic(), rows

    def save(self, name: str, state: Saved) -> None:
        """Write the state of a pass."""
        if self.folder is None:
            return
        header = json.dumps({"rows": state.rows, "done": state.done, "notes": state.notes}).encode()
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{_HEADER: np.frombuffer(header, np.uint8)}, **state.arrays)
        self._write(self._path(name), buffer.getbuffer())
        self.started(state.rows)

    def _write(self, path: Path, data: Any) -> None:
        try:
            with replacing(path) as file:
                file.write(data)
        except OSError as error:
            kept = "the checkpoint before it is kept" if path.exists() else "nothing was overwritten"
            raise CheckpointError(f"{path} cannot be written: {error}; {kept}") from error
