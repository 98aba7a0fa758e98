"""What an experiment is made of: cells that are computed once, tables and figures that are read from them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: What a cell answers: numbers and lists of numbers by name, or why it did not run (``"missing"``).
Answer = dict[str, Any]


class Unavailable(Exception):
    """A measurement that cannot be made, and why."""


class NotHere(Unavailable):
    """Data that are not at hand; they may be the next time."""

    def __init__(self, what: str = "no data here") -> None:
        super().__init__(what)


@dataclass(frozen=True)
class Settings:
    """How large a run is."""

    quick: bool = False
    seed: int = 0

    def repeats(self, full: int, quick: int = 2) -> int:
        """Repetitions of every cell."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Cell:
    """One measurement. The same key always means the same measurement.

    Parameters
    ----------
    key : str
        Its last part counts repetitions: ``set/method/0``.
    run : callable
        Gives the answer. With a limit it must survive pickle (a ``functools.partial`` of a function of a module does).
    seconds : float
        What it takes on two cores, roughly; estimates are made of these.
    limit : float, optional
        Seconds of processor time after which it is given up, and its further repetitions with it.
    cores : {"any", "one", "all"}
        On how many it runs: on one in a process of its own, on all of them by itself, or as many as the run gives it.
    """

    key: str
    run: Callable[[], Answer]
    seconds: float = 1.0
    limit: float | None = None
    cores: str = "any"

    @property
    def group(self) -> str:
        """What its repetitions share."""
        return self.key.rpartition("/")[0]


@dataclass(frozen=True)
class Table:
    """Rows of text under a header, and what has to be said about them."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        notes = "".join(f"\n* {note}" for note in self.notes)
        return f"{self.title}\n\n{markdown(self.header, self.rows)}\n{notes}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table that can be read as it is."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


@dataclass(frozen=True)
class Results:
    """The answers so far, by key."""

    answers: dict[str, Answer] = field(default_factory=dict)

    def under(self, prefix: str) -> list[Answer]:
        """Answers whose key starts with this, those that ran."""
        return [a for key, a in self.answers.items() if key.startswith(prefix) and "missing" not in a]

    def numbers(self, prefix: str, name: str) -> np.ndarray:
        """One number of each of those answers."""
        return np.array([a[name] for a in self.under(prefix) if name in a], dtype=float)

    def mean(self, prefix: str, name: str, form: str = "{:.3f}", spread: bool = True) -> str:
        """``mean ± deviation`` of a number, or why there is none."""
        values = self.numbers(prefix, name)
        if not len(values):
            reasons = [a["missing"] for key, a in self.answers.items() if key.startswith(prefix) and "missing" in a]
            return reasons[0] if reasons else "-"
        text = form.format(values.mean())
        return f"{text} ± {form.format(values.std())}" if spread and len(values) > 1 else text


@dataclass(frozen=True)
class Experiment:
    """One document: how its measurements are made, and how they are shown beside what it prints."""

    name: str
    title: str
    citation: str
    cells: Callable[[Settings], Iterator[Cell]]
    tables: Callable[[Results, Settings], list[Table]]
    figures: Callable[[Results, Settings], dict[str, Any]]
    notes: tuple[str, ...] = ()


def clock(seconds: float) -> str:
    """Seconds, minutes or hours."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.1f} {name}" if seconds < 10 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
