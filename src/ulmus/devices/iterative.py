r"""The iterative route on the device: ``Kᵀ(Kv)`` block by block, the kernel never stored.

Where Triton has the kernel (:data:`~ulmus.devices.triton_kernels.KINDS`), rows are few-featured and their norms small
enough for half-precision pieces, products are fused; else each block of kernel values is made, used twice and dropped.
"""

from functools import partial
from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import map_on, whitened
from ulmus.devices.routes import iterative_bytes, largest
from ulmus.devices.statistics import gram_statistics, require_finite
from ulmus.devices.tensors import DeviceRows, block_rows
from ulmus.devices.triangles import BLOCK, TwoTriangles
from ulmus.features.kernels import CrossKernel
from ulmus.solvers.conjugate_gradients import REACH, Centred, Iterated, conjugate_gradients

#: Rows whose fused product is taken at once.
FUSED_ROWS = 2**22
#: Rows for every landmark in the sample of the preconditioner, and multiply-adds that it may take, at most.
SAMPLE, SAMPLE_WORK = 64, 2e14
#: Right-hand sides from which a float64 block is cheaper made once than fused once for each of them.
EXACT_SIDES = 3


def sampled_rows(n: int, L: int) -> int:
    """Rows from which the preconditioner is estimated; 0 where the landmarks themselves have to do for them.

    With m rows the preconditioned system has eigenvalues within (1 ± √(L/m))².
    """
    m = min(n, SAMPLE * L, int(SAMPLE_WORK / float(L) ** 2))
    return m if m >= min(n, 4 * L) else 0


class FusedKernel:
    """``κ(·, Z)`` as products without a matrix, in float32 tiles or in float64."""

    def __init__(self, accelerator: Accelerator, cross: CrossKernel) -> None:
        from ulmus.devices import triton_kernels as fused

        assert cross.kernel is not None
        self.fused, self.kind = fused, cross.kernel.name
        self.scale = fused.SCALES[self.kind](cross.parameters.gamma)
        self.torch, self.centre = accelerator.torch, accelerator.tensor(cross.centre)
        U = self.embedded(accelerator.tensor(cross.Z))
        self.narrow, self.exact = fused.Side(U, left=False), fused.ExactSide(U, left=False)
        self.fits = self.narrow.largest < fused.MOST_NORM

    def embedded(self, X: Any) -> Any:
        """Rows, centred and scaled."""
        if X.dtype == self.torch.float32:
            return (X - self.centre.float()) * self.scale
        return (X.double() - self.centre) * self.scale

    def side(self, X: Any, *, exact: bool) -> Any:
        U = self.embedded(X.double() if exact else X)
        return self.fused.ExactSide(U, left=True) if exact else self.fused.Side(U, left=True)

    def values(self, X: Any, bits: int = 0) -> Any:
        """``κ(X, Z)`` in float64, this many of its last bits rounded off."""
        return self.fused.exact_values(self.side(X, exact=True), self.exact, self.kind, bits)

    def times(self, side: Any, V: Any, *, exact: bool) -> Any:
        """``K V``."""
        if exact:
            return self.fused.exact_product(side, self.exact, V, self.kind)
        return self.fused.product(side, self.narrow, V, self.kind)

    def transposed(self, side: Any, U: Any, *, exact: bool) -> Any:
        """``Kᵀ U``."""
        if exact:
            return self.fused.exact_product(self.exact, side, U, self.kind)
        return self.fused.product(self.narrow, side, U, self.kind)


def fusable(accelerator: Accelerator, cross: CrossKernel) -> bool:
    """Whether Triton kernels know this kernel for rows of this many features, and run here."""
    if not accelerator.fuses or cross.kernel is None:
        return False
    from ulmus.devices import triton_kernels as fused

    return cross.kernel.name in fused.KINDS and cross.Z.shape[1] <= fused.MOST_FEATURES


