"""What the fit of an adaptive model has found, as one frozen value: columns, view, global model, local stage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.backend import predicting
from ulmus.calibration import HeldOut, variance_terms
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.models._left_out import LeftOutLater, StagesLeaning, VariancesLater, variances
from ulmus.models.fitted import FittedView, views
from ulmus.models.monotone_grid import MonotoneGrid, asked_by
from ulmus.solvers.boosted import BoostedTrees
from ulmus.solvers.local import LocalKernels
from ulmus.tuning.parts import value_parts
from ulmus.tuning.views import View

#: Kernel values of leaves from which a prediction is sent to a GPU.
WORTH_SENDING = 3e6


@dataclass(frozen=True)
class TableColumns:
    """What the columns of a table are: which of them are codes, and the input behind each.

    The ``encoder`` makes the columns of a frame numbers; it is None where the model was given an array.
    """

    encoder: Any
    categorical: np.ndarray
    sources: np.ndarray

    @property
    def n_inputs(self) -> int:
        """How many columns were given."""
        return len(self.sources) if self.encoder is None else int(self.encoder.n_features_in_)


@dataclass(frozen=True)
class ViewChoice:
    """The view that a search has chosen, how many landmarks there is a use for, what was tried, and the best C there.

    The seed divides rows into parts, so that none has a target mean that knows its own target.
    """

    view: View
    landmarks: int
    part_seed: int
    trials: tuple[Any, ...]
    C: float

    def learned(self, rows: Rows) -> np.ndarray:
        """Coordinates of the rows that the view was learned from."""
        return self.view.transform_learned(rows, value_parts(rows, self.part_seed))


@dataclass(frozen=True)
class AdaptiveFit:
    """``f(x) + mean of the leaves of x``, and of trees where there are some, of rows as the view shows them.

    ``importances`` are shares of the inputs, ``local_losses`` those of rows held out with a local stage and without
    one, ``losses`` those by either loss where both were tried. The ``grid`` makes answers monotone, and ``fall`` tells
    how far they are not. ``tree_losses`` are those of rows held out with trees and without them, ``tree_weight`` is the
    share of trees. ``variances`` are those of rows left out, with their weights, where the certainty has none.
    ``later`` tells how sure answers are, or how far rows, when somebody asks; it is None once that is known, and in
    files.
    """

    columns: TableColumns
    view: View
    part_seed: int | None
    trials: tuple[Any, ...]
    features: NystromMap
    beta: np.ndarray
    intercept: np.ndarray
    C: float
    leverage: Any
    local: LocalKernels | None
    local_losses: tuple[float, ...] | None
    importances: np.ndarray
    loss: str | None = None
    losses: dict[str, float] | None = None
    fall: float | None = None
    grid: MonotoneGrid | None = None
    variances: tuple[np.ndarray, ...] | None = None
    trees: BoostedTrees | None = None
    tree_losses: tuple[float, ...] | None = None
    tree_weight: float = 0.0
    later: LeftOutLater | VariancesLater | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the model holds."""
        own = self.features.landmarks_.nbytes + self.features.whitening_.nbytes + self.beta.nbytes
        return own + sum(each.nbytes for each in (self.local, self.trees) if each is not None)

    def coordinates(self, X: Any) -> np.ndarray:
        """Rows as the kernel sees them."""
        return self.view.transform(np.asarray(X, dtype=np.float64))

    def form(self, dtype: Any = np.float64) -> tuple[Any, np.ndarray]:
        """By what rows are predicted globally: features, and weights on them."""
        return self.features, self.beta

    def scores(self, X: Any, device: str, n_jobs: int | None) -> np.ndarray:
        """All stages, but for the constant; a GPU is asked where kernels with a leaf, or landmarks, are worth it."""
        if self.grid is not None:
            return self.grid.answers(asked_by(self, n_jobs), np.asarray(X, dtype=np.float64))[:, None]
        U = self.coordinates(X)
        weights = self.features.weight_to_landmarks(self.beta)
        kernels = len(self.beta) if self.local is None else self.local.leaf_rows
        with predicting(device, n_jobs, float(len(U)) * kernels, WORTH_SENDING) as backend:
            out: np.ndarray = backend.apply(self.features.cross_kernel_, U, weights)
            if self.local is not None:
                out += backend.answers(self.local, U)
        if self.trees is not None:
            out += self.trees.predict(U, n_jobs)
        return out

    def variance_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """None: intervals are as wide for one row as for another, but for what the sizes of errors say."""
        zero = np.zeros(X.shape[0])
        return zero, zero

    def deviation_factors(self, X: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Those of the global model: it is what answers far from the data."""
        h, r = variance_terms(self.features, self.coordinates(X), self.leverage, n_jobs)
        return h, self.C * r

    def leaning(self, held_out: HeldOut, n_jobs: int | None) -> StagesLeaning:
        """What answers of new rows lose with every row that was left out alone."""
        return StagesLeaning.of(self, held_out, n_jobs)

    def left_out_variance(self, rows: Any, n_jobs: int | None) -> tuple[np.ndarray, ...] | None:
        """Variances of predictions of rows by models without them, and weights; None where nothing tells them."""
        if rows is None or self.leverage is None:
            return self.variances
        seen = Rows(self.coordinates(rows.X), rows.T, rows.weight)
        return variances(self.features, self.leverage, self.C, seen, n_jobs)


#: Attributes of adaptive models, and the parts of a fit that they show.
SHOWN = views(
    view=("weights.view", "View", "How the kernel sees the table: preparation, metric, kernel, gamma."),
    map=(
        "weights.features",
        "NystromMap",
        "Feature map of the global model; ``beta_``, ``intercept_`` and ``C_`` belong to it.",
    ),
    beta="weights.beta",
    intercept="weights.intercept",
    C="weights.C",
    local=("weights.local", "LocalKernels or None", "The local stage; None where it did not pay."),
    local_losses=(
        "weights.local_losses",
        "tuple of float, or None",
        "Loss of held-out rows with a local stage and without one; None where none was tried.",
    ),
    trees=(
        "weights.trees",
        "BoostedTrees or None",
        "Trees beside the kernels, where they pay (see ``effort``); their share of the answers is ``tree_weight_``.",
    ),
    tree_losses=(
        "weights.tree_losses",
        "tuple of float, or None",
        "Loss of held-out rows with trees and without them; None where none were tried.",
    ),
    tree_weight="weights.tree_weight",
    feature_importances=(
        "weights.importances",
        "ndarray of shape (n_features,)",
        "Share of each input in the mean squared slope of the global model.",
    ),
    memory=("weights.nbytes", "int", "Bytes that the model holds."),
    trials=("weights.trials", "tuple of Trial", "What the choice of the view tried."),
    encoder="weights.columns.encoder",
)
MONOTONE_SHOWN = {"monotone_violation_": FittedView("monotone_violation_", "weights.fall")}
LOSSES_SHOWN = views(
    loss=("weights.loss", "str", "The loss that is in use."),
    losses=("weights.losses", "dict", 'With ``loss="auto"``: the log loss of held-out rows by either.'),
)
