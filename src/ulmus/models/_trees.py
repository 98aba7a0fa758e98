"""A member of boosted trees beside both stages: how large a share rows left out give it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from ulmus.calibration import HeldOut
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.sampling import row_keys
from ulmus.models._stages import Stages
from ulmus.solvers.boosted import LEARNED, BoostedTrees, answer_losses, grown_trees

Say = Callable[[str], None]

#: Rows from which on there are trees, and up to which (of more they would learn from a quarter at most); and classes.
FEW, MANY, CLASSES = 200, 4 * LEARNED, 20
#: Logarithms, to base 2, of the factors of scores that are tried, and how finely.
SCALES = (-3.0, 3.0)
COARSE, FINE = ({"method": "bounded", "options": {"xatol": close}} for close in (0.05, 1e-3))
#: Kernels with a local stage keep at least this share: rows left out know it by one partition of several.
LOCAL_SHARE = 0.5
#: Trees grow on where the first of them, beside the kernels, lower the loss of rows left out by this share of what it
#: takes for them to be taken.
HOPE = 0.3
#: Standard errors from which on a gain is clear, and beside a local stage, unless it is this share of the loss; what is
#: not clear but above the next number of standard errors gets half of the share. Nats of all rows left out together.
CHANCE, LOCAL_CHANCE, CLEARLY, DOUBTED, NATS = 1.0, 2.0, 0.1, 0.25, 1.0


def with_trees(
    stages: Stages, rows: Rows, gain: float, glance: bool, parts: int, seed: int, n_jobs: int | None, say: Say
) -> Stages:
    """Kernels and trees, by the share that the rows held out of the stages are best answered with.

    Trees are taken where that lowers their loss by the share ``gain``; with ``glance`` the first of them decide whether
    the rest are grown. They are grown without each of several ``parts`` of the rows. ``rows`` are those of the stages,
    in their units. Answers are the mean of two models' answers, or log-odds.
    """
    held_out, by_log = stages.held_out, stages.loss == "log"
    if not FEW <= len(rows) <= MANY or rows.T.shape[1] > CLASSES or held_out is None or held_out.place is None:
        return stages
    place, behind_leaves = held_out.place, by_log and stages.local is not None

    def asked(answers: np.ndarray) -> Share:
        most, clear = (LOCAL_SHARE, LOCAL_CHANCE) if behind_leaves else (1.0, CHANCE)
        return best_share(held_out, answers[place], by_log, most, clear)

    def hopeful(answers: np.ndarray) -> bool:
        """Whether some of it is there already, for what a part of the rows can say."""
        found = asked(answers)
        return found.without > found.nat and found.gain > HOPE * max(gain * found.without, DOUBTED * found.error)

    part = parts_for_trees(rows, place, parts, by_log, seed)
    grown = grown_trees(rows, part, by_log, seed, n_jobs, hopeful if glance else None)
    if grown is None:
        return stages
    trees, answers = grown
    found = asked(answers)
    taken = found.gain > max(gain * found.without, DOUBTED * found.error, found.nat)
    kept = f"taken, weight {found.share:.2g}" if taken else "left out"
    say(f"{len(trees)} trees: loss {found.loss:.4g} against {found.without:.4g} without them ({kept})")
    stages = replace(stages, tree_losses=(found.loss, found.without))
    return mixed(stages, trees, answers[place], found.share) if taken else stages


def parts_for_trees(rows: Rows, place: np.ndarray, parts: int, by_log: bool, seed: int) -> np.ndarray:
    """Parts that trees leave out, copies and groups together; -1 for rows of a class that one part holds all of.

    Where the rows that kernels left out, at these places, are a few of many, they are the only part.
    """
    part = (row_keys(rows.X, seed) % np.uint64(parts)).astype(np.intp)
    if rows.fold is not None:
        part = np.where(rows.fold >= 0, rows.fold % parts, -1)
    elif 2 * len(np.unique(place)) < len(rows):
        part = np.where(np.isin(np.arange(len(rows)), place), 0, -1)
    if by_log:
        labels = OneVsAll.class_scores(rows.T).argmax(axis=1)
        for label in np.unique(labels):
            if len(np.unique(part[labels == label])) == 1:
                part[labels == label] = -1
    return part


@dataclass(frozen=True)
class Share:
    """The share that trees get; losses with it and without trees, standard error of the difference, and the least that
    can be told apart.
    """

    share: float
    loss: float
    without: float
    error: float
    nat: float

    @property
    def gain(self) -> float:
        """By how much trees lower the loss."""
        return self.without - self.loss


def best_share(held_out: HeldOut, answers: np.ndarray, by_log: bool, most: float = 1.0, clear: float = CHANCE) -> Share:
    """What rows that neither kernels nor trees have seen say: nothing, where none has an answer of trees.

    Half of the best share, where what it gains is less than this many standard errors: rows that chose it flatter it.
    Scores of a log loss are multiplied by what is best for them in either case, as a temperature will do.
    """
    known = ~np.isnan(answers).any(axis=1)
    if not known.any():
        return Share(0.0, 0.0, 0.0, 0.0, np.inf)
    T, P, Q, weight = held_out.T[known], held_out.P[known], answers[known], held_out.weight[known]
    total = float(weight.sum())

    def losses(share: float) -> np.ndarray:
        answered = (1 - share) * P + share * Q
        if not by_log:
            return answer_losses(T, answered, by_log)
        scale = minimize_scalar(
            lambda log2: weight @ answer_losses(T, 2.0**log2 * answered, by_log), bounds=SCALES, **COARSE
        )
        return answer_losses(T, 2.0**scale.x * answered, by_log)

    without = losses(0.0)

    def at(share: float) -> Share:
        gain = without - losses(share)
        error = float(np.sqrt(weight @ (gain - np.average(gain, weights=weight)) ** 2)) / total
        before = float(weight @ without / total)
        return Share(share, before - float(weight @ gain / total), before, error, NATS / total if by_log else 0.0)

    best = minimize_scalar(lambda share: weight @ losses(share), bounds=(0.0, most), **FINE)
    found = at(float(best.x))
    return found if found.gain > min(clear * found.error, CLEARLY * found.without) else at(found.share / 2)


def mixed(stages: Stages, trees: BoostedTrees, answers: np.ndarray, share: float) -> Stages:
    """The stages and the trees, each by its weight; rows held out are answered by both."""
    held_out, known = stages.held_out, ~np.isnan(answers).any(axis=1)
    P = held_out.P.copy()
    P[known] += share * (answers - P)[known]
    return replace(
        stages,
        beta=(1 - share) * stages.beta,
        intercept=(1 - share) * stages.intercept,
        local=None if stages.local is None else stages.local.scaled(1 - share),
        trees=trees.scaled(share),
        tree_weight=share,
        held_out=replace(held_out, P=P),
    )
