"""Who takes part: our models without arguments, and what a user would pick. Rivals are the extra ``[bench]``."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

import ulmus
from ulmus.bench.tasks import Task
from ulmus.models._effort import EFFORTS
from ulmus.reproduce.protocol import Unavailable

#: A model for a task and a seed.
Make = Callable[[Task, int], Any]


def _scaled(task: Task, model: Any) -> Any:
    """Numbers standardised, categories one-hot: what a kernel or a network needs."""
    if not task.categorical:
        return make_pipeline(StandardScaler(), model)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, list(task.categorical)), remainder=StandardScaler())
    return make_pipeline(columns, model)


def _pick(task: Task, regressor: Any, classifier: Any) -> Any:
    return regressor if task.kind == "regression" else classifier


def _limited(rows: int, make: Make) -> Make:
    """For methods whose cost grows with the square of the rows."""

    def made(task: Task, seed: int) -> Any:
        if len(task.y) > rows:
            raise Unavailable(f"more than {rows:,} rows")
        return make(task, seed)

    return made


def adaptive(effort: str) -> Make:
    def make(task: Task, seed: int) -> Any:
        model = _pick(task, ulmus.AdaptiveRegressor, ulmus.AdaptiveClassifier)
        named = {"categorical_features": list(task.categorical)} if task.categorical else {}
        return model(effort=effort, random_state=seed, **named)

    return make


def adaptive_less(**less: Any) -> Make:
    """The default without one of its ingredients."""
    plain = EFFORTS["default"]
    budget = replace(plain.budget, **{k: v for k, v in less.items() if hasattr(plain.budget, k)})
    spent = replace(plain, budget=budget, **{k: v for k, v in less.items() if not hasattr(plain.budget, k)})

    def make(task: Task, seed: int) -> Any:
        model = adaptive("default")(task, seed)
        model._plan = spent
        return model

    return make


def nkelm(task: Task, seed: int) -> Any:
    return _scaled(task, _pick(task, ulmus.NKELMRegressor, ulmus.NKELMClassifier)(random_state=seed))


def elm(task: Task, seed: int) -> Any:
    return _scaled(task, _pick(task, ulmus.ELMRegressor, ulmus.ELMClassifier)(random_state=seed))


def kelm(task: Task, seed: int) -> Any:
    return _scaled(task, _pick(task, ulmus.KELMRegressor, ulmus.KELMClassifier)(random_state=seed))


def robust(task: Task, seed: int) -> Any:
    return _scaled(task, ulmus.RobustNKELMRegressor(random_state=seed))


def hist_boosting(**options: Any) -> Make:
    def make(task: Task, seed: int) -> Any:
        model = _pick(task, HistGradientBoostingRegressor, HistGradientBoostingClassifier)
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
        self.model = kind(random_state=self.seed, verbose=-1, n_jobs=-1, **self.options)
        if "n_estimators" not in self.options:
            self.model.fit(X, y, **categories)
            return self
        held = np.random.RandomState(self.seed).uniform(size=len(y)) < 0.1
        stop = lightgbm.early_stopping(20, verbose=False)
        self.model.fit(X[~held], y[~held], eval_set=[(X[held], y[held])], callbacks=[stop], **categories)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


def lightgbm(**options: Any) -> Make:
    def make(task: Task, seed: int) -> Any:
        import_module("lightgbm")  # say early that it is not there
        return _LightGBM(task, seed, options)

    return make


def _support_vectors(task: Task, seed: int) -> Any:
    """Parameters searched on 2,000 rows, then all rows."""
    machine = _pick(task, SVR(), SVC())
    prefix = type(machine).__name__.lower()
    grid = {f"{prefix}__C": 4.0 ** np.arange(-1, 6), f"{prefix}__gamma": 4.0 ** np.arange(-5, 1)}
    pipeline = _scaled(task, machine)
    search = GridSearchCV(pipeline, grid, cv=3).fit(task.X[:2000], task.y[:2000])
    return search.best_estimator_


def _kernel_ridge(task: Task, seed: int) -> Any:
    if task.kind != "regression":
        raise Unavailable("regression only")
    grid = {"kernelridge__alpha": 10.0 ** np.arange(-4, 2), "kernelridge__gamma": 4.0 ** np.arange(-5, 1)}
    pipeline = _scaled(task, KernelRidge(kernel="rbf"))
    return GridSearchCV(pipeline, grid, cv=3).fit(task.X[:2000], task.y[:2000]).best_estimator_


def _nystroem(task: Task, seed: int) -> Any:
    ridge = _pick(task, RidgeCV(10.0 ** np.arange(-6, 3)), RidgeClassifierCV(10.0 ** np.arange(-6, 3)))
    return _scaled(task, make_pipeline(Nystroem(n_components=1000, random_state=seed), ridge))


def _network(task: Task, seed: int) -> Any:
    model = _pick(task, MLPRegressor, MLPClassifier)(early_stopping=True, random_state=seed)
    return _scaled(task, model)


def _xrfm(task: Task, seed: int) -> Any:
    return _Split(_scaled_arrays(task), import_module("xrfm").xRFM(device="cpu", random_state=seed), seed)


def _scaled_arrays(task: Task) -> Any:
    return _scaled(task, "passthrough")


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


def _huber(task: Task, seed: int) -> Any:
    return _scaled(task, make_pipeline(Nystroem(n_components=300, random_state=seed), HuberRegressor(max_iter=1000)))


_500 = {"n_estimators": 500, "learning_rate": 0.05}

OURS: dict[str, Make] = {
    "Adaptive": adaptive("default"),
    "Adaptive, fast": adaptive("fast"),
    "NKELM": nkelm,
}
ABLATIONS: dict[str, Make] = {
    "Adaptive": adaptive("default"),
    "without the metric": adaptive_less(rounds=0),
    "without the local stage": adaptive_less(partitions=0),
    "one partition": adaptive_less(partitions=1),
    "standardised only": adaptive_less(preparations=("standard",)),
    "one kernel gets a metric": adaptive_less(kernels=1),
    "two rounds of the metric": adaptive_less(rounds=2),
    "kernels compared with few landmarks": adaptive_less(final_landmarks=(350, 350)),
    "without the additive candidate": adaptive_less(additive=False),
    "kernels compared on the rows of the metric": adaptive_less(fresh=False),
    "the global model does not grow": adaptive_less(grows=False),
    "leaves of one size": adaptive_less(wide_leaf_rows=1_500),
}
BOOSTERS: dict[str, Make] = {
    "LightGBM": lightgbm(),
    "LightGBM, 500 trees": lightgbm(**_500),
    "LightGBM, 255 leaves": lightgbm(n_estimators=500, learning_rate=0.1, num_leaves=255),
    "HistGradientBoosting": hist_boosting(),
    "HistGradientBoosting, 500": hist_boosting(max_iter=500, learning_rate=0.05, early_stopping=True),
}
OTHERS: dict[str, Make] = {
    "SVC/SVR": _limited(20_000, _support_vectors),
    "KernelRidge": _limited(10_000, _kernel_ridge),
    "Nystroem + Ridge": _nystroem,
    "MLP": _network,
    "xRFM": _limited(10_000, _xrfm),
}


class _Rounded:
    """A regressor on the ranks, rounded to the nearest."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: np.ndarray, y: np.ndarray) -> "_Rounded":
        self.ends = y.min(), y.max()
        self.regressor.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(self.regressor.predict(X)), *self.ends).astype(int)


