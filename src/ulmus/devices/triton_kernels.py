r"""Kernel products that never store a kernel matrix: ``κ(A, B) V`` tile by tile, in Triton.

A tile of exponents is one matrix product on the tensor cores. Rows are split in two halves of 11 bits,
:math:`u = u_h + u_l`, and :math:`2u\cdot v \approx u_h v_h + u_h v_l + u_l v_h`, which keeps 22 bits (float32 has 24).
Spare columns carry the squared norms in three parts each, so that the product is :math:`-\|u - v\|^2` as it comes.
Exponentials go to the special-function units, whose 16 values per multiprocessor and
clock are the limit of the whole. ``Kᵀu`` is the same product with the sides exchanged.

One right-hand side is multiplied in float32 as the tile stands; several (up to 16 at a time) go through the tensor
cores, in halves again. Sums over the columns of a tile are added up in float64. For verified residuals there is the
same product in float64 throughout.

With ``TRITON_INTERPRET=1`` the same code works on CPU tensors.
"""

from typing import Any

import torch
import triton
import triton.language as tl

#: Kernels that the tiles know.
KINDS = {"rbf": 0, "laplacian": 1, "matern32": 2}
#: Right-hand sides that go through the tensor cores at once.
WIDTH = 16
#: Features of rows, at most: beyond, products of rows cost more than exponentials and nothing is gained.
MOST_FEATURES = 128
#: Squared norms, at most: a half-precision number ends at 65,504.
MOST_NORM = 3e4
#: Programs among which the columns are shared when there are few rows.
PROGRAMS = 16_384
#: Sides are padded by as many zero rows, so that tiles need no masks.
PAD = 128
#: Columns of the norms of rows that leave no four of their own to spare.
EXTRA = 16
#: (rows, columns, warps, stages) of a tile: one right-hand side, the same with extra columns, several, float64.
TILES = {"one": (64, 128, 4, 2), "extra": (128, 64, 4, 3), "many": (64, 64, 4, 2), "exact": (64, 64, 4, 2)}

LOG2E = 1.4426950408889634
#: What a kernel makes of gamma: the factor on the rows that turns squared distances into its argument.
SCALES = {
    "rbf": lambda gamma: (gamma * LOG2E) ** 0.5,
    "laplacian": lambda gamma: gamma * LOG2E,
    "matern32": lambda gamma: 3**0.5 * gamma,
}


@triton.jit
def _values(e, KIND: tl.constexpr):
    """Kernel values from ``−‖u − v‖²``, scaled so that powers of two serve for those of e."""
    if KIND == 0:
        p = tl.exp2(e)
    elif KIND == 1:
        p = tl.exp2(-tl.sqrt(tl.maximum(-e, 0.0)))
    else:
        r = tl.sqrt(tl.maximum(-e, 0.0))
        p = (1.0 + r) * tl.exp2(r * -1.4426950408889634)
    return p


