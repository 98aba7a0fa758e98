"""Optional packages, imported where used."""

import importlib
from typing import Any


def need(module: str, extra: str) -> Any:
    """The module, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{package} is needed here and is not installed: pip install 'ulmus[{extra}]' (or {package} itself)"
        ) from error
