"""Choosing the C of a log model: the path with warm starts, scored by rows that were left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ulmus._blas import solve_factored
from ulmus.solvers.log_few import FewRows
from ulmus.solvers.log_kernel import DualLogSolution, fit_few_rows
from ulmus.solvers.log_leave_out import left_out
from ulmus.solvers.log_loss import class_proportions, frequencies, losses, targets
from ulmus.solvers.log_metric import factored
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.surface import FLAT

CRITERIA = ("log_loss", "error", "auc", "balanced")
#: The log loss of probabilities that no n rows can make surer than 1/(n + 1).
FLOORED = "floored"
#: A further C is tried while the criterion has not risen by this share above its lowest.
PATIENCE = 0.02
#: Classes from which on rows that count for each are few.
MANY_CLASSES = 8
#: Weights of a ridge regression of scores have the penalty of the log loss times this: the square is more curved.
STIFF = 10.0
#: Log losses are equal, too, where those of all rows held out differ by less than this in all, in nats.
NOISE = 0.1


def criterion_of(criterion: str, T: np.ndarray, F: np.ndarray, weight: np.ndarray | None = None) -> float:
    """What is to be minimal, of ±1 codes and scores: log loss, error, 1 − AUC, or 1 − mean recall of the classes.

    AUC of several classes is the mean of each against the rest. Equal scores count half. :data:`FLOORED` is the log
    loss of probabilities over the least floor that they will have, one row of each frequency: n rows that are all right
    do not ask for more certainty than n rows can give.
    """
    w = np.ones(len(T)) if weight is None else weight
    if criterion == FLOORED:
        p, (frequency, least) = class_proportions(F), frequencies(max(2, T.shape[1]), _classes(T), w)
        own, prior = p[np.arange(len(T)), _classes(T)], frequency[_classes(T)]
        return -float(np.average(np.log((1 - least) * own + least * prior), weights=w))
    if criterion == "log_loss":
        return float(np.average(losses(targets(T), F), weights=w))
    P = class_proportions(F)
    true = _classes(T)
    if criterion == "error":
        return float(np.average(P.argmax(axis=1) != true, weights=w))
    if criterion == "balanced":
        wrong = P.argmax(axis=1) != true
        seen = np.unique(true)
        return float(np.mean([np.average(wrong[true == c], weights=w[true == c]) for c in seen]))
    if criterion == "auc":
        columns = [1] if P.shape[1] == 2 else [c for c in range(P.shape[1]) if 0 < (true == c).sum() < len(true)]
        return 1.0 - float(np.mean([_auc(true == c, F[:, 0] if F.shape[1] == 1 else P[:, c], w) for c in columns]))
    raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")


def _classes(T: np.ndarray) -> np.ndarray:
    return (T[:, 0] > 0).astype(int) if T.shape[1] == 1 else T.argmax(axis=1)


def _auc(positive: np.ndarray, score: np.ndarray, w: np.ndarray) -> float:
    """Share of pairs, weighted, in which the positive row has the larger score; 1/2 where there are none."""
    place = rankdata(score, method="dense").astype(int) - 1
    up, down = (np.bincount(place, np.where(which, w, 0.0)) for which in (positive, ~positive))
    below = np.cumsum(down) - down
    pairs = up.sum() * down.sum()
    return float((up @ (below + 0.5 * down)) / pairs) if pairs > 0 else 0.5


@dataclass(frozen=True)
class LogTrial:
    """One C: the criterion of rows left out, the solution, and scores of these rows."""

    C: float
    loss: float
    solution: Any
    left_out: np.ndarray


@dataclass(frozen=True)
class Care:
    """What may be left of the objective on a path; by which share losses may rise on it, and how large they may be.

    ``scores`` are those of a model on other features, near which it begins.
    """

    tol: float = 1e-4
    patience: float = PATIENCE
    hopeless: float = np.inf
    scores: np.ndarray | None = None


#: That of the C of a model that is kept.
CARE = Care()


def path(trial: Callable[[float, Any], Any], C: Sequence[float], begun: Any = None, care: Care = CARE) -> list[Any]:
    """Trials of every C in turn, each begun where the last (or the one ``begun``) ended, until one is clearly worse."""
    trials, lowest = list[Any](), np.inf if begun is None else begun.loss
    if begun is not None and begun.loss > care.hopeless:
        return trials
    for each in C:
        begun = trial(each, begun)
        trials.append(begun)
        lowest = min(lowest, begun.loss)
        if begun.loss > min((1 + care.patience) * lowest, care.hopeless):
            break
    return trials


def log_path(
    problem: LogProblem,
    C: Sequence[float],
    *,
    criterion: str = "log_loss",
    care: Care = CARE,
    begun: LogTrial | None = None,
) -> list[LogTrial]:
    """The path of models on features, scored by approximate leave-one-out."""
    index, few = np.arange(len(problem.rows)), FewRows.of(problem)  # a path has one kernel

    def dual(C: float, begun: LogTrial | None) -> LogTrial:
        assert few is not None
        before = None if begun is None else begun.solution
        solution = fit_few_rows(few.at(C), tol=care.tol, begun=before, leave_one_out=True)
        F = solution.left_out
        assert F is not None
        return LogTrial(C, criterion_of(criterion, problem.rows.T, F, problem.weight), solution, F)

    def trial(C: float, begun: LogTrial | None) -> LogTrial:
        here = replace(problem, C=C)
        start = {} if care.scores is None else {"start": weights_for(care.scores, here)}
        solution = fit_softmax(here, **(start if begun is None else _beginning(begun.solution, problem)), tol=care.tol)
        F = left_out(here, solution, index, rough=True, counting=problem.rows.T.shape[1] >= MANY_CLASSES)
        return LogTrial(C, criterion_of(criterion, problem.rows.T, F, problem.weight), solution, F)

    return path(trial if few is None else dual, C, begun, care)


@dataclass(frozen=True)
class HeldTrial:
    """One C: the criterion of all held-out rows, and the solution without each set of them.

    Differences of the criterion below ``blur`` mean nothing with so many rows.
    """

    C: float
    loss: float
    solutions: tuple[LogSolution, ...]
    blur: float = 0.0


def held_path(
    problem: LogProblem,
    C: Sequence[float],
    held: Sequence[np.ndarray],
    *,
    criterion: str = "log_loss",
    tol: float = 1e-3,
    begun: HeldTrial | None = None,
    patience: float = PATIENCE,
) -> list[HeldTrial]:
    """Models for every C in turn, each without one of several sets of rows, scored together on what they never saw.

    A set is the weight of every row that it holds out; scores come with those of all rows. Every model begins where
    that of the last C (or of the trial ``begun``) ended; the path ends where the criterion has risen by a share of
    ``patience``, where two steps together have not lowered it, or where round-off kept a model from its minimum, which
    a larger C would not bring nearer. Only the last trial keeps its Gram matrices. Where all rows but those of a set
    are of one class, no weights are best: the frequencies answer for that set, at every C.
    """
    trials: list[HeldTrial] = []
    without = [replace(problem, rows=replace(problem.rows, weight=problem.weight - out)) for out in held]
    exact = [tol if _has_minimum(part) else np.inf for part in without]
    scored = [out > 0 for out in held]
    T = np.concatenate([problem.rows.T[rows] for rows in scored])
    weight = np.concatenate([out[rows] for out, rows in zip(held, scored, strict=True)])
    by_log = criterion in ("log_loss", FLOORED)
    blur = NOISE / max(float(weight.sum()), len(weight)) if by_log else 0.0
    last = None if begun is None else begun.solutions
    lowest = np.inf if begun is None else begun.loss
    for each in C:
        solutions = tuple(
            fit_softmax(replace(part, C=each), **({} if last is None else _beginning(last[i], problem)), tol=exact[i])
            for i, part in enumerate(without)
        )
        last = solutions
        F = np.concatenate([solution.F[rows] for solution, rows in zip(solutions, scored, strict=True)])
        if trials:
            before = tuple(replace(solution, gram=None) for solution in trials[-1].solutions)
            trials[-1] = replace(trials[-1], solutions=before)
        trials.append(HeldTrial(each, criterion_of(criterion, T, F, weight), solutions, blur))
        lowest = min(lowest, trials[-1].loss)
        if trials[-1].loss > (1 + patience) * lowest or (by_log and len(trials) > 2 and best_trial(trials[-3:]) == 0):
            break
        if not all(solution.converged for solution in solutions):
            break
    return trials


def _has_minimum(problem: LogProblem) -> bool:
    """Whether some finite weights are best: an intercept that only has to be large enough never is."""
    T = problem.rows.T[problem.weight > 0]
    return not problem.fit_intercept or bool((T[:1] != T).any())


def _beginning(solution: LogSolution, problem: LogProblem) -> dict[str, Any]:
    return {"start": weights_of(solution, problem.fit_intercept), "gram": solution.gram}


def weights_for(F: np.ndarray, problem: LogProblem) -> np.ndarray:
    """``[β; b]`` of few features whose scores are near these, by ridge regression."""
    Phi, b = problem.rows.X, np.average(F, axis=0, weights=problem.weight)
    G = Phi.T @ Phi
    G[np.diag_indices_from(G)] += STIFF / problem.C
    beta = solve_factored(factored(G), Phi.T @ (F - b if problem.fit_intercept else F))
    return np.vstack([beta, b]) if problem.fit_intercept else np.ascontiguousarray(beta)


def best_trial(trials: Sequence[Any], flat: float = FLAT) -> int:
    """The first trial whose criterion is practically the lowest, but for this share, or for what is blurred."""
    lowest = min(trial.loss for trial in trials)
    near = max((1 + flat) * lowest, lowest + max(getattr(trial, "blur", 0.0) for trial in trials))
    return next(i for i, trial in enumerate(trials) if trial.loss <= near)


def weights_of(solution: LogSolution | DualLogSolution, fit_intercept: bool) -> Any:
    """``[β; b]`` of a solution, or the solution by dual weights, with which another may begin."""
    if isinstance(solution, DualLogSolution):
        return replace(solution, left_out=None)
    return np.vstack([solution.beta, solution.intercept]) if fit_intercept else solution.beta
