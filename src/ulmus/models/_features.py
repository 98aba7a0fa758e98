"""What the families with an explicit feature map share.

Their fits are three steps: **begin** fixes the map, **summarise** turns rows into sums, **finish** turns sums into
weights. ``fit`` takes them on rows in memory; any driver that reads rows block by block takes the same ones.
"""

from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import FoldModels, HeldOut, MapLeaning, fold_sample
from ulmus.engine import Rows
from ulmus.models._assembly import Assembly
from ulmus.models.choice import Choice, Training, choose, choose_from_sums
from ulmus.solvers.ridge import Gradient
from ulmus.statistics import Extent, Statistics, Summary
from ulmus.tuning import Tuning, summarise


class MappedFamily(Assembly):
    """A feature map and its output weights.

    A family says what is given of its map (``_recipe``), what may be summed in its place (``_summed_form``), what
    else is asked of rows (``_extent``), and what it keeps of a solution and of the rows, or sums, behind it
    (``_settle``).
    """

    map_: Any
    beta_: np.ndarray
    intercept_: np.ndarray
    C_: Any
    tuning_: Tuning
    spread_: Any
    _leverage: Any
    #: Rows of the fit, their weight and extent, from which a recursion can go on.
    _fitted_on: tuple[int, float, Extent | None]

    def _train(self, training: Training) -> HeldOut:
        rows, folds, backend = training.rows, training.folds, training.backend
        stats = self._begin(training)
        solution = backend.fit_ridge(self.map_, rows, self.C_, self._intercept, stats)
        self._settle(solution, rows)
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        self._fitted_on = (len(rows), weight, self._fitted_extent(rows))
        if folds is None or self.C_ is None:
            return backend.left_out(self.map_, rows, solution, training.rng, self.C_)
        summary = summarise(partial(backend.host_statistics, self.map_), rows, folds)
        return fold_sample(self.map_, rows, self._fold_models(folds, summary), training.rng)

    @property
    def _noise_features(self) -> Any:
        return self.map_

    def _leaning(self) -> Any:
        rows = self.spread_.rows
        if rows is None or not rows.one_by_one:
            raise ValueError(
                'method="jackknife+" needs left-out predictions of single rows, and this model was calibrated on whole '
                'folds, by the iterative route or by an earlier version; use method="normalised", or fit with '
                'cv=None, no groups and solver="direct"'
            )
        return MapLeaning.of(self.map_, self._leverage, self.beta_, rows)

    def _fold_models(self, folds: np.ndarray, summary: Summary) -> FoldModels:
        return FoldModels(folds, summary, self.C_, self._intercept)

    def _begin(self, training: Training, *, spare: bool = False) -> Statistics | None:
        """Choose and fit ``map_`` and ``C_`` on these rows; their sums, where the choice needed them.

        With ``spare`` a size that was to be chosen comes out twice as large as these rows ask for, so that
        :meth:`_finish` can choose it on more rows.
        """
        plan = choose(self._recipe, self._ridge_search, training, spare=spare)
        self._adopt(plan)
        return plan.statistics

    def _adopt(self, plan: Choice) -> None:
        """Keep what was chosen."""
        self.map_, self.C_ = plan.features, plan.C
        if plan.tuning is not None:
            self.tuning_ = plan.tuning
        recipe = self._recipe
        width, size = recipe.in_use(plan.features)
        setattr(self, f"{recipe.width_name}_", width)
        setattr(self, f"{recipe.size_name}_", size)

    def _statistics(self, features: Any, rows: Rows) -> Statistics:
        """Sums of the rows, in memory."""
        return Host(self.n_jobs).statistics(features, rows)

    def _summarise(self, rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None) -> Summary:
        """Sums of a block of rows on ``map_``, per fold where the rows have fold numbers. They add."""
        sums = summarise(lambda part: self._statistics(self.map_, part), rows, folds, n_folds)
        return Summary(sums.total, sums.folds, self._extent(rows))

    def _finish(
        self, summary: Summary, sample: Training, *, choose: bool = False, again: Gradient | None = None
    ) -> None:
        """Weights from sums, and calibration on a sample of the rows that are in them.

        With ``choose``, what the model leaves open among C and its size is chosen first: by the loss of the sample's
        rows left out one by one, or fold by fold where it has folds and the summary too. ``again`` wins back digits
        that the sums have lost (:func:`ulmus.solvers.ridge.fit_sums`). Sums that are on a device are solved there.
        """
        backend, folds = sample.backend, sample.folds
        with engine.threads_for(summary.total.n_features):
            if choose:
                width = getattr(self, f"{self._recipe.width_name}_")
                plan = Choice(width, self.C_, self.map_, tuning=getattr(self, "tuning_", None))
                plan, summary = choose_from_sums(plan, self._recipe, self._ridge_search, sample, summary)
                self._adopt(plan)
            solution = backend.fit_sums(self.map_, sample.rows, summary.total, self.C_, self._intercept, again)
            self._settle(solution, backend.on_host(summary.prefix(0)))  # what is kept of sums are those of targets
            if folds is not None and summary.folds and self.C_ is not None:
                models = self._fold_models(folds, backend.on_host(summary))
                held_out = fold_sample(self.map_, sample.rows, models, sample.rng)
            else:
                held_out = backend.left_out(self.map_, sample.rows, solution, sample.rng, self.C_)
        self.__dict__.pop("_fitted_keys", None)
        self._fitted_on = (summary.total.n_rows, summary.total.weight, summary.extent)
        self._calibrate(held_out)

    def _most_features(self, rows: Rows) -> int:
        return int(self._recipe.most(rows))
