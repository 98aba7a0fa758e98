"""How far a pass has come: rows, rate and time left."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Report:
    """Rows done, of how many (None: unknown), at which rate, and the seconds that are left.

    ``unit`` is ``"rows"``, or ``"partitions"`` where a cluster does not tell how long its partitions are.
    """

    label: str
    rows: int
    total: int | None
    rate: float
    left: float | None
    unit: str = "rows"

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.left is None else f", {_clock(self.left)} left"
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"
        return f"{self.label}: {self.rows:,}{of} {self.unit}, {rate} {self.unit}/s{left}"


def _clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


Show = bool | str | Callable[[Report], Any] | None


@dataclass
class Progress:
    """Counts rows and shows them: ``"rich"``, ``"plain"`` (one line on stderr), a function of reports, or not.

    ``True`` takes rich where it is installed; ``None`` does so on a terminal only.
    """

    label: str
    total: int | None = None
    show: Show = None
    rows: int = 0
    every: float = 0.5
    unit: str = "rows"
    _began: float = field(default_factory=time.monotonic)
    _last_shown: float = 0.0
    _bar: Any = None

    def __post_init__(self) -> None:
        self._first = self.rows
        if self.show is None:
            self.show = sys.stderr.isatty()
        if self.show is True:
            self.show = "rich" if _rich() is not None else "plain"

    def __enter__(self) -> Self:
        if self.show == "rich":
            rich = _rich()
            columns = ("[progress.description]{task.description}", rich.BarColumn(), "{task.fields[numbers]}")
            console = rich.get_console().__class__(stderr=True)
            self._bar = rich.Progress(*columns, console=console)
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.rows, numbers="")
            self._bar.start()
        return self

    def advance(self, rows: int) -> None:
        """So many rows more are done."""
        self.rows += rows
        now = time.monotonic()
        if self.show and now - self._last_shown >= self.every:
            self._last_shown = now
            self._report(self.report)

    @property
    def report(self) -> Report:
        seconds = max(time.monotonic() - self._began, 1e-9)
        rate = (self.rows - self._first) / seconds
        left = None if self.total is None or rate <= 0 else max(self.total - self.rows, 0) / rate
        return Report(self.label, self.rows, self.total, rate, left, self.unit)

    def _report(self, report: Report, end: str = "") -> None:
        if callable(self.show):
            self.show(report)
        elif self.show == "rich":
            self._bar.update(self._task, completed=report.rows, numbers=str(report).partition(": ")[2])
        elif self.show == "plain":
            print(f"\r{report!s:<79}", end=end, file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.show:
            self._report(self.report, end="\n")
        if self._bar is not None:
            self._bar.stop()


def _rich() -> Any:
    """The parts of rich in use, if it is installed."""
    try:
        from rich import progress
    except ImportError:
        return None
    return progress
