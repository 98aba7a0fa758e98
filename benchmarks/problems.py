"""The data that models are compared on."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ulmus import datasets

SCALERS = {"standardised": StandardScaler, "scaled to [0, 1]": MinMaxScaler}
#: CovType as in Table 1 of the NKELM document.
COVTYPE_TRAIN, COVTYPE_TEST, COVTYPE_FEATURES, COVTYPE_CLASSES = 464_810, 116_202, 54, 7


@dataclass(frozen=True)
class Task:
    """Rows and labels to learn from and to be tested on, and where they came from."""

    origin: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    regression: bool = False

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def T(self) -> np.ndarray:
        """One ±1 column per class."""
        return np.where(self.y[:, None] == self.classes, 1.0, -1.0)

    @property
    def real(self) -> bool:
        return not self.origin.startswith("generated")

    def first(self, n: int) -> "Task":
        """The same task with the first ``n`` training rows."""
        return replace(self, X=self.X[:n], y=self.y[:n])

    def take(self, rows: np.ndarray) -> "Task":
        """The same task with these training rows."""
        return replace(self, X=self.X[rows], y=self.y[rows])

    def tested_on(self, n: int) -> "Task":
        """The same task with the first ``n`` test rows."""
        return replace(self, X_test=self.X_test[:n], y_test=self.y_test[:n])

    def scaled(self, how: str) -> "Task":
        """The same task after a scaler of ``SCALERS``, fitted on the training rows."""
        scaler = SCALERS[how]().fit(self.X)
        X, X_test = scaler.transform(self.X), scaler.transform(self.X_test)
        return replace(self, origin=f"{self.origin}, {how}", X=X, X_test=X_test)

    def error(self, predicted: np.ndarray) -> float:
        """Percentage of wrong test labels, or the test RMSE as a percentage of the targets' deviation."""
        if self.regression:
            return 100 * float(np.sqrt(np.mean((predicted - self.y_test) ** 2)) / self.y_test.std())
        return 100 * float(np.mean(predicted != self.y_test))

    def accuracy(self, scores: np.ndarray) -> float:
        """Percentage of test rows whose largest score is that of their class."""
        return 100 * float(np.mean(self.classes[scores.argmax(axis=1)] == self.y_test))


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
    return Task(origin, X[:n_train], y[:n_train], X[test], y[test])


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


def official(name: str) -> Task | None:
    """A real set with its official split, or None where it is not at hand."""
    if name not in datasets.list():
        return None
    dataset = datasets.load(name)
    return Task(name, *dataset.train, *dataset.test)


def random_split(name: str, seed: int, n_train: int | None = None, n_test: int | None = None) -> Task | None:
    """A real set in random order, two thirds to train on unless sizes are given; None where it is not at hand."""
    if name not in datasets.list():
        return None
    dataset = datasets.load(name)
    X, y = dataset.data, dataset.target
    if name == "abalone":  # one column of three sexes without order
        column = dataset.feature_names.index("Sex")
        X = np.column_stack([np.delete(X, column, axis=1), X[:, [column]] == np.unique(X[:, column])])
    order = np.random.RandomState(seed).permutation(len(X))
    n_train = 2 * len(X) // 3 if n_train is None else n_train
    train, test = order[:n_train], order[n_train:][:n_test]
    return Task(name, X[train], y[train], X[test], y[test], dataset.task == "regression")


def smooth(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows and a smooth function of them, with a little noise."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, n_features))
    W = rng.standard_normal((n_features, 3)) / np.sqrt(n_features)
    return X, np.sin(X @ W).sum(axis=1, keepdims=True) + 0.1 * rng.standard_normal((n, 1))


def curve(x: Any) -> np.ndarray:
    """The smooth function of one variable on which squared condition numbers show."""
    return np.sin(6 * x) * np.exp(x / 2)
