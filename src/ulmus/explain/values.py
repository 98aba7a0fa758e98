"""Shapley values of a game: exact where its scores are products, sampled with an error where they are not."""

import warnings
from typing import Any

import numpy as np

from ulmus.exceptions import NumericalWarning
from ulmus.explain.explanation import Explanation
from ulmus.explain.game import Comparison, Game
from ulmus.explain.interactions import interaction_values
from ulmus.explain.permutations import sampled_interactions, sampled_values
from ulmus.explain.shapley import shapley_values
from ulmus.explain.tree_tables import tree_values

#: Background rows that are taken where none are given, at most.
BACKGROUND = 100
#: What round-off may take from the sum of values, relative to the largest score, before there is a warning.
ADDS_UP = 1e-8


def explained(
    game: Game,
    X: Any,
    background: Any = None,
    background_weight: Any = None,
    *,
    n_inputs: int,
    names: list[str],
    data: np.ndarray,
    output_names: list[str] | None,
    single: bool,
    interactions: bool = False,
    method: str = "auto",
    rounds: int = 1,
    random_state: Any = 0,
    n_jobs: int | None = -1,
) -> Explanation:
    """Values of the rows ``X``; ``n_inputs`` players, of whom those without a coordinate are worth nothing."""
    exact = _exact(game, method)
    U = game.see(X)
    B = _background(game, background)
    weight = _weights(background_weight, len(B))
    present, groups = game.players()
    compared = Comparison(groups, U, B, weight)
    scores = game.score(U)
    base = weight @ game.score(B)
    shape = (len(U), n_inputs, scores.shape[1])
    values, errors, pairs, pair_errors = np.zeros(shape), np.zeros(shape), None, None
    rng = np.random.RandomState(random_state) if not hasattr(random_state, "uniform") else random_state
    if len(present) and exact and game.products is not None:
        values[:, present] = shapley_values(game.products, compared, n_jobs)
        if game.trees is not None:
            values[:, present] += tree_values(game.trees, compared)
    elif len(present):
        found, spread = sampled_values(game.score, compared, rounds, rng)
        values[:, present], errors[:, present] = found, spread
    values += _missing(scores - base - values.sum(axis=1), values, scores)
    if interactions:
        pairs, pair_errors = np.zeros((2, len(U), n_inputs, n_inputs, scores.shape[1]))
        where = np.ix_(np.arange(len(U)), present, present)
        if len(present) > 1 and exact and game.products is not None:
            found = interaction_values(game.products, compared, n_jobs)
            if game.trees is not None:
                found += tree_values(game.trees, compared, order=2)
            pairs[where] = found / 2
        elif len(present) > 1:
            found, spread = sampled_interactions(game.score, compared, rounds, rng)
            pairs[where], pair_errors[where] = found / 2, spread / 2
        every = np.arange(n_inputs)
        pairs[:, every, every] = values - pairs.sum(axis=2)
        pair_errors[:, every, every] = np.sqrt(errors**2 + (pair_errors**2).sum(axis=2))
    base = np.tile(base, (len(U), 1))
    if single:
        values, errors, base = values[..., 0], errors[..., 0], base[:, 0]
        pairs, pair_errors = (None if each is None else each[..., 0] for each in (pairs, pair_errors))
    return Explanation(values, base, data, names, errors, None if single else output_names, pairs, pair_errors)


def _exact(game: Game, method: str) -> bool:
    if method not in ("auto", "exact", "sampled"):
        raise ValueError(f'method must be "auto", "exact" or "sampled", got {method!r}')
    possible = game.products is not None
    if not possible and method == "exact":
        raise ValueError(
            'method="exact" is for scores that are sums of product kernels: kernel="rbf" or "laplacian_l1", with no '
            'metric or a diagonal one. This model is not of that kind; leave method at "auto" for sampled values'
        )
    return possible and method != "sampled"


def _background(game: Game, background: Any) -> np.ndarray:
    if background is not None:
        B = game.see(background)
        if not len(B):
            raise ValueError("background has no rows; pass a representative sample, such as 100 training rows")
        return B
    if game.background is None:
        raise ValueError(
            "this model keeps no rows that could serve as the background; pass some training rows, e.g. "
            "background=X[:100]"
        )
    held = len(game.background)  # landmarks that stand apart come first, so that the first alone are not as usual
    return game.background if held <= BACKGROUND else game.background[np.arange(BACKGROUND) * held // BACKGROUND]


def _weights(weight: Any, n: int) -> np.ndarray:
    if weight is None:
        return np.full(n, 1.0 / n)
    w = np.asarray(weight, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        raise ValueError(
            f"background_weight must be {n} finite numbers, none negative and not all 0; got shape {w.shape}"
        )
    return w / w.sum()


def _missing(gap: np.ndarray, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """What round-off has taken from the values of every row, in proportion to their sizes."""
    size = max(float(np.abs(scores).max(initial=0.0)), 1e-300)
    worst = float(np.abs(gap).max(initial=0.0))
    if worst > ADDS_UP * size:
        warnings.warn(
            f"the values missed the predictions by up to {worst:.1e} ({worst / size:.1e} of the largest): the weights "
            "of the model are so large that sums lose digits. A smaller C, or a larger gamma, would be more stable",
            NumericalWarning,
            stacklevel=4,
        )
    sizes = np.abs(values)
    total = sizes.sum(axis=1, keepdims=True)
    return gap[:, None] * np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
