"""One thread teaches a model at a time. Readers need no lock: they read one frozen value (``ulmus.models.fitted``)."""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Guard:
    """What stands beside a model: the lock of its learners, and who is learning."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.writer: int | None = None
        self.torn = False

    def check(self) -> None:
        """Refuse a model of which another thread had learned half a block when this process was forked."""
        if self.torn:
            raise RuntimeError(
                "this process was forked while another thread was updating the model, and has half of the update; save "
                "the model first, or fork when no update is running"
            )


# beside the models and not in them, so that no copy, file or clone has it
_guards: "weakref.WeakKeyDictionary[Any, Guard]" = weakref.WeakKeyDictionary()


def guard_of(model: Any) -> Guard:
    """The guard of a model."""
    found = _guards.get(model)
    return _guards.setdefault(model, Guard()) if found is None else found


@contextmanager
def teaching(model: Any) -> Iterator[None]:
    """Change a model: one thread at a time; steps within a step are part of it."""
    guard = guard_of(model)
    with guard.lock:
        guard.check()
        outermost = guard.writer is None
        guard.writer = threading.get_ident()
        try:
            yield
        finally:
            if outermost:
                guard.writer = None


def _after_fork() -> None:
    me = threading.get_ident()
    for guard in list(_guards.values()):
        guard.torn = guard.torn or guard.writer not in (None, me)
        if guard.writer != me:
            guard.lock, guard.writer = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
