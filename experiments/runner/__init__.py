"""One runner: cells that are computed once and kept, in turn or side by side, and what is written of them."""

from experiments.runner.cache import Cache
from experiments.runner.protocol import (
    Answer,
    Cell,
    Experiment,
    NotHere,
    Results,
    Settings,
    Table,
    Unavailable,
    clock,
    markdown,
)
from experiments.runner.run import answers_of, run

__all__ = [
    "Answer",
    "Cache",
    "Cell",
    "Experiment",
    "NotHere",
    "Results",
    "Settings",
    "Table",
    "Unavailable",
    "answers_of",
    "clock",
    "markdown",
    "run",
]
