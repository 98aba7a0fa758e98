"""Our models, called without arguments, and the adaptive models without one of their ingredients."""

from dataclasses import replace
from typing import Any

import pandas as pd

import ulmus
from experiments.contestants.common import Make, pick, scaled
from experiments.tasks import Task
from ulmus.models._effort import EFFORTS


def family(name: str) -> Make:
    """The regressor or the classifier of a family, on scaled rows."""

    def make(task: Task, seed: int) -> Any:
        model = getattr(ulmus, f"{name}{pick(task, 'Regressor', 'Classifier')}")
        return scaled(task, model(random_state=seed))

    return make


def adaptive(effort: str) -> Make:
    def make(task: Task, seed: int) -> Any:
        model = pick(task, ulmus.AdaptiveRegressor, ulmus.AdaptiveClassifier)
        frame = isinstance(task.X, pd.DataFrame)  # whose dtypes tell
        named = {"categorical_features": list(task.categorical)} if task.categorical and not frame else {}
        return model(effort=effort, random_state=seed, **named)

    return make


def adaptive_less(**less: Any) -> Make:
    """The default without one of its ingredients, or with one that it does not have."""
    plain = EFFORTS["default"]
    of_search = {k: v for k, v in less.items() if hasattr(plain.budget, k)}
    budget, numbers = (replace(each or plain.budget, **of_search) for each in (plain.budget, plain.numbers))
    of_rest = {k: v for k, v in less.items() if k not in of_search}
    spent = replace(plain, budget=budget, numbers=numbers, **of_rest)

    def make(task: Task, seed: int) -> Any:
        model = adaptive("default")(task, seed)
        model._plan = spent
        return model

    return make


ABLATIONS: dict[str, Make] = {
    "Adaptive": adaptive("default"),
    "without the metric": adaptive_less(rounds=0),
    "without the local stage": adaptive_less(partitions=0),
    "one partition": adaptive_less(partitions=1),
    "standardised only": adaptive_less(preparations=("standard",)),
    "one kernel gets a metric": adaptive_less(kernels=1),
    "two rounds of the metric": adaptive_less(rounds=2),
    "kernels compared with few landmarks": adaptive_less(final_landmarks=(200, 200)),
    "without cuts": adaptive_less(cuts=False),
    "without the additive candidate": adaptive_less(additive=False),
    "kernels compared on the rows of the metric": adaptive_less(fresh=False),
    "the global model does not grow": adaptive_less(grows=False),
    "leaves of one size": adaptive_less(wide_leaf_rows=1_500),
    "as many landmarks for few labels": adaptive_less(few_labels=False),
}
OURS: dict[str, Make] = {
    **ABLATIONS,
    "a view chosen on more rows": adaptive_less(
        rows=2_000, landmarks=150, metric_rows=4_000, metric_landmarks=250, final_landmarks=(600, 600)
    ),
    "a view chosen on few rows": adaptive_less(
        rows=800, landmarks=100, metric_rows=1_200, metric_landmarks=128, final_landmarks=(250, 250), kernels=1
    ),
    "without trees": adaptive_less(tree_parts=0),
    "Adaptive, fast": adaptive("fast"),
    "Adaptive, best": adaptive("best"),
    "NKELM": family("NKELM"),
    "ELM": family("ELM"),
    "KELM (no order)": family("KELM"),
    "RobustNKELM": family("RobustNKELM"),
    "AdaptiveOrdinal": lambda task, seed: ulmus.AdaptiveOrdinalClassifier(random_state=seed),
    "KELMOrdinal": lambda task, seed: scaled(task, ulmus.KELMOrdinalClassifier(random_state=seed)),
    "NKELMOrdinal": lambda task, seed: scaled(task, ulmus.NKELMOrdinalClassifier(random_state=seed)),
}
