"""Answers that never fall along some columns of a table, whatever model gives them: those of a grid, projected.

Along the columns that have a direction every row is asked at the knots of a grid, its other columns as they are. These
answers, made isotonic (:mod:`ulmus.solvers.isotonic`), are interpolated at the values of the row. Rows that differ in
these columns alone share their grid, so that what is answered is monotone everywhere, and constant beyond the data.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ulmus import engine
from ulmus.engine import Rows
from ulmus.features.sampling import distinct_sample
from ulmus.solvers.isotonic import isotonic, largest_step_down

if TYPE_CHECKING:
    from ulmus.models.adaptive_fit import AdaptiveFit

#: Points of a grid at most, of product kernels and of others, which are asked one by one.
POINTS, POINTS_ASKED = 2_000, 250
#: How much of the deviation of answers straight lines between knots may lose where more knots are allowed.
LOSS = 3e-3
#: Rows along which knots are chosen, and answers are checked; values among which knots are chosen.
ROWS, VALUES = 100, 300
#: Answers that are asked for at a time.
BLOCK = 200_000
#: Numbers of grids that are interpolated at a time.
HELD = 2_000_000

#: Rows of the table, columns, and values of these, ``[point, column]`` → answers of every row at every point.
Ask = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class MonotoneGrid:
    """Columns of a table, the direction of each (1 or −1), and ascending knots of each."""

    columns: np.ndarray
    signs: np.ndarray
    knots: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, ask: Ask, X: np.ndarray, some: np.ndarray, signs: np.ndarray, points: int = POINTS) -> "MonotoneGrid":
        """Knots within the range of X, this many points of them at most.

        They are where straight lines between them would lose most of what the model says along some rows.
        """
        present = [(int(j), np.unique(X[~np.isnan(X[:, j]), j])) for j in np.flatnonzero(signs)]
        present = [(j, values) for j, values in present if len(values) > 1]
        if 2 ** len(present) > points:
            raise ValueError(
                f"monotonic_cst of an adaptive model can constrain at most {int(np.log2(points))} columns, got "
                f"{len(present)}; constrain fewer, or use NKELMRegressor"
            )
        columns = np.array([j for j, _ in present], int)
        few = [(j, _thinned(values)) for j, values in present]
        curves = [_Curve(values, ask(some, np.array([j]), values[:, None])) for j, values in few]
        unit = float(ask(some, np.empty(0, int), np.empty((1, 0))).var())
        while True:
            sizes = np.array([len(curve.chosen) for curve in curves])
            open_to = [c for c, size in zip(curves, sizes, strict=True) if sizes.prod() // size * (size + 1) <= points]
            worst = max(open_to, key=lambda curve: curve.loss, default=None)
            if worst is None or worst.loss <= LOSS**2 * unit:
                break
            worst.add()
        return cls(columns, signs[columns], tuple(curve.values[curve.chosen] for curve in curves))

    def answers(self, ask: Ask, X: np.ndarray) -> np.ndarray:
        """What a model says of rows, made monotone; a column that is missing in a row has no direction there."""
        out, missing = np.empty(len(X)), np.isnan(X[:, self.columns])
        for pattern in np.unique(missing, axis=0):
            rows, there = np.flatnonzero((missing == pattern).all(axis=1)), np.flatnonzero(~pattern)
            some = MonotoneGrid(self.columns[there], self.signs[there], tuple(self.knots[k] for k in there))
            out[rows] = some._of_complete(ask, X[rows])
        return out

    def _of_complete(self, ask: Ask, X: np.ndarray) -> np.ndarray:
        """Answers of rows in which no column with a direction is missing; rows that differ there alone share a grid."""
        others = X.copy()
        others[:, self.columns] = 0.0
        _, first, which = np.unique(others, axis=0, return_index=True, return_inverse=True)
        out, which = np.empty(len(X)), which.ravel()
        for piece in engine.pieces(len(first), max(1, BLOCK // self.n_points)):
            F, rows = self.tensors(ask, X[first[piece]]), np.flatnonzero((piece.start <= which) & (which < piece.stop))
            for some in engine.pieces(len(rows), max(1, HELD // self.n_points)):
                out[rows[some]] = self._interpolated(F, which[rows[some]] - piece.start, X[rows[some]])
        return out

    @property
    def n_points(self) -> int:
        """How many answers a row needs."""
        return int(np.prod([len(knots) for knots in self.knots]))

    @property
    def _falling(self) -> tuple[int, ...]:
        return tuple(axis + 1 for axis, sign in enumerate(self.signs) if sign < 0)

    def tensors(self, ask: Ask, X: np.ndarray) -> np.ndarray:
        """Answers of rows at all knots, isotonic along each axis: ``[row, knot, knot, …]``."""
        mesh = np.stack(np.meshgrid(*self.knots, indexing="ij"), axis=-1) if self.knots else np.empty((1, 0))
        F = ask(X, self.columns, mesh.reshape(self.n_points, len(self.columns)))
        F = F.reshape(len(X), *(len(knots) for knots in self.knots))
        return np.flip(isotonic(np.flip(F, self._falling)), self._falling)

    def _interpolated(self, F: np.ndarray, row: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Straight lines between knots, axis by axis, of the tensors of these rows."""
        F = F[row]
        for column, knots in zip(self.columns, self.knots, strict=True):
            x, every = np.clip(X[:, column], knots[0], knots[-1]), np.arange(len(X))
            k = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
            share = ((x - knots[k]) / (knots[k + 1] - knots[k])).reshape(-1, *[1] * (F.ndim - 2))
            F = (1.0 - share) * F[every, k] + share * F[every, k + 1]
        return F

    def fall(self, ask: Ask, X: np.ndarray) -> float:
        """The largest fall from knot to knot, as a share of the range of answers."""
        F = self.tensors(ask, X)
        return largest_step_down(np.flip(F, self._falling)) / (float(np.ptp(F)) or 1.0)


