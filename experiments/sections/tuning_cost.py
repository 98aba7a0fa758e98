"""What choosing costs: wall and processor seconds of a self-tuned NKELM beside one fit at the values it chose.

    python -m experiments.sections.tuning_cost [--repeats N] [--seed S] [set ...]

The sets and the scaling are those of section (f), without its rival. Processor seconds are those of all threads: they
tell two versions apart on a machine that is not idle.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

from experiments.runner.protocol import markdown
from experiments.sections.tuning_search import CLASSIFICATION, REGRESSION
from experiments.tasks import Task, official, random_split
from ulmus import NKELMClassifier, NKELMRegressor

HEADER = (
    "set",
    "rows",
    "wall",
    "processor",
    "one fit, wall",
    "processor",
    "ratio, wall",
    "processor",
    "error %",
    "chosen",
)


def costs(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, its wall seconds and its processor seconds."""
    wall, processor = perf_counter(), process_time()
    result = work()
    return result, perf_counter() - wall, process_time() - processor


def row(name: str, task: Task, repeats: int, seed: int) -> tuple[Any, ...]:
    """One line of the table: medians, and the choice of the last repetition."""
    model_class = NKELMRegressor if task.regression else NKELMClassifier
    seen = []
    for _ in range(repeats):
        model, *tuned = costs(lambda: model_class(random_state=seed).fit(task.X, task.y))
        values = {"n_landmarks": model.n_landmarks_, "gamma": model.gamma_, "C": model.C_}
        one = model_class(**values, fit_intercept=task.regression, random_state=seed)
        seen.append((*tuned, *costs(lambda one=one: one.fit(task.X, task.y))[1:]))
    wall, processor, one_wall, one_processor = (statistics.median(column) for column in zip(*seen, strict=True))
    chosen = f"{model.n_landmarks_}, 2^{np.log2(model.C_):.0f}, 2^{np.log2(model.gamma_):.1f}"
    seconds = (wall, processor, one_wall, one_processor, wall / one_wall, processor / one_processor)
    return (
        name,
        len(task.X),
        *(f"{s:.2f}" for s in seconds),
        f"{task.percent(model.predict(task.X_test)):.3f}",
        chosen,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.sets:
            task = official(name) if name in CLASSIFICATION else random_split(name, seed=0)
            if task is None:
                parser.error(f"{name} is not in the folder that ULMUS_DATA names")
            rows.append(row(name, task.scaled("standardised"), given.repeats, given.seed))
    print(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
