"""``ulmus reproduce`` and ``ulmus bench``: experiments are run from a clone, in whose folder of that name they are."""

import os
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ulmus.cli.console import UsageError
from ulmus.datasets.loader import FOLDER_VARIABLE

if TYPE_CHECKING:
    from experiments.runner import Experiment

#: Options whose value is a folder.
FOLDERS = ("--data", "--out")
#: What tells our folder from another of this common name.
MARK = Path("experiments", "contestants", "__init__.py")


def find_experiments() -> None:
    """Make the clone's experiments importable, or say how to come by them."""
    here = (Path(__file__).parents[3], Path.cwd())
    root = next((folder for folder in here if (folder / MARK).exists()), None)
    if root is None:
        raise UsageError(
            "experiments and comparisons are not part of the installed package: clone the repository, run "
            'pip install --editable ".[bench,cli,report]" in the clone, and give the same command there'
        )
    if find_spec("matplotlib") is None:
        raise UsageError(
            'pages are drawn with matplotlib: run pip install --editable ".[bench,cli,report]" in the clone'
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


def reproduce(documents: Sequence[str], *, quick: bool, data: str | None, out: str, jobs: int) -> None:
    """Run experiments of the documents."""
    find_experiments()
    from experiments.reproduce import EXPERIMENTS
    from experiments.runner.run import DOCUMENTS

    if not documents:
        raise UsageError(f"name a document: {', '.join(EXPERIMENTS)}, or all")
    names = list(EXPERIMENTS) if "all" in documents else list(dict.fromkeys(documents))
    _run([EXPERIMENTS[name] for name in names], DOCUMENTS, quick, data, out, jobs)


def bench(
    suite: str,
    contestants: list[str] | None,
    sets: list[str] | None,
    protocol: dict[str, bool],
    *,
    quick: bool,
    data: str | None,
    out: str,
    jobs: int,
) -> None:
    """Run a suite of comparisons, or a part of it."""
    find_experiments()
    from experiments.suites import SUITES
    from experiments.suites.arena import Arena

    chosen = SUITES[suite]
    try:
        if isinstance(chosen, Arena):
            chosen = chosen.protocol(**protocol)
        elif any(protocol.values()):
            flags = " and ".join(f"--{name.replace('_', '-')}" for name, given in protocol.items() if given)
            raise UsageError(f"{flags} goes with --suite arena, got --suite {suite}")
        asked = chosen.of(contestants, sets)
    except ValueError as error:
        raise UsageError(str(error)) from error
    _run([asked.experiment()], "Our models beside what you would pick", quick, data, out, jobs)


def _run(experiments: list["Experiment"], title: str, quick: bool, data: str | None, out: str, jobs: int) -> None:
    from experiments.runner import Settings, run

    if jobs < 1:
        raise UsageError(f"--jobs is how many measurements run at a time, at least 1, got {jobs}")
    if data is not None:
        if not Path(data).is_dir():
            raise UsageError(f"--data names {data}, which is not a folder")
        os.environ[FOLDER_VARIABLE] = data
    _folder(out)
    command = shlex.join(["ulmus", *anywhere(sys.argv[1:])])
    page = run(experiments, Path(out), Settings(quick=quick), title=title, command=command, jobs=jobs)
    print(f"\n{page}")


def anywhere(words: Sequence[str]) -> list[str]:
    """The words of a command without folders of this machine, which mean nothing on a page that others read."""
    found = list(words)
    for k, word in enumerate(words):
        option, equals, _ = word.partition("=")
        if option in FOLDERS and equals:
            found[k] = f"{option}=FOLDER"
        elif option in FOLDERS and k + 1 < len(words):
            found[k + 1] = "FOLDER"
    return found


def _folder(path: str) -> None:
    """Make the folder of the results, before any work is done."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out names {path}, which cannot be made a folder: {error.strerror}") from error
