"""Boosted trees as a member beside kernels: scikit-learn grows them, arrays hold them.

They are grown without one part of the rows at a time, all of them for as long as the loss of the rows left out falls.
The member is the mean of these models, and every row has an answer by one that did not see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from ulmus import engine
from ulmus.engine import Rows
from ulmus.solvers.log_loss import losses as log_losses
from ulmus.solvers.log_loss import targets

#: Step of the boosting, trees that are added before rows left out are asked again, and trees in all, at most.
RATE, CHUNK, MOST = 0.05, 20, 400
#: Chunks without a lower loss after which growing ends.
PATIENCE = 2
#: Nodes that are walked to at a time: rows times trees.
STEPS = 2**20


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of trees; tree t adds to the output ``output[t]``.

    Its nodes are those from ``nodes[t]`` to ``nodes[t + 1]``, the root first, its leaves those from ``leaves[t]`` on.
    ``children`` are nodes, or ``-1 - leaf``; values up to ``threshold`` go left. Thresholds have the digits of single
    precision, as coordinates have.
    """

    constant: np.ndarray
    output: np.ndarray
    nodes: np.ndarray
    leaves: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.output)

    @property
    def nbytes(self) -> int:
        """Bytes of the trees."""
        return sum(each.nbytes for each in (self.feature, self.threshold, self.children, self.value))

    def scaled(self, factor: Any) -> "BoostedTrees":
        """The same with answers multiplied: by one number, or one for every output."""
        each = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.constant.shape)
        of_leaf = np.repeat(self.output, np.diff(self.leaves))
        return replace(self, constant=each * self.constant, value=each[of_leaf] * self.value)

    def predict(self, U: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
        """Answers, ``[row, output]``."""
        out = np.tile(self.constant, (len(U), 1))

        def work(piece: slice) -> None:
            reached = self.value[self.reached(U[piece])]
            for k in range(out.shape[1]):
                out[piece, k] += reached[:, self.output == k].sum(axis=1)

        for _ in engine.ordered_map(work, engine.pieces(len(U), max(1, STEPS // len(self))), n_jobs):
            pass
        return out

    def reached(self, U: np.ndarray) -> np.ndarray:
        """The leaf of every row in every tree.

        Children come after their parents, so that a way ends; a forged file whose ways turn back is refused here.
        """
        first = np.where(np.diff(self.nodes) > 0, self.nodes[:-1], -1 - self.leaves[:-1])
        rows, trees = np.indices((len(U), len(self))).reshape(2, -1)
        node = first[trees]
        inside = np.flatnonzero(node >= 0)
        while len(inside):
            here = node[inside]
            right = U[rows[inside], self.feature[here]] > self.threshold[here]
            node[inside] = found = self.children[here, right.astype(np.intp)]
            on = found >= 0
            if (found[on] <= here[on]).any():
                raise ValueError("a node of these trees leads back to one before it: their file is damaged or forged")
            inside = inside[on]
        return np.asarray((-1 - node).reshape(len(U), -1))


@dataclass
class _Growing:
    """Boosted trees of some rows; labels are those of a classifier, else there is one model for each target."""

    rows: Rows
    labels: np.ndarray | None
    seed: int

    def __post_init__(self) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingRegressor if self.labels is None else HistGradientBoostingClassifier
        targets = self.rows.T.T if self.labels is None else [self.labels]
        common: dict[str, Any] = {"learning_rate": RATE, "warm_start": True, "early_stopping": False}
        self.models = [(kind(random_state=self.seed, **common), t) for t in targets]

    def grow(self, size: int) -> None:
        for model, t in self.models:
            model.set_params(max_iter=size).fit(self.rows.X, t, sample_weight=self.rows.weight)

    def predict(self, U: np.ndarray) -> np.ndarray:
        ask = "predict" if self.labels is None else "decision_function"
        return np.column_stack([getattr(model, ask)(U) for model, _ in self.models])


def grown_trees(
    rows: Rows, part: np.ndarray, labels: np.ndarray | None, seed: int, n_jobs: int | None
) -> tuple[BoostedTrees, np.ndarray] | None:
    """The mean of models without each part, and answers of rows by the one that did not see them (else not a number).

    Rows of part -1 are in all of them. None where there are not two parts.
    """
    parts = np.unique(part[part >= 0])
    if len(parts) < 2:
        return None
    folds = [_Growing(rows.take(part != k), None if labels is None else labels[part != k], seed) for k in parts]
    left = np.flatnonzero(part >= 0)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    best, size, since = np.inf, 0, 0
    with threadpool_limits(effective_n_jobs(n_jobs), user_api="openmp"):
        for count in range(CHUNK, MOST + 1, CHUNK):
            Q = np.full((len(rows), rows.T.shape[1]), np.nan)
            for k, fold in zip(parts, folds, strict=True):
                fold.grow(count)
                Q[part == k] = fold.predict(rows.X[part == k])
            loss = float(np.average(answer_losses(rows.T[left], Q[left], labels is not None), weights=weight[left]))
            since += 1
            if loss < best:
                best, size, answers, since = loss, count, Q, 0
            if since >= PATIENCE:
                break
    return _together([[model for model, _ in fold.models] for fold in folds], size), answers


def answer_losses(T: np.ndarray, Q: np.ndarray, by_log: bool) -> np.ndarray:
    """Loss of every row: log loss of scores, or squared error."""
    return log_losses(targets(T), Q) if by_log else ((T - Q) ** 2).sum(axis=1)


def _together(models: Sequence[Sequence[Any]], size: int) -> BoostedTrees:
    """The mean of fitted models of scikit-learn, by their first so many rounds."""
    grown = [
        (k, tree.nodes)
        for fold in models
        for i in range(size)
        for k, tree in enumerate(tree for booster in fold for tree in booster._predictors[i])
    ]
    is_leaf = [nodes["is_leaf"].astype(bool) for _, nodes in grown]
    leaves = np.cumsum([0, *(leaf.sum() for leaf in is_leaf)])
    nodes = np.cumsum([0, *((~leaf).sum() for leaf in is_leaf)])
    children = []
    for (_, tree), leaf, node, own in zip(grown, is_leaf, nodes[:-1], leaves[:-1], strict=True):
        number = np.where(leaf, -own - np.cumsum(leaf), node + np.cumsum(~leaf) - 1)
        children.append(np.column_stack([number[tree[side][~leaf]] for side in ("left", "right")]))

    def joined(name: str, *, of_leaves: bool = False) -> np.ndarray:
        parts = (tree[name][leaf == of_leaves] for (_, tree), leaf in zip(grown, is_leaf, strict=True))
        return np.concatenate(list(parts))

    constants = [np.concatenate([np.ravel(booster._baseline_prediction) for booster in fold]) for fold in models]
    return BoostedTrees(
        constant=np.mean(constants, axis=0),
        output=np.array([k for k, _ in grown], np.intp),
        nodes=nodes,
        leaves=leaves,
        feature=joined("feature_idx").astype(np.intp),
        threshold=rounded_down(joined("num_threshold")),
        children=np.concatenate(children),
        value=joined("value", of_leaves=True) / len(models),
    )


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest numbers of single precision that are not above: the same side for all values of that precision."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)
