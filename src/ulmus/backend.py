"""Where rows are summed and solved: :class:`Host` is the CPU, ``ulmus.devices.direct.Driver`` a GPU, by the same calls.

A fit calls its backend and never asks where the arrays are. :func:`backend_for` chooses one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut, leave_one_out_sample
from ulmus.codings import Coding
from ulmus.devices.accelerator import HIDDEN, WORTH_SENDING, on_device, resolve
from ulmus.engine import Rows
from ulmus.features.kept import KeptMap, keep
from ulmus.features.kernels import CrossKernel
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import Partition, random_partition
from ulmus.solvers.kernel_ridge import DualSolution, fit_kernel_ridge
from ulmus.solvers.local import TOLERANCE, LeafProblem, LocalKernels, fit_leaves
from ulmus.solvers.nystrom_iterative import HostNormal
from ulmus.solvers.nystrom_ridge import (
    SOUND,
    NystromProblem,
    nystrom_statistics,
    summed_form,
)
from ulmus.solvers.ridge import Problem, Solution
from ulmus.solvers.round_off import FEWEST
from ulmus.solvers.softmax import LogProblem
from ulmus.statistics import Statistics, Summary
from ulmus.tuning import Scorer
from ulmus.tuning.log_choice import posed_in_double
from ulmus.tuning.log_held import posed


@dataclass(frozen=True)
class Host:
    """The CPU, with this many threads."""

    n_jobs: int | None = -1
    name: ClassVar[str] = "cpu"
    is_gpu: ClassVar[bool] = False
    #: Leaves of a search are scored by its own threads.
    leaf_trials: ClassVar[None] = None
    #: So are those that teach a metric.
    metric_cut: ClassVar[None] = None

    def received(self, rows: Rows) -> Rows:
        """Rows as the backend takes them."""
        return rows

    def adopt(self, features: Any) -> Any:
        """A map that is to be fitted here."""
        return features

    def release(self, features: Any) -> Any:
        """A map that needs the backend no longer."""
        return features

    def free_bytes(self) -> float:
        """Memory that a fit may use."""
        return engine.physical_memory() or np.inf

    def scorer(
        self, rows: Rows, coding: Coding, fit_intercept: bool, criterion: str, folds: np.ndarray | None, **more: Any
    ) -> Scorer:
        """Who tells how good a map and a C are, by rows that models did not see."""
        options: dict[str, Any] = {"criterion": criterion, "folds": folds, "n_jobs": self.n_jobs}
        return Scorer(rows, coding, self.scoring_statistics, fit_intercept, **options, **more)

    def scoring_statistics(self, features: Any, rows: Rows) -> Statistics:
        """Sums by which models are compared; the weights of the one that is chosen are corrected.

        Few rows are white before they are squared: models may pass through them, and what is left without a row is then
        as small as 1/C, which the round-off of sums must not reach.
        """
        if not isinstance(features, NystromMap | KeptMap):
            return self.statistics(features, rows)
        return self.statistics(features, rows, limit=SOUND if len(rows) >= FEWEST else 1.0)

    def kept(self, features: NystromMap, rows: Rows) -> tuple[Any, Rows]:
        """Map and rows for several passes: with kernel values evaluated once, where they fit in memory."""
        return keep(features, rows, self.n_jobs)

    def scored_form(self, features: Any) -> tuple[Any, np.ndarray | None]:
        """Features as the scorer takes them, and the whitening of those that are raw."""
        return summed_form(features)

    def statistics(self, features: Any, rows: Rows, **options: Any) -> Statistics:
        """Sums of the features of rows."""
        sums = nystrom_statistics if isinstance(features, NystromMap | KeptMap) else engine.gram_statistics
        return sums(features, rows, n_jobs=self.n_jobs, **options)

    def host_statistics(self, features: Any, rows: Rows) -> Statistics:
        """The same sums in memory."""
        return self.statistics(features, rows)

    def on_host(self, summary: Summary) -> Summary:
        """Sums in memory."""
        return summary

    def ridge_problem(self, features: Any, rows: Rows, C: float | None, fit_intercept: bool) -> Problem:
        """Ridge on the features of rows in memory, to be solved in the form that keeps the digits."""
        posed = NystromProblem if isinstance(features, NystromMap | KeptMap) else Problem
        return posed(features, rows, C, fit_intercept, self.n_jobs)

    def fit_kernel(self, cross: CrossKernel, rows: Rows, C: float, **options: Any) -> DualSolution:
        """Dual weights of the exact kernel."""
        return fit_kernel_ridge(cross, rows, C, n_jobs=self.n_jobs, **options)

    def normal(self, cross: CrossKernel, rows: Rows, C: float, fit_intercept: bool) -> Any:
        """The normal equations of landmarks too many to square."""
        return HostNormal(cross, rows, C, fit_intercept=fit_intercept, n_jobs=self.n_jobs)

    def left_out(self, features: Any, rows: Rows, solution: Solution, rng: Any, C: float | None) -> HeldOut:
        """Exact leave-one-out predictions of a sample of the rows."""
        return leave_one_out_sample(features, rows, solution, rng, C, n_jobs=self.n_jobs)

    def apply(self, features: Any, X: Any, weights: np.ndarray) -> np.ndarray:
        """``Φ(X) β``."""
        return engine.apply(features, X, weights, n_jobs=self.n_jobs)

    def partition(self, U: np.ndarray, leaf_rows: int, rng: np.random.RandomState) -> Partition:
        """A random partition of rows into leaves of at most this many."""
        return random_partition(U, leaf_rows, rng, self.n_jobs)

    def fit_leaves(self, problem: LeafProblem, tol: float = TOLERANCE) -> list[np.ndarray]:
        """Weights of exact kernel models in every leaf, in the order of each partition."""
        return fit_leaves(problem, tol, self.n_jobs, single=True)

    def answers(self, local: LocalKernels, U: np.ndarray) -> np.ndarray:
        """Answers of a local stage to queries."""
        return local.predict(U, self.n_jobs)

    def log_problem(self, features: NystromMap, rows: Rows, max_bytes: float) -> LogProblem:
        """The log loss on features of the rows, which are evaluated once where memory allows."""
        return posed(features, rows, max_bytes, self.n_jobs)

    def exact_log_problem(self, features: Any, rows: Rows, C: float, fit_intercept: bool) -> LogProblem:
        """The same with features in double precision, for weights that are kept as they are."""
        return posed_in_double(features, rows, C, fit_intercept, self.n_jobs)


@contextmanager
def backend_for(device: str, n_jobs: int | None, work: float) -> Iterator[Any]:
    """The backend of a fit of this many multiply-adds, as long as it lasts; one on the CPU loads nothing of a GPU."""
    if device == "cpu" or (name := resolve(device, work)) == "cpu":
        yield Host(n_jobs)
        return
    with on_device(name) as accelerator:
        from ulmus.devices.direct import Driver

        yield Driver(accelerator, n_jobs)


@contextmanager
def predicting(device: str, n_jobs: int | None, work: float, worth: float = WORTH_SENDING) -> Iterator[Any]:
    """The backend of a prediction of this many kernel values: a model that was fitted on a GPU predicts without one."""
    if device == HIDDEN or (device != "cpu" and work >= worth and resolve("auto", inf) == "cuda"):
        with on_device("cuda" if device != HIDDEN else device) as accelerator:
            from ulmus.devices.direct import Driver

            yield Driver(accelerator, n_jobs)
        return
    yield Host(n_jobs)
