"""Time and memory of a piece of work."""

import ctypes
import gc
import os
import statistics
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the seconds it took."""
    gc.collect()
    began = perf_counter()
    result = work()
    return result, perf_counter() - began


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
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                timing.result, seconds = timed(jobs[name])
            timing.seconds.append(seconds)
            if caught and timing.warning is None:
                timing.warning = f"{caught[0].category.__name__}: {caught[0].message}"
    return timings


class Resident:
    """The largest resident memory while something runs, sampled a hundred times a second, in megabytes.

    ``peak`` is that of the process, ``growth`` what was added to it; NaN where the system does not tell.
    """

    peak = growth = float("nan")

    def __enter__(self) -> "Resident":
        gc.collect()
        give_back()
        self._done, self._start, self._seen = threading.Event(), self.now(), 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._seen = max(self._seen, self.now())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.peak = max(self._seen, self.now())
        self.growth = float(np.maximum(self.peak - self._start, 0.0))

    @staticmethod
    def now() -> float:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        except OSError:
            return float("nan")


def give_back() -> None:
    """Return freed memory to the system, where its library can: what earlier work left would hide what is used now."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_above_now(work: Callable[[], Any]) -> float:
    """Megabytes above the present resident memory that ``work`` reaches.

    The high-water mark of the process (VmHWM) is reset first, so that nothing is missed. Linux only.
    """
    give_back()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(key: str) -> float:
    """A line of /proc/self/status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise KeyError(key)
