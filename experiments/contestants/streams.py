"""Who learns from a stream, and how it is run: every row is predicted before it is learned."""

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np

import ulmus
from experiments.tasks import Task

#: Rows that our models take at a time.
BLOCK = 20
#: Nodes of pyoselm, which cannot choose.
NODES = 200


class Learner(Protocol):
    """What runs through a stream; it takes ``block`` rows at a time, after single ones at the start."""

    block: int

    def predict(self, X: np.ndarray) -> np.ndarray: ...

    def learn(self, X: np.ndarray, y: np.ndarray) -> None: ...


class Scaler:
    """Mean and deviation of the rows so far, by river's formulas."""

    def __init__(self, m: int) -> None:
        self.n, self.mean, self.square = 0, np.zeros(m), np.zeros(m)

    def learn(self, X: np.ndarray) -> None:
        for x in X:
            self.n += 1
            step = x - self.mean
            self.mean += step / self.n
            self.square += step * (x - self.mean)

    def transform(self, X: np.ndarray) -> np.ndarray:
        deviation = np.sqrt(self.square / max(self.n, 1))
        return (X - self.mean) / np.where(deviation > 0, deviation, 1.0)


class InBlocks:
    """A model with ``partial_fit`` on scaled rows; the inputs (not the targets) of the present rows scale as well.

    A model that must begin on ``first`` rows gets them at once; until then the first target is the answer.
    """

    block = BLOCK

    def __init__(self, model: Any, classes: list[Any] | None = None, *, first: int = 1) -> None:
        self.model, self.first = model, first
        self.announced = {"classes": classes} if classes is not None else {}
        self.scaler: Scaler | None = None
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self.begun = False

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.scaler = self.scaler or Scaler(X.shape[1])
        self.scaler.learn(X)
        self.rows = self.scaler.transform(X)
        if self.begun:
            return np.asarray(self.model.predict(self.rows)).reshape(len(X))
        return np.full(len(X), self.waiting[0][1][0] if self.waiting else 0)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        rows = self.rows
        if not self.begun:
            self.waiting.append((rows, y))
            if sum(len(t) for _, t in self.waiting) < self.first:
                return
            rows, y = (np.concatenate(parts) for parts in zip(*self.waiting))
        self.model.partial_fit(rows, y, **({} if self.begun else self.announced))
        self.begun = True


class OneByOne:
    """A river model: one row at a time, as a dictionary."""

    block = 1

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.row = dict(enumerate(X[0].tolist()))
        guess = self.model.predict_one(self.row)
        return np.array([0 if guess is None else guess])

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.learn_one(self.row, y[0].item())


def prequential(learner: Learner, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, float]:
    """What was predicted for every row before it was learned, and the seconds of learning and of predicting."""
    predicted = np.empty(len(y), dtype=y.dtype)
    starts = [*range(BLOCK), *range(BLOCK, len(y), learner.block)]
    learning = predicting = 0.0
    for start, stop in pairwise([*starts, len(y)]):
        part = slice(start, stop)
        began = perf_counter()
        predicted[part] = learner.predict(X[part])
        between = perf_counter()
        learner.learn(X[part], y[part])
        predicting += between - began
        learning += perf_counter() - between
    return predicted, learning, predicting


def _classes(task: Task) -> list[Any] | None:
    return None if task.kind == "regression" else np.unique(task.y).tolist()


def _of(task: Task, family: Any, name: str) -> Any:
    """The regressor or classifier of a family."""
    return getattr(family, f"{name}{'Regressor' if task.kind == 'regression' else 'Classifier'}")


def ours(name: str, *sizes: int, **options: Any) -> Callable[[Task, int], Learner]:
    """A model of ours, which chooses its parameters on the first rows."""
    return lambda task, seed: InBlocks(_of(task, ulmus, name)(*sizes, random_state=seed, **options), _classes(task))


def pyoselm(task: Task, seed: int) -> Learner:
    """pyoselm begins on rows enough for its nodes."""
    options: dict[str, Any] = {"n_hidden": NODES, "activation_func": "tanh", "random_state": seed}
    if task.kind != "regression":
        from sklearn.preprocessing import LabelBinarizer

        options["binarizer"] = LabelBinarizer(neg_label=-1, pos_label=1)
    return InBlocks(_of(task, import_module("pyoselm"), "OSELM")(**options), first=int(1.2 * NODES))


def river(regressor: str, classifier: str | None = None, *, wrap: bool = False) -> Callable[[Task, int], Learner]:
    """A model of river by its path, behind its scaler; ``wrap`` for models of one scaled target, or of two classes."""

    def make(task: Task, seed: int) -> Learner:
        path = regressor if task.kind == "regression" else classifier or regressor
        module, _, name = path.rpartition(".")
        kind = getattr(import_module(f"river.{module}"), name)
        preprocessing, optim = import_module("river.preprocessing"), import_module("river.optim")
        if module != "linear_model":
            model = kind(seed=seed)
        else:
            model = kind(optim.Adam(0.01)) if name in ("LinearRegression", "LogisticRegression") else kind()
        if wrap and task.kind == "regression":
            model = preprocessing.TargetStandardScaler(model)
        elif wrap:
            model = import_module("river.multiclass").OneVsRestClassifier(model)
        return OneByOne(preprocessing.StandardScaler() | model)

    return make


STREAMS: dict[str, Callable[[Task, int], Learner]] = {
    "OSELM": ours("OSELM"),
    "OSELM, forgetting 0.9999": ours("OSELM", forgetting=0.9999),
    "NKELM.partial_fit, L = 300": ours("NKELM", 300),
    f"pyoselm, {NODES} nodes": pyoselm,
    "river linear (Adam)": river("linear_model.LinearRegression", "linear_model.LogisticRegression", wrap=True),
    "river Bayesian / passive": river("linear_model.BayesianLinearRegression", "linear_model.PAClassifier", wrap=True),
    "river HoeffdingAdaptiveTree": river("tree.HoeffdingAdaptiveTreeRegressor", "tree.HoeffdingAdaptiveTreeClassifier"),
    "river ARF": river("forest.ARFRegressor", "forest.ARFClassifier"),
}
