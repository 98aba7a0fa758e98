"""Section (a) in processor seconds of one thread, for a machine that is not idle.

    python -m experiments.sections.nystrom_pace [--rows N] [--repeats K]

The three cases at CovType's shape, with fewer rows: fit and predict of NKELM in float64 and float32 beside
scikit-learn's `Nystroem` and `Ridge` with the same landmarks, in turns. Processor seconds measure the work,
whatever else is running; the floor is that of section (a) at the rate of a product measured in between.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_limits

from experiments.contestants.elm import nystroem_ridge
from experiments.runner.protocol import markdown
from experiments.sections.core_nystrom import C_LARGE, COVTYPE_CASES, N_LANDMARKS, gemm
from experiments.sections.problems import covtype
from ulmus import NKELMRegressor

HEADER = ("case", "model", "fit", "× Ulmus", "of the floor", "predict", "× Ulmus", "route")
PRODUCT = 2_000


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the processor seconds it took."""
    began = process_time()
    return work(), process_time() - began


def case(task: Any, gamma: float, repeats: int) -> list[tuple[str, ...]]:
    """Lines of the table for one scaling and gamma."""
    X, T = task.X, task.T
    L, (n, m) = N_LANDMARKS, X.shape
    Z = Nystroem(gamma=gamma, n_components=L, random_state=0).fit(X).components_
    ours: dict[str, Any] = {"gamma": gamma, "C": C_LARGE, "landmarks": Z, "random_state": 0, "n_jobs": 1}
    narrow = [X.astype(np.float32), task.X_test.astype(np.float32)]
    jobs: dict[str, tuple[Callable[[], Any], Any, Any]] = {
        "Ulmus": (lambda: NKELMRegressor(L, **ours), X, task.X_test),
        "Nystroem + Ridge": (lambda: nystroem_ridge(L, gamma, C_LARGE), X, task.X_test),
        "Ulmus, float32": (lambda: NKELMRegressor(L, **ours), *narrow),
    }
    fits: dict[str, list[float]] = {name: [] for name in jobs}
    asked: dict[str, list[float]] = {name: [] for name in jobs}
    products, routes = [], {}
    for _ in range(repeats):
        products.append(seconds(gemm(PRODUCT))[1])
        for name, (make, rows, test) in jobs.items():
            model, spent = seconds(lambda make=make, rows=rows: make().fit(rows, T))
            fits[name].append(spent)
            asked[name].append(seconds(lambda model=model, test=test: model.predict(test))[1])
            routes[name] = getattr(model, "route_", "-")
    fit, predict = ({k: statistics.median(v) for k, v in each.items()} for each in (fits, asked))
    floor = (n * L**2 + 2 * n * m * L) / (2 * PRODUCT**3 / statistics.median(products))
    return [
        (
            name,
            f"{fit[name]:.2f}",
            f"{fit[name] / fit['Ulmus']:.2f}",
            f"{floor / fit[name]:.2f}",
            f"{predict[name]:.2f}",
            f"{predict[name] / predict['Ulmus']:.2f}",
            str(routes[name]),
        )
        for name in jobs
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    raw = covtype(given.rows, given.rows // 4)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scaling, gamma, *_ in COVTYPE_CASES:
            found = case(raw.scaled(scaling), gamma, given.repeats)
            lines += [(f"{scaling}, gamma = {gamma:.4g}", *line) for line in found]
            print(markdown(HEADER, lines[-len(found) :]), flush=True)
    print(markdown(HEADER, lines))


if __name__ == "__main__":
    main()
