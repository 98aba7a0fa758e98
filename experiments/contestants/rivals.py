"""What a user would pick instead. Those that do not come with scikit-learn are the extra ``[bench]``."""

from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

from experiments.contestants import ordinal
from experiments.contestants.common import Make, limited, pick, scaled
from experiments.contestants.frames import FRAMES, Prepared, few_levels
from experiments.runner.protocol import Unavailable
from experiments.tasks import Task


def hist_boosting(**options: Any) -> Make:
    def make(task: Task, seed: int) -> Any:
        model = pick(task, HistGradientBoostingRegressor, HistGradientBoostingClassifier)
        if isinstance(task.X, pd.DataFrame):
            return Prepared(few_levels, model(categorical_features="from_dtype", random_state=seed, **options))
        return model(categorical_features=list(task.categorical) or None, random_state=seed, **options)

    return make


class _LightGBM:
    """LightGBM with a tenth of the rows for early stopping."""

    def __init__(self, task: Task, seed: int, options: dict[str, Any]) -> None:
        self.task, self.seed, self.options = task, seed, options

    def fit(self, X: np.ndarray, y: np.ndarray) -> "_LightGBM":
        lightgbm: Any = import_module("lightgbm")
        kind = lightgbm.LGBMRegressor if self.task.kind == "regression" else lightgbm.LGBMClassifier
        categories = {"categorical_feature": list(self.task.categorical)} if self.task.categorical else {}
        self.model = kind(random_state=self.seed, verbose=-1, n_jobs=effective_n_jobs(-1), **self.options)
        if "n_estimators" not in self.options:
            self.model.fit(X, y, **categories)
            return self
        held = np.random.RandomState(self.seed).uniform(size=len(y)) < 0.1
        if not self.task.regression:  # a class of few rows is learned, not held back
            _, number, counts = np.unique(y, return_inverse=True, return_counts=True)
            held &= counts[number] >= 20
        stop = lightgbm.early_stopping(20, verbose=False)
        self.model.fit(X[~held], y[~held], eval_set=[(X[held], y[held])], callbacks=[stop], **categories)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(X)


def lightgbm(**options: Any) -> Make:
    def make(task: Task, seed: int) -> Any:
        import_module("lightgbm")  # say early that it is not there
        return _LightGBM(task, seed, options)

    return make


def _support_vectors(task: Task, seed: int) -> Any:
    """Parameters searched on 2,000 rows, then all rows."""
    machine = pick(task, SVR(), SVC())
    prefix = type(machine).__name__.lower()
    grid = {f"{prefix}__C": 4.0 ** np.arange(-1, 6), f"{prefix}__gamma": 4.0 ** np.arange(-5, 1)}
    pipeline = scaled(task, machine)
    search = GridSearchCV(pipeline, grid, cv=3).fit(task.X[:2000], task.y[:2000])
    return search.best_estimator_


def _kernel_ridge(task: Task, seed: int) -> Any:
    if task.kind != "regression":
        raise Unavailable("regression only")
    grid = {"kernelridge__alpha": 10.0 ** np.arange(-4, 2), "kernelridge__gamma": 4.0 ** np.arange(-5, 1)}
    pipeline = scaled(task, KernelRidge(kernel="rbf"))
    return GridSearchCV(pipeline, grid, cv=3).fit(task.X[:2000], task.y[:2000]).best_estimator_


def _nystroem(task: Task, seed: int) -> Any:
    ridge = pick(task, RidgeCV(10.0 ** np.arange(-6, 3)), RidgeClassifierCV(10.0 ** np.arange(-6, 3)))
    return scaled(task, make_pipeline(Nystroem(n_components=1000, random_state=seed), ridge))


def _network(task: Task, seed: int) -> Any:
    model = pick(task, MLPRegressor, MLPClassifier)(early_stopping=True, random_state=seed)
    return scaled(task, model)


def _xrfm(task: Task, seed: int) -> Any:
    return _Split(scaled(task, "passthrough"), import_module("xrfm").xRFM(device="cpu", random_state=seed), seed)


class _Split:
    """For models that want rows of their own to validate on."""

    def __init__(self, scaler: Any, model: Any, seed: int) -> None:
        self.scaler, self.model, self.seed = scaler, model, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> "_Split":
        Z = self.scaler.fit_transform(X).astype(np.float32)
        held = np.random.RandomState(self.seed).uniform(size=len(y)) < 0.2
        self.model.fit(Z[~held], y[~held], Z[held], y[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(self.scaler.transform(X).astype(np.float32))).reshape(len(X))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self.scaler.transform(X).astype(np.float32)))


def _huber(task: Task, seed: int) -> Any:
    return scaled(task, make_pipeline(Nystroem(n_components=300, random_state=seed), HuberRegressor(max_iter=1000)))


def _ordered(name: str) -> Make:
    """A rival of the ordinal models, on scaled rows."""
    return lambda task, seed: scaled(task, ordinal.METHODS[name](seed))


RIVALS: dict[str, Make] = {
    **FRAMES,
    "LightGBM": lightgbm(),
    "LightGBM, 500 trees": lightgbm(n_estimators=500, learning_rate=0.05),
    "LightGBM, 255 leaves": lightgbm(n_estimators=500, learning_rate=0.1, num_leaves=255),
    "HistGradientBoosting": hist_boosting(),
    "HistGradientBoosting, 500": hist_boosting(max_iter=500, learning_rate=0.05, early_stopping=True),
    "SVC/SVR": limited(20_000, _support_vectors),
    "KernelRidge": limited(10_000, _kernel_ridge),
    "Nystroem + Ridge": _nystroem,
    "MLP": _network,
    "xRFM": limited(10_000, _xrfm),
    "SVR": limited(10_000, _support_vectors),
    "Nystroem + Huber": _huber,
    "HistGradientBoosting, absolute": hist_boosting(loss="absolute_error"),
    "mord LogisticAT": _ordered("mord LogisticAT"),
    "skordinal SVOR": limited(2_000, _ordered("skordinal SVOR")),
    "HistGradientBoosting, rounded": lambda task, seed: ordinal.METHODS["HistGB, rounded"](seed),
}
