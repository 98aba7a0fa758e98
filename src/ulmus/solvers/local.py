r"""Exact kernel models on every leaf of random partitions, averaged: by squares, or by the log loss.

In a leaf with rows u and weights w, :math:`(K + \lambda W^{-1})\,\alpha = r`; a query is answered by its own leaf,
:math:`\kappa(u, u_{leaf})\,\alpha`, averaged over the partitions. Far from all rows of its leaf the answer fades to 0.

In the log loss every leaf fits what the scores O of a global model leave to be explained:
:math:`\sum_i w_i\ell(O_i + (K\alpha)_i) + \frac\lambda2\alpha^TK\alpha` is minimal
(:mod:`ulmus.solvers.log_kernel`), by one factor of :math:`K + \lambda(WD)^{-1}`, D the curvature at the offsets, and
some solves with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import cholesky_in_place, mirror_upper, solve_factored, solve_lower
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.features.metric import gradients
from ulmus.features.partition import Partition
from ulmus.solvers.log_kernel import bound, fit_kernel_softmax

#: Rows of a leaf over its penalty up to which single precision is enough: some 1e-2 of its smallest directions. Stages
#: are compared up to the second: fits are then off by 1 % in the median of the leaves where that is most.
SINGLE_REACH, COMPARED_REACH = 2e5, 2e6
#: Rows of a leaf from which on single precision is faster.
LARGE = 256
#: What is added to the diagonal, for every row, where there is no factor.
JITTER = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
#: (Squared) distances are cut off here: single precision ends soon after, and kernels have long vanished.
FARTHEST = 1e30
#: Columns that are solved for one by one: a vector takes a quarter of the time of a matrix of one column.
VECTORS = 3
#: Rows of a kernel matrix that are evaluated at a time.
ROWS = 64
#: What may be left of a leaf's objective in the log loss: leaves are averaged, and digits beyond these are not seen.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class LocalKernels:
    """The local stage: rows, one partition and its weights per round.

    ``ridge`` is the penalty of squares, ``weight`` that of rows where it is not 1.
    """

    kernel: str
    gamma: float
    U: np.ndarray
    partitions: tuple[Partition, ...]
    alphas: tuple[np.ndarray, ...]
    ridge: float | None = None
    weight: np.ndarray | None = None

    @property
    def mass(self) -> np.ndarray:
        """Weights of the rows, also where they are 1."""
        return np.ones(len(self.U)) if self.weight is None else self.weight

    @property
    def leaf_rows(self) -> float:
        """Rows of a leaf, on the mean."""
        return len(self.U) * len(self.partitions) / max(1, sum(len(p.starts) - 1 for p in self.partitions))

    @property
    def nbytes(self) -> int:
        """Bytes of the stage that are in memory: arrays that are mapped from files are not."""
        arrays = (self.U, *(p.order for p in self.partitions), *self.alphas)
        return sum(array.nbytes for array in arrays if not isinstance(array, np.memmap))

    def solved_in_single(self, weight: np.ndarray | None) -> bool:
        """Whether a leaf of rows with these weights was factored in single precision."""
        sizes = np.concatenate([np.diff(partition.starts) for partition in self.partitions])
        return any(precision_of(int(size), self.ridge or 0.0, weight) == np.float32 for size in sizes)

    def scaled(self, factor: np.ndarray | float) -> "LocalKernels":
        """The stage with its answers multiplied."""
        return replace(self, alphas=tuple(factor * alpha for alpha in self.alphas))

    def predict(self, U: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """Mean answer of the partitions, ``[row, output]``."""
        out = np.zeros((len(U), self.alphas[0].shape[1]))
        for partition, alpha in zip(self.partitions, self.alphas, strict=True):
            out += self._of_partition(partition, alpha, U, n_jobs)
        return out / len(self.partitions)

    def of_partition(self, number: int, U: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """The answer of one partition."""
        return self._of_partition(self.partitions[number], self.alphas[number], U, n_jobs)

    def _of_partition(self, partition: Partition, alpha: np.ndarray, U: np.ndarray, n_jobs: int | None) -> np.ndarray:
        out = np.empty((len(U), alpha.shape[1]))
        leaf = partition.leaves(U)
        order = np.argsort(leaf, kind="stable")
        asked, starts = np.unique(leaf[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        tasks = []
        for number, start, end in zip(asked, starts, ends, strict=True):
            height = max(64, engine.TILE_BYTES // (8 * max(1, len(partition.rows(number)))))
            tasks += [(number, order[start:end][piece]) for piece in engine.pieces(end - start, height)]

        workspace = engine.Workspace()

        def work(task: tuple[int, np.ndarray]) -> None:
            number, queries = task
            cross = CrossKernel(self.kernel, self.U[partition.rows(number)], KernelParameters(self.gamma))
            K = workspace.array("K", (len(queries), cross.n_features_out), np.float64)
            cross.transform_block(U[queries], K)
            out[queries] = K @ alpha[partition.starts[number] : partition.starts[number + 1]]

        engine.on_threads(work, tasks, n_jobs)
        return out

    def gradients(self, U: np.ndarray) -> np.ndarray:
        """Slopes of the mean answer, ``[row, coordinate, output]``."""
        out = np.zeros((len(U), U.shape[1], self.alphas[0].shape[1]))
        for partition, alpha in zip(self.partitions, self.alphas, strict=True):
            leaf = partition.leaves(U)
            for number in np.unique(leaf):
                cross = CrossKernel(self.kernel, self.U[partition.rows(number)], KernelParameters(self.gamma))
                weights = alpha[partition.starts[number] : partition.starts[number + 1]]
                out[leaf == number] += gradients(cross, U[leaf == number], weights)
        return out / len(self.partitions)


def precision_of(size: int, ridge: float, weight: np.ndarray | None, reach: float = SINGLE_REACH) -> Any:
    """The type in which a leaf is factored: single where there is time to be won, and digits enough are left."""
    heaviest = 1.0 if weight is None else float(weight.max(initial=1.0))
    return np.float32 if size >= LARGE and size * heaviest <= reach * ridge else np.float64


def restored(K: np.ndarray) -> None:
    """Copy the lower triangle, which a factorisation leaves alone, over the upper one."""
    upper = np.triu_indices_from(K, 1)
    K[upper] = K.T[upper]


def solve_leaf(
    K: np.ndarray,
    R: np.ndarray,
    weight: np.ndarray | None,
    ridge: float,
    again: Callable[[np.ndarray], object] = restored,
) -> np.ndarray:
    r""":math:`(K + \lambda W^{-1})^{-1} R`, in the type of ``K``, whose upper triangle is overwritten.

    A penalty too small for round-off is raised: ``again`` then brings the upper triangle back.
    """
    factor = leaf_factor(K, weight, ridge, again)
    if R.shape[1] > VECTORS:
        return solve_factored(factor, R)
    columns = [np.array(R[:, [j]], dtype=factor.dtype) for j in range(R.shape[1])]
    for column in columns:
        solve_lower(factor, column)
        solve_lower(factor, column, transposed=True)
    return np.concatenate(columns, axis=1)


def leaf_factor(
    K: np.ndarray, weight: np.ndarray | None, ridge: float, again: Callable[[np.ndarray], object] = restored
) -> np.ndarray:
    r"""The lower factor of :math:`K + \lambda W^{-1}`, in Fortran order over the upper triangle of ``K``."""
    diagonal = K.diagonal() + (ridge if weight is None else ridge / weight)
    factor = K.T  # LAPACK's order: it works on the upper triangle of K, the lower one stays
    for attempt in range(8):
        if attempt:
            again(K)
        K[np.diag_indices_from(K)] = diagonal
        if not cholesky_in_place(factor):
            return factor
        diagonal += JITTER[K.dtype] * len(K)
    raise np.linalg.LinAlgError(
        "the kernel matrix of a leaf is not positive definite; choose a positive definite kernel"
    )


def leaf_kernel(
    kernel: str, gamma: float, U: np.ndarray, K: np.ndarray | None = None, *, mirrored: bool = True
) -> np.ndarray:
    """``κ(U, U)``, over ``K`` where one is given; if it is not ``mirrored``, only on and above the diagonal.

    Distances are those of double precision, exponentials are taken in the type of ``K``.
    """
    parameters, of = KernelParameters(gamma), KERNELS[kernel]
    cross, wide = CrossKernel(kernel, U, parameters), float(of.scale(gamma)) * np.ptp(U, axis=0).sum() > FARTHEST**0.5

    def arguments(X: np.ndarray, out: np.ndarray, columns: slice) -> None:
        cross.arguments(X, out, columns)
        if wide:
            np.clip(out, -FARTHEST, FARTHEST, out=out)

    K = symmetric(arguments, U, K, mirrored=False)
    for piece in engine.pieces(len(U), ROWS):
        of.values(K[piece, piece.start :], parameters)
    if mirrored:
        mirror_upper(K)
    return K


def symmetric(
    of: Callable[..., None], U: np.ndarray, K: np.ndarray | None = None, *, mirrored: bool = True
) -> np.ndarray:
    """What a function such as :meth:`CrossKernel.transform_block` says of every pair of rows, over ``K``."""
    n = len(U)
    K, block = np.empty((n, n)) if K is None else K, np.empty(min(n, ROWS) * n)
    for piece in engine.pieces(n, ROWS):
        part = block[: (piece.stop - piece.start) * (n - piece.start)].reshape(piece.stop - piece.start, -1)
        of(U[piece], part, slice(piece.start, n))
        K[piece, piece.start :] = part
    if mirrored:
        mirror_upper(K)
    return K


@dataclass(frozen=True)
class LeafProblem:
    """What leaves of some partitions fit: targets of rows ``U`` by a kernel, with the penalty ``ridge``.

    With an ``offset``, targets are ±1 codes, and leaves minimise the log loss beside these scores of another model.
    """

    kernel: str
    gamma: float
    ridge: float
    U: Any
    T: Any
    weight: Any
    partitions: Sequence[Partition]
    offset: Any = None

    def stage(self, alphas: Sequence[np.ndarray]) -> LocalKernels:
        """The local stage of the weights that were found."""
        squares = () if self.offset is not None else (self.ridge, self.weight)
        return LocalKernels(self.kernel, self.gamma, self.U, tuple(self.partitions), tuple(alphas), *squares)


def fit_leaves(
    problem: LeafProblem, tol: float = TOLERANCE, n_jobs: int | None = -1, *, single: bool = False
) -> list[np.ndarray]:
    """Weights of every row, in the order of each partition; with ``single``, in single precision where that is enough.

    Leaves are averaged and fit what another model leaves over: their last digits are seen by nobody. So much as ``tol``
    may be left of the objective of a log loss.
    """
    given, alphas = problem, [np.empty(problem.T.shape) for _ in problem.partitions]
    workspace = engine.Workspace()

    def work(leaf: tuple[np.ndarray, np.ndarray]) -> None:
        rows, alpha = leaf
        w = None if given.weight is None else given.weight[rows]
        least = given.ridge if given.offset is None else given.ridge / bound(given.T.shape[1])  # of λ(WD)⁻¹
        n, dtype = len(rows), precision_of(len(rows), least, w) if single else np.float64
        values = partial(leaf_kernel, given.kernel, given.gamma, given.U[rows])
        K = workspace.array("K", (n, n), dtype)
        if given.offset is None:
            squared = partial(values, mirrored=False)
            alpha[:] = solve_leaf(squared(K), given.T[rows], w, given.ridge, squared)
        else:
            options: dict[str, Any] = {"weight": w, "offset": given.offset[rows], "tol": tol}
            alpha[:] = fit_kernel_softmax(values(K), given.T[rows], 1.0 / given.ridge, **options).alpha

    leaves = [
        (partition.rows(number), alpha[partition.starts[number] : partition.starts[number + 1]])
        for partition, alpha in zip(given.partitions, alphas, strict=True)
        for number in range(partition.n_leaves)
    ]
    engine.on_threads(work, sorted(leaves, key=lambda leaf: -len(leaf[0])), n_jobs)  # no large one is last
    return alphas