def _ordinal(module: str, path: str, grid: dict[str, Any]) -> Make:
    """A rival on standardised rows, its parameters searched by mean absolute rank error."""

    def make(task: Task, seed: int) -> Any:
        model = getattr(import_module(module), path)()
        prefix = type(model).__name__.lower()
        named = {f"{prefix}__{key}": values for key, values in grid.items()}
        return GridSearchCV(_scaled(task, model), named, cv=3, scoring="neg_mean_absolute_error")

    return make


ORDINAL_OURS: dict[str, Make] = {
    "AdaptiveOrdinal": lambda task, seed: ulmus.AdaptiveOrdinalClassifier(random_state=seed),
    "KELMOrdinal": lambda task, seed: _scaled(task, ulmus.KELMOrdinalClassifier(random_state=seed)),
    "NKELMOrdinal": lambda task, seed: _scaled(task, ulmus.NKELMOrdinalClassifier(random_state=seed)),
}
ORDINAL_RIVALS: dict[str, Make] = {
    "mord LogisticAT": _ordinal("mord", "LogisticAT", {"alpha": 10.0 ** np.arange(-3, 4)}),
    "skordinal SVOR": _limited(
        2_000, _ordinal("skordinal.classifiers", "SVOR", {"C": [0.1, 1.0, 10.0], "gamma": 4.0 ** np.arange(-5, 0)})
    ),
    "HistGradientBoosting, rounded": lambda task, seed: _Rounded(HistGradientBoostingRegressor(random_state=seed)),
    "HistGradientBoosting": hist_boosting(),
    "KELM (no order)": kelm,
}
ROBUST_RIVALS: dict[str, Make] = {
    "SVR": _limited(10_000, _support_vectors),
    "Nystroem + Huber": _huber,
    "HistGradientBoosting, absolute": lambda task, seed: HistGradientBoostingRegressor(
        loss="absolute_error", random_state=seed
    ),
}
