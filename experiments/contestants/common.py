"""What contestants share: how they are made, and what a kernel or a network needs of a table."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.runner.protocol import Unavailable
from experiments.tasks import Task

#: A model for a task and a seed.
Make = Callable[[Task, int], Any]


def scaled(task: Task, model: Any) -> Any:
    """Numbers standardised, categories one-hot: what a kernel or a network needs."""
    if isinstance(task.X, pd.DataFrame):
        return make_pipeline(_of_frames(task), model)
    if not task.categorical:
        return make_pipeline(StandardScaler(), model)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, list(task.categorical)), remainder=StandardScaler())
    return make_pipeline(columns, model)


def _of_frames(task: Task) -> Any:
    """The same of a frame: holes of numbers become the median, rare levels one column."""
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=100, sparse_output=False)
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    return make_column_transformer((encoder, list(task.categorical)), remainder=numbers)


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
