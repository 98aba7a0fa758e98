"""Families with an explicit feature map: random layers and Nyström maps, with ridge weights on their features.

Their fits are three steps: **begin** fixes the map, **summarise** turns rows into sums, **finish** turns sums into
weights. ``fit`` takes them on rows in memory; any driver that reads rows block by block takes the same ones. A family
has no state: it is given the model's parameters, and gives values.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ulmus import engine
from ulmus.backend import Host
from ulmus.calibration import FoldModels, HeldOut, fold_sample
from ulmus.devices.routes import SMALL, choose_route
from ulmus.engine import FeatureMap, Rows
from ulmus.features.kernels import KERNELS, CrossKernel
from ulmus.features.recipes import NystromFeatures, RandomFeatures
from ulmus.models.choice import Choice, Training, choose, choose_from_sums, prepared
from ulmus.models.fitted import Learned, NystromFit, Outcome, RandomFit
from ulmus.models.reading import seen_through
from ulmus.solvers.nystrom_ridge import Certificate, NystromProblem, summed_form
from ulmus.solvers.ridge import Gradient, Problem, Solution
from ulmus.statistics import Extent, Summary

#: Degrees of freedom per row above which weights on random nodes nearly pass through their targets.
CROWDED = 0.9


class MapFamily(ABC):
    """What families with a map do before there are weights: the map is chosen, and rows are summed."""

    @abstractmethod
    def recipe(self, model: Any, metric: np.ndarray | None = None) -> Any:
        """What is given of the map."""

    def most_features(self, model: Any, rows: Rows) -> int:
        """Features that a fit may come to use."""
        return int(self.recipe(model).most(rows))

    def begin(self, model: Any, training: Training, *, oversize: bool = False) -> Choice:
        """Choose and fit the map, and C, on these rows; with their sums, where the choice needed them.

        With ``oversize`` a size that was to be chosen comes out twice as large as these rows ask for, so that
        :meth:`finish` can choose it on more rows.
        """
        return choose(self.recipe(model, training.metric), model._ridge_search, training, oversize=oversize)

    def summarise(
        self, model: Any, plan: Choice, rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None
    ) -> Summary:
        """Sums of a block of rows, per fold where the rows have fold numbers. They add."""
        statistics = partial(Host(model.n_jobs).statistics, plan.features)
        sums = Summary.of(statistics, rows, folds, n_folds)
        return Summary(sums.total, sums.folds, self.extent(plan.features, rows))

    def summed_form(self, features: Any) -> tuple[FeatureMap, np.ndarray | None]:
        """What a driver may sum instead of the map, and the triangular factor that whitens the sum at the end."""
        return features, None

    def extent(self, features: Any, rows: Rows) -> Extent:
        """How far targets reach, and what else the end needs of rows beside their sums."""
        return Extent.of(rows.T)

    def problems(self, model: Any, features: Any, rows: Rows) -> tuple[Problem, Problem]:
        """The problem on the features of a map, and the same in the form that is cheapest to stream."""
        problem = Problem(features, rows, None, model._intercept, model.n_jobs)
        return problem, problem


class FeatureFamily(MapFamily):
    """Families with ridge weights on a map; they differ in the map, and in the form in which its weights predict."""

    #: Values that stand in for "auto" while there are hardly any rows.
    plain: ClassVar[dict[str, Any]]
    #: Whether β is all that predictions need.
    predicts_by_beta: ClassVar[bool] = False

    @abstractmethod
    def weights(self, model: Any, plan: Choice, solution: Solution, source: Rows | Summary) -> Any:
        """A solution as the weights of a model; ``source`` are the rows, or the sums, behind it."""

    def adapts(self, model: Any, found: Outcome) -> bool:
        """Whether so much is chosen that few rows left out one by one say too little of the errors to come."""
        return False

    def is_crowded(self, held_out: HeldOut) -> bool:
        """Whether weights have hardly fewer degrees of freedom than rows, and no prior speaks for what is between."""
        return False

    def fit(self, model: Any, training: Training) -> Outcome:
        """Choose the map and C, solve, and predict rows by models that did not see them."""
        return self.plain_fit(model, training)

    def plain_fit(self, model: Any, training: Training) -> Outcome:
        """The direct route, which a model of a few rows takes whatever it is."""
        rows, folds, backend = training.rows, training.folds, training.backend
        plan = self.begin(model, training)
        solution = backend.ridge_problem(plan.features, rows, plan.C, model._intercept).solve(plan.statistics)
        found = self.weights(model, plan, solution, rows)
        learned = Learned(len(rows), rows.total_weight, self.fitted_extent(found, rows))
        found = replace(found, learned=learned)
        if folds is None or plan.C is None:
            return Outcome(found, backend.left_out(plan.features, rows, solution, training.rng, plan.C))
        summary = Summary.of(partial(backend.host_statistics, plan.features), rows, folds)
        models = FoldModels(folds, summary, plan.C, model._intercept)
        return Outcome(found, fold_sample(plan.features, rows, models, training.rng))

    def fit_log(self, model: Any, training: Training) -> Outcome:
        """The same by the log loss."""
        from ulmus.models.by_log import fit_on_map

        return fit_on_map(model, training)

    def begin_log(self, model: Any, training: Training) -> Choice:
        """Choose and fit the map: by squares, and its width then near that by the log loss.

        A C that is open is that with which the width was chosen.
        """
        from ulmus.models.by_log import NEAR_C, with_log_width

        recipe, ridge = self.recipe(model, training.metric), model._ridge_search
        if ridge.open and not (recipe.open_width or recipe.open_size):
            ridge = replace(ridge, C=NEAR_C)  # nothing but C is open
        plan = replace(choose(recipe, ridge, training), statistics=None)
        training.backend.release(plan.features)
        if not recipe.open_width:
            return plan
        size = getattr(plan.features, recipe.size_name)
        width, plan = with_log_width(model, recipe, plan, training, size)
        if width == plan.width:
            return plan
        features = prepared(recipe, training)[0](width, size)
        features.fit(training.rows.X, training.labels, training.rows.weight)
        return replace(plan, width=width, features=training.backend.release(features))

    def finish(
        self,
        model: Any,
        plan: Choice,
        summary: Summary,
        sample: Training,
        *,
        choose: bool = False,
        again: Gradient | None = None,
    ) -> Outcome:
        """Weights from sums, and answers of a sample of the rows that are in them, left out.

        With ``choose``, what the model leaves open among C and its size is chosen first: by the loss of the sample's
        rows left out one by one, or fold by fold where it has folds and the summary too. ``again`` wins back digits
        that the sums have lost (:func:`ulmus.solvers.ridge.fit_sums`). Sums that are on a device are solved there.
        """
        backend, folds = sample.backend, sample.folds
        with engine.threads_for(summary.total.n_features):
            if choose:
                recipe = self.recipe(model, sample.metric)
                plan, summary = choose_from_sums(plan, recipe, model._ridge_search, sample, summary)
                again = getattr(again, "about", lambda _: again)(plan)  # corrections are of what was chosen
            elif isinstance(plan.C, str):
                raise ValueError("begin(oversize=True) left C to the sums: finish them with choose=True")
            problem = backend.ridge_problem(plan.features, sample.rows, plan.C, model._intercept)
            solution = problem.solve_sums(summary.total, again)
            kept = backend.on_host(summary.prefix(0))  # what is kept of sums are those of targets
            found = self.weights(model, plan, solution, kept)
            learned = Learned(summary.total.n_rows, summary.total.weight, summary.extent)
            if folds is not None and summary.folds and plan.C is not None:
                models = FoldModels(folds, backend.on_host(summary), plan.C, model._intercept)
                held_out = fold_sample(plan.features, sample.rows, models, sample.rng)
            else:
                held_out = backend.left_out(plan.features, sample.rows, solution, sample.rng, plan.C)
        return Outcome(replace(found, learned=learned), held_out)

    def fitted_extent(self, found: Any, rows: Rows) -> Extent:
        """The extent of rows that were fitted just now."""
        return self.extent(found.features, rows)


class RandomFamily(FeatureFamily):
    """A random layer and its output weights."""

    plain: ClassVar[dict[str, Any]] = {"C": 1.0, "slope": 1.0, "n_hidden": 50}
    predicts_by_beta: ClassVar[bool] = True

    def recipe(self, model: Any, metric: np.ndarray | None = None) -> RandomFeatures:
        return RandomFeatures.of(model)

    def adapts(self, model: Any, found: Outcome) -> bool:
        recipe = self.recipe(model)
        open_map = model.C is not None and (recipe.open_width or recipe.open_size)
        return open_map or self.is_crowded(found.held_out)

    def is_crowded(self, held_out: HeldOut) -> bool:
        return held_out.freedom > CROWDED

    def weights(self, model: Any, plan: Choice, solution: Solution, source: Rows | Summary) -> RandomFit:
        scale, route = source.target_reach, solution.form
        return self.of_beta(plan, solution.beta, solution.intercept, scale, route, solution.leverage)

    def of_beta(
        self, plan: Choice, beta: np.ndarray, intercept: np.ndarray, scale: Any, route: str, leverage: Any = None
    ) -> RandomFit:
        """Weights on the nodes of a plan, for answers of this size."""
        width, size = RandomFeatures.in_use(plan.features)
        narrow = engine.single_suffices(beta, 1.0, scale)
        return RandomFit(plan.features, beta, intercept, plan.C, width, size, route, leverage, narrow, plan.tuning)


class NystromFamily(FeatureFamily):
    """Nyström features and their ridge weights."""

    plain: ClassVar[dict[str, Any]] = {"C": 1.0, "n_landmarks": 50}

    def recipe(self, model: Any, metric: np.ndarray | None = None) -> NystromFeatures:
        landmarks = model.landmarks
        if not isinstance(landmarks, str):
            landmarks = seen_through(metric, np.asarray(landmarks, dtype=np.float64))
        return NystromFeatures.of(model, landmarks=landmarks)

    def weights(self, model: Any, plan: Choice, solution: Solution, source: Rows | Summary) -> NystromFit:
        scale, route = source.target_reach, solution.form
        found = self.of_beta(plan, solution.beta, solution.intercept, scale, route, solution.leverage)
        certificate = Certificate.of(plan.features, source, plan.C, solution, fit_intercept=model._intercept)
        return replace(found, certificate=certificate)

    def of_beta(
        self, plan: Choice, beta: np.ndarray, intercept: np.ndarray, scale: Any, route: str, leverage: Any = None
    ) -> NystromFit:
        """Weights on the features of a plan, folded into weights on kernel values, for answers of this size."""
        features, cross = plan.features, plan.features.cross_kernel_
        width, size = NystromFeatures.in_use(features)
        folded = features.weight_to_landmarks(beta)
        types = types_kept(cross, folded, scale)
        return NystromFit(
            features, beta, intercept, plan.C, width, size, route, leverage, cross, folded, types, tuning=plan.tuning
        )

    def summed_form(self, features: Any) -> tuple[FeatureMap, np.ndarray | None]:
        return summed_form(features)

    def extent(self, features: Any, rows: Rows) -> Extent:
        return Extent.of(rows.T, features.cross_kernel_.diagonal(rows.X), rows.weight)

    def fitted_extent(self, found: NystromFit, rows: Rows) -> Extent:
        known = found.certificate
        assert known is not None
        return replace(Extent.of(rows.T), diagonal_sum=known.diagonal_sum, diagonal_max=known.delta)

    def problems(self, model: Any, features: Any, rows: Rows) -> tuple[Problem, Problem]:
        problem = NystromProblem(features, rows, None, model._intercept, model.n_jobs)
        return problem, problem.cheapest()


def types_kept(cross: CrossKernel, weights: np.ndarray, scale: Any) -> tuple[Any, ...]:
    """In which types weights on kernel values keep the digits of predictions of this size.

    In float64, in which the weights were computed, they always do: whitening rows instead costs as many digits. With
    ``a = R⁻ᵀβ`` the round-off of a solve with R is ``F̂ ΔRᵀ a`` of a row, and ``k R⁻ᵀ ΔRᵀ a``, the same, of the weights;
    that of kernel values, ``Δk a``, is added to both.
    """
    if not np.isfinite(weights).all():
        return ()
    narrow = engine.single_suffices(weights, cross.largest, scale)
    return (np.float64, np.float32) if narrow else (np.float64,)


class IterativeFamily(NystromFamily):
    """The direct route in the steps of the family, or conjugate gradients; ``partial_fit`` and streams are direct."""

    def fit(self, model: Any, training: Training) -> Outcome:
        if route_of(model, training) == "direct":
            return super().fit(model, training)
        from ulmus.models.iterative import fit_iteratively

        return fit_iteratively(model, training)

    def fit_log(self, model: Any, training: Training) -> Outcome:
        if model.solver == "iterative":
            raise ValueError(
                'solver="iterative" is a route of loss="squared", and the log loss has an iterative solver of its own; '
                'set solver="auto" or "direct"'
            )
        return super().fit_log(model, training)


def route_of(model: Any, training: Training) -> str:
    """``"direct"`` or ``"iterative"``: what was asked for, or what the table says (:mod:`ulmus.devices.routes`)."""
    rows, backend = training.rows, training.backend
    size = model._family.recipe(model, training.metric).size(rows, model.C)
    named = isinstance(model.kernel, str)
    definite = not named or KERNELS[model.kernel].positive_definite
    possible = size != "auto" and model.rank is None and definite and size <= len(rows)
    if model.solver == "iterative" and not possible:
        raise ValueError(
            'solver="iterative" needs a number of landmarks (no more than rows), a positive definite kernel and no rank'
            f"; got n_landmarks={model.n_landmarks!r}, {len(rows)} rows, kernel={model.kernel!r}, rank={model.rank!r}"
        )
    if model.solver != "auto" or not possible:
        return "direct" if model.solver == "auto" else str(model.solver)
    if size <= SMALL:
        return "direct"
    place = "cuda" if backend.is_gpu else "cpu"
    return choose_route(
        len(rows), size, rows.T.shape[1], place, backend.free_bytes(), path=isinstance(model.C, str)
    ).route
