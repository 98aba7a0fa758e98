r"""Boosted trees beside kernels: layers of hard thresholds that are learned, with weights in closed form.

A tree of depth D is a hidden layer of :math:`2^D` nodes, each a product of D thresholds on columns. Trees are
symmetric: all nodes of a level ask the same column for the same threshold. With g and h the sums of first and second
derivatives of the loss on either side of it in each node, that one is taken which makes

.. math:: \sum_\text{nodes} \frac{g_l^2}{h_l + \lambda} + \frac{g_r^2}{h_r + \lambda}

largest. The weight of a leaf is one Newton step, :math:`-\eta\,g / (h + \lambda)`. Trees of several outputs are grown
along a direction that is drawn for each of them; their leaves have a weight for every output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.sampling import row_keys
from ulmus.solvers.log_loss import losses as log_losses
from ulmus.solvers.log_loss import proportions, targets

#: Levels of a tree, step of the boosting η, and penalty λ.
DEPTH, RATE, PENALTY = 5, 0.15, 0.3
#: Intervals of a column between which thresholds lie, at most and of all columns together (but no less than a fourth of
#: the former); and columns that a tree may ask for.
BINS, CELLS, COLUMNS = 128, 4_096, 32
#: Bits of sums of derivatives by which thresholds are compared.
BITS = 25
#: Draws of rows, with replacement, by which a tree chooses its thresholds, and rows that all trees learn from, at most.
DRAWS, LEARNED = 6_000, 50_000
#: Trees before the first look at rows left out, trees that are added before the next, and trees in all, at most.
FIRST, CHUNK, MOST = 20, 10, 300
#: Chunks without a lower loss after which growing ends.
PATIENCE = 3
#: Nodes that are walked to at a time: rows times trees.
STEPS = 2**16
#: Rows whose derivatives a thread takes at a time, and rows up to which models are grown by one thread: steps are so
#: short that two would mostly wait for Python's lock (a third slower, 3,500 rows).
PIECE, FEW = 2**13, 10_000


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of symmetric trees: tree t asks ``feature[t, level]`` whether it is above ``threshold[t, level]``.

    The answers to these questions, first digit first, are the number of the leaf. Thresholds have the digits of single
    precision, as coordinates have. ``value[t, leaf, output]`` is what the leaves answer.
    """

    constant: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray

    def __post_init__(self) -> None:
        """Refuse trees of another form, such as those of files of an earlier version."""
        if not self.feature.ndim == 2 == self.threshold.ndim == self.value.ndim - 1:
            raise ValueError("trees have arrays [tree, question] and [tree, leaf, output]")
        count, questions = self.feature.shape
        if self.threshold.shape != (count, questions) or self.value.shape[:2] != (count, 2 ** min(questions, 62)):
            raise ValueError(
                f"{count} trees of {questions} questions need as many thresholds and 2^{questions} leaves each; got "
                f"arrays of shapes {self.threshold.shape} and {self.value.shape}. Fit the model again"
            )

    def __len__(self) -> int:
        return len(self.value)

    @property
    def nbytes(self) -> int:
        """Bytes of the trees."""
        return sum(each.nbytes for each in (self.feature, self.threshold, self.value))

    def scaled(self, factor: Any) -> "BoostedTrees":
        """The same with answers multiplied: by one number, or one for every output."""
        return replace(self, constant=factor * self.constant, value=factor * self.value)

    def predict(self, U: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """Answers, ``[row, output]``."""
        out = np.tile(self.constant, (len(U), 1))
        flat, first = self.value.reshape(-1, self.value.shape[2]), self.value.shape[1] * np.arange(len(self))

        def work(piece: slice) -> None:
            out[piece] += flat[self.reached(U[piece]) + first].sum(axis=1)

        for _ in engine.ordered_map(work, engine.pieces(len(U), max(1, STEPS // max(1, len(self)))), n_jobs):
            pass
        return out

    def reached(self, U: np.ndarray) -> np.ndarray:
        """The leaf of every row in every tree."""
        leaf = np.zeros((len(U), len(self)), np.intp)
        for column, cut in zip(self.feature.T, self.threshold.T, strict=True):
            leaf = 2 * leaf + (U[:, column] > cut)
        return leaf


@dataclass(frozen=True)
class Bins:
    """Columns as numbers of intervals: those that vary, and the thresholds between intervals of each."""

    column: np.ndarray
    thresholds: Sequence[np.ndarray]

    @classmethod
    def of(cls, U: np.ndarray, weight: np.ndarray) -> "Bins":
        """An interval for each value, or quantiles where values are many."""
        most = int(np.clip(CELLS // U.shape[1], BINS // 4, BINS))
        found = [_thresholds(column, weight, most) for column in U.T]
        return cls(np.flatnonzero([len(t) for t in found]), [t for t in found if len(t)])

    @property
    def sizes(self) -> np.ndarray:
        """How many intervals each column has."""
        return np.array([len(t) + 1 for t in self.thresholds], np.intp)

    def place(self, U: np.ndarray) -> np.ndarray:
        """The interval of every value, ``[column, row]``."""
        each = [np.searchsorted(t, U[:, j]) for j, t in zip(self.column, self.thresholds, strict=True)]
        return np.reshape(each, (-1, len(U))).astype(np.uint8)


def _thresholds(x: np.ndarray, weight: np.ndarray, most: int) -> np.ndarray:
    values, place = np.unique(x, return_inverse=True)
    last = np.arange(len(values) - 1)
    if len(values) > most:
        mass = np.bincount(place, weights=weight)
        rank = (np.cumsum(mass) - mass / 2) / mass.sum()
        last = np.flatnonzero(np.diff(np.searchsorted(np.arange(1, most) / most, rank)))
    return rounded_down(values[last] + (values[last + 1] - values[last]) / 2)


@dataclass
class Boosting:
    """Trees of some rows, grown one after the other; ``asked`` are answered along with them."""

    rows: Rows
    asked: np.ndarray
    by_log: bool
    rng: np.random.RandomState
    trees: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.rows)
        self.weight = np.ones(n) if self.rows.weight is None else np.asarray(self.rows.weight, dtype=np.float64)
        self.target = np.asfortranarray(targets(self.rows.T) if self.by_log else self.rows.T)
        mean = np.average(self.target, axis=0, weights=self.weight)
        if self.by_log:
            least = 1 / (self.weight.sum() + 2)
            p = np.clip(mean, least, 1 - least)
            mean = np.log(p) if len(p) > 1 else np.log(p / (1 - p))
        self.constant = mean
        self.bins = Bins.of(self.rows.X, self.weight)
        self.place, self.place_asked = (self.bins.place(U) for U in (self.rows.X, self.asked))
        # one output after the other: sums over few of them, and of each by leaves, are taken faster
        self.fitted, self.answers = (np.tile(mean[:, None], len(U)).T for U in (self.rows.X, self.asked))

    @property
    def varies(self) -> bool:
        """Whether there is a column to cut."""
        return len(self.place) > 0

    def grow(self, count: int, n_jobs: int | None = 1) -> np.ndarray:
        """Answers of the first ``count`` trees, of which the missing are grown; threads share the rows of each."""
        while len(self.trees) < count:
            self._grow(n_jobs)
        return self.answers.copy()

    def _grow(self, n_jobs: int | None) -> None:
        G, H = self._derivatives(n_jobs)
        v = self.rng.normal(size=G.shape[1]) if G.shape[1] > 1 else np.ones(1)
        some = np.flatnonzero(np.bincount(self.rng.randint(len(G), size=min(len(G), DRAWS))))
        columns = np.arange(len(self.place))
        if len(columns) > COLUMNS:
            columns = np.sort(self.rng.choice(columns, COLUMNS, replace=False))
        place = self.place[columns][:, some]
        column, cut = grown(place, self.bins.sizes[columns], G[some] @ v, H[some] @ v**2)
        column = columns[column]
        leaf, leaf_asked = (_walked(place, column, cut) for place in (self.place, self.place_asked))
        g, h = (np.stack([np.bincount(leaf, each, 2**DEPTH) for each in D.T]).T for D in (G, H))
        value = -RATE * g / (h + PENALTY)
        if G.shape[1] > 1 and self.by_log:  # scores may move together
            value *= (G.shape[1] - 1) / G.shape[1]
        self.fitted += value.T.take(leaf, axis=1).T
        self.answers += value.T.take(leaf_asked, axis=1).T
        thresholds = np.array([self._threshold(j, b) for j, b in zip(column, cut, strict=True)])
        self.trees.append((self.bins.column[column], thresholds, value))

    def _threshold(self, column: int, cut: int) -> float:
        found = self.bins.thresholds[column]
        return float(found[cut]) if cut < len(found) else np.inf  # nothing is gained by a cut: all rows on one side

    def _derivatives(self, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of the loss of every row along its scores."""
        if not self.by_log:
            w = self.weight[:, None]
            return w * (self.fitted - self.target), np.broadcast_to(w, self.target.shape)
        G, H = np.empty_like(self.fitted), np.empty_like(self.fitted)

        def work(piece: slice) -> None:
            w, p = self.weight[piece, None], proportions(self.fitted[piece])
            np.multiply(w, p - self.target[piece], out=G[piece])
            np.multiply(w, p * (1 - p), out=H[piece])

        for _ in engine.ordered_map(work, list(engine.pieces(len(G), PIECE)), n_jobs):
            pass
        return G, H


def grown(place: np.ndarray, sizes: np.ndarray, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and cut of every level of a tree, of rows in intervals: those above a cut go to the second child.

    ``place[column, row]`` is one of ``sizes`` intervals; a cut behind the last of them leaves all rows on one side.
    ``left`` are sums of the rows on the first side of every cut. They are taken over the child of a node that has fewer
    rows; those of its sibling are what is left of the node's.
    """
    first, leaf = np.cumsum(sizes) - sizes, np.zeros(place.shape[1], np.intp)
    cell, column_of = place + first[:, None], np.repeat(np.arange(len(sizes)), sizes)
    room = np.empty((2, 2 ** (DEPTH - 1), len(column_of)))
    unit = _power_of_two(max(float(h.sum()), PENALTY))
    both, penalty = packed(g / _power_of_two(float(np.abs(g).sum())), h / unit), 2.0**BITS * PENALTY / unit
    left = _sums(cell, both, leaf, 1, sizes)
    columns, cuts = np.empty((2, DEPTH), np.intp)
    for level in range(DEPTH):
        size = 2**level
        best = int(_gains(left, sizes[0] - 1, penalty).argmax())
        columns[level] = column = column_of[best]
        cuts[level] = best - first[column]
        node, above = leaf, cell[column] > best
        leaf = 2 * node + above
        if level + 1 < DEPTH:
            fewer = np.bincount(leaf, minlength=2 * size).reshape(size, 2).argmin(axis=1)
            some = np.flatnonzero(above == fewer[node])
            part, children = _sums(cell[:, some], both[some], node[some], size, sizes), 2 * np.arange(size)
            parent, left = left, room[level % 2, : 2 * size]
            left[children + fewer] = part
            left[children + 1 - fewer] = np.subtract(parent, part, out=part)
    return columns, cuts


def _power_of_two(size: float) -> float:
    """The one next to a number; 1 for 0."""
    return float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0


def packed(g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Two numbers as one, so that one sum is that of both: whole numbers below and above a power of two.

    With sums of g's sizes, and of h, up to √2 no sum of any of them is rounded, nor does g reach half of the power.
    """
    found: np.ndarray = np.rint(2.0**BITS * g) + 2.0 ** (BITS + 2) * np.rint(2.0**BITS * h)
    return found


def unpacked(both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of g and of h, each multiplied by ``2**BITS``, in single precision, from those of :func:`packed` numbers."""
    h = np.rint(both * 2.0 ** -(BITS + 2))
    return (both - 2.0 ** (BITS + 2) * h).astype(np.float32), h.astype(np.float32)


def _gains(left: np.ndarray, last: int, penalty: float) -> np.ndarray:
    """What every cut gains, summed over the nodes, from sums on its left, which are those of all rows at ``last``.

    In single precision: gains that differ by less are those of cuts that are as good.
    """
    g, h = unpacked(left)
    h += np.float32(penalty)
    G, H = g[:, last, None].copy(), h[:, last, None] + np.float32(penalty)
    gain = g * g
    gain /= h
    np.subtract(G, g, out=g)
    g *= g
    g /= np.subtract(H, h, out=h)
    gain += g
    return np.asarray(gain.sum(axis=0))


def _sums(cell: np.ndarray, x: np.ndarray, node: np.ndarray, size: int, sizes: np.ndarray) -> np.ndarray:
    """Sums of x over the rows of every node up to every cell of its column, ``[node, cell]``.

    One running sum passes through all columns: what a column comes to, the sum of the node, is taken off the first cell
    of the next one.
    """
    cells, ends = int(sizes.sum()), np.cumsum(sizes)
    if not len(node):
        return np.zeros((size, cells))
    each = np.bincount((cell + node * cells).ravel(), np.tile(x, len(cell)), size * cells).reshape(size, cells)
    each[:, ends[:-1]] -= each[:, : sizes[0]].sum(axis=1, keepdims=True)
    return np.cumsum(each, axis=1, out=each)


def _walked(place: np.ndarray, columns: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The leaf of every row of one tree, from its intervals, ``[column, row]``."""
    leaf = np.zeros(place.shape[1], np.intp)
    for column, cut in zip(columns, cuts, strict=True):
        leaf = 2 * leaf + (place[column] > cut)
    return leaf


def grown_trees(
    rows: Rows, part: np.ndarray, by_log: bool, seed: int, n_jobs: int | None
) -> tuple[BoostedTrees, np.ndarray] | None:
    """The mean of models without each part, and answers of rows by the one that did not see them (else not a number).

    All of them grow for as long as the loss of the rows left out falls. Rows of part -1 are in every model, and have no
    answers. None where nothing is left out, or no column varies.
    """
    parts = np.unique(part[part >= 0])
    if len(parts) == 0 or rows.X.shape[1] == 0:
        return None
    order = np.lexsort((*rows.T.T, row_keys(rows.X, seed)))  # what is drawn does not depend on the order of the rows

    def boosting(k: int) -> Boosting:
        known = order[part[order] != k][:LEARNED]
        return Boosting(rows.take(known), rows.X[part == k], by_log, np.random.RandomState(seed))

    def answered(count: int) -> np.ndarray:
        """Answers of the first ``count`` trees, of which the missing are grown."""
        Q = np.full(rows.T.shape, np.nan)
        within = n_jobs if len(models) == 1 else 1  # several share the threads
        found = engine.ordered_map(lambda one: one.grow(count, within), models, n_jobs if len(rows) > FEW else 1)
        for k, answers in zip(parts, found, strict=True):
            Q[part == k] = answers
        return Q

    models = [boosting(k) for k in parts]
    if not all(one.varies for one in models):
        return None
    left, weight = part >= 0, np.ones(len(rows)) if rows.weight is None else rows.weight
    best, size, since = np.inf, 0, 0
    for count in range(FIRST, MOST + 1, CHUNK):
        Q = answered(count)
        loss = float(np.average(answer_losses(rows.T[left], Q[left], by_log), weights=weight[left]))
        since += 1
        if loss < best:
            best, size, kept, since = loss, count, Q, 0
        if since >= PATIENCE:
            break
    return _together(models, size), kept


def answer_losses(T: np.ndarray, Q: np.ndarray, by_log: bool) -> np.ndarray:
    """Loss of every row: log loss of scores, or squared error."""
    return log_losses(targets(T), Q) if by_log else ((T - Q) ** 2).sum(axis=1)


def _together(models: Sequence[Boosting], size: int) -> BoostedTrees:
    """The mean of models, each by its first trees."""
    columns = zip(*(tree for model in models for tree in model.trees[:size]), strict=True)
    feature, threshold, value = (np.stack(each) for each in columns)
    constant = np.mean([model.constant for model in models], axis=0)
    return BoostedTrees(constant, feature, threshold, value / len(models))


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest numbers of single precision that are not above: the same side for all values of that precision."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)
