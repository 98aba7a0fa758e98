"""The scores of fitted models as games of their inputs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ulmus import engine
from ulmus.features.kernels import dense
from ulmus.features.metric import gradients
from ulmus.models.reading import received, rechecked, seen_through

if TYPE_CHECKING:
    from ulmus.explain.game import Game
    from ulmus.models.adaptive_fit import AdaptiveFit


#: Rows that stand for what is usual where every answer is a grid of them, unless others are given.
BACKGROUND = 20


def game_of(model: Any) -> "Game":
    """The scores of a fitted model as a game of its inputs."""
    if hasattr(model, "view_"):
        return _view_game(model)
    if hasattr(model, "transform"):
        return _projection_game(model)
    if hasattr(model, "alpha_"):
        return _kernel_game(model, model.cross_kernel_, model.alpha_)
    if hasattr(model, "landmark_weights_"):
        return _kernel_game(model, model.cross_kernel_, model.landmark_weights_)
    return _plain_game(model)


def _inputs(model: Any, X: Any) -> np.ndarray:
    return dense(rechecked(model, received(X, model.device), model._now().columns), np.float64)


def _plain_game(model: Any) -> "Game":
    """Inputs as they are."""
    from ulmus.explain.game import Game

    fitted = model._now("weights")

    def score(X: np.ndarray) -> np.ndarray:
        return np.asarray(model._outputs(seen_through(fitted.metric, X), fitted))

    return Game(lambda X: _inputs(model, X), np.arange(model.n_features_in_), score, model.intercept_)


def _projection_game(model: Any) -> "Game":
    """Inputs of a discriminant model as they are; what is explained are the probabilities of classes."""
    from ulmus.explain.game import Game

    fitted = model._now()
    kept = getattr(fitted.weights, "cross", None) or fitted.certainty.references  # rows, as the metric shows them
    rows = None if fitted.metric is not None or kept is None else getattr(kept, "Z", getattr(kept, "X", None))

    def score(X: np.ndarray) -> np.ndarray:
        return np.asarray(model._probabilities(seen_through(fitted.metric, X), fitted))

    return Game(
        lambda X: dense(model._inputs(X, fitted), np.float64),
        np.arange(model.n_features_in_),
        score,
        np.zeros(len(fitted.targets.classes)),
        None,
        None if rows is None else dense(rows, np.float64),
    )


def _kernel_game(model: Any, cross: Any, weights: np.ndarray) -> "Game":
    """Inputs as a diagonal metric shows them, which the kernel takes one by one."""
    from ulmus.explain.game import Game, kernel_products

    fitted = model._now("weights")
    metric = fitted.metric
    if metric is not None and metric.ndim == 2:
        return _plain_game(model)

    def score(U: np.ndarray) -> np.ndarray:
        return np.asarray(model._outputs(U, fitted))

    return Game(
        lambda X: dense(seen_through(metric, _inputs(model, X)), np.float64),
        np.arange(model.n_features_in_),
        score,
        model.intercept_,
        kernel_products(cross, weights),
        dense(cross.Z, np.float64),
    )


def _view_game(model: Any) -> "Game":
    """Inputs as the view of an adaptive model shows them: each may have become several coordinates."""
    fitted = model._now()
    fit: AdaptiveFit = fitted.weights
    if fit.grid is not None:
        return _table_game(model)
    game = free_game(fit, model.n_jobs)
    return replace(
        game,
        see=lambda X: game.see(model._checked(X, fitted)),
        owner=fit.columns.sources[game.owner],
        score=lambda U: game.score(U) + fit.intercept,
        constant=game.constant + fit.intercept,
    )


def free_game(fit: "AdaptiveFit", n_jobs: int | None) -> "Game":
    """All stages of an adaptive model without their constant, of columns of its table."""
    from ulmus.explain.game import Game, kernel_products, local_products

    local, cross, weights = fit.local, fit.features.cross_kernel_, fit.features.weight_to_landmarks(fit.beta)
    products = kernel_products(cross, weights)
    if products is not None and local is not None:
        leaves = local_products(local)
        products = None if leaves is None else products + leaves

    def score(U: np.ndarray) -> np.ndarray:
        out = engine.apply(cross, U, weights, n_jobs=n_jobs)
        for stage in (local, fit.trees):
            out = out if stage is None else out + stage.predict(U, n_jobs)
        return out

    owner = fit.view.preparation.sources()[fit.view.metric > 0]
    constant = np.zeros(len(fit.intercept)) if fit.trees is None else fit.trees.constant
    return Game(fit.coordinates, owner, score, constant, products, np.asarray(cross.Z, np.float64), fit.trees)


def _table_game(model: Any) -> "Game":
    """Columns of the table as they are, for an adaptive model whose answers are made monotone along some of them."""
    from ulmus.explain.game import Game

    fitted = model._now("certainty")
    fit: AdaptiveFit = fitted.weights

    def see(X: Any) -> np.ndarray:
        return np.asarray(model._checked(X, fitted), dtype=np.float64)

    rows = fitted.certainty.rows
    background = None if rows is None else np.asarray(rows.X)[:: max(1, len(rows.X) // BACKGROUND)][:BACKGROUND]
    return Game(see, fit.columns.sources, lambda X: model._outputs(X, fitted), fit.intercept, None, background)


def slopes_of(model: Any) -> Any:
    """Coordinates → slopes of the scores along them, ``[row, coordinate, output]``, in the coordinates of the game.

    Trees have none: they are flat but for their steps.
    """
    if hasattr(model, "view_"):
        fit = model._now().weights
        if fit.grid is not None:
            return _differences(game_of(model))
        cross, weights = fit.features.cross_kernel_, fit.features.weight_to_landmarks(fit.beta)
        return lambda U: gradients(cross, U, weights) + (0.0 if fit.local is None else fit.local.gradients(U))
    weights = model.alpha_ if hasattr(model, "alpha_") else getattr(model, "landmark_weights_", None)
    metric = model._now("weights").metric
    if weights is None or (metric is not None and metric.ndim == 2) or model.cross_kernel_.kernel is None:
        return _differences(game_of(model))
    return lambda U: gradients(model.cross_kernel_, U, weights)


def _differences(game: "Game") -> Any:
    """Slopes of scores without a known gradient, by central differences."""

    def slopes(U: np.ndarray) -> np.ndarray:
        out = []
        for row in U:
            step = 1e-6 * np.maximum(np.abs(row), 1.0)
            ends = game.score(np.vstack([row + np.diag(step), row - np.diag(step)]))
            out.append((ends[: len(row)] - ends[len(row) :]) / (2 * step[:, None]))
        return np.nan_to_num(np.stack(out))  # along what is missing, none

    return slopes
