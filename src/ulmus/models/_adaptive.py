"""What adaptive models share: view, global model, local stage, in this order."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor

from ulmus import engine
from ulmus._threads import aside
from ulmus.calibration import HeldOut, parts_of_few, refitted
from ulmus.engine import Rows
from ulmus.features.metric import average_outer_product, gradients, through
from ulmus.features.preparation import Preparation
from ulmus.features.sampling import distinct_sample, gathered
from ulmus.models._effort import EFFORTS, WARY_ROWS, Effort
from ulmus.models._left_out import MOST_ROWS, LeftOutLater, VariancesLater, given_back
from ulmus.models._squared_stage import SquaredStages
from ulmus.models._stages import Stages, Work
from ulmus.models._tables import read_table
from ulmus.models.adaptive_fit import AdaptiveFit, TableColumns, ViewChoice
from ulmus.models.base import Model
from ulmus.models.choice import Training
from ulmus.models.fitted import Fitted, Outcome
from ulmus.models.progress import untold
from ulmus.solvers.leaving import unit_of
from ulmus.statistics import root_mean_square
from ulmus.tuning.parts import value_parts
from ulmus.tuning.views import View, ViewSearch

#: Rows at which the importance of features is measured.
IMPORTANCE_ROWS = 1_000
#: Where rows are fewer than this many, or than this many for each column (up to a limit), a view adapts to the errors
#: that choose it: intervals then stand on whole fits, each without one of this many parts of the rows.
FEW_ROWS, FEW_OF_COLUMN, FEW_AT_MOST, PARTS = 64, 4, 200, 5
#: Bits of the units in which targets are fitted.
UNIT_BITS = 20


def few_digits(values: np.ndarray) -> np.ndarray:
    """The same numbers with so few bits that round-off is not among them."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**UNIT_BITS), exponent - UNIT_BITS))


#: Nobody assigns ``fitted_`` between a look at it and the assignment of the same with how sure answers are.
_ASSIGNING = Lock()


