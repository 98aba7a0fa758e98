r"""How answers move with one input, or two, the others as they are: partial dependence and accumulated local effects.

For product kernels :math:`f(x) = \sum_l w_l\,k_g(x_g, z_l)\,k_{\setminus g}(x, z_l)`, so that the mean over rows with
the input set to v,

.. math:: \text{PD}_g(v) = \sum_l k_g(v, z_l)\;w_l\,\frac1n\sum_i k_{\setminus g}(x_i, z_l),

needs the kernel of each row once, and not once for every v. Accumulated local effects (Apley and Zhu 2020) add up, from
one end of the input's range to the other, the mean change of answers of the rows that *are* in each bin as the input
goes from its lower to its upper edge; they ask nothing of rows that cannot exist.

References
----------
J. Friedman (2001). Greedy function approximation. Annals of Statistics 29(5).

D. Apley, J. Zhu (2020). Visualizing the effects of predictor variables in black box supervised learning models.
J. R. Statist. Soc. B 82(4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.explain.game import Game, Products
from ulmus.solvers.boosted import BoostedTrees

#: Numbers that are held at a time.
HELD = 2_000_000


@dataclass(frozen=True, repr=False)
class Effect:
    """How the mean answer moves with inputs.

    Attributes
    ----------
    kind : {"partial", "accumulated"}
    features : tuple of str
        One input, or two.
    grid : tuple of ndarray
        Values of each.
    average : ndarray of shape (n_grid,) or (n_grid, n_grid), with one more axis for several outputs
        Mean answers; accumulated effects are centred, so that their mean over the rows is 0.
    individual : ndarray of shape (n_samples, n_grid) or None
        The answers of single rows (partial dependence of one input on one output, where asked for).
    """

    kind: str
    features: tuple[str, ...]
    grid: tuple[np.ndarray, ...]
    average: np.ndarray
    individual: np.ndarray | None = None

    def __repr__(self) -> str:
        called = "partial dependence on" if self.kind == "partial" else "accumulated effects of"
        inputs = " and ".join(f"{name} ({len(g)} values)" for name, g in zip(self.features, self.grid, strict=True))
        return f"<Effect: {called} {inputs}, from {self.average.min():.4g} to {self.average.max():.4g}>"


def answers_on_grid(game: Game, U: np.ndarray, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Scores of every row with some coordinates replaced: ``[row, grid point, output]``; ``V`` are the coordinates."""
    if game.products is None:
        return _scored(game.score, len(game.constant), U, columns, V)
    rest = np.setdiff1d(np.arange(U.shape[1]), columns)
    out = np.zeros((len(U), len(V), len(game.constant))) + game.constant
    for part in game.products:
        for terms, kept, moved in _factors(part, U, V, rest, columns):
            for k in range(out.shape[2]):
                out[:, :, k] += kept @ (moved * terms[:, k]).T
    return out if game.trees is None else out + _scored(*_of_trees(game.trees), U, columns, V)


