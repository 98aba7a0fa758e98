"""Who takes part where labels are ordered: on standardised rows, made from a seed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, KFold

from ulmus import ELMClassifier, ELMOrdinalClassifier, KELMClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier

#: The KELMOR document's C; its widths are not given, so they are spread around one over the number of features.
C = 10.0 ** np.arange(-3, 4)
WIDTHS = 2.0 ** np.arange(-12, 3, 2)
HIDDEN = [100, 250, 500, 1000]
LAYER: dict[str, Any] = {"activation": "sigmoid", "slope": 1.0}


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
        common: dict[str, Any] = {"random_state": self.seed, "n_jobs": 1}
        tried = [KELMOrdinalClassifier(kernel=k, criterion="squared", **common).fit(X, y) for k in self.kernels]
        best = min(tried, key=lambda model: model.tuning_.loss)
        self.model_ = KELMOrdinalClassifier(kernel=best.kernel, loss="logistic", **common).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


def searched(model: Any, grid: dict[str, Any], seed: int, folds: int = 5) -> GridSearchCV:
    """The parameters of lowest MAE in folds of the training part (five, as the KELMOR document has it)."""
    cv = KFold(folds, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, scoring="neg_mean_absolute_error", cv=cv, error_score=-np.inf)


def mord(name: str, *, consecutive: bool = False) -> Callable[[int], Any]:
    """A linear ordinal model, its penalty searched."""

    def make(seed: int) -> GridSearchCV:
        model = getattr(import_module("mord"), name)()
        alpha = 10.0 ** np.arange(-3, 4)
        return searched(Consecutive(model) if consecutive else model, {f"{'model__' * consecutive}alpha": alpha}, seed)

    return make


def skordinal(name: str, C: Any, gamma: Any, folds: int = 5) -> Callable[[int], Any]:
    """An ordinal support vector machine, C and width searched."""

    def make(seed: int) -> GridSearchCV:
        model = getattr(import_module("skordinal.classifiers"), name)()
        return searched(model, {"C": C, "gamma": gamma}, seed, folds)

    return make


_FEW_WIDTHS = 2.0 ** np.arange(-9, 1, 3)
#: The document's five methods under its protocol, our models as they come, and today's rivals.
METHODS: dict[str, Callable[[int], Any]] = {
    "SVOR": skordinal("SVOR", 10.0 ** np.arange(-2, 3), WIDTHS),
    "ELM": lambda s: searched(ELMClassifier(**LAYER, random_state=s, n_jobs=1), {"n_hidden": HIDDEN, "C": C}, s),
    "KELM": lambda s: searched(KELMClassifier(n_jobs=1), {"gamma": WIDTHS, "C": C}, s),
    "ELMOR": lambda s: searched(
        ELMOrdinalClassifier(**LAYER, random_state=s, n_jobs=1), {"n_hidden": HIDDEN, "C": C}, s
    ),
    "KELMOR": lambda s: searched(KELMOrdinalClassifier(n_jobs=1), {"gamma": WIDTHS, "C": C}, s),
    "ELMOR, self-tuned": lambda s: ELMOrdinalClassifier(random_state=s, n_jobs=1),
    "KELMOR, self-tuned": lambda s: KELMOrdinalClassifier(random_state=s, n_jobs=1),
    "NKELMOR, self-tuned": lambda s: NKELMOrdinalClassifier(random_state=s, n_jobs=1),
    "KELMOR, logistic": lambda s: KELMOrdinalClassifier(loss="logistic", random_state=s, n_jobs=1),
    "KELMOR, logistic, kernel by LOO": lambda s: ChosenKernel(seed=s),
    "mord LogisticAT": mord("LogisticAT", consecutive=True),
    "mord LogisticIT": mord("LogisticIT", consecutive=True),
    "skordinal SVOR": skordinal("SVOR", [0.1, 1.0, 10.0], _FEW_WIDTHS, 3),
    "skordinal REDSVM": skordinal("REDSVM", 10.0 ** np.arange(-1, 3), _FEW_WIDTHS, 3),
    "HistGB, rounded": lambda s: Rounded(HistGradientBoostingRegressor(random_state=s)),
    "HistGB classifier": lambda s: HistGradientBoostingClassifier(random_state=s),
    "KELM (nominal)": lambda s: KELMClassifier(random_state=s, n_jobs=1),
}
DOCUMENT = ("SVOR", "ELM", "KELM", "ELMOR", "KELMOR")
OURS = tuple(name for name in METHODS if name.endswith(("self-tuned", "logistic", "LOO")))
RIVALS = tuple(name for name in METHODS if name not in DOCUMENT + OURS)
