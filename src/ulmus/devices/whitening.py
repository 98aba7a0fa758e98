"""The nested Cholesky factor of a landmark kernel (:mod:`ulmus.features.whitening`), on the device."""

from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import map_on
from ulmus.features.kernels import CrossKernel, KernelLike, KernelParameters
from ulmus.features.whitening import DEFER, NestedCholesky, nested_cholesky

#: Orders up to which a factor that has to be pivoted is left to the CPU.
SMALL = 1_024
_PANEL = 128


def kernel_matrix(accelerator: Accelerator, kernel: KernelLike, Z: np.ndarray, parameters: KernelParameters) -> Any:
    """``κ(Z, Z)``, exactly symmetric, in float64."""
    cross = CrossKernel(kernel, Z, parameters)
    K = map_on(accelerator, cross)(accelerator.tensor(Z))
    K = (K + K.T) / 2
    K.diagonal().copy_(accelerator.tensor(cross.diagonal(Z)))
    return K


class DeviceDecomposition:
    """``K_zz = R Rᵀ`` on the device, as :class:`~ulmus.features.nystrom.NystromMap` takes it."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator

    def __call__(
        self, kernel: KernelLike, Z: np.ndarray, parameters: KernelParameters
    ) -> tuple[np.ndarray | None, NestedCholesky, float]:
        """The kernel matrix where the map asks for it (None here), the factor, and the condition number."""
        accelerator = self.accelerator
        torch = accelerator.torch
        K = kernel_matrix(accelerator, kernel, Z, parameters)
        diagonal = K.diagonal().clone()
        scale = torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal)).sqrt()
        unit = K / scale[:, None] / scale[None, :]
        del K
        R, info = torch.linalg.cholesky_ex(unit)
        if int(info) == 0 and float((R.diagonal() ** 2).min()) > DEFER:
            R = (R * scale[:, None]).contiguous()
            return None, NestedCholesky(np.arange(len(Z)), accelerator.numpy(R)), self.condition(R)
        if len(Z) <= SMALL:
            nested = nested_cholesky(accelerator.numpy(unit * scale[:, None] * scale[None, :]))
            return None, nested, nested.condition if len(nested.order) else 1.0
        del R
        order, R = _pivoted(accelerator, unit, np.flatnonzero(accelerator.numpy(diagonal) > 0))
        R = (R * scale[accelerator.tensor(order, torch.int64)][:, None]).contiguous()
        return None, NestedCholesky(order, accelerator.numpy(R)), self.condition(R) if len(order) else 1.0

    def condition(self, R: Any) -> float:
        """Condition number of ``R Rᵀ``, by a few steps of (inverse) power iteration."""
        torch, solve = self.accelerator.torch, self.accelerator.torch.linalg.solve_triangular
        R = R / R.abs().max()
        v = w = self.accelerator.tensor(np.random.RandomState(0).standard_normal((len(R), 1)))
        top = bottom = 1.0
        for _ in range(12):
            v = R @ (R.T @ (v / torch.linalg.norm(v)))
            w = solve(R.T, solve(R, w / torch.linalg.norm(w), upper=False), upper=True)
            top, bottom = float(torch.linalg.norm(v)), float(torch.linalg.norm(w))
        return top * bottom


def _pivoted(accelerator: Accelerator, K: Any, candidates: np.ndarray) -> tuple[np.ndarray, Any]:
    """Rows in order while their residual is sound; the weak ones at the end, by complete pivoting on the CPU."""
    torch, solve = accelerator.torch, accelerator.torch.linalg.solve_triangular
    n = len(candidates)
    R = accelerator.tensor(torch.zeros((n, n)))
    kept: list[int] = []
    deferred: list[int] = []
    for start in range(0, n, _PANEL):
        panel = candidates[start : start + _PANEL]
        k = len(kept)
        here = accelerator.tensor(panel, torch.int64)
        S = K[here][:, here]
        V = solve(R[:k, :k], K[accelerator.tensor(kept, torch.int64)][:, here], upper=False) if k else None
        if V is not None:
            S = S - V.T @ V
        taken, block = _panel(accelerator.numpy(S))
        deferred += [int(i) for i in np.delete(panel, taken)]
        kept += [int(i) for i in panel[taken]]
        if V is not None:
            R[k : k + len(taken), :k] = V[:, accelerator.tensor(taken, torch.int64)].T
        R[k : k + len(taken), k : k + len(taken)] = accelerator.tensor(block)
    k = len(kept)
    R, order = R[:k, :k], np.array(kept, dtype=int)
    if not deferred:
        return order, R
    rest, mine = accelerator.tensor(deferred, torch.int64), accelerator.tensor(kept, torch.int64)
    V = solve(R, K[mine][:, rest], upper=False)
    S = accelerator.numpy(K[rest][:, rest] - V.T @ V)
    from ulmus.features.whitening import complete_pivoting

    pivots, factor = complete_pivoting(S, len(K))
    out = accelerator.tensor(torch.zeros((k + len(pivots), k + len(pivots))))
    out[:k, :k] = R
    out[k:, :k] = V[:, accelerator.tensor(pivots, torch.int64)].T
    out[k:, k:] = accelerator.tensor(factor)
    return np.concatenate([order, np.array(deferred, dtype=int)[pivots]]).astype(int), out


def _panel(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a panel have a sound residual, and their Cholesky factor."""
    S = S.copy()
    taken: list[int] = []
    for j in range(len(S)):
        if S[j, j] <= DEFER:
            continue
        S[j, j:] /= np.sqrt(S[j, j])
        S[j + 1 :, j + 1 :] -= np.outer(S[j, j + 1 :], S[j, j + 1 :])
        taken.append(j)
    return np.array(taken, dtype=int), np.triu(S[np.ix_(taken, taken)]).T
