"""What must not matter does not, in settings that few ask for.

The relations of :mod:`tests.fuzz.equivariance` for the log loss, quantiles, a learned metric, monotone columns, classes
that have weights, costs or a decision of their own, several labels a row, and adaptive models of every effort; and for
more answers: sets of classes, and rows that are far.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import equivariance
from ._estimators import Case, draw

Change = Callable[[Case, np.random.Generator], dict[str, Any]]


def _one(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _costs(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    k = int(case.y.max()) + 1
    return {"cost_matrix": rng.uniform(1, 3, (k, k)) * (1 - np.eye(k))}


def _decision(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    return {"decision": "balanced", "loss": _one(rng, "squared", "log")}


def _monotone(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    return {"monotonic_cst": [1] + [0] * (case.X.shape[1] - 1)}


def _given(**settings: Any) -> Change:
    return lambda case, rng: dict(settings)


KERNELS = ("KELMClassifier", "NKELMClassifier")
SOLVED = ("ELMClassifier", *KERNELS)
#: Names of estimators, and what is set beside what is drawn for them.
VARIANTS: tuple[tuple[tuple[str, ...], Change], ...] = (
    (SOLVED, _given(loss="log")),
    (("ELMOrdinalClassifier", "KELMOrdinalClassifier", "NKELMOrdinalClassifier"), _given(loss="logistic")),
    (("ELMRegressor", "NKELMRegressor", "AdaptiveRegressor"), _given(loss="quantile", quantiles=(0.1, 0.5, 0.9))),
    (("NKELMRegressor", "KELMRegressor", *KERNELS, "NKELMOrdinalClassifier"), _given(metric="auto")),
    (("ELMRegressor", "NKELMRegressor", "AdaptiveRegressor"), _monotone),
    ((*SOLVED, "AdaptiveClassifier", "NKELMOrdinalClassifier"), _given(class_weight="balanced")),
    (("NKELMOrdinalClassifier", "AdaptiveOrdinalClassifier"), _costs),
    ((*SOLVED, "AdaptiveClassifier"), _decision),
    (("AdaptiveRegressor", "AdaptiveClassifier"), _given(effort="best")),
    (("AdaptiveRegressor", "AdaptiveClassifier", "AdaptiveOrdinalClassifier"), _given(effort="default")),
    (("AdaptiveClassifier",), _given(loss="squared")),
    (("ELMRegressor", "NKELMRegressor", *SOLVED), _given(cv=5)),
    ((*SOLVED, "AdaptiveClassifier"), _given(several=True)),
)


def varied(rng: np.random.Generator) -> Case:
    """A drawn problem for an estimator with such settings."""
    names, change = VARIANTS[rng.integers(len(VARIANTS))]
    case = draw(rng, _one(rng, *names))
    more = change(case, rng)
    if "monotonic_cst" in more and case.y.ndim > 1:
        case = replace(case, y=case.y[:, 0])
    if more.pop("several", False):
        more = {"loss": "squared"}
        case = replace(case, task="labels", y=np.column_stack([case.y > 0, case.X[:, 0] > rng.normal()]).astype(int))
    return replace(case, settings={**case.settings, **more})


def check(seed: int) -> str:
    """As :func:`tests.fuzz.equivariance.check`, of other problems."""
    return equivariance.check(seed, varied)
