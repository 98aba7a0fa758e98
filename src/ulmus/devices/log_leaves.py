r"""The local stage in the log loss on the device: Newton's method in hundreds of leaves at a time.

What :mod:`ulmus.solvers.local` does leaf by leaf: a factor of :math:`K + \lambda(WD)^{-1}`, D the curvature at
the offsets, and conjugate gradients in its metric. All leaves of a batch take their steps together, by inverses instead
of factors; those that have arrived stand still and are put aside, and inverses are made anew where directions take
long. What the leaves of one partition say of a row, those of the next nearly say too: there D is the curvature at these
scores, and Newton's method begins at the ridge regression to them.
"""

from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.differences import scale_of
from ulmus.devices.inverses import Inverses
from ulmus.devices.leaf_batches import leaf_batches, scaled_columns
from ulmus.devices.leaves import lower_factors
from ulmus.devices.log_loss import curvature, losses, proportions
from ulmus.devices.newton_directions import NewtonDirections, pair
from ulmus.solvers.descent import ENOUGH, FINE, MAX_INNER, ROUGH, SMALL
from ulmus.solvers.local import LeafProblem, leaf_kernel
from ulmus.solvers.log_kernel import FLOOR, JITTER, bound, fit_kernel_softmax

#: Steps of a batch; leaves that need more are solved on the CPU.
MAX_STEPS = 40
#: Products of a direction beyond which a new factor is worth its time.
RENEWED = 25
#: Halvings of a step, and the share of the slope by which the objective must fall.
HALVINGS, FALL = 20, 1e-4


def fit_log_leaves(accelerator: Accelerator, problem: LeafProblem, tol: float) -> list[np.ndarray]:
    """Weights of every row, in the order of each partition; ``T`` are ±1 codes, all are on the device."""
    kernel, gamma, ridge, U = problem.kernel, problem.gamma, problem.ridge, problem.U
    T, offset, weight, partitions = problem.T, problem.offset, problem.weight, problem.partitions
    torch, scale, alphas = accelerator.torch, scale_of(kernel, gamma), list[np.ndarray]()
    Y = 0.5 * (1.0 + T)
    weight = torch.ones_like(Y[:, 0]) if weight is None else weight
    said = torch.zeros_like(Y)
    for number, partition in enumerate(partitions):
        near = offset + said / number if number else None
        order, alpha = accelerator.tensor(partition.order, torch.int64), torch.empty_like(T)
        unfinished = list[int]()
        for some, batch in leaf_batches(accelerator, partition, np.arange(partition.n_leaves), alike=0.0):
            rows, inside = order[batch.place], batch.inside
            X, w = scaled_columns(torch, U[rows], inside, scale), torch.where(inside, weight[rows], 0.0)
            sizes = np.diff(partition.starts)[some]
            begin = None if near is None else near[rows]
            found, image, arrived = log_minimum(
                accelerator, kernel, X, Y[rows], offset[rows], w, sizes, ridge, tol, begin
            )
            alpha[batch.place[inside]] = found[inside]
            said[rows[inside]] += image[inside]
            unfinished += some[~np.asarray(accelerator.numpy(arrived))].tolist()
        out = np.asarray(accelerator.numpy(alpha))
        for leaf in unfinished:
            rows = accelerator.tensor(partition.rows(leaf), torch.int64)
            K = leaf_kernel(kernel, gamma, np.asarray(accelerator.numpy(U[rows])))
            T_leaf, O_leaf, w_leaf = (np.asarray(accelerator.numpy(a[rows])) for a in (T, offset, weight))
            found = fit_kernel_softmax(K, T_leaf, 1.0 / ridge, weight=w_leaf, offset=O_leaf, tol=tol)
            out[partition.starts[leaf] : partition.starts[leaf + 1]] = found.alpha
        alphas.append(out)
    return alphas


def log_minimum(
    accelerator: Accelerator,
    kernel: str,
    X: Any,
    Y: Any,
    offset: Any,
    w: Any,
    sizes: np.ndarray,
    ridge: float,
    tol: float,
    near: Any = None,
) -> tuple[Any, Any, Any]:
    """Weights ``[leaf, row, column]`` of leaves of these sizes with scaled rows ``X``, what they say of these rows, and
    which leaves have arrived.

    Newton's method begins at no weights, or at scores that are ``near``. Leaves that have arrived are put aside where
    they are half of all, and before inverses are made anew.
    """
    torch = accelerator.torch
    order = np.argsort(-sizes, kind="stable")
    live = accelerator.tensor(order, torch.int64)
    out, said = torch.zeros_like(Y), torch.zeros_like(Y)
    batch = _Batch(accelerator, kernel, X[live], Y[live], offset[live], w[live], sizes[order], ridge)
    if near is not None:
        batch.begin(near[live])
    for _ in range(MAX_STEPS):
        batch.step(tol)
        if int(batch.arrived.sum()) >= (1 if batch.outdated else len(live) / 2):
            out[live], said[live] = batch.alpha, batch.image
            left = (~batch.arrived).nonzero()[:, 0]
            live = live[left]
            if not len(live):
                break
            batch = batch.some(left)
    if len(live):
        out[live], said[live] = batch.alpha, batch.image
    arrived = torch.ones(len(Y), dtype=torch.bool, device=Y.device)
    arrived[live] = False
    return out, said, arrived


