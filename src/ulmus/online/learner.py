"""A learner: the recursion behind a model that learns on, what it remembers of rows, and what it has fixed for good.

Rows go in (:meth:`Learner.add`), come out again (:meth:`Learner.remove`), learners join (:meth:`Learner.merge`), and
:meth:`Learner.solution` are the weights that all rows so far give. All that can fail is done before anything changes.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.sampling import row_hashes
from ulmus.online.memory import Memory
from ulmus.solvers.covariance import Covariance
from ulmus.solvers.recursive import Information, NotDefiniteError, Recursion, Shape, start_of, sums_of
from ulmus.solvers.ridge import Solution
from ulmus.solvers.square_root import SquareRoot
from ulmus.statistics import Extent, Statistics, Summary, design_matrix

FORMS: dict[str, type[Recursion]] = {form.form: form for form in (Information, Covariance, SquareRoot)}
#: Rows that go through the batch engine together.
BATCH = 1_000


@dataclass(eq=False)
class Learner:
    """Where a model stands in its stream.

    During the warm-up rows wait, with their ``labels``. Then ``plan`` (the map, C and how they were chosen) is fixed,
    and ``recursion`` takes rows in. ``targets`` and ``metric`` are what is known of targets and how rows are seen;
    ``certainty`` is that of an earlier fit, until there are enough rows for another; ``errors`` are recent ones, for
    losses that need their scale. ``complete`` tells whether all rows behind the model are remembered.
    """

    memory: Memory
    announced: bool
    recursion: Any = None
    extent: Extent | None = None
    waiting: Rows | None = None
    labels: np.ndarray | None = None
    n_provisional: int = 0
    n_rows: int = 0
    complete: bool = True
    plan: Any = None
    targets: Any = None
    metric: np.ndarray | None = None
    certainty: Any = None
    errors: np.ndarray | None = None

    def going_on_from(self, weights: Any, keys: np.ndarray | None, form: str, fit_intercept: bool) -> "Learner":
        """This learner, standing where a fit has left a model: with its weights, and hashes of its rows."""
        past = weights.learned
        assert past.extent is not None
        shape = Shape(weights.features.n_features_out, len(past.extent.low), weights.C, fit_intercept)
        route = "eigenvalues" if weights.leverage.spectral else weights.route
        solution = Solution(weights.beta, weights.intercept, route, np.nan, weights.leverage)
        try:
            R, z = start_of(solution, shape, past.weight)
        except LinAlgError as error:
            raise deficient(weights.features, past.n_rows) from error
        recursion: Any
        if form == "root":
            recursion = SquareRoot(shape, (R, z))
        else:
            sums = sums_of(R.T @ R - np.diag(shape.ridge), R.T @ z, shape)
            sums.moments[-1, -1], sums.n_rows = past.weight, past.n_rows
            recursion = FORMS[form](shape, sums)  # type: ignore[call-arg]
        if keys is not None:
            self.memory.know(keys)
        complete = keys is not None
        return replace(self, recursion=recursion, extent=past.extent, n_rows=past.n_rows, complete=complete)

    @property
    def learning(self) -> bool:
        """Whether the warm-up is over."""
        return self.recursion is not None

    # Rows in

    def material(self, rows: Rows, forgetting: float, n_jobs: int | None, sums: Callable[[Rows], Any]) -> Any:
        """What the recursion takes in of weighed rows: a few as they are, many as ``sums``."""
        features = self.plan.features
        if len(rows) < BATCH:
            taken = design_of(features, rows)
            if not isfinite(np.vdot(taken, taken)):
                raise ValueError(f"squares of features or targets overflow: {np.abs(taken).max():.3g}; rescale them")
            return taken
        rows = aged(rows, forgetting)
        if forgetting < 1.0:
            assert rows.weight is not None
            rows = rows.take(rows.weight > np.finfo(float).tiny)
        if not isinstance(self.recursion, SquareRoot):
            return sums(rows)
        if self.recursion.squares:
            squared = sums(rows)
            if self.recursion.squarable(squared):
                return squared
        return engine.triangular_statistics(features, rows, n_jobs=n_jobs)

    def add(self, rows: Rows, taken: Any, extent: Extent, forgetting: float) -> None:
        """Let the recursion have coded rows, by what it takes in of them."""
        n = len(rows)
        if not n:
            return
        if isinstance(taken, np.ndarray):
            self.recursion.add(taken, forgetting)
        else:
            self.recursion.add_statistics(taken, forgetting**n)
        self.extent = extent if self.extent is None else self.extent + extent
        self.memory.add(rows, self.targets.identity(rows.T))
        self.n_rows += n

    def recode(self, targets: Any, M: np.ndarray | None) -> None:
        """Know targets otherwise; M turns the known columns into theirs."""
        self.targets = targets
        if M is None:
            return
        self.recursion.recode(M)
        self.memory.recode(M)
        self.extent = Extent(np.full(M.shape[1], -1.0), np.full(M.shape[1], 1.0))

    def widen(self, features: Any) -> None:
        """Go on with a map that has more features; rows so far count as 0 in the new ones."""
        new = features.n_features_out - self.plan.features.n_features_out
        for _ in range(new):
            self.recursion.widen()
        self.memory.widen(new)
        self.plan = replace(self.plan, features=features)

    # Rows out

    def remove(self, rows: Rows, forgetting: float) -> None:
        """Take coded rows out again, exactly; those that were never learned are refused."""
        places = self.memory.find(row_hashes(rows, self.targets.identity(rows.T)))
        self._check_known(rows, places)
        Phi = engine.transform_rows(self.plan.features, rows.X)
        unborn = self.memory.unborn(places)
        Phi[:, Phi.shape[1] - unborn.shape[1] :][unborn] = 0.0
        weight = rows.weight
        if forgetting < 1.0:
            if not self.complete:
                raise ValueError("unlearn with forgetting needs a model that learned all its rows by partial_fit")
            age = forgetting ** self.memory.age(places)
            weight = age if weight is None else weight * age
        try:
            self.recursion.remove(design_matrix(Phi, rows.T, weight))
        except (NotDefiniteError, LinAlgError) as error:
            raise ValueError(
                f"these rows cannot be unlearned: without them the system is not positive definite ({error}). They "
                "were not learned with these values, or they are all that the model knows of a direction; the model "
                "is unchanged"
            ) from error
        self.memory.remove(places[places >= 0])
        self.n_rows -= len(rows)

    def _check_known(self, rows: Rows, places: np.ndarray) -> None:
        unknown = np.flatnonzero(places < 0)
        if self.complete and len(unknown):
            raise ValueError(
                f"{len(unknown)} of {len(rows)} rows were never learned with this target and weight, or are unlearned "
                f"already (the first is row {unknown[0]} of the block); the model is unchanged"
            )
        if len(unknown):
            warnings.warn(
                f"whether {len(unknown)} of {len(rows)} rows were ever learned is not known: the model was fitted to "
                "more rows at once than it remembers, or to a stream of files; partial_fit remembers every row",
                UserWarning,
                stacklevel=5,
            )
        if len(unknown) and self.memory.feature_starts.shape[1] and len(self.memory.starts) > 1:
            raise ValueError(
                f"{len(unknown)} of {len(rows)} rows are not remembered, and the merged models got landmarks at "
                "different times, so that the features with which these rows were learned are not known; fit a new "
                "model without them"
            )

    # Learners together

    def merge(self, other: "Learner") -> None:
        """Learn all that another one has learned of the same features; it may be changed by that."""
        if hasattr(self.targets, "classes"):
            mine, its = self.targets.grown(other.targets.classes), other.targets.grown(self.targets.classes)
            self.recode(*mine)
            other.recode(*its)
        if hasattr(self.targets, "present"):
            self.targets = self.targets.seeing(other.targets.present)
        self.recursion.merge(other.recursion)
        self.memory.merge(other.memory)
        both = self.extent is not None and other.extent is not None
        self.extent = self.extent + other.extent if both else (self.extent or other.extent)  # type: ignore[operator]
        self.n_rows += other.n_rows
        self.complete &= other.complete

    def blank(self, form: str, memory: Memory) -> "Learner":
        """The same plan and targets, and nothing learned."""
        shape = self.recursion.shape
        if shape.C is None:
            raise ValueError("a blank copy needs a penalty (C): without one, no rows determine no weights")
        empty: dict[str, Any] = {"extent": None, "n_rows": 0, "complete": True, "certainty": None}
        return replace(self, recursion=FORMS[form](shape), memory=memory, **empty)

    # The model of the rows so far

    def solution(self) -> Solution:
        """Weights, and the factor behind them."""
        return self.recursion.solution()

    def quick_weights(self) -> tuple[np.ndarray, np.ndarray] | None:
        """β and b without a factor, where the recursion carries them."""
        if not hasattr(self.recursion, "weights"):
            return None
        shape = self.recursion.shape
        beta = self.recursion.weights()[:, : shape.n_outputs]
        return (beta[1:], beta[0]) if shape.fit_intercept else (beta, np.zeros(beta.shape[1]))

    def summary(self) -> Summary:
        """What is known of sums: those of targets, where the recursion carries sums, and the extent of rows."""
        held = isinstance(self.recursion, Information)
        shape = self.recursion.shape
        total = self.recursion.to_statistics() if held else Statistics.zeros(0, shape.n_outputs)
        return Summary(total, (), self.extent)


def design_of(features: Any, rows: Rows) -> np.ndarray:
    """Rows ``√w [φ t 1]``; the features of a single one are written where they belong."""
    if len(rows) > 1:
        return design_matrix(engine.transform_rows(features, rows.X), rows.T, rows.weight)
    D = features.n_features_out
    taken = np.empty((len(rows), D + rows.T.shape[1] + 1))
    features.transform_block(rows.X, taken[:, :D])
    taken[:, D:-1], taken[:, -1] = rows.T, 1.0
    if rows.weight is not None:
        taken *= np.sqrt(rows.weight)[:, None]
    return taken


def aged(rows: Rows, forgetting: float) -> Rows:
    """Rows with the weights that forgetting leaves them, the last one the newest."""
    if forgetting == 1.0:
        return rows
    return rows.reweighted(forgetting ** np.arange(len(rows) - 1, -1, -1.0))


def check_rank(features: Any, rows: Rows, fit_intercept: bool, n_jobs: int | None) -> None:
    """Refuse first rows whose features have not full rank, where no penalty holds the weights."""
    H = engine.transform(features, rows.X, n_jobs=n_jobs)
    if fit_intercept:
        H = np.column_stack([np.ones(len(H)), H])
    if len(H) < H.shape[1] or np.linalg.matrix_rank(H) < H.shape[1]:
        raise deficient(features, len(H))


def deficient(features: Any, n: int) -> ValueError:
    """What to say of them."""
    return ValueError(
        f"C=None needs a first block whose hidden layer has full rank {features.n_features_out}, and its {n} rows "
        "do not give that; start with more (and different) rows, use fewer nodes, or give a penalty such as C=1e6"
    )
