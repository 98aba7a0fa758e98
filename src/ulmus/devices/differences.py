"""Kernel values of many small sets of rows at once, from differences of their coordinates."""

from collections.abc import Callable
from typing import Any

from ulmus.devices.accelerator import Accelerator
from ulmus.features.kernels import KERNELS

#: Entries of a block that is worked on at a time where there are no fused tiles.
BLOCK = 2**24


def scale_of(kernel: str, gamma: float) -> float:
    """The factor on coordinates that gamma is to a kernel."""
    return float(KERNELS[kernel].scale(gamma))


def values(accelerator: Accelerator, kernel: str, A: Any, B: Any, *, fused: bool | None = None) -> Any:
    """``κ`` of scaled rows ``[batch, column, row]``, as ``[batch, row of A, row of B]``."""
    if accelerator.is_gpu and accelerator.fuses if fused is None else fused:
        from ulmus.devices import triton_differences

        return triton_differences.values(A, B, kernel)
    torch, (batches, d, n_a), n_b = accelerator.torch, A.shape, B.shape[2]
    out = torch.empty((batches, n_a, n_b), dtype=A.dtype, device=A.device)
    height = max(1, BLOCK // max(1, batches * n_b))
    for start in range(0, n_a, height):
        total = torch.zeros_like(out[:, start : start + height])
        for j in range(d):
            difference = A[:, j, start : start + height, None] - B[:, j, None, :]
            total += difference.abs_() if kernel == "laplacian_l1" else difference.square_()
        out[:, start : start + height] = _FINISH[kernel](total)
    return out


def _matern32(q: Any) -> Any:
    r = q.sqrt_()
    return (1.0 + r) * (-r).exp_()


#: What a kernel makes of sums of (squared) differences.
_FINISH: dict[str, Callable[[Any], Any]] = {
    "rbf": lambda q: q.neg_().exp_(),
    "laplacian": lambda q: q.sqrt_().neg_().exp_(),
    "matern32": _matern32,
    "laplacian_l1": lambda q: q.neg_().exp_(),
}
