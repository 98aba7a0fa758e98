"""The passes of a fit on a GPU: batches are sent, sums stay there, checkpoints bring them back.

Threads prepare batches; one thread sends them through two pinned buffers and has the device sum them in their order.
A batch is sent before the one ahead of it is summed, so that the device waits for neither disk nor bus.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.devices.direct import Driver
from ulmus.devices.routes import direct_bytes
from ulmus.devices.statistics import DeviceSums
from ulmus.devices.tensors import Coming, DeviceRows, HostView, Lanes
from ulmus.engine import Rows
from ulmus.models.steps import Steps
from ulmus.statistics import Extent, Summary
from ulmus.streaming.batches import Batch
from ulmus.streaming.sums import AgainOverRows, Encoder, Folds, dumped_extent, restored_extent


class Conveyor:
    """Rows on their way to the device: each block is handed over when the next one has been sent."""

    def __init__(self, driver: Driver) -> None:
        self.lanes = Lanes(driver.accelerator)
        self._last: tuple[int, Rows, Coming] | None = None

    def send(self, number: int, rows: Rows) -> tuple[int, Rows] | None:
        """Send rows for the sum of this number; the block before them, which has arrived meanwhile."""
        coming = (number, rows, self.lanes.send(rows.X)) if len(rows) else None
        arrived, self._last = self.last(), coming
        return arrived

    def last(self) -> tuple[int, Rows] | None:
        """The block that is still on its way."""
        if self._last is None:
            return None
        (number, rows, coming), self._last = self._last, None
        return number, replace(rows, X=HostView(coming.take()))


class DeviceSummaryAccumulator:
    """Sums of all rows on the device (:class:`ulmus.streaming.sums.SummaryAccumulator`)."""

    def __init__(self, steps: Steps, encoder: Encoder, n_outputs: int, folds: Folds | None, driver: Driver) -> None:
        self.steps, self.encoder, self.folds, self.driver = steps, encoder, folds, driver
        features, self.whitening = steps.summed_form()
        L, count = features.n_features_out, 1 if folds is None else folds.count
        driver.accelerator.require(
            direct_bytes(L, n_outputs) + 8 * (count - 1) * (L + n_outputs + 1) ** 2,
            f"a stream summed for {L} features" + ("" if folds is None else f" and {count} folds"),
            'take fewer, or device="cpu"',
        )
        transform = driver.feature_map(features)
        self.parts = [DeviceSums(driver.accelerator, transform, L, n_outputs) for _ in range(count)]
        self.extent: Extent | None = None
        self._conveyor = Conveyor(driver)

    def work(self, batch: Batch) -> tuple[list[Rows], Extent]:
        """The rows of one batch, by folds, and their extent."""
        rows = self.encoder.rows(batch)
        extent = self.steps.extent(rows)
        if self.folds is None:
            return [rows], extent
        fold = self.folds.of(rows.X)
        return [rows.take(np.flatnonzero(fold == k)) for k in range(self.folds.count)], extent

    def add(self, part: tuple[list[Rows], Extent]) -> None:
        """Send the rows of a batch, and sum those sent before."""
        for k, rows in enumerate(part[0]):
            self._sum(self._conveyor.send(k, rows))
        self.extent = part[1] if self.extent is None else self.extent + part[1]

    def _sum(self, arrived: tuple[int, Rows] | None) -> None:
        if arrived is not None:
            self.parts[arrived[0]].add(arrived[1])

    def summary(self) -> Summary:
        """The sums as a model takes them, on the device."""
        self._sum(self._conveyor.last())
        parts = tuple(part.statistics() for part in self.parts)
        self.parts = []
        if self.whitening is not None:
            R = self.driver.matrix(self.whitening)
            parts = tuple(part.whitened(R) for part in parts)
        total: Any = sum(parts[1:], parts[0])
        by_fold: Any = () if self.folds is None else parts
        return Summary(total, by_fold, self.extent)

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self._sum(self._conveyor.last())
        arrays, notes = dumped_extent(self.extent)
        arrays |= {"moments": np.stack([part.dump() for part in self.parts])}
        return arrays, notes | {"n_rows": [part.n_rows for part in self.parts]}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        for part, moments, n_rows in zip(self.parts, arrays["moments"], notes["n_rows"], strict=True):
            part.restore(moments, n_rows)
        self.extent = restored_extent(arrays, notes)


class DeviceGradientAccumulator:
    """``[Φ 1]ᵀ W (T − Φβ − b)`` of all rows, on the device."""

    def __init__(self, driver: Driver, features: Any, weights: np.ndarray, intercept: np.ndarray) -> None:
        self.driver, self.features = driver, features
        self.weights, self.intercept = driver.accelerator.tensor(weights), driver.accelerator.tensor(intercept)
        zeros = np.zeros((features.n_features_out + 1, weights.shape[1]))
        self._total = driver.accelerator.tensor(zeros)
        self._conveyor = Conveyor(driver)

    def add(self, rows: Rows) -> None:
        self._sum(self._conveyor.send(0, rows))

    def _sum(self, arrived: tuple[int, Rows] | None) -> None:
        if arrived is not None:
            rows = DeviceRows(self.driver.accelerator, arrived[1], keep=False)
            self._total += self.driver.gradient(self.features, rows, self.weights, self.intercept)

    @property
    def total(self) -> np.ndarray:
        self._sum(self._conveyor.last())
        return np.array(self.driver.accelerator.numpy(self._total))

    def dump(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"total": self.total}, {}

    def restore(self, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        self._total = self.driver.accelerator.tensor(arrays["total"].copy())


@dataclass
class AgainOnDevice(AgainOverRows):
    """More passes, with gradients from the device."""

    driver: Any = None

    def _pass(self, features: Any, weights: np.ndarray, intercept: np.ndarray) -> tuple[Any, Callable[[Batch], Any]]:
        return DeviceGradientAccumulator(self.driver, features, weights, intercept), self.encoder.rows