class AdaptiveModel(Model):
    """The parts in order: view, global model, local stage. A fit gives one :class:`AdaptiveFit`."""

    # What Model asks of every model and this one decides by itself.
    C: ClassVar[str] = "auto"
    fit_intercept: ClassVar[str] = "auto"
    cv: ClassVar[None] = None
    _minds_scales: ClassVar[bool] = False
    _all_finite: ClassVar[Any] = "allow-nan"
    _fit_stages: ClassVar[Mapping[str, float]] = {"view": 0.6, "global model": 0.15, "local stage": 0.25}

    #: Another plan than that of the effort, for experiments.
    _plan: Effort | None = None

    @property
    def _spent(self) -> Effort:
        spent = self._plan or EFFORTS[self.effort]
        return spent if getattr(self, "trees", False) else replace(spent, tree_parts=0)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, TableColumns]:
        return read_table(self, X, y, sample_weight)

    def _train(self, training: Training) -> Outcome:
        rows, folds, rng = training.rows, training.folds, training.rng
        # as one row each, copies have the coordinates of a weight to the last digit, and the search draws by them
        rows = gathered(replace(rows, X=np.asarray(rows.X, dtype=np.float64), fold=folds))
        found = self._train_on(rows, rng, training)
        seed = int(rng.randint(2**31 - 1))
        part = self._parts(rows)
        if part is None:
            return found
        held_out = refitted(rows, part, partial(self._another, seed, training))
        return Outcome(replace(found.weights, later=None), held_out)

    def _parts(self, rows: Rows) -> np.ndarray | None:
        """Parts of the rows to be left out of whole fits, where a view is learned from few rows."""
        few = max(FEW_ROWS, min(FEW_OF_COLUMN * rows.X.shape[1], FEW_AT_MOST))
        if not is_regressor(self) or rows.fold is not None or len(rows) >= few:
            return None
        return parts_of_few(rows, np.inf, PARTS)

    def _another(self, seed: int, training: Training, rows: Rows) -> Callable[[Any], Any]:
        """Predictions by a fit like this one to other rows, without a report."""
        with untold(self):
            found = self._train_on(rows, np.random.RandomState(seed), training)
        fitted = Fitted(found.weights, training.targets)
        return lambda X: (self._outputs(X, fitted), np.zeros(len(X)))

    def _train_on(self, rows: Rows, rng: np.random.RandomState, training: Training) -> Outcome:
        table, rows, columns = rows.X, replace(rows, place=np.arange(len(rows))), training.columns
        units = centre, scale = self._units(rows)
        rows = replace(rows, T=(rows.T - centre) / scale)
        coding = self._coding(training.targets, rows)
        self._enter("view")
        with engine.threads_for(self._spent.landmarks):
            chosen = self._choose_view(rows, coding, columns, rng, training.backend)
            rows = replace(rows, X=chosen.learned(rows))
        self._enter("global model")
        fit = partial(self._stages, rows, coding, chosen, rng, training.backend)
        kernels, stages = self._beside_trees(fit, rows, chosen)
        seed, later = int(rng.randint(2**31 - 1)), None
        if self._leaves_out_later(rows):
            later = self._left_out(kernels, chosen.view, rows, table.copy(), units, seed)  # the table may be the user's
            later = replace(later, unseen=stages.unseen, share=stages.tree_weight)
            stages = replace(stages, held_out=None)
        if stages.local is not None:
            stages = replace(stages, local=stages.local.scaled(scale))
        if stages.trees is not None:
            stages = replace(stages, trees=stages.trees.scaled(scale).moved(stages.tree_weight * centre))
        weights = self._weights(stages, chosen, columns, rows, units)
        held_out = None if stages.held_out is None else self._held_out(stages, units, table)
        weights = replace(weights, later=later or weights.later)
        if self._is_monotone:
            from ulmus.models.monotone_grid import monotone

            weights = monotone(self, weights, replace(rows, X=table), seed)
        return Outcome(weights, held_out)

    def _beside_trees(self, fit: Callable[[], Stages], rows: Rows, chosen: ViewChoice) -> tuple[Stages, Stages]:
        """The stages, and the same with trees, which another thread grows meanwhile where there is one."""
        log = getattr(self, "loss", None) == "log"
        if not self._spent.tree_parts:
            return (kernels := fit()), kernels
        from ulmus.models._trees import Growing, with_trees

        means = chosen.view.preparation.mean_columns(chosen.view.metric)
        spent = self._spent
        growing = Growing(rows, spent.tree_parts, log, chosen.part_seed, self.n_jobs, means, spent.tree_rate)
        # BLAS has one thread up to that many landmarks, so that no digit hangs on what else is done
        if self._has_trees("log" if log else None) and growing.aside and 2 * self._spent.landmarks <= engine.SMALL:
            with aside(growing, self.n_jobs) as grown:
                kernels = fit()
                return kernels, with_trees(kernels, rows, lambda _: grown(), self._say)
        kernels = fit()
        if not self._has_trees(kernels.loss):
            return kernels, kernels
        growing = replace(growing, by_log=kernels.loss == "log")
        return kernels, with_trees(kernels, rows, growing, self._say)

    def _has_trees(self, loss: str | None) -> bool:
        """Whether trees are grown: their answers are numbers or log-odds, and may fall anywhere."""
        return self._spent.tree_parts > 0 and not self._is_monotone and (is_regressor(self) or loss == "log")

    def _leaves_out_later(self, rows: Rows) -> bool:
        """Whether rows leave both stages one by one, when intervals are asked for."""
        return is_regressor(self) and rows.fold is None and len(rows) <= MOST_ROWS

    def _left_out(
        self,
        stages: Stages,
        view: View,
        rows: Rows,
        table: np.ndarray,
        units: tuple[np.ndarray, np.ndarray],
        seed: int,
    ) -> LeftOutLater:
        """Predictions of rows, each by both stages without it, as if it were a new row of the table."""
        preparation, metric = view.preparation, view.metric

        def as_new(index: np.ndarray) -> np.ndarray:
            some = rows.take(index)
            return through(preparation.transform_left_out(table[index], some.T, unit_of(some)), metric)

        return LeftOutLater(stages, rows, table, units, as_new if preparation.has_means else None, seed)

    @staticmethod
    def _held_out(stages: Stages, units: tuple[np.ndarray, np.ndarray], table: np.ndarray) -> HeldOut:
        """Predictions of rows of a table that were held out, in the units of the targets."""
        return replace(given_back(stages.held_out, units, table), by_log=stages.loss == "log")

    def _adopt(self, fitted: Fitted, rows: Rows | None = None, learner: Any = None) -> None:
        with _ASSIGNING:
            self.fitted_ = fitted

    def _now(self, *needs: str) -> Fitted:
        fitted = super()._now(*needs)
        later = fitted.weights.later
        if later is None or fitted.has(*needs):
            return fitted
        found: Fitted = later.completed(fitted, self._certainty, self.n_jobs)
        with _ASSIGNING:
            if self.fitted_ is fitted:  # and no other fit, nor the same by another thread
                self.fitted_ = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "fitted_"):
            self._now("factor", "certainty")
        state: dict[str, Any] = super().__getstate__()
        return state

    def _weights(
        self,
        stages: Stages,
        chosen: ViewChoice,
        columns: TableColumns,
        rows: Rows,
        units: tuple[np.ndarray, np.ndarray],
    ) -> AdaptiveFit:
        """What was fitted to targets in these units (leaves are in those of the targets already)."""
        (centre, scale), later = units, None
        if not is_regressor(self):
            later, stages = VariancesLater.of(stages, rows), replace(stages, leverage=None)
        with engine.threads_for(stages.landmark_map.n_features_out):
            importances = self._importances(stages, chosen.view, columns, rows)
        found = AdaptiveFit(
            columns=columns,
            view=chosen.view,
            part_seed=chosen.part_seed,
            trials=chosen.trials,
            features=stages.landmark_map,
            beta=stages.beta * scale,
            intercept=stages.intercept * scale + (1.0 - stages.tree_weight) * centre,
            C=stages.C,
            leverage=stages.leverage,
            local=stages.local,
            local_losses=stages.local_losses,
            importances=importances,
            loss=stages.loss,
            losses=stages.losses,
            trees=stages.trees,
            tree_losses=stages.tree_losses,
            tree_weight=stages.tree_weight,
            later=later,
        )
        self._say(f"done: the model holds {found.nbytes / 1e6:.1f} MB")
        return found

    def _stages(self, rows: Rows, coding: Any, chosen: ViewChoice, rng: np.random.RandomState, backend: Any) -> Stages:
        """Global model and local stage in the chosen view."""
        work = self._work(rows, coding, chosen.view, rng, self.criterion, backend)
        later = self._leaves_out_later(rows) and not self._has_trees(None)  # whose share rows left out choose at once
        return SquaredStages(work, self._intercept, later, chosen.C).fit(chosen.landmarks)

    def _work(
        self, rows: Rows, coding: Any, view: View, rng: np.random.RandomState, criterion: str, backend: Any
    ) -> Work:
        given = (rows, view, self._spent, coding, criterion, self.max_memory * 1e9, rng, backend)
        return Work(*given, self._say, self._enter)

    def _learned_coordinates(self, rows: Rows) -> np.ndarray:
        """Coordinates of the training rows, as the fit saw them; copies may stand apart."""
        fit, (centre, scale) = self._now().weights, self._units(rows)
        scaled = replace(rows, T=(rows.T - centre) / scale)
        one_each = gathered(scaled)
        many = len(np.unique(value_parts(one_each, fit.part_seed))) == 1
        part = np.full(len(rows), -1) if many else value_parts(replace(scaled, weight=None), fit.part_seed)
        learned: np.ndarray = fit.view.transform_learned(scaled, part)
        return learned

    def _units(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Regression targets are fitted in units of their deviation, codes as they are.

        Units have few digits, so that they do not hang on the order in which rows are summed: samples are drawn by what
        targets are in them.
        """
        if not self._default_intercept:
            return np.zeros(rows.T.shape[1]), np.ones(rows.T.shape[1])
        mean = np.average(rows.T, axis=0, weights=rows.weight)
        deviation = root_mean_square(rows.T - mean, rows.weight)
        scale = few_digits(np.where(deviation > 0, deviation, 1.0))
        return np.round(mean / scale * 2.0**UNIT_BITS) * 2.0**-UNIT_BITS * scale, scale

    def _choose_view(
        self,
        rows: Rows,
        coding: Any,
        columns: TableColumns,
        rng: np.random.RandomState,
        backend: Any,
        n_rows: float | None = None,
    ) -> ViewChoice:
        """Choose on samples, then learn the preparation from all rows; they may themselves be some of ``n_rows``."""
        count = len(rows) if n_rows is None else int(n_rows)
        search = ViewSearch(
            rows,
            coding,
            columns.categorical,
            rng,
            fit_intercept=self._intercept,
            **self._view_scoring(rows, coding),
            budget=self._spent.search(
                count, numbers=is_regressor(self), trees=n_rows is None and self._has_trees(getattr(self, "loss", None))
            ),
            n_jobs=self.n_jobs,
            leaves_elsewhere=backend.metric_cut,
            wary=count < WARY_ROWS,
        )
        view = search.choose()
        kind = view.preparation.columns.kind
        self._say(f"view: {kind} columns, kernel {view.kernel}, {len(search.trials)} trials")
        landmarks = self._spent.landmarks_of(saturated=search.saturated, noisy=search.noisy)
        cuts = view.preparation.cuts
        whole = search.whole  # of all rows too: what is missing, and levels, need not be looked for again
        preparation = Preparation.of(kind, rows.X, rows.T, rows.weight, columns.categorical, whole, cuts)
        part_seed = int(rng.randint(2**31 - 1))
        return ViewChoice(replace(view, preparation=preparation), landmarks, part_seed, tuple(search.trials), search.C)

    def _view_scoring(self, rows: Rows, coding: Any) -> dict[str, Any]:
        """What views of these rows are compared by."""
        return {"criterion": self.criterion}

    @staticmethod
    def _importances(stages: Stages, view: View, columns: TableColumns, rows: Rows) -> np.ndarray:
        """Mean squared slope of the global model along each input, as shares."""
        some, features = distinct_sample(rows, IMPORTANCE_ROWS, np.random.RandomState(0))[1], stages.landmark_map
        G = gradients(features.cross_kernel_, some.X, features.weight_to_landmarks(stages.beta))
        seen = view.metric > 0
        along = average_outer_product(G, some.weight) * view.metric[seen] ** 2
        sources = columns.sources[view.preparation.sources()[seen]]
        total = np.bincount(sources, weights=along, minlength=columns.n_inputs)
        return total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))

    def coordinates(self, X: Any) -> np.ndarray:
        """Rows as the kernel sees them: prepared, and in units of the learned metric.

        Parameters
        ----------
        X : frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
        """
        fitted = self._now()
        return np.asarray(self._seen(self._checked(X, fitted), fitted))

    def _most_features(self, rows: Rows) -> int:
        return self._spent.leaf(len(rows))

    def _sent(self, rows: Rows, backend: Any) -> Rows:
        return rows  # what the backend works on are the rows as the view shows them

    def _checked(self, X: Any, fitted: Fitted | None = None) -> Any:
        fitted = self._now() if fitted is None else fitted
        encoder = fitted.weights.columns.encoder
        return super()._checked(X, fitted) if encoder is None else encoder.transform(X)

    def _seen(self, X: Any, fitted: Fitted) -> Any:
        return fitted.weights.coordinates(X)

    def _leaning(self, fitted: Fitted) -> Any:
        if fitted.weights.grid is not None:
            raise ValueError(
                f'method="jackknife+" needs every row to be left out alone, exactly, and this {type(self).__name__} '
                "has no closed form for that: answers are made monotone (monotonic_cst); use "
                'method="normalised"'
            )
        rows = fitted.certainty.rows
        if rows is not None and rows.curves is None and rows.by_itself is None:
            raise ValueError(
                f'method="jackknife+" needs every row to be left out alone, and the rows of this {type(self).__name__} '
                "were left out in parts, by whole fits (few rows for so many columns, or groups); use "
                'method="normalised", which stands on these'
            )
        return super()._leaning(fitted)

    def _deviation_factors(self, X: Any, fitted: Fitted | None = None) -> tuple[np.ndarray, np.ndarray]:
        fit: AdaptiveFit = (self._now("factor") if fitted is None else fitted).weights
        return fit.deviation_factors(X, self.n_jobs)

    def _left_out_variance(self, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
        rows = fitted.certainty.rows if is_regressor(self) else None
        known: Any = fitted.weights.left_out_variance(rows, self.n_jobs)
        if known is None:
            raise ValueError(f"this {type(self).__name__} comes from a version that kept no leverages; fit it again")
        found: tuple[np.ndarray, np.ndarray] = known
        return found

    def _say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.say(text)

    def _enter(self, stage: str) -> None:
        if self._progress is not None:
            self._progress.enter(stage)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        return tags