@triton.jit
def _product(
    A, B, V, out, n_a, n_b, share,
    D: tl.constexpr, EXTRA: tl.constexpr, SIDES: tl.constexpr, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """``out[part, row(, side)] = Σ κ(a, b) v`` over one part of the columns."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    part = tl.program_id(1)
    inside = rows < n_a
    k = tl.arange(0, D)
    r = tl.arange(0, 16)
    a = A + rows.to(tl.int64)[:, None] * (2 * D + EXTRA)
    a_hi = tl.load(a + k[None, :], mask=inside[:, None], other=0.0)
    a_lo = tl.load(a + D + k[None, :], mask=inside[:, None], other=0.0)
    if EXTRA:
        a_norm = tl.load(a + 2 * D + r[None, :], mask=inside[:, None], other=0.0)
    first = part * share
    last = tl.minimum(first + share, n_b)
    if SIDES == 1:
        total = tl.zeros((BM,), tl.float64)
    else:
        total = tl.zeros((BM, 16), tl.float64)
    for start in range(first, last, BN):
        columns = start + tl.arange(0, BN)
        b = B + columns.to(tl.int64)[None, :] * (2 * D + EXTRA)
        b_hi = tl.load(b + k[:, None])
        b_lo = tl.load(b + D + k[:, None])
        e = tl.dot(a_lo, b_hi)
        e = tl.dot(a_hi, b_lo, e)
        if EXTRA:
            e = tl.dot(a_norm, tl.load(b + 2 * D + r[:, None]), e)
        e = tl.dot(a_hi, b_hi, e)
        p = _values(e, KIND)
        if SIDES == 1:
            v = tl.load(V + columns)
            total += tl.sum(p * v[None, :], axis=1).to(tl.float64)
        else:
            v = V + columns.to(tl.int64)[:, None] * 32 + r[None, :]
            v_hi = tl.load(v)
            v_lo = tl.load(v + 16)
            p_hi = p.to(tl.float16)
            p_lo = (p - p_hi.to(tl.float32)).to(tl.float16)
            s = tl.dot(p_lo, v_hi)
            s = tl.dot(p_hi, v_lo, s)
            s = tl.dot(p_hi, v_hi, s)
            total += s.to(tl.float64)
    if SIDES == 1:
        tl.store(out + part.to(tl.int64) * n_a + rows, total, mask=inside)
    else:
        where = (part.to(tl.int64) * n_a + rows)[:, None] * 16 + r[None, :]
        tl.store(out + where, total, mask=inside[:, None])


@triton.jit
def _exact_product(
    A, B, V, out, n_a, n_b, share, D: tl.constexpr, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The same in float64, for one right-hand side; the norms are in the columns of the rows."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    part = tl.program_id(1)
    inside = rows < n_a
    k = tl.arange(0, D)
    a = tl.load(A + rows.to(tl.int64)[:, None] * D + k[None, :], mask=inside[:, None], other=0.0)
    first = part * share
    last = tl.minimum(first + share, n_b)
    total = tl.zeros((BM,), tl.float64)
    for start in range(first, last, BN):
        columns = start + tl.arange(0, BN)
        b = tl.load(B + columns.to(tl.int64)[None, :] * D + k[:, None])
        e = tl.dot(a, b, out_dtype=tl.float64)
        v = tl.load(V + columns)
        total += tl.sum(_values(e, KIND) * v[None, :], axis=1)
    tl.store(out + part.to(tl.int64) * n_a + rows, total, mask=inside)


@triton.jit
def _exact_values(
    A, B, out, n_a, n_b, D: tl.constexpr, KIND: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The kernel values themselves, in float64."""
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, D)
    a = tl.load(A + rows.to(tl.int64)[:, None] * D + k[None, :])
    b = tl.load(B + columns.to(tl.int64)[None, :] * D + k[:, None])
    p = _values(tl.dot(a, b, out_dtype=tl.float64), KIND)
    if BITS:
        p = ((p.to(tl.int64, bitcast=True) + (1 << (BITS - 1))) >> BITS << BITS).to(tl.float64, bitcast=True)
    inside = (rows < n_a)[:, None] & (columns < n_b)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * n_b + columns[None, :], p, mask=inside)


def _width(d: int) -> int:
    return max(16, 1 << (d - 1).bit_length())


def _thirds(norms: torch.Tensor) -> list[torch.Tensor]:
    """A number as a sum of three of half precision."""
    parts, rest = [], norms
    for _ in range(3):
        part = rest.to(torch.float16)
        parts.append(part)
        rest = rest - part.to(norms.dtype)
    return parts


class Side:
    """Rows ``u`` (scaled, centred) of one side of a product: ``left`` is that which carries the factor 2.

    Which side stands in rows and which in columns of the product is another matter: both do, in turns.
    """

    def __init__(self, U: torch.Tensor, *, left: bool) -> None:
        n, d = U.shape
        self.n, self.D = n, _width(d)
        self.extra = 0 if d + 4 <= self.D else EXTRA
        W = 2 * U if left else U
        self.rows = torch.zeros((n + PAD, 2 * self.D + self.extra), dtype=torch.float16, device=U.device)
        hi, lo = self.rows[:n, : self.D], self.rows[:n, self.D : 2 * self.D]
        hi[:, :d] = W
        lo[:, :d] = W - hi[:, :d].to(W.dtype)
        self.largest = float((norms := (U.double() ** 2).sum(1)).max())
        # −‖u‖² − ‖v‖² as products: what one side has of its norm, the other meets with −1 (the left) or 1
        n1, n2, n3 = (part if left else -part for part in _thirds(norms))
        one = 1.0 if left else -1.0
        if self.extra:
            extra = self.rows[:n, 2 * self.D :]
            mine, other = (0, 3) if left else (3, 0)
            extra[:, mine], extra[:, mine + 1], extra[:, mine + 2] = n1, n2, n3
            extra[:, other : other + 3] = one
        else:
            mine, other = (d, d + 2) if left else (d + 2, d)
            hi[:, mine], hi[:, mine + 1], lo[:, mine] = n1, n2, n3
            hi[:, other : other + 2] = one

    def __len__(self) -> int:
        return self.n


