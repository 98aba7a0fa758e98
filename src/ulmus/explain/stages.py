r"""Two stages without a row: a global ridge model g, and local kernel ridge on what it leaves over.

Without row i the global model is :math:`g_{-i} = g - c_i\,\epsilon_i` (:mod:`ulmus.explain.smoother`), so the leaves
are fitted to :math:`r_j + c_i(x_j)\,\epsilon_i`, and row i leaves them too. In a leaf with
:math:`B = (K + \lambda W^{-1})^{-1}` the answer is :math:`k_x B r`, and all of this is linear:

.. math:: \ell_{-i}(x) = \ell(x) + \epsilon_i\,(k_x B\,c_i) - (k_x B)_i\,\eta_i,

with the left-out residual :math:`\eta_i` of row i in its leaf, for the changed targets. View, landmarks, C, partitions,
widths and penalties stay as they are. Leaves may have targets and weights of their own, as those of a log loss have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.explain.smoother import TINY, OneStage, Smoother
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.partition import Partition
from ulmus.solvers.local import LocalKernels, leaf_kernel


@dataclass(frozen=True)
class LeafTargets:
    """What the leaves of a partition are fitted to, beside the global model: targets ``[row, output]`` and weights."""

    target: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class _Leaf:
    """Rows of a leaf, ``B``, their targets, and residuals of the rows when they are left out of both stages."""

    rows: np.ndarray
    B: np.ndarray
    target: np.ndarray
    left_out: np.ndarray


@dataclass(frozen=True)
class TwoStages:
    """A global smoother and the leaves behind it."""

    smoother: Smoother
    local: LocalKernels
    U: np.ndarray
    partitions: tuple[dict[int, _Leaf], ...]

    @classmethod
    def of(
        cls, smoother: Smoother, local: LocalKernels, U: np.ndarray, ridge: float, fits: Sequence[LeafTargets]
    ) -> "TwoStages":
        """Fit the leaves again to the training coordinates ``U``, copies apart; ``fits`` has one for each partition."""
        parts = []
        for partition, fit in zip(local.partitions, fits, strict=True):
            number = partition.leaves(U)
            leaves = {}
            for leaf in np.unique(number):
                rows = np.flatnonzero(number == leaf)
                K, penalty = leaf_kernel(local.kernel, local.gamma, U[rows]), ridge / fit.weight[rows]
                K[np.diag_indices_from(K)] += penalty
                leaves[int(leaf)] = _leaf(smoother, rows, np.linalg.inv(K), fit.target[rows], penalty)
            parts.append(leaves)
        return cls(smoother, local, U, tuple(parts))

    def answers(self, X: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Scores of coordinates, from the targets."""
        out = self.smoother.weights(X) @ T
        for leaf, queries, kB in self._leaves_of(X):
            out[queries] += kB @ leaf.target / len(self.partitions)
        return out

    def effects(self, X: np.ndarray) -> np.ndarray:
        s, P = self.smoother, len(self.partitions)
        out = s.weights(X)[:, :, None] * s.left_out
        for leaf, queries, kB in self._leaves_of(X):
            moved = (kB @ s.own[leaf.rows]) @ s.right + kB.sum(axis=1)[:, None] * s.offset  # k_x B c_i
            out[queries] -= moved[:, :, None] * s.left_out / P
            out[np.ix_(queries, leaf.rows)] += kB[:, :, None] * leaf.left_out / P
        return out

    def own_effects(self, rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """``B c_i`` and the columns of B are taken once, so that what remains for a row is its kernel."""
        s, P, first = self.smoother, len(self.partitions), OneStage(self.smoother).own_effects(rows)
        parts = []
        for leaves in self.partitions:
            known = {}
            for number, leaf in leaves.items():
                moved = leaf.B @ (s.own[leaf.rows] @ s.right[:, rows] + s.offset[rows])
                place = np.minimum(np.searchsorted(leaf.rows, rows), len(leaf.rows) - 1)
                inside = leaf.rows[place] == rows
                residual = np.where(inside[:, None], leaf.left_out[place], 0.0)
                known[number] = leaf, moved, leaf.B[:, place], residual
            parts.append(known)

        def effects(X: np.ndarray) -> np.ndarray:
            out = first(X)
            for partition, known in zip(self.local.partitions, parts, strict=True):
                for number, queries in _by_leaf(partition, X):
                    if number not in known:
                        continue
                    leaf, moved, column, residual = known[number]
                    K = self._kernel(leaf, X[queries])
                    along, own = (np.einsum("qm,mq->q", K, V[:, queries])[:, None] for V in (moved, column))
                    out[queries] += (own * residual[queries] - along * s.left_out[rows[queries]]) / P
            return out

        return effects

    def _leaves_of(self, X: np.ndarray) -> Any:
        """Every leaf with the rows that fall into it, and their ``k_x B``."""
        for partition, leaves in zip(self.local.partitions, self.partitions, strict=True):
            for number, queries in _by_leaf(partition, X):
                if number in leaves:
                    yield leaves[number], queries, self._kernel(leaves[number], X[queries]) @ leaves[number].B

    def _kernel(self, leaf: _Leaf, X: np.ndarray) -> np.ndarray:
        """``k_x`` of rows in a leaf."""
        cross = CrossKernel(self.local.kernel, self.U[leaf.rows], KernelParameters(self.local.gamma))
        K = np.empty((len(X), len(leaf.rows)))
        cross.transform_block(X, K)
        return K

    @property
    def left_out(self) -> np.ndarray:
        """Residuals of training rows under the models without them: the mean over the partitions."""
        out = np.zeros(self.smoother.residual.shape)
        for leaves in self.partitions:
            for leaf in leaves.values():
                out[leaf.rows] += leaf.left_out / len(self.partitions)
        return out

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """Residuals of rows when they and another are left out; the other leaves the global model alone."""
        change = self.smoother.left_out_pairs(rows) - self.smoother.left_out[rows, None]
        return self.left_out[rows, None] + change


def _by_leaf(partition: Partition, X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Numbers of leaves, and the rows that fall into each."""
    number = partition.leaves(X)
    for leaf in np.unique(number):
        yield int(leaf), np.flatnonzero(number == leaf)


def _leaf(smoother: Smoother, rows: np.ndarray, B: np.ndarray, r: np.ndarray, ridge: np.ndarray) -> _Leaf:
    s = smoother
    H = -ridge[:, None] * B  # K B = I − λ W⁻¹ B
    H[np.diag_indices_from(H)] += 1.0
    right, epsilon = s.right[:, rows], s.left_out[rows]
    own = 1.0 - s.remainder[rows]  # c_i(x_i)
    moved = np.einsum("ij,ji->i", H @ s.own[rows], right) + H.sum(axis=1) * s.offset[rows]  # (K B c_i)_i
    target = r + own[:, None] * epsilon
    fitted = H @ r + moved[:, None] * epsilon
    return _Leaf(rows, B, r, (target - fitted) / np.maximum(ridge * B.diagonal(), TINY)[:, None])
