"""Random partitions grown on the device, a whole level of nodes at a time (:func:`ulmus.features.partition.grown`).

The rows of a level stand node after node. Moments of the nodes are differences of running sums; one sort by value and
one, stable, by node put every cut where it is looked up, and the halves of a node beside each other.
"""

from typing import Any

import numpy as np

from ulmus.devices.accelerator import Accelerator

#: Coordinates whose moments are taken at a time.
MOMENT_CELLS = 2**28


class DeviceLevel:
    """Nodes of one level; ``columns[j]`` are the coordinates of all rows."""

    dtype = np.float64

    def __init__(self, accelerator: Accelerator, columns: Any, order: Any, sizes: np.ndarray) -> None:
        self.accelerator, self.columns, self.order, self._sizes = accelerator, columns, order, sizes
        self.n_columns = len(columns)
        self.starts = np.append(0, np.cumsum(sizes))
        self.left = np.zeros(len(sizes), np.intp)

    @classmethod
    def root(cls, accelerator: Accelerator, U: Any) -> "DeviceLevel":
        """All rows in one node."""
        order = accelerator.torch.arange(len(U), device=U.device)
        return cls(accelerator, U.T.contiguous(), order, np.array([len(U)]))

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def _int(self, array: np.ndarray) -> Any:
        return self.accelerator.tensor(array, self.accelerator.torch.int64)

    def _places(self, nodes: np.ndarray) -> tuple[Any, Any]:
        """Places of the rows of some nodes in the order, and the number of the node, among these, of each."""
        torch = self.accelerator.torch
        counts = self._sizes[nodes]
        sizes, begins = self._int(np.stack([counts, self.starts[nodes] - np.cumsum(counts) + counts]))
        total = int(counts.sum())
        which = torch.repeat_interleave(torch.arange(len(nodes), device=sizes.device), sizes, output_size=total)
        return torch.arange(total, device=sizes.device) + begins[which], which

    def deviations(self, nodes: np.ndarray, *, fused: bool | None = None) -> np.ndarray:
        """Deviation of every column in some nodes; exactly 0 where all values are equal."""
        torch = self.accelerator.torch
        if not len(nodes):
            return np.empty((0, self.n_columns))
        begin, end = self._int(np.stack([self.starts[nodes], self.starts[nodes] + self._sizes[nodes]]))
        if self.accelerator.is_gpu and self.accelerator.fuses if fused is None else fused:
            from ulmus.devices import triton_moments

            return np.asarray(self.accelerator.numpy(triton_moments.deviations(self.columns, self.order, begin, end)))
        n, count, out = len(self.order), (end - begin).double()[None], []
        width = max(1, MOMENT_CELLS // n)
        for first in range(0, self.n_columns, width):
            X = self.columns[first : first + width, self.order]
            X -= X[:, :1].clone()  # running sums of numbers near 0 keep their digits
            shift = n * torch.arange(len(X), device=X.device)[:, None]
            mean, square = (_between(torch, V, begin + shift, end + shift) / count for V in (X, X**2))
            changes = (X[:, 1:] != X[:, :-1]).to(torch.int32)
            shift = (n - 1) * torch.arange(len(X), device=X.device)[:, None]
            steps = _between(torch, changes, begin + shift, end - 1 + shift)
            out.append(torch.where(steps > 0, (square - mean**2).clamp(min=0.0).sqrt(), 0.0))
        return np.asarray(self.accelerator.numpy(torch.cat(out).T.contiguous()))

    def cut(self, nodes: np.ndarray, column: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(nodes):
            return np.empty(0), np.empty(0, np.intp)
        places, which = self._places(nodes)
        threshold, left, _ = self._sorted(
            nodes, places, which, self.columns[self._int(column)[which], self.order[places]], quantile
        )
        return threshold, left

    def turn(self, nodes: np.ndarray, directions: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, which = self._places(nodes)
        ways, rows = self.accelerator.tensor(directions.T), self.order[places]
        along, width = ways.new_zeros(len(rows)), max(1, MOMENT_CELLS // len(rows))
        for first in range(0, self.n_columns, width):
            some = slice(first, first + width)
            for terms in self.columns[some, rows] * ways[some, which]:  # one by one: equal rows have equal sums
                along += terms
        threshold, left, above = self._sorted(nodes, places, which, along, quantile)
        return (threshold + above) / 2, left

    def _sorted(
        self, nodes: np.ndarray, places: Any, which: Any, values: Any, quantile: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sort the rows of every node by these values: thresholds, rows on the left, and the values after those."""
        torch = self.accelerator.torch
        by_value = torch.argsort(values)
        by_node = by_value[torch.argsort(which[by_value], stable=True)]
        self.order[places] = self.order[places[by_node]]
        values = values[by_node]
        sizes = self._sizes[nodes]
        begin = np.cumsum(sizes) - sizes
        middle = begin + np.floor(quantile * (sizes - 1)).astype(np.intp)
        first, last, middle = self._int(
            np.stack([begin, begin + sizes - 1, middle])
        )  # one copy, as each takes its time
        # the largest value is never the threshold: then it is the last one below it
        top, threshold = values[last], values[middle]
        if bool((threshold == top).any()):
            below_top = first + _between(torch, values < top[which], first, last + 1)
            threshold = torch.where(threshold == top, values[torch.maximum(below_top - 1, first)], threshold)
        after = first + _between(torch, values <= threshold[which], first, last + 1)
        above = torch.where(after <= last, values[torch.minimum(after, last)], torch.inf)
        told = np.asarray(self.accelerator.numpy(torch.stack([threshold, above, (after - first).double()])))
        self.left[nodes] = left = told[2].astype(np.intp)
        return told[0], left, told[1]

    def rows(self, nodes: np.ndarray) -> list[np.ndarray]:
        if not len(nodes):
            return []
        found = np.asarray(self.accelerator.numpy(self.order[self._places(nodes)[0]])).astype(np.intp)
        return np.split(found, np.cumsum(self._sizes[nodes])[:-1])

    def divided(self, nodes: np.ndarray) -> "DeviceLevel":
        halves = np.column_stack([self.left[nodes], self._sizes[nodes] - self.left[nodes]]).ravel()
        return DeviceLevel(self.accelerator, self.columns, self.order[self._places(nodes)[0]], halves)


def _between(torch: Any, values: Any, begin: Any, end: Any) -> Any:
    """Sums of ``values[begin:end]``, counted through all rows of the matrix, from running ones."""
    running = torch.nn.functional.pad(torch.cumsum(values.reshape(-1), 0), (1, 0))
    return running[end] - running[begin]
