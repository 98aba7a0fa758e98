"""Section (ah): adaptive models on a GPU: seconds, memory and errors beside boosted trees.

Three tables: a million rows of ten features (that of section (ac)), ten million of 28 (that of sections (x) and (y)),
and CovType, covtype.parquet in the folder ULMUS_DATA, a fifth of its rows for the test. *Boosted* is
HistGradientBoosting with 500 trees and early stopping on all cores. Seconds are those of ``fit``; PyTorch, CUDA and the
kernels are warmed up on smaller problems first, as are threads. Adaptive models alone, each fit twice, are

    python -m experiments.sections.gpu_adaptive
"""

import gc
import os
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.gpu_common import device_facts, problem
from experiments.sections.problems import forest
from ulmus import AdaptiveClassifier, AdaptiveRegressor
from ulmus.models._effort import MANY_ROWS

#: Training rows and targets, test rows and targets.
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
TEST_ROWS = 10_000


def waves(n: int) -> Table:
    """Waves in two of ten features, and noise: about 0.07 of the deviation of the targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + TEST_ROWS, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))
    return X[:n], y[:n], X[n:], y[n:]


def million(options: Options) -> Table:
    """A million rows of waves."""
    return waves(options.rows(10**6))


def ten_million(options: Options) -> Table:
    """A smooth function of eight of 28 features, and noise; errors are those from the function itself."""
    return problem(options.rows(10**7), 28)


def covtype(options: Options) -> Table:
    """Seven kinds of forest; a fifth of the rows is the test."""
    return forest(options.rows)


#: name → (table, gigabytes that the model may hold, seconds that are aimed at)
TABLES: dict[str, tuple[Callable[[Options], Table], float, float]] = {
    "10⁶ × 10": (million, 2.0, 4.0),
    "CovType": (covtype, 2.0, 6.0),
    "10⁷ × 28": (ten_million, 8.0, 40.0),
}


def error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """% of labels that are wrong, or the root mean squared error as a share of the deviation of the targets."""
    found = model.predict(X)
    if y.dtype.kind == "i":
        return 100 * float(np.mean(found != y))
    return float(np.sqrt(np.mean((found - y) ** 2)) / y.std())


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of a fit."""
    gc.collect()
    began = perf_counter()
    model.fit(X, y)
    return perf_counter() - began


def boosted(*, classes: bool) -> Any:
    """HistGradientBoosting with 500 trees and early stopping."""
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=500, learning_rate=0.05, early_stopping=True, random_state=0)


def warm_up() -> None:
    X, y, _, _ = problem(MANY_ROWS, 10)
    AdaptiveRegressor(device="cuda", random_state=0).fit(X, y).predict(X)
    X, y = X[:60_000], y[:60_000]
    AdaptiveClassifier(device="cuda", random_state=0).fit(X, np.digitize(y, [0.0, 1.0])).predict(X)


def ours(table: Table, gigabytes: float) -> tuple[Any, tuple[float, float, float, float]]:
    """A fitted model; its seconds, peak of GPU memory in GiB, error, and seconds of the test rows."""
    X, y, X_test, y_test = table
    kind = AdaptiveClassifier if y.dtype.kind == "i" else AdaptiveRegressor
    model = kind(device="cuda", max_memory=gigabytes, random_state=0, verbose=True)
    torch.cuda.reset_peak_memory_stats()
    seconds = fitted(model, X, y)
    peak = torch.cuda.max_memory_allocated() / 2**30
    began = perf_counter()
    wrong = error(model, X_test, y_test)
    return model, (seconds, peak, wrong, perf_counter() - began)


def adaptive(section: Section, options: Options) -> None:
    """All tables, by an adaptive model on the GPU and by boosted trees on all cores."""
    warnings.simplefilter("ignore")
    section.say(f"{device_facts()[0]}; {os.cpu_count()} cores. Defaults, but for the size that the model may have.")
    warm_up()
    lines = []
    for name, (make, gigabytes, aim) in TABLES.items():
        X, y, X_test, y_test = table = make(options)
        classes = y.dtype.kind == "i"
        model, (seconds, peak, wrong, asked) = ours(table, gigabytes)
        trees = boosted(classes=classes)
        boosted_seconds, local = fitted(trees, X, y), model.local_
        lines.append(
            (
                *(name, f"{seconds:.3g}", f"{peak:.1f}", f"{wrong:.3g}", f"{asked:.2g}"),
                "none" if local is None else f"{local.partitions[0].n_leaves} × {len(local.partitions)}",
                *(f"{boosted_seconds:.3g}", f"{error(trees, X_test, y_test):.3g}"),
            )
        )
        print(*lines[-1], sep=" | ", flush=True)
        section.claim(f"{name}, seconds", seconds, aim, at_least=False, quick=options.quick)
    head = ("table", "fit, s", "GPU memory, GiB", "error", "test rows, s", "leaves", "boosted: fit, s", "error")
    section.say(markdown(head, lines))
    section.say("Errors are % wrong for CovType, else shares of the deviation of the targets.")


def alone() -> None:
    """All tables, each fitted twice."""
    warnings.simplefilter("ignore")
    warm_up()
    for name, (make, gigabytes, _) in TABLES.items():
        table = make(Options())
        for _ in range(2):
            seconds, peak, wrong, asked = ours(table, gigabytes)[1]
            print(
                f"{name}: fit {seconds:.3g} s, {peak:.1f} GiB, error {wrong:.4g}, test rows {asked:.2g} s", flush=True
            )


if __name__ == "__main__":
    alone()
