"""Files that are there as a whole or not at all: the one way in which this package writes them.

A file is written beside its place, under a name that no other thread or process has, brought to the disk, and moved to
its place in one step. Whoever reads sees the old file or the new one; whatever goes wrong on the way (a full disk, an
interrupt, an error of the caller) leaves the old file as it was and nothing beside it. A link stays a link: what it
points to is replaced. The mode of a file that is replaced is kept, and its owner where that is allowed.
"""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, BinaryIO

#: What the names of unfinished files end in.
UNFINISHED = ".partial"
#: Bytes of a file's name that its unfinished version repeats: a name has 255 at most.
NAME = 60

Place = str | os.PathLike[str]


class SameFileError(ValueError):
    """A file was to be written that is also read."""


@contextmanager
def replacing(path: Place) -> Iterator[BinaryIO]:
    """A binary file to write to; it takes its place when the block ends, and is gone if the block raises."""
    place = Path(os.path.realpath(path))
    old = _status(place)
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(f"{path} is a folder, not a file that can be written")
    if old is not None and not stat.S_ISREG(old.st_mode):  # a pipe or a device has no place beside it
        with open(place, "wb") as file:
            yield file
        return
    if old is not None and not os.access(place, os.W_OK):
        raise PermissionError(f"{path} is read-only and was not overwritten")
    draft, handle = _beside(place, old)
    try:
        try:
            # the caller may close the file; its number stays open, to be brought to the disk
            with _quietly_closed(BufferedWriter(FileIO(handle, "wb", closefd=False))) as file:
                yield file
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(draft, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync(place.parent)


@contextmanager
def _quietly_closed(file: BufferedWriter) -> Iterator[BufferedWriter]:
    """Close a file at the end; after an error, that error is the one that is raised."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.close()


def write_bytes(path: Place, content: Any) -> None:
    """The whole content of a file."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise failed(path, error) from error


def write_text(path: Place, text: str) -> None:
    """The whole content of a file, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def failed(path: Place, error: OSError) -> OSError:
    """The same kind of error, in words that say which file and what became of the one before it."""
    if error.errno is None:  # these words are ours
        return error
    kept = "; the file that was there is kept" if os.path.exists(path) else ""
    return type(error)(error.errno, f"{os.fspath(path)} cannot be written: {error.strerror or error}{kept}")


def refuse_inputs(output: Place | int, inputs: Iterable[Place | int], word: str) -> None:
    """Refuse an output that is one of the inputs, under whatever name: a link, another spelling, a redirection.

    Parameters
    ----------
    output : path, or number of an open file
    inputs : paths, or numbers of open files
    word : str
        What the output is called, in the message.
    """
    written = _status(output)
    if written is None or not stat.S_ISREG(written.st_mode):
        return
    for one in inputs:
        read = _status(one)
        if read is not None and os.path.samestat(written, read):
            raise SameFileError(
                f"{word} names {_called(output)}, which is also read ({_called(one)}) and would be lost; "
                "name another file"
            )


def _called(place: Place | int) -> str:
    return ("standard input", "standard output")[place] if isinstance(place, int) else os.fspath(place)


def refuse_same(outputs: dict[str, str]) -> None:
    """Refuse two outputs that are one file; keys are what they are called."""
    seen: dict[str, str] = {}
    for word, path in outputs.items():
        place = os.path.realpath(path)
        first = seen.setdefault(place, word)
        if first != word:
            raise SameFileError(f"{first} and {word} name the same file, {path}: one would be lost")


def _status(place: Place | int) -> os.stat_result | None:
    """What is there; None where nothing is."""
    try:
        return os.stat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if isinstance(place, int):
            return None
        raise


def _beside(place: Path, old: os.stat_result | None) -> tuple[str, int]:
    """An empty file in the folder of another, under a name of its own, and its number."""
    while True:
        start = os.fsencode(place.name)[:NAME].decode(errors="ignore")
        draft = str(place.with_name(f".{start}.{os.getpid()}.{secrets.token_hex(6)}{UNFINISHED}"))
        try:
            handle = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if old is None else 0o600
            )
        except FileExistsError:
            continue
        try:
            if old is not None:
                with suppress(PermissionError):  # the owner and the group of others may not be given
                    os.fchown(handle, old.st_uid, old.st_gid)
                os.fchmod(handle, stat.S_IMODE(old.st_mode))
        except BaseException:
            os.close(handle)
            with suppress(OSError):
                os.unlink(draft)
            raise
        return draft, handle


def _sync(folder: Path) -> None:
    """Make a move last, where folders can be brought to the disk."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