def fused_gradient(accelerator: Accelerator, features: Any, rows: DeviceRows, weights: Any, intercept: Any) -> Any:
    """``[K 1]ᵀ W (T − Ka − b)`` in float64 without the kernel matrix; None where the tiles do not serve."""
    if not isinstance(features, CrossKernel) or not fusable(accelerator, features) or weights.shape[1] >= EXACT_SIDES:
        return None
    kernel = FusedKernel(accelerator, features)
    total = accelerator.tensor(accelerator.torch.zeros((features.n_features_out + 1, weights.shape[1])))
    for _, X, T, w in rows.blocks(FUSED_ROWS):
        side = kernel.side(X, exact=True)
        E = T - kernel.times(side, weights, exact=True) - intercept
        E = E if w is None else E * w[:, None]
        total[:-1] += kernel.transposed(side, E, exact=True)
        total[-1] += E.sum(0)
    return total


class DeviceNormal:
    """``H = K_xzᵀ W K_xz + K_zz/C`` (less the mean, with an intercept) as conjugate gradients take it.

    Products in float32 until they lose too many digits, residuals in float64.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        cross: CrossKernel,
        rows: DeviceRows,
        C: float,
        *,
        fit_intercept: bool = False,
        block: int = BLOCK,
    ) -> None:
        self.accelerator, self.rows, self.C, self.fit_intercept = accelerator, rows, C, fit_intercept
        self.torch, self.L = accelerator.torch, cross.n_features_out
        self.cross, self.Z = cross, accelerator.tensor(cross.Z)
        accelerator.require(
            iterative_bytes(self.L, rows.s),
            f"the iterative route with {self.L} landmarks",
            f"{largest(accelerator.free_bytes())} landmarks would fit",
        )
        self.wide = map_on(accelerator, cross)
        self.slim = map_on(accelerator, cross, self.torch.float32)
        self.fused = self._fused()
        self.exactly = False
        self.reach = REACH[np.dtype(np.float32)]
        self.weight = rows.rows.total_weight
        roomy = accelerator.free_bytes() > iterative_bytes(self.L, rows.s) + 5 * 8 * self.L**2
        m = sampled_rows(len(rows), self.L) if roomy else 0
        moments = partial(self._sampled, m) if m else None
        self._mean: Any = None
        self.triangles = TwoTriangles(self.torch, self._landmark_kernel, self.weight / self.L, C, block, moments)
        self.precondition: Any = self.triangles.solve
        if fit_intercept:
            if self._mean is None:
                self._mean = self._landmarks(accelerator.tensor(np.full((self.L, 1), 1.0 / self.L)), exact=True)
            self.precondition = Centred(self.triangles.solve, self._mean, self.weight)
        sums = self._sums()
        self.kernel_mean, self.target_mean = sums[:-1, -1] / self.weight, sums[-1, :-1] / self.weight
        self._b = sums[:-1, :-1]
        if fit_intercept:
            self._b = self._b - self.weight * self.torch.outer(self.kernel_mean, self.target_mean)

    def _fused(self) -> FusedKernel | None:
        if not fusable(self.accelerator, self.cross):
            return None
        fused = FusedKernel(self.accelerator, self.cross)
        if not fused.fits:
            return None
        for _, X, _, _ in self.rows.blocks(FUSED_ROWS):
            if float((fused.embedded(X) ** 2).sum(1).max()) >= fused.fused.MOST_NORM:
                return None
        return fused

    def _sampled(self, m: int, R: Any) -> Any:
        """``R⁻¹ K_xzᵀWK_xz R⁻ᵀ`` from m random rows, every block whitened first; keeps the mean of ``k_xz``."""
        index = np.sort(np.random.RandomState(0).randint(0, len(self.rows), m)) if m < len(self.rows) else slice(None)
        sample = DeviceRows(self.accelerator, self.rows.rows.take(index))
        stats = gram_statistics(whitened(self.accelerator, self.wide, R), self.L, sample)
        self._mean = R.tril() @ stats.feature_mean[:, None]
        return stats.gram * (self.weight / stats.weight)

    def _landmark_kernel(self) -> Any:
        K = self.torch.empty((self.L, self.L), dtype=self.torch.float64, device=self.accelerator.device)
        rows = block_rows(self.L)
        for start in range(0, self.L, rows):
            K[start : start + rows] = self.wide(self.Z[start : start + rows])
        K.diagonal().copy_(self.accelerator.tensor(self.cross.diagonal(self.cross.Z)))
        return K

    def _landmarks(self, V: Any, *, exact: bool) -> Any:
        """``K_zz V``."""
        if self.fused is not None and (not exact or V.shape[1] < EXACT_SIDES):
            return self.fused.times(self.fused.side(self.Z, exact=exact), V, exact=exact)
        rows = block_rows(self.L)
        parts = []
        for start in range(0, self.L, rows):
            K = (self.wide if exact else self.slim)(self.Z[start : start + rows])
            parts.append((K @ V.to(K.dtype)).double())
        return self.torch.cat(parts)

    def _sums(self) -> Any:
        """``[K 1]ᵀ W [T 1]`` in float64."""
        torch = self.torch
        total = self.accelerator.tensor(torch.zeros((self.L + 1, self.rows.s + 1)))

        def weighted(T: Any, w: Any) -> Any:
            beside = torch.cat([T, torch.ones_like(T[:, :1])], dim=1)
            return beside if w is None else beside * w[:, None]

        needed = self.rows.s + self.fit_intercept  # the sum of the kernel values is wanted for an intercept only
        if self.fused is not None and needed < EXACT_SIDES:
            for _, X, T, w in self.rows.blocks(FUSED_ROWS):
                E = weighted(T, w)
                columns = E if self.fit_intercept else E[:, :-1]
                total[:-1, : columns.shape[1]] += self.fused.transposed(
                    self.fused.side(X, exact=True), columns, exact=True
                )
                total[-1] += E.sum(0)
        else:
            for _, X, T, w in self.rows.blocks(block_rows(self.L)):
                E = weighted(T, w)
                total[:-1] += self.wide(X).T @ E
                total[-1] += E.sum(0)
        require_finite(torch, total)
        return total

    def right_hand_side(self) -> Any:
        return self._b

    def _product(self, P: Any, *, exact: bool) -> Any:
        total = self.torch.zeros_like(P)
        fused = self.fused if not exact or P.shape[1] < EXACT_SIDES else None
        for _, X, _, w in self.rows.blocks(FUSED_ROWS if fused is not None else block_rows(self.L)):
            if fused is not None:
                side = fused.side(X, exact=exact)
                U = fused.times(side, P, exact=exact)
                total += fused.transposed(side, U if w is None else U * w[:, None], exact=exact)
            else:
                K = (self.wide if exact else self.slim)(X)
                U = K @ P.to(K.dtype)
                total += (K.T @ (U if w is None else U * w[:, None].to(K.dtype))).double()
        if self.fit_intercept:
            total -= self.weight * self.torch.outer(self.kernel_mean, self.kernel_mean @ P)
        return total + self._landmarks(P, exact=exact) / self.C

    def product(self, P: Any) -> Any:
        return self._product(P, exact=self.exactly)

    def residual(self, A: Any) -> Any:
        return self._b - self._product(A, exact=True)

    def widen(self) -> bool:
        narrow, self.exactly = not self.exactly, True
        self.reach = REACH[np.dtype(np.float64)]
        return narrow

    def inner(self, U: Any, V: Any) -> np.ndarray:
        return self.accelerator.numpy((U * V).sum(0))

    def columns(self, values: np.ndarray) -> Any:
        return self.accelerator.tensor(values)

    def solve(self, tolerance: float, max_iter: int, verbose: bool = False) -> tuple[Iterated, np.ndarray]:
        """The weights on kernel values (a NumPy array) with their record, and the intercept."""
        found = conjugate_gradients(self, tolerance=tolerance, max_iter=max_iter, verbose=verbose)
        intercept = np.zeros(self.rows.s)
        if self.fit_intercept:
            intercept = self.accelerator.numpy(self.target_mean - self.kernel_mean @ found.a)
        a = self.accelerator.numpy(found.a)
        return Iterated(a, found.n_iter, found.residual, found.converged, found.history), intercept

    def leverages(self, X: np.ndarray) -> np.ndarray:
        K = self.wide(self.accelerator.tensor(X))
        if self.fit_intercept:
            K = K - self.kernel_mean
        h = self.accelerator.numpy((self.triangles.half(K.T) ** 2).sum(0))
        return h + (1.0 / self.weight if self.fit_intercept else 0.0)
