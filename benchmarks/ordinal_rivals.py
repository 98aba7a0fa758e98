"""The methods that sections q and r compare, each as a function that makes an unfitted model."""

from collections.abc import Callable
from typing import Any

import mord
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from skordinal.classifiers import REDSVM, SVOR

from ulmus import ELMOrdinalClassifier, KELMClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier
from ulmus.reproduce.kelmor import METHODS, searched

Make = Callable[[int], Any]


class Rounded(ClassifierMixin, BaseEstimator):
    """A regressor on the ranks, rounded to the nearest."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Rounded":
        self.classes_ = np.unique(y)
        self.regressor.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(self.regressor.predict(X)), self.classes_[0], self.classes_[-1]).astype(int)


class Consecutive(ClassifierMixin, BaseEstimator):
    """For models that want labels 0, 1, 2 … without holes: the ranks of the labels that were seen."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Consecutive":
        self.classes_, ranks = np.unique(y, return_inverse=True)
        self.model.fit(X, ranks)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[np.asarray(self.model.predict(X), dtype=int)]


class ChosenKernel(ClassifierMixin, BaseEstimator):
    """KELMOR with the kernel of least leave-one-out squared error, and logistic bits: a recipe of docs/ordinal.md."""

    def __init__(self, kernels: tuple[str, ...] = ("rbf", "arcsine", "laplacian_l1"), seed: int = 0) -> None:
        self.kernels = kernels
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> "ChosenKernel":
        common = {"random_state": self.seed, "n_jobs": 1}
        tried = [KELMOrdinalClassifier(kernel=k, criterion="squared", **common).fit(X, y) for k in self.kernels]
        best = min(tried, key=lambda model: model.tuning_.loss)
        self.model_ = KELMOrdinalClassifier(kernel=best.kernel, loss="logistic", **common).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


#: The document's five methods under its protocol (5 folds, lowest MAE), then the models as they come.
DOCUMENT: dict[str, Make] = {name: METHODS[name] for name in ("SVOR", "ELM", "KELM", "ELMOR", "KELMOR")}
OURS: dict[str, Make] = {
    "ELMOR, self-tuned": lambda seed: ELMOrdinalClassifier(random_state=seed, n_jobs=1),
    "KELMOR, self-tuned": lambda seed: KELMOrdinalClassifier(random_state=seed, n_jobs=1),
    "NKELMOR, self-tuned": lambda seed: NKELMOrdinalClassifier(random_state=seed, n_jobs=1),
    "KELMOR, logistic": lambda seed: KELMOrdinalClassifier(loss="logistic", random_state=seed, n_jobs=1),
    "KELMOR, logistic, kernel by LOO": lambda seed: ChosenKernel(seed=seed),
}

_SVM = {"C": 10.0 ** np.arange(-1, 3), "gamma": 2.0 ** np.arange(-9, 1, 3)}
_ALPHA = {"model__alpha": 10.0 ** np.arange(-3, 4)}
RIVALS: dict[str, Make] = {
    "mord LogisticAT": lambda seed: searched(Consecutive(mord.LogisticAT()), _ALPHA, seed),
    "mord LogisticIT": lambda seed: searched(Consecutive(mord.LogisticIT()), _ALPHA, seed),
    "skordinal SVOR": lambda seed: searched(SVOR(), {**_SVM, "C": [0.1, 1.0, 10.0]}, seed, 3),
    "skordinal REDSVM": lambda seed: searched(REDSVM(), _SVM, seed, 3),
    "HistGB, rounded": lambda seed: Rounded(HistGradientBoostingRegressor(random_state=seed)),
    "HistGB classifier": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "KELM (nominal)": lambda seed: KELMClassifier(random_state=seed, n_jobs=1),
}
