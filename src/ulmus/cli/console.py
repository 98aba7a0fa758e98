"""How the commands speak: tables to standard output, all else to standard error; exit codes for scripts."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ulmus._files import SameFileError, refuse_inputs, refuse_same
from ulmus.exceptions import DataWarning, LeftOutWarning, NumericalWarning

#: Done; something unexpected; wrong use of a command; a table or a model file that cannot be used.
OK, FAILED, USAGE, BAD_TABLE, BAD_MODEL = 0, 1, 2, 3, 4


class UsageError(ValueError):
    """Options that do not go together, or not with this model."""


console = Console(stderr=True, highlight=False)
results = Console(highlight=False)


def say(text: str, style: str = "") -> None:
    """One line to the user, as it stands: brackets are not markup."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    say(f"warning: {text}", "yellow")


def show(title: str, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] = ()) -> None:
    """A small table, to standard output."""
    results.print(title, style="bold", markup=False, soft_wrap=True)
    table = Table(*header, show_header=bool(header), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(cell).replace("[", r"\[") for cell in row))
    results.print(table)


@contextmanager
def working(text: str) -> Iterator[Progress]:
    """A spinner with the elapsed time, on a terminal."""
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # else it leaves an empty line
    )
    with progress:
        progress.add_task(text, total=None)
        yield progress


def check_outputs(outputs: dict[str, str | None], inputs: Sequence[str | None]) -> None:
    """Refuse, before any work is done, files that could not be written in the end, or that are also read.

    Parameters
    ----------
    outputs : dict
        Path, ``"-"`` or None by the name of its option.
    inputs : sequence
        Paths, ``"-"`` or None.
    """
    wanted = {option: path for option, path in outputs.items() if path is not None}
    for path in wanted.values():
        _writable(path)
    refuse_same({option: path for option, path in wanted.items() if path != "-"})
    for option, path in wanted.items():
        read = [0 if one == "-" else one for one in inputs if one is not None]
        refuse_inputs(1 if path == "-" else path, read, option)


def _writable(path: str) -> None:
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)):
        return
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {folder}; create it first")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder; name a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: the folder {folder} is not writable; name a file in another one")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise UsageError(f"{path} is read-only; name another file")


def guarded(run: Callable[[], Any]) -> int:
    """Run a command; problems become one line and an exit code. ``ULMUS_DEBUG=1`` shows where they came from."""
    import warnings

    from ulmus.persistence import LoadError
    from ulmus.tables import TableError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", NumericalWarning)
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("ignore", LeftOutWarning)  # the table of columns tells
        shown: set[str] = set()
        warnings.showwarning = lambda message, *_, **__: _once(str(message), shown)
        try:
            run()
        except (UsageError, SameFileError) as error:
            return _failed(error, USAGE)
        except TableError as error:
            return _failed(error, BAD_TABLE)
        except LoadError as error:
            return _failed(error, BAD_MODEL)
        except (OSError, ImportError, ValueError, TypeError, MemoryError) as error:
            return _failed(error, FAILED)
        except KeyboardInterrupt:
            say("stopped", "red")
            return 130
    return OK


def _once(text: str, shown: set[str]) -> None:
    if text not in shown:
        shown.add(text)
        warn(text)


def _failed(error: BaseException, code: int) -> int:
    if os.environ.get("ULMUS_DEBUG"):
        console.print_exception()
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return OK
    own = isinstance(error, OSError) and error.filename is None and error.strerror
    say(f"error: {own or str(error) or type(error).__name__}", "bold red")
    return code