class _Batch:
    """The objectives of some leaves, ``Σ w ℓ(O + Kα) + λ αᵀKα / 2``; vectors carry their images ``Kα`` along."""

    def __init__(
        self,
        accelerator: Accelerator,
        kernel: str,
        X: Any,
        Y: Any,
        offset: Any,
        w: Any,
        sizes: np.ndarray,
        ridge: float,
    ) -> None:
        self.accelerator, self.torch, self.kernel, self.X = accelerator, accelerator.torch, kernel, X
        self.Y, self.offset, self.w, self.sizes, self.ridge = Y, offset, w, sizes, ridge
        self.alpha = self.image = self.torch.zeros_like(Y)
        self.first = self.value = self._value(self.alpha, self.image)
        self.ratio = self.torch.ones_like(self.value)
        self.arrived = self.torch.zeros_like(self.value, dtype=self.torch.bool)
        self.wd = w
        self._inverses: Inverses | None = None

    @property
    def outdated(self) -> bool:
        """Whether the next step makes inverses."""
        return self._inverses is None

    def some(self, leaves: Any) -> "_Batch":
        """Some of the leaves, where they stand."""
        which = np.asarray(self.accelerator.numpy(leaves))
        X, Y, offset, w = (a[leaves] for a in (self.X, self.Y, self.offset, self.w))
        other = _Batch(self.accelerator, self.kernel, X, Y, offset, w, self.sizes[which], self.ridge)
        for name in ("alpha", "image", "first", "value", "arrived", "ratio", "wd"):
            setattr(other, name, getattr(self, name)[leaves])
        other._inverses = None if self._inverses is None else self._inverses.some(which)
        return other

    def begin(self, near: Any) -> None:
        """Begin at the ridge regression to these scores, weighted by the curvature there, where that is lower."""
        self._metric(near)
        assert self._inverses is not None
        wanted, penalty = near - self.offset, (self.ridge / self.wd + JITTER)[:, :, None]
        wanted = self.torch.where(self.w[:, :, None] > 0, wanted, 0.0)
        alpha = self._inverses.times(wanted, ~self.arrived)
        image = wanted - penalty * alpha
        value = self._value(alpha, image)
        lower = value < self.value
        self.alpha, self.image = (self.torch.where(lower[:, None, None], a, 0.0) for a in (alpha, image))
        self.value = self.torch.where(lower, value, self.value)

    def _metric(self, F: Any) -> None:
        """The inverse of ``K + λ(WD)⁻¹``, D the curvature at these scores."""
        torch, most = self.torch, bound(self.Y.shape[2])
        d = curvature(proportions(torch, F)).clamp(FLOOR * most, most)
        self.wd = torch.where(self.w > 0, self.w * d, 1.0)
        penalty = self.ridge / self.wd + JITTER

        def factors(some: slice, n: int) -> Any:
            return lower_factors(self.accelerator, self.kernel, self.X[some, :, :n].contiguous(), penalty[some, :n])

        self._inverses = Inverses(self.accelerator, self.sizes, factors)
        self.ratio = torch.ones_like(self.value)

    def _value(self, alpha: Any, image: Any) -> Any:
        loss = (self.w * losses(self.torch, self.Y, self.offset + image)).sum(1)
        return loss + 0.5 * self.ridge * pair(alpha, image)

    def _direction(self, z: Any, active: Any) -> tuple[Any, Any]:
        """``M⁻¹`` of a gradient, and its image ``(WD)⁻¹(z − λδ)``."""
        wd = self.wd[:, :, None]
        assert self._inverses is not None
        delta = self._inverses.times(z / wd, active)
        return delta, (z - self.ridge * delta) / wd

    def step(self, tol: float) -> None:
        """One step of Newton's method; leaves that have arrived stand still."""
        torch, alpha, image, value = self.torch, self.alpha, self.image, self.value
        if self._inverses is None:
            self._metric(self.offset + image)
        P = proportions(torch, self.offset + image)
        z = self.w[:, :, None] * (P - self.Y) + self.ridge * alpha
        Mz, KMz = self._direction(z, ~self.arrived)
        by_metric = 0.5 * pair(z, KMz)
        left = tol * torch.maximum(value, SMALL * self.first)
        self.arrived = self.arrived | (self.ratio * by_metric <= left)
        gap = (self.ratio * by_metric).clamp(min=1e-300)
        eta = torch.maximum((gap * tol / left).sqrt(), (left / (ENOUGH * gap)).sqrt()).clamp(FINE, ROUGH)
        d, shift, inner = self._newton(P, z, Mz, KMz, eta)
        slope = pair(z, shift)
        self.ratio = torch.maximum(self.ratio, -0.5 * slope / by_metric.clamp(min=1e-300))
        t = torch.where(self.arrived, 0.0, torch.ones_like(value))
        for _ in range(HALVINGS):
            end = self._value(alpha + t[:, None, None] * d, image + t[:, None, None] * shift)
            far = end > value + FALL * t * slope + 64 * np.finfo(float).eps * value
            if not bool(far.any()):
                break
            t = torch.where(far, t / 2, t)
        self.alpha, self.image, self.value = alpha + t[:, None, None] * d, image + t[:, None, None] * shift, end
        if inner > RENEWED:
            self._inverses = None

    def _newton(self, P: Any, z: Any, Mz: Any, KMz: Any, eta: Any) -> tuple[Any, Any, int]:
        """Newton's direction and its image, by conjugate gradients, and how many products it took."""
        inverses, count = self._inverses, 0
        assert inverses is not None
        state = NewtonDirections(self.torch, P, self.w, self.wd, self.ridge, -z, -Mz, -KMz, eta**2, ~self.arrived)
        if inverses.fused:
            from ulmus.devices.triton_directions import FusedDirections

            state = FusedDirections.of(state, inverses.sizes)
        while count < MAX_INNER and bool(state.active.any()):
            state.turn(inverses.times(state.advance(), state.active))
            count += 1
        return state.d, state.shift, count