class _Curve:
    """Answers of rows along one column, at many values, and which of these are knots."""

    def __init__(self, values: np.ndarray, answers: np.ndarray) -> None:
        self.values, self.answers, self.chosen = values, answers, [0, len(values) - 1]
        self._measure()

    def _measure(self) -> None:
        at, chosen = np.arange(len(self.values)), np.array(self.chosen)
        k = np.clip(np.searchsorted(chosen, at, side="right") - 1, 0, len(chosen) - 2)
        low, high = chosen[k], chosen[k + 1]
        share = (self.values - self.values[low]) / (self.values[high] - self.values[low])
        lines = (1.0 - share) * self.answers[:, low] + share * self.answers[:, high]
        self.lost = ((self.answers - lines) ** 2).mean(axis=0)

    @property
    def loss(self) -> float:
        """The largest mean square that straight lines lose at a value."""
        return float(self.lost.max())

    def add(self) -> None:
        """A knot where most is lost."""
        self.chosen = sorted([*self.chosen, int(self.lost.argmax())])
        self._measure()


def _thinned(values: np.ndarray) -> np.ndarray:
    """Some of the values, at equal ranks."""
    return values[np.unique(np.linspace(0, len(values) - 1, VALUES).round().astype(int))]


def monotone(model: Any, fit: "AdaptiveFit", rows: Rows, seed: int) -> "AdaptiveFit":
    """What a free fit found, with answers that are monotone along columns of the table, which ``rows`` hold."""
    from ulmus.models._games import free_game
    from ulmus.models.monotone import column_signs

    signs = column_signs(model, fit.columns)
    if signs is None:
        return replace(fit, fall=0.0)
    some = np.asarray(distinct_sample(rows, ROWS, np.random.RandomState(seed))[1].X)
    ask, points = asked_by(fit, model.n_jobs), POINTS if free_game(fit, model.n_jobs).products else POINTS_ASKED
    grid = MonotoneGrid.of(ask, np.asarray(rows.X), some, signs, points)
    return replace(fit, grid=grid, fall=grid.fall(ask, some))


def asked_by(fit: "AdaptiveFit", n_jobs: int | None) -> Ask:
    """How both stages are asked: of a product kernel, each row and each point enters once, and not each pair."""
    from ulmus.explain.effects import answers_on_grid
    from ulmus.models._games import free_game

    game, source = free_game(fit, n_jobs), fit.view.preparation.sources()[fit.view.metric > 0]

    def ask(X: np.ndarray, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
        points, moved = np.repeat(X[:1], len(V), axis=0), np.flatnonzero(np.isin(source, columns))
        points[:, columns] = V
        return answers_on_grid(game, fit.coordinates(X), moved, fit.coordinates(points))[..., 0]

    return ask
