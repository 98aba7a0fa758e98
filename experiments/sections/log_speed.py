"""NKELM by squares and by log loss, C given, in the shape of CovType: processor seconds of both on one thread.

    python -m experiments.sections.log_speed [--rows 46481] [--landmarks 300] [--repeats 3] [--covtype]

Rows are drawn at random (54 columns), labels from the softmax of a network of seven outputs: as unsure as those of
CovType. The least of the repeated times counts. ``--covtype`` takes rows of CovType itself, scaled to [0, 1].
"""

import argparse
from time import process_time
from typing import Any

import numpy as np

from experiments.runner.protocol import markdown
from ulmus import NKELMClassifier
from ulmus.datasets import load

COLUMNS, CLASSES = 54, 7


def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, COLUMNS))
    F = 3.0 * np.tanh(X @ rng.normal(size=(COLUMNS, 50)) / np.sqrt(COLUMNS)) @ rng.normal(size=(50, CLASSES)) / 5.0
    return X, (F + rng.gumbel(size=F.shape)).argmax(axis=1)


def covtype(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of CovType, every column scaled to [0, 1]."""
    data = load("covtype")
    some = np.random.RandomState(0).permutation(len(data.target))[:n]
    X, y = np.asarray(data.data, dtype=float)[some], np.asarray(data.target)[some]
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0), y


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
    parser.add_argument("--covtype", action="store_true")
    given = parser.parse_args()
    (X, y), gamma = (covtype(given.rows), 1.0) if given.covtype else (drawn(given.rows), 0.01)
    rows = []
    for L in given.landmarks:
        models = {
            loss: NKELMClassifier(L, gamma=gamma, C=10.0, loss=loss, random_state=0, n_jobs=1)
            for loss in ("squared", "log")
        }
        squared, log = (seconds(model, X, y, given.repeats) for model in models.values())
        rows.append(
            (f"{given.rows:,} × {COLUMNS}, L = {L}", f"{squared:.2f} s", f"{log:.2f} s", f"{log / squared:.1f}")
        )
    print(markdown(("shape", "squared", "log", "ratio"), rows))


if __name__ == "__main__":
    main()
