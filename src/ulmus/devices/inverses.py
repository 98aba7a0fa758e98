r"""Inverses of many small matrices, made once and multiplied by often.

Conjugate gradients in hundreds of leaves multiply by the same inverses again and again, and wait for memory: a product
reads every entry once, in one launch, and a solve with the factor would read as much in many. Leaves that have arrived,
and rows that pad a leaf, are not read at all.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.leaf_batches import ALIKE, FEW, Factors


class Inverses:
    """``A⁻¹`` of matrices of some sizes, the largest first; those of nearly equal size are made together.

    ``factors(leaves, n)`` gives the lower factors of some, padded to the order n.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        sizes: np.ndarray,
        factors: Callable[[slice, int], Any],
        fused: bool | None = None,
    ) -> None:
        self.accelerator, torch = accelerator, accelerator.torch
        self.fused = accelerator.is_gpu and accelerator.fuses if fused is None else fused
        groups = alike(sizes)
        orders = [int(sizes[some.start]) for some in groups]
        counts = [(some.stop - some.start) * n * n for some, n in zip(groups, orders, strict=True)]
        flat = torch.empty(sum(counts), dtype=torch.float64, device=accelerator.device)
        self.flat, ends = flat, np.cumsum(counts)
        self.parts = [
            flat[end - count : end].view(-1, n, n) for n, count, end in zip(orders, counts, ends, strict=True)
        ]
        for some, n, out in zip(groups, orders, self.parts, strict=True):
            invert(torch, factors(some, n), out)
        self.group = np.repeat(np.arange(len(groups)), [some.stop - some.start for some in groups])
        self.nth = np.concatenate([np.arange(some.stop - some.start) for some in groups])
        order = np.array(orders)[self.group]
        first = (ends - counts)[self.group] + self.nth * order.astype(np.int64) ** 2
        self.first, self.order, self.sizes = (accelerator.tensor(a, torch.int64) for a in (first, order, sizes))

    def some(self, which: np.ndarray) -> "Inverses":
        """Those of some leaves; none is copied."""
        other: Inverses = object.__new__(Inverses)
        other.__dict__.update(self.__dict__)
        at = self.accelerator.tensor(which, self.accelerator.torch.int64)
        other.group, other.nth = self.group[which], self.nth[which]
        other.first, other.order, other.sizes = self.first[at], self.order[at], self.sizes[at]
        return other

    def times(self, V: Any, active: Any) -> Any:
        """``A⁻¹V`` of vectors ``[leaf, row, column]``; 0 in leaves that are not active, and in padding."""
        torch = self.accelerator.torch
        if self.fused:
            from ulmus.devices import triton_inverses

            return triton_inverses.times(self.flat, self.first, self.order, self.sizes, V, active)
        out = torch.zeros_like(V)
        for number in np.unique(self.group):
            here = np.flatnonzero(self.group == number)
            A = self.parts[number][self.nth[here]]
            out[here, : A.shape[1]] = A @ V[here, : A.shape[1]]
        return torch.where(active[:, None, None], out, 0.0)


def alike(sizes: np.ndarray) -> list[slice]:
    """Leaves, the largest first, in groups of nearly equal size; where they are few, a group is of any size."""
    groups, first = [], 0
    while first < len(sizes):
        small = np.flatnonzero(sizes[first:] < ALIKE * sizes[first])
        stop = first + max(FEW, int(small[0])) if len(small) else len(sizes)
        groups.append(slice(first, min(stop, len(sizes))))
        first = groups[-1].stop
    return groups


def invert(torch: Any, L: Any, out: Any) -> None:
    """Write ``(LLᵀ)⁻¹ = L⁻ᵀL⁻¹`` of lower factors ``[batch, n, n]`` into ``out``, panel by panel."""
    factors, X = Factors(torch, L), torch.zeros_like(L)
    for p, inverse in zip(factors.panels, factors.inverses, strict=True):
        left = slice(0, p.start)
        X[:, p, left] = -(inverse @ (L[:, p, left] @ X[:, left, left]))
        X[:, p, p] = inverse
    for p in factors.panels:
        below = slice(p.start, None)
        out[:, p, : p.stop] = X[:, below, p].transpose(1, 2) @ X[:, below, : p.stop]
        out[:, : p.start, p] = out[:, p, : p.start].transpose(1, 2)
