"""The direct route on the device: sums, one factorisation, every C, leave-one-out."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ulmus.calibration import HeldOut, leave_one_out_sample, residual_kernel
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import TensorMap, map_on, whitened
from ulmus.devices.iterative import DeviceNormal, FusedKernel, fusable, fused_gradient
from ulmus.devices.kernel_ridge import fit_on_device
from ulmus.devices.leaves import answers, fit_leaves
from ulmus.devices.log_leaves import fit_log_leaves
from ulmus.devices.metric_leaves import DeviceCut
from ulmus.devices.partition import DeviceLevel
from ulmus.devices.routes import direct_bytes
from ulmus.devices.scorer import DeviceScorer
from ulmus.devices.softmax import SMALL, log_problem
from ulmus.devices.statistics import TensorStatistics, gradient, gram_statistics, require_finite
from ulmus.devices.tensors import DeviceRows, HostView, block_rows, on_both_sides
from ulmus.devices.trials import leaf_trials
from ulmus.devices.whitening import DeviceDecomposition
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS, dense
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import Partition, grown
from ulmus.solvers.kernel_ridge import DualSolution
from ulmus.solvers.local import TOLERANCE, LeafProblem, LocalKernels
from ulmus.solvers.nystrom_ridge import GRAM_LIMIT, SUM_LIMIT, summed_form
from ulmus.solvers.ridge import (
    DOUBLE,
    Leverage,
    NormalEquations,
    Precision,
    Problem,
    Solution,
    fit_dual,
    fit_sums,
    fit_triangular,
    with_digits_restored,
)
from ulmus.solvers.softmax import LogProblem
from ulmus.statistics import Statistics, Summary
from ulmus.tuning import Scorer
from ulmus.tuning.log_choice import posed_in_double

#: Multiply-adds from which kernel values are rounded before they are squared.
ROUNDING_PAYS = 1e13


class Driver:
    """The backend of one fit on the device, with the calls of :class:`ulmus.backend.Host`.

    Rows and maps that are there already are not sent again.
    """

    def __init__(self, accelerator: Accelerator, n_jobs: int | None = -1) -> None:
        self.accelerator, self.n_jobs = accelerator, n_jobs
        self.name, self.is_gpu, self.free_bytes = accelerator.name, accelerator.is_gpu, accelerator.free_bytes
        self.decompose = DeviceDecomposition(accelerator)
        self._rows: list[tuple[Rows, DeviceRows]] = []
        self._maps: list[tuple[Any, TensorMap]] = []
        self._matrices: list[tuple[Any, Any]] = []

    def rows(self, rows: Rows) -> DeviceRows:
        for known, there in self._rows:
            if known is rows:
                return there
        there = DeviceRows(self.accelerator, self._beside(rows))
        self._rows = [*self._rows[-1:], (rows, there)]
        return there

    def _beside(self, rows: Rows) -> Rows:
        """The rows with inputs that are on the device already, where they are."""
        for known, there in self._rows:
            if known.X is rows.X and there.inputs is not None:
                return replace(rows, X=HostView(there.inputs, rows.X))
        return rows

    def inputs(self, X: np.ndarray) -> Any:
        """All inputs as one tensor of the device."""
        found = self._beside(Rows(X, np.empty((len(X), 0)))).X
        return found.tensor.double() if isinstance(found, HostView) else self.matrix(X)

    def feature_map(self, features: Any) -> TensorMap:
        for known, there in self._maps:
            if known is features:
                return there
        if isinstance(features, NystromMap) and features.triangular:
            cross, R = self.feature_map(features.cross_kernel_), self.matrix(features.whitening_)
            there = whitened(self.accelerator, cross, R)
        else:
            there = map_on(self.accelerator, features)
        self._maps = [*self._maps[-1:], (features, there)]
        return there

    def matrix(self, array: np.ndarray) -> Any:
        """A large matrix on the device."""
        for known, there in self._matrices:
            if known is array:
                return there
        there = self.accelerator.tensor(array)
        self._matrices = [*self._matrices[-1:], (array, there)]
        return there

    def received(self, rows: Rows) -> Rows:
        return on_both_sides(self.accelerator, rows)

    def adopt(self, features: Any) -> Any:
        """A map whose landmark kernel will be factored on the device; :meth:`release` makes it a plain one again."""
        if isinstance(features, NystromMap):
            features.factor_by(self.decompose)
        return features

    @staticmethod
    def release(features: Any) -> Any:
        return features.factor_by(None) if isinstance(features, NystromMap) else features

    def scorer(
        self, rows: Rows, coding: Any, fit_intercept: bool, criterion: str, folds: np.ndarray | None, **more: Any
    ) -> Scorer:
        options: dict[str, Any] = {"criterion": criterion, "folds": folds, "n_jobs": self.n_jobs, "driver": self}
        return DeviceScorer(rows, coding, self.statistics, fit_intercept, **options, **more)

    def kept(self, features: NystromMap, rows: Rows) -> tuple[Any, Rows]:
        """Map and rows for several passes: kernel values are made anew in each, which costs little here."""
        return features, rows

    def scored_form(self, features: Any) -> tuple[Any, None]:
        return features, None

    def ridge_problem(self, features: Any, rows: Rows, C: float | None, fit_intercept: bool) -> "DeviceProblem":
        return DeviceProblem(self.release(features), rows, C, fit_intercept, self.n_jobs, driver=self)

    def fit_kernel(self, cross: Any, rows: Rows, C: float, **options: Any) -> DualSolution:
        return fit_on_device(self.accelerator, cross, rows, C, n_jobs=self.n_jobs, **options)

    def normal(self, cross: Any, rows: Rows, C: float, fit_intercept: bool) -> DeviceNormal:
        return DeviceNormal(self.accelerator, cross, self.rows(rows), C, fit_intercept=fit_intercept)

    def left_out(self, features: Any, rows: Rows, solution: Solution, rng: Any, C: float | None) -> HeldOut:
        evaluate = partial(fitted_values, self)
        return leave_one_out_sample(features, rows, solution, rng, C, evaluate=evaluate, n_jobs=self.n_jobs)

    @staticmethod
    def on_host(summary: Summary) -> Summary:
        total, *folds = (stats.to_host() for stats in (summary.total, *summary.folds))  # type: ignore[attr-defined]
        return Summary(total, tuple(folds), summary.extent)

    def statistics(self, features: Any, rows: Rows) -> TensorStatistics:
        """Sums of the features; those of a Nyström map are squared before they are whitened where digits allow it."""
        L = features.n_features_out
        self.accelerator.require(
            direct_bytes(L, rows.T.shape[1]),
            f"the direct route with {L} features",
            'take fewer, or solver="iterative"',
        )
        if sums_raw(features):
            cross, transform = features.cross_kernel_, self.feature_map(features.cross_kernel_)
            bits = rounded_bits(len(rows), L)
            if bits and cross.kernel is KERNELS["rbf"] and fusable(self.accelerator, cross):
                tiles = FusedKernel(self.accelerator, cross)
                transform = partial(tiles.values, bits=bits)
            stats = gram_statistics(transform, L, self.rows(rows))
            return stats.whitened(self.matrix(features.whitening_))
        return gram_statistics(self.feature_map(features), L, self.rows(rows))

    def host_statistics(self, features: Any, rows: Rows) -> Statistics:
        return self.statistics(features, rows).to_host()

    def gradient(self, features: Any, rows: DeviceRows, weights: Any, intercept: Any) -> Any:
        """``[Φ 1]ᵀ W (T − Φβ − b)`` from the rows, in float64."""
        total = fused_gradient(self.accelerator, features, rows, weights, intercept)
        D = features.n_features_out
        return gradient(self.feature_map(features), D, rows, weights, intercept) if total is None else total

    def apply(self, features: Any, X: Any, weights: np.ndarray) -> np.ndarray:
        """``Φ(X) β`` in float64."""
        transform, B = map_on(self.accelerator, features), self.accelerator.tensor(weights)
        rows = DeviceRows(self.accelerator, self._beside(Rows(X, np.empty((X.shape[0], 0)))), keep=False)
        out = np.empty((X.shape[0], weights.shape[1]))
        for piece, block, _, _ in rows.blocks(block_rows(features.n_features_out)):
            out[piece] = self.accelerator.numpy(transform(block) @ B)
        require_finite(self.accelerator.torch, self.accelerator.torch.from_numpy(out))
        return out

    def partition(self, U: np.ndarray, leaf_rows: int, rng: np.random.RandomState) -> Partition:
        """A random partition (:func:`ulmus.features.partition.random_partition`)."""
        return grown(DeviceLevel.root(self.accelerator, self.inputs(U)), leaf_rows, rng)

    def fit_leaves(self, problem: LeafProblem, tol: float = TOLERANCE) -> list[np.ndarray]:
        a, given = self.accelerator, (problem.T, problem.weight, problem.offset)
        T, weight, offset = (None if each is None else a.tensor(each) for each in given)
        there = replace(problem, U=self.inputs(problem.U), T=T, weight=weight, offset=offset)
        return fit_leaves(a, there) if offset is None else fit_log_leaves(a, there, tol)

    def leaf_trials(self, *given: Any) -> np.ndarray:
        """Predictions of held-out rows by leaves with several penalties (:func:`ulmus.devices.trials.leaf_trials`)."""
        return leaf_trials(self.accelerator, *given)

    def metric_cut(self, rows: Rows, kernel: str, A: np.ndarray, seed: int) -> DeviceCut:
        """Rows as a metric shows them, cut into leaves that teach the next (:mod:`ulmus.tuning.leaf_metric`)."""
        weight = None if rows.weight is None else self.accelerator.tensor(rows.weight)
        there = self.matrix(rows.X), self.matrix(rows.T), weight
        return DeviceCut.of(self.accelerator, kernel, *there, A, seed)

    def answers(self, local: LocalKernels, U: np.ndarray) -> np.ndarray:
        return answers(self.accelerator, local, self.inputs(local.U), self.inputs(U))

    def log_problem(self, features: NystromMap, rows: Rows, max_bytes: float, *, exact: bool = False) -> LogProblem:
        """The log loss on features of the rows, which are evaluated once."""
        given = self.feature_map(features), features, self.rows(rows), max_bytes, self.n_jobs
        return log_problem(self.accelerator, *given, exact=exact)

    def exact_log_problem(self, features: Any, rows: Rows, C: float, fit_intercept: bool) -> LogProblem:
        """The same with features in double precision where they fit, for weights that are kept as they are."""
        if len(rows) * features.n_features_out <= SMALL:
            return posed_in_double(features, rows, C, fit_intercept, self.n_jobs)
        return replace(self.log_problem(features, rows, np.inf, exact=True), C=C, fit_intercept=fit_intercept)


def rounded_bits(n: int, L: int) -> int:
    """Bits that kernel values may lose before they are squared; 0 where the sums are not large.

    A large product runs at the power limit of the GPU, and shorter numbers take less: 22 bits less, some 8 % faster.
    Rounding errors average out over the rows, to 2⁻⁴² of the sums, and the weights are corrected from the rows.
    """
    return min(24, int(11 + np.log2(n) / 2)) if n * float(L) ** 2 >= ROUNDING_PAYS else 0


def sums_raw(features: Any) -> bool:
    """Whether raw kernel values are summed, and whitened at the end."""
    return isinstance(features, NystromMap) and features.triangular and features.condition_ <= GRAM_LIMIT


@dataclass(frozen=True)
class DeviceProblem(Problem):
    """A ridge problem whose rows are on the device."""

    features: Any
    driver: Any = None

    def solve(self, stats: Any = None, precision: Precision | None = None) -> Solution:
        """Weights by sums and Cholesky on the device, corrected from the rows; on the CPU where that keeps no digits.

        Another ``precision`` than double says how many digits are worth another pass over the rows.
        """
        features, rows, problem, wanted = self.features, self.rows, self, precision or DOUBLE
        if len(rows) < features.n_features_out:
            return fit_dual(self)
        stats = self.driver.statistics(features, rows) if stats is None else stats
        if sums_raw(features):
            problem = replace(self, features=features.cross_kernel_, whitening=features.whitening_)
            lossy = features.condition_ > SUM_LIMIT or rounded_bits(len(rows), features.n_features_out)
            if lossy and precision is None:
                wanted = replace(DOUBLE, correct=0.0)
        solution = self._factored(stats, problem, wanted)
        if solution is None:
            return fit_triangular(Problem(features, rows, self.C, self.fit_intercept, self.n_jobs))
        return solution

    def solve_sums(self, stats: Any, again: Any = None) -> Solution:
        """Weights from sums on the device, corrected by ``again`` (:func:`ulmus.solvers.ridge.fit_sums`).

        Round-off that whitening has multiplied is not measured here: what the bound lets fear is corrected.
        """
        raw = isinstance(self.features, NystromMap) and summed_form(self.features)[1] is not None
        correct = DOUBLE.correct / (self.features.condition_ if raw and again is not None else 1.0)
        solution = self._factored(stats, again, replace(DOUBLE, correct=correct))
        return fit_sums(stats.to_host(), self.C, self.fit_intercept, again) if solution is None else solution

    def _factored(self, stats: TensorStatistics, corrected: Any, precision: Precision) -> Solution | None:
        """Weights from sums, with digits restored by the gradient of ``corrected``, if any; None if they are lost."""
        try:
            system = DeviceNormalEquations(stats, self.C, self.fit_intercept)
            if corrected is None and np.finfo(float).eps * system.condition > DOUBLE.correct:
                return None
            solution = with_digits_restored(corrected, system, system.solution(), precision)
        except LinAlgError:
            return None
        return solution if solution is None else replace(solution, form=f"gram float64 {stats.accelerator.name}")

    def gradient(self, beta: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, driver = self.driver.accelerator, self.driver
        weights, b = a.tensor(self.unwhiten(beta)), a.tensor(intercept)
        total = a.numpy(driver.gradient(self.features, driver.rows(self.rows), weights, b))
        g = total[:-1]
        if self.whitening is not None:
            R = driver.matrix(self.whitening)
            g = a.numpy(a.torch.linalg.solve_triangular(R, a.tensor(g), upper=False))
        return (g if self.C is None else g - beta / self.C), total[-1]


class DeviceNormalEquations(NormalEquations):
    """``(G + I/C) β = B``, factored on the device."""

    def __init__(self, stats: Any, C: float | None, fit_intercept: bool) -> None:
        accelerator = self.accelerator = stats.accelerator
        torch = accelerator.torch
        used, *means = stats.about_means(fit_intercept)
        self.centre, self.target_mean = (accelerator.numpy(mean) for mean in means)
        self.weight = stats.weight
        A = used.gram.clone()
        A.diagonal().add_(0.0 if C is None else 1.0 / C)
        self.root, info = torch.linalg.cholesky_ex(A)
        if int(info):
            raise LinAlgError(f"normal equations are not positive definite at row {int(info)}")
        norm = float(A.abs().sum(0).max())
        del A
        summed = max(norm, float(stats.gram.abs().sum(0).max())) if fit_intercept else norm
        self.condition = DeviceDecomposition(accelerator).condition(self.root) * summed / norm
        self.right_hand_side = accelerator.numpy(used.cross)
        constant = 1.0 / self.weight if fit_intercept else 0.0
        self.leverage = Leverage(accelerator.numpy(self.root), self.centre, constant)

    def inverse(self, B: np.ndarray) -> np.ndarray:
        a = self.accelerator
        return a.numpy(a.torch.cholesky_solve(a.tensor(B), self.root))

    def energy(self, beta: np.ndarray) -> float:
        return float(((self.root.T @ self.accelerator.tensor(beta)) ** 2).sum())


def fitted_values(driver: Driver, features: Any, rows: Rows, solution: Solution) -> Any:
    """Fitted values, leverages and residual kernel of a few rows."""
    a = driver.accelerator
    Phi = driver.feature_map(features)(a.tensor(np.ascontiguousarray(dense(rows.X, np.float64))))
    fitted = a.numpy(Phi @ a.tensor(solution.beta)) + solution.intercept
    leverage, rest = solution.leverage, residual_kernel(features, rows.X, a.numpy((Phi**2).sum(1)))
    if leverage.spectral or leverage.rows is not None:
        return fitted, leverage(a.numpy(Phi)), rest
    V = (Phi - a.tensor(leverage.centre)).T
    h = a.numpy((a.torch.linalg.solve_triangular(a.tensor(leverage.root), V, upper=False) ** 2).sum(0))
    return fitted, h + leverage.constant, rest
