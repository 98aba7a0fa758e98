r"""Hard thresholds on numeric columns: columns of two values that say on which side of a learned cut a number lies.

A kernel that sees :math:`[x,\ 1\{x_j > t\}]` may jump where :math:`x_j` passes t, and as kernels multiply what columns
say, so do rules of several cuts. The cuts are those of a regression tree, grown best first: of all nodes, the next one
to be split is the one where that lowers the squared error of the targets most,

.. math:: \frac{\|s_l\|^2}{w_l} + \frac{\|s_r\|^2}{w_r} - \frac{\|s_l + s_r\|^2}{w_l + w_r},

s and w the sums of targets and of weights on either side: closed form for every cut of a column from two cumulative
sums.
"""

from dataclasses import dataclass

import numpy as np

#: Height of a step: one through the middle of a column has unit deviation.
SIZE = 2.0
#: Cuts that are learned, at most.
MOST = 24
#: Intervals of a column by which splits of nodes are compared, at most; the cut itself is exact.
BINS = 128
#: Rows on either side of a cut, at least; and their share.
FEWEST, SHARE = 5.0, 0.002
#: Share of all squared error that a cut must explain.
CUT_GAIN = 1e-4


@dataclass(frozen=True)
class Cuts:
    """In which numeric columns, and where."""

    column: np.ndarray
    at: np.ndarray

    def __len__(self) -> int:
        return len(self.at)

    def shares(self, weight: np.ndarray) -> np.ndarray:
        """Weights of the cuts, from those of columns: together, the cuts of a column weigh as much as it does."""
        return np.asarray(weight[self.column] / np.bincount(self.column)[self.column])

    @classmethod
    def of(cls, X: np.ndarray, T: np.ndarray, weight: np.ndarray | None, numeric: int, most: int = MOST) -> "Cuts":
        """Learn the cuts that tell the targets apart, and keep those of the first columns; nothing may be missing.

        A weight of k counts as k rows.
        """
        w = np.ones(len(X)) if weight is None else weight
        grown = _grown(X, T - np.average(T, axis=0, weights=w), w, most)
        kept = sorted({(j, cut) for j, cut in grown if j < numeric})
        return cls(np.array([j for j, _ in kept], dtype=np.intp), np.array([cut for _, cut in kept]))

    def transform(self, X: np.ndarray) -> np.ndarray:
        """A column for each cut: :data:`SIZE` above it, 0 below."""
        return SIZE * (X[:, self.column] > self.at)


def _bins(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The number of the interval of every value; there is one for each value, or quantiles where these are many."""
    values, place = np.unique(x, return_inverse=True)
    if len(values) <= BINS:
        return place
    rank = np.cumsum(np.bincount(place, weights=w)) / w.sum()
    return np.searchsorted(np.arange(1, BINS) / BINS, rank)[place]


def _grown(X: np.ndarray, T: np.ndarray, w: np.ndarray, most: int) -> list[tuple[int, float]]:
    """Column and cut of every split of a tree, the most gainful first; columns of two values are steps already."""
    least = max(SHARE * w.sum(), min(FEWEST, w.sum() / 2)) * (1 - 1e-9)
    enough = CUT_GAIN * float(np.einsum("i,ij,ij->", w, T, T))
    place, d = np.column_stack([_bins(x, w) for x in X.T]), X.shape[1]
    many = place.max(axis=0, initial=0) > 1
    if not many.any() or enough == 0:
        return []
    place += BINS * np.arange(d)
    weighted = np.column_stack([w, w[:, None] * T])

    def gains(left: np.ndarray) -> np.ndarray:
        """Of cumulative sums ``[sum, ..., place]``; minus infinity where too few are on one side."""
        right, total = left[..., -1:] - left, left[..., -1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [(side[1:] ** 2).sum(axis=0) / side[0] for side in (left, right, total)]
        return np.where((left[0] >= least) & (right[0] >= least), parts[0] + parts[1] - parts[2], -np.inf)

    def best(rows: np.ndarray) -> tuple[float, int, np.ndarray]:
        """Gain and column of the best split of a node."""
        flat = place[rows].ravel()
        sums = [np.bincount(flat, np.repeat(s, d), BINS * d) for s in weighted[rows].T]
        found = gains(np.cumsum(np.reshape(sums, (-1, d, BINS)), axis=2))
        return float(found.max()), int(np.argmax(found.max(axis=1))), rows

    def split(rows: np.ndarray, j: int) -> float:
        """The exact cut, half way between two values of the node."""
        values, group = np.unique(X[rows, j], return_inverse=True)
        left = np.cumsum([np.bincount(group, s) for s in weighted[rows].T], axis=1)
        low = int(np.argmax(gains(left)))
        cut = values[low] + (values[low + 1] - values[low]) / 2
        return float(cut if cut < values[low + 1] else values[low])

    nodes, found = [best(np.arange(len(T)))], list[tuple[int, float]]()
    while len(found) < most:
        gain, j, rows = nodes.pop(int(np.argmax([node[0] for node in nodes])))
        if not gain > enough:
            break
        cut = split(rows, j)
        found.append((j, cut))
        above = X[rows, j] > cut
        nodes += [best(rows[~above]), best(rows[above])]
    return [(j, cut) for j, cut in found if many[j]]
