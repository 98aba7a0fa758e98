r"""The metric of leaves: along which features the kernel models of small parts of the coordinates vary.

The metric of a view (:mod:`ulmus.tuning.metric`) is that of a predictor of some hundred landmarks, which knows the
large shapes of a function. Of very many rows most is told by leaves (:mod:`ulmus.solvers.local`), whose rows lie so
close that other features matter. So the metric goes on from there: exact kernel models of some leaves of a sample have
gradients too, and their mean :math:`\nabla f\,\nabla f^T` over held-out rows of all these leaves gives the next metric,
with which the sample is cut into leaves anew. What several come to is taken, where it lowers the loss of rows held out.
Leaves are those in which some rows, the *anchors*, lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.metric import average_outer_product, gradients, sharpened
from ulmus.features.partition import random_partition
from ulmus.features.widths import heuristic_gamma
from ulmus.solvers.local import solve_leaf

#: Rows of the sample, and of a leaf.
SAMPLE_ROWS, LEAF_ROWS = 2**16, 500
#: Leaves that make the next metric, each other ones, and those that compare metrics; how many metrics are made, and the
#: last ones whose (geometric) mean is taken.
TEACHING, COMPARING, TURNS, LAST = 24, 128, 6, 3
#: One row in so many is held out.
HELD = 5
#: Widths, in units of one over the median distance in a leaf, and penalties, among which the first metric chooses.
WIDTHS, RIDGES = (0.5, 1.0, 2.0), (1e-3, 1e-2, 1e-1, 1.0)
#: Rows whose distances tell the heuristic width of a leaf.
UNIT_ROWS = 200
#: A metric is taken where it lowers the loss by this share.
CLEAR = 0.03


@dataclass(frozen=True)
class Leaf:
    """Coordinates, targets and weights of rows to learn from, and of those held out; and the heuristic width."""

    U: np.ndarray
    T: np.ndarray
    weight: np.ndarray | None
    U_held: np.ndarray
    T_held: np.ndarray
    weight_held: np.ndarray | None
    unit: float

    @property
    def mass(self) -> float:
        """The weight of the rows held out."""
        return float(len(self.U_held) if self.weight_held is None else self.weight_held.sum())


@dataclass(frozen=True)
class LeafMetric:
    """Looks for the metric of leaves on rows as a view prepares them, which come in random order."""

    rows: Rows
    kernel: str
    coding: Coding
    criterion: str
    seed: int
    n_jobs: int | None = -1

    def search(self, A: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        """The metric that leaves come to from ``A``, or ``A`` where it is no better; losses of first and last."""
        leaves = self._leaves(A, slice(TEACHING))
        if not leaves:
            return A, (np.inf, np.inf)
        grid = [(width, ridge) for width in WIDTHS for ridge in RIDGES]
        width, ridge = grid[int(np.argmin([self._losses(leaves, width, RIDGES) for width in WIDTHS]))]
        made = [A]
        for turn in range(1, TURNS + 1):
            made.append(sharpened(made[-1], self._slopes(leaves, width, ridge)))
            leaves = self._leaves(made[-1], slice(turn * TEACHING, (turn + 1) * TEACHING))
            if not leaves:
                return A, (np.inf, np.inf)
        mean = np.where(A > 0, np.exp(np.log(made[-LAST:]).mean(axis=0)), 0.0)
        first, last = (float(self._losses(self._leaves(B, slice(COMPARING)), width, [ridge])[0]) for B in (A, mean))
        return (mean if last < (1 - CLEAR) * first else A), (first, last)

    def _leaves(self, A: np.ndarray, anchors: slice) -> list[Leaf]:
        """The leaves of some rows, and what they hold."""
        U, T, weight = self.rows.X * A, self.rows.T, self.rows.weight
        partition = random_partition(U, LEAF_ROWS, np.random.RandomState(self.seed))
        found = []
        for number in np.unique(partition.leaves(U[anchors])):
            inside = np.sort(partition.rows(number))
            held = inside % HELD == 0
            a, b = inside[~held], inside[held]
            if len(a) > 1 and len(b):
                unit = heuristic_gamma(self.kernel, U[a], None, np.random.RandomState(self.seed), UNIT_ROWS)
                w = (None, None) if weight is None else (weight[a], weight[b])
                found.append(Leaf(U[a], T[a], w[0], U[b], T[b], w[1], unit))
        return found

    def _losses(self, leaves: Sequence[Leaf], width: float, ridges: Sequence[float]) -> np.ndarray:
        """Mean losses of the rows held out, for several penalties."""

        def losses(leaf: Leaf) -> list[float]:
            cross, K = self._kernel(leaf, width)
            asked = np.empty((len(leaf.U_held), len(leaf.U)))
            cross.transform_block(leaf.U_held, asked)
            mean = np.average(leaf.T, axis=0, weights=leaf.weight)
            answers = [asked @ solve_leaf(K.copy(), leaf.T - mean, leaf.weight, ridge) + mean for ridge in ridges]
            each = [self.coding.losses(leaf.T_held, P, self.criterion) for P in answers]
            return [float(np.average(one, weights=leaf.weight_held)) for one in each]

        found = list(engine.ordered_map(losses, leaves, self.n_jobs))
        return np.average(found, axis=0, weights=[leaf.mass for leaf in leaves])

    def _slopes(self, leaves: Sequence[Leaf], width: float, ridge: float) -> np.ndarray:
        """Mean squared slopes along the coordinates, at the rows held out."""

        def slopes(leaf: Leaf) -> np.ndarray:
            cross, K = self._kernel(leaf, width)
            alpha = solve_leaf(K, leaf.T - np.average(leaf.T, axis=0, weights=leaf.weight), leaf.weight, ridge)
            return average_outer_product(gradients(cross, leaf.U_held, alpha), leaf.weight_held)

        found = list(engine.ordered_map(slopes, leaves, self.n_jobs))
        return np.average(found, axis=0, weights=[leaf.mass for leaf in leaves])

    def _kernel(self, leaf: Leaf, width: float) -> tuple[CrossKernel, np.ndarray]:
        """Kernel values between the rows of a leaf, and with others."""
        cross = CrossKernel(self.kernel, leaf.U, KernelParameters(width * leaf.unit))
        K = np.empty((len(leaf.U), len(leaf.U)))
        cross.transform_block(leaf.U, K)
        return cross, K
