"""What a spinner says of a fit: its stage, the share of the stages that lies behind, and the time left, about."""

import time
from typing import Any


class Watch:
    """A callback of scikit-learn's (1.9 and later) that writes stages into the description of a spinner."""

    def __init__(self, progress: Any, text: str) -> None:
        self._progress, self._text = progress, text
        self._began, self._done = time.monotonic(), 0

    def setup(self, estimator: Any, context: Any) -> None:
        self._began, self._done = time.monotonic(), 0

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        if context.max_subtasks != 0 or context.parent is None:
            return
        share = self._done / (context.parent.max_subtasks or 1)
        seconds = time.monotonic() - self._began
        left = f", about {seconds * (1 - share) / share:.0f} s left" if share else ""
        self._progress.update(
            self._progress.task_ids[0], description=f"{self._text}: {context.task_name}{left}", completed=share, total=1
        )

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        if context.max_subtasks == 0 and context.parent is not None:
            self._done += 1

    def teardown(self, estimator: Any, context: Any) -> None:
        pass


def watched(model: Any, progress: Any, text: str) -> Any:
    """A pipeline whose last step tells a spinner of its stages, where this scikit-learn has callbacks."""
    if hasattr(model[-1], "set_callbacks"):
        model[-1].set_callbacks(Watch(progress, text))
    return model


def unwatched(model: Any) -> Any:
    """The same without."""
    if hasattr(model[-1], "set_callbacks"):
        model[-1].set_callbacks()
    return model
