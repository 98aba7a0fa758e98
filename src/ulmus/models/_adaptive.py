"""What adaptive models share: view, global model, local stage, in this order."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import HeldOut, parts_of_few, refitted, variance_terms
from ulmus.devices.accelerator import predicting
from ulmus.engine import Rows
from ulmus.features.metric import average_outer_product, gradients, through
from ulmus.features.nystrom import NystromMap
from ulmus.features.preparation import Preparation
from ulmus.features.sampling import distinct_sample, gathered
from ulmus.features.widths import heuristic_gamma
from ulmus.models._effort import EFFORTS, Effort
from ulmus.models._left_out import MOST_ROWS, LeftOutLater, given_back, variances, with_variances
from ulmus.models._squared_stage import SquaredStages
from ulmus.models._stages import Stages, Work
from ulmus.models.base import Model
from ulmus.models.choice import Training
from ulmus.models.fitted import Fitted, Outcome
from ulmus.solvers.leaving import unit_of
from ulmus.solvers.ridge import Solution
from ulmus.statistics import root_mean_square
from ulmus.tuning.metric import quietly
from ulmus.tuning.views import View, ViewSearch, value_parts

#: The kernel of monotone models: what has kinks falls between them.
SMOOTH = "rbf"
#: Rows at which the importance of features is measured.
IMPORTANCE_ROWS = 1_000
#: Kernel values of leaves from which a prediction is sent to a GPU.
WORTH_SENDING = 3e6
#: Where rows are fewer than this many, or than so many for each column (up to a limit), a view adapts to the errors
#: that choose it: intervals then stand on whole fits, each without one of so many parts of the rows.
FEW_ROWS, FEW_OF_COLUMN, FEW_AT_MOST, PARTS = 64, 4, 200, 5
#: Bits of the units in which targets are fitted.
UNIT_BITS = 20


def few_digits(values: np.ndarray) -> np.ndarray:
    """The same numbers with so few bits that round-off is not among them."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**UNIT_BITS), exponent - UNIT_BITS))


