"""Generated rows, and CovType, on which speed, memory and digits are measured."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.preprocessing import StandardScaler

from experiments.tasks import Task
from ulmus import datasets

#: CovType as in Table 1 of the NKELM document.
COVTYPE_TRAIN, COVTYPE_TEST, COVTYPE_FEATURES, COVTYPE_CLASSES = 464_810, 116_202, 54, 7


def mixture(n: int, n_features: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around five centres per class, in an 8-dimensional subspace plus noise."""
    rng = np.random.RandomState(seed)
    centres = rng.standard_normal((5 * n_classes, 8)) @ rng.standard_normal((8, n_features))
    which = rng.randint(len(centres), size=n)
    X = np.empty((n, n_features))
    for start in range(0, n, 10_000):
        rows = slice(start, start + 10_000)
        X[rows] = centres[which[rows]] + 1.5 * rng.standard_normal((len(which[rows]), n_features))
    return X, which % n_classes


def covtype(n_train: int = COVTYPE_TRAIN, n_test: int = COVTYPE_TEST) -> Task:
    """CovType in random order, or generated rows of its shape where the real ones are not at hand."""
    if "covtype" in datasets.list():
        real = datasets.load("covtype")
        order = np.random.RandomState(0).permutation(len(real.data))
        X, y, origin = real.data[order], real.target[order], "real CovType"
    else:
        X, y = mixture(n_train + n_test, COVTYPE_FEATURES, COVTYPE_CLASSES)
        origin = "generated rows of CovType's shape (set ULMUS_DATA for the real ones)"
    test = slice(n_train, n_train + n_test)
    return Task(origin, "classification", X[:n_train], y[:n_train], X[test], y[test])


def forest(rows: Callable[[int], int] = int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """CovType from covtype.parquet in the folder ULMUS_DATA, as it is: rows to learn from, and a fifth for the test."""
    whole = pq.read_table(Path(os.environ.get("ULMUS_DATA", ".")) / "covtype.parquet")
    names = [name for name in whole.column_names if name != "target" and not name.startswith("split")]
    X, y = np.column_stack([whole[name].to_numpy() for name in names]).astype(float), whole["target"].to_numpy()
    order = np.random.RandomState(0).permutation(len(y))[: rows(len(y))]
    test, train = np.split(order, [len(order) // 5])
    return X[train], y[train], X[test], y[test]


def quantile_classes(y: np.ndarray, count: int = 5) -> np.ndarray:
    """Ranks 1 … count with equal frequency; rows that tie with a quantile go above it."""
    return np.searchsorted(np.quantile(y, np.arange(1, count) / count), y, side="right") + 1


def elevation(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """CovType's other features and the quintile of its elevation, standardised; past its rows, repeats with noise."""
    task = covtype(581_012, 0)
    X, y = StandardScaler().fit_transform(task.X[:, 1:]), quantile_classes(task.X[:, 0])
    out = np.empty((n, X.shape[1]))
    for start in range(0, n, len(X)):
        part = out[start : start + len(X)]
        part[:] = X[: len(part)]
        if start:
            rng = np.random.RandomState(seed + start)
            for rows in range(0, len(part), 10_000):
                part[rows : rows + 10_000] += 0.1 * rng.standard_normal(part[rows : rows + 10_000].shape)
    return out, np.resize(y, n)


def smooth(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows and a smooth function of them, with a little noise."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, n_features))
    W = rng.standard_normal((n_features, 3)) / np.sqrt(n_features)
    return X, np.sin(X @ W).sum(axis=1, keepdims=True) + 0.1 * rng.standard_normal((n, 1))


def curve(x: Any) -> np.ndarray:
    """The smooth function of one variable on which squared condition numbers show."""
    return np.sin(6 * x) * np.exp(x / 2)
