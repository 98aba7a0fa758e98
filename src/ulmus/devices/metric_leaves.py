"""Leaves that teach a metric, on the device: hundreds of small kernel models in one batch.

What :class:`ulmus.tuning.leaf_metric.HostCut` does leaf by leaf: rows are cut as a metric shows them, and kernel models
of some leaves answer the rows held out, for every width and penalty at once, or tell their slopes there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ulmus.devices import leaf_batches
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.differences import scale_of, values
from ulmus.devices.leaf_batches import padded, scaled_columns
from ulmus.devices.leaves import factored
from ulmus.devices.partition import DeviceLevel
from ulmus.features.partition import Partition, grown
from ulmus.tuning.leaf_metric import LEAF_ROWS, UNIT_ROWS, Task

#: Kernel → the one whose values multiply differences (or, of the first, their signs) in its gradient, and a number.
SLOPES = {"laplacian_l1": ("laplacian_l1", -1.0), "matern32": ("laplacian", -1.0), "rbf": ("rbf", -2.0)}
#: Differences of coordinates that lie in memory at a time.
DIFFERENCES = 2**27


@dataclass(frozen=True)
class DeviceCut:
    """Rows on the device as a metric shows them, cut into leaves; ``weight`` is None where all are 1."""

    accelerator: Accelerator
    kernel: str
    U: Any
    T: Any
    weight: Any
    partition: Partition

    @classmethod
    def of(
        cls, accelerator: Accelerator, kernel: str, X: Any, T: Any, weight: Any, A: np.ndarray, seed: int
    ) -> "DeviceCut":
        """Cut rows as the metric ``A`` shows them."""
        U = X * accelerator.tensor(A)
        partition = grown(DeviceLevel.root(accelerator, U), LEAF_ROWS, np.random.RandomState(seed))
        return cls(accelerator, kernel, U, T, weight, partition)

    def leaves(self, tasks: Sequence[Task]) -> "DeviceLeaves":
        """Some of the leaves."""
        return DeviceLeaves(self, tasks)


@dataclass(frozen=True)
class DeviceLeaves:
    """Some leaves of rows on the device."""

    cut: DeviceCut
    tasks: Sequence[Task]

    def answers(self, widths: Sequence[float], ridges: Sequence[float]) -> np.ndarray:
        """Predictions of the rows held out, leaf after leaf, ``[width, ridge, row, output]``."""
        found = [batch.answers(widths, ridges) for batch in self._batches(len(widths) * len(ridges))]
        return np.concatenate([self.cut.accelerator.numpy(each) for each in found], axis=2)

    def slopes(self, width: float, ridge: float) -> np.ndarray:
        """Mean squared slopes along the coordinates, at the rows held out."""
        found = [batch.slopes(width, ridge) for batch in self._batches(1)]
        total, mass = (np.sum([self.cut.accelerator.numpy(each[k]) for each in found], axis=0) for k in (0, 1))
        return np.asarray(total / mass)

    def _batches(self, copies: int) -> "Iterator[LeavesTogether]":
        """The leaves, as many at a time as memory has room for, with ``copies`` matrices of each."""
        most = max(len(rows) for rows, _ in self.tasks)
        width = max(1, leaf_batches.BATCH_BYTES // (8 * copies * most**2))
        for first in range(0, len(self.tasks), width):
            yield LeavesTogether(self.cut, self.tasks[first : first + width])


@dataclass(frozen=True)
class LeavesTogether:
    """Leaves that are worked on together: rows ``[leaf, row, column]``, padded to the largest."""

    cut: DeviceCut
    tasks: Sequence[Task]

    @cached_property
    def _learned(self) -> tuple[Any, Any]:
        """Numbers of the rows to learn from, and which of them are no padding."""
        return self._numbers(0)

    @cached_property
    def _held(self) -> tuple[Any, Any]:
        """The same of the rows held out."""
        return self._numbers(1)

    def _numbers(self, side: int) -> tuple[Any, Any]:
        a = self.cut.accelerator
        rows, inside = padded([task[side] for task in self.tasks])
        return a.tensor(rows, a.torch.int64), a.tensor(inside, a.torch.bool)

    def _weight(self, rows: Any, inside: Any) -> Any:
        """Weights of rows, 0 in padding."""
        weight = self.cut.weight
        return (
            inside.to(self.cut.U.dtype)
            if weight is None
            else self.cut.accelerator.torch.where(inside, weight[rows], 0.0)
        )

    @cached_property
    def _unit(self) -> np.ndarray:
        """One over the median (squared) distance of some rows of each leaf."""
        torch, (rows, inside), square = self.cut.accelerator.torch, self._learned, self.cut.kernel != "laplacian_l1"
        S, there = self.cut.U[rows[:, :UNIT_ROWS]], inside[:, :UNIT_ROWS]
        away = S.new_zeros((*there.shape, there.shape[1]))
        for columns in S.split(_columns_at_a_time(away), dim=2):
            difference = columns[:, :, None] - columns[:, None]
            away += (difference.square_() if square else difference.abs_()).sum(3)
        if square and self.cut.kernel != "rbf":
            away.sqrt_()
        known = (away > 0) & there[:, :, None] & there[:, None, :]
        median = torch.where(known, away, torch.nan).flatten(1).nanmedian(dim=1).values
        return np.asarray(self.cut.accelerator.numpy(torch.where(median.isnan(), 1.0, 1.0 / median)))

    def _scale(self, width: float) -> Any:
        """What coordinates are multiplied by, ``[leaf, 1, 1]``."""
        each = [scale_of(self.cut.kernel, width * float(unit)) for unit in self._unit]
        return self.cut.accelerator.tensor(each)[:, None, None]

    def _scaled(self, width: float) -> tuple[Any, Any]:
        """Scaled rows to learn from, and those held out, ``[leaf, column, row]``."""
        torch, (rows, inside), scale = self.cut.accelerator.torch, self._learned, self._scale(width)
        held = (self.cut.U[self._held[0]] * scale).transpose(1, 2).contiguous()
        return scaled_columns(torch, self.cut.U[rows] * scale, inside, 1.0), held

    @cached_property
    def _centred(self) -> tuple[Any, Any]:
        """Targets less their mean, 0 in padding; and the mean, ``[leaf, 1, output]``."""
        torch, (rows, inside) = self.cut.accelerator.torch, self._learned
        T, w = self.cut.T[rows], self._weight(rows, inside)[:, :, None]
        mean = (w * T).sum(1, keepdim=True) / w.sum(1, keepdim=True)
        return torch.where(inside[:, :, None], T - mean, 0.0), mean

    def _solved(self, X: Any, ridges: Sequence[float]) -> Any:
        """Weights on the rows ``X`` of these leaves, of one or several widths, ``[ridge, leaf, row, output]``."""
        torch, (rows, inside), (R, _) = self.cut.accelerator.torch, self._learned, self._centred
        times = len(X) // len(R)
        over = torch.where(inside, 1.0 / self._weight(rows, inside), 1.0).repeat(times, 1)
        penalty = torch.cat([ridge * over for ridge in ridges])
        factors = factored(self.cut.accelerator, self.cut.kernel, X.repeat(len(ridges), 1, 1), penalty)
        return factors.solve(R.repeat(times * len(ridges), 1, 1)).view(len(ridges), len(X), *R.shape[1:])

    def answers(self, widths: Sequence[float], ridges: Sequence[float]) -> Any:
        """Predictions of the rows held out, ``[width, ridge, row, output]``."""
        torch, (_, asking), (_, mean) = self.cut.accelerator.torch, self._held, self._centred
        X, Q = (torch.cat(each) for each in zip(*map(self._scaled, widths), strict=True))
        K = values(self.cut.accelerator, self.cut.kernel, Q, X)
        found = K @ self._solved(X, ridges)
        found = found.view(len(ridges), len(widths), *asking.shape, -1) + mean
        return found[:, :, asking].transpose(0, 1)

    def slopes(self, width: float, ridge: float) -> tuple[Any, Any]:
        """Sums of squared slopes along the coordinates, and of weights, of the rows held out."""
        torch, (X, Q) = self.cut.accelerator.torch, self._scaled(width)
        alpha, (kernel, number) = self._solved(X, [ridge])[0], SLOPES[self.cut.kernel]
        K, w = values(self.cut.accelerator, kernel, Q, X), self._weight(*self._held)
        out, some = [], _columns_at_a_time(K)
        for x, z in zip(Q.split(some, dim=1), X.split(some, dim=1), strict=True):
            difference = x[:, :, :, None] - z[:, :, None]
            if self.cut.kernel == "laplacian_l1":
                difference.sign_()
            slopes = difference.mul_(K[:, None]) @ alpha[:, None]
            out.append((w[:, None] * slopes.square_().sum(3)).sum(2))
        factor = (number * self._scale(width)[:, 0, 0]) ** 2
        return factor @ torch.cat(out, dim=1), w.sum()


def _columns_at_a_time(pairs: Any) -> int:
    """As many as the differences of pairs of rows have room for."""
    return max(1, DIFFERENCES // pairs.numel())
