"""What two threads are worth to a whole fit of an adaptive model: seconds of a clock on one and on two, in turns.

    python -m experiments.sections.two_threads [--repeats 3] [--fast] [table ...]

Development tables of 5,000 training rows and more, and tables of R's packages, as :mod:`experiments.sections.pace` has
them. The machine should be idle.
"""

import argparse
import warnings
from time import perf_counter
from typing import Any

import numpy as np

from experiments.contestants import CONTESTANTS
from experiments.runner import markdown
from experiments.tables import load_table

TABLES = ("cpu_act", "pendigits", "diamonds", "flights", "covtype", "CPS1988")


def seconds(task: Any, who: str, n_jobs: int) -> float:
    """Of one fit with this many threads."""
    model = CONTESTANTS[who](task, 1)
    model.n_jobs = n_jobs
    began = perf_counter()
    model.fit(task.X, task.y)
    return perf_counter() - began


def main() -> None:
    """Print seconds and ratios, and the median of the latter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fast", action="store_true")
    given = parser.parse_args()
    who, lines, ratios = "Adaptive, fast" if given.fast else "Adaptive", list[tuple[str, ...]](), list[float]()
    for name in given.tables:
        task = load_table(name, 1, inner=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.array([[seconds(task, who, n) for n in (1, 2)] for _ in range(given.repeats)])
        ratios.append(float(np.median(found[:, 0] / found[:, 1])))
        one, two = np.median(found, axis=0)
        lines.append((name, f"{len(task.y):,}", f"{one:.2f}", f"{two:.2f}", f"{ratios[-1]:.2f}"))
        print(*lines[-1], flush=True)
    print(markdown(("table", "rows", "one thread", "two", "ratio"), lines))
    print(f"median {np.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
