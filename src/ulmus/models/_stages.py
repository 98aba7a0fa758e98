"""What an adaptive model has fitted in its view, and whether a local stage pays.

That is scored on rows, or folds, that the global model behind the stage has not seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.partition import Partition
from ulmus.features.sampling import distinct_count, distinct_keys, merged
from ulmus.models._effort import Effort
from ulmus.solvers.boosted import BoostedTrees
from ulmus.solvers.local import TOLERANCE, LeafProblem, LocalKernels
from ulmus.tuning.folds import held_count
from ulmus.tuning.local import LocalChoice, LocalSearch, Remainder, chosen_by_all
from ulmus.tuning.metric import quietly
from ulmus.tuning.views import View


@dataclass(frozen=True)
class Work:
    """What the stages of one fit work on: rows as the view shows them, how they are scored, and what may be spent.

    ``backend`` is where it is done.
    """

    rows: Rows
    view: View
    effort: Effort
    coding: Coding
    criterion: str
    max_bytes: float
    rng: np.random.RandomState
    backend: Any
    say: Callable[[str], None]
    enter: Callable[[str], None]

    @property
    def n_jobs(self) -> int | None:
        """Threads of what is done on the CPU."""
        return self.backend.n_jobs


@dataclass(frozen=True)
class Stages:
    """Landmarks, C, weights and constants of the global model, the local stage, and predictions of rows left out.

    These are None where rows are left out when somebody asks. ``local_losses`` are those of rows held out with a local
    stage, and without one, where one was scored; ``losses`` those by log loss and by squares, where both were tried.
    ``loss`` is what a classifier minimises. ``trees`` answer beside both stages, all in shares that add
    up to 1; ``tree_losses`` are those of rows held out with trees and without. ``unseen`` are the answers of rows by
    trees that did not see them, and which these are; not a number, and -1, where all did.
    """

    landmark_map: NystromMap
    C: float
    beta: np.ndarray
    intercept: np.ndarray
    local: LocalKernels | None
    held_out: Any
    leverage: Any = None
    local_losses: tuple[float, float] | None = None
    loss: str | None = None
    losses: dict[str, float] | None = None
    trees: BoostedTrees | None = None
    tree_losses: tuple[float, float] | None = None
    tree_weight: float = 0.0
    unseen: tuple[np.ndarray, np.ndarray] | None = None


def beside(held_out: HeldOut, answers: np.ndarray, share: float) -> HeldOut:
    """Rows left out, with the share of another model that did not see them either, where its answers are numbers."""
    known, P = ~np.isnan(answers).any(axis=1), held_out.P.copy()
    P[known] += share * (answers - P)[known]
    return replace(held_out, P=P)


def landmarks_of(rows: Rows, most: int) -> int:
    """Half of the distinct rows, within bounds."""
    return min(most, max(MIN_LANDMARKS, distinct_count(rows.X, 2 * most) // 2))


#: Landmarks of the global model: half of the rows, but not less than this, nor more than the effort allows.
MIN_LANDMARKS = 150
#: Up to this many distinct rows, each of several sets is held out once.
FEW, SETS = 1_000, 5
#: Width and penalty are sought on leaves this many times smaller.
SMALLER = 3


def held_sets(rows: Rows, rng: np.random.RandomState) -> list[np.ndarray]:
    """Masks of the rows that score the local stage, with all their copies; none when there are too few rows.

    One set, or of few rows several, each of them in one; or every fold where there are folds: that of a tenth of the
    rows, or nearest to it, comes first.
    """
    keys, distinct = distinct_keys(rows.X, int(rng.randint(2**31 - 1)))
    if len(distinct) <= 2 * MIN_LANDMARKS:
        return []
    count = min(held_count(len(distinct)), len(distinct) // 2)
    if rows.fold is None:
        if len(distinct) <= FEW:
            place = np.searchsorted(distinct, keys)
            return [place * SETS // len(distinct) == k for k in range(SETS)]
        return [keys <= distinct[count - 1]]
    folds = [rows.fold == k for k in np.unique(rows.fold[rows.fold >= 0])]
    return sorted(folds, key=lambda mask: abs(int(mask.sum()) - count))


def score_local(work: Work, held: list[np.ndarray], P: list[np.ndarray]) -> tuple[LocalChoice, HeldOut]:
    """The best stage and its predictions of rows held out; ``P`` are those of global models that did not see each set.

    Width and penalty are chosen on all sets, or the first fold; whether they pay all say.
    """
    rows, view, effort, rng, backend = work.rows, work.view, work.effort, work.rng, work.backend
    tests, searches, halves, wholes = list[Rows](), list[LocalSearch](), list[Partition](), list[Partition]()
    for mask, predicted in zip(held, P, strict=True):
        test, some = rows.take(mask), merged(replace(rows, T=rows.T - predicted).take(~mask), rng)
        data = Remainder(some.X, some.T, some.weight, test.X, test.T, predicted[mask], test.weight)
        given = (view.kernel, view.gamma, data, work.coding, work.criterion, backend.n_jobs)
        searches.append(LocalSearch(*given, trials=backend.leaf_trials))
        size = effort.leaf(len(some))
        if rows.fold is None or not tests:
            halves.append(backend.partition(some.X, size // SMALLER, rng))
        wholes.append(backend.partition(some.X, size, rng))
        tests.append(test)
    choosing, n_leaves = len(halves), effort.scored_leaves
    choices = chosen_by_all(searches[:choosing], halves, wholes[:choosing], n_leaves)
    for search, whole in zip(searches[choosing:], wholes[choosing:], strict=True):
        choices.append(search.scored(choices[0], whole, n_leaves))
    parts = [
        HeldOut.by_others(test.take(choice.rows), choice.P, np.zeros(len(choice.rows)))
        for test, choice in zip(tests, choices, strict=True)
    ]
    masses = [float(part.weight.sum()) for part in parts]
    return choices[0].pooled(choices[1:], masses), HeldOut.joined(parts)


def fit_local(
    work: Work, rows: Rows, choice: LocalChoice, offset: np.ndarray | None = None, tol: float = TOLERANCE
) -> LocalKernels | None:
    """The chosen local stage on all rows, by log loss beside an ``offset``; None where it does not fit into memory."""
    each = rows.T.nbytes + 8 * len(rows)
    rounds = min(work.effort.partitions, int((work.max_bytes - rows.X.nbytes) // each))
    if rounds < 1:
        work.say(f"local stage left out: it needs {(rows.X.nbytes + each) / 1e9:.2g} GB")
        return None
    size, gamma = work.effort.leaf(len(rows)), choice.width * work.view.gamma
    rounds = rounds if len(rows) > size else 1  # there is but one way to put all rows into one leaf
    partitions = tuple(work.backend.partition(rows.X, size, work.rng) for _ in range(rounds))
    problem = LeafProblem(work.view.kernel, gamma, choice.ridge, rows.X, rows.T, rows.weight, partitions, offset)
    with quietly():
        return problem.stage(work.backend.fit_leaves(problem, tol))


def say_scored(work: Work, choice: LocalChoice, pays: bool) -> None:
    """Report what rows held out say of a local stage."""
    kept = "kept" if pays else "left out"
    work.say(f"local stage: loss {choice.loss:.4g} against {choice.loss_without:.4g} without it ({kept})")
