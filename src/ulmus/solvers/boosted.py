r"""Boosted trees beside kernels: layers of hard thresholds that are learned, with weights in closed form.

A tree of depth D is a hidden layer of :math:`2^D` nodes, each a product of D thresholds on columns
(:mod:`ulmus.solvers.symmetric_trees`). The weight of a leaf is one Newton step, :math:`-\eta\,g / (h + \lambda)`, with
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
from ulmus.solvers.log_loss import proportions, targets
from ulmus.solvers.symmetric_trees import DEPTH, PENALTY, Bins, grown, leaves

#: Step of the boosting η.
RATE = 0.15
#: Columns that a tree may ask for.
COLUMNS = 32
#: Draws of rows, with replacement, by which a tree chooses its thresholds, and rows that all trees learn from, at most.
DRAWS, LEARNED = 6_000, 50_000
#: Trees before the first look at rows left out, trees that are added before the next, and trees in all, at most.
FIRST, CHUNK, MOST = 20, 10, 300
#: Chunks without a lower loss after which growing ends.
PATIENCE = 2
#: Nodes that are walked to at a time: rows times trees.
STEPS = 2**16
#: Rows whose derivatives a thread takes at a time.
PIECE = 2**13
#: Values of the rows that a tree may ask for, up to which trees of all models are grown by the same steps: of more,
#: arrays outgrow the cache.
TOGETHER = 2**17
#: Rows up to which trees are grown by one thread: steps are so short that two would mostly wait for Python's lock (a
#: third slower, 3,500 rows).
ALONE = 10_000


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
    """Models of the same rows, of which each knows some (``known[model, row]``), grown tree by tree.

    ``fitted[output, model, row]`` are the answers of all models, whether they know a row or not; ``place[model, column,
    row]`` is the interval that a value lies in, by the ``bins`` of each model.
    """

    rows: Rows
    known: np.ndarray
    by_log: bool
    rng: np.random.RandomState
    bins: Sequence[Bins]
    trees: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weight = self.known * self.rows.weights
        self.target = np.ascontiguousarray((targets(self.rows.T) if self.by_log else self.rows.T).T)
        mean = self.weight @ self.target.T / self.weight.sum(axis=1, keepdims=True)
        if self.by_log:
            least = 1 / (self.weight.sum(axis=1, keepdims=True) + 2)
            p = np.clip(mean, least, 1 - least)
            mean = np.log(p) if p.shape[1] > 1 else np.log(p / (1 - p))
        self.constant = mean
        self.fitted = np.repeat(mean.T[:, :, None], len(self.rows), axis=2)
        self.place = np.stack([own.place(self.rows.X) for own in self.bins])
        self.sizes = np.max([own.sizes for own in self.bins], axis=0)

    def grow(self, count: int, n_jobs: int | None = 1) -> None:
        """Grow as many trees of every model as ``count`` lacks; threads share the rows of each."""
        while len(self.trees) < count:
            self._grow(n_jobs)

    def _grow(self, n_jobs: int | None) -> None:
        G, H = (D.reshape(len(D), -1) for D in self._derivatives(n_jobs))
        column, cut = self._questions(G, H)
        models = len(column)
        leaf = (leaves(self.place, column, cut) + 2**DEPTH * np.arange(models)[:, None]).ravel()
        g, h = (np.stack([np.bincount(leaf, each, models * 2**DEPTH) for each in D]) for D in (G, H))
        value = -RATE * g / (h + PENALTY)
        if len(G) > 1 and self.by_log:  # scores may move together
            value *= (len(G) - 1) / len(G)
        self.fitted += value.take(leaf, axis=1).reshape(self.fitted.shape)
        thresholds = np.array([own.at(*asked) for own, *asked in zip(self.bins, column, cut, strict=True)])
        value = np.ascontiguousarray(value.reshape(len(G), models, -1).transpose(1, 2, 0))
        self.trees.append((self.bins[0].column[column], thresholds, value))

    def _questions(self, G: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and cut of every level of the next tree of every model, from rows and columns that are drawn."""
        known = self.known.sum(axis=1)
        drawn = self.rng.randint(known.sum(), size=np.minimum(known, DRAWS).sum())
        some = np.flatnonzero(self.known)[np.flatnonzero(np.bincount(drawn))]
        model, row = np.divmod(some, len(self.rows))
        columns = np.arange(len(self.sizes))
        if len(columns) > COLUMNS:
            columns = np.sort(self.rng.choice(columns, COLUMNS, replace=False))
        g, h = G[0, some], H[0, some]
        if len(G) > 1:
            v = self.rng.normal(size=(len(G), len(known)))[:, model]
            g, h = (np.einsum("kr,kr->r", each, D[:, some]) for each, D in ((v, G), (v * v, H)))
        counts = np.bincount(model, minlength=len(known))
        rows = np.split(row, np.cumsum(counts)[:-1])
        every = len(columns) == len(self.sizes)
        asked = zip(self.place, rows, strict=True)
        place = np.concatenate([(of if every else of[columns]).take(own, axis=1) for of, own in asked], axis=1)
        column, cut = grown(place, self.sizes[columns], g, h, counts)
        return columns[column], cut

    def _derivatives(self, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of the loss of every row along its scores, by every model."""
        if not self.by_log:
            G = self.weight * (self.fitted - self.target[:, None])
            return G, np.broadcast_to(self.weight, G.shape)
        G, H = np.empty_like(self.fitted), np.empty_like(self.fitted)

        def work(piece: slice) -> None:
            w, y = self.weight[:, piece], self.target[:, None, piece]
            p = np.moveaxis(proportions(np.moveaxis(self.fitted[:, :, piece], 0, -1)), -1, 0)
            np.multiply(w, p - y, out=G[:, :, piece])
            np.multiply(w, p * (1 - p), out=H[:, :, piece])

        for _ in engine.ordered_map(work, list(engine.pieces(G.shape[2], PIECE)), n_jobs):
            pass
        return G, H


def grown_trees(
    rows: Rows, part: np.ndarray, by_log: bool, seed: int, n_jobs: int | None
) -> tuple[BoostedTrees, np.ndarray] | None:
    """The mean of models without each part, and answers of rows by the one that did not see them (else not a number).

    All of them grow for as long as the loss of the rows left out falls. Rows of part -1 are in every model, and have no
    answers. None where nothing is left out, or no column varies.
    """
    parts, rows_of_all = np.unique(part[part >= 0]), len(rows)
    if len(parts) == 0 or rows.X.shape[1] == 0:
        return None
    order = np.lexsort((*rows.T.T, row_keys(rows.X, seed)))  # what is drawn does not depend on the order of the rows
    known = part[order] != parts[:, None]
    known &= np.cumsum(known, axis=1) <= LEARNED
    kept = (known | (part[order] == parts[:, None])).any(axis=0)
    order, known = order[kept], known[:, kept]
    rows, part = rows.take(order), part[order]
    bins = Bins.of(rows.X, rows.weights, len(parts))
    if not len(bins[0].column):
        return None
    groups = [(known, bins)]
    if len(rows) * min(len(bins[0].column), COLUMNS) > TOGETHER:
        groups = [(known[[k]], [own]) for k, own in enumerate(bins)]
    models = [Boosting(rows, some, by_log, np.random.RandomState(seed), own) for some, own in groups]
    left, weight = part >= 0, rows.weights
    own = without(part)[left]
    n_jobs = n_jobs if len(rows) > ALONE else 1
    within = n_jobs if len(models) == 1 else 1  # several share the threads
    best, size, since = np.inf, 0, 0
    for count in range(FIRST, MOST + 1, CHUNK):
        for _ in engine.ordered_map(partial(Boosting.grow, count=count, n_jobs=within), models, n_jobs):
            pass
        Q = np.concatenate([each.fitted for each in models], axis=1)[:, own, np.flatnonzero(left)].T
        loss = float(np.average(answer_losses(rows.T[left], Q, by_log), weights=weight[left]))
        since += 1
        if loss < best:
            best, size, answers, since = loss, count, Q, 0
        if since >= PATIENCE:
            break
    every = np.full((rows_of_all, rows.T.shape[1]), np.nan)
    every[order[left]] = answers
    return _together(models, size), every


def without(part: np.ndarray) -> np.ndarray:
    """Which of the models of :func:`grown_trees` did not see a row; -1 where all did."""
    return np.where(part >= 0, np.searchsorted(np.unique(part[part >= 0]), part), -1)


def answer_losses(T: np.ndarray, Q: np.ndarray, by_log: bool) -> np.ndarray:
    """Loss of every row: log loss of scores, or squared error."""
    return log_losses(targets(T), Q) if by_log else ((T - Q) ** 2).sum(axis=1)


def _together(boostings: Sequence[Boosting], size: int) -> BoostedTrees:
    """The mean of all models, each by its first trees, one model after the other."""
    constant = np.concatenate([each.constant for each in boostings])
    columns = zip(*(tree for each in boostings for tree in _one_by_one(each, size)), strict=True)
    feature, threshold, value = (np.stack(each) for each in columns)
    mean = constant.mean(axis=0)
    value[::size] += (constant - mean)[:, None]  # the first tree of each tells its own constant
    return BoostedTrees(mean, feature, threshold, value / len(constant), len(constant))


def _one_by_one(boosting: Boosting, size: int) -> list[tuple[np.ndarray, ...]]:
    """The first trees of the first model, then those of the second."""
    models = range(len(boosting.known))
    return [tuple(of_all[model] for of_all in tree) for model in models for tree in boosting.trees[:size]]
