"""Monotone adaptive models beside free ones: errors, and the time that it takes.

    python -m experiments.sections.monotone [--rows 1500] [--seeds 3]

Drawn rows (600, four inputs, noise of deviation 0.3) have truths that rise along the first input and fall along the
second; inner splits of development tables have directions that one would guess. The error of drawn rows is that of new
targets, noise included.
"""

import argparse
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from experiments.runner.protocol import NotHere, markdown
from experiments.tables import load_table
from ulmus import AdaptiveRegressor

DRAWN, NEW, NOISE = 600, 2_000, 0.3
#: A truth that rises along the first input and falls along the second.
TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "smooth": lambda X: np.tanh(2 * X[:, 0]) - np.exp(0.5 * X[:, 1]) + np.sin(2 * X[:, 2]),
    "steps": lambda X: np.floor(1.5 * X[:, 0]) - X[:, 1] + (X[:, 2] > 0),
    "waves of other inputs": lambda X: 2 * X[:, 0] - X[:, 1] + np.sin(6 * X[:, 2]) * np.cos(5 * X[:, 3]),
}
DIRECTIONS: dict[str, dict[str, int]] = {
    "Computers": {"speed": 1, "hd": 1, "ram": 1, "screen": 1},
    "concrete": {"cement": 1, "age": 1, "water": -1},
    "diamonds": {"carat": 1},
}


def drawn(truth: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[Any, ...]:
    """Rows and targets to fit and to be tested on."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (DRAWN + NEW, 4))
    y = truth(X) + NOISE * rng.normal(size=len(X))
    return X[:DRAWN], y[:DRAWN], X[DRAWN:], y[DRAWN:]


def compared(rows: tuple[Any, ...], directions: Any, seed: int) -> list[float]:
    """Errors of the monotone model over that of the free one, of boosted trees the same; fall, times of both.

    Times are those of the processor: seconds of the fits, and milliseconds of a prediction by the monotone model.
    """
    X, y, X_new, y_new = rows
    X_new, y_new = X_new[:NEW], y_new[:NEW]

    def error(model: Any) -> float:
        return float(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)))

    errors, seconds, model = [], [], None
    for given in (None, directions):
        began, model = process_time(), AdaptiveRegressor(monotonic_cst=given, random_state=seed, n_jobs=1).fit(X, y)
        seconds.append(process_time() - began)
        began = process_time()
        errors.append(error(model))
    each = 1e3 * (process_time() - began) / len(y_new)
    common = {"categorical_features": "from_dtype", "random_state": seed}
    trees = [
        error(HistGradientBoostingRegressor(monotonic_cst=given, **common).fit(X, y)) for given in (None, directions)
    ]
    fall = float(model.monotone_violation_)
    return [errors[1] / errors[0], trees[1] / trees[0], trees[0] / errors[0], fall, *seconds, each]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []

    def told(name: str, found: list[list[float]]) -> None:
        mean = np.mean(found, axis=0)
        cells = (f"{v:.3f}" for v in mean[:3])
        lines.append((name, *cells, f"{max(one[3] for one in found):.0e}", *(f"{v:.1f}" for v in mean[4:])))
        print(lines[-1], flush=True)

    for name, truth in TRUTHS.items():
        told(name, [compared(drawn(truth, seed), [1, -1, 0, 0], seed) for seed in range(given.seeds)])
    for name, directions in DIRECTIONS.items():
        try:
            tasks = [load_table(f"{name}@{given.rows}", seed, inner=True) for seed in range(given.seeds)]
        except NotHere:
            print(f"{name} is not at hand")
            continue
        rows = [(task.X, task.y, task.X_test, task.y_test) for task in tasks]
        told(name, [compared(each, directions, seed) for seed, each in enumerate(rows)])
    header = ("", "monotone / free", "trees, monotone / free", "trees / ours, free", "largest fall", "s, free")
    print(markdown((*header, "s, monotone", "ms a prediction"), lines))


if __name__ == "__main__":
    main()