class ExactSide:
    """Rows of one side in float64, their norms in two columns more."""

    def __init__(self, U: torch.Tensor, *, left: bool) -> None:
        n, d = U.shape
        self.n = n
        self.rows = torch.zeros((n + PAD, _width(d + 2)), dtype=torch.float64, device=U.device)
        U = U.double()
        norms = -(U * U).sum(1)
        self.rows[:n, :d] = 2 * U if left else U
        self.rows[:n, d], self.rows[:n, d + 1] = (norms, 1.0) if left else (1.0, norms)

    def __len__(self) -> int:
        return self.n


def _division(n_a: int, n_b: int, BM: int, BN: int) -> tuple[int, int, int]:
    """Blocks of rows, parts of the columns, and columns in a part."""
    blocks = triton.cdiv(n_a, BM)
    parts = max(1, min(triton.cdiv(n_b, 8 * BN), PROGRAMS // blocks))
    share = triton.cdiv(triton.cdiv(n_b, parts), BN) * BN
    return blocks, triton.cdiv(n_b, share), share


def _padded(V: torch.Tensor, dtype: Any) -> torch.Tensor:
    out = torch.zeros((len(V) + PAD, *V.shape[1:]), dtype=dtype, device=V.device)
    out[: len(V)] = V
    return out


def product(rows: Side, columns: Side, V: torch.Tensor, kind: str) -> torch.Tensor:
    """``κ(rows, columns) V`` in float64 from tiles in float32; one side is left, the other is not."""
    n_a, n_b = len(rows), len(columns)
    out = torch.empty((n_a, V.shape[1]), dtype=torch.float64, device=V.device)
    for first in range(0, V.shape[1], WIDTH):
        some = V[:, first : first + WIDTH]
        s = some.shape[1]
        BM, BN, warps, stages = TILES["many" if s > 1 else "extra" if rows.extra else "one"]
        blocks, parts, share = _division(n_a, n_b, BM, BN)
        sides = WIDTH if s > 1 else 1
        unit = torch.ones(s, dtype=torch.float64, device=V.device)
        if s > 1:
            # a power of two brings the largest weight to about 1: halves neither overflow nor vanish
            unit = torch.exp2(torch.ceil(torch.log2(some.abs().amax(0).double().clamp(min=1e-300))))
            scaled = some / unit
            given = torch.zeros((n_b + PAD, 2, WIDTH), dtype=torch.float16, device=V.device)
            given[:n_b, 0, :s] = scaled
            given[:n_b, 1, :s] = scaled - given[:n_b, 0, :s].to(scaled.dtype)
        else:
            given = _padded(some[:, 0], torch.float32)
        sums = torch.empty((parts, n_a, sides), dtype=torch.float64, device=V.device)
        _product[(blocks, parts)](
            rows.rows, columns.rows, given, sums, n_a, n_b, share,
            D=rows.D, EXTRA=rows.extra, SIDES=sides, KIND=KINDS[kind], BM=BM, BN=BN,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
        out[:, first : first + WIDTH] = sums.sum(0)[:, :s] * unit
    return out


def exact_values(rows: ExactSide, columns: ExactSide, kind: str, bits: int = 0) -> torch.Tensor:
    """``κ(rows, columns)`` in float64, this many of its last bits rounded off."""
    n_a, n_b = len(rows), len(columns)
    out = torch.empty((n_a, n_b), dtype=torch.float64, device=rows.rows.device)
    BM, BN, warps, stages = TILES["exact"]
    _exact_values[(triton.cdiv(n_b, BN), triton.cdiv(n_a, BM))](
        rows.rows, columns.rows, out, n_a, n_b, D=rows.rows.shape[1], KIND=KINDS[kind],
        BITS=bits, BM=BM, BN=BN, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def exact_product(rows: ExactSide, columns: ExactSide, V: torch.Tensor, kind: str) -> torch.Tensor:
    """``κ(rows, columns) V``, in float64 throughout."""
    n_a, n_b = len(rows), len(columns)
    out = torch.empty((n_a, V.shape[1]), dtype=torch.float64, device=V.device)
    BM, BN, warps, stages = TILES["exact"]
    blocks, parts, share = _division(n_a, n_b, BM, BN)
    for j in range(V.shape[1]):
        sums = torch.empty((parts, n_a), dtype=torch.float64, device=V.device)
        _exact_product[(blocks, parts)](
            rows.rows, columns.rows, _padded(V[:, j], torch.float64), sums, n_a, n_b, share,
            D=rows.rows.shape[1], KIND=KINDS[kind], BM=BM, BN=BN, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        out[:, j] = sums.sum(0)
    return out
