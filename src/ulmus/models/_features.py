"""What the families with an explicit feature map share.

Their fits are three steps: **begin** fixes the map, **summarise** turns rows into sums, **finish** turns sums into
weights. ``fit`` takes them on rows in memory; any driver that reads rows block by block takes the same ones.
"""

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.calibration import FoldModels, HeldOut, fold_sample, leave_one_out_sample
from ulmus.engine import Lift, Rows
from ulmus.models._assembly import Assembly
from ulmus.solvers.ridge import Gradient, Solution, fit_sums
from ulmus.statistics import Extent, Statistics, Summary
from ulmus.tuning import Tuning, summarise

if TYPE_CHECKING:
    pass


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
            return self._leave_one_out(rows, solution, rng)
        sums = self._statistics if self._driver is None else self._driver.host_statistics
        summary = summarise(partial(sums, self.map_), rows, folds)
        return fold_sample(self.map_, rows, self._fold_models(folds, summary), rng)

    def _leave_one_out(self, rows: Rows, solution: Solution, rng: np.random.RandomState) -> HeldOut:
        evaluate = None
        if self._driver is not None:
            from ulmus.devices.direct import fitted_values

            evaluate = partial(fitted_values, self._driver)
        return leave_one_out_sample(self.map_, rows, solution, rng, self.C_, evaluate=evaluate, n_jobs=self.n_jobs)

    def _fold_models(self, folds: np.ndarray, summary: Summary) -> FoldModels:
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
                held_out = self._leave_one_out(sample, solution, rng)
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
