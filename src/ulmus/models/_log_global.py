"""The global log model of the adaptive ones: softmax on Nyström features in the chosen view, its C on rows held out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._blas import solve_lower_transposed
from ulmus.engine import Lifted, Rows
from ulmus.features.kept import KEPT_BYTES
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import EQUAL, row_keys
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.softmax import LogProblem, LogSolution, fit_softmax
from ulmus.tuning.log_loss import HeldTrial, best_trial, held_path, weights_of
from ulmus.tuning.metric import quietly
from ulmus.tuning.views import View

#: The path of C, rising; and what is tried below it where its first is the best.
PATH, BELOW = 4.0 ** np.arange(-1.0, 14.0), 4.0 ** np.arange(-6.0, -1.0)
#: Up to so many distinct rows, each of several sets is held out once.
FEW, SETS = 1_000, 5
#: Beyond, one set of a tenth of the rows, within these bounds, and never more than a quarter.
HELD = (500, 5_000)
#: What may be left of the objective: of models that are judged, and of the one that is kept.
JUDGED, KEPT = 1e-3, 1e-5
#: Passes over the rows, at most, of a fit.
MAX_PASSES = 200


def log_held_sets(rows: Rows, rng: np.random.RandomState) -> list[np.ndarray]:
    """Sets of rows that judge log models, each as the weight of every row that it holds out.

    Folds, or distinct rows with all their copies. Where equal rows are observations of their own
    (:func:`ulmus.features.sampling.left_out_together`), copies are dealt one by one.
    """
    w = np.ones(len(rows)) if rows.weight is None else rows.weight
    if rows.fold is not None:
        return [np.where(rows.fold == k, w, 0.0) for k in np.unique(rows.fold[rows.fold >= 0])]
    keys = row_keys(rows.X, int(rng.randint(2**31 - 1)))
    distinct, place = np.unique(keys, return_inverse=True)
    n = len(distinct)
    one = np.ones(len(rows)) if rows.unit is None else rows.unit
    several = one < (1 - EQUAL) * w
    if 2 * w[several].sum() > w.sum():
        copies = np.floor(w / one + EQUAL).astype(int)
        share = [1 / SETS] * SETS if n <= FEW else [0.1, 0.9]
        dealt = one[:, None] * np.array([rng.multinomial(count, share) for count in copies])
        return list(dealt.T[: SETS if n <= FEW else 1])
    if n <= FEW:
        sets = min(SETS, n)
        return [np.where(place * sets // n == i, w, 0.0) for i in range(sets)]
    return [np.where(place < min(int(np.clip(n // 10, *HELD)), n // 4), w, 0.0)]


@dataclass(frozen=True)
class LogGlobal:
    """Landmarks, the problem on all rows (its C is not yet chosen), the sets held out, and the trials of the path."""

    landmark_map: NystromMap
    problem: LogProblem
    held: list[np.ndarray]
    trials: list[HeldTrial]

    @classmethod
    def of(
        cls,
        rows: Rows,
        view: View,
        size: int,
        seed: int,
        held: list[np.ndarray],
        *,
        criterion: str,
        max_bytes: float,
        n_jobs: int | None,
    ) -> "LogGlobal":
        """The path of one with so many landmarks."""
        with quietly():
            fitted = NystromMap(size, kernel=view.kernel, gamma=view.gamma, random_state=seed, n_jobs=n_jobs)
            fitted.fit(rows.X, sample_weight=rows.weight)
            problem = posed(fitted, rows, max_bytes, n_jobs)
            trials = held_path(problem, PATH.tolist(), held, criterion=criterion, tol=JUDGED)
            if best_trial(trials) == 0:
                trials = held_path(problem, BELOW.tolist(), held, criterion=criterion, tol=JUDGED) + trials
        return cls(fitted, problem, held, trials)

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return int(self.landmark_map.n_lifted)

    @property
    def best(self) -> int:
        """Place of the best C among the trials."""
        return best_trial(self.trials)

    def fitted(self, trial: int) -> LogSolution:
        """The model of all rows with the C of a trial, begun at one without some rows."""
        near = self.trials[trial].solutions[0]
        start, gram = weights_of(near, self.problem.fit_intercept), self.trials[-1].solutions[0].gram
        here = replace(self.problem, C=self.trials[trial].C)
        return fit_softmax(here, start=start, gram=gram, tol=KEPT, max_passes=MAX_PASSES)


def posed(features: NystromMap, rows: Rows, max_bytes: float, n_jobs: int | None) -> LogProblem:
    """The problem, features evaluated once: in float64, in float32 where that is too much, or in every pass anew."""
    n, L = len(rows), features.n_lifted
    lift, whitening = summed_form(features)
    if 8 * n * L <= KEPT_BYTES:
        dtype: Any = np.float64
    elif 4 * n * L <= max_bytes:
        dtype = np.float32
    else:
        return LogProblem(lift, rows, 1.0, n_jobs=n_jobs, whitening=whitening)
    Phi = np.empty((n, L), dtype)
    workspace = engine.Workspace()

    def work(piece: slice) -> None:
        block = Phi[piece] if dtype == np.float64 else workspace.array("K", (piece.stop - piece.start, L), np.float64)
        features.cross_kernel_.lift(rows.X[piece], block)
        if whitening is None:
            solve_lower_transposed(features.whitening_, block)
        if dtype != np.float64:
            Phi[piece] = block

    for _ in engine.ordered_map(work, engine.shares(n, engine.block_rows(L, np.float64)), n_jobs):
        pass
    return LogProblem(Lifted(L), replace(rows, X=Phi), 1.0, n_jobs=n_jobs, whitening=whitening)
