r"""The metric of leaves: along which features the kernel models of small parts of the coordinates vary.

The metric of a view (:mod:`ulmus.tuning.metric`) is that of a predictor of some hundred landmarks, which knows the
large shapes of a function. Of very many rows leaves tell most (:mod:`ulmus.solvers.local`), whose rows lie so
close that other features matter. So the metric goes on from there: exact kernel models of some leaves of a sample have
gradients too, and their mean :math:`\nabla f\,\nabla f^T` over held-out rows of all these leaves gives the next metric,
with which the sample is cut into leaves anew. What several come to is taken where it lowers the loss of rows held out,
and then all goes on from it.
Leaves are those in which some rows, the *anchors*, lie. They are solved here by threads, or elsewhere in batches
(:mod:`ulmus.devices.metric_leaves`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import pdist

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.metric import average_outer_product, gradients, sharpened
from ulmus.features.partition import Partition, random_partition
from ulmus.solvers.local import solve_leaf, symmetric

#: Rows of the sample, and of a leaf.
SAMPLE_ROWS, LEAF_ROWS = 2**16, 500
#: Leaves that make the next metric, each other ones, and those that compare metrics; how many metrics are made, the
#: last ones whose (geometric) mean is taken, and how often all this is done at most, while it helps.
TEACHING, COMPARING, TURNS, LAST, AGAIN = 24, 128, 6, 3, 3
#: One row in this many is held out.
HELD = 5
#: Widths, in units of one over the median distance in a leaf, and penalties, among which the first metric chooses.
WIDTHS, RIDGES = (0.5, 1.0, 2.0), (1e-3, 1e-2, 1e-1, 1.0)
#: Rows whose distances tell the heuristic width of a leaf.
UNIT_ROWS = 200
#: A metric is taken where it lowers the loss by this share.
CLEAR = 0.03

#: Numbers of the rows of a leaf to learn from, and of those held out.
Task = tuple[np.ndarray, np.ndarray]


class AskedLeaves(Protocol):
    """Some leaves of rows in a metric, whose kernel models are asked at the rows held out."""

    def answers(self, widths: Sequence[float], ridges: Sequence[float]) -> np.ndarray:
        """Predictions of the rows held out, leaf after leaf, ``[width, ridge, row, output]``."""

    def slopes(self, width: float, ridge: float) -> np.ndarray:
        """Mean squared slopes along the coordinates, at the rows held out."""


class CutRows(Protocol):
    """Rows that a metric shows, cut into leaves."""

    @property
    def partition(self) -> Partition:
        """The leaves."""

    def leaves(self, tasks: Sequence[Task]) -> AskedLeaves:
        """Some of them."""


def tasks_of(partition: Partition, anchors: np.ndarray) -> list[Task]:
    """What is learned from and held out in the leaves in which these rows lie.

    Rows that are all equal cannot be cut: of a leaf of very many, which come in random order, the first are taken.
    """
    found = []
    for number in np.unique(partition.leaves(anchors)):
        inside = np.sort(partition.rows(number))[:LEAF_ROWS]
        held = inside % HELD == 0
        if np.count_nonzero(~held) > 1 and held.any():
            found.append((inside[~held], inside[held]))
    return found


@dataclass(frozen=True)
class LeafMetric:
    """Looks for the metric of leaves on rows as a view prepares them, which come in random order.

    ``elsewhere(rows, kernel, A, seed)`` cuts them, as the metric ``A`` shows them, and solves leaves there.
    """

    rows: Rows
    kernel: str
    coding: Coding
    criterion: str
    seed: int
    n_jobs: int | None = -1
    elsewhere: Callable[..., CutRows] | None = None

    def search(self, A: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        """The metric that leaves come to from ``A``, or ``A`` where it is no better; losses of first and last."""
        cut, losses = self._cut(A), list[float]()
        for again in range(AGAIN):
            B, then, compared = self._taught(A, cut, again)
            losses += compared
            if not compared[1] < (1 - CLEAR) * compared[0]:
                break
            A, cut = B, then
        return A, (losses[0], min(losses))

    def _taught(self, A: np.ndarray, first: CutRows, again: int) -> tuple[np.ndarray, CutRows, tuple[float, float]]:
        """The mean of the last metrics of some turns from ``A``, the rows cut by it, and the losses of both."""
        none = A, first, (np.inf, np.inf)
        cut, made, width, ridge = first, [A], WIDTHS[0], RIDGES[0]
        for turn in range(TURNS):
            anchors = (again * TURNS + turn) * TEACHING + np.arange(TEACHING)
            tasks = tasks_of(cut.partition, self.rows.X[anchors % len(self.rows)] * made[-1])
            if not tasks:
                return none
            leaves = cut.leaves(tasks)
            if not turn:
                losses = self._losses(leaves, tasks, WIDTHS, RIDGES)
                best = np.unravel_index(np.argmin(losses), losses.shape)
                width, ridge = WIDTHS[best[0]], RIDGES[best[1]]
            made.append(sharpened(made[-1], leaves.slopes(width, ridge)))
            if turn < TURNS - 1:
                cut = self._cut(made[-1])
        mean = np.where(A > 0, np.exp(np.log(made[-LAST:]).mean(axis=0)), 0.0)
        then, compared = self._cut(mean), []
        for cut, B in ((first, A), (then, mean)):
            tasks = tasks_of(cut.partition, self.rows.X[:COMPARING] * B)
            if not tasks:
                return none
            compared.append(float(self._losses(cut.leaves(tasks), tasks, [width], [ridge])[0, 0]))
        return mean, then, (compared[0], compared[1])

    def _cut(self, A: np.ndarray) -> CutRows:
        given = self.rows, self.kernel, A, self.seed
        return HostCut.of(*given, self.n_jobs) if self.elsewhere is None else self.elsewhere(*given)

    def _losses(
        self, leaves: AskedLeaves, tasks: Sequence[Task], widths: Sequence[float], ridges: Sequence[float]
    ) -> np.ndarray:
        """Mean losses of the rows held out, ``[width, ridge]``."""
        held = np.concatenate([task[1] for task in tasks])
        each = self.coding.losses(self.rows.T[held], leaves.answers(widths, ridges), self.criterion)
        return np.average(each, axis=-1, weights=None if self.rows.weight is None else self.rows.weight[held])


def searched(
    looks: Sequence[tuple[str, np.ndarray]],
    rows: Rows,
    coding: Coding,
    criterion: str,
    seed: int,
    n_jobs: int | None,
    elsewhere: Callable[..., CutRows] | None,
) -> list[tuple[np.ndarray, tuple[float, float]]]:
    """What leaves come to from each of several kernels with their metrics; equal ones are searched once."""
    keys = [(kernel, A.tobytes()) for kernel, A in looks]
    once = dict(zip(keys, looks, strict=True))
    told_by = coding, criterion, seed, 1 if len(once) > 1 else n_jobs, elsewhere
    at_once = n_jobs if elsewhere is None else 1  # a device gets one batch after the other
    found = engine.ordered_map(lambda look: LeafMetric(rows, look[0], *told_by).search(look[1]), once.values(), at_once)
    by_key = dict(zip(once, found, strict=True))
    return [by_key[key] for key in keys]


@dataclass(frozen=True)
class HostCut:
    """Rows in memory, cut into leaves."""

    rows: Rows
    kernel: str
    U: np.ndarray
    partition: Partition
    n_jobs: int | None

    @classmethod
    def of(cls, rows: Rows, kernel: str, A: np.ndarray, seed: int, n_jobs: int | None) -> "HostCut":
        """Cut rows as the metric ``A`` shows them."""
        U = rows.X * A
        partition = random_partition(U, LEAF_ROWS, np.random.RandomState(seed), n_jobs)
        return cls(rows, kernel, U, partition, n_jobs)

    def leaves(self, tasks: Sequence[Task]) -> "HostLeaves":
        """Some of the leaves."""
        return HostLeaves(self, tasks)


@dataclass(frozen=True)
class HostLeaves:
    """Some leaves of rows in memory, one thread each."""

    cut: HostCut
    tasks: Sequence[Task]

    def answers(self, widths: Sequence[float], ridges: Sequence[float]) -> np.ndarray:
        """Predictions of the rows held out, leaf after leaf, ``[width, ridge, row, output]``."""
        grid = [(leaf, width) for leaf in self._leaves for width in widths]
        found = list(engine.ordered_map(lambda each: each[0].answers(each[1], ridges), grid, self.cut.n_jobs))
        one_width = [found[k :: len(widths)] for k in range(len(widths))]
        return np.array([np.concatenate(leaves, axis=1) for leaves in one_width])

    def slopes(self, width: float, ridge: float) -> np.ndarray:
        """Mean squared slopes along the coordinates, at the rows held out."""
        leaves = self._leaves
        found = list(engine.ordered_map(lambda leaf: leaf.slopes(width, ridge), leaves, self.cut.n_jobs))
        return np.average(found, axis=0, weights=[leaf.mass for leaf in leaves])

    @cached_property
    def _leaves(self) -> "list[Leaf]":
        U, T, weight, found = self.cut.U, self.cut.rows.T, self.cut.rows.weight, []
        for a, b in self.tasks:
            w: Any = (None, None) if weight is None else (weight[a], weight[b])
            found.append(Leaf(self.cut.kernel, U[a], T[a], w[0], U[b], w[1]))
        return found


@dataclass(frozen=True)
class Leaf:
    """Coordinates, targets and weights of rows to learn from, and of those held out."""

    kernel: str
    U: np.ndarray
    T: np.ndarray
    weight: np.ndarray | None
    U_held: np.ndarray
    weight_held: np.ndarray | None

    @cached_property
    def unit(self) -> float:
        """One over the median (squared) distance of some rows."""
        away = pdist(
            self.U[:UNIT_ROWS], {"rbf": "sqeuclidean", "laplacian_l1": "cityblock"}.get(self.kernel, "euclidean")
        )
        away = away[away > 0]
        middle = (len(away) - 1) // 2
        return 1.0 / float(np.partition(away, middle)[middle]) if len(away) else 1.0

    @property
    def mass(self) -> float:
        """The weight of the rows held out."""
        return float(len(self.U_held) if self.weight_held is None else self.weight_held.sum())

    def answers(self, width: float, ridges: Sequence[float]) -> np.ndarray:
        """Predictions of the rows held out, for several penalties."""
        cross, K = self._kernel(width)
        asked = np.empty((len(self.U_held), len(self.U)))
        cross.transform_block(self.U_held, asked)
        mean = np.average(self.T, axis=0, weights=self.weight)
        return np.array([asked @ solve_leaf(K.copy(), self.T - mean, self.weight, ridge) + mean for ridge in ridges])

    def slopes(self, width: float, ridge: float) -> np.ndarray:
        """Mean squared slopes at the rows held out."""
        cross, K = self._kernel(width)
        alpha = solve_leaf(K, self.T - np.average(self.T, axis=0, weights=self.weight), self.weight, ridge)
        return average_outer_product(gradients(cross, self.U_held, alpha), self.weight_held)

    def _kernel(self, width: float) -> tuple[CrossKernel, np.ndarray]:
        """Kernel values between the rows, and with others."""
        cross = CrossKernel(self.kernel, self.U, KernelParameters(width * self.unit))
        return cross, symmetric(cross.transform_block, self.U)
