"""What the families with an explicit feature map share.

Their fits are three steps: **begin** fixes the map, **summarise** turns rows into sums, **finish** turns sums into
weights. ``fit`` takes them on rows in memory; any driver that reads rows block by block takes the same ones.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.calibration import HeldOut
from ulmus.engine import Lift, Rows
from ulmus.features.kept import KeptMap
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import distinct_sample
from ulmus.models._assembly import CALIBRATION_ROWS, Assembly
from ulmus.solvers.path import RidgePath
from ulmus.solvers.ridge import Gradient, Solution, fit_sums
from ulmus.statistics import Extent, Statistics, Summary
from ulmus.tuning import Tuning, summarise

if TYPE_CHECKING:
    from ulmus.devices.direct import Driver


class MappedFamily(Assembly):
    """A feature map and its output weights.

    A family says how its map is chosen (``_begin``), what is summed (``_statistics``), how rows in memory are solved
    (``_solve``), and what it keeps of a solution (``_settle``).
    """

    #: The fitted attribute that holds the width of the features.
    _width: ClassVar[str]

    map_: Any
    C_: Any
    tuning_: Tuning
    #: Rows of the fit, their weight and extent, from which a recursion can go on.
    _fitted_on: tuple[int, float, Extent | None]

    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        stats = self._begin(rows, folds, rng)
        solution = self._solve(rows, stats)
        self._settle(solution, rows)
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        self._fitted_on = (len(rows), weight, self._fitted_extent(rows))
        if folds is None or self.C_ is None:
            return leave_one_out_sample(self.map_, rows, solution, rng, self.n_jobs, self._driver)
        sums = self._statistics if self._driver is None else self._driver.host_statistics
        summary = summarise(partial(sums, self.map_), rows, folds)
        return fold_sample(self.map_, rows, self._fold_models(folds, summary), rng)

    def _fold_models(self, folds: np.ndarray, summary: Summary) -> "FoldModels":
        return FoldModels(folds, summary, self.C_, self._intercept)

    @abstractmethod
    def _begin(
        self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, *, spare: bool = False
    ) -> Statistics | None:
        """Choose and fit ``map_`` and ``C_`` on these rows; their sums, where the choice needed them.

        With ``spare`` a size that was to be chosen comes out twice as large as these rows ask for, so that
        :meth:`_finish` can choose it on more rows.
        """

    @abstractmethod
    def _statistics(self, features: Any, rows: Rows) -> Statistics:
        """Sums of the rows on a map of this family."""

    def _summarise(self, rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None) -> Summary:
        """Sums of a block of rows on ``map_``, per fold where the rows have fold numbers. They add."""
        sums = summarise(lambda part: self._statistics(self.map_, part), rows, folds, n_folds)
        return Summary(sums.total, sums.folds, self._extent(rows))

    def _summed_form(self) -> tuple[Lift, np.ndarray | None]:
        """What a driver may sum instead of ``map_``, and the triangular factor that whitens the sum at the end."""
        return self.map_, None

    def _extent(self, rows: Rows) -> Extent:
        return Extent.of(rows.T)

    def _fitted_extent(self, rows: Rows) -> Extent:
        """The extent of rows that were fitted just now."""
        return self._extent(rows)

    def _finish(
        self,
        summary: Summary,
        sample: Rows,
        rng: np.random.RandomState,
        *,
        folds: np.ndarray | None = None,
        choose: bool = False,
        again: Gradient | None = None,
    ) -> None:
        """Weights from sums, and calibration on a sample of the rows that are in them.

        With ``choose``, what the model leaves open among C and its size is chosen first: by the loss of the sample's
        rows left out one by one, or fold by fold where ``folds`` has their numbers and the summary has folds.
        ``again`` wins back digits that the sums have lost (:func:`ulmus.solvers.ridge.fit_sums`). Sums that are on a
        device are solved there.
        """
        with engine.threads_for(summary.total.n_features):
            if choose:
                summary = self._choose_from_sums(summary, sample, folds, rng)
            if self._driver is None:
                solution = fit_sums(summary.total, self.C_, self._intercept, again)
                self._settle(solution, summary)
            else:
                from ulmus.devices import direct

                solution = direct.fit_sums(summary.total, self.C_, self._intercept, again)
                self._settle(solution, direct.on_host(summary.prefix(0)))  # what is kept of sums are those of targets
            if folds is not None and summary.folds and self.C_ is not None:
                summary = summary if self._driver is None else direct.on_host(summary)
                held_out = fold_sample(self.map_, sample, self._fold_models(folds, summary), rng)
            else:
                held_out = leave_one_out_sample(self.map_, sample, solution, rng, self.n_jobs, self._driver)
        self.__dict__.pop("_fitted_keys", None)
        self._fitted_on = (summary.total.n_rows, summary.total.weight, summary.extent)
        self._calibrate(held_out)

    def _choose_from_sums(
        self, summary: Summary, sample: Rows, folds: np.ndarray | None, rng: np.random.RandomState
    ) -> Summary:
        """Choose C, and the size where it was left open, from the sums; the sums of that size."""
        sizes = self.map_.prefix_sizes() if self._open_size else [self.map_.n_lifted]
        if self.C != "auto" and len(sizes) == 1:
            return summary
        width = getattr(self, self._width)
        tuner = self._tuner(sample, lambda _, size: self.map_, self._statistics, folds, rng)
        tuner.trials = list(self.tuning_.trials) if hasattr(self, "tuning_") else []
        found = tuner.choose_prefix(width, self.map_, summary, sizes)
        self.map_, self.C_ = found.features, found.C if self.C == "auto" else self.C
        self.tuning_ = tuner.result(width, found)
        return summary if found.size == summary.total.n_features else summary.prefix(found.size)

    @property
    @abstractmethod
    def _open_size(self) -> bool:
        """Whether the number of features is the model's to choose."""

    @abstractmethod
    def _solve(self, rows: Rows, stats: Statistics | None) -> Solution:
        """Weights for rows in memory (from their sums, if given), by the form that keeps the digits."""

    @abstractmethod
    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        """Keep what predictions need of a solution and of the rows, or sums, that it came from."""


