"""The 24 estimators with settings drawn for small problems, small problems, and all that a fitted model answers."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import ulmus

LOSSES = ("sqrt", "huber", "logcosh", "cubic", "quartic", "polynomial", "squared")
FIRM = ("sqrt", "huber", "logcosh", "cubic", "quartic", "squared")
KERNELS = ("rbf", "laplacian", "matern32", "poly", "laplacian_l1", "arcsine")
ACTIVATIONS = ("tanh", "sigmoid", "relu", "sine", "gaussian", "multiquadric")
LANDMARKS = ("uniform", "kmeans", "rpcholesky", "leverage", "all")


def _one(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _ridge(rng: np.random.Generator) -> dict[str, Any]:
    return {"C": _one(rng, "auto", "auto", 10.0, 1e3), "fit_intercept": _one(rng, "auto", True)}


def _layer(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "activation": _one(rng, *ACTIVATIONS),
        "slope": _one(rng, "auto", 1.0),
        "direct_links": _one(rng, False, True),
    }


def _kernel(rng: np.random.Generator) -> dict[str, Any]:
    return {"kernel": _one(rng, *KERNELS), "gamma": _one(rng, "auto", 0.3)}


def _elm(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_hidden": _one(rng, 12, "auto"), **_layer(rng), **_ridge(rng)}


def _kelm(rng: np.random.Generator) -> dict[str, Any]:
    return {**_kernel(rng), **_ridge(rng)}


def _nkelm(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_landmarks": _one(rng, 12, "auto"), "landmarks": _one(rng, *LANDMARKS), **_kernel(rng), **_ridge(rng)}


def _oselm(rng: np.random.Generator) -> dict[str, Any]:
    online = {"form": _one(rng, "root", "covariance", "information"), "forgetting": _one(rng, 1.0, 1.0, 0.99)}
    return {"n_hidden": 12, **_layer(rng), **_ridge(rng), **online}


def _robust(rng: np.random.Generator) -> dict[str, Any]:
    return {"loss": _one(rng, *LOSSES), "C": "auto"}


def _discriminant(rng: np.random.Generator) -> dict[str, Any]:
    return {"head": _one(rng, "knn", "mean"), "C": _one(rng, "auto", 10.0)}


def _enda(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_hidden": 12, "features": _one(rng, "random", "nystrom"), **_discriminant(rng)}


def _ensemble(rng: np.random.Generator) -> dict[str, Any]:
    return {"estimator": ulmus.ENDA(10, head=_one(rng, "knn", "mean")), "n_members": 3}


#: Name → (task, settings); the class is the one of this name.
TABLE: dict[str, tuple[str, Callable[[np.random.Generator], dict[str, Any]]]] = {
    "RandomLayer": ("map", lambda rng: {"n_hidden": 12, "activation": _one(rng, *ACTIVATIONS)}),
    "NystromMap": ("map", lambda rng: {"n_landmarks": 12, "landmarks": _one(rng, *LANDMARKS), **_kernel(rng)}),
    "LearnedMetric": ("metric", lambda rng: {}),
    "ELMRegressor": ("regression", _elm),
    "KELMRegressor": ("regression", _kelm),
    "NKELMRegressor": ("regression", _nkelm),
    "OSELMRegressor": ("regression", lambda rng: {**_oselm(rng), "loss": _one(rng, "squared", *FIRM)}),
    "RobustELMRegressor": ("regression", lambda rng: {**_elm(rng), **_robust(rng)}),
    "RobustNKELMRegressor": ("regression", lambda rng: {**_nkelm(rng), **_robust(rng)}),
    "AdaptiveRegressor": ("regression", lambda rng: {"effort": "fast"}),
    "ELMClassifier": ("classification", _elm),
    "KELMClassifier": ("classification", _kelm),
    "NKELMClassifier": ("classification", _nkelm),
    "OSELMClassifier": ("classification", _oselm),
    "AdaptiveClassifier": ("classification", lambda rng: {"effort": "fast"}),
    "ENDA": ("classification", _enda),
    "ENDAEnsemble": ("classification", _ensemble),
    "KLDA": ("classification", lambda rng: {**_kernel(rng), **_discriminant(rng)}),
    "NNDA": ("classification", lambda rng: {"n_hidden": 8, "max_iter": 30, "head": _one(rng, "knn", "mean")}),
    "ELMOrdinalClassifier": ("ordinal", _elm),
    "KELMOrdinalClassifier": ("ordinal", _kelm),
    "NKELMOrdinalClassifier": ("ordinal", _nkelm),
    "OSELMOrdinalClassifier": ("ordinal", _oselm),
    "AdaptiveOrdinalClassifier": ("ordinal", lambda rng: {"effort": "fast"}),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An estimator with its settings, training rows, and rows to answer for."""

    name: str
    task: str
    settings: dict[str, Any]
    X: np.ndarray
    y: np.ndarray | None
    Q: np.ndarray

    def make(self, **changes: Any) -> Any:
        """The estimator, unfitted."""
        return getattr(ulmus, self.name)(**{**self.settings, **changes})

    def fit(self, X: Any, y: Any, weight: Any = None, **changes: Any) -> Any:
        """The estimator, fitted to rows."""
        return fitted(self.make(**changes), X, y, weight)

    def has(self, **facts: Any) -> bool:
        """Whether the settings are these, where they are given at all."""
        return all(self.settings.get(k, v) == v for k, v in facts.items())

    def __str__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings.items())
        if "estimator" in self.settings:  # whose repr leaves out what is as by default
            settings += f", C={self.settings['estimator'].C!r}"
        return f"{self.name}({settings}) on {self.X.shape[0]} × {self.X.shape[1]} rows"


