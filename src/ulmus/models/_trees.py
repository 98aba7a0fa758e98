"""A member of boosted trees beside both stages: how large a share rows left out give it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from ulmus.calibration import HeldOut
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.sampling import row_keys
from ulmus.models._stages import Stages
from ulmus.solvers.boosted import BoostedTrees, answer_losses, grown_trees

#: Parts of the rows, without each of which trees are grown once.
PARTS = 5
#: Rows from which on there are trees, and classes, which are trees of a round, at most.
FEW, CLASSES = 200, 20
#: Trees are taken where they lower the loss of rows left out by this share.
CLEARLY = 0.005


def with_trees(stages: Stages, rows: Rows, seed: int, n_jobs: int | None, say: Callable[[str], None]) -> Stages:
    """Kernels and trees, by the share that the rows held out of the stages are best answered with.

    ``rows`` are those of the stages, in their units. Answers are the mean of two models' answers, or log-odds.
    """
    held_out, by_log = stages.held_out, stages.loss == "log"
    if len(rows) < FEW or held_out is None or held_out.place is None or rows.T.shape[1] > CLASSES:
        return stages
    labels = OneVsAll.class_scores(rows.T).argmax(axis=1) if by_log else None
    if labels is not None and len(np.unique(labels)) < max(2, rows.T.shape[1]):
        return stages  # a class without rows is none for trees
    grown = grown_trees(rows, parts_for_trees(rows, labels, seed), labels, seed, n_jobs)
    if grown is None:
        return stages
    trees, answers = grown
    share, loss, without = best_share(held_out, answers[held_out.place], by_log)
    taken = loss < (1 - CLEARLY) * without
    kept = f"taken, weight {share:.2g}" if taken else "left out"
    say(f"{len(trees)} trees: loss {loss:.4g} against {without:.4g} without them ({kept})")
    stages = replace(stages, tree_losses=(loss, without))
    return mixed(stages, trees, answers[held_out.place], share) if taken else stages


def parts_for_trees(rows: Rows, labels: np.ndarray | None, seed: int) -> np.ndarray:
    """Parts that trees leave out, copies and groups together; -1 for rows of a class that one part holds all of."""
    part = (row_keys(rows.X, seed) % np.uint64(PARTS)).astype(np.intp)
    if rows.fold is not None:
        part = np.where(rows.fold >= 0, rows.fold % PARTS, -1)
    if labels is not None:
        for label in np.unique(labels):
            if len(np.unique(part[labels == label])) == 1:
                part[labels == label] = -1
    return part


def best_share(held_out: HeldOut, answers: np.ndarray, by_log: bool) -> tuple[float, float, float]:
    """The best weight of trees, the loss with it, and without trees; rows without an answer of trees have no say."""
    told = ~np.isnan(answers).any(axis=1)
    T, P, Q, weight = held_out.T[told], held_out.P[told], answers[told], held_out.weight[told]

    def loss(share: float) -> float:
        return float(np.average(answer_losses(T, (1 - share) * P + share * Q, by_log), weights=weight))

    best = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    return float(best.x), float(best.fun), loss(0.0)


def mixed(stages: Stages, trees: BoostedTrees, answers: np.ndarray, share: float) -> Stages:
    """The stages and the trees, each by its weight; rows held out are answered by both."""
    held_out, told = stages.held_out, ~np.isnan(answers).any(axis=1)
    P = held_out.P.copy()
    P[told] += share * (answers - P)[told]
    return replace(
        stages,
        beta=(1 - share) * stages.beta,
        intercept=(1 - share) * stages.intercept,
        local=None if stages.local is None else stages.local.scaled(1 - share),
        trees=trees.scaled(share),
        tree_weight=share,
        held_out=replace(held_out, P=P),
    )