def _factors(part: Products, U: np.ndarray, V: np.ndarray, rest: np.ndarray, columns: np.ndarray) -> Any:
    """Blocks of terms: their weights, factors of the rows and factors of the grid, ``[row or point, term]``."""
    for terms in engine.pieces(len(part.Z), max(1, HELD // (len(U) + len(V)))):
        some = Products(part.kernel, part.gamma, part.Z[terms], part.weights[terms], part.low, part.high)
        kept, moved = (_factor(some, W, which) for W, which in ((U, rest), (V, columns)))
        yield some.weights, kept, moved


def _factor(part: Products, U: np.ndarray, columns: np.ndarray) -> np.ndarray:
    factor = part.factors(U, [columns])[:, 0].T
    inside = part.inside(U, [columns])
    return factor if inside is None else factor * inside


def _scored(
    score: Callable[[np.ndarray], np.ndarray], width: int, U: np.ndarray, columns: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Scores, so many for a row, with some coordinates replaced, one by one: ``[row, grid point, output]``."""
    out = np.empty((len(U), len(V), width))
    for piece in engine.pieces(len(U), max(1, HELD // (len(V) * U.shape[1]))):
        mixed = np.repeat(U[piece], len(V), axis=0)
        mixed[:, columns] = np.tile(V[:, columns], (piece.stop - piece.start, 1))
        out[piece] = score(mixed).reshape(-1, len(V), width)
    return out


def _of_trees(trees: BoostedTrees) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """Scores of trees without their constant, and how many."""
    return replace(trees, constant=np.zeros_like(trees.constant)).predict, len(trees.constant)


def mean_on_grid(game: Game, U: np.ndarray, weight: np.ndarray, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Weighted mean over the rows of :func:`answers_on_grid`: ``[grid point, output]``."""
    if game.products is None:
        return np.einsum("i,ivk->vk", weight, _scored(game.score, len(game.constant), U, columns, V))
    rest = np.setdiff1d(np.arange(U.shape[1]), columns)
    out = np.zeros((len(V), len(game.constant))) + game.constant
    for part in game.products:
        for terms, kept, moved in _factors(part, U, V, rest, columns):
            out += moved @ (terms * (weight @ kept)[:, None])
    if game.trees is not None:
        out += np.einsum("i,ivk->vk", weight, _scored(*_of_trees(game.trees), U, columns, V))
    return out


def changes(game: Game, U: np.ndarray, columns: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Change of the scores of rows as coordinates go from those of ``low`` to those of ``high``, row by row."""
    before, after = U.copy(), U.copy()
    before[:, columns], after[:, columns] = low[:, columns], high[:, columns]
    return game.score(after) - game.score(before)


def accumulated(change: np.ndarray, bins: np.ndarray, weight: np.ndarray, n_bins: int) -> np.ndarray:
    """Mean changes of the bins added up from the left, centred on the rows: ``[edge, output]``."""
    mass = np.bincount(bins, weight, minlength=n_bins)
    steps = np.column_stack([np.bincount(bins, weight * c, minlength=n_bins) for c in change.T])
    steps = np.divide(steps, mass[:, None], out=np.zeros_like(steps), where=mass[:, None] > 0)
    edges = np.concatenate([np.zeros((1, change.shape[1])), np.cumsum(steps, axis=0)])
    middle = (edges[:-1] + edges[1:]) / 2
    return edges - (mass @ middle) / mass.sum()


def number_grid(values: np.ndarray, resolution: int, percentiles: tuple[float, float]) -> np.ndarray:
    """Distinct values where these are few, else equal steps between two percentiles."""
    present = values[np.isfinite(values)]
    if not len(present):
        raise ValueError("the input has no finite values to make a grid of; pass one with grid=")
    distinct = np.unique(present)
    if len(distinct) <= resolution:
        return distinct
    low, high = np.quantile(present, percentiles)
    return np.linspace(float(low), float(high), resolution)


def quantile_edges(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges of bins with as many rows each; fewer where values are equal."""
    present = values[np.isfinite(values)]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, n_bins + 1))) if len(present) else present
    if len(edges) < 2:
        raise ValueError("accumulated effects need an input with at least two different numbers")
    return edges


def bin_of(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of every value; the lowest edge belongs to the first."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


def positions(features: Any, names: Sequence[str]) -> list[int]:
    """Places of inputs that are given by name or number."""
    out = []
    for each in [features] if isinstance(features, str | int | np.integer) else list(features):
        if isinstance(each, str):
            if each not in names:
                raise ValueError(f"there is no input {each!r}; the inputs are {list(names)}")
            out.append(list(names).index(each))
        elif 0 <= int(each) < len(names):
            out.append(int(each))
        else:
            raise ValueError(f"inputs are numbered from 0 to {len(names) - 1}, got {each!r}")
    return out
