"""Adaptive models: a learned metric, a global Nyström model in it, and exact local kernels on what it leaves over."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor

from ulmus import engine
from ulmus.calibration import FoldModels, HeldOut, fold_sample, leave_one_out_sample, refitted, variance_terms
from ulmus.engine import Rows
from ulmus.features.metric import average_outer_product, gradients
from ulmus.features.partition import random_partition
from ulmus.features.preparation import Preparation
from ulmus.features.sampling import distinct_pairs, distinct_sample, gathered, merged, row_keys
from ulmus.models._assembly import Assembly
from ulmus.models._effort import EFFORTS, Effort
from ulmus.models._global import GlobalModel
from ulmus.models._local_stage import MIN_LANDMARKS, held_sets, judge_local
from ulmus.models._tables import TableInput
from ulmus.models._tasks import Classification, Regression
from ulmus.models.options import ADAPTIVE, ADAPTIVE_RUN, CLASS_WEIGHT
from ulmus.parameters import estimator
from ulmus.solvers.local import LocalKernels, fit_leaves
from ulmus.statistics import root_mean_square
from ulmus.tuning.local import LocalChoice
from ulmus.tuning.views import View, ViewSearch, parts_of

#: Rows whose leave-one-out predictions choose the C of the global model.
SCORED = 4_000
#: Rows at which the importance of features is measured.
IMPORTANCE_ROWS = 1_000
#: Where rows are fewer than this many, or than so many for each column (up to a limit), a view adapts to the errors
#: that choose it: intervals then stand on whole fits, each without one of so many parts of the rows.
FEW_ROWS, FEW_OF_COLUMN, FEW_AT_MOST, PARTS = 64, 4, 200, 5


class AdaptiveFamily(Assembly):
    """The parts in order: view, global model, local stage."""

    # What Assembly asks of every model and this one decides by itself.
    C: ClassVar[str] = "auto"
    fit_intercept: ClassVar[str] = "auto"
    cv: ClassVar[None] = None
    device: ClassVar[str] = "cpu"
    _categorical: np.ndarray
    _inputs: np.ndarray

    #: Another plan than that of the effort, for experiments.
    _plan: Effort | None = None

    @property
    def _spent(self) -> Effort:
        return self._plan or EFFORTS[self.effort]

    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        self._began = time.perf_counter()
        # as one row each, copies have the coordinates of a weight to the last digit, and the search draws by them
        rows = gathered(replace(rows, X=np.asarray(rows.X, dtype=np.float64), fold=folds))
        held_out = self._train_on(rows, rng)
        seed = int(rng.randint(2**31 - 1))
        part = self._parts(rows, seed)
        return held_out if part is None else refitted(rows, part, partial(self._another, seed))

    def _parts(self, rows: Rows, seed: int) -> np.ndarray | None:
        """Parts of the rows to be left out of whole fits, where a view is learned from few rows."""
        few = max(FEW_ROWS, min(FEW_OF_COLUMN * rows.X.shape[1], FEW_AT_MOST))
        if not is_regressor(self) or rows.fold is not None or len(rows) >= few:
            return None
        keys, place = np.unique(row_keys(rows.X, seed), return_inverse=True)
        return place % PARTS if len(keys) >= 2 * PARTS else None

    def _another(self, seed: int, rows: Rows) -> Callable[[np.ndarray], np.ndarray]:
        """A model like this one of other rows."""
        other = copy(self)
        other.verbose = 0
        other._train_on(rows, np.random.RandomState(seed))
        return lambda X: other._outputs(X) + other.intercept_

    def _train_on(self, rows: Rows, rng: np.random.RandomState) -> HeldOut:
        centre, scale = self._units(rows)
        rows = replace(rows, T=(rows.T - centre) / scale)
        coding = self._coding(rows)
        with engine.threads_for(self._spent.landmarks):
            self.view_, landmarks = self._choose_view(rows, coding, rng)
            rows = replace(rows, X=self.view_.transform_learned(rows, parts_of(rows, rng)))
            scored = distinct_pairs(rows, SCORED, rng)
            model = self._fit_global(rows, coding, scored, landmarks, rng)
            held = held_sets(rows, rng) if self._spent.partitions else []
            P, *P_without = model.predictions(model.solution, *map(model.without, held))
            choice, held_out = self._judge_local(rows, held, P_without, coding, rng)
            self.local_ = self._fit_local(rows, P, choice, scale, rng)
        if self.local_ is None:
            model = self._larger(model, rows, coding, scored, rng)
        with engine.threads_for(model.size):
            if held_out is None or self.local_ is None:
                held_out = self._left_out(model, rng)
            solution, self.map_, self.C_ = model.solution, model.landmark_map, model.trial.best_C
            self.feature_importances_ = self._importances(rows, solution.beta)
        self._leverage = solution.leverage
        self.beta_, self.intercept_ = solution.beta * scale, solution.intercept * scale + centre
        self.memory_ = self.map_.landmarks_.nbytes + self.map_.whitening_.nbytes + self.beta_.nbytes
        self.memory_ += 0 if self.local_ is None else self.local_.nbytes
        self._say(f"done: the model holds {self.memory_ / 1e6:.1f} MB")
        # intervals are as wide for one row as for another (_variance_factors), so residuals are taken as they are
        plain = np.zeros(len(held_out.variance))
        return replace(held_out, T=held_out.T * scale + centre, P=held_out.P * scale + centre, variance=plain)

    def _units(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Regression targets are fitted in units of their deviation, codes as they are."""
        if not self._default_intercept:
            return np.zeros(rows.T.shape[1]), np.ones(rows.T.shape[1])
        mean = np.average(rows.T, axis=0, weights=rows.weight)
        deviation = root_mean_square(rows.T - mean, rows.weight)
        return mean, np.where(deviation > 0, deviation, 1.0)

    def _choose_view(self, rows: Rows, coding: Any, rng: np.random.RandomState) -> tuple[View, int]:
        """Choose on samples, then learn the preparation from all rows; and how many landmarks there is a use for."""
        search = ViewSearch(
            rows,
            coding,
            self._categorical,
            rng,
            fit_intercept=self._intercept,
            criterion=self.criterion,
            budget=self._spent.budget,
            n_jobs=self.n_jobs,
        )
        view = search.choose()
        self.trials_ = tuple(search.trials)
        kind = view.preparation.columns.kind
        self._say(f"view: {kind} columns, kernel {view.kernel}, {len(self.trials_)} trials")
        landmarks = self._spent.landmarks // (2 if search.saturated else 1)
        preparation = Preparation.of(kind, rows.X, rows.T, rows.weight, self._categorical)
        return replace(view, preparation=preparation), landmarks

    def _fit_global(
        self, rows: Rows, coding: Any, scored: Any, landmarks: int, rng: np.random.RandomState
    ) -> GlobalModel:
        distinct = len(np.unique(row_keys(rows.X, 0)))
        model = GlobalModel.of(
            rows,
            self.view_,
            min(landmarks, max(MIN_LANDMARKS, distinct // 2)),
            int(rng.randint(2**31 - 1)),
            coding=coding,
            criterion=self.criterion,
            scored=scored,
            fit_intercept=self._intercept,
            n_jobs=self.n_jobs,
        )
        trial = model.trial
        self._say(f"global model: {model.size} landmarks, C = {trial.best_C:.3g}, loss {trial.best_loss:.4g}")
        return model

    def _larger(
        self, model: GlobalModel, rows: Rows, coding: Any, scored: Any, rng: np.random.RandomState
    ) -> GlobalModel:
        """What leaves do not find, more landmarks may: the global model with twice as many, where it is better."""
        size = 2 * self._spent.landmarks
        room = len(rows) >= 8 * size and 8 * size * (size + rows.X.shape[1]) <= self.max_memory * 1e9
        if not (self._spent.grows and room and 2 * model.size >= size and model.wants_more):
            return model
        larger = self._fit_global(rows, coding, scored, size, rng)
        return min((model, larger), key=lambda each: each.trial.best_loss)

    def _left_out(self, model: GlobalModel, rng: np.random.RandomState) -> HeldOut:
        """Predictions of rows by global models that did not see them: without each of them, or without their fold."""
        if model.seen.fold is None:
            return leave_one_out_sample(
                model.features, model.seen, model.solution, rng, model.trial.best_C, n_jobs=self.n_jobs
            )
        models = FoldModels(model.seen.fold, model.sums, model.trial.best_C, self._intercept)
        return fold_sample(model.features, model.seen, models, rng)

    def _judge_local(
        self, rows: Rows, held: list[np.ndarray], P: list[np.ndarray], coding: Any, rng: np.random.RandomState
    ) -> tuple[LocalChoice | None, HeldOut | None]:
        """The best local stage, judged on rows that the global models behind it (which predict P) have not seen."""
        if not held:
            return None, None
        choice, held_out = judge_local(rows, held, P, self.view_, self._spent, coding, self.criterion, rng, self.n_jobs)
        self._say(
            f"local stage: loss {choice.loss:.4g} against {choice.loss_without:.4g} without it "
            f"({'kept' if choice.pays else 'left out'})"
        )
        return choice, held_out

    def _fit_local(
        self, rows: Rows, P: np.ndarray, choice: LocalChoice | None, scale: np.ndarray, rng: np.random.RandomState
    ) -> LocalKernels | None:
        """The local stage on what the global model, which predicts P, leaves over."""
        if choice is None or not choice.pays:
            return None
        effort, gamma = self._spent, choice.width * self.view_.gamma
        rest = merged(replace(rows, T=rows.T - P), rng)
        each = rest.T.nbytes + 8 * len(rest)
        rounds = min(effort.partitions, int((self.max_memory * 1e9 - rest.X.nbytes) // each))
        if rounds < 1:
            self._say(f"local stage left out: it needs {(rest.X.nbytes + each) / 1e9:.2g} GB")
            return None
        size = effort.leaf(len(rest))
        rounds = rounds if len(rest) > size else 1  # there is but one way to put all rows into one leaf
        partitions = tuple(random_partition(rest.X, size, rng) for _ in range(rounds))
        kernel, ridge = self.view_.kernel, choice.ridge
        alphas = fit_leaves(kernel, gamma, ridge, rest.X, rest.T, rest.weight, partitions, n_jobs=self.n_jobs)
        return LocalKernels(kernel, gamma, rest.X, partitions, tuple(scale * alpha for alpha in alphas))

    def _importances(self, rows: Rows, beta: np.ndarray) -> np.ndarray:
        """Mean squared slope of the global model along each input, as shares."""
        some = distinct_sample(rows, IMPORTANCE_ROWS, np.random.RandomState(0))[1]
        G = gradients(self.map_.cross_kernel_, some.X, self.map_.weight_to_landmarks(beta))
        seen = self.view_.metric > 0
        along = average_outer_product(G, some.weight) * self.view_.metric[seen] ** 2
        sources = self._inputs[self.view_.preparation.sources()[seen]]
        total = np.bincount(sources, weights=along, minlength=self._inputs.max() + 1)
        return total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))

    def _outputs(self, X: Any) -> np.ndarray:
        U = self.view_.transform(np.asarray(X, dtype=np.float64))
        weights = self.map_.weight_to_landmarks(self.beta_)
        out = engine.apply(self.map_.cross_kernel_, U, weights, n_jobs=self.n_jobs)
        if self.local_ is not None:
            out += self.local_.predict(U, self.n_jobs)
        return out

    def _deviation_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Those of the global model: it is what answers far from the data."""
        U = self.view_.transform(np.asarray(X, dtype=np.float64))
        h, r = variance_terms(self.map_, U, self._leverage, self.n_jobs)
        return h, self.C_ * r

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        zero = np.zeros(X.shape[0])
        return zero, zero

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"[{time.perf_counter() - self._began:6.1f} s] {text}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        return tags


@estimator(ADAPTIVE | ADAPTIVE_RUN)
class AdaptiveRegressor(TableInput, Regression, AdaptiveFamily):
    r"""Regression that learns its metric from the data and corrects itself locally.

    The prediction is :math:`f(x) + \frac1P\sum_p g_p(x)`: a Nyström model f (:class:`NKELMRegressor`) of the rows as
    the chosen *view* shows them, and on what f leaves over, exact kernel ridge in the leaves of P random partitions.
    The view is a preparation of the columns, a kernel, a width, and a metric that stretches the features along which
    f varies. Everything is chosen by leave-one-out or on rows held out.

    It needs no scaling of the inputs, takes text, categories and dates in frames, and aims at boosted trees' accuracy.
    The local stage keeps the training rows: for a small model, or one that learns on, take :class:`NKELMRegressor`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    view_ : View
        How the kernel sees the table: preparation, metric, kernel, gamma.
    map_ : NystromMap
        Feature map of the global model; ``beta_``, ``intercept_`` and ``C_`` belong to it.
    local_ : LocalKernels or None
        The local stage; None where it did not pay.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each input in the mean squared slope of the global model.
    memory_ : int
        Bytes that the model holds.
    trials_ : tuple of Trial
        What the choice of the view tried.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin (2024). Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models. Science 383, 1461-1467.

    Examples
    --------
    >>> from ulmus import AdaptiveRegressor, datasets
    >>> X, y = datasets.load("abalone").data, datasets.load("abalone").target
    >>> model = AdaptiveRegressor(effort="fast", categorical_features=[0], random_state=0).fit(X[:3000], y[:3000])
    >>> bool(model.score(X[3000:], y[3000:]) > 0.5)
    True
    """


@estimator(ADAPTIVE | CLASS_WEIGHT | ADAPTIVE_RUN)
class AdaptiveClassifier(TableInput, Classification, AdaptiveFamily):
    """Classification that learns its metric from the data and corrects itself locally.

    One ±1 target per class, fitted as :class:`AdaptiveRegressor` fits; the largest score wins.

    It needs no scaling of the inputs, takes text, categories and dates in frames, and aims at boosted trees' accuracy.
    The local stage keeps the training rows: for a small model, or one that learns on, take :class:`NKELMClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    temperature_ : float
        Factor that turns scores into probabilities.
    floor_ : ndarray of shape (n_classes,)
        Probability that every class has whatever the scores say: a share of its frequency.
    view_ : View
        How the kernel sees the table: preparation, metric, kernel, gamma.
    map_ : NystromMap
        Feature map of the global model; ``beta_``, ``intercept_`` and ``C_`` belong to it.
    local_ : LocalKernels or None
        The local stage; None where it did not pay.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each input in the mean squared slope of the global model.
    memory_ : int
        Bytes that the model holds.
    trials_ : tuple of Trial
        What the choice of the view tried.

    Examples
    --------
    >>> from ulmus import AdaptiveClassifier, datasets
    >>> wine = datasets.load("wine")
    >>> model = AdaptiveClassifier(effort="fast", random_state=0).fit(wine.data[::2], wine.target[::2])
    >>> bool(model.score(wine.data[1::2], wine.target[1::2]) > 0.93)
    True
    """
