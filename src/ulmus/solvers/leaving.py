r"""Leaving rows out of two stages, one by one: a ridge model on features, and leaves fitted to what it leaves over.

A row of weight u leaves a ridge model with the residual e, the leverage h and :math:`A = \tilde\Phi^TW\tilde\Phi + I/C`
as in :mod:`ulmus.solvers.path`. Without it the model says :math:`g + \delta_i`,

.. math:: \delta_i(x) = \tilde\phi(x)^T b_i + d_i,\qquad b_i = -u\,\epsilon_i A^{-1}\tilde\phi_i,\qquad
   d_i = -u\,\epsilon_i/\sum w,\qquad \epsilon_i = e_i/(1 - u h_i),

and where the row is a landmark, that leaves as well (:mod:`ulmus.solvers.own_landmarks`; v and s as there):
:math:`b_i = -s\,v^T\beta/v^Ts - u\,\epsilon_i\,(A^{-1}\tilde\phi_i - s\,\tilde\phi_i^Ts/v^Ts)`.

The leaves are then fitted to :math:`r - \delta_i`, without the row. In a leaf with
:math:`B = (K + \lambda W^{-1})^{-1}`, :math:`\alpha = B\,r`, let a be the place of the row: all rows of its inputs are
there as one, of weight :math:`W_a` and the mean :math:`\bar r_a` of what is left over. Then

.. math:: \alpha' = \alpha - B\,\delta_i, \qquad
   \eta_i = \frac{r_i - \bar r_a + \lambda\alpha'_a/W_a}{1 - (1 - \lambda B_{aa}/W_a)\,u/W_a}, \qquad
   \ell_{-i}(x) = k_x\alpha' - (k_xB)_a\,\eta_i\,u/W_a,

with the left-out residual :math:`\eta_i` of the row in its leaf. All of this is exact: what stays as it was are the
coordinates, the other landmarks, C, partitions, width and penalty.

At new rows (jackknife+) every answer is asked for without every row. With :math:`v_x = B\,k_x^T` in the leaf of x,

.. math:: f_{-i}(x) - f(x) = \Big(\tilde\phi(x) - \overline{\Phi^Tv_x}\Big)^Tb_i
   + \big(1 - \overline{1^Tv_x}\big)\,d_i - \overline{(v_x)_a\,\eta_i}\,u/W_a,

with means over the partitions, so that leaves are asked once for all rows that leave.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ulmus import engine
from ulmus._blas import invert_factored, mirror_upper, solve_factored
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import Partition
from ulmus.solvers.local import LocalKernels, leaf_factor, leaf_kernel, precision_of
from ulmus.solvers.own_landmarks import OwnLandmarks, landmarks_among
from ulmus.solvers.ridge import Leverage

#: Least ``1 − u h``: what is below it is round-off.
LEAST = 1e-12
#: From this share of the rows of a leaf on, the whole inverse costs less than its columns.
SHARE = 1 / 3


@dataclass(frozen=True)
class GlobalWithout:
    """A ridge model on features without each of some rows: ``δ_i(x) = φ(x)ᵀ b_i + constant_i``.

    ``along`` are the directions ``A⁻¹φ̃`` (less what landmarks take along), ``[row, feature]``, ``steps[row, output]``
    how far each goes; ``freed`` and ``lost`` are the same of the landmarks that leave, ``landmark`` says which of these
    leaves with a row (−1: none).
    """

    along: np.ndarray
    steps: np.ndarray
    freed: np.ndarray
    lost: np.ndarray
    landmark: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(
        cls,
        features: NystromMap,
        Phi: np.ndarray,
        beta: np.ndarray,
        intercept: np.ndarray,
        leverage: Leverage,
        every: Rows,
        index: np.ndarray,
    ) -> "GlobalWithout":
        """Without some of the rows that the model was fitted to, whose features are ``Phi``."""
        rows, Phi = every.take(index), Phi[index]
        u, E, centred = unit_of(rows), rows.T - (Phi @ beta + intercept), Phi - leverage.centre
        along = np.ascontiguousarray(leverage.inverse(centred.T).T)
        h = leverage(Phi)
        at, V = _own_landmarks(features, every, index)
        S, only = np.ascontiguousarray(leverage.inverse(V).T), V.T @ beta
        norm = np.einsum("ji,ij->i", V, S)
        share = np.einsum("ij,ij->i", centred[at], S) / norm
        E[at] += share[:, None] * only
        h[at] -= share**2 * norm
        along[at] -= S * share[:, None]
        steps, lost = u[:, None] * E / np.maximum(1.0 - u * h, LEAST)[:, None], only / norm[:, None]
        constant = (along @ leverage.centre - leverage.constant)[:, None] * steps
        constant[at] += (S @ leverage.centre)[:, None] * lost
        landmark = np.full(len(index), -1)
        landmark[at] = np.arange(len(at))
        return cls(along, steps, S, lost, landmark, constant)

    def weights(self, rows: np.ndarray, output: int) -> np.ndarray:
        """``b_i`` of some of the rows, ``[row, feature]``."""
        b, landmark = self.along[rows] * -self.steps[rows, output, None], self.landmark[rows]
        leave = landmark >= 0
        b[leave] -= self.freed[landmark[leave]] * self.lost[landmark[leave], output, None]
        return b

    def changes(self, Phi: np.ndarray) -> np.ndarray:
        """``δ_i(x)`` of new rows, from their features: ``[new row, row that leaves, output]``."""
        every = np.arange(len(self.steps))
        changes = [Phi @ self.weights(every, j).T for j in range(self.steps.shape[1])]
        return np.stack(changes, axis=2) + self.constant

    def own_changes(self, Phi: np.ndarray) -> np.ndarray:
        """``δ_i(x_i)``, ``[row, output]``, at a place of its own for every row, from its features."""
        every = np.arange(len(Phi))
        changes = [np.einsum("ij,ij->i", Phi, self.weights(every, j)) for j in range(self.steps.shape[1])]
        return np.column_stack(changes) + self.constant


def _own_landmarks(features: NystromMap, rows: Rows, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the rows of this index leave as landmarks too, and the vectors v of these, as columns."""
    own = OwnLandmarks.of(features, rows)
    if own is None:
        return np.empty(0, np.intp), np.empty((features.n_features_out, 0))
    number = np.full(len(rows), -1)
    number[index] = np.arange(len(index))
    at = number[own.index]
    return at[at >= 0], own.V[:, at >= 0]


