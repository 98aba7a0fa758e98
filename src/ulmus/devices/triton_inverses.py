"""Products with many small matrices of different order in one launch, in Triton: each entry is read once."""

import torch
import triton
import triton.language as tl

#: Rows and columns of a tile, columns of vectors at a time, and warps.
TILE, WIDTH, WARPS = (32, 64), 16, 4


@triton.jit(do_not_specialize=["k", "most"])
def _times(
    A, first, order, sizes, V, active, out, k, most, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    leaf = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    which = tl.program_id(2) * BK + tl.arange(0, BK)
    n = tl.where(tl.load(active + leaf) != 0, tl.load(sizes + leaf), 0).to(tl.int32)
    a = A + tl.load(first + leaf) + rows.to(tl.int64)[:, None] * tl.load(order + leaf)
    v = V + leaf * most * k + which[None, :]
    total = tl.zeros((BM, BK), tl.float64)
    columns = tl.arange(0, BN)
    if tl.program_id(0) * BM < n:
        for start in range(0, n, BN):
            there = start + columns < n
            tile = tl.load(a + start + columns[None, :], mask=(rows < n)[:, None] & there[None, :], other=0.0)
            block = tl.load(v + (start + columns)[:, None] * k, mask=there[:, None] & (which < k)[None, :], other=0.0)
            total = tl.dot(tile, block, total, out_dtype=tl.float64)
    where = out + leaf * most * k + rows[:, None] * k + which[None, :]
    tl.store(where, total, mask=(rows < most)[:, None] & (which < k)[None, :])


def times(
    A: torch.Tensor,
    first: torch.Tensor,
    order: torch.Tensor,
    sizes: torch.Tensor,
    V: torch.Tensor,
    active: torch.Tensor,
) -> torch.Tensor:
    """Products of the matrices that begin at ``first`` in A with ``V[leaf, row, column]``; 0 where not active."""
    leaves, most, k = V.shape
    out = torch.empty_like(V)
    BM, BN = TILE
    _times[(triton.cdiv(most, BM), leaves, triton.cdiv(k, WIDTH))](
        A,
        first,
        order,
        sizes,
        V.contiguous(),
        active.to(torch.int8),
        out,
        k,
        most,
        BM=BM,
        BN=BN,
        BK=WIDTH,
        num_warps=WARPS,
    )
    return out