def fitted(model: Any, X: Any, y: Any, weight: Any = None) -> Any:
    """Fit without a word."""
    with quiet():
        return model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings but those of digits that are lost, and NumPy's own."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for w in told:
        if issubclass(w.category, (ulmus.NumericalWarning, RuntimeWarning)):
            warnings.warn(w.message, w.category, stacklevel=2)


def draw(rng: np.random.Generator, name: str | None = None, n: int | None = None, m: int | None = None) -> Case:
    """An estimator and a small problem for it."""
    name = _one(rng, *TABLE) if name is None else name
    task, settings = TABLE[name]
    chosen = {**settings(rng), "random_state": int(rng.integers(1000))}
    if name not in ("NNDA",):
        chosen["n_jobs"] = 1
    n = int(rng.integers(30, 90)) if n is None else n
    m = int(rng.integers(1, 5)) if m is None else m
    X, Q = rng.normal(size=(n, m)), rng.normal(size=(20, m))
    tied = (
        rng.random() < 0.3 and "head" not in chosen and name != "ENDAEnsemble"
    )  # at ties neighbours come in any order
    if tied:  # a column of few values
        X[:, 0], Q[:, 0] = np.round(X[:, 0]), np.round(Q[:, 0])
    score = np.sin(2 * X[:, 0]) + X[:, -1] + 0.2 * rng.normal(size=n)
    return Case(name, task, chosen, X, _targets(rng, task, score), Q)


def _targets(rng: np.random.Generator, task: str, score: np.ndarray) -> np.ndarray | None:
    if task == "map":
        return None
    if task in ("regression", "metric"):
        several = task == "regression" and rng.random() < 0.2
        return np.column_stack([score, -score + rng.normal(size=len(score))]) if several else score
    classes = int(rng.integers(2, 5))
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    return np.searchsorted(cuts, score)


ASKED = ("decision_function", "predict_proba", "predict_cumulative", "transform", "residual_kernel", "predict_interval")


def answers(model: Any, Q: Any) -> dict[str, np.ndarray]:
    """All that a fitted model has to say of rows."""
    said = {}
    with quiet():
        for name in ("predict", *ASKED):
            round_off = name == "residual_kernel" and model.get_params().get("kernel") == "poly"  # of values like 1e12
            if hasattr(model, name) and not round_off:
                said[name] = np.asarray(getattr(model, name)(Q))
        for name in ("predict_set", "is_far"):
            if hasattr(model, name):
                try:
                    said[name] = np.asarray(getattr(model, name)(Q))
                except ValueError as refusal:
                    said[name] = np.array(str(refusal))
        if hasattr(model, "predict_interval"):
            said["deviation"] = np.asarray(model.predict(Q, return_std=True)[1])
    return said
