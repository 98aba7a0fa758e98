"""Reading a model while another thread teaches it: a reader sees the state before a block or after it, never between.

Methods that learn are marked :func:`learns`, methods that read :func:`reads`. A reader works on a *view*: the model's
attributes at one moment, put into place by one assignment. While a block is learned the view of the state before it
stays; when the block is in, the next reader makes a new one. What is derived when asked for (weights, calibration) is
derived under the lock of the learners; where a block has come in since the view was made, the reader begins again
with the state after it.
"""

import copy
import os
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
_ORIGIN = "_view_of"
_GONE = object()


class Moved(Exception):
    """The model has learned on since the view was made."""


class Beside:
    """What stands beside a model: the lock of its learners, who is learning, the view, and what it was made from."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.writer: int | None = None
        self.view: Any = None
        self.torn = False

    def seen(self, model: Any, *, whole: bool = False) -> Any:
        """The model between two blocks; the ``whole`` of it, with all that is derived."""
        view = self.view
        if view is not None and not whole and (self.writer is not None or self.torn or _fresh(view, model)):
            return view
        with self.lock:
            self.check()
            if self.view is None or not _fresh(self.view, model):
                self.view = _copied(model)
            if whole:
                for name in getattr(model, "_derived_names", ()):
                    getattr(self.view, name, None)
            return self.view

    def check(self) -> None:
        if self.torn:
            raise RuntimeError(
                "this process was forked while another thread taught the model, and has half of what it was learning; "
                "save the model before, or fork while nobody learns"
            )


# beside the models and not in them, so that no copy, file or clone has it
_sides: "weakref.WeakKeyDictionary[Any, Beside]" = weakref.WeakKeyDictionary()


def side_of(model: Any) -> Beside:
    found = _sides.get(model)
    return _sides.setdefault(model, Beside()) if found is None else found


def _after_fork() -> None:
    me = threading.get_ident()
    for side in list(_sides.values()):
        side.torn = side.torn or side.writer not in (None, me)
        if side.writer != me:
            side.lock, side.writer = threading.RLock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _copied(model: Any) -> Any:
    view = object.__new__(type(model))
    taken = dict(model.__dict__)
    view.__dict__.update(taken)
    if "stream_" in taken:
        view.__dict__["stream_"] = copy.copy(taken["stream_"])
    view.__dict__[_ORIGIN] = (weakref.ref(model), taken)
    return view


def _fresh(view: Any, model: Any) -> bool:
    """Whether the model has the very attributes of which the view was made."""
    taken, now = view.__dict__[_ORIGIN][1], model.__dict__
    return len(taken) == len(now) and all(now.get(name, _GONE) is value for name, value in taken.items())


def derive(view: Any, name: str) -> Any:
    """An attribute that the model derives when asked, for a view of it."""
    model = view.__dict__[_ORIGIN][0]()
    side = side_of(model)
    with side.lock:
        side.check()
        if side.view is not view or not _fresh(view, model):
            raise Moved
        try:
            return getattr(model, name)
        finally:  # what comes with it is derived as well
            taken = dict(model.__dict__)
            view.__dict__.update({k: v for k, v in taken.items() if k != "stream_"})
            view.__dict__[_ORIGIN] = (weakref.ref(model), taken)


def is_view(model: Any) -> bool:
    return _ORIGIN in model.__dict__


def reads(method: Method) -> Method:
    """A method that reads a model: it is given the model as it is between two blocks."""

    @wraps(method)
    def read(self: Any, *args: Any, **options: Any) -> Any:
        if is_view(self) or not hasattr(self, "partial_fit"):
            return method(self, *args, **options)
        side = side_of(self)
        if side.writer == threading.get_ident():
            return method(self, *args, **options)
        try:
            return method(side.seen(self), *args, **options)
        except Moved:
            return method(side.seen(self, whole=True), *args, **options)

    return read  # type: ignore[return-value]


def learns(method: Method) -> Method:
    """A method that changes a model: one at a time, and readers keep the state before it until it is done."""

    @wraps(method)
    def learn(self: Any, *args: Any, **options: Any) -> Any:
        side = side_of(self)
        with side.lock:
            side.check()
            if side.writer is not None:  # a step of one
                return method(self, *args, **options)
            side.seen(self)
            side.writer = threading.get_ident()
            try:
                return method(self, *args, **options)
            finally:
                side.view, side.writer = None, None

    return learn  # type: ignore[return-value]
