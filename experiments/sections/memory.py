"""Peak memory above the input of one fit and one predict: ``python -m experiments.sections.memory JOB ROWS``."""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge

from experiments.contestants.elm import nystroem_ridge
from experiments.runner.measure import peak_above_now
from experiments.runner.report import in_a_process
from experiments.sections.problems import COVTYPE_CLASSES, COVTYPE_FEATURES, elevation, mixture, smooth
from ulmus import (
    ENDA,
    KLDA,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    RobustELMRegressor,
)

try:
    from mord import LogisticAT
except ImportError:  # only its own job needs it
    LogisticAT = None

Data = tuple[np.ndarray, np.ndarray]


def labels(n: int) -> Data:
    """Rows of CovType's shape with their class."""
    return mixture(n, COVTYPE_FEATURES, COVTYPE_CLASSES)


def columns(n: int) -> Data:
    """The same, with one ±1 column per class."""
    X, y = labels(n)
    return X, np.where(y[:, None] == np.arange(COVTYPE_CLASSES), 1.0, -1.0)


def letters(n: int) -> Data:
    """Rows of Letter's shape with their class."""
    return mixture(n, 16, 26)


L, GAMMA, C = 1000, 1 / COVTYPE_FEATURES, 2.0**20
KELM_FEATURES, KELM_C = 20, 2.0**8

#: name → (data, model)
JOBS: dict[str, tuple[Callable[[int], Data], Callable[[], Any]]] = {
    "nkelm": (columns, lambda: NKELMRegressor(L, gamma=GAMMA, C=C, random_state=0)),
    "nkelm_labels": (labels, lambda: NKELMClassifier(L, gamma=GAMMA, C=C, random_state=0)),
    "nystroem_ridge": (columns, lambda: nystroem_ridge(L, GAMMA, C)),
    "robust": (lambda n: smooth(n, 10), lambda: RobustELMRegressor(500, slope=1.0, C=1.0, random_state=0)),
    "kelm": (lambda n: smooth(n, KELM_FEATURES), lambda: KELMRegressor(gamma=1 / KELM_FEATURES, C=KELM_C)),
    "kernel_ridge": (
        lambda n: smooth(n, KELM_FEATURES),
        lambda: KernelRidge(kernel="rbf", gamma=1 / KELM_FEATURES, alpha=1 / KELM_C),
    ),
    "enda": (letters, lambda: ENDA(1100, slope=1.0, C=2.0**8, n_neighbors=5, random_state=0)),
    "enda_nystrom": (
        letters,
        lambda: ENDA(1100, features="nystrom", gamma=0.1, C=2.0**8, n_neighbors=5, random_state=0),
    ),
    "klda": (letters, lambda: KLDA(gamma=0.1, C=2.0**8, n_neighbors=5, random_state=0)),
    "nkelm_ordinal": (elevation, lambda: NKELMOrdinalClassifier(L, gamma=GAMMA, C=1.0, random_state=0)),
    "mord": (elevation, lambda: LogisticAT(alpha=1.0)),
    "histgb": (elevation, lambda: HistGradientBoostingRegressor(random_state=0)),
}


def peak_memory(job: str, n: int) -> dict[str, float]:
    """Peak memory above the input in MB, of fitting and of predicting, in a process of its own."""
    return in_a_process("memory", job, n)


def main(job: str, n: int) -> None:
    """Measure one job and print it."""
    data, make = JOBS[job]
    X, y = data(n)
    model = make()
    fit = peak_above_now(lambda: model.fit(X, y))
    predict = peak_above_now(lambda: model.predict(X))
    print(json.dumps({"input": (X.nbytes + y.nbytes) / 1e6, "fit": fit, "predict": predict, "output": y.nbytes / 1e6}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
