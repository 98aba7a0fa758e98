"""NKELM by squares and by log loss, C given, in the shape of CovType: processor seconds of both on one thread.

    python -m experiments.sections.log_speed [--rows 46481] [--landmarks 300] [--repeats 3]

Rows are drawn at random (54 columns), labels from the softmax of a network of seven outputs: as unsure as those of
CovType. The least of the repeated times counts.
"""

import argparse
from time import process_time
from typing import Any

import numpy as np

from experiments.runner.protocol import markdown
from ulmus import NKELMClassifier

COLUMNS, CLASSES = 54, 7


def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, COLUMNS))
    F = 3.0 * np.tanh(X @ rng.normal(size=(COLUMNS, 50)) / np.sqrt(COLUMNS)) @ rng.normal(size=(50, CLASSES)) / 5.0
    return X, (F + rng.gumbel(size=F.shape)).argmax(axis=1)


def seconds(model: Any, X: np.ndarray, y: np.ndarray, repeats: int) -> float:
    """The least processor time of a fit."""
    times = []
    for _ in range(repeats):
        began = process_time()
        model.fit(X, y)
        times.append(process_time() - began)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=46_481)
    parser.add_argument("--landmarks", type=int, nargs="+", default=[300])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    X, y = drawn(given.rows)
    rows = []
    for L in given.landmarks:
        models = {
            loss: NKELMClassifier(L, gamma=0.01, C=10.0, loss=loss, random_state=0, n_jobs=1)
            for loss in ("squared", "log")
        }
        squared, log = (seconds(model, X, y, given.repeats) for model in models.values())
        rows.append(
            (f"{given.rows:,} × {COLUMNS}, L = {L}", f"{squared:.2f} s", f"{log:.2f} s", f"{log / squared:.1f}")
        )
    print(markdown(("shape", "squared", "log", "ratio"), rows))


if __name__ == "__main__":
    main()
