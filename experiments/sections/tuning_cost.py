"""What choosing costs: wall and processor seconds of a self-tuned NKELM beside one fit at the values it chose.

    python -m experiments.sections.tuning_cost [--repeats N] [--seed S] [--svc] [set ...]

The sets and the scaling are those of section (f), without its rival. Processor seconds are those of all threads: they
tell two versions apart on a machine that is not idle. With ``--svc``, `SVC(C=2**10)` of section (g) on the same rows
stands beside classifiers: both have their parameters given, and SVC has one thread. Section (ak) measures the same on
an idle machine, and again beside a process that keeps one core busy.
"""

import argparse
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.svm import SVC

from experiments.runner.facts import environment
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
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


SVC_HEADER = ("set", "rows", "SVC, processor", "one fit, processor", "ratio", "SVC, error %", "one fit, error %")


def costs(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, its wall seconds and its processor seconds."""
    wall, processor = perf_counter(), process_time()
    result = work()
    return result, perf_counter() - wall, process_time() - processor


@contextmanager
def busy() -> Iterator[None]:
    """One core kept busy by a process of one thread."""
    work = "import numpy as np\nA = np.ones((400, 400))\nwhile True: A @ A"
    one_thread = {**environment(), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", work], env=one_thread)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measured(task: Task, repeats: int, seed: int) -> tuple[Any, list[float]]:
    """The model of the last repetition; medians of wall and processor seconds of a tuned fit and of one fit."""
    model_class = NKELMRegressor if task.regression else NKELMClassifier
    seen = []
    for _ in range(repeats):
        model, *tuned = costs(lambda: model_class(random_state=seed).fit(task.X, task.y))
        values = {"n_landmarks": model.n_landmarks_, "gamma": model.gamma_, "C": model.C_}
        one = model_class(**values, fit_intercept=task.regression, random_state=seed)
        seen.append((*tuned, *costs(lambda one=one: one.fit(task.X, task.y))[1:]))
    return model, [statistics.median(column) for column in zip(*seen, strict=True)]


def row(name: str, task: Task, repeats: int, seed: int) -> tuple[Any, ...]:
    """One line of the table: medians, and the choice of the last repetition."""
    model, (wall, processor, one_wall, one_processor) = measured(task, repeats, seed)
    chosen = f"{model.n_landmarks_}, 2^{np.log2(model.C_):.0f}, 2^{np.log2(model.gamma_):.1f}"
    seconds = (wall, processor, one_wall, one_processor, wall / one_wall, processor / one_processor)
    return (
        name,
        len(task.X),
        *(f"{s:.2f}" for s in seconds),
        f"{task.percent(model.predict(task.X_test)):.3f}",
        chosen,
    )


def svc_row(name: str, task: Task, seed: int) -> tuple[Any, ...]:
    """Processor seconds and errors of SVC, and of one fit at the values that a search chose, in turns."""
    model = NKELMClassifier(random_state=seed).fit(task.X, task.y)
    values = {"n_landmarks": model.n_landmarks_, "gamma": model.gamma_, "C": model.C_}
    svc, _, svc_seconds = costs(lambda: SVC(C=2.0**10, cache_size=1000).fit(task.X, task.y))
    one, _, seconds = costs(lambda: NKELMClassifier(**values, random_state=seed).fit(task.X, task.y))
    X, y = task.X_test[:10_000], task.y_test[:10_000]
    errors = (f"{100 * float(np.mean(each.predict(X) != y)):.2f}" for each in (svc, one))
    return name, len(task.X), f"{svc_seconds:.2f}", f"{seconds:.2f}", f"{svc_seconds / seconds:.2f}", *errors


def task_of(name: str) -> Task | None:
    """The split of section (f)."""
    task = official(name) if name in CLASSIFICATION else random_split(name, seed=0)
    return None if task is None else task.scaled("standardised")


def cost(section: Section, options: Options) -> None:
    """Section (ak): a tuned fit and one fit at the values it chose, alone and beside a busy process."""
    section.say(
        "`NKELMClassifier()` or `NKELMRegressor()` on the splits of section (f), and one fit at the values it chose. "
        f"Seconds of a clock, medians of {options.repeats}; *beside*: while another process keeps one core busy."
    )
    lines, claims = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (*CLASSIFICATION, *REGRESSION):
            task = task_of(name)
            if task is None:
                section.say(f"Not here: {name}. Set ULMUS_DATA to the folder that holds it.")
                continue
            task = task.first(options.rows(len(task.X)))
            _, (wall, _, one, _) = measured(task, options.repeats, 0)
            with busy():
                _, (beside, _, one_beside, _) = measured(task, options.repeats, 0)
            figures = (wall, one, wall / one, beside, one_beside, beside / one_beside)
            lines.append((name, len(task.X), *(f"{s:.2f}" for s in figures)))
            claims += [(f"{name}, tuned fit / one fit", wall / one, 3)]
            claims += [(f"{name}, the same beside a busy process", beside / one_beside, 4)]
            if name == "cal_housing":
                claims += [("cal_housing, seconds", wall, 2), ("cal_housing, seconds beside", beside, 3)]
    header = ("set", "rows", "tuned", "one fit", "ratio", "tuned, beside", "one fit, beside", "ratio")
    section.say(markdown(header, lines))
    for text, value, bound in claims:
        section.claim(text, value, bound, at_least=False, quick=options.quick)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--svc", action="store_true")
    given = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.sets:
            task = task_of(name)
            if task is None:
                parser.error(f"{name} is not in the folder that ULMUS_DATA names")
            rows.append(svc_row(name, task, given.seed) if given.svc else row(name, task, given.repeats, given.seed))
    print(markdown(SVC_HEADER if given.svc else HEADER, rows))


if __name__ == "__main__":
    main()
