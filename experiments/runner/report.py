"""A report in Markdown: sections that say what they measured, each in place of the one with the same letter."""

import datetime
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.runner.cache import Cache, plain
from experiments.runner.facts import commit, environment, machine, versions
from experiments.runner.measure import Timing
from experiments.runner.protocol import Answer, Cell
from experiments.runner.run import answers_of


@dataclass(frozen=True)
class Options:
    """How large and how often."""

    quick: bool = False
    repeats: int = 5

    def rows(self, n: int) -> int:
        """The number of rows to use where a full run uses ``n``."""
        return n // 20 if self.quick else n


@dataclass
class Section:
    """One heading of the report: text, tables, and the claims that they answer."""

    key: str
    title: str
    cache: Cache = field(default_factory=lambda: Cache(None))
    body: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a paragraph now and keep it for the report."""
        print(f"\n{text}", flush=True)
        self.body.append(text)

    def claim(self, text: str, value: float, bound: float, *, at_least: bool, quick: bool) -> None:
        """State a target beside what was measured; sizes of a quick run prove nothing."""
        met = value >= bound if at_least else value <= bound
        verdict = "not judged in a quick run" if quick else ("met" if met else "MISSED")
        line = f"- {text}: {value:.3g} (target {'≥' if at_least else '≤'} {bound:g}): **{verdict}**"
        if self.body and self.body[-1].startswith("- "):
            print(line, flush=True)
            self.body[-1] += "\n" + line
        else:
            self.say(line)

    def warn(self, timings: dict[str, Timing]) -> None:
        """Pass on what the contestants warned of."""
        for name, timing in timings.items():
            if timing.warning:
                self.say(f"{name} warned: {' '.join(timing.warning.split())[:200]}")

    def name_missing(self, names: Sequence[str]) -> None:
        """Name the sets that are not at hand."""
        if names:
            self.say(f"Not here: {', '.join(names)}. Set ULMUS_DATA to the folder that holds them.")

    def answers(self, cells: list[Cell], jobs: int = 1) -> dict[str, Answer]:
        """Answers of cells, taken from those that are kept or computed now."""
        return answers_of(self.key, cells, self.cache, jobs=jobs)

    def kept(self, key: str, work: Callable[[], Any]) -> Any:
        """What ``work`` gives, as JSON has it; a run that was cut short does not do it again."""
        found = self.cache.get(f"{self.key}/{key}")
        if found is None:
            found = {"value": plain(work())}
            self.cache.put(f"{self.key}/{key}", found)
        return found["value"]

    @property
    def heading(self) -> str:
        return f"## ({self.key}) {self.title}"

    def answer(self, command: str) -> Answer:
        """The section as Markdown, with what is needed to run it again."""
        where = f"{datetime.date.today().isoformat()}, commit {commit()}. {machine()}. {versions()}."
        return {"text": "\n\n".join([self.heading, f"    {command}", where, *self.body]) + "\n"}


def write_section(path: Path, key: str, text: str) -> None:
    """Put a section into the report in place of the one with the same letter, or after the others."""
    report = path.read_text() if path.exists() else "# Benchmarks\n\n"
    found = re.search(rf"^## \({key}\).*?(?=^## |\Z)", report, flags=re.M | re.S)
    new = text + "\n"
    report = report[: found.start()] + new + report[found.end() :] if found else report.rstrip("\n") + "\n\n" + new
    path.write_text(report.rstrip("\n") + "\n")
    print(f"\n[{'replaced' if found else 'added'} section ({key}) in {path}]")


def in_a_process(module: str, *arguments: object) -> Any:
    """What a module of the sections prints as JSON in a process of its own, where memory is its own."""
    command = [sys.executable, "-m", f"experiments.sections.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)
