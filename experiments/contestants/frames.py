"""How each contestant takes a frame with categories and holes: its documented way, as short as it can be written.

| contestant | categories | holes |
|---|---|---|
| Adaptive | pandas' dtype | as they are |
| LightGBM, XGBoost (``enable_categorical``) | pandas' dtype | as they are |
| HistGradientBoosting | pandas' dtype; columns of more than 255 levels as numbers, which is its limit | as they are |
| CatBoost, ChimeraBoost | text, named as categories; a hole is a level | numbers as they are |
| RealMLP-TD, TabM-D | pandas' dtype, a hole is a level | median of the training rows |
| xRFM, SVC/SVR, linear | 0/1 columns of the 100 most frequent levels | median of the training rows |
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

from experiments.contestants.common import Make, limited, pick, scaled
from experiments.tasks import Task

#: Levels that a hole becomes, and that HistGradientBoosting takes at most.
HOLE, MOST_LEVELS = "(missing)", 255


class Prepared:
    """A model behind a function of the frame."""

    def __init__(self, prepare: Callable[[pd.DataFrame], Any], model: Any, **fit: Any) -> None:
        self.prepare, self.model, self.fit_options = prepare, model, fit

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> "Prepared":
        self.model.fit(self.prepare(X), y, **self.fit_options)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict(self.prepare(X))).reshape(len(X))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self.prepare(X)))

    @property
    def classes_(self) -> np.ndarray:
        return self.model.classes_


def few_levels(X: pd.DataFrame) -> pd.DataFrame:
    """Columns of more levels than HistGradientBoosting takes, as numbers of their levels."""
    many = [c for c in X if isinstance(X[c].dtype, pd.CategoricalDtype) and len(X[c].cat.categories) > MOST_LEVELS]
    return X.assign(**{c: X[c].cat.codes.where(X[c].notna()).astype(float) for c in many})


def holes_are_levels(X: pd.DataFrame) -> pd.DataFrame:
    """Categories as text, a hole among them."""
    named = X.select_dtypes("category").columns
    return X.assign(**{c: X[c].astype(object).where(X[c].notna(), HOLE).astype(str) for c in named})


class _Filled:
    """Holes of numbers as the median of the training rows, those of categories as a level."""

    medians: pd.Series | None = None

    def __call__(self, X: pd.DataFrame) -> pd.DataFrame:
        if self.medians is None:
            self.medians = X.select_dtypes("number").median()
        named = {c: X[c].cat.add_categories(HOLE).fillna(HOLE) for c in X.select_dtypes("category")}
        return X.fillna(self.medians).assign(**named)


def catboost(task: Task, seed: int) -> Any:
    library = import_module("catboost")
    model = pick(task, library.CatBoostRegressor, library.CatBoostClassifier)
    made = model(random_seed=seed, thread_count=effective_n_jobs(-1), verbose=False, allow_writing_files=False)
    return Prepared(holes_are_levels, made, cat_features=list(task.categorical))


def xgboost(task: Task, seed: int) -> Any:
    library = import_module("xgboost")
    model = pick(task, library.XGBRegressor, library.XGBClassifier)
    return model(enable_categorical=True, random_state=seed, n_jobs=effective_n_jobs(-1))


def chimeraboost(task: Task, seed: int) -> Any:
    library = import_module("chimeraboost")
    model = pick(task, library.ChimeraBoostRegressor, library.ChimeraBoostClassifier)
    made = model(random_state=seed, thread_count=effective_n_jobs(-1))
    return Prepared(holes_are_levels, made, cat_features=list(task.categorical) or None)


def pytabkit(name: str, **classes: Any) -> Make:
    """A network of pytabkit with its tuned defaults, on the CPU; classes as its guide says for AUC and log loss."""

    def make(task: Task, seed: int) -> Any:
        model = getattr(import_module("pytabkit"), f"{name}_{pick(task, 'Regressor', 'Classifier')}")
        options = pick(task, {}, {"val_metric_name": "cross_entropy", **classes})
        return Prepared(_Filled(), model(device="cpu", random_state=seed, n_threads=effective_n_jobs(-1), **options))

    return make


def linear(task: Task, seed: int) -> Any:
    return scaled(task, pick(task, RidgeCV(10.0 ** np.arange(-3, 5)), LogisticRegression(max_iter=1_000)))


def frequencies(task: Task, seed: int) -> Any:
    """The frequencies of the classes, or the mean."""
    return pick(task, DummyRegressor(), DummyClassifier(strategy="prior"))


class TunedSVM:
    """C and width searched on 2,000 rows by three folds, then all rows; probabilities by Platt's sigmoid."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    def fit(self, X: Any, y: np.ndarray) -> "TunedSVM":
        machine = pick(self.task, SVR(), SVC())
        prefix = type(machine).__name__.lower()
        grid = {f"{prefix}__C": 4.0 ** np.arange(-1, 6), f"{prefix}__gamma": 4.0 ** np.arange(-5, 1)}
        some = np.random.RandomState(self.seed).permutation(len(y))[:2000]
        rows = X.iloc[some] if hasattr(X, "iloc") else X[some]
        best = GridSearchCV(scaled(self.task, machine), grid, cv=3).fit(rows, y[some]).best_estimator_
        self.model = pick(self.task, best, CalibratedClassifierCV(best, cv=3, ensemble=False)).fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model.predict_proba(X)

    @property
    def classes_(self) -> np.ndarray:
        return self.model.classes_


FRAMES: dict[str, Make] = {
    "CatBoost": catboost,
    "XGBoost": xgboost,
    "ChimeraBoost": chimeraboost,
    "RealMLP-TD": limited(10_000, pytabkit("RealMLP_TD", use_ls=False)),
    "TabM-D": limited(1_300, pytabkit("TabM_D")),
    "SVC/SVR, tuned": limited(20_000, TunedSVM),
    "linear": linear,
    "class frequencies": frequencies,
}
