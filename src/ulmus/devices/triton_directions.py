r"""Conjugate gradients of the log loss in many leaves at once, in Triton (:mod:`ulmus.devices.newton_directions`).

A leaf is one program. Its vectors ``[row, column]`` are read once for the inner product that the length of the step
needs, and once more to take it; whether a leaf goes on is decided here, so that nobody waits for the host.
"""

import torch
import triton
import triton.language as tl

from ulmus.devices.newton_directions import NewtonDirections

#: Rows of a leaf at a time, and warps.
ROWS, WARPS = 64, 8


@triton.jit
def _hessian(P, w, ridge, p, image, at, rows, inside, both, ONE: tl.constexpr):
    """``W D(image) + λp`` of some rows, and the image and p that it is of."""
    q = tl.load(P + at, mask=both, other=0.0)
    u = tl.load(image + at, mask=both, other=0.0)
    v = tl.load(p + at, mask=both, other=0.0)
    weight = tl.load(w + rows, mask=inside, other=0.0)[:, None]
    if ONE:
        bent = q * (1.0 - q) * u
    else:
        bent = q * (u - tl.sum(q * u, 1)[:, None])
    return weight * bent + ridge * v, u, v


@triton.jit(do_not_specialize=["k", "most"])
def _advance(
    P, w, wd, ridge, p, image, d, shift, r, v, size, active, sizes, k, most,
    ONE: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """``d += a p``, ``shift += a Kp``, ``r -= a Hp`` with ``a = size / pᵀKHp``; and ``v = (WD)⁻¹r``."""
    leaf = tl.program_id(0).to(tl.int64)
    which = tl.arange(0, BK)
    n = tl.load(sizes + leaf).to(tl.int32)
    lam = tl.load(ridge)
    if tl.load(active + leaf) != 0:
        total = tl.zeros((BR, BK), tl.float64)
        for start in range(0, n, BR):
            rows = start + tl.arange(0, BR)
            both = (rows < n)[:, None] & (which < k)[None, :]
            at = (leaf * most + rows)[:, None] * k + which[None, :]
            Hp, u, _ = _hessian(P, w, lam, p, image, at, leaf * most + rows, rows < n, both, ONE)
            total += Hp * u
        bend = tl.sum(total)
        goes = bend > 0.0
        a = tl.where(goes, tl.load(size + leaf) / tl.where(goes, bend, 1.0), 0.0)
        tl.store(active + leaf, goes.to(tl.int8))
        for start in range(0, n, BR):
            rows = start + tl.arange(0, BR)
            both = (rows < n)[:, None] & (which < k)[None, :]
            at = (leaf * most + rows)[:, None] * k + which[None, :]
            Hp, u, step = _hessian(P, w, lam, p, image, at, leaf * most + rows, rows < n, both, ONE)
            tl.store(d + at, tl.load(d + at, mask=both, other=0.0) + a * step, mask=both)
            tl.store(shift + at, tl.load(shift + at, mask=both, other=0.0) + a * u, mask=both)
            rest = tl.load(r + at, mask=both, other=0.0) - a * Hp
            tl.store(r + at, rest, mask=both)
            tl.store(v + at, rest / tl.load(wd + leaf * most + rows, mask=rows < n, other=1.0)[:, None], mask=both)


@triton.jit(do_not_specialize=["k", "most"])
def _turn(
    wd, ridge, p, image, r, q, size, enough, active, sizes, k, most, BR: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """``p = q + c p`` and its image, ``Kq = (WD)⁻¹(r − λq)``, with ``c`` the ratio of the last two ``rᵀKq``."""
    leaf = tl.program_id(0).to(tl.int64)
    which = tl.arange(0, BK)
    n = tl.load(sizes + leaf).to(tl.int32)
    lam = tl.load(ridge)
    if tl.load(active + leaf) != 0:
        total = tl.zeros((BR, BK), tl.float64)
        for start in range(0, n, BR):
            rows = start + tl.arange(0, BR)
            both = (rows < n)[:, None] & (which < k)[None, :]
            at = (leaf * most + rows)[:, None] * k + which[None, :]
            rest = tl.load(r + at, mask=both, other=0.0)
            over = tl.load(wd + leaf * most + rows, mask=rows < n, other=1.0)[:, None]
            total += rest * (rest - lam * tl.load(q + at, mask=both, other=0.0)) / over
        new = tl.sum(total)
        goes = new > tl.load(enough + leaf)
        c = tl.where(goes, new / tl.load(size + leaf), 0.0)
        tl.store(active + leaf, goes.to(tl.int8))
        tl.store(size + leaf, tl.where(goes, new, tl.load(size + leaf)))
        for start in range(0, n, BR):
            rows = start + tl.arange(0, BR)
            both = (rows < n)[:, None] & (which < k)[None, :]
            at = (leaf * most + rows)[:, None] * k + which[None, :]
            over = tl.load(wd + leaf * most + rows, mask=rows < n, other=1.0)[:, None]
            step = tl.load(q + at, mask=both, other=0.0)
            Kq = (tl.load(r + at, mask=both, other=0.0) - lam * step) / over
            tl.store(p + at, step + c * tl.load(p + at, mask=both, other=0.0), mask=both)
            tl.store(image + at, Kq + c * tl.load(image + at, mask=both, other=0.0), mask=both)


class FusedDirections(NewtonDirections):
    """The same by two kernels, on contiguous vectors."""

    sizes: torch.Tensor
    v: torch.Tensor

    @classmethod
    def of(cls, state: NewtonDirections, sizes: torch.Tensor) -> "FusedDirections":
        """One that has just begun; leaves have this many rows."""
        vectors = (state.P, state.w, state.wd, state.r, state.p, state.image)
        P, w, wd, r, p, image = (a.contiguous() for a in vectors)
        lam = torch.full((1,), state.ridge, dtype=torch.float64, device=r.device)  # a number would be single
        found: FusedDirections = object.__new__(cls)
        found.__dict__.update(state.__dict__)
        found.__dict__.update(P=P, w=w, wd=wd, r=r, p=p, image=image, ridge=lam, sizes=sizes)
        found.active, found.v = state.active.to(torch.int8), torch.zeros_like(r)
        return found

    @property
    def _shape(self) -> dict[str, int]:
        _, most, k = self.r.shape
        return {"k": k, "most": most, "BR": ROWS, "BK": triton.next_power_of_2(k), "num_warps": WARPS}

    def advance(self) -> torch.Tensor:
        given = (self.P, self.w, self.wd, self.ridge, self.p, self.image, self.d, self.shift, self.r, self.v)
        _advance[(len(self.r),)](*given, self.size, self.active, self.sizes, ONE=self.r.shape[2] == 1, **self._shape)
        return self.v

    def turn(self, q: torch.Tensor) -> None:
        given = (self.wd, self.ridge, self.p, self.image, self.r, q, self.size, self.enough, self.active, self.sizes)
        _turn[(len(self.r),)](*given, **self._shape)