class AdaptiveModel(Model):
    """The parts in order: view, global model, local stage."""

    # What Model asks of every model and this one decides by itself.
    C: ClassVar[str] = "auto"
    fit_intercept: ClassVar[str] = "auto"
    cv: ClassVar[None] = None
    _minds_scales: ClassVar[bool] = False
    _fit_stages: ClassVar[Mapping[str, float]] = {"view": 0.6, "global model": 0.15, "local stage": 0.25}
    _categorical: np.ndarray
    _inputs: np.ndarray

    #: How rows are left out, until they are.
    _later: LeftOutLater | None = None
    #: Another plan than that of the effort, for experiments.
    _plan: Effort | None = None

    @property
    def _spent(self) -> Effort:
        return self._plan or EFFORTS[self.effort]

    def _train(self, training: Training) -> Outcome:
        rows, folds, rng = training.rows, training.folds, training.rng
        # as one row each, copies have the coordinates of a weight to the last digit, and the search draws by them
        rows = gathered(replace(rows, X=np.asarray(rows.X, dtype=np.float64), fold=folds))
        held_out = self._train_on(rows, rng, training.targets, training.backend)
        seed = int(rng.randint(2**31 - 1))
        part = self._parts(rows)
        if part is not None:
            self._later = None
            held_out = refitted(rows, part, partial(self._another, seed, training.targets, training.backend))
        return Outcome(None, held_out)

    def _parts(self, rows: Rows) -> np.ndarray | None:
        """Parts of the rows to be left out of whole fits, where a view is learned from few rows."""
        few = max(FEW_ROWS, min(FEW_OF_COLUMN * rows.X.shape[1], FEW_AT_MOST))
        if not is_regressor(self) or rows.fold is not None or len(rows) >= few:
            return None
        return parts_of_few(rows, np.inf, PARTS)

    def _another(self, seed: int, targets: Any, backend: Any, rows: Rows) -> Callable[[Any], Any]:
        """A model like this one of other rows."""
        other = copy(self)
        other.verbose, other._progress = 0, None
        other._train_on(rows, np.random.RandomState(seed), targets, backend)
        return lambda X: (other._outputs(X), np.zeros(len(X)))

    def _train_on(self, rows: Rows, rng: np.random.RandomState, targets: Any, backend: Any) -> HeldOut | None:
        table, rows = rows.X, replace(rows, place=np.arange(len(rows)))
        centre, scale = self._units(rows)
        rows = replace(rows, T=(rows.T - centre) / scale)
        coding = self._coding(targets, rows)
        self._enter("view")
        with engine.threads_for(self._spent.landmarks):
            self.view_, landmarks = self._choose_view(rows, coding, rng)
            self._part_seed = int(rng.randint(2**31 - 1))
            rows = replace(rows, X=self.view_.transform_learned(rows, value_parts(rows, self._part_seed)))
        self._enter("global model")
        stages = self._stages(rows, coding, landmarks, rng, backend)
        units, seed, self._later = (centre, scale), int(rng.randint(2**31 - 1)), None
        if self._leaves_out_later(rows):
            self._later = self._left_out(stages, rows, table.copy(), units, seed)  # the table may be the user's
            stages = replace(stages, held_out=None)
        if self._is_monotone:
            stages = self._monotone(stages, rows, table, rng)
        if stages.local is not None:
            stages = replace(stages, local=stages.local.scaled(scale))
        self._settle(stages, rows, units)
        return None if stages.held_out is None else given_back(stages.held_out, units, table)

    def _leaves_out_later(self, rows: Rows) -> bool:
        """Whether rows leave both stages one by one, when intervals are asked for."""
        return is_regressor(self) and rows.fold is None and len(rows) <= MOST_ROWS

    def _left_out(
        self, stages: Stages, rows: Rows, table: np.ndarray, units: tuple[np.ndarray, np.ndarray], seed: int
    ) -> LeftOutLater:
        """Predictions of rows, each by both stages without it, as if it were a new row of the table."""
        preparation, metric = self.view_.preparation, self.view_.metric

        def as_new(index: np.ndarray) -> np.ndarray:
            some = rows.take(index)
            return through(preparation.transform_left_out(table[index], some.T, unit_of(some)), metric)

        return LeftOutLater(stages, rows, table, units, as_new if preparation.has_means else None, seed)

    def _now(self, *needs: str) -> Fitted:
        later = self._later  # first: where it is gone, what it gave is in its place
        fitted = super()._now(*needs)
        if later is not None and not fitted.has(*needs):
            fitted = replace(fitted, certainty=self._certainty(fitted.targets, later(self.n_jobs), later.rows))
            self.fitted_, self._later = fitted, None
        return fitted

    def __getstate__(self) -> dict[str, Any]:
        if self._later is not None and hasattr(self, "fitted_"):
            self._now("certainty")
        return {name: value for name, value in super().__getstate__().items() if name != "_later"}

    def _settle(self, stages: Stages, rows: Rows, units: tuple[np.ndarray, np.ndarray]) -> None:
        """Keep what was fitted to targets in these units (leaves are in those of the targets already)."""
        centre, scale = units
        if not is_regressor(self):
            stages, self._variances = with_variances(stages, rows, self.n_jobs)
        self.map_, self.C_, self._leverage = stages.landmark_map, stages.C, stages.leverage
        self.local_ = stages.local
        self.local_losses_ = stages.local_losses
        with engine.threads_for(self.map_.n_lifted):
            self.feature_importances_ = self._importances(rows, stages.beta)
        self.beta_, self.intercept_ = stages.beta * scale, stages.intercept * scale + centre
        self.memory_ = self.map_.landmarks_.nbytes + self.map_.whitening_.nbytes + self.beta_.nbytes
        self.memory_ += 0 if self.local_ is None else self.local_.nbytes
        self._say(f"done: the model holds {self.memory_ / 1e6:.1f} MB")

    def _stages(self, rows: Rows, coding: Any, landmarks: int, rng: np.random.RandomState, backend: Any) -> Stages:
        """Global model and local stage in the chosen view."""
        work = self._work(rows, coding, rng, self.criterion, backend)
        later = self._leaves_out_later(rows)
        return SquaredStages(work, self._intercept, later).fit(landmarks)

    def _monotone(self, stages: Stages, rows: Rows, table: np.ndarray, rng: np.random.RandomState) -> Stages:
        """A global model with a smooth kernel that says what both stages say, without falls along some columns."""
        from ulmus.models.monotone import MonotoneFit, column_signs
        from ulmus.models.pupil import lessons

        signs, self.monotone_violation_ = column_signs(self), 0.0
        if signs is None:
            return stages
        if rows.T.shape[1] > 1:
            raise ValueError("monotonic_cst does not go with several outputs: it needs one")
        seed, host = int(rng.randint(2**31 - 1)), Host(self.n_jobs)
        table, rows = lessons(stages, table, rows, self.view_.transform, rng, self.n_jobs)
        size = min(max(stages.landmark_map.n_lifted, self._spent.landmarks), len(rows))

        def make(gamma: float) -> NystromMap:
            made = NystromMap(size, kernel=SMOOTH, gamma=gamma, random_state=seed, n_jobs=self.n_jobs)
            return made.fit(rows.X, sample_weight=rows.weight)

        def solve(features: Any, C: float) -> Solution:
            return host.fit_ridge(features, rows, C, self._intercept, None)

        with quietly():
            gamma = heuristic_gamma(SMOOTH, rows.X, rows.weight, rng)
            fit = MonotoneFit(make, solve, rows, table, self.view_.transform, signs, seed, self.n_jobs)
            found = fit.choose(2.0 * gamma, 1.0, open_width=True, open_C=True)
        self.view_, self.monotone_violation_ = replace(self.view_, kernel=SMOOTH, gamma=found.width), found.fall
        self._say(f"monotone: {SMOOTH} kernel, C = {found.C:.3g}, {found.n_binding} steps bind")
        s = found.solution
        return Stages(found.features, found.C, s.beta, s.intercept, None, stages.held_out, s.leverage)

    def _work(self, rows: Rows, coding: Any, rng: np.random.RandomState, criterion: str, backend: Any) -> Work:
        given = (rows, self.view_, self._spent, coding, criterion, self.max_memory * 1e9, rng, backend)
        return Work(*given, self._say, self._enter)

    def _learned_coordinates(self, rows: Rows) -> np.ndarray:
        """Coordinates of the training rows, as the fit saw them; copies may stand apart."""
        centre, scale = self._units(rows)
        scaled = replace(rows, T=(rows.T - centre) / scale)
        one_each = gathered(scaled)
        many = len(np.unique(value_parts(one_each, self._part_seed))) == 1
        part = np.full(len(rows), -1) if many else value_parts(replace(scaled, weight=None), self._part_seed)
        return self.view_.transform_learned(scaled, part)

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

    def _choose_view(self, rows: Rows, coding: Any, rng: np.random.RandomState) -> tuple[View, int]:
        """Choose on samples, then learn the preparation from all rows; and how many landmarks there is a use for."""
        search = ViewSearch(
            rows,
            coding,
            self._categorical,
            rng,
            fit_intercept=self._intercept,
            **self._view_judged,
            budget=self._spent.search(len(rows), numbers=is_regressor(self)),
            n_jobs=self.n_jobs,
        )
        view = search.choose()
        self.trials_, self._view_C = tuple(search.trials), search.C
        kind = view.preparation.columns.kind
        self._say(f"view: {kind} columns, kernel {view.kernel}, {len(self.trials_)} trials")
        landmarks = self._spent.landmarks // (2 if search.saturated else 1)
        cuts = view.preparation.cuts
        whole = search.whole  # of all rows too: what is missing, and levels, need not be looked for again
        preparation = Preparation.of(kind, rows.X, rows.T, rows.weight, self._categorical, whole, cuts)
        return replace(view, preparation=preparation), landmarks

    @property
    def _view_judged(self) -> dict[str, Any]:
        """What views are compared by."""
        return {"criterion": self.criterion}

    def _importances(self, rows: Rows, beta: np.ndarray) -> np.ndarray:
        """Mean squared slope of the global model along each input, as shares."""
        some = distinct_sample(rows, IMPORTANCE_ROWS, np.random.RandomState(0))[1]
        G = gradients(self.map_.cross_kernel_, some.X, self.map_.weight_to_landmarks(beta))
        seen = self.view_.metric > 0
        along = average_outer_product(G, some.weight) * self.view_.metric[seen] ** 2
        sources = self._inputs[self.view_.preparation.sources()[seen]]
        total = np.bincount(sources, weights=along, minlength=self.n_features_in_)
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
        return np.asarray(self._seen(self._checked(X)))

    def _most_features(self, rows: Rows) -> int:
        return self._spent.leaf(len(rows))

    def _sent(self, rows: Rows, backend: Any) -> Rows:
        return rows  # what the backend works on are the rows as the view shows them

    def _outputs(self, X: Any, fitted: Fitted | None = None) -> np.ndarray:
        U = self._seen(X)
        weights = self.map_.weight_to_landmarks(self.beta_)
        work = float(len(U)) * self._spent.leaf_rows
        with predicting(self.device, self.n_jobs, work, WORTH_SENDING) as backend:
            out: np.ndarray = backend.apply(self.map_.cross_kernel_, U, weights)
            if self.local_ is not None:
                out += backend.answers(self.local_, U)
        out += self.intercept_
        return out

    def _noise_features(self, fitted: Fitted) -> Any:
        return self.map_

    def _seen(self, X: Any) -> Any:
        return self.view_.transform(np.asarray(X, dtype=np.float64))

    def _leaning(self, fitted: Fitted) -> Any:
        raise ValueError(
            f'method="jackknife+" needs every row to be left out alone, exactly, and {type(self).__name__} has no '
            'closed form for that; use method="normalised"'
        )

    def _deviation_factors(self, X: Any, fitted: Fitted | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Those of the global model: it is what answers far from the data."""
        h, r = variance_terms(self.map_, self._seen(X), self._leverage, self.n_jobs)
        return h, self.C_ * r

    def _left_out_variance(self, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
        known: Any = getattr(self, "_variances", None)
        if is_regressor(self) and self._leverage is not None and fitted.certainty.rows is not None:
            rows = fitted.certainty.rows
            known = variances(
                self.map_, self._leverage, self.C_, Rows(self._seen(rows.X), rows.T, rows.weight), self.n_jobs
            )
        if known is None:
            raise ValueError(f"this {type(self).__name__} comes from a version that kept no leverages; fit it again")
        found: tuple[np.ndarray, np.ndarray] = known
        return found

    def _variance_factors(self, X: Any, fitted: Fitted | None = None) -> tuple[np.ndarray, np.ndarray]:
        zero = np.zeros(X.shape[0])
        return zero, zero

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
