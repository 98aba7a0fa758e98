r"""The local stage in the log loss: every leaf fits what the scores of a global model leave to be explained.

In a leaf with offsets O (the global scores), :math:`\sum_i w_i\ell(O_i + (K\alpha)_i) + \frac\lambda2\alpha^TK\alpha`
is minimal (:mod:`ulmus.solvers.log_kernel`): one factor of :math:`K + \lambda(WD)^{-1}`, D the curvature at the
offsets, and some solves with it. A query is answered by its leaf, averaged over partitions, as by the squared stage.
"""

from collections.abc import Sequence

import numpy as np

from ulmus import engine
from ulmus.features.partition import Partition
from ulmus.solvers.local import leaf_kernel, precision_of
from ulmus.solvers.log_kernel import fit_kernel_softmax

#: What may be left of a leaf's objective: leaves are averaged, and digits beyond these are not seen.
TOLERANCE = 1e-4


def fit_log_leaves(
    kernel: str,
    gamma: float,
    ridge: float,
    U: np.ndarray,
    T: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray | None,
    partitions: Sequence[Partition],
    *,
    leave_one_out: bool = False,
    tol: float = TOLERANCE,
    n_jobs: int | None = -1,
    single: bool = False,
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Weights of every row, in the order of each partition; and scores by the leaves without it, mean of partitions.

    ``T`` are ±1 codes, ``ridge`` is λ. Scores of rows left out are offset and leaf; only the leaf is without the row.
    With ``single``, leaves are factored in single precision where that is enough.
    """
    alphas: list[np.ndarray] = [np.empty(T.shape) for _ in partitions]
    left = [np.empty(T.shape) for _ in partitions] if leave_one_out else []
    workspace = engine.Workspace()

    def work(leaf: tuple[int, np.ndarray, slice]) -> None:
        number, rows, place = leaf
        w = None if weight is None else weight[rows]
        n, dtype = len(rows), precision_of(len(rows), ridge, w) if single and not leave_one_out else np.float64
        K = leaf_kernel(kernel, gamma, U[rows], workspace.array("K", (n, n), dtype))
        found = fit_kernel_softmax(
            K, T[rows], 1.0 / ridge, weight=w, offset=offset[rows], tol=tol, leave_one_out=leave_one_out
        )
        alphas[number][place] = found.alpha
        if found.left_out is not None:
            left[number][rows] = found.left_out

    leaves = [
        (number, partition.rows(leaf), slice(partition.starts[leaf], partition.starts[leaf + 1]))
        for number, partition in enumerate(partitions)
        for leaf in range(partition.n_leaves)
    ]
    engine.on_threads(work, sorted(leaves, key=lambda leaf: -len(leaf[1])), n_jobs)  # no large one is last
    return alphas, (np.mean(left, axis=0) if left else None)
