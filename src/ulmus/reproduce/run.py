"""Run experiments: cells through the cache, then tables, figures, a JSON file and one page."""

import datetime
import json
import platform
import sys
import warnings
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import TextIO

from ulmus.reproduce.cache import Cache, plain
from ulmus.reproduce.page import page
from ulmus.reproduce.protocol import Answer, Cell, Experiment, Results, Settings, Unavailable

PACKAGES = ("ulmus", "numpy", "scipy", "scikit-learn", "lightgbm", "mord", "skordinal", "river")


def run(
    experiments: Iterable[Experiment],
    out: Path,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    command: str = "",
    stream: TextIO | None = None,
) -> Path:
    """Run experiments and write ``results.json`` and ``index.html`` into ``out``; answers are kept in ``out/cells``.

    Parameters
    ----------
    experiments : list of Experiment
    out : Path
    settings : Settings
    command : str
        Shown on the page, so that a reader can run it again.
    stream : file, optional
        Where progress is written (standard error).

    Returns
    -------
    Path
        The page.
    """
    stream = sys.stderr if stream is None else stream
    out.mkdir(parents=True, exist_ok=True)
    signature = f"ulmus {_installed('ulmus')} quick={settings.quick} seed={settings.seed}"
    cache = Cache(out / "cells", signature)
    shown = []
    for experiment in experiments:
        cells = list(experiment.cells(settings))
        results = Results(_answers(experiment.name, cells, cache, stream))
        tables = experiment.tables(results, settings)
        for table in tables:
            print(f"\n{table}", flush=True)
        shown.append((experiment, results, tables, experiment.figures(results, settings)))
    facts = {
        "date": datetime.date.today().isoformat(),
        "command": command,
        "quick": settings.quick,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {name: _installed(name) for name in PACKAGES},
    }
    record = {
        **facts,
        "experiments": {
            e.name: {
                "tables": [{"title": t.title, "header": t.header, "rows": t.rows, "notes": t.notes} for t in tables],
                "cells": results.answers,
            }
            for e, results, tables, _ in shown
        },
    }
    (out / "results.json").write_text(json.dumps(plain(record), indent=1))
    file = out / "index.html"
    file.write_text(page([(e, tables, figures) for e, _, tables, figures in shown], facts))
    return file


def _answers(name: str, cells: list[Cell], cache: Cache, stream: TextIO) -> dict[str, Answer]:
    """Answers of all cells, from the cache or computed now."""
    answers: dict[str, Answer] = {}
    fresh, began = 0, monotonic()
    for number, cell in enumerate(cells):
        key = f"{name}/{cell.key}"
        answer = cache.get(key)
        if answer is None:
            left = f", {(monotonic() - began) / fresh * (len(cells) - number):.0f} s left" if fresh else ""
            _progress(stream, f"{name} {number + 1}/{len(cells)}{left}: {cell.key}")
            answer = _guarded(cell)
            cache.put(key, answer)
            fresh += 1
        answers[cell.key] = answer
    _progress(stream, f"{name}: {len(cells)} cells, {fresh} computed now", last=True)
    return answers


def _guarded(cell: Cell) -> Answer:
    """The answer of a cell; a rival that is not installed, or data that are not here, are an answer too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cell.run()
        except ImportError as error:
            return {"missing": f"not installed ({error.name})"}
        except Unavailable as error:
            return {"missing": str(error)}


def _progress(stream: TextIO, text: str, last: bool = False) -> None:
    if stream.isatty():
        print(f"\r\x1b[K{text}", end="\n" if last else "", file=stream, flush=True)
    else:
        print(text, file=stream, flush=True)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
