"""What is left to the data: the width and size of the features, and C, chosen on rows that the model did not see."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.recipes import FIRST_SIZE, MakeMap
from ulmus.statistics import Statistics, Summary
from ulmus.tuning import Tuner, Tuning


@dataclass(frozen=True)
class Training:
    """All that a fit works on: rows, how their targets are coded, their folds, chance, and where it runs.

    ``metric`` is what the rows were seen through, if they were, ``targets`` what the task knows of targets, and
    ``columns`` what an adaptive model knows of the columns of its table.
    """

    rows: Rows
    coding: Coding
    folds: np.ndarray | None
    rng: np.random.RandomState
    backend: Any
    metric: np.ndarray | None = None
    targets: Any = None
    columns: Any = None

    @property
    def labels(self) -> np.ndarray | None:
        """The class of every row; None where there are no classes."""
        return self.coding.numbers(self.rows.T)


def by_squares(criterion: str) -> str:
    """The criterion by which squares are scored where the features of a log model are searched."""
    return "auto" if criterion in ("log_loss", "auc", "balanced") else criterion


@dataclass(frozen=True)
class RidgeSearch:
    """What is given of a ridge regression: its penalty (or ``"auto"``), its constant, and how C is scored."""

    C: Any = "auto"
    fit_intercept: bool = True
    criterion: str = "auto"
    verbose: bool = False

    @property
    def open(self) -> bool:
        """Whether C is to be chosen."""
        return isinstance(self.C, str)

    def tuner(self, training: Training, make_map: MakeMap, *, all_rows: bool = False) -> Tuner:
        """The search on these rows; ``all_rows`` asks for an exact kernel."""
        coding = training.coding
        scorer = training.backend.scorer(training.rows, coding, self.fit_intercept, self.criterion, training.folds)
        how: dict[str, Any] = {"verbose": self.verbose, "all_rows": all_rows}
        tuner = Tuner(scorer, make_map, training.rng, labels=lambda rows: coding.numbers(rows.T), **how)
        if not self.open:
            tuner.log2_C = np.log2([np.inf if self.C is None else self.C])
        return tuner


@dataclass(frozen=True)
class Choice:
    """What was chosen: width and C, a fitted map, and the sums and the record of the search, where there was one.

    By the ``seed`` a discriminant model draws rows to score.
    """

    width: float
    C: Any
    features: Any = None
    statistics: Statistics | None = None
    tuning: Tuning | None = None
    seed: int | None = None


def choose(recipe: Any, ridge: RidgeSearch, training: Training, *, oversize: bool = False) -> Choice:
    """Choose and fit the map, and C.

    With ``oversize`` a size that was to be chosen comes out twice as large as these rows ask for, and the C of a map
    whose size is given stays open, so that :func:`choose_from_sums` can choose them on more rows.
    """
    rows, size = training.rows, recipe.size(training.rows, ridge.C)
    make_map, width = prepared(recipe, training)
    plan = search(recipe, ridge, training, make_map, width, size, oversize=oversize)
    if plan.features is not None and not (oversize and size == "auto"):
        return plan
    if plan.features is not None:
        size = min(2 * getattr(plan.features, recipe.size_name), recipe.max_size)
    features = make_map(plan.width, size).fit(rows.X, training.labels, rows.weight)
    return replace(plan, features=features, statistics=None)


def prepared(recipe: Any, training: Training) -> tuple[MakeMap, float]:
    """Maps of any width and size with one seed, and the width to start from."""
    make, backend = recipe.maker(int(training.rng.randint(2**31 - 1))), training.backend
    return lambda width, size: backend.adopt(make(width, size)), recipe.start(training.rows, training.rng)


def search(
    recipe: Any,
    ridge: RidgeSearch,
    training: Training,
    make_map: MakeMap,
    width: float,
    size: Any,
    *,
    oversize: bool = False,
    all_rows: bool = False,
) -> Choice:
    """The choice among maps of this size, or of any size for ``"auto"``; no map where nothing is open.

    With ``oversize`` the C of a given size is left to :func:`choose_from_sums`. An exact kernel has ``all_rows`` for
    landmarks, and needs no map.
    """
    grow = isinstance(size, str)
    climb = recipe.open_width and ridge.C is not None  # without a penalty there is nothing to choose by
    if not (climb or grow or ridge.open):
        return Choice(width, ridge.C)
    tuner = ridge.tuner(training, make_map, all_rows=all_rows)
    if climb:
        width = tuner.choose_width(width, FIRST_SIZE if grow else size)
    if oversize and ridge.open and not grow:
        return Choice(width, ridge.C, tuning=tuner.so_far(width))
    found = tuner.choose_size(width, recipe.max_size) if grow else tuner.choose_C(width, size)
    C = found.C if ridge.open else ridge.C
    return Choice(width, C, found.features, found.statistics, tuner.result(width, found))


def choose_from_sums(
    plan: Choice, recipe: Any, ridge: RidgeSearch, sample: Training, summary: Summary
) -> tuple[Choice, Summary]:
    """Choose C, and the size where it was left open, from sums of more rows than the sample; and its sums."""
    features = plan.features
    grow = recipe.open_size and ridge.C is not None
    if not (ridge.open or grow):
        return plan, summary
    tuner = ridge.tuner(sample, lambda _, size: features)
    tuner.trials = list(plan.tuning.trials) if plan.tuning is not None else []
    sizes = features.prefix_sizes() if grow else [features.n_features_out]
    found = tuner.choose_prefix(plan.width, features, summary, sizes)
    C = found.C if ridge.open else ridge.C
    chosen = Choice(plan.width, C, found.features, found.statistics, tuner.result(plan.width, found), plan.seed)
    return chosen, summary if found.size == summary.total.n_features else summary.prefix(found.size)
