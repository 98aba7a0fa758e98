"""The data that models are compared on: one split of one set is a task, the same for every contestant."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from experiments.runner.protocol import NotHere
from ulmus import datasets

SCALERS = {"standardised": StandardScaler, "scaled to [0, 1]": MinMaxScaler}


@dataclass(frozen=True)
class Task:
    """One split of one data set; the rows of the arena are frames, whose columns have dtypes."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    categorical: tuple[int, ...] = ()

    def first(self, n: int) -> "Task":
        """The same task with the first rows to train on; of a stream, the first rows."""
        whole = self.X_test is self.X
        X_test, y_test = (self.X[:n], self.y[:n]) if whole else (self.X_test, self.y_test)
        return replace(self, X=self.X[:n], y=self.y[:n], X_test=X_test, y_test=y_test)

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
        return replace(self, name=f"{self.name}, {how}", X=X, X_test=X_test)

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def T(self) -> np.ndarray:
        """One ±1 column per class."""
        return np.where(self.y[:, None] == self.classes, 1.0, -1.0)

    def accuracy(self, scores: np.ndarray) -> float:
        """Percentage of test rows whose largest score is that of their class."""
        return 100 * float(np.mean(self.classes[scores.argmax(axis=1)] == self.y_test))

    def percent(self, predicted: np.ndarray) -> float:
        """The error in per cent: of the targets' deviation in regression, of the test rows else."""
        return (100 if self.regression else 1) * self.error(predicted)

    def error(self, predicted: np.ndarray) -> float:
        """RMSE over the deviation of the test targets, mean absolute rank error, or error in per cent."""
        if self.kind == "regression":
            return float(np.sqrt(np.mean((predicted - self.y_test) ** 2)) / self.y_test.std())
        if self.kind == "ordinal":
            return float(np.abs(predicted.astype(float) - self.y_test).mean())
        return 100 * float(np.mean(predicted != self.y_test))


#: Official splits that test so many rows serve every seed; of smaller ones, each serves one, and random ones follow.
MANY_TESTED = 1_000
#: Columns that hold codes without order.
CATEGORICAL = {"adult": (1, 3, 5, 6, 7, 8, 9, 13), "abalone": (0,)}
CLASSIFICATION = (
    *("satimage", "image_segmentation", "waveform21", "sensorless_subset2200", "pendigits", "letter", "adult"),
    *("shuttle", "ijcnn1"),
)
#: Sets of which one split is enough: it takes minutes, and its test rows are many.
LARGE = ("skin_segmentation", "mnist", "covtype")
REGRESSION = (
    *("cal_housing", "cpu_act", "cpu_small", "house_8L", "house_16H", "abalone", "delta_ailerons", "delta_elevators"),
)
#: Sets of the ablation.
ABLATED = (
    *("cal_housing", "cpu_act", "house_16H", "abalone", "satimage"),
    *("image_segmentation", "letter", "waveform21", "orca_car", "adult"),
)
ORDINAL_LARGE = ("orca_ERA", "orca_car", "orca_LEV")
ORDINAL = (
    *(f"chu_{name}_5bins" for name in ("pyrimidines", "machine", "boston", "triazines", "autompg", "wisconsin")),
    *(f"orca_{name}" for name in ("ERA", "balance-scale", "car", "tae", "ESL", "LEV", "automobile", "newthyroid")),
)
#: Rows of a stream, at most, and sets that are streamed.
STREAM_ROWS = 10_000
STREAMS = (
    *("cal_housing", "cpu_act", "house_16H", "abalone", "delta_elevators"),
    *("pendigits", "ijcnn1", "satimage", "letter", "shuttle", "covtype"),
)
#: Sets that come with the package, for a quick run.
EMBEDDED = ("satimage", "image_segmentation", "abalone")


def load(name: str, seed: int, *, kind: str | None = None, max_train: int = 500_000, max_test: int = 100_000) -> Task:
    """A split of a set; rows are shuffled, and at most so many are used."""
    if name not in datasets.list():
        raise NotHere
    given = datasets.load(name)
    kind = kind or ("classification" if given.task == "ordinal" else given.task)
    rng = np.random.RandomState(seed)
    held = [int((~split).sum()) for split in given.splits]
    if seed < len(held) or max(held, default=0) >= MANY_TESTED:
        split = given.splits[seed % len(held)]
        train, test = rng.permutation(np.flatnonzero(split)), rng.permutation(np.flatnonzero(~split))
    else:
        labels = given.target if kind == "classification" else None
        rows, share = np.arange(len(given.target)), held[0] / len(given.target) if held else 0.2
        train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=labels)
    train, test = train[:max_train], test[:max_test]
    X, y = given.data, given.target
    return Task(name, kind, X[train], y[train], X[test], y[test], CATEGORICAL.get(name, ()))


def load_stream(name: str, seed: int) -> Task:
    """A set in random order: the rows of the stream are those to be tested on."""
    if name not in datasets.list():
        raise NotHere
    given = datasets.load(name)
    order = np.random.RandomState(seed).permutation(len(given.target))[:STREAM_ROWS]
    X, y = given.data[order].astype(float), given.target[order]
    kind = "regression" if given.task == "regression" else "classification"
    y = y.astype(float) if kind == "regression" else y
    return Task(name, kind, X, y, X, y)


def load_ordinal(name: str, seed: int) -> Task:
    """A set whose labels are ranks; a regression target is cut into five classes of equal frequency."""
    task = load(name, seed, kind="ordinal")
    if np.issubdtype(task.y.dtype, np.floating):
        cuts = np.quantile(task.y, [0.2, 0.4, 0.6, 0.8])
        y, y_test = np.searchsorted(cuts, task.y), np.searchsorted(cuts, task.y_test)
        return Task(name, "ordinal", task.X, y, task.X_test, y_test, task.categorical)
    return task


def load_contaminated(name: str, seed: int) -> Task:
    """A regression set with a tenth of its training targets replaced by values 2 to 10 ranges away."""
    task = load(name, seed, max_train=20_000)
    rng = np.random.RandomState(seed)
    y, middle, spread = task.y.astype(float), np.median(task.y), np.ptp(task.y)
    which = rng.permutation(len(y))[: len(y) // 10]
    y[which] = middle + spread * rng.choice([-1.0, 1.0], len(which)) * rng.uniform(2, 10, len(which))
    return Task(name, "regression", task.X, y, task.X_test, task.y_test, task.categorical)


def official(name: str) -> Task | None:
    """A real set with its official split, or None where it is not at hand."""
    if name not in datasets.list():
        return None
    given = datasets.load(name)
    return Task(name, given.task, *given.train, *given.test)


def random_split(name: str, seed: int, n_train: int | None = None, n_test: int | None = None) -> Task | None:
    """A real set in random order, two thirds to train on unless sizes are given; None where it is not at hand."""
    if name not in datasets.list():
        return None
    given = datasets.load(name)
    X, y = given.data, given.target
    if name == "abalone":  # one column of three sexes without order
        column = given.feature_names.index("Sex")
        X = np.column_stack([np.delete(X, column, axis=1), X[:, [column]] == np.unique(X[:, column])])
    order = np.random.RandomState(seed).permutation(len(X))
    n_train = 2 * len(X) // 3 if n_train is None else n_train
    train, test = order[:n_train], order[n_train:][:n_test]
    return Task(name, given.task, X[train], y[train], X[test], y[test])
