"""Data for the suites: official splits as far as they go, random ones otherwise, the same for every contestant."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import train_test_split

from ulmus import datasets
from ulmus.reproduce.protocol import Unavailable


@dataclass(frozen=True)
class Task:
    """One split of one data set."""

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
#: Sets that are streamed.
STREAMS = (
    *("cal_housing", "cpu_act", "house_16H", "abalone", "delta_elevators"),
    *("pendigits", "ijcnn1", "satimage", "letter", "shuttle", "covtype"),
)
#: Sets that come with the package, for a quick run.
EMBEDDED = ("satimage", "image_segmentation", "abalone")


def load(name: str, seed: int, *, kind: str | None = None, max_train: int = 500_000, max_test: int = 100_000) -> Task:
    """A split of a set; rows are shuffled, and at most so many are used."""
    if name not in datasets.list():
        raise Unavailable("no data here")
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
