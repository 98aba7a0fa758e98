r"""Exact kernel ridge on the device: one n × n matrix, filled and factored in place."""

from functools import partial
from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import map_on
from ulmus.devices.tensors import DeviceRows
from ulmus.devices.triangles import BLOCK, cholesky_in_place, solve_lower, solve_upper
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.kernel_ridge import DualSolution, bordered, fit_distinct, on_distinct_rows, without_folds


def fit_on_device(
    accelerator: Accelerator,
    cross: CrossKernel,
    rows: Rows,
    C: float,
    *,
    fit_intercept: bool,
    n_last: int,
    n_jobs: int | None,
    last_folds: np.ndarray | None = None,
) -> DualSolution:
    """:func:`ulmus.solvers.kernel_ridge.fit_kernel_ridge` on the device."""
    solve = partial(_fit_distinct, accelerator, C=C, fit_intercept=fit_intercept, n_jobs=n_jobs)
    return on_distinct_rows(solve, cross, rows, n_last, last_folds)


def _fit_distinct(
    accelerator: Accelerator,
    cross: CrossKernel,
    rows: Rows,
    n_last: int,
    last_folds: np.ndarray | None,
    *,
    C: float,
    fit_intercept: bool,
    n_jobs: int | None,
) -> DualSolution:
    """:func:`ulmus.solvers.kernel_ridge.fit_distinct` on the device; what is not definite goes to the CPU."""
    torch, n, m = accelerator.torch, len(rows), min(n_last, len(rows))
    most = int((max(0.0, accelerator.free_bytes() - 2**30) / 8) ** 0.5)
    accelerator.require(
        8 * n * n + 2**30,
        f"an exact kernel model of {n} rows",
        f"{most} rows would fit; use the NKELM model, whose memory does not grow with the rows",
    )
    A = torch.empty((n, n), dtype=torch.float64, device=accelerator.device)
    transform = map_on(accelerator, cross)
    for piece, X, _, _ in DeviceRows(accelerator, rows, keep=False).blocks(2048):
        A[piece] = transform(X)
    A.diagonal().copy_(accelerator.tensor(cross.diagonal(rows.X)))
    w = torch.ones(n, dtype=torch.float64, device=accelerator.device)
    if rows.weight is not None:
        w = accelerator.tensor(rows.weight)
    A.diagonal().add_(1.0 / (C * w))
    norm = max(float(A[start : start + BLOCK].abs().sum(1).max()) for start in range(0, n, BLOCK))
    if not np.isfinite(norm):
        raise ValueError(
            "the kernel matrix is not finite on the device: standardise the features, or drop rows with NaN"
        )
    if not cholesky_in_place(torch, A):
        del A
        return fit_distinct(cross, rows, n_last, last_folds, C=C, fit_intercept=fit_intercept, n_jobs=n_jobs)
    T = rows.T.astype(np.float64)
    mean = T.mean(axis=0) if fit_intercept else np.zeros(T.shape[1])  # of which α knows nothing
    T -= mean

    def solve(B: np.ndarray) -> Any:
        return accelerator.numpy(solve_upper(torch, A, solve_lower(torch, A, accelerator.tensor(B))))

    solved = solve(np.column_stack([T, np.ones(n)]) if fit_intercept else T)
    corner = A[n - m :, n - m :].tril()
    half = torch.linalg.solve_triangular(corner, torch.eye(m, dtype=A.dtype, device=A.device), upper=False)
    inverse = accelerator.numpy((half**2).sum(0) if last_folds is None else half.T @ half)
    alpha, b = solved, np.zeros(T.shape[1])
    if fit_intercept:
        u = solved[:, -1]
        alpha, b = bordered(solved[:, :-1], u, T, solve)
        v, b = u[n - m :], mean + b
        inverse = inverse - (v**2 if last_folds is None else np.outer(v, v)) / u.sum()
    last = rows.take(slice(n - m, n))
    weight = last.weights
    smallest = float((A.diagonal() ** 2).min())
    condition = norm / max(smallest, 1e-300)
    if last_folds is not None:
        error, left = without_folds(
            inverse, alpha[n - m :], last_folds, C, weight, weight if last.unit is None else last.unit
        )
        return DualSolution(alpha, b, condition, error * left[:, None], left)
    share = np.ones(m) if last.unit is None else last.unit / weight
    residual = alpha[n - m :] / (C * weight)[:, None]
    remainder = 1.0 - share + share * inverse / (C * weight)
    return DualSolution(alpha, b, condition, residual, remainder)
