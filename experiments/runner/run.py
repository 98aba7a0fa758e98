"""Run experiments: cells through the cache, then tables, figures, a JSON file and one page."""

import datetime
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import TextIO

from experiments.runner.cache import Cache, plain
from experiments.runner.facts import PACKAGES, installed, machine
from experiments.runner.guard import OUT_OF_TIME
from experiments.runner.page import page
from experiments.runner.protocol import Answer, Cell, Experiment, Results, Settings, clock
from experiments.runner.workers import computed
from ulmus._files import write_text

DOCUMENTS = "The documents' experiments"


def run(
    experiments: Iterable[Experiment],
    out: Path,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    title: str = DOCUMENTS,
    command: str = "",
    jobs: int = 1,
    stream: TextIO | None = None,
) -> Path:
    """Run experiments and write ``results.json`` and ``index.html`` into ``out``; answers are kept in ``out/cells``.

    Parameters
    ----------
    experiments : list of Experiment
    out : Path
    settings : Settings
    title : str
        The heading of the page.
    command : str
        Shown on the page, so that a reader can run it again.
    jobs : int
        Cells at a time, each in a process of its own on one core; their work must survive pickle.
    stream : file, optional
        Where progress is written (standard error).

    Returns
    -------
    Path
        The page.
    """
    stream = sys.stderr if stream is None else stream
    out.mkdir(parents=True, exist_ok=True)
    signature = f"ulmus {installed('ulmus')} quick={settings.quick} seed={settings.seed}"
    cache = Cache(out / "cells", signature)
    shown = []
    for experiment in experiments:
        cells = list(experiment.cells(settings))
        results = Results(answers_of(experiment.name, cells, cache, stream, jobs))
        tables = experiment.tables(results, settings)
        for table in tables:
            print(f"\n{table}", flush=True)
        shown.append((experiment, results, tables, experiment.figures(results, settings)))
    facts = {
        "title": title,
        "date": datetime.date.today().isoformat(),
        "command": command,
        "quick": settings.quick,
        "machine": f"{machine()}, Python {platform.python_version()}",
        "commits": dict(cache.commits),
        "versions": {name: installed(name) for name in PACKAGES},
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
    write_text(out / "results.json", json.dumps(plain(record), indent=1))
    file = out / "index.html"
    write_text(file, page([(e, tables, figures) for e, _, tables, figures in shown], facts))
    return file


def answers_of(
    name: str, cells: list[Cell], cache: Cache, stream: TextIO = sys.stderr, jobs: int = 1
) -> dict[str, Answer]:
    """Answers of all cells, from the cache or computed now."""
    answers = {cell.key: kept for cell in cells if (kept := cache.get(f"{name}/{cell.key}")) is not None}
    left = [cell for cell in cells if cell.key not in answers]
    if left:
        estimate = clock(sum(cell.seconds for cell in left))
        _progress(stream, f"{name}: {len(left)} of {len(cells)} cells to do, about {estimate} on two cores", last=True)
    out_of_time = {c.group for c in cells if OUT_OF_TIME in answers.get(c.key, {}).get("missing", "")}
    began, done, total = monotonic(), 0.0, sum(cell.seconds for cell in left)
    started = 0

    def known(cell: Cell) -> Answer | None:
        """What is said of a cell whose group has run out of time; progress is told of the others."""
        nonlocal started
        started += 1
        ahead = f", {clock((monotonic() - began) * (total - done) / done)} left" if done else ""
        _progress(stream, f"{name} {started}/{len(left)}{ahead}: {cell.key}")
        given_up = cell.group in out_of_time and cell.limit is not None
        return {"missing": f"{OUT_OF_TIME} {clock(cell.limit or 0.0)}"} if given_up else None

    for cell, answer in computed(left, known, jobs):
        if OUT_OF_TIME in answer.get("missing", ""):
            out_of_time.add(cell.group)
        if "failed" not in answer:
            cache.put(f"{name}/{cell.key}", answer)
        answers[cell.key] = answer
        done += cell.seconds
    _progress(stream, f"{name}: {len(cells)} cells, {len(left)} computed now", last=True)
    return {cell.key: answers[cell.key] for cell in cells}


def _progress(stream: TextIO, text: str, last: bool = False) -> None:
    if stream.isatty():
        print(f"\r\x1b[K{text}", end="\n" if last else "", file=stream, flush=True)
    else:
        print(text, file=stream, flush=True)
