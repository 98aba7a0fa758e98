"""The compiled core (``src/core``) where it was built; elsewhere it is None, and NumPy gives the same numbers."""

from contextlib import suppress
from importlib import import_module
from typing import Any

core: Any = None
with suppress(ImportError):
    core = import_module("ulmus._core")
