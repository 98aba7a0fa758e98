"""An adaptive model in passes, for whoever reads rows block by block: look → begin → fit → score → cells → finish.

What a fit in memory decides on samples of its rows is decided on the sample that is given here, by the same code: the
view, the landmarks, for the log loss C. Everything that all rows have a say in comes from passes over all of them: the
target means of categories, the sums (or gradients) of the global model, and the leaves. Width and penalty of the leaves
are scored on *regions*: some small parts of the coordinates with all rows that lie in them, so that leaves are as dense
there as they will be.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import HeldOut
from ulmus.engine import FeatureMap, Rows
from ulmus.features.category import Category
from ulmus.features.metric import through
from ulmus.features.partition import Partition, random_partition
from ulmus.features.preparation import PARTS
from ulmus.features.sampling import gathered, left_out_together, row_keys
from ulmus.models._adaptive import AdaptiveModel
from ulmus.models._log_stage import LogPasses, LogStages, calibrated_loss
from ulmus.models._squared_stage import SquaredPasses
from ulmus.models._tables import encoder_for, read_numbers
from ulmus.models.adaptive import CLEARLY
from ulmus.models.adaptive_fit import TableColumns, ViewChoice
from ulmus.models.base import Model
from ulmus.models.choice import Choice
from ulmus.models.fitted import Fitted
from ulmus.models.progress import FitProgress
from ulmus.models.steps import Steps
from ulmus.solvers.cells import CellSolver
from ulmus.solvers.local import LocalKernels
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.statistics import Extent
from ulmus.tuning.local import LocalChoice
from ulmus.tuning.parts import MANY

#: Rows of the sample in a region, at least: fewer tell little of how many rows lie in it.
REGION_SAMPLE = 8
#: Rows of a region, in units of a leaf.
REGION = 2


@dataclass(frozen=True)
class Counts:
    """What a survey knows of the rows: how many of positive weight, how many distinct ones, and their weight."""

    n_rows: int
    n_distinct: float
    weight: float


@dataclass(frozen=True)
class Coordinates:
    """Rows as the chosen view shows them, targets in units of their deviation; what a pass needs, and workers get."""

    view: Any
    part_seed: int
    #: Whether target means are kept from a row's own target.
    apart: bool
    less: dict[int, tuple[Category | None, ...]]
    centre: np.ndarray
    scale: np.ndarray

    def part(self, X: np.ndarray) -> np.ndarray:
        """The part of every row, by its values."""
        if not self.apart:
            return np.full(len(X), -1)
        return (row_keys(X, self.part_seed, n_jobs=1) % np.uint64(PARTS)).astype(np.intp)

    def of(self, rows: Rows) -> Rows:
        """These rows."""
        X = np.asarray(rows.X, dtype=np.float64)
        prepared = self.view.preparation.transform_without(X, self.part(X), self.less)
        return replace(rows, X=through(prepared, self.view.metric), T=(rows.T - self.centre) / self.scale)

    def categories(self, rows: Rows) -> list[tuple[Category | None, ...]]:
        """What rows say of the categories with target means, part by part."""
        X, T = np.asarray(rows.X, dtype=np.float64), (rows.T - self.centre) / self.scale
        w, part = np.ones(len(X)) if rows.weight is None else rows.weight, np.maximum(self.part(X), 0)
        known = self.view.preparation
        none: tuple[Category | None, ...] = (None,) * len(known.categories)
        here = [part == k for k in range(PARTS)]
        return [known.categories_of(X[k], T[k], w[k]) if k.any() else none for k in here]

    def with_categories(self, parts: Sequence[Sequence[Category | None]]) -> "Coordinates":
        """The same view, with target means of all rows; the columns are those of before."""
        known, preparation = list(self.view.preparation.categories), self.view.preparation
        for column, category in enumerate(known):
            found = [said for part in parts if (said := part[column]) is not None]
            if category.has_means and found:
                known[column] = replace(reduce(add, found), shown=category.shown)
        view = replace(self.view, preparation=replace(preparation, categories=tuple(known)))
        return replace(self, view=view, less={k: tuple(part) for k, part in enumerate(parts)} if self.apart else {})


class AdaptiveSteps(Steps):
    """The passes of fitting an adaptive model; it is fitted in place."""

    #: The global model of the sample's choices: :class:`SquaredPasses` or :class:`LogPasses`.
    stage: Any
    coordinates: Coordinates
    sample: Rows
    #: By what columns became numbers, which is fitted; None for rows that are numbers. And what the columns are.
    encoder: Any = None
    columns: TableColumns
    #: The view that the sample has chosen.
    choice: ViewChoice
    #: Losses of the scored rows with leaves and without.
    losses: tuple[float, float] | None = None

    def __init__(self, model: AdaptiveModel) -> None:
        Model._refuse(model, "a stream")
        self.model, self.targets = model, None

    def validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Inputs and targets by scikit-learn's checks; inputs are numbers, by the model's encoder if it has one."""
        if sparse.issparse(X):
            raise TypeError(f"Sparse data is not supported by {type(self.model).__name__}; yield dense rows")
        X, y, self.columns = read_numbers(self.model, X, y, self.encoder)
        return X, y

    def table_encoder(self, names: list[str]) -> Any:
        """What makes the columns of a frame numbers, to be fitted and given to the steps as their ``encoder``."""
        return encoder_for(self.model, names)

    def most_features(self, rows: Rows) -> int:
        return int(self.model._most_features(rows))

    def fit_whole(self, rows: Rows, rng: np.random.RandomState, backend: Any) -> None:
        """The model of rows that are all here, as ``fit`` makes it."""
        model = self.model
        with engine.threads_for(len(rows)):
            rows = model._sent(rows, backend)
            found = model._train(model._training(self.targets, rows, None, rng, backend, columns=self.columns))
        certainty = None if found.held_out is None else self.certainty(found.held_out, rows)
        model._adopt(Fitted(found.weights, self.targets, certainty))

    @contextmanager
    def reported(self) -> Iterator[None]:
        """What is done inside is reported where the model is verbose."""
        self.model._progress = FitProgress(self.model)
        try:
            yield
        finally:
            self.model._forget("_progress")

    # What the sample decides

    def look(
        self,
        sample: Rows,
        rng: np.random.RandomState,
        counts: Counts,
        chosen: dict[str, Any] | None,
        backend: Any,
    ) -> None:
        """Choose the view on a sample, or take what was ``chosen`` before."""
        model = self.model
        self.table, self.rng, self.counts = gathered(replace(sample, X=np.asarray(sample.X, np.float64))), rng, counts
        rows = replace(self.table, place=np.arange(len(self.table)))
        centre, scale = model._units(rows)
        scaled = replace(rows, T=(rows.T - centre) / scale)
        if chosen is None:
            coding = model._coding(self.targets, scaled)
            with engine.threads_for(model._spent.landmarks):
                self.choice = model._choose_view(scaled, coding, self.columns, rng, backend, counts.n_distinct)
        else:
            self.choice = ViewChoice(*chosen["view"])
        apart = counts.weight < MANY * counts.n_distinct
        own = Coordinates(self.choice.view, self.choice.part_seed, apart, {}, centre, scale)
        self.coordinates = own.with_categories(own.categories(rows))

    @property
    def has_means(self) -> bool:
        """Whether there are target means, which all rows have a say in."""
        return any(category.has_means for category in self.coordinates.view.preparation.categories)

    def begin(self, chosen: dict[str, Any] | None) -> None:  # type: ignore[override]
        """Choose landmarks, and for the log loss C, on the sample; or take what was ``chosen`` before."""
        model, rng = self.model, self.rng
        self.choice = replace(self.choice, view=self.coordinates.view)
        self.sample = self.coordinates.of(replace(self.table, place=np.arange(len(self.table))))
        coding = model._coding(self.targets, self.sample)
        loss = getattr(model, "loss", "squared") if chosen is None else chosen["loss"]
        if loss == "auto":
            loss = self._better(coding)
        criterion = model.criterion if loss == "squared" else self._log_criterion
        work = model._work(self.sample, coding, self.choice.view, rng, criterion, Host(model.n_jobs))
        with engine.threads_for(model._spent.landmarks):
            if loss == "squared":
                self.stage = SquaredPasses(work, fit_intercept=model._intercept)
            else:
                self.stage = LogPasses(work, self.counts.weight, self.choice.C)
            if chosen is None:
                self.stage.begin(self.choice.landmarks)
            else:
                self.stage.chosen = chosen["stage"]
        self.loss = loss

    @property
    def _log_criterion(self) -> str:
        return "log_loss" if self.model.criterion == "auto" else str(self.model.criterion)

    def _better(self, coding: Any) -> str:
        """Which loss is better on the sample, as ``loss="auto"`` tells it."""
        model, rows = self.model, self.sample
        work = model._work(rows, coding, self.choice.view, self.rng, self._log_criterion, Host(model.n_jobs))
        with engine.threads_for(model._spent.landmarks):
            by_log = LogStages(work, self.choice.C).chosen(self.choice.landmarks).held_out
        squared: Any = AdaptiveModel._stages(model, rows, coding, self.choice, self.rng, work.backend)
        losses = [calibrated_loss(each) for each in (by_log, squared.held_out)]
        return "squared" if losses[1] < (1 - CLEARLY) * losses[0] else "log"

    @property
    def chosen(self) -> dict[str, Any]:
        """What :meth:`begin` has decided, for a file."""
        return {"loss": self.loss, "stage": self.stage.chosen}

    @property
    def seen(self) -> dict[str, Any]:
        """What :meth:`look` has decided, for a file."""
        choice = self.choice
        return {"view": (choice.view, choice.landmarks, choice.part_seed, choice.trials, choice.C)}

    # What passes over all rows sum

    def summed_form(self) -> tuple[FeatureMap, np.ndarray | None]:
        return summed_form(self.plan.features)

    def extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T)

    def planned(self, features: Any, C: float | None) -> "AdaptiveSteps":
        """These steps, about to sum or correct the weights of a map."""
        self.plan = Choice(self.coordinates.view.gamma, C, features)
        return self

    # The local stage

    @property
    def effort(self) -> Any:
        """How much is spent."""
        return self.model._spent

    @property
    def max_bytes(self) -> float:
        """What the fitted model may hold."""
        return float(self.model.max_memory) * 1e9

    def say(self, text: str) -> None:
        """Tell it, where the model is verbose."""
        self.model._say(text)

    @property
    def leaf_rows(self) -> int:
        """Rows of a leaf."""
        return int(self.effort.leaf(self.counts.n_distinct))

    def regions(self) -> tuple[Partition, np.ndarray]:
        """A tree, and the numbers of its leaves that are the regions on which the local stage is scored."""
        share = len(self.sample) / max(self.counts.n_distinct, 1.0)
        tree = random_partition(self.sample.X, max(REGION_SAMPLE, int(REGION * self.leaf_rows * share)), self.rng)
        count = min(tree.n_leaves, self.effort.scored_leaves)
        return tree, np.sort(self.rng.permutation(tree.n_leaves)[:count])

    def score(self, raw: Rows) -> tuple[LocalChoice, HeldOut] | None:
        """The best local stage by the rows of the regions, and their predictions; None where it does not pay."""
        raw = gathered(raw)
        raw = replace(raw, unit=left_out_together(raw.X, raw.T, raw.weight, raw.unit), place=np.arange(len(raw)))
        self.scored_table = np.asarray(raw.X)
        found = self.stage.scored(self.coordinates.of(raw), self.leaf_rows)
        if found is None:
            return None
        choice, held_out = found
        self.losses = (choice.loss, choice.loss_without)
        kept = "kept" if choice.pays else "left out"
        self.model._say(f"local stage: loss {choice.loss:.4g} against {choice.loss_without:.4g} without it ({kept})")
        return (choice, held_out) if choice.pays else None

    def rounds(self, max_bytes: float) -> int:
        """How many partitions fit into this memory, which may be infinite."""
        if np.isinf(max_bytes):
            return int(self.effort.partitions if self.counts.n_distinct > self.leaf_rows else 1)
        n, (d, m) = self.counts.n_distinct, (self.sample.X.shape[1], self.sample.T.shape[1])
        count = min(self.effort.partitions, int((max_bytes - 4 * n * d) // (8 * n * (m + 1))))
        if self.effort.partitions and count < 1:
            self.model._say(f"local stage left out: it needs {4 * n * (d + 2 * m + 2) / 1e9:.2g} GB")
        return min(max(count, 0), self.effort.partitions if n > self.leaf_rows else 1)

    def tops(self, rounds: int, cell_rows: float) -> list[Partition]:
        """The tops of this many partitions, cut on the sample until cells hold this many rows each."""
        share = len(self.sample) / max(self.counts.n_distinct, 1.0)
        most = len(self.sample) if cell_rows >= self.counts.n_distinct else max(1, int(cell_rows * share))
        return [random_partition(self.sample.X, most, self.rng) for _ in range(rounds)]

    def solver(self, choice: LocalChoice, *, apart: bool = False) -> CellSolver:
        """How cells become leaves; ``apart`` where every leaf is to have its rows in one place."""
        view = self.coordinates.view
        seed = int(self.rng.randint(2**31 - 1))
        about = (view.kernel, choice.width * view.gamma, choice.ridge, self.leaf_rows, seed)
        return CellSolver(*about, self.stage.tolerance, self.coordinates.scale, apart)

    def finish(self, local: LocalKernels | None, held_out: HeldOut | None) -> Any:  # type: ignore[override]
        """The model, calibrated on the rows of the regions, or on those of the sample where there are no leaves."""
        model, own = self.model, self.coordinates
        table = np.asarray(self.table.X) if held_out is None else self.scored_table
        stages = self.stage.stages(local, held_out, self.losses)
        if hasattr(model, "decision"):
            stages = replace(stages, loss=self.loss)
        units = own.centre, own.scale
        weights = model._weights(stages, self.choice, self.columns, self.sample, units)
        certainty = self.certainty(model._held_out(stages, units, table), self.sample)
        model._adopt(Fitted(weights, self.targets, certainty))
        return model

    def __getstate__(self) -> dict[str, Any]:
        """What workers need: neither the sample nor the model."""
        return {"plan": self.plan}


__all__ = ["AdaptiveSteps", "Coordinates", "Counts"]
