"""Processor seconds of self-tuned models on small tables, and of single rows, where the machine is not idle.

    python -m experiments.sections.small_pace [--repeats N] [--rows | --letter] [model ...]

Tables are drawn: a smooth function of four columns with noise, beside columns that say nothing; labels are its sign, or
five intervals of it. Figures are the least of the repetitions, of all threads. With ``--rows`` they are microseconds of
one row that `OSELMRegressor(1000)` learns, and of one that it predicts before, beside the time to touch its triangle.
With ``--letter`` the table is a real one of many classes, 1,500 rows of `letter`, standardised, and models have the log
loss; beside the seconds stand C, gamma and the log loss of further training rows, on which nothing was fitted.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from experiments.runner.protocol import markdown
from experiments.sections.online_speed import learner, ours, prequential, rows_of
from experiments.tables import load_table
from ulmus import (
    ELMClassifier,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    RobustNKELMRegressor,
)

SHAPES = ((100, 5), (500, 10), (2_000, 20), (5_000, 50))
#: Name, class, options, number of classes (0: a regression).
MODELS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "NKELM": (NKELMRegressor, {}, 0),
    "NKELM, 2 classes": (NKELMClassifier, {}, 2),
    "NKELM, 5 classes": (NKELMClassifier, {}, 5),
    "NKELM, log, 2 classes": (NKELMClassifier, {"loss": "log"}, 2),
    "NKELM, log, 5 classes": (NKELMClassifier, {"loss": "log"}, 5),
    "RobustNKELM": (RobustNKELMRegressor, {}, 0),
    "ELM": (ELMRegressor, {}, 0),
    "ELM, 5 classes": (ELMClassifier, {}, 5),
    "KELM": (KELMRegressor, {}, 0),
    "KELM, 5 classes": (KELMClassifier, {}, 5),
}


def table(n: int, p: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets, or labels."""
    rng = np.random.RandomState(n + p)
    X = rng.normal(size=(n, p))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.3 * rng.normal(size=n)
    borders = {0: None, 2: [0.0], 5: [-1.0, -0.3, 0.3, 1.0]}[classes]
    return X, y if borders is None else np.digitize(y, borders)


def least(work: Callable[[], Any], repeats: int) -> float:
    """Processor seconds, the least of several runs."""
    seconds = []
    for _ in range(repeats):
        began = process_time()
        work()
        seconds.append(process_time() - began)
    return min(seconds)


def tables(names: list[str], repeats: int) -> str:
    """Seconds of every model and shape."""
    lines = []
    for name in names:
        model, options, classes = MODELS[name]
        line = [name]
        for n, p in SHAPES:
            X, y = table(n, p, classes)
            fit = partial(model(**options, random_state=0).fit, X, y)
            line.append(f"{least(fit, repeats):.2f}")
        lines.append(line)
    return markdown(("model", *(f"{n} × {p}" for n, p in SHAPES)), lines)


def single_rows(repeats: int, L: int = 1000, n: int = 1_000) -> str:
    """Microseconds of a row, and of the triangle that it changes."""
    X, y = rows_of(n, seed=3)
    triangle = np.ones(L * (L + 1) // 2)
    touched = least(lambda: [np.multiply(triangle, 1.0000001, out=triangle) for _ in range(50)], 20 * repeats) / 50
    learned = least(learner(ours(L), X, y, 1), repeats) / n
    predicted = least(prequential(ours(L), X, y), repeats) / n
    lines = [
        ("learned", f"{1e6 * learned:.0f}", f"{touched / learned:.2f}"),
        ("predicted, then learned", f"{1e6 * predicted:.0f}", f"{touched / predicted:.2f}"),
        ("the triangle read and written", f"{1e6 * touched:.0f}", "1.00"),
    ]
    return markdown((f"one row, L = {L}", "µs", "of the floor's rate"), lines)


def many_classes(repeats: int, n: int = 1_500) -> str:
    """Seconds of log models of 26 classes, and what they chose."""
    task = load_table("letter", 1, inner=True)
    scaler = StandardScaler().fit(task.X[:n])
    X, X_test = scaler.transform(task.X[:n]), scaler.transform(task.X_test)
    lines = []
    for model in (NKELMClassifier, KELMClassifier):
        fitted = model(loss="log", random_state=0)
        seconds = least(partial(fitted.fit, X, task.y[:n]), repeats)
        left = log_loss(task.y_test, fitted.predict_proba(X_test))
        chosen = (f"{fitted.C_:g}", f"{fitted.gamma_:.3g}", f"{left:.4f}")
        lines.append((f"{model.__name__}, log", f"{seconds:.1f}", *chosen))
    return markdown((f"letter, {n} rows", "seconds", "C", "gamma", "log loss"), lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--letter", action="store_true")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if given.letter:
            print(many_classes(given.repeats))
        else:
            print(single_rows(given.repeats) if given.rows else tables(given.models, given.repeats))


if __name__ == "__main__":
    main()
