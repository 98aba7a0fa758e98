r"""The local stage on the device: exact kernel ridge in the leaves of random partitions, hundreds at a time.

:func:`fit_leaves` is :func:`ulmus.solvers.local.fit_leaves`, :func:`answers` the prediction of
:class:`~ulmus.solvers.local.LocalKernels`; all is in double precision.
"""

from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.differences import scale_of, values
from ulmus.devices.leaf_batches import Factors, leaf_batches, scaled_columns
from ulmus.features.partition import Partition
from ulmus.solvers.local import JITTER, LeafProblem, LocalKernels

#: Raised diagonals of a leaf that has no factor, at most.
JITTERS = 8
#: Queries of one leaf that are answered together, at most.
QUERIES = 512


def fit_leaves(accelerator: Accelerator, problem: LeafProblem) -> list[np.ndarray]:
    """Weights of every row, in the order of each partition; rows, targets and weights are on the device."""
    kernel, ridge, U, R, weight = problem.kernel, problem.ridge, problem.U, problem.T, problem.weight
    torch, scale, alphas = accelerator.torch, scale_of(kernel, problem.gamma), list[np.ndarray]()
    for partition in problem.partitions:
        order = accelerator.tensor(partition.order, torch.int64)
        alpha = torch.empty_like(R)
        for _, batch in leaf_batches(accelerator, partition, np.arange(partition.n_leaves)):
            rows, inside = order[batch.place], batch.inside
            penalty = torch.full(batch.shape, float(ridge), dtype=U.dtype, device=U.device)
            if weight is not None:
                penalty = torch.where(inside, ridge / weight[rows], penalty)
            X = scaled_columns(torch, U[rows], inside, scale)
            factors = factored(accelerator, kernel, X, penalty)
            found = factors.solve(torch.where(inside[:, :, None], R[rows], 0.0))
            alpha[batch.place[inside]] = found[inside]
        alphas.append(accelerator.numpy(alpha))
    return alphas


def factored(accelerator: Accelerator, kernel: str, X: Any, penalty: Any) -> Factors:
    """What solves with ``K + diag(penalty)``; a penalty too small for round-off is raised."""
    return Factors(accelerator.torch, lower_factors(accelerator, kernel, X, penalty))


def lower_factors(accelerator: Accelerator, kernel: str, X: Any, penalty: Any) -> Any:
    """Lower factors of ``K + diag(penalty)``; a penalty too small for round-off is raised."""
    torch = accelerator.torch
    K = values(accelerator, kernel, X, X)
    K.diagonal(dim1=1, dim2=2).add_(penalty)
    L, info = torch.linalg.cholesky_ex(K)
    del K
    bad = info.nonzero()[:, 0]
    for count in range(1, JITTERS):
        if not len(bad):
            return L
        K = values(accelerator, kernel, X[bad], X[bad])
        K.diagonal(dim1=1, dim2=2).add_(penalty[bad] + count * JITTER[np.dtype(np.float64)] * X.shape[2])
        L[bad], info = torch.linalg.cholesky_ex(K)
        bad = bad[info.nonzero()[:, 0]]
    raise np.linalg.LinAlgError(
        "the kernel matrix of a leaf is not positive definite; choose a positive definite kernel"
    )


def answers(accelerator: Accelerator, local: LocalKernels, rows: Any, U: Any) -> np.ndarray:
    """Mean answer of the partitions to the queries ``U``; ``rows`` are those of the stage, both on the device."""
    torch, scale = accelerator.torch, scale_of(local.kernel, local.gamma)
    out = torch.zeros((len(U), local.alphas[0].shape[1]), dtype=U.dtype, device=U.device)
    for partition, weights in zip(local.partitions, local.alphas, strict=True):
        order, alpha = accelerator.tensor(partition.order, torch.int64), accelerator.tensor(weights)
        leaf, by_leaf = torch.sort(leaves_of(accelerator, partition, U), stable=True)
        asked, counts = (accelerator.numpy(a) for a in torch.unique_consecutive(leaf, return_counts=True))
        parts = -(-counts // QUERIES)
        number = np.repeat(asked, parts)
        nth = np.arange(len(number)) - np.repeat(np.cumsum(parts) - parts, parts)
        begin = np.repeat(np.cumsum(counts) - counts, parts) + QUERIES * nth
        many = np.minimum(np.repeat(counts, parts) - QUERIES * nth, QUERIES)
        for some, batch in leaf_batches(accelerator, partition, number, many):
            ahead = torch.arange(int(many[some].max()), device=U.device)
            asking = ahead < accelerator.tensor(many[some], torch.int64)[:, None]
            place = accelerator.tensor(begin[some], torch.int64)[:, None] + ahead
            queries = by_leaf[torch.where(asking, place, 0)]
            mine = scaled_columns(torch, rows[order[batch.place]], batch.inside, scale)
            K = values(accelerator, local.kernel, (U[queries] * scale).transpose(1, 2).contiguous(), mine)
            answered = K @ torch.where(batch.inside[:, :, None], alpha[batch.place], 0.0)
            out[queries[asking]] += answered[asking]
    return accelerator.numpy(out / len(local.partitions))


def leaves_of(accelerator: Accelerator, partition: Partition, U: Any) -> Any:
    """The leaf of every row of ``U`` (:meth:`ulmus.features.partition.Partition.leaves`)."""
    torch = accelerator.torch
    if not len(partition.feature):
        return torch.zeros(len(U), dtype=torch.int64, device=U.device)
    feature, children = (accelerator.tensor(a, torch.int64) for a in (partition.feature, partition.children))
    threshold, directions = accelerator.tensor(partition.threshold), accelerator.tensor(partition.directions)
    node = torch.zeros(len(U), dtype=torch.int64, device=U.device)
    inside = torch.arange(len(U), device=U.device)
    while len(inside):
        here = node[inside]
        column = feature[here]
        seen = U[inside, column.clamp(min=0)]
        turned = (column < 0).nonzero()[:, 0]
        if len(turned):
            seen[turned] = (U[inside[turned]] * directions[-1 - column[turned]]).sum(1)
        node[inside] = children[here, (seen > threshold[here]).long()]
        inside = inside[node[inside] >= 0]
    return -1 - node
