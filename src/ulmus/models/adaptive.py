"""Adaptive models: a learned metric, a global Nyström model in it, and exact local kernels on what it leaves over."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus._sklearn import Interval, StrOptions
from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import random_partition
from ulmus.features.sampling import distinct_rows
from ulmus.models._assembly import COMMON_CONSTRAINTS, Assembly
from ulmus.models._features import leave_one_out_sample
from ulmus.models._tasks import Classification, Regression
from ulmus.solvers.local import LocalKernels, fit_leaves
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge, nystrom_statistics
from ulmus.tuning.judge import Judge
from ulmus.tuning.local import LocalSearch, Remainder
from ulmus.tuning.search import LOG2_C
from ulmus.tuning.views import Budget, View, ViewSearch, parts_of


@dataclass(frozen=True)
class Effort:
    """How much is spent on what."""

    budget: Budget
    landmarks: int
    leaf_rows: int
    partitions: int
    judged_leaves: int


EFFORTS = {
    "fast": Effort(Budget(1_500, 150, 2_500, 250, rounds=1), 500, 700, 2, 8),
    "default": Effort(Budget(), 1_000, 1_500, 4, 8),
    "best": Effort(Budget(4_000, 400, 8_000, 700, rounds=3), 2_000, 2_000, 8, 16),
}
#: Held-out rows that judge the local stage: a tenth of all, within these bounds.
HELD = (500, 5_000)


class AdaptiveFamily(Assembly):
    """The parts in order: view, global model, local stage."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "effort": [StrOptions(set(EFFORTS))],
        "criterion": COMMON_CONSTRAINTS["criterion"],
        "max_memory": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
    }
    C, fit_intercept, cv = "auto", "auto", None

    def __init__(
        self,
        *,
        effort: str = "default",
        criterion: str = "auto",
        max_memory: float = 2.0,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.effort = effort
        self.criterion = criterion
        self.max_memory = max_memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        effort = EFFORTS[self.effort]
        coding = self._coding(rows)
        self._centre, self._scale = self._units(rows)
        rows = replace(rows, T=(rows.T - self._centre) / self._scale)
        categorical = np.zeros(rows.X.shape[1], bool)
        search = ViewSearch(
            rows,
            coding,
            categorical,
            rng,
            fit_intercept=self._intercept,
            criterion=self.criterion,
            budget=effort.budget,
            n_jobs=self.n_jobs,
        )
        self.view_: View = self._learn_view(search, rows, categorical)
        part = parts_of(rows.X, rng)
        U = self.view_.transform_learned(rows, part)
        posed = replace(rows, X=U)
        self.map_ = NystromMap(
            effort.landmarks,
            kernel=self.view_.kernel,
            gamma=self.view_.gamma,
            random_state=int(rng.randint(2**31 - 1)),
            n_jobs=self.n_jobs,
        ).fit(U, sample_weight=rows.weight)
        held = self._held(posed, rng)
        return self._both_stages(posed, held, coding, effort, rng)

    def _learn_view(self, search: ViewSearch, rows: Rows, categorical: np.ndarray) -> View:
        view = search.choose()
        self.trials_ = tuple(search.trials)
        preparation = type(view.preparation).of(view.preparation.columns.kind, rows.X, rows.T, rows.weight, categorical)
        return replace(view, preparation=preparation)

    def _units(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Targets are fitted in units of their deviation; codes as they are."""
        zero, one = np.zeros(rows.T.shape[1]), np.ones(rows.T.shape[1])
        if not isinstance(self, Regression):
            return zero, one
        mean = np.average(rows.T, axis=0, weights=rows.weight)
        deviation = np.sqrt(np.average((rows.T - mean) ** 2, axis=0, weights=rows.weight))
        return mean, np.where(deviation > 0, deviation, 1.0)

    def _held(self, rows: Rows, rng: np.random.RandomState) -> np.ndarray:
        """Rows that judge the local stage."""
        count = int(np.clip(len(rows) // 10, *HELD))
        return np.sort(distinct_rows(rows.X, count, rows.weight, rng)[0])

    def _both_stages(
        self, rows: Rows, held: np.ndarray, coding: Any, effort: Effort, rng: np.random.RandomState
    ) -> HeldOut:
        kernel, gamma = self.view_.kernel, self.view_.gamma
        stats = nystrom_statistics(self.map_, rows, n_jobs=self.n_jobs)
        judge = Judge(
            rows,
            coding,
            lambda features, some: nystrom_statistics(features, some, n_jobs=self.n_jobs),
            self._intercept,
            criterion=self.criterion,
            scored=np.sort(distinct_rows(rows.X, 4_000, None, rng)[0]),
            n_jobs=self.n_jobs,
        )
        from ulmus.tuning.judge import Summary

        self.C_ = judge.trial("global", gamma, self.map_, Summary(stats), LOG2_C[::2]).best_C
        self.local_: LocalKernels | None = None
        calibration = None
        if len(rows) > 2 * self.map_.n_lifted:
            kept = np.ones(len(rows), bool)
            kept[held] = False
            train, test = rows.take(kept), rows.take(held)
            less = stats - nystrom_statistics(self.map_, test, n_jobs=self.n_jobs)
            without = fit_nystrom_ridge(
                self.map_, train, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=less
            )
            data = Remainder(
                train.X,
                train.T - self._global(train.X, without.beta, without.intercept),
                train.weight,
                test.X,
                test.T,
                self._global(test.X, without.beta, without.intercept),
                test.weight,
            )
            partition = random_partition(train.X, effort.leaf_rows, rng)
            choice = LocalSearch(
                kernel,
                gamma,
                data,
                partition,
                coding,
                n_leaves=effort.judged_leaves,
                criterion=self.criterion,
                n_jobs=self.n_jobs,
            ).choose()
            self.choice_ = choice
        solution = fit_nystrom_ridge(
            self.map_, rows, self.C_, fit_intercept=self._intercept, n_jobs=self.n_jobs, stats=stats
        )
        self.beta_, self.intercept_ = solution.beta, solution.intercept
        if len(rows) > 2 * self.map_.n_lifted and choice.pays:
            R = rows.T - self._global(rows.X, self.beta_, self.intercept_)
            partitions = tuple(random_partition(rows.X, effort.leaf_rows, rng) for _ in range(effort.partitions))
            alphas = tuple(
                fit_leaves(kernel, choice.width * gamma, choice.ridge, rows.X, R, rows.weight, p, n_jobs=self.n_jobs)
                for p in partitions
            )
            self.local_ = LocalKernels(kernel, choice.width * gamma, rows.X, partitions, alphas)
            T, P = test.T[choice.rows], choice.P
            weight = np.ones(len(T)) if test.weight is None else test.weight[choice.rows]
            calibration = HeldOut(
                T * self._scale + self._centre, P * self._scale + self._centre, np.zeros(len(T)), weight
            )
        if calibration is None:
            found = leave_one_out_sample(self.map_, rows, solution, rng, self.n_jobs)
            calibration = replace(found, T=found.T * self._scale + self._centre, P=found.P * self._scale + self._centre)
        return calibration

    def _global(self, U: np.ndarray, beta: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        return engine.apply(self.map_, U, beta, n_jobs=self.n_jobs) + intercept

    def _scores_of(self, X: Any) -> np.ndarray:
        U = self.view_.transform(self._checked(X))
        out = self._global(U, self.beta_, self.intercept_)
        if self.local_ is not None:
            out += self.local_.predict(U, self.n_jobs)
        return out * self._scale + self._centre

    def _outputs(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        zero = np.zeros(X.shape[0])
        return zero, zero


class AdaptiveRegressor(Regression, AdaptiveFamily):
    """Regression that adapts its metric to the data and corrects itself locally."""


class AdaptiveClassifier(Classification, AdaptiveFamily):
    """Classification that adapts its metric to the data and corrects itself locally."""

    class_weight = None
