"""``ulmus reproduce`` and ``ulmus bench``."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ulmus.bench import SUITES
from ulmus.cli.console import UsageError
from ulmus.datasets.loader import FOLDER_VARIABLE
from ulmus.reproduce import EXPERIMENTS, Experiment, Settings, run
from ulmus.reproduce.run import DOCUMENTS


def reproduce(documents: Sequence[str], *, quick: bool, data: str | None, out: str, jobs: int) -> None:
    """Run experiments of the documents."""
    if not documents:
        raise UsageError(f"name a document: {', '.join(EXPERIMENTS)}, or all")
    if jobs < 1:
        raise UsageError(f"--jobs is how many measurements run at a time, at least 1, got {jobs}")
    names = list(EXPERIMENTS) if "all" in documents else list(dict.fromkeys(documents))
    _run([EXPERIMENTS[name] for name in names], quick, data, out, jobs=jobs)


def bench(
    suite: str, contestants: list[str] | None, sets: list[str] | None, *, quick: bool, data: str | None, out: str
) -> None:
    """Run a suite of comparisons, or a part of it."""
    _run([SUITES[suite].of(contestants, sets).experiment()], quick, data, out, "Our models beside what you would pick")


def _run(
    experiments: list[Experiment], quick: bool, data: str | None, out: str, title: str = DOCUMENTS, jobs: int = 1
) -> None:
    if data is not None:
        if not Path(data).is_dir():
            raise UsageError(f"--data names {data}, which is not a folder")
        os.environ[FOLDER_VARIABLE] = data
    _folder(out)
    command = shlex.join(["ulmus", *sys.argv[1:]])
    page = run(experiments, Path(out), Settings(quick=quick), title=title, command=command, jobs=jobs)
    print(f"\n{page}")


def _folder(path: str) -> None:
    """Make the folder of the results, before any work is done."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out names {path}, which cannot be made a folder: {error.strerror}") from error
