r"""Kernel values from differences of coordinates, many small matrices in one launch, in Triton.

The L1-Laplacian has no product form, and squared distances from products lose digits where rows are near; here a tile
adds up :math:`|u_j - v_j|` or :math:`(u_j - v_j)^2` column by column, in registers, and writes kernel values only. Rows
come with their columns first, so that loads of a column are contiguous.
"""

import torch
import triton
import triton.language as tl

#: Kernels that the tiles know.
KINDS = {"rbf": 0, "laplacian": 1, "matern32": 2, "laplacian_l1": 3}
#: Rows, columns and warps of a tile.
TILE = (64, 64, 4)


@triton.jit(do_not_specialize=["n_a", "n_b", "d"])
def _values(
    A, B, out, n_a, n_b, d, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(n_b, BN)
    tile, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = (tile // across) * BM + tl.arange(0, BM)
    columns = (tile % across) * BN + tl.arange(0, BN)
    in_a, in_b = rows < n_a, columns < n_b
    a, b = A + batch * d * n_a + rows, B + batch * d * n_b + columns
    total = tl.zeros((BM, BN), A.dtype.element_ty)
    for _ in range(d):
        difference = tl.load(a, mask=in_a, other=0.0)[:, None] - tl.load(b, mask=in_b, other=0.0)[None, :]
        if KIND == 3:
            total += tl.abs(difference)
        else:
            total += difference * difference
        a += n_a
        b += n_b
    if KIND == 1:
        p = tl.exp(-tl.sqrt(total))
    elif KIND == 2:
        r = tl.sqrt(total)
        p = (1.0 + r) * tl.exp(-r)
    else:
        p = tl.exp(-total)
    where = (batch * n_a + rows.to(tl.int64)[:, None]) * n_b + columns[None, :]
    tl.store(out + where, p, mask=in_a[:, None] & in_b[None, :])


def values(A: torch.Tensor, B: torch.Tensor, kind: str) -> torch.Tensor:
    """``κ`` of scaled rows ``[batch, column, row]``, as ``[batch, row of A, row of B]``."""
    (batches, d, n_a), n_b = A.shape, B.shape[2]
    out = torch.empty((batches, n_a, n_b), dtype=A.dtype, device=A.device)
    BM, BN, warps = TILE
    _values[(triton.cdiv(n_a, BM) * triton.cdiv(n_b, BN), batches)](
        A.contiguous(), B.contiguous(), out, n_a, n_b, d, KIND=KINDS[kind], BM=BM, BN=BN, num_warps=warps
    )
    return out
