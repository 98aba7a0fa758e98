"""What a learner remembers of single rows: that it has learned them, and a sample to calibrate on."""

from typing import Any

import numpy as np
from scipy import sparse

from ulmus.engine import Rows
from ulmus.features.sampling import row_hashes

#: Rows that are looked at together.
RECENT = 256
_GONE = np.uint64(0)


class Memory:
    """Eight bytes of every row (a hash of inputs, target and weight), and a sample of the rows themselves.

    The hash tells whether a row was learned, and how many rows ago. The sample is the rows with the smallest hashes,
    which is uniform and does not depend on their order; under forgetting it is the latest rows.

    Rows that one model learned one after the other are a *stretch*: ``starts`` are the places where stretches begin.
    Merged models bring stretches of their own, which have their own clocks (a row's time is its place plus ``shifts``)
    and their own ``feature_starts``: the places from which on rows have the last features. The last stretch goes on.
    """

    def __init__(self, capacity: int, latest: bool) -> None:
        self.capacity, self.latest = capacity, latest
        self.keys = np.empty(0, np.uint64)
        self.count = 0
        self.sample: Rows | None = None
        self.sample_keys, self.born = np.empty(0, np.uint64), np.empty(0, np.int64)
        self.recent: list[tuple[Rows, np.ndarray]] = []
        self.n_recent = 0
        self.starts, self.shifts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self.feature_starts = np.empty((1, 0), np.int64)

    def know(self, keys: np.ndarray) -> None:
        """Begin with rows that were learned before, of which only the hashes are at hand."""
        self.keys, self.count = keys, len(keys)

    def add(self, rows: Rows, identity: np.ndarray) -> None:
        """Remember rows; few of them are only put by."""
        self.recent.append((rows, identity))
        self.n_recent += len(rows)
        if self.n_recent >= RECENT:
            self.flush()

    def flush(self) -> None:
        """Look at the rows that were put by."""
        if not self.n_recent:
            return
        recent, self.recent, self.n_recent = self.recent, [], 0
        rows = stacked([block for block, _ in recent])
        keys = row_hashes(rows, np.concatenate([identity for _, identity in recent]))
        end = self.count + len(keys)
        if end > len(self.keys):
            self.keys = np.resize(self.keys, max(end, 2 * len(self.keys), 1024))
        self.keys[self.count : end] = keys
        born = np.arange(self.count, end)
        self.count = end
        if self.sample is not None:
            rows = stacked([self.sample, rows])
            keys, born = np.append(self.sample_keys, keys), np.append(self.born, born)
        if len(keys) > self.capacity:
            keep = np.sort(np.argsort(self.age(born) if self.latest else keys, kind="stable")[: self.capacity])
            rows, keys, born = rows.take(keep), keys[keep], born[keep]
        self.sample, self.sample_keys, self.born = rows, keys, born

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Where each of these rows was learned last (no place twice); −1 for one that was not."""
        self.flush()
        places: dict[int, list[int]] = {}
        for place in np.flatnonzero(np.isin(self.keys[: self.count], keys)).tolist():
            places.setdefault(int(self.keys[place]), []).append(place)
        return np.array([places[key].pop() if places.get(key) else -1 for key in keys.tolist()], dtype=np.intp)

    def remove(self, places: np.ndarray) -> None:
        """Let go of the rows that were learned at these places."""
        self.keys[places] = _GONE
        if self.sample is not None:
            keep = np.flatnonzero(~np.isin(self.born, places))
            self.sample, self.sample_keys, self.born = self.sample.take(keep), self.sample_keys[keep], self.born[keep]

    def merge(self, other: "Memory") -> None:
        """Remember what another one does, as the older part."""
        self.flush()
        other.flush()
        late = max(self.feature_starts.shape[1], other.feature_starts.shape[1])
        # the last row of either was learned just now, and a feature that a stretch does not name was always there
        its_shifts = other.shifts + (self.count + self.shifts[-1]) - (other.count + other.shifts[-1])
        self.feature_starts = np.concatenate(
            [_padded(other.feature_starts, late), _padded(self.feature_starts, late) + other.count]
        )
        self.starts = np.concatenate([other.starts, self.starts + other.count])
        self.shifts = np.concatenate([its_shifts, self.shifts - other.count])
        self.keys = np.concatenate([other.keys[: other.count], self.keys[: self.count]])
        if other.sample is not None:
            mine = [] if self.sample is None else [self.sample]
            self.sample = stacked([other.sample, *mine])
            self.sample_keys = np.append(other.sample_keys, self.sample_keys)
            self.born = np.append(other.born, self.born + other.count)
        self.count += other.count

    def rows(self, forgetting: float) -> Rows | None:
        """The sample, every row with the weight it has now."""
        self.flush()
        if self.sample is None or not len(self.sample):
            return None
        if forgetting == 1.0:
            return self.sample
        w = self.sample.weights
        w = w * forgetting ** self.age(self.born)
        return Rows(self.sample.X, self.sample.T, w, np.minimum(w, 1.0))

    def age(self, places: np.ndarray) -> np.ndarray:
        """How many rows were learned after those at these places."""
        return self.count - 1 + self.shifts[-1] - (places + self.shifts[self._stretch(places)])

    def unborn(self, places: np.ndarray) -> np.ndarray:
        """Which of the last features the rows at these places were learned without: a matrix, a column for each."""
        return places[:, None] < self.feature_starts[self._stretch(places)]

    def _stretch(self, places: np.ndarray) -> np.ndarray:
        return np.maximum(np.searchsorted(self.starts, places, side="right") - 1, 0)

    def widen(self, count: int) -> None:
        """So many features more, from the next row on.

        The sample begins anew: its rows are not in the sums with the features they have now.
        """
        self.flush()
        self.feature_starts = np.pad(self.feature_starts, ((0, 0), (0, count)), constant_values=self.count)
        self.sample, self.sample_keys, self.born = None, self.sample_keys[:0], self.born[:0]

    @property
    def n_sampled(self) -> int:
        """Rows that are in the sample, or will be looked at for it."""
        return self.n_recent + len(self.born)

    def recode(self, M: np.ndarray) -> None:
        self.flush()
        if self.sample is not None:
            T = np.column_stack([self.sample.T, np.ones(len(self.sample))]) @ M
            self.sample = Rows(self.sample.X, T, self.sample.weight, self.sample.unit)


def _padded(feature_starts: np.ndarray, late: int) -> np.ndarray:
    return np.pad(feature_starts, ((0, 0), (late - feature_starts.shape[1], 0)))


def stacked(blocks: list[Rows]) -> Rows:
    """Blocks of rows as one."""
    if len(blocks) == 1:
        return blocks[0]

    def join(name: str) -> np.ndarray | None:
        if all(getattr(block, name) is None for block in blocks):
            return None
        parts = [np.ones(len(b)) if getattr(b, name) is None else getattr(b, name) for b in blocks]
        return np.concatenate(parts)

    inputs: list[Any] = [block.X for block in blocks]
    X = sparse.vstack(inputs, format="csr") if any(map(sparse.issparse, inputs)) else np.concatenate(inputs)
    return Rows(X, np.concatenate([block.T for block in blocks]), join("weight"), join("unit"))
