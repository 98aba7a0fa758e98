"""Widths and penalties of the local stage, scored on the device by held-out rows that lie in some leaves."""

from collections.abc import Sequence

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.differences import scale_of, values
from ulmus.devices.leaf_batches import BATCH_BYTES, padded, scaled_columns
from ulmus.devices.leaves import factored
from ulmus.devices.log_leaves import log_minimum
from ulmus.solvers.log_loss import targets
from ulmus.tuning.local import Remainder


def leaf_trials(
    accelerator: Accelerator,
    kernel: str,
    gamma: float,
    ridges: Sequence[float],
    data: Remainder,
    tasks: Sequence[tuple[np.ndarray, np.ndarray]],
    tol: float | None,
) -> np.ndarray:
    """Predictions ``[ridge, held-out row, output]``, task by task; a task are rows of a leaf and held-out ones.

    Leaves fit squares, or the log loss to a relative ``tol``.
    """
    torch, scale = accelerator.torch, scale_of(kernel, gamma)
    out = np.empty((len(ridges), sum(len(held) for _, held in tasks), data.R.shape[1]))
    most = max(len(rows) for rows, _ in tasks)
    width, start = max(1, BATCH_BYTES // (8 * most**2)), 0
    for first in range(0, len(tasks), width):
        some = tasks[first : first + width]
        (rows, inside), (held, asking) = (padded([task[side] for task in some]) for side in (0, 1))
        there = accelerator.tensor(inside, torch.bool)
        X = scaled_columns(torch, accelerator.tensor(data.U[rows]), there, scale)
        Q = (accelerator.tensor(data.U_held[held]) * scale).transpose(1, 2).contiguous()
        w = accelerator.tensor(np.where(inside, 1.0 if data.weight is None else data.weight[rows], 0.0))
        R = accelerator.tensor(
            np.where(inside[:, :, None], data.R[rows] if tol is None else targets(data.R[rows]), 0.0)
        )
        K = values(accelerator, kernel, Q, X)
        stop = start + int(asking.sum())
        for i, ridge in enumerate(ridges):
            if tol is None:
                penalty = torch.where(there, ridge / w, float(ridge))
                alpha = factored(accelerator, kernel, X, penalty).solve(R)
            else:
                assert data.offset is not None
                offset = accelerator.tensor(data.offset[rows])
                sizes = inside.sum(axis=1)
                alpha = log_minimum(accelerator, kernel, X, R, offset, w, sizes, ridge, tol)[0]
            out[i, start:stop] = (data.P_held[held] + accelerator.numpy(K @ alpha))[asking]
        start = stop
    return out
