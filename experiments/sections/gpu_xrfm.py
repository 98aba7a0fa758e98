"""Adaptive models beside xRFM on the same GPU, and boosted trees on its cores.

    python -m experiments.sections.gpu_xrfm [ROWS ...] [--limit 200]

The first table of section (ah), waves in two of ten features, with as many rows as are asked for. Each contestant has a
process of its own, is warmed up on some thousand rows and stopped after ``--limit`` seconds. xRFM has its defaults, and
a fifth of the rows to validate on, as in the arena.
"""

import argparse
import multiprocessing
import warnings
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from experiments.runner.protocol import markdown
from experiments.sections.gpu_adaptive import boosted, error, fitted, waves
from experiments.sections.gpu_common import device_facts
from ulmus import AdaptiveRegressor

WARM_UP = 5_000
#: One row in this many validates.
HELD = 5


class XRFM:
    """xRFM on the GPU, with rows of its own to validate on."""

    def __init__(self) -> None:
        self.model = import_module("xrfm").xRFM(device="cuda", random_state=0)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "XRFM":
        held = np.arange(len(X)) % HELD == 0
        X, y = X.astype(np.float32), y.astype(np.float32)[:, None]
        self.model.fit(X[~held], y[~held], X[held], y[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ravel(self.model.predict(X.astype(np.float32)))


CONTESTANTS: dict[str, Callable[[], Any]] = {
    "Adaptive": lambda: AdaptiveRegressor(device="cuda", random_state=0),
    "xRFM": XRFM,
    "HistGradientBoosting, 500": lambda: boosted(classes=False),
}


def measured(who: str, rows: int, answer: Connection) -> None:
    """Send the seconds of a fit, and its error."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = waves(rows)
    CONTESTANTS[who]().fit(X[:WARM_UP], y[:WARM_UP]).predict(X_test[:100])
    model = CONTESTANTS[who]()
    seconds = fitted(model, X, y)
    answer.send((seconds, error(model, X_test, y_test)))


def within(who: str, rows: int, limit: float) -> tuple[str, str]:
    """Seconds and error as they are printed; none where it takes longer."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=measured, args=(who, rows, there))
    process.start()
    there.close()
    try:
        found = here.recv() if here.poll(limit) else None
    except EOFError:
        return "failed", ""
    finally:
        process.terminate()
        process.join()
    return (f"{found[0]:.3g}", f"{found[1]:.3g}") if found else (f"more than {limit:g}", "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int, default=[10**5, 10**6])
    parser.add_argument("--limit", type=float, default=200.0, help="seconds, warm-up included")
    given = parser.parse_args()
    print(device_facts()[0])
    lines = []
    for rows in given.rows:
        for who in CONTESTANTS:
            lines.append((f"{rows:,} × 10", who, *within(who, rows, given.limit)))
            print(*lines[-1], flush=True)
    print(markdown(("table", "", "fit, s", "error"), lines))


if __name__ == "__main__":
    main()
