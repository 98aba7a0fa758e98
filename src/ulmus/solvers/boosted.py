r"""Boosted trees beside kernels: layers of hard thresholds that are learned, with weights in closed form.

A tree of depth D is a hidden layer of :math:`2^D` nodes, each a product of D thresholds on columns
(:mod:`ulmus.solvers.tree_steps`). The weight of a leaf is one Newton step, :math:`-\eta\,g / (h + \lambda)`, with
g and h the sums of first and second derivatives of the loss in it. Trees of several outputs are grown along a direction
that is drawn for each of them; their leaves have a weight for every output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.sampling import row_keys
from ulmus.solvers.log_loss import losses as log_losses
from ulmus.solvers.log_loss import targets
from ulmus.solvers.tree_bins import Bins
from ulmus.solvers.tree_steps import Drawn, Grown, Losses, answered, boosted

#: Levels of a tree, penalty λ of its leaves, and step of the boosting η, unless another one is asked for.
DEPTH, PENALTY, RATE = 5, 0.3, 0.15
#: Columns that a tree may ask for.
COLUMNS = 32
#: Draws of rows, with replacement, by which a tree chooses its thresholds, and rows that all trees learn from, at most.
DRAWS, LEARNED = 6_000, 50_000
#: Trees before the first look at rows left out, trees that are added before the next, and trees in all, at most.
FIRST, CHUNK, MOST = 20, 10, 1_000
#: Trees after which a look must lower the loss by this share: what rules leave falls for long, and else little is left.
#: Of smaller steps there may be as many more.
MANY, WORTH = 300, 0.001
#: Trees by which those that ask means of targets are compared with those that do not, which go on where they lose less
#: than this many times as much.
GLANCE, CLOSE = 40, 1.005
#: Chunks without a lower loss after which growing ends.
PATIENCE = 2
#: Rows times trees that are asked at a time.
STEPS = 2**20


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of symmetric trees: tree t asks ``feature[t, level]`` whether it is above ``threshold[t, level]``.

    The answers to these questions, first digit first, are the number of the leaf. Thresholds have the digits of single
    precision, as coordinates have. ``value[t, leaf, output]`` is what the leaves answer. It may be the mean of several
    ``models`` with as many trees each, which follow each other.
    """

    constant: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    models: int = 1

    def __post_init__(self) -> None:
        """Refuse trees of another form, such as those of files of an earlier version."""
        if not self.feature.ndim == 2 == self.threshold.ndim == self.value.ndim - 1:
            raise ValueError("trees have arrays [tree, question] and [tree, leaf, output]")
        count, questions = self.feature.shape
        if self.models < 1 or count % self.models:
            raise ValueError(f"{count} trees are not those of {self.models} models with as many each")
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

    def moved(self, by: Any) -> "BoostedTrees":
        """The same with another constant: this much more."""
        return replace(self, constant=self.constant + by)

    def apart(self) -> list["BoostedTrees"]:
        """The models whose mean this is."""
        split = (np.split(each, self.models) for each in (self.feature, self.threshold, self.models * self.value))
        return [BoostedTrees(self.constant, *own) for own in zip(*split, strict=True)]

    def predict(self, U: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """Answers, ``[row, output]``."""
        U, out = np.ascontiguousarray(U, dtype=np.float64), np.tile(self.constant, (len(U), 1))
        feature = self.feature.astype(np.int64, copy=False)

        def work(piece: slice) -> None:
            answered(feature, self.threshold, self.value, U[piece], out[piece])

        engine.on_threads(work, list(engine.pieces(len(U), max(1, STEPS // max(1, len(self))))), n_jobs)
        return out

    def reached(self, U: np.ndarray) -> np.ndarray:
        """The leaf of every row in every tree."""
        leaf = np.zeros((len(U), len(self)), np.intp)
        for column, cut in zip(self.feature.T, self.threshold.T, strict=True):
            leaf = 2 * leaf + (U[:, column] > cut)
        return leaf


@dataclass(frozen=True)
class PartTrees:
    """Trees whose mean is that of models without some rows each; which one is ``without`` a row, or -1."""

    trees: BoostedTrees
    without: np.ndarray

    def answers(self, U: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Answers to ``U``, each by the trees that did not see one of the rows, or, where there are none, by all."""
        found = [model.predict(U, 1) for model in self.trees.apart()]
        out = np.mean(found, axis=0)
        for k, answers in enumerate(found):
            mine = self.without[rows] == k
            out[mine] = answers[mine]
        return np.asarray(out)

    def changes(self, U: np.ndarray) -> np.ndarray:
        """``[answer, row, output]``: what answers to ``U`` gain when only those without each row are asked."""
        found = np.stack([model.predict(U, 1) for model in self.trees.apart()], axis=1)
        changes = (found - found.mean(axis=1, keepdims=True))[:, self.without]
        return np.where(self.without[:, None] >= 0, changes, 0.0)


@dataclass
class Boosting:
    """A model of the ``known`` rows, grown tree by tree; ``fitted[output, row]`` are its answers to all of them.

    Trees ask these ``columns`` of the bins.
    """

    rows: Rows
    known: np.ndarray
    by_log: bool
    rng: np.random.RandomState
    bins: Bins
    columns: np.ndarray
    rate: float = RATE
    chunks: list[Grown] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weight = self.known * self.rows.weights
        self.target = np.ascontiguousarray((targets(self.rows.T) if self.by_log else self.rows.T).T)
        total = self.weight.sum()
        mean = self.target @ self.weight / total
        if self.by_log:
            p = np.clip(mean, 1 / (total + 2), 1 - 1 / (total + 2))
            mean = np.log(p) if len(p) > 1 else np.log(p / (1 - p))
        self.constant = mean
        self.fitted = np.repeat(mean[:, None], len(self.rows), axis=1)
        self.learned = np.flatnonzero(self.known)
        self.drawn = 1 - (1 - 1 / len(self.learned)) ** min(len(self.learned), DRAWS)

    def grow(self, count: int) -> None:
        """Grow as many trees as ``count`` lacks."""
        more = count - sum(len(chunk.value) for chunk in self.chunks)
        if more < 1:
            return
        losses = Losses(self.target, self.weight, self.by_log)
        self.chunks.append(boosted(self.bins.table, self._drawn(more), losses, self.fitted, self.rate, PENALTY, DEPTH))

    def first(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, thresholds and values of so many trees."""
        column, cut, value = (np.concatenate(each)[:count] for each in zip(*self.chunks, strict=True))
        return *self.bins.at(column, cut), value

    def _drawn(self, count: int) -> Drawn:
        """What so many trees choose their questions by."""
        k, rows, columns = len(self.target), self.learned, np.tile(self.columns, (count, 1))
        if len(self.columns) > COLUMNS:
            some = [self.rng.choice(self.columns, COLUMNS, replace=False) for _ in range(count)]
            columns = np.sort(np.stack(some), axis=1)
        digits = self.rng.randint(2**16, size=(count, len(rows)), dtype=np.uint16)
        direction = self.rng.normal(size=(count, k)) if k > 1 else np.ones((count, 1))
        return Drawn(rows, digits, columns, direction, int(np.ceil(2**16 * self.drawn)))


def grown_trees(
    rows: Rows,
    part: np.ndarray,
    by_log: bool,
    seed: int,
    n_jobs: int | None,
    means: np.ndarray | None = None,
    rate: float = RATE,
) -> tuple[BoostedTrees, np.ndarray] | None:
    """The mean of models without each part, and answers of rows by the one that did not see them (else not a number).

    All of them grow for as long as the loss of the rows left out falls. Rows of part -1 are in every model, and have no
    answers. None where nothing is left out, or everything, or no column varies. Trees that ask no ``means`` of targets
    are begun too, and go on where they lose no more: means are taken from other parts of the rows, so that among rows
    of one level they tell trees in which part a row is, and so of its target.
    """
    parts, rows_of_all = np.unique(part[part >= 0]), len(rows)
    if len(parts) == 0 or rows.X.shape[1] == 0:
        return None
    order = np.lexsort((*rows.T.T, row_keys(rows.X, seed)))  # what is drawn does not depend on the order of the rows
    known = part[order] != parts[:, None]
    if not known.any(axis=1).all():
        return None
    known &= np.cumsum(known, axis=1) <= LEARNED
    kept = (known | (part[order] == parts[:, None])).any(axis=0)
    order, known = order[kept], known[:, kept]
    rows, part = rows.take(order), part[order]
    bins = Bins.of(rows.X, rows.weights, len(parts), means)
    every = np.arange(len(bins[0]))
    some = every if means is None else every[[not means[of].any() for of in bins[0].features]]
    if not len(every):
        return None

    def growth(columns: np.ndarray) -> "_Growth":
        own = zip(known, (np.random.RandomState((seed, k)) for k in range(len(parts))), bins, strict=True)
        return _Growth([Boosting(rows, those, by_log, rng, of, columns, rate) for those, rng, of in own], part, n_jobs)

    found = growth(every)
    if 0 < len(some) < len(every):
        plain = growth(some)
        if plain.to(GLANCE) < CLOSE * found.to(GLANCE):
            found = plain
    found.to(MOST)
    answers = np.full((rows_of_all, rows.T.shape[1]), np.nan)
    answers[order[part >= 0]] = found.answers
    return _together(found.models, found.size), answers


@dataclass
class _Growth:
    """Models of the same rows, each without its ``part``, as they grow; ``size`` is that with the lowest loss so far.

    The loss, and the answers, are those of the rows left out, each by the model that does not know it.
    """

    models: list[Boosting]
    part: np.ndarray
    n_jobs: int | None
    count: int = 0
    size: int = 0
    least: float = np.inf
    loss: float = np.inf
    since: int = 0
    answers: np.ndarray = field(default_factory=lambda: np.empty(0))

    def to(self, count: int) -> float:
        """Grow up to so many trees, or for as long as the loss falls; the loss at the end."""
        rows, by_log, left = self.models[0].rows, self.models[0].by_log, self.part >= 0
        own, place, many = without(self.part)[left], np.flatnonzero(left), MANY * RATE / self.models[0].rate
        while self.count < count and self.since < PATIENCE:
            self.count += CHUNK if self.count else FIRST
            engine.on_threads(partial(Boosting.grow, count=self.count), self.models, self.n_jobs)
            Q = np.stack([each.fitted for each in self.models], axis=1)[:, own, place].T
            losses = answer_losses(rows.T[left], Q, by_log)
            self.loss, self.since = float(np.average(losses, weights=rows.weights[left])), self.since + 1
            if self.loss < (1.0 - (WORTH if self.count > many else 0.0)) * self.least:
                self.since = 0
            if self.loss < self.least:
                self.least, self.size, self.answers = self.loss, self.count, Q
        return self.loss


def without(part: np.ndarray) -> np.ndarray:
    """Which of the models of :func:`grown_trees` did not see a row; -1 where all did."""
    return np.where(part >= 0, np.searchsorted(np.unique(part[part >= 0]), part), -1)


def answer_losses(T: np.ndarray, Q: np.ndarray, by_log: bool) -> np.ndarray:
    """Loss of every row: log loss of scores, or squared error."""
    return log_losses(targets(T), Q) if by_log else ((T - Q) ** 2).sum(axis=1)


def _together(models: Sequence[Boosting], size: int) -> BoostedTrees:
    """The mean of all models, each by its first trees, one model after the other."""
    constant = np.stack([each.constant for each in models])
    feature, threshold, value = map(np.concatenate, zip(*(each.first(size) for each in models), strict=True))
    mean = constant.mean(axis=0)
    value[::size] += (constant - mean)[:, None]  # the first tree of each tells its own constant
    return BoostedTrees(mean, feature, threshold, value / len(constant), len(constant))
