"""Fitted models as ones that can do without one of their rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, dense
from ulmus.models.reading import checked_weight, of_positive_weight
from ulmus.models.summary import n_rows
from ulmus.solvers.log_loss import proportions
from ulmus.solvers.ridge import Problem

if TYPE_CHECKING:
    from ulmus.models.adaptive_fit import AdaptiveFit


def coordinates(model: Any, X: Any) -> np.ndarray:
    """Rows as the features see them."""
    fitted = model._now()
    return dense(model._seen(model._checked(X, fitted), fitted), np.float64)


def _training_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> Rows:
    """The rows of the fit as they were given, coded and weighted as it did; rows of weight 0 are left out."""
    from ulmus.explain.influence import other_rows

    if X is None or y is None:
        raise ValueError(
            f"{type(model).__name__} does not hold its training rows; pass those of the fit, "
            "e.g. influences(X, X_train, y_train)"
        )
    X, y = dense(model._checked(X), np.float64), np.asarray(y)
    if len(X) != len(y):
        raise ValueError(f"X_train has {len(X)} rows and y_train has {len(y)}")
    weight, X, y = of_positive_weight(checked_weight(sample_weight, X), X, y)
    known = n_rows(model)
    if known is not None and known > max(len(X), 0.0 if weight is None else float(weight.sum())):  # but for copies
        raise other_rows(f"it was fitted to {known} rows, and {len(X)} were given")
    if not is_classifier(model):
        return Rows(X, np.asarray(y, dtype=np.float64).reshape(len(y), -1), weight)
    T, balance = model._code(model.fitted_.targets, y, weight)
    rows = Rows(X, T, weight)
    return rows if balance is None else rows.reweighted(balance)


def without_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
    """The model as one that can do without its rows, and these."""
    from ulmus.explain.influence import SAME, SAME_SINGLE, check_rows
    from ulmus.explain.smoother import OneStage, Smoother
    from ulmus.explain.stages import LeafTargets, TwoStages

    check_is_fitted(model)
    if model._by_quantiles:
        raise ValueError(
            "removing rows in closed form needs the squared loss, and this model minimises the pinball loss; fit it "
            'with loss="squared"'
        )
    if model._is_monotone:
        raise ValueError(
            "removing rows in closed form is not possible under monotonic_cst, where other constraints may bind; "
            "fit it with monotonic_cst=None"
        )
    if _by_log(model):
        return _log_without_rows(model, X, y, sample_weight)
    leverage = _leverage(model)
    factored = hasattr(model, "alpha_") or leverage is not None
    if not factored or getattr(model, "C_", 1.0) is None:
        raise ValueError(
            "removing rows in closed form needs a finite C and a stored factor, which this model lacks: use "
            'solver="direct", and C="auto" or a number'
        )
    n_jobs = model.n_jobs
    if hasattr(model, "alpha_"):
        return _kernel_without_rows(model, X, y, sample_weight)
    rows, local, part = _training_rows(model, X, y, sample_weight), None, None
    w = rows.weights
    if hasattr(model, "view_"):
        part, rows = KernelPart.of(model, rows), replace(rows, X=model._learned_coordinates(rows))
        local = part.local
        if local is not None and local.ridge is None:
            raise ValueError("this model was saved by a version that kept no penalty of its local stage; fit it again")
    smoother = Smoother.of_features(model.map_, leverage, rows.X, rows.T, w, n_jobs)
    found: Any = OneStage(smoother)
    if local is not None:
        fits = [LeafTargets(smoother.residual, w)] * len(local.partitions)
        found = TwoStages.of(smoother, local, rows.X, local.ridge, fits)
    single = local is not None and local.solved_in_single(rows.weight)
    score = _scores(model) if part is None else part.scores
    check_rows(found, rows.X, rows.T, score, within=SAME_SINGLE if single else SAME)
    return (found if part is None else part.beside_trees(found, rows)), rows


@dataclass(frozen=True)
class KernelPart:
    """The kernels of an adaptive model, as if there were no trees beside them: global scores, leaves, and the units."""

    model: Any
    fit: "AdaptiveFit"
    units: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, model: Any, rows: Rows) -> "KernelPart":
        return cls(model, model._now("factor").weights, model._units(rows))

    @property
    def kept(self) -> float:
        """The share of the kernels."""
        return 1.0 if self.fit.trees is None else 1.0 - self.fit.tree_weight

    @property
    def local(self) -> Any:
        """The local stage."""
        return None if self.fit.local is None else self.fit.local.scaled(1.0 / self.kept)

    def first(self, U: np.ndarray) -> np.ndarray:
        """Scores of the global model."""
        fit, kernel = self.fit, self.fit.features.cross_kernel_
        found = engine.apply(kernel, U, fit.features.weight_to_landmarks(fit.beta), n_jobs=self.model.n_jobs)
        return np.asarray((found + fit.intercept) / self.kept)

    def scores(self, U: np.ndarray) -> np.ndarray:
        """Scores of both stages."""
        found = self.first(U)
        return found if self.local is None else found + self.local.predict(U, self.model.n_jobs)

    def beside_trees(self, kernels: Any, rows: Rows) -> Any:
        """The same with the trees, which stay as they are."""
        from ulmus.explain.beside_trees import BesideTrees

        fit, (centre, scale), n_jobs = self.fit, self.units, self.model.n_jobs
        if fit.trees is None:
            return kernels
        by_log, share, fixed = fit.loss == "log", fit.tree_weight, fit.trees

        def trees(U: np.ndarray) -> np.ndarray:
            return np.asarray(fixed.predict(U, n_jobs) / share)

        def grown() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
            from ulmus.models._trees import parts_for_trees
            from ulmus.solvers.boosted import PartTrees, grown_trees, without

            scaled, seed = replace(rows, T=(rows.T - centre) / scale), int(fit.part_seed or 0)
            spent, means = self.model._spent, fit.view.preparation.mean_columns(fit.view.metric)
            part = parts_for_trees(scaled, np.arange(len(rows)), spent.tree_parts, by_log, seed)
            found = grown_trees(scaled, part, by_log, seed, n_jobs, means, spent.tree_rate)
            if found is None:  # one part holds every class
                return lambda U, index: trees(U)
            unseen = PartTrees(found[0], without(part))
            return lambda U, index: unseen.answers(U, index) * scale + centre

        return BesideTrees(kernels, share, rows.X, rows.T, trees, grown)


def _by_log(model: Any) -> bool:
    """Whether scores are log-odds that a log loss has fitted."""
    return getattr(model, "loss_", None) == "log" or getattr(model, "loss", None) == "logistic"


def _log_without_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
    """A log model as a ridge model of itself, which rows leave by one Newton step."""
    from ulmus.explain.influence import check_log_rows
    from ulmus.explain.log_rows import LogRows
    from ulmus.explain.smoother import Smoother

    rows = _training_rows(model, X, y, sample_weight)
    part = None
    if hasattr(model, "view_"):
        part, rows = KernelPart.of(model, rows), replace(rows, X=model._learned_coordinates(rows))
        _refuse_leaves(model, part.local, rows)
    share = proportions if getattr(model, "loss_", None) == "log" else expit
    first, score = (_scores(model), _scores(model)) if part is None else (part.first, part.scores)
    scores, intercept = first(rows.X), part is not None or bool(model._intercept)

    def make(z: np.ndarray, d: np.ndarray) -> Smoother:
        if hasattr(model, "alpha_"):
            cross = CrossKernel(model.kernel, rows.X, model.cross_kernel_.parameters)
            return Smoother.of_kernel(cross, model.C_, z, d, fit_intercept=intercept, n_jobs=model.n_jobs)
        solved = Problem(model.map_, Rows(rows.X, z, d), model.C_, intercept, model.n_jobs).solve()
        return Smoother.of_features(model.map_, solved.leverage, rows.X, z, d, model.n_jobs)

    found = LogRows.of(scores, share, rows, make)
    if part is not None and part.local is not None:
        found = found.behind(part.local, scores, share, rows)
    check_log_rows(found, rows.X, rows.T, score, share)
    return (found if part is None else part.beside_trees(found, rows)), rows


def _refuse_leaves(model: Any, local: Any, rows: Rows) -> None:
    """Refuse leaves whose inverses, one for every score, would take too much memory."""
    if local is None:
        return
    sizes = [np.bincount(partition.leaves(rows.X)) for partition in local.partitions]
    needed = 8e-9 * rows.T.shape[1] * sum(float((each.astype(np.float64) ** 2).sum()) for each in sizes)
    if needed > model.max_memory:
        raise ValueError(
            f"rows leave the {len(sizes)} partitions of this model by inverses that take {needed:.2g} GB, for "
            f"{rows.T.shape[1]} scores, and max_memory is {model.max_memory:g} GB. Raise it with "
            'set_params(max_memory=...), or fit the model with loss="squared", which has one inverse for all scores'
        )


def _leverage(model: Any) -> Any:
    """What tells the leverage of rows, by the factor of the fit; None where none was kept."""
    return getattr(model._now("factor").weights, "leverage", None)


def _scores(model: Any) -> Any:
    fitted = model._now("weights")
    return lambda U: model._outputs(U, fitted)


def _kernel_without_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
    """An exact kernel holds its rows; their targets are what it misses them by, and what it says."""
    from ulmus.explain.influence import check_rows
    from ulmus.explain.smoother import OneStage, Smoother

    fitted = model.fitted_.weights
    if X is None:
        held = dense(fitted.cross.Z, np.float64)
        weight = np.ones(len(held)) if fitted.weight is None else fitted.weight
        T = _scores(model)(held) + fitted.alpha / (fitted.C * weight)[:, None]
        rows = Rows(held, T, fitted.weight)
        if fitted.order is not None:
            rows = rows.take(np.argsort(fitted.order))
    else:
        rows = _training_rows(model, X, y, sample_weight)
    w = rows.weights
    cross = CrossKernel(model.kernel, rows.X, fitted.cross.parameters)
    smoother = Smoother.of_kernel(cross, fitted.C, rows.T, w, fit_intercept=fitted.fit_intercept, n_jobs=model.n_jobs)
    found = OneStage(smoother)
    check_rows(found, rows.X, rows.T, _scores(model))
    return found, rows
