"""What columns are for, as the options of ``ulmus fit`` say it, and how rows are divided by it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from ulmus.cli.console import UsageError
from ulmus.tables import TableError
from ulmus.tables.kinds import Kind, values
from ulmus.tables.read import TableBatch
from ulmus.tables.schema import PLAIN, Schema

#: Metric → the name of its score, the criterion of regressors, and that of classifiers.
METRICS: dict[str, tuple[str, str, str]] = {
    "r2": ("R²", "squared", ""),
    "rmse": ("root mean squared error", "squared", ""),
    "mae": ("mean absolute error", "absolute", ""),
    "accuracy": ("accuracy", "", "error"),
    "balanced_accuracy": ("balanced accuracy", "", "balanced"),
    "log_loss": ("log loss", "", "log_loss"),
    "auc": ("area under the ROC curve", "", "auc"),
    "average_precision": ("average precision", "", "auto"),
    "f1": ("F1", "", "auto"),
}
#: Model and task → the criteria that it knows.
CRITERIA: dict[tuple[str, str], tuple[str, ...]] = {
    ("adaptive", "regression"): ("squared", "absolute"),
    ("adaptive", "classification"): ("error", "balanced", "log_loss", "auc"),
    ("nkelm", "regression"): ("squared", "absolute"),
    ("nkelm", "classification"): ("error",),
}
#: How directions are written.
DIRECTIONS = {"1": 1, "+1": 1, "-1": -1}


@dataclass(frozen=True)
class Roles:
    """Columns by what they are for; ``metric`` is what the model is scored by.

    ``monotone`` are columns along which answers must not fall, or rise, as ``area=1`` and ``age=-1``.
    """

    kinds: dict[str, list[str]] = field(default_factory=dict)
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    metric: str | None = None
    monotone: tuple[str, ...] = ()

    def directions(self, schema: Schema, model: str) -> dict[str, int]:
        """Column → 1 or −1, checked against what the columns and the model are."""
        found: dict[str, int] = {}
        for given in self.monotone:
            whole = given.rpartition("=")[0] in schema.columns
            for part in [given] if whole else given.split(","):
                name, _, sign = (piece.strip() for piece in part.rpartition("="))
                if sign not in DIRECTIONS:
                    raise UsageError(
                        f"--monotone takes NAME=1 (predictions must not fall along the column) or NAME=-1, got {part!r}"
                    )
                if name not in schema.columns or schema.columns[name].name != "number":
                    kind = schema.columns[name].name if name in schema.columns else "not a column that the model takes"
                    raise UsageError(f"--monotone names a column of numbers, and {name!r} is {kind}")
                found[name] = DIRECTIONS[sign]
        if found and (schema.task, model) != ("regression", "adaptive"):
            raise UsageError(
                f"--monotone goes with --model adaptive and numbers to predict, got --model {model} and {schema.task}; "
                "models of two classes take monotonic_cst in Python"
            )
        return found

    def by_name(self, batch: TableBatch, target: str) -> dict[str, str]:
        """Column → what it is, or "drop"; names are checked."""
        found: dict[str, str] = {}
        for kind, given in self.kinds.items():
            for name in _names(given, batch):
                if name == target:
                    raise UsageError(f"{name!r} is the target, and cannot be of the kind {kind!r} as well")
                if found.setdefault(name, kind) != kind:
                    raise UsageError(f"{name!r} cannot be of the kinds {found[name]!r} and {kind!r} at once")
        for other in (self.weight, self.group):
            if other is not None:
                batch.column(other)
                found[other] = "drop"
        if self.time is not None:
            batch.column(self.time)
        return found

    def noted(self, schema: Schema) -> Schema:
        """The schema with the reasons why columns of these roles are left out."""
        for name, reason in ((self.weight, "is the weight of the rows"), (self.group, "names groups of rows")):
            if name is not None:
                schema.left_out[name] = reason
        return schema


def _names(given: list[str], batch: TableBatch) -> list[str]:
    """Names that are repeated options, or separated by commas."""
    found = []
    for name in given:
        parts = [name] if name in batch.columns else [part.strip() for part in name.split(",")]
        for part in parts:
            batch.column(part)
        found += parts
    return found


@dataclass(frozen=True)
class Extras:
    """Of every row: its weight, its group, its time; None where there are none."""

    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    when: np.ndarray | None = None

    @classmethod
    def of(cls, batch: TableBatch, roles: Roles, schema: Schema, there: np.ndarray) -> "Extras":
        """Of the rows that are there."""
        weight = group = when = None
        if roles.weight is not None:
            weight = _needed(batch, roles.weight, PLAIN, there, "a weight")
            if (weight < 0).any() or not weight.any():
                row = int(np.flatnonzero(there)[int(np.argmin(weight))])
                raise TableError("weights must be at least 0, and some above", **batch.at(row), column=roles.weight)
        if roles.group is not None:
            group = values(batch.column(roles.group), Kind("category")).values[there].astype(str)
        if roles.time is not None:
            kind = schema.columns.get(roles.time)
            if kind is None or kind.name not in ("date", "number", "time", "duration"):
                raise TableError("--time takes a column of dates or numbers", file=batch.file, column=roles.time)
            when = _needed(batch, roles.time, kind, there, "a time")
        return cls(weight, group, when)

    def take(self, rows: np.ndarray) -> "Extras":
        return Extras(*(None if one is None else one[rows] for one in (self.weight, self.group, self.when)))

    def fit_options(self, pipeline: Any) -> dict[str, Any]:
        """What the steps of a pipeline are given."""
        steps = [step for step, _ in pipeline.steps]
        found: dict[str, Any] = {}
        if self.weight is not None:
            found |= {f"{step}__sample_weight": self.weight for step in steps}
        if self.group is not None:
            found["model__groups"] = self.group
        return found


def _needed(batch: TableBatch, name: str, kind: Kind, there: np.ndarray, what: str) -> np.ndarray:
    found = values(batch.column(name), kind).values
    found = found.astype(np.int64).astype(float) if found.dtype.kind in "mM" else found
    if found.dtype == object:
        found = np.array([np.nan if v is None else v.hour * 3600 + v.minute * 60 + v.second for v in found])
    gone = np.flatnonzero(there & ~(np.isfinite(found) & (found > -9e18)))
    if len(gone):
        raise TableError(f"{what} is missing or not a number", **batch.at(int(gone[0])), column=name)
    return np.asarray(found[there], dtype=np.float64)


def divided(y: np.ndarray, extras: Extras, task: str, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows held out: the latest, whole groups, or at random, classes in their shares."""
    n = len(y)
    if extras.when is not None:
        order = np.argsort(extras.when, kind="stable")
        border = extras.when[order[round((1 - holdout) * n)]]
        late = extras.when >= border if (extras.when < border).any() else extras.when > border
        if not late.any() or late.all():
            raise UsageError("--time: all rows have the same time, so none is the most recent")
        return np.flatnonzero(~late), np.flatnonzero(late)
    if extras.group is not None:
        names, group = np.unique(extras.group, return_inverse=True)
        if len(names) < 3:
            raise UsageError(f"--group: {len(names)} groups are too few to hold one out; three are needed")
        order = np.random.RandomState(seed).permutation(len(names))
        mass = np.cumsum(np.bincount(group)[order])
        taken = order[: int(np.clip(np.searchsorted(mass, holdout * n) + 1, 1, len(names) - 2))]
        held = np.isin(group, taken)
        return np.flatnonzero(~held), np.flatnonzero(held)
    counts = np.unique(y, return_counts=True)[1] if task != "regression" else np.array([2])
    fair = y if task != "regression" and counts.min() >= 2 and len(counts) <= holdout * n else None
    fit, test = train_test_split(np.arange(n), test_size=holdout, random_state=seed, stratify=fair)
    return fit, test