def unit_of(rows: Rows) -> np.ndarray:
    """The weight that every row takes along."""
    unit, weight = (1.0 if each is None else each for each in (rows.unit, rows.weight))
    return np.array(np.broadcast_to(np.minimum(unit, weight), len(rows)), dtype=np.float64)


@dataclass(frozen=True)
class LeavesWithout:
    """Leaves behind a global model, without each of some rows.

    ``place`` is where the row lies among those of the leaves, ``share`` its part ``u/W_a`` of the weight there, ``r``
    what the global model leaves of it, and ``beyond`` by how much that is more than the mean at its place; ``Phi`` are
    features of places. Leaves are asked at the place of the row, or at the one that ``asked`` has for it.
    """

    local: LocalKernels
    Phi: np.ndarray
    mass: np.ndarray
    place: np.ndarray
    share: np.ndarray
    r: np.ndarray
    beyond: np.ndarray
    without: GlobalWithout
    asked: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        local: LocalKernels,
        rows: Rows,
        Phi: np.ndarray,
        R: np.ndarray,
        index: np.ndarray,
        without: GlobalWithout,
        asked: np.ndarray | None = None,
    ) -> "LeavesWithout":
        """Of all rows, their features, what the global model leaves of each, and the numbers of those that leave."""
        weight = rows.weights
        place = landmarks_among(local.U, rows)[1]
        first = np.empty(len(local.U), np.intp)
        first[place] = np.arange(len(rows))
        mass = np.bincount(place, weight, len(local.U))
        mean = np.column_stack([np.bincount(place, weight * r, len(mass)) / mass for r in R.T])
        own = place[index]
        share = unit_of(rows.take(index)) / mass[own]
        return cls(local, Phi[first], mass, own, share, R[index], R[index] - mean[own], without, asked)

    @classmethod
    def of_fitted(
        cls, local: LocalKernels, Phi: np.ndarray, some: Rows, R: np.ndarray, without: GlobalWithout
    ) -> "LeavesWithout":
        """Of features of the places, and the rows that leave alone: what is left of others, the leaves know."""
        assert local.ridge is not None
        mass = local.mass
        place, partition, alpha = landmarks_among(local.U, some)[1], local.partitions[0], local.alphas[0]
        ridge = np.empty((len(mass), alpha.shape[1]))
        ridge[partition.order] = local.ridge * alpha / mass[partition.order, None]
        first = replace(local, partitions=(partition,), alphas=(alpha,))
        mean = first.predict(local.U[place]) + ridge[place]  # (K + λW⁻¹) α
        share = unit_of(some) / mass[place]
        return cls(local, Phi, mass, place, share, R, R - mean, without)

    def answers(self, n_jobs: int | None = -1) -> np.ndarray:
        """The mean answer over the partitions, ``[row that leaves, output]``."""
        each = zip(self.local.partitions, self.local.alphas, strict=True)
        return np.mean([self._of_partition(partition, alpha, n_jobs) for partition, alpha in each], axis=0)

    def changes(self, U: np.ndarray, Phi: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """``f₋ᵢ(x) − f(x)`` of new rows, by their coordinates and features: ``[new row, row that leaves, output]``."""
        Phi, rest, out = Phi.copy(), np.ones(len(U)), np.zeros((len(U), *self.r.shape))
        for partition, alpha in zip(self.local.partitions, self.local.alphas, strict=True):
            self._change_by(partition, alpha, U, Phi, rest, out, n_jobs)
        for j in range(out.shape[2]):
            b = self.without.weights(np.arange(len(self.place)), j)
            out[:, :, j] += Phi @ b.T + rest[:, None] * self.without.constant[:, j]
        return out

    def _of_partition(self, partition: Partition, alpha: np.ndarray, n_jobs: int | None) -> np.ndarray:
        own_in, own = self._places(partition)
        asked_in, out = own_in if self.asked is None else partition.leaves(self.asked), np.empty(self.r.shape)

        def work(number: int) -> None:
            here, weights = np.flatnonzero(asked_in == number), slice(*partition.starts[number : number + 2])
            at = np.where(own_in[here] == number, own[here], -1)
            out[here] = self._of_leaf(partition.rows(number), alpha[weights], here, at)

        engine.on_threads(work, np.unique(asked_in), n_jobs)
        return out

    def _places(self, partition: Partition) -> tuple[np.ndarray, np.ndarray]:
        """The leaf of every row that leaves, and its place there."""
        leaf_of, within = np.empty((2, len(self.mass)), np.intp)
        for number in range(partition.n_leaves):
            leaf_of[partition.rows(number)] = number
            within[partition.rows(number)] = np.arange(len(partition.rows(number)))
        return leaf_of[self.place], within[self.place]

    def _of_leaf(self, rows: np.ndarray, alpha: np.ndarray, here: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Answers of a leaf without the rows ``here``, each of which is its row ``own``, or none of its rows (−1)."""
        B = LeafInverse.of(self.local, self.local.U[rows], self.mass[rows], len(here))
        inside = own >= 0
        a, left = own[inside], here[inside]
        leaving = _Leaving.of(self, B, rows, a, left)
        Phi = self.Phi[rows].astype(B.matrix.dtype, copy=False)
        if self.asked is not None:
            k = self._kernel(rows, self.asked[here])
            V = B.times(k.T)  # B kᵀ
        out = np.empty((len(here), alpha.shape[1]))
        for j in range(alpha.shape[1]):
            delta = self._moves(Phi, here, j)
            eta = leaving.residuals(alpha[a, j], delta[:, inside], self.beyond[left, j])
            if self.asked is None:  # k_x is a row of K + λW⁻¹, but for the diagonal
                out[:, j] = self.r[here, j] - delta[a, np.arange(len(a))] - eta
            else:
                out[:, j] = k @ alpha[:, j] - np.einsum("ij,ij->j", V, delta)
                out[inside, j] -= V[a, np.flatnonzero(inside)] * leaving.share * eta
        return out

    def _change_by(
        self,
        partition: Partition,
        alpha: np.ndarray,
        U: np.ndarray,
        Phi: np.ndarray,
        rest: np.ndarray,
        out: np.ndarray,
        n_jobs: int | None,
    ) -> None:
        """Take from features, constants and changes of new rows what the leaves of a partition say."""
        (own_in, own), asked_in, share = self._places(partition), partition.leaves(U), 1.0 / len(self.local.partitions)

        def work(number: int) -> None:
            rows, weights = partition.rows(number), alpha[slice(*partition.starts[number : number + 2])]
            new, left = np.flatnonzero(asked_in == number), np.flatnonzero(own_in == number)
            a, seen = own[left], self.Phi[rows]
            B = LeafInverse.of(self.local, self.local.U[rows], self.mass[rows], len(new) + len(left))
            leaving, V = _Leaving.of(self, B, rows, a, left), B.times(self._kernel(rows, U[new]).T)
            Phi[new] -= share * V.T @ seen
            rest[new] -= share * V.sum(axis=0)
            for j in range(weights.shape[1]):
                eta = leaving.residuals(weights[a, j], self._moves(seen, left, j), self.beyond[left, j])
                out[new[:, None], left, j] -= share * V[a].T * (leaving.share * eta)

        engine.on_threads(work, np.unique(asked_in), n_jobs)

    def _kernel(self, rows: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Of coordinates and rows of a leaf."""
        k = np.empty((len(U), len(rows)))
        CrossKernel(self.local.kernel, self.local.U[rows], KernelParameters(self.local.gamma)).transform_block(U, k)
        return k

    def _moves(self, Phi: np.ndarray, here: np.ndarray, output: int) -> np.ndarray:
        """``δ_i`` at rows of these features, ``[row, row that leaves]``."""
        b = self.without.weights(here, output).astype(Phi.dtype, copy=False)
        return Phi @ b.T + self.without.constant[here, output].astype(Phi.dtype)


@dataclass(frozen=True)
class _Leaving:
    """Rows that leave a leaf: columns of B, ``λ/W_a``, ``u/W_a`` and what stays of each."""

    columns: np.ndarray
    ridge: np.ndarray
    share: np.ndarray
    remainder: np.ndarray

    @classmethod
    def of(
        cls, leaves: LeavesWithout, B: "LeafInverse", rows: np.ndarray, a: np.ndarray, left: np.ndarray
    ) -> "_Leaving":
        assert leaves.local.ridge is not None
        columns, ridge, share = B.columns(a), leaves.local.ridge / leaves.mass[rows[a]], leaves.share[left]
        own = columns[a, np.arange(len(a))]
        return cls(columns, ridge, share, np.maximum(1.0 - (1.0 - ridge * own) * share, LEAST))

    def residuals(self, alpha: np.ndarray, delta: np.ndarray, beyond: np.ndarray) -> np.ndarray:
        """``η_i``, where the global model without each row has moved by ``delta``."""
        moved = alpha - np.einsum("ij,ij->j", self.columns, delta)  # α'_a
        return (beyond + self.ridge * moved) / self.remainder


@dataclass(frozen=True)
class LeafInverse:
    """``B = (K + λW⁻¹)⁻¹`` of a leaf: its factor, or, where much of it is asked for, the matrix itself."""

    matrix: np.ndarray
    is_factor: bool

    @classmethod
    def of(cls, local: LocalKernels, U: np.ndarray, mass: np.ndarray, n_columns: int) -> "LeafInverse":
        ridge = local.ridge or 0.0
        K = np.empty((len(U), len(U)), precision_of(len(U), ridge, mass))
        values = partial(leaf_kernel, local.kernel, local.gamma, U, mirrored=False)
        factor = leaf_factor(values(K), mass, ridge, values)
        if n_columns < SHARE * len(U):
            return cls(factor, True)
        invert_factored(factor)
        mirror_upper(K)
        return cls(K, False)

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Some columns of B."""
        if not self.is_factor:
            return self.matrix[:, places]
        E = np.zeros((len(self.matrix), len(places)))
        E[places, np.arange(len(places))] = 1.0
        return solve_factored(self.matrix, E)

    def times(self, M: np.ndarray) -> np.ndarray:
        """``B M``."""
        return solve_factored(self.matrix, M) if self.is_factor else self.matrix @ M.astype(self.matrix.dtype)
