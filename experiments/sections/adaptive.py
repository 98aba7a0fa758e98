"""Section (ac): adaptive models on tables of odd shapes.

Each table is fitted in a process of its own, beside HistGradientBoosting with 500 trees and early stopping: seconds and
peak memory above the input, and the error on rows that were held back. What the adaptive models are good for on real
tables is told by ``ulmus bench --suite tabular``. One table by one model, with its processor seconds, is

    python -m experiments.sections.adaptive "a million rows" default
"""

import json
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from experiments.runner.measure import peak_above_now, timed
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section, in_a_process
from ulmus import AdaptiveClassifier, AdaptiveRegressor

#: Features, targets, and which columns are categories.
Table = tuple[np.ndarray, np.ndarray, list[int]]
TEST_ROWS = 2_000


def normal(n: int, d: int) -> np.ndarray:
    """Standard normal features."""
    return np.random.RandomState(0).standard_normal((n, d))


def answer(X: np.ndarray) -> np.ndarray:
    """Waves in the first two features (the first alone, if there is no other), and noise."""
    second = X[:, min(1, X.shape[1] - 1)]
    return np.sin(3 * X[:, 0]) + second**2 + 0.1 * np.random.RandomState(1).standard_normal(len(X))


def numbers(n: int, d: int) -> Table:
    X = normal(n, d)
    return X, answer(X), []


def categories(n: int, d: int) -> Table:
    """Codes of categories of 2 to 40 levels; two of them decide, together."""
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randint(0, 2 + 38 * j // max(d - 1, 1), n) for j in range(d)]).astype(float)
    return X, (X[:, 1] % 3 + X[:, 2] % 4 > 2).astype(int), list(range(d))


def constants(n: int, d: int) -> Table:
    X = normal(n, d)
    X[:, 2:] = 7.0
    return X, answer(X), []


def duplicates(n: int, d: int) -> Table:
    """A hundred copies of every row, each with a target of its own."""
    X = np.repeat(normal(n // 100 + 20, d), 100, axis=0)[:n]
    return X, answer(X), []


def holes(n: int, d: int) -> Table:
    X = normal(n, d)
    y = answer(X)
    X[np.random.RandomState(2).uniform(size=X.shape) < 0.2] = np.nan
    return X, y, []


#: name → (table, training rows, columns)
TABLES: dict[str, tuple[Callable[[int, int], Table], int, int]] = {
    "100 rows": (numbers, 100, 6),
    "one feature": (numbers, 5_000, 1),
    "500 features": (numbers, 5_000, 500),
    "categories only": (categories, 5_000, 8),
    "constant columns": (constants, 5_000, 20),
    "a hundred copies of each row": (duplicates, 20_000, 6),
    "a fifth of the numbers missing": (holes, 5_000, 6),
    "100,000 rows": (numbers, 100_000, 10),
    "a million rows": (numbers, 1_000_000, 10),
}


def contestant(name: str, classes: bool, codes: list[int]) -> Any:
    """An unfitted model."""
    if name == "boosted":
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        options = {"max_iter": 500, "learning_rate": 0.05, "early_stopping": True}
        return kind(**options, categorical_features=codes or None, random_state=0)
    kind = AdaptiveClassifier if classes else AdaptiveRegressor
    return kind(effort=name, categorical_features=codes or "from_dtype", random_state=0)


def measure(table_name: str, model_name: str, quick: bool) -> dict[str, float]:
    """Seconds, peak memory and error of one model on one table."""
    make, n, d = TABLES[table_name]
    n = min(n, 2_000) if quick else n
    X, y, codes = make(n + TEST_ROWS, d)
    order = np.random.RandomState(3).permutation(len(y))
    train, test = order[:n], order[n:]
    X_train, y_train = X[train], y[train]
    classes = y.dtype.kind == "i"
    model = contestant(model_name, classes, codes)
    seconds, began = list[float](), process_time()
    peak = peak_above_now(lambda: seconds.append(timed(lambda: model.fit(X_train, y_train))[1]))
    processor = process_time() - began
    wrong = model.predict(X[test]) - y[test]
    error = 100 * float(np.mean(wrong != 0)) if classes else float(np.sqrt(np.mean(wrong**2)) / y.std())
    about = {"megabytes": peak, "error": error, "input": X_train.nbytes / 1e6}
    return {"seconds": seconds[0], "processor": processor, **about}


def odd_tables(section: Section, options: Options) -> None:
    """All tables, each fitted by three models."""
    section.say(
        "Made tables; error on 2,000 rows held back, as a share of the deviation of the targets (noise alone is about "
        "0.07), for categories % wrong. *Boosted* is HistGradientBoosting with 500 trees and early stopping. MB are "
        "the peak of the fit above the input. Every fit is measured once: seconds are for their order."
    )
    rows = []
    for name, (_, n, d) in TABLES.items():
        found = {}
        for model in ("default", "fast", "boosted"):
            found[model] = in_a_process("adaptive", name, model, *(["quick"] * options.quick))
        cells = [
            f"{f['seconds']:.3g} s, {f['megabytes']:.0f} MB, {f['error']:.3g}"
            for f in (found["default"], found["fast"], found["boosted"])
        ]
        rows.append((name, f"{n:,} × {d}", f"{found['default']['input']:.0f}", *cells))
        print(*rows[-1], sep=" | ", flush=True)
    section.say(markdown(("table", "rows × columns", "input, MB", "default", "fast", "boosted"), rows))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], len(sys.argv) > 3)))
