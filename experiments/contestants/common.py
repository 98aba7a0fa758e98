"""What contestants share: how they are made, and what a kernel or a network needs of a table."""

from collections.abc import Callable
from typing import Any

from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.runner.protocol import Unavailable
from experiments.tasks import Task

#: A model for a task and a seed.
Make = Callable[[Task, int], Any]


def scaled(task: Task, model: Any) -> Any:
    """Numbers standardised, categories one-hot: what a kernel or a network needs."""
    if not task.categorical:
        return make_pipeline(StandardScaler(), model)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, list(task.categorical)), remainder=StandardScaler())
    return make_pipeline(columns, model)


def pick(task: Task, regressor: Any, classifier: Any) -> Any:
    """Whichever the task asks for."""
    return regressor if task.regression else classifier


def limited(rows: int, make: Make) -> Make:
    """For methods whose cost grows with the square of the rows."""

    def made(task: Task, seed: int) -> Any:
        if len(task.y) > rows:
            raise Unavailable(f"more than {rows:,} rows")
        return make(task, seed)

    return made
