"""Fitted models as ones that can do without one of their rows."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, dense
from ulmus.models._games import game_of
from ulmus.models.reading import checked_weight, of_positive_weight
from ulmus.solvers.log_loss import proportions
from ulmus.solvers.ridge import Problem, fit_ridge


def coordinates(model: Any, X: Any) -> np.ndarray:
    """Rows as the features see them."""
    fitted = model._now()
    return dense(model._seen(model._checked(X, fitted), fitted), np.float64)


def _training_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> Rows:
    """The rows of the fit as they were given, coded and weighted as it did; rows of weight 0 are left out."""
    if X is None or y is None:
        raise ValueError(
            f"{type(model).__name__} does not hold its training rows; pass those of the fit, "
            "e.g. influences(X, X_train, y_train)"
        )
    X, y = dense(model._checked(X), np.float64), np.asarray(y)
    if len(X) != len(y):
        raise ValueError(f"X_train has {len(X)} rows and y_train has {len(y)}")
    weight, X, y = of_positive_weight(checked_weight(sample_weight, X), X, y)
    if not is_classifier(model):
        return Rows(X, np.asarray(y, dtype=np.float64).reshape(len(y), -1), weight)
    T, balance = model._code(model.fitted_.targets, y, weight)
    rows = Rows(X, T, weight)
    return rows if balance is None else rows.reweighted(balance)


def without_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
    """The model as one that can do without its rows, and these."""
    from ulmus.explain.influence import SAME, SAME_SINGLE, check_rows
    from ulmus.explain.smoother import OneStage, Smoother
    from ulmus.explain.stages import TwoStages

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
    if getattr(model, "trees_", None) is not None:
        raise ValueError(
            "rows can be removed from kernels in closed form, but not from this model's boosted trees; fit it with "
            'effort="fast", which has none'
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
    rows = _training_rows(model, X, y, sample_weight)
    w = rows.weights
    local = None
    if hasattr(model, "view_"):
        rows, local = replace(rows, X=model._learned_coordinates(rows)), model.local_
        if local is not None and local.ridge is None:
            raise ValueError("this model was saved by a version that kept no penalty of its local stage; fit it again")
    smoother = Smoother.of_features(model.map_, leverage, rows.X, rows.T, w, n_jobs)
    found: Any = OneStage(smoother) if local is None else TwoStages.of(smoother, local, rows.X, w)
    score = game_of(model).score if hasattr(model, "view_") else _scores(model)
    single = local is not None and local.solved_in_single(rows.weight)
    check_rows(found, rows.X, rows.T, score, within=SAME_SINGLE if single else SAME)
    return found, rows


def _by_log(model: Any) -> bool:
    """Whether scores are log-odds that a log loss has fitted."""
    return getattr(model, "loss_", None) == "log" or getattr(model, "loss", None) == "logistic"


def _log_without_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
    """A log model as a ridge model of itself, which rows leave by one Newton step."""
    from ulmus.explain.influence import check_log_rows
    from ulmus.explain.log_rows import LogRows
    from ulmus.explain.smoother import Smoother

    if getattr(model, "local_", None) is not None:
        raise ValueError(
            "rows are removed from a log model by a Newton step, and this one has a local stage behind it, for which "
            'there is none; fit it with loss="squared", or take an NKELM model with loss="log"'
        )
    adaptive = hasattr(model, "view_")
    rows = _training_rows(model, X, y, sample_weight)
    if adaptive:
        rows = replace(rows, X=model._learned_coordinates(rows))
    w = rows.weights
    score = game_of(model).score if adaptive else _scores(model)
    scores, intercept = score(rows.X), adaptive or bool(model._intercept)
    share = proportions if getattr(model, "loss_", None) == "log" else expit

    def make(z: np.ndarray, d: np.ndarray) -> Smoother:
        if hasattr(model, "alpha_"):
            cross = CrossKernel(model.kernel, rows.X, model.cross_kernel_.parameters)
            return Smoother.of_kernel(cross, model.C_, z, d, fit_intercept=intercept, n_jobs=model.n_jobs)
        solved = fit_ridge(Problem(model.map_, Rows(rows.X, z, d), model.C_, intercept, model.n_jobs))
        return Smoother.of_features(model.map_, solved.leverage, rows.X, z, d, model.n_jobs)

    found = LogRows.of(scores, share(scores), rows.T, w, make)
    check_log_rows(found, rows.X, rows.T, score, share)
    return found, rows


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