def leave_one_out_sample(
    features: Lift,
    rows: Rows,
    solution: Solution,
    rng: np.random.RandomState,
    n_jobs: int | None,
    driver: "Driver | None" = None,
) -> HeldOut:
    """Exact leave-one-out predictions of a sample of the rows."""
    if driver is not None:
        from ulmus.devices import direct

        return direct.leave_one_out_sample(driver, features, rows, solution, rng, CALIBRATION_ROWS)
    sample = rows
    if rows.effective_count > CALIBRATION_ROWS:
        sample = distinct_sample(rows, CALIBRATION_ROWS, rng)[1]
    lifted, weights = features, solution.beta
    if isinstance(features, NystromMap | KeptMap):  # no row has to be whitened
        lifted, weights = features.cross_kernel_, features.weight_to_landmarks(solution.beta)
    fitted = engine.apply(lifted, sample.X, weights, n_jobs=n_jobs) + solution.intercept
    h = leverages(features, sample.X, solution.leverage, n_jobs)
    return HeldOut.of(sample, sample.T - fitted, 1.0 - (h if sample.unit is None else sample.unit * h))


@dataclass(frozen=True)
class FoldModels:
    """The models of a cross-validation: in which fold each row is tested, sums of all rows and of each fold, C."""

    numbers: np.ndarray
    summary: Summary
    C: float
    fit_intercept: bool

    def without(self, k: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Predictions and leverages under the model that did not see fold ``k``."""
        rest = self.summary.total - self.summary.folds[k]
        return RidgePath(rest, fit_intercept=self.fit_intercept).held_out(self.C)


def fold_sample(features: Lift, rows: Rows, folds: FoldModels, rng: np.random.RandomState) -> HeldOut:
    """Predictions of a sample of the rows by models that did not see their fold."""
    tested = np.flatnonzero(folds.numbers >= 0)
    rows, number = rows.take(tested), folds.numbers[tested]
    if rows.effective_count > CALIBRATION_ROWS:
        index, rows = distinct_sample(rows, CALIBRATION_ROWS, rng)
        number = number[index]
    P, h = np.empty(rows.T.shape), np.empty(len(rows))
    for k in np.unique(number):
        predict = folds.without(k)
        of_fold = np.flatnonzero(number == k)
        for piece in engine.pieces(len(of_fold), engine.block_rows(features.n_lifted, np.float64)):
            index = of_fold[piece]
            Phi = np.empty((len(index), features.n_lifted))
            features.lift(rows.X[index], Phi)
            P[index], h[index] = predict(Phi)
    return HeldOut.by_others(rows, P, h)


def leverages(features: Lift, X: Any, leverage: Callable[[np.ndarray], np.ndarray], n_jobs: int | None) -> np.ndarray:
    """Leverage of every row of ``X``, in blocks."""
    out = np.empty(X.shape[0])

    def work(piece: slice) -> None:
        Phi = np.empty((piece.stop - piece.start, features.n_lifted))
        features.lift(X[piece], Phi)
        out[piece] = leverage(Phi)

    pieces = engine.shares(X.shape[0], engine.block_rows(features.n_lifted, np.float64))
    for _ in engine.ordered_map(work, pieces, n_jobs):
        pass
    return out
