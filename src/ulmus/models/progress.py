"""How far a fit has come: reported to scikit-learn's callbacks (from 1.9 on), and shown where ``verbose`` asks for it.

On a terminal and in a notebook ``verbose`` shows a bar with the stage, the share of the work and the time left, once a
fit has taken some seconds; elsewhere, or without rich, one line for each stage. Without ``verbose`` nothing is printed.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import Any

#: Seconds after which a bar appears.
PATIENCE = 2.0


@contextmanager
def untold(model: Any) -> Iterator[None]:
    """Nothing is reported of what a model does inside."""
    progress = model._progress
    model._forget("_progress")
    try:
        yield
    finally:
        if progress is not None:
            model._progress = progress


class FitProgress:
    """The progress of one fit.

    Parameters
    ----------
    model : estimator
    stages : mapping of str to float
        The stages in their order, and the share of the work that each takes, about.
    """

    def __init__(self, model: Any, stages: Mapping[str, float] | None = None) -> None:
        self._model, self._stages = model, dict(stages or {})
        self._began = _clocks()
        self._entered: list[str] = []
        self._context: Any = None
        self._task: Any = None
        self._bar = _Bar(type(model).__name__) if model.verbose and self._stages and _watched() else None

    def begin(self, **data: Any) -> None:
        """The fit begins; ``data``, for callbacks, is ``X``, ``y`` and ``metadata``."""
        if hasattr(self._model, "_skl_callbacks"):
            self._context = self._model._init_callback_context(max_subtasks=len(self._stages))
            self._context.call_on_fit_task_begin(estimator=self._model, **data)

    @property
    def share(self) -> float:
        """Of the work that lies behind, about."""
        total = sum(self._stages.values())
        return sum(self._stages[name] for name in self._entered[:-1]) / total if total else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that are left, about; None while that is not known."""
        return None if not self.share else (time.perf_counter() - self._began[0]) * (1 - self.share) / self.share

    def enter(self, stage: str) -> None:
        """A stage begins, and the one before it has ended; one that was entered before goes on."""
        if stage not in self._stages or stage in self._entered:
            return
        self._end_task()
        self._entered.append(stage)
        if self._context is not None:
            self._task = self._context.subcontext(task_name=stage)
            self._task.call_on_fit_task_begin(estimator=self._model)
        if self._bar is not None:
            self._bar.show(stage, self.share, self.left)

    def say(self, text: str) -> None:
        """A line of what was found, where ``verbose`` asks for it."""
        if self._model.verbose:
            wall, processor = (now - then for now, then in zip(_clocks(), self._began, strict=True))
            line = f"[{wall:6.2f} s, {processor:6.2f} s of the processors] {text}"
            print(line) if self._bar is None else self._bar.print(line)

    def finish(self, **data: Any) -> None:
        """The fit is done; ``data`` is for callbacks."""
        self._end_task()
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._model, **data)
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._model)
            self._task = None


@contextmanager
def watching(model: Any, stages: Mapping[str, float], **data: Any) -> Iterator[FitProgress]:
    """The progress of a fit that happens inside, whole or broken off."""
    progress = FitProgress(model, stages)
    try:
        progress.begin(**data)
        yield progress
        progress.finish(reconstruction_attributes={}, **data)  # the model is fitted, as it stands
    finally:
        progress.close()


class _Bar:
    """A bar of rich that appears when a fit takes long."""

    def __init__(self, name: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = ("{task.description}", BarColumn(), "{task.percentage:>3.0f} %", TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[left]}"), transient=True)
        self._name, self._task = name, self._progress.add_task(name, total=1.0, left="")
        self._timer = Timer(PATIENCE, self._progress.start)
        self._timer.daemon = True
        self._timer.start()

    def show(self, stage: str, share: float, left: float | None) -> None:
        remaining = "" if left is None else f"about {left:.0f} s left"
        self._progress.update(self._task, description=f"{self._name}: {stage}", completed=share, left=remaining)

    def print(self, line: str) -> None:
        self._progress.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self._timer.cancel()
        self._progress.stop()


def _clocks() -> tuple[float, float]:
    """Seconds on the clock, and of all processors."""
    return time.perf_counter(), time.process_time()


def _watched() -> bool:
    """Whether somebody looks at a terminal or a notebook, and rich is installed."""
    notebook = "ipykernel" in sys.modules
    if not (notebook or sys.stdout.isatty()):
        return False
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True
