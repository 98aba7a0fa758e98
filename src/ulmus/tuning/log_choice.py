"""The C of a log model on features, or on a kernel, that are chosen already.

Few rows are left out one by one, to second order, from the factor at the solution (:mod:`ulmus.solvers.log_leave_out`);
of many a part is held out, and so are folds. Models of the path begin where the one before ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import Precomputed, Rows
from ulmus.features.kept import KEPT_BYTES
from ulmus.features.kernels import CrossKernel, KernelParameters, dense
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_sample, gathered, row_keys
from ulmus.solvers.kernel_ridge import kernel_square
from ulmus.solvers.log_few import FewRows, is_few
from ulmus.solvers.log_kernel import DualLogSolution, fit_few_rows, fit_kernel_softmax, on_features
from ulmus.solvers.log_loss import log_odds, targets
from ulmus.solvers.nystrom_ridge import passed_form, summed_form
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.log_held import BEHIND, around, log_held_sets, path_of
from ulmus.tuning.log_path import (
    CARE,
    MANY_CLASSES,
    Care,
    LogTrial,
    best_trial,
    criterion_of,
    log_path,
    path,
    weights_of,
)
from ulmus.tuning.metric import quietly
from ulmus.tuning.surface import Trial

#: Rows up to which all are left out, and rows on which C is chosen, at most.
LEFT_OUT, MOST = 2_000, 20_000
#: Features with which the path of C is taken first where there are more than twice as many: C is near with all.
GLANCE = 400
#: Rows on which the C of an exact kernel is chosen, at most.
KERNEL_ROWS = 1_000
#: Rows and features, at most, on which a width is chosen, by factors, coarse ones first; a step has to lower the loss
#: by this share.
WIDTH_ROWS, WIDTH_FEATURES = 1_000, 250
WIDTH_STEPS, MAX_WIDTHS, CLEARLY = (4.0, 2.0), 4, 0.01
#: Widths within this factor are one; a width whose first C is worse than the best by this factor has no further.
SAME_WIDTH, HOPELESS = 1.25, 1.1
#: The C of a width is left behind where the loss has risen by this share.
WIDTH_PATIENCE = 0.005
#: Of two penalties that differ by less than this share of the loss, the stronger one is taken.
STEADIER = 0.01
#: The C from which a path begins anew where squares have led to one whose models know less than frequencies.
ANEW = 16.0
#: What may be left of the objective of models that are scored, and of those of many classes that tell a width.
TRIAL_TOLERANCE, WIDTH_TOLERANCE = 1e-4, 1e-3
#: What may be left of the objective of a model that is kept: scores are then right to some 1e-6.
TOLERANCE = 1e-13


@dataclass(frozen=True)
class PenaltyChoice:
    """The C, its loss on rows left out, all that were tried, where a fit may begin (:func:`weights_of`), and scores."""

    C: float
    loss: float
    tried: tuple[np.ndarray, np.ndarray]
    n_rows: int
    start: Any = None
    scores: np.ndarray | None = None

    @classmethod
    def of(cls, trials: list[Any], n_rows: int, start: Any = None, scores: np.ndarray | None = None) -> "PenaltyChoice":
        """The best of some trials."""
        best, order = trials[best_trial(trials, STEADIER)], np.argsort([trial.C for trial in trials])
        C, loss = (np.array([getattr(trials[i], name) for i in order]) for name in ("C", "loss"))
        return cls(best.C, best.loss, (C, loss), n_rows, start, scores)


def posed_in_double(features: Any, rows: Rows, C: float, fit_intercept: bool, n_jobs: int | None) -> LogProblem:
    """The problem in double precision, features evaluated once where they fit in memory, or in every pass anew.

    Few rows are whitened once; sums of many would each be.
    """
    n, L = len(rows), features.n_features_out
    if 8 * n * L > KEPT_BYTES:
        return unkept(features, rows, C, fit_intercept, n_jobs)
    many = isinstance(features, NystromMap) and n > LEFT_OUT
    summed, R = summed_form(features) if many else (features, None)
    Phi = engine.transform(summed, rows.X, n_jobs=n_jobs)
    return LogProblem(Precomputed(L), replace(rows, X=Phi), C, fit_intercept, n_jobs=n_jobs, whitening=R)


def unkept(features: Any, rows: Rows, C: float, fit_intercept: bool, n_jobs: int | None) -> LogProblem:
    """The problem whose features are evaluated in every pass."""
    if not isinstance(features, NystromMap):
        return LogProblem(features, rows, C, fit_intercept, n_jobs=n_jobs)
    summed, R, squared = passed_form(features)
    return LogProblem(summed, rows, C, fit_intercept, n_jobs=n_jobs, whitening=R, squared=squared)


def fit_closely(problem: LogProblem, few: FewRows | None, start: Any) -> LogSolution:
    """The model that is kept, from a ``start`` by :func:`weights_of` of a model on the same rows."""
    if few is None:
        return fit_softmax(problem, start=start, tol=TOLERANCE)
    return on_features(few, fit_few_rows(few, tol=TOLERANCE, begun=start))


def choose_C(
    features: Any,
    rows: Rows,
    near_C: float,
    criterion: str,
    rng: np.random.RandomState,
    *,
    fit_intercept: bool,
    n_jobs: int | None,
    behind: int = BEHIND,
    care: Care = CARE,
) -> PenaltyChoice:
    """The C of a model on these features, sought near another; rows that have folds are scored fold by fold.

    The path of rows that leave one by one begins this many steps below that one, and is followed with this ``care``.
    """
    L = features.n_features_out
    most = min(MOST, KEPT_BYTES // (8 * L))
    rows = gathered(rows)  # copies are a weight, so that both lead the same way
    if rows.fold is None and is_few(len(rows), L, rows.T.shape[1]):
        most, behind = KERNEL_ROWS, 0
    index, some = (None, rows) if len(rows) <= most else distinct_sample(rows, most, rng)
    problem = posed_in_double(features, some, near_C, fit_intercept, n_jobs)
    with quietly():
        if some.fold is None and len(some) <= LEFT_OUT:
            if L > 2 * GLANCE and not is_few(len(some), L, some.T.shape[1]):
                near_C, behind = _best_C(_first_features(problem, GLANCE), near_C, criterion, behind, care), 0
            trials: list[Any] = _left_out_path(problem, near_C, criterion, behind, care)
            solution = trials[best_trial(trials, STEADIER)].solution
        else:
            seed = int(rng.randint(2**31 - 1))
            order = np.argsort(row_keys(some.X, seed), kind="stable")
            trials, _ = path_of(problem, near_C, log_held_sets(some, rng), criterion, order)
            solution = trials[best_trial(trials, STEADIER)].solutions[0]
    start = weights_of(solution, fit_intercept)
    if isinstance(start, DualLogSolution) and index is not None:
        start = start.among(len(rows), index)
    return PenaltyChoice.of(trials, len(some), start, solution.F)


def _left_out_path(problem: LogProblem, near_C: float, criterion: str, behind: int, care: Care) -> list[LogTrial]:
    """Trials of C about this one, scored by rows that are left out one by one."""
    run = partial(log_path, problem, criterion=criterion, care=care)
    chance = np.inf  # what is given up as hopeless is not begun anew
    if np.isinf(care.hopeless):
        chance = of_frequencies(criterion, problem.rows.T, problem.weight)
    return _around_or_anew(lambda C, begun: run(C, begun=begun), near_C, behind, chance)


def of_frequencies(criterion: str, T: np.ndarray, weight: np.ndarray) -> float:
    """The criterion where every row has the frequencies of the classes."""
    mean = log_odds(np.average(targets(T), axis=0, weights=weight))
    return criterion_of(criterion, T, np.tile(mean, (len(T), 1)), weight)


def _around_or_anew(run: Callable[..., list[Any]], near_C: float, behind: int, chance: float) -> list[Any]:
    """Trials about this C; where none is better than ``chance``, losses lead nowhere, and others begin at ANEW."""
    trials: list[Any] = around(run, near_C, behind=behind)
    if near_C <= ANEW or min(trial.loss for trial in trials) <= chance:
        return trials
    each = {trial.C: trial for trial in [*around(run, ANEW, behind=0), *trials]}
    return [each[C] for C in sorted(each)]


def _best_C(problem: LogProblem, near_C: float, criterion: str, behind: int, care: Care) -> float:
    trials = _left_out_path(problem, near_C, criterion, behind, care)
    return float(trials[best_trial(trials, STEADIER)].C)


def _first_features(problem: LogProblem, count: int) -> LogProblem:
    """The problem with the first features alone, of those at hand: they nest."""
    rows = replace(problem.rows, X=np.ascontiguousarray(problem.rows.X[:, :count]))
    return replace(problem, features=Precomputed(count), rows=rows)


def choose_width(
    map_of: Callable[[float, int, Rows], Any],
    rows: Rows,
    widths: Sequence[float],
    near_C: float,
    criterion: str,
    rng: np.random.RandomState,
    *,
    size: int,
    flat: bool,
    fit_intercept: bool,
    n_jobs: int | None,
) -> tuple[float, float, tuple[Trial, ...]]:
    """The width of the features near the best of these, a C that is good with it, and what was tried.

    Some rows with few features do; ``map_of(width, size, rows)`` is a fitted map. Steps are coarse first; a width that
    is hardly better is none. Of a kernel that is ``flat`` where its width is small C times the width stays what it is,
    which tells where to look for C, and which widths need not be tried; nodes have no such rule.
    """
    some = gathered(rows)
    some = some if len(some) <= WIDTH_ROWS else distinct_sample(some, WIDTH_ROWS, rng)[1]
    few, tried = min(size, WIDTH_FEATURES), dict[float, PenaltyChoice]()
    how: dict[str, Any] = {"fit_intercept": fit_intercept, "n_jobs": n_jobs}
    tol = WIDTH_TOLERANCE if rows.T.shape[1] >= MANY_CLASSES else TRIAL_TOLERANCE

    def near(width: float) -> float:
        """A width that was tried already, if one is the same."""
        same = SAME_WIDTH if flat else 1.0
        return next((w for w in tried if max(w, width) <= same * min(w, width)), width)

    def about(width: float) -> dict[str, Any]:
        """The C to begin with, and how closely its path is followed."""
        if not tried or not (flat or len(tried) >= len(widths)):
            return {"near_C": near_C, "behind": 1 if tried else BEHIND, "care": Care(tol)}
        centre = min(tried, key=lambda w: tried[w].loss)
        best = tried[centre]
        if not flat:
            return {"near_C": best.C, "behind": 1, "care": Care(tol)}
        care = Care(tol, WIDTH_PATIENCE, HOPELESS * best.loss, best.scores)
        return {"near_C": best.C * centre / width, "behind": 0, "care": care}

    def loss(width: float) -> float:
        if width not in tried:
            with quietly():
                features = map_of(width, few, some)
            tried[width] = choose_C(features, some, criterion=criterion, rng=rng, **about(width), **how)
        return tried[width].loss

    def beyond(width: float) -> bool:
        """Whether a width nearer to the best one was clearly worse already."""
        low, high = sorted((here, width))
        between = [w for w in tried if low < w < high]
        return flat and width not in tried and any((1 - CLEARLY) * loss(w) > loss(here) for w in between)

    here = min(dict.fromkeys(widths), key=loss)
    for step in WIDTH_STEPS:
        for _ in range(MAX_WIDTHS):
            asked = [w for w in (near(here / step), near(here * step)) if not beyond(w)]
            best = min(asked, key=loss, default=here)
            if loss(best) > (1 - CLEARLY) * loss(here):
                break
            here = best
    seen = (Trial("log width", w, few, found.n_rows, *found.tried, np.empty(0)) for w, found in tried.items())
    return here, tried[here].C, tuple(seen)


def choose_kernel_C(
    kernel: Any,
    parameters: KernelParameters,
    rows: Rows,
    near_C: float,
    criterion: str,
    rng: np.random.RandomState,
    *,
    fit_intercept: bool,
    n_jobs: int | None,
) -> PenaltyChoice:
    """The C of an exact kernel model of these rows, left out one by one, or fold by fold; sought near another.

    Of many rows some are taken.
    """
    rows = gathered(rows)
    if len(rows) > KERNEL_ROWS:
        rows = distinct_sample(rows, KERNEL_ROWS, rng)[1]
    cross = CrossKernel(kernel, dense(rows.X, np.float64), parameters)
    K, weight = kernel_square(cross, rows.X, n_jobs), rows.weights

    def trial(C: float, begun: LogTrial | None) -> LogTrial:
        found = fit_kernel_softmax(
            *(K.copy(), rows.T, C),
            weight=rows.weight,
            unit=rows.unit,
            fit_intercept=fit_intercept,
            tol=TRIAL_TOLERANCE,
            leave_one_out=rows.fold is None,
            begun=None if begun is None else begun.solution,
            rough=True,
        )
        P = found.left_out if rows.fold is None else fold_scores(K, rows, C, fit_intercept, TRIAL_TOLERANCE)
        assert P is not None
        tested = ~np.isnan(P[:, 0])
        return LogTrial(C, criterion_of(criterion, rows.T[tested], P[tested], weight[tested]), found, P)

    with quietly():
        tested = np.ones(len(rows), bool) if rows.fold is None else rows.fold >= 0
        chance = of_frequencies(criterion, rows.T[tested], weight[tested])
        return PenaltyChoice.of(_around_or_anew(partial(path, trial), near_C, 0, chance), len(rows))


def fit_exact(
    cross: CrossKernel, rows: Rows, C: float, n_last: int, *, fit_intercept: bool, n_jobs: int | None
) -> tuple[DualLogSolution, np.ndarray]:
    """The model on the kernel between the rows, and scores of the last ones without themselves, or without their fold.

    Folds among the last rows stand there whole.
    """
    K = kernel_square(cross, rows.X, n_jobs)
    P = None
    if rows.fold is not None:
        last = np.where(np.arange(len(rows)) >= len(rows) - n_last, rows.fold, -1)
        P = fold_scores(K, replace(rows, fold=last), C, fit_intercept, TOLERANCE)[-n_last:]
    solution = fit_kernel_softmax(
        *(K, rows.T, C),
        weight=rows.weight,
        unit=rows.unit,
        fit_intercept=fit_intercept,
        tol=TOLERANCE,
        leave_one_out=P is None,
        last=n_last,
    )
    left = solution.left_out if P is None else P
    assert left is not None
    return solution, left


def fold_scores(K: np.ndarray, rows: Rows, C: float, fit_intercept: bool, tol: float) -> np.ndarray:
    """Scores of every row by the model without its fold; NaN for rows of none."""
    assert rows.fold is not None
    P = np.full(rows.T.shape, np.nan)
    for k in np.unique(rows.fold[rows.fold >= 0]):
        out, rest = np.flatnonzero(rows.fold == k), np.flatnonzero(rows.fold != k)
        weight = None if rows.weight is None else rows.weight[rest]
        found = fit_kernel_softmax(
            K[np.ix_(rest, rest)], rows.T[rest], C, weight=weight, fit_intercept=fit_intercept, tol=tol
        )
        P[out] = K[np.ix_(out, rest)] @ found.alpha + found.intercept
    return P
