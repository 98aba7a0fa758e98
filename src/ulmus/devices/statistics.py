"""Sums on the device: the matrix of :class:`ulmus.statistics.Statistics`, as a tensor."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import TensorMap
from ulmus.devices.tensors import DeviceRows, block_rows
from ulmus.engine import Rows
from ulmus.statistics import Statistics

#: Rows of the sum that are updated at once: only what lies below its diagonal is computed, and little more.
PANEL = 512


@dataclass
class TensorStatistics(Statistics):
    """The same, of tensors: what has to be computed is computed on the device."""

    moments: Any
    accelerator: Accelerator = field(kw_only=True)

    def prefix(self, n_features: int) -> Self:
        torch = self.accelerator.torch
        if n_features == self.n_features:
            return self
        keep = torch.cat([torch.arange(n_features), torch.arange(self.n_features, len(self.moments))])
        keep = keep.to(self.accelerator.device)
        return self._with(self.moments[keep][:, keep], self.n_rows)

    def whitened(self, R: Any, n_jobs: int | None = 1) -> Self:
        """Statistics of the features ``φ R⁻ᵀ``, for a lower triangular ``R`` on the device."""
        solve, D = self.accelerator.torch.linalg.solve_triangular, self.n_features
        out = self.moments.clone()
        out[:D] = solve(R, out[:D], upper=False)
        out[:, :D] = solve(R.T, out[:, :D], upper=True, left=False)
        out[:D, :D] = (out[:D, :D] + out[:D, :D].T) / 2
        return self._with(out, self.n_rows)

    def centred(self) -> Self:
        total = self.moments[:, -1] / self.weight
        out = self.accelerator.torch.addr(self.moments, total, total, alpha=-self.weight)
        out[-1, -1] = self.weight
        return self._with(out, self.n_rows)

    def _zeros(self, count: int) -> Any:
        return self.moments.new_zeros(count)

    def to_host(self) -> Statistics:
        return Statistics(self.accelerator.numpy(self.moments), self.n_outputs, self.n_rows)


class DeviceSums:
    """Statistics that grow batch by batch on the device, in float64; symmetry halves the work.

    Batches may come from anywhere: an array in pieces, a stream of files.
    """

    def __init__(self, accelerator: Accelerator, transform: TensorMap, n_features_out: int, n_outputs: int) -> None:
        self.accelerator, self.transform, self.n_rows = accelerator, transform, 0
        zeros = accelerator.torch.zeros
        self.G = accelerator.tensor(zeros((n_features_out, n_features_out)))
        self.M = accelerator.tensor(zeros((n_features_out + n_outputs + 1, n_outputs + 1)))

    def add(self, rows: Rows) -> None:
        """Add rows that are in memory."""
        self.add_rows(DeviceRows(self.accelerator, rows, keep=False))

    def add_rows(self, rows: DeviceRows) -> None:
        """Add rows that are on the device, or on the way to it."""
        torch, D = self.accelerator.torch, len(self.G)
        for _, X, T, w in rows.blocks(block_rows(D)):
            Phi = self.transform(X)
            beside = torch.cat([T, torch.ones_like(T[:, :1])], dim=1)
            if w is not None:
                root = w.sqrt()[:, None]
                Phi, beside = Phi.mul_(root), beside * root
            for start in range(0, D, PANEL):
                stop = min(start + PANEL, D)
                self.G[start:stop, :stop].addmm_(Phi[:, start:stop].T, Phi[:, :stop])
            self.M[:D].addmm_(Phi.T, beside)
            self.M[D:].addmm_(beside.T, beside)
        self.n_rows += len(rows)

    def statistics(self) -> TensorStatistics:
        """What was summed; no more rows can be added."""
        D, s = len(self.G), self.M.shape[1] - 1
        moments = self.accelerator.tensor(self.accelerator.torch.zeros((D + s + 1, D + s + 1)))
        moments[:D, :D] = self.G.tril_()
        moments[:D, :D] += self.G.tril_(-1).T
        moments[:, D:] = self.M
        moments[D:, :D] = self.M[:D].T
        require_finite(self.accelerator.torch, moments)
        return TensorStatistics(moments, s, self.n_rows, accelerator=self.accelerator)

    def dump(self) -> np.ndarray:
        """The moments so far; more rows may follow. Bits that matter later are all there."""
        numpy, D = self.accelerator.numpy, len(self.G)
        moments = np.empty((len(self.M), len(self.M)))
        moments[:D, :D], moments[:, D:] = numpy(self.G.tril()), numpy(self.M)
        moments[D:, :D] = moments[:D, D:].T
        return moments

    def restore(self, moments: np.ndarray, n_rows: int) -> None:
        """Go on from dumped moments."""
        D = len(self.G)
        self.G.copy_(self.accelerator.torch.from_numpy(np.ascontiguousarray(moments[:D, :D])))
        self.M.copy_(self.accelerator.torch.from_numpy(np.ascontiguousarray(moments[:, D:])))
        self.n_rows = n_rows


def gram_statistics(transform: TensorMap, n_features_out: int, rows: DeviceRows) -> TensorStatistics:
    """Sum the statistics of all rows."""
    sums = DeviceSums(rows.accelerator, transform, n_features_out, rows.s)
    sums.add_rows(rows)
    return sums.statistics()


def require_finite(torch: Any, sums: Any) -> None:
    """Refuse sums that are not numbers: rows with NaN, or features that overflow."""
    if not bool(torch.isfinite(sums.sum())) and not bool(torch.isfinite(sums).all()):
        raise ValueError(
            "the sums over the rows are not finite on the device: rows, targets or weights contain NaN or infinity, or "
            "features overflow; clean the rows, or standardise the features"
        )


def gradient(transform: TensorMap, n_features_out: int, rows: DeviceRows, weights: Any, intercept: Any) -> Any:
    """``[Φ 1]ᵀ W (T − Φβ − b)`` from the rows themselves, in the type of the map."""
    torch = rows.accelerator.torch
    total = rows.accelerator.tensor(torch.zeros((n_features_out + 1, weights.shape[1])))
    for _, X, T, w in rows.blocks(block_rows(n_features_out)):
        Phi = transform(X)
        E = T - (Phi @ weights.to(Phi.dtype)).double() - intercept
        if w is not None:
            E = E * w[:, None]
        total[:-1] += (Phi.T @ E.to(Phi.dtype)).double()
        total[-1] += E.sum(0)
    return total
