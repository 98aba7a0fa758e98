"""A member of boosted trees beside both stages, and its share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ulmus.calibration import HeldOut
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.sampling import row_keys
from ulmus.models._effort import TREE_ROWS
from ulmus.models._stages import Stages, beside
from ulmus.solvers.boosted import LEARNED, RATE, BoostedTrees, answer_losses, grown_trees, without

Say = Callable[[str], None]

#: Rows up to which there are trees (of more they would learn from a quarter at most), and classes.
MANY, CLASSES = 4 * LEARNED, 20
#: Up to this many rows trees are grown in parts, of which each leaves some rows out.
IN_PARTS = 20_000
#: Logarithms, to base 2, of the factors of scores that are tried, and how finely.
SCALES = (-3.0, 3.0)
COARSE, FINE = ({"method": "bounded", "options": {"xatol": close}} for close in (0.05, 1e-3))
#: The share of trees that rows left out begin with; standard errors, or the share of the loss, from which on their own
#: best one counts.
PRIOR, SURE, CLEARLY = 0.4, 3.0, 0.2
#: What is left of the share beside leaves, by squares: rows left out know one partition of them, and not the mean of
#: several.
BESIDE_LEAVES = 0.75
#: A lead that is a smaller share of the loss is round-off.
ROUND_OFF = 1e-9
#: Trees whose share is smaller are left out.
LEAST = 0.05
#: What all rows left out together must lose, in nats, for trees to have something to tell.
NATS = 1.0


@dataclass(frozen=True)
class Growing:
    """Trees that are grown without each of several ``parts`` of the rows, which are those of the stages.

    Some of their coordinates may be ``means`` of targets.
    """

    rows: Rows
    parts: int
    by_log: bool
    seed: int
    n_jobs: int | None
    means: np.ndarray | None = None
    rate: float = RATE

    @property
    def aside(self) -> bool:
        """Whether trees can be grown before kernels are fitted, and on a thread that these have no use for.

        Log models of several classes have one for every thread.
        """
        most = 1 if self.by_log else CLASSES
        return TREE_ROWS <= len(self.rows) <= IN_PARTS and self.rows.T.shape[1] <= most

    def __call__(self, place: np.ndarray | None = None) -> tuple[np.ndarray, tuple[BoostedTrees, np.ndarray] | None]:
        """The part of every row, and trees with their answers; kernels have left out rows at these places."""
        place = np.arange(len(self.rows)) if place is None else place
        part = parts_for_trees(self.rows, place, self.parts, self.by_log, self.seed)
        return part, grown_trees(self.rows, part, self.by_log, self.seed, self.n_jobs, self.means, self.rate)


def with_trees(stages: Stages, rows: Rows, grow: Callable[[np.ndarray], Any], say: Say) -> Stages:
    """Kernels and trees, by the share that rows which neither has seen speak for.

    ``rows`` are those of the stages, in their units; ``grow`` is what :class:`Growing` comes to. Answers are the mean
    of two models' answers, or log-odds.
    """
    held_out, by_log = stages.held_out, stages.loss == "log"
    if not TREE_ROWS <= len(rows) <= MANY or rows.T.shape[1] > CLASSES or held_out is None or held_out.place is None:
        return stages
    place, weight = held_out.place, held_out.weight
    if by_log and float(weight @ answer_losses(held_out.T, held_out.P, by_log)) < NATS:
        return stages
    part, grown = grow(place)
    if grown is None:
        return stages
    trees, answers = grown
    own = BESIDE_LEAVES if stages.local is not None and not by_log else 1.0
    found = best_share(held_out, answers[place], by_log, own)
    taken = found.share > LEAST
    kept = f"taken, weight {found.share:.2g}" if taken else "left out"
    say(f"{len(trees)} trees: loss {found.loss:.4g} against {found.without:.4g} without them ({kept})")
    stages = replace(stages, tree_losses=(found.loss, found.without))
    if not taken:
        return stages
    return replace(mixed(stages, trees, answers[place], found.share), unseen=(answers, without(part)))


def parts_for_trees(rows: Rows, place: np.ndarray, parts: int, by_log: bool, seed: int) -> np.ndarray:
    """Parts that trees leave out, copies and groups together; -1 for rows of a class that one part holds all of.

    Of very many rows, those that kernels left out, at these places, are the only part if they are a few: a part costs a
    model, and the mean of several, which know all rows between them, is hardly better there.
    """
    part = (row_keys(rows.X, seed) % np.uint64(parts)).astype(np.intp)
    if rows.fold is not None:
        part = np.where(rows.fold >= 0, rows.fold % parts, -1)
    elif len(rows) > IN_PARTS and 2 * len(np.unique(place)) < len(rows):
        part = np.where(np.isin(np.arange(len(rows)), place), 0, -1)
    if by_log:
        labels = OneVsAll.class_scores(rows.T).argmax(axis=1)
        for label in np.unique(labels):
            if len(np.unique(part[labels == label])) == 1:
                part[labels == label] = -1
    return part


@dataclass(frozen=True)
class Share:
    """The share that trees get, and the losses with it and without trees."""

    share: float
    loss: float
    without: float


def best_share(held_out: HeldOut, answers: np.ndarray, by_log: bool, own: float = 1.0) -> Share:
    """What rows that neither kernels nor trees have seen say: nothing, where none has an answer of trees.

    Two models that are as good as each other are better together, whatever the luck of the rows that compare them; and
    these flatter kernels, whose view they chose, and know trees by one part of them. So the share begins at
    :data:`PRIOR`. It goes all of the way to the best one of the rows where the lead of that over the former is three
    standard errors, or a fifth of the loss, and a part of the way where it is a part of these. Scores of a log loss are
    multiplied by what is best for them in either case, as a temperature will do. Trees get ``own`` times that.
    """
    known = ~np.isnan(answers).any(axis=1)
    if not known.any():
        return Share(0.0, 0.0, 0.0)
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

    best = float(minimize_scalar(lambda share: weight @ losses(share), bounds=(0.0, 1.0), **FINE).x)
    before = losses(PRIOR)
    lead = before - losses(best)
    mean = float(weight @ lead) / total
    chance = SURE * float(np.sqrt(weight @ (lead - mean) ** 2)) / total
    at_prior = float(weight @ before) / total
    enough = max(min(chance, CLEARLY * at_prior), ROUND_OFF * at_prior, np.finfo(float).tiny)
    share = own * (PRIOR + (best - PRIOR) * float(np.clip(mean / enough, 0.0, 1.0)))
    loss, without = (float(weight @ losses(each)) / total for each in (share, 0.0))
    return Share(share, loss, without)


def mixed(stages: Stages, trees: BoostedTrees, answers: np.ndarray, share: float) -> Stages:
    """The stages and the trees, each by its weight; rows held out are answered by both."""
    return replace(
        stages,
        beta=(1 - share) * stages.beta,
        intercept=(1 - share) * stages.intercept,
        local=None if stages.local is None else stages.local.scaled(1 - share),
        trees=trees.scaled(share),
        tree_weight=share,
        held_out=beside(stages.held_out, answers, share),
    )
