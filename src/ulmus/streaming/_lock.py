"""One run to a folder: a lock that the operating system holds, and that goes when its process does, however it ends."""

import json
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any

from ulmus.streaming.errors import CheckpointError

NAME = "lock"
_held: "weakref.WeakSet[FolderLock]" = weakref.WeakSet()


class FolderLock:
    """Held from when it is made until :meth:`release`; another run learns who holds it.

    The lock is on the open file and not its existence, so that a process that was killed leaves nothing behind that
    would have to be cleared. A forked process does not hold it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._handle: int | None = None
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            if not _locked(handle):
                os.close(handle)
                raise CheckpointError(
                    f"checkpoint {folder} is in use by {_holder(self.path)}; wait for it, end it, or give another "
                    "folder"
                )
            if not _is_still(self.path, handle):  # whoever held it has just let go, and removed the file
                os.close(handle)
                continue
            self._handle = handle
            try:
                _sign(handle)
            except BaseException:
                self.release()  # nothing is left where nothing can be written
                raise
            _held.add(self)
            return

    def release(self) -> None:
        """Let another run have the folder."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self.path.unlink(missing_ok=True)
            os.close(handle)

    def forsake(self) -> None:
        """In a forked process: the lock is the parent's."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        self.release()


def _forsake_all() -> None:
    for lock in list(_held):
        lock.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forsake_all)


def _sign(handle: int) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(who).encode(), 0)


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """Who wrote into the lock; it may be empty for the moment between taking it and signing it."""
    try:
        who: Any = json.loads(path.read_text())
        here = " on this machine" if who["host"] == socket.gethostname() else f" on {who['host']}"
        return f"process {who['pid']}{here}, since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _locked(handle: int) -> bool:
    """Whether the lock could be taken, without waiting."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nothing is known of other runs, as without a lock
        return True
    return True
