r"""Choosing a log model on rows held out: which rows, the features of all, and the path of C."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus.engine import Precomputed, Rows
from ulmus.features.kept import KEPT_BYTES
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import EQUAL, are_observations, distinct_keys, row_keys
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.softmax import LogProblem, LogSolution
from ulmus.tuning.folds import held_count
from ulmus.tuning.log_path import HeldTrial, best_trial, held_path

#: Steps of the path of C, and its ends. It begins two steps below the C with which squares were best in this view.
STEP, ENDS, BEHIND = 4.0, (2.0**-14, 2.0**28), 2
#: Up to this many distinct rows, each of several sets is held out once.
FEW, SETS = 1_000, 5
#: So many rows of other classes than the most common one are to be held out; where one set would have fewer, there are
#: several, up to this many rows, and beyond it one larger set.
RARE, RARE_ROWS = 16, 20_000
#: What may be left of the objective of models that are scored, and of smaller ones that tell where to look.
TRIAL_TOLERANCE, GLANCED = 1e-3, 5e-3
#: Up to this many rows models are fitted to this: it costs nothing, and units or the order of labels move no choice.
HARDLY_ANY, EXACT = 300, 1e-9
#: Rows to learn from, rows held out, and features with which the path is taken where there are more.
FEW_ROWS, FEW_HELD, FEW_FEATURES = 2_500, 1_000, 200
#: What few rows and features lose counts from this many times the least that rows held out can tell.
CLEARLY = 10.0
#: Features from this many bytes on are kept in single precision.
SINGLE_BYTES = 2**22


def log_held_sets(rows: Rows, rng: np.random.RandomState) -> list[np.ndarray]:
    """Sets of rows that score log models, each as the weight of every row that it holds out.

    Folds, or distinct rows with all their copies. Where equal rows are observations of their own
    (:func:`ulmus.features.sampling.left_out_together`), copies are dealt one by one. Every class has its share of every
    set. Few rows are held out once each, in several sets, and so are more of them where the rare classes have few.
    """
    w = np.ones(len(rows)) if rows.weight is None else rows.weight
    if rows.fold is not None:
        return [np.where(rows.fold == k, w, 0.0) for k in np.unique(rows.fold[rows.fold >= 0])]
    keys, distinct = distinct_keys(rows.X, int(rng.randint(2**31 - 1)))
    if are_observations(rows):
        one = np.ones(len(rows)) if rows.unit is None else rows.unit
        copies = np.maximum(np.floor(w / one + EQUAL), 1).astype(int)
        dealt = _dealt(_signatures(keys, rows.T, copies), keys, copies, len(distinct))
        return list((w / copies)[:, None].T * dealt)
    # the label of inputs that have several is the heaviest
    label = _signatures(keys, rows.T, np.ones(len(rows), int))
    order = np.lexsort((label, w, keys))
    last = np.append(keys[order][1:] != keys[order][:-1], True)
    dealt = _dealt(label[order][last], distinct, np.ones(len(distinct), int), len(distinct))
    return list(np.where(dealt[:, np.searchsorted(distinct, keys)] > 0, w, 0.0))


def _dealt(label: np.ndarray, keys: np.ndarray, copies: np.ndarray, n_distinct: int) -> np.ndarray:
    """How many of the ``copies`` of each row every set holds out, ``[set, row]``.

    Copies stand in a line, class by class and in the order of their keys; a set is every so many-th of them.
    """
    order, total = np.lexsort((keys, label)), int(copies.sum())
    one_in = total / max(1, min(held_count(total), total // 4))
    _, class_of = np.unique(label, return_inverse=True)
    others = total - np.bincount(class_of, copies).max()
    rare = 0 < others < RARE * one_in
    if n_distinct <= FEW or (rare and total <= RARE_ROWS):
        numbers, one_in = np.arange(min(SETS, total)), float(min(SETS, total))
    else:
        numbers, one_in = np.arange(1), min(one_in, SETS) if rare else one_in
    end = np.cumsum(copies[order])[None] - numbers[:, None]
    dealt = np.empty(end.shape)
    dealt[:, order] = np.ceil(end / one_in) - np.ceil((end - copies[order]) / one_in)
    return dealt


def _signatures(keys: np.ndarray, T: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """A number for the label of every row that neither its name nor its place tells, but the rows that have it."""
    _, label = np.unique(row_keys(T, 0), return_inverse=True)
    signature = np.zeros(label.max() + 1, np.uint64)
    np.add.at(signature, label, keys * copies.astype(np.uint64))  # modulo 2⁶⁴
    return np.asarray(signature[label])


def path_near(
    problem: LogProblem,
    C: float,
    held: list[np.ndarray],
    criterion: str,
    *,
    step: float = STEP,
    behind: int = BEHIND,
    most: int | None = None,
    tol: float = TRIAL_TOLERANCE,
) -> list[HeldTrial]:
    """Trials of rising C, from this many steps below this one; and of falling ones, where the first is the best.

    There are ``most`` of either, at most.
    """

    def run(values: list[float], begun: HeldTrial | None) -> list[HeldTrial]:
        return held_path(problem, values[:most], held, criterion=criterion, tol=tol, begun=begun)

    return around(run, C, step, behind)


def around(run: Callable[[list[float], Any], list[Any]], C: float, step: float = STEP, behind: int = BEHIND) -> Any:
    """Trials of rising C, from this many steps below this one, and of falling ones where the first is the best.

    ``run`` takes them in turn, from a trial that it may begin at.
    """
    low, high = (np.log(end) / np.log(step) for end in ENDS)
    first = np.clip(np.round(np.log(C) / np.log(step)) - behind, np.ceil(low), np.floor(high) - behind)
    above, below = step ** np.arange(first, np.floor(high) + 1), step ** np.arange(first - 1, np.ceil(low) - 1, -1)
    trials = run(above.tolist(), None)
    return run(below.tolist(), trials[0])[::-1] + trials if best_trial(trials) == 0 else trials


def path_of(
    problem: LogProblem, C: float, held: list[np.ndarray], criterion: str, order: np.ndarray
) -> tuple[list[HeldTrial], float]:
    """Trials of the best C, and of one two steps below, with all rows and features; and by how much few of both lost.

    The path that finds it is taken with the first rows of this ``order`` and with the first features: features nest, so
    that models of all of them begin where those ended. Small problems are taken whole, and so is their path.
    """
    n, L = problem.rows.X.shape[0], problem.features.n_features_out
    if not isinstance(problem.features, Precomputed) or (n <= 2 * FEW_ROWS and L <= 2 * FEW_FEATURES):
        return path_near(problem, C, held, criterion, tol=tolerance_of(n, TRIAL_TOLERANCE)), 0.0
    few, some = _few_of(problem, held, order)
    glances = path_near(few, C, some, criterion, tol=GLANCED)
    place = best_trial(glances)
    best, weaker = glances[place], glances[max(place - 2, 0)]
    begun = padded(weaker, L) if len(some) == len(held) else None
    around = sorted({weaker.C, best.C})
    trials = held_path(problem, around, held, criterion=criterion, tol=TRIAL_TOLERANCE, begun=begun, patience=np.inf)
    gained = best.loss - trials[-1].loss
    return trials, gained / trials[-1].loss if gained > CLEARLY * trials[-1].blur else 0.0


def tolerance_of(n_rows: int, usual: float) -> float:
    """What may be left of the objective of this many rows."""
    return EXACT if n_rows <= HARDLY_ANY else usual


def _few_of(problem: LogProblem, held: list[np.ndarray], order: np.ndarray) -> tuple[LogProblem, list[np.ndarray]]:
    """The problem of few rows and features, and the sets of rows that it holds out."""
    chosen = order[: FEW_ROWS + FEW_HELD]
    if len(held) == 1:
        out = held[0][order] > 0
        chosen = np.concatenate([order[~out][:FEW_ROWS], order[out][:FEW_HELD]])
    chosen = np.sort(chosen)
    count = min(FEW_FEATURES, problem.features.n_features_out)
    rows = problem.rows.take(chosen)
    rows = replace(rows, X=np.ascontiguousarray(rows.X[:, :count]))
    R = None if problem.whitening is None else np.ascontiguousarray(problem.whitening[:count, :count])
    offset = None if problem.offset is None else problem.offset[chosen]
    few = LogProblem(
        Precomputed(count), rows, problem.C, problem.fit_intercept, offset, problem.n_jobs, R, problem.scale
    )
    return few, [out[chosen] for out in held if out[chosen].any()]


def padded(trial: HeldTrial, count: int) -> HeldTrial:
    """A trial of the first features as one of this many, the further weights being 0."""

    def longer(solution: LogSolution) -> LogSolution:
        beta = np.zeros((count, solution.beta.shape[1]))
        beta[: len(solution.beta)] = solution.beta
        return replace(solution, beta=beta, gram=None)

    return replace(trial, loss=np.inf, solutions=tuple(longer(each) for each in trial.solutions))


def posed(features: NystromMap, rows: Rows, max_bytes: float, n_jobs: int | None) -> LogProblem:
    """The problem, features evaluated once, in float32 where there are many, or in every pass anew."""
    n, L = len(rows), features.n_features_out
    summed, whitening = summed_form(features)
    if 8 * n * L <= SINGLE_BYTES:
        dtype: Any = np.float64
    elif 4 * n * L <= max(max_bytes, KEPT_BYTES / 2):
        dtype, whitening = np.float32, None  # white rows lose no digits of their products
    else:
        return LogProblem(summed, rows, 1.0, n_jobs=n_jobs, whitening=whitening)
    Phi = np.empty((n, L), dtype)
    workspace = engine.Workspace()

    def work(piece: slice) -> None:
        block = Phi[piece] if dtype == np.float64 else workspace.array("K", (piece.stop - piece.start, L), np.float64)
        features.cross_kernel_.transform_block(rows.X[piece], block)
        if whitening is None:
            solve_lower_transposed(features.whitening_, block)
        if dtype != np.float64:
            Phi[piece] = block

    for _ in engine.ordered_map(work, engine.shares(n, engine.block_rows(L, np.float64)), n_jobs):
        pass
    return LogProblem(Precomputed(L), replace(rows, X=Phi), 1.0, n_jobs=n_jobs, whitening=whitening)
