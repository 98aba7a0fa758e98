"""What every benchmark shares: its command line, interleaved timing, peak memory, tables, and sections of a report."""

import argparse
import datetime
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
PACKAGES = ("ulmus", "numpy", "scipy", "scikit-learn", "gfdl", "hpelm", "skordinal", "mord")


@dataclass(frozen=True)
class Options:
    """How large and how often."""

    quick: bool = False
    repeats: int = 5
    figures: Path | None = None

    def rows(self, n: int) -> int:
        """The number of rows to use where a full run uses ``n``."""
        return n // 20 if self.quick else n


# Timing


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the seconds it took."""
    gc.collect()
    start = perf_counter()
    result = work()
    return result, perf_counter() - start


@dataclass
class Timing:
    """Seconds of every repetition, the last result, and the first warning."""

    seconds: list[float] = field(default_factory=list)
    result: Any = None
    warning: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{self.median:.3g} ({min(self.seconds):.3g}..{max(self.seconds):.3g})"

    def ratio_to(self, base: "Timing") -> float:
        """Median over the repetitions of this time divided by ``base``'s time in the same repetition."""
        return statistics.median(mine / its for mine, its in zip(self.seconds, base.seconds, strict=True))


def interleave(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Run all jobs once per repetition, starting with another one each time."""
    timings = {name: Timing() for name in jobs}
    names = list(jobs)
    for repetition in range(repeats):
        turn = repetition % len(names)
        for name in names[turn:] + names[:turn]:
            timing = timings[name]
            timing.result = None
            gc.collect()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                start = perf_counter()
                timing.result = jobs[name]()
                timing.seconds.append(perf_counter() - start)
            if caught and timing.warning is None:
                timing.warning = f"{caught[0].category.__name__}: {caught[0].message}"
    return timings


# Memory


def peak_memory(job: str, n: int) -> dict[str, float]:
    """Peak memory above the input in MB, of fitting and of predicting, in a process of its own (``memory.py``)."""
    command = [sys.executable, str(HERE / "memory.py"), job, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


# Reports


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table that can be read as it is."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


@dataclass
class Section:
    """One heading of the report: text, tables, and the claims that they answer."""

    key: str
    title: str
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

    @property
    def heading(self) -> str:
        return f"## ({self.key}) {self.title}"

    def render(self) -> str:
        """The section as Markdown, with what is needed to run it again."""
        facts = [f"    {shown_command()}", f"{datetime.date.today().isoformat()}. {machine()}. {versions()}."]
        return "\n\n".join([self.heading, *facts, *self.body]) + "\n"


def write_section(path: Path, section: Section) -> None:
    """Put the section into the report in place of the one with the same letter, or after the others."""
    text = path.read_text() if path.exists() else "# Benchmarks\n\n"
    found = re.search(rf"^## \({section.key}\).*?(?=^## |\Z)", text, flags=re.M | re.S)
    new = section.render() + "\n"
    text = text[: found.start()] + new + text[found.end() :] if found else text.rstrip("\n") + "\n\n" + new
    path.write_text(text.rstrip("\n") + "\n")
    print(f"\n[{'replaced' if found else 'added'} section ({section.key}) in {path}]")


def command_line(
    doc: str,
    sections: dict[str, tuple[str, Callable[[Section, Options], None]]],
    repeats: int,
    *,
    figures: bool = False,
) -> None:
    """Run the sections asked for, print them, and write them where told to; draw, where there are figures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(sections), help="letters of the sections, separated by commas")
    parser.add_argument("--quick", action="store_true", help="few rows, to try the script")
    parser.add_argument("--repeats", type=int, default=repeats, help="repetitions of every measurement")
    parser.add_argument("--out", type=Path, help="also put the sections into this Markdown file")
    if figures:
        parser.add_argument("--figures", type=Path, help="also draw figures into this folder")
    given = parser.parse_args()
    keys = given.only.split(",")
    if not set(keys) <= set(sections):
        parser.error(f"--only takes letters among {','.join(sections)}, got {given.only}")
    options = Options(given.quick, given.repeats, getattr(given, "figures", None))
    print(f"{machine()}\n{versions()}")
    for key in keys:
        title, work = sections[key]
        section = Section(key, title)
        print(f"\n\n{section.heading}")
        work(section, options)
        if given.out:
            write_section(given.out, section)


def shown_command() -> str:
    """The command of this run, without the folders of this machine."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def machine() -> str:
    """Processor, cores and memory."""
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        name = model[1].strip() if model else platform.machine()
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except OSError:
        name, memory = platform.processor() or platform.machine(), ""
    return f"{name}, {os.cpu_count()} cores{memory}"


def versions() -> str:
    """Versions of Python and of all that is compared."""

    def installed(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} not installed"

    return ", ".join([f"Python {platform.python_version()}", *map(installed, PACKAGES)])
