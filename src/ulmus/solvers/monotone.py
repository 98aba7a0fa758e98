r"""Ridge weights whose answers never fall along some inputs: a small quadratic programme on the factor of the fit.

With :math:`A = \tilde\Phi^TW\tilde\Phi + I/C` and the free solution :math:`\hat\beta`, the weights minimise
:math:`(\beta - \hat\beta)^TA(\beta - \hat\beta)`, by which the objective of the fit exceeds its minimum, under
:math:`g_p^T\beta \ge 0`. Every :math:`g_p = \pm(\phi(x') - \phi(x))` is one step up a **ladder**: a row x whose input
j takes ascending values. (A step is a derivative integrated, and as good for inputs that are ranked, cut or coded
before the kernel sees them.)
With
:math:`A^{-1} = WW^T` and :math:`\beta = \hat\beta + Wz` this is a problem of least distance,

.. math:: \min \|z\| \quad\text{under}\quad GWz \ge m - G\hat\beta,

whose dual, one number :math:`\lambda \ge 0` for each step, is non-negative least squares (Lawson and Hanson 1974,
chapter 23). The margins m are a little more than level. Where they cost more than weights of 0 would, which are level
everywhere, m is 0.

There are more steps than any programme could hold, so they are sought. In every round some rows climb, and relatives of
those that did worst before, which differ from these in an input or two, at new heights; where answers fall, the step
joins the programme, which asks for a little more than level, so that steps between those that were asked rise as well.
When nobody has fallen for some rounds, the search ends.

Rows leave the solution as if the steps that bind (:math:`\lambda > 0`) were to stay level: with
:math:`A^{-1} - A^{-1}G_b^T(G_bA^{-1}G_b^T)^{-1}G_bA^{-1}` for the inverse. That is exact as long as the same steps
bind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import nnls

from ulmus import engine
from ulmus.solvers.ridge import Leverage, Solution

#: Falls below this share of the range of answers are round-off.
ROUND_OFF = 1e-9
#: How far a step has to rise, as a share of the range of answers, by its share of the way that features go.
MARGIN = 1e-2
#: Rows that climb in a round (new ones, and relatives of the worst before), and heights that they climb.
CLIMBING, RELATIVES, HEIGHTS = 120, 120, 40
#: The shortest steps are this part of the range of values.
SHORT = 500
#: Steps that join in a round, rounds at most, and rounds without a fall after which it is enough.
JOINING, ROUNDS, QUIET = 40, 80, 8
#: Steps beyond which those that do not bind are dropped.
MANY = 500
#: Steps of length 1 whose product is within this of 1 are parallel.
PARALLEL = 1e-13
#: What is left of the dual problem below which no weights satisfy all steps.
NEVER = 1e-12
#: Weights below this share of the free ones are none: whatever steps join, none but level weights satisfy them.
LEVEL = 1e-6
#: Points that are transformed at a time.
BLOCK = 20_000

#: Rows → features; rows and weights → answers.
TransformRows = Callable[[np.ndarray], np.ndarray]
Score = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Ladder:
    """Rows whose column takes ascending values; answers are to rise (``sign`` 1) or to fall (−1) with it."""

    X: np.ndarray
    column: int
    sign: int
    values: np.ndarray

    def rises(self, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """By how much answers rise from value to value, ``[row, step]``, in the right direction."""
        g, out = len(self.values), np.empty((len(self.X), len(self.values)))
        for piece in engine.pieces(len(self.X), max(1, BLOCK // g)):
            rows = np.repeat(self.X[piece], g, axis=0)
            rows[:, self.column] = np.tile(self.values, len(rows) // g)
            out[piece] = score(rows).reshape(-1, g)
        return self.sign * np.diff(out, axis=1)

    def steps(self, transform: TransformRows, rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """``±(φ(x') − φ(x))`` of some rows at some steps."""
        low, high = self.X[rows], self.X[rows]
        low[:, self.column], high[:, self.column] = self.values[steps], self.values[steps + 1]
        return self.sign * (transform(high) - transform(low))

    def height(self, transform: TransformRows) -> float:
        """``‖φ(x') − φ(x)‖`` from the first value to the last, of the middle row."""
        ends = self.X.copy(), self.X.copy()
        ends[0][:, self.column], ends[1][:, self.column] = self.values[[0, -1]]
        return float(np.median(np.linalg.norm(transform(ends[1]) - transform(ends[0]), axis=1))) or 1.0


@dataclass(frozen=True)
class Constraint:
    """A column, the direction in which answers must go with it, and the values that it has."""

    column: int
    sign: int
    values: np.ndarray

    @property
    def reach(self) -> float:
        return float(self.values[-1] - self.values[0])

    def heights(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        """Ascending values: both ends, some that rows have and some between, each with another just above it."""
        low, high = float(self.values[0]), float(self.values[-1])
        seen, between = rng.choice(self.values, count // 4), rng.uniform(low, high, count // 4)
        short = self.reach / SHORT
        starts = np.minimum(np.concatenate([[low, high], seen, between]), high - short)
        every = np.sort(np.concatenate([starts, starts + short]))
        every[[0, -1]] = low, high
        return every[np.diff(every, prepend=-np.inf) > short / 4]


@dataclass(frozen=True)
class MonotoneSolution:
    """Weights, the leverages behind them, and how many steps bind."""

    solution: Solution
    n_binding: int


def made_monotone(
    free: Solution,
    constraints: Sequence[Constraint],
    X: np.ndarray,
    transform: TransformRows,
    score: Score,
    seed: int,
    rounds: int = ROUNDS,
    fine: Sequence[Ladder] = (),
) -> MonotoneSolution:
    """The solution of one output under constraints, sought from rows X; the end is checked on ``fine`` ladders."""
    rng = np.random.RandomState(seed)
    beta, G, margin = free.beta[:, 0], np.empty((0, len(free.beta))), np.empty(0)
    binding, quiet, root = np.empty(0, bool), 0, _root(free.leverage)
    farthest = _distance_to_level(free, root)
    worst: list[np.ndarray] = [X[:0] for _ in constraints]
    for _ in range(rounds):
        ladders = fine
        if quiet < QUIET:
            drawn = [np.vstack([X[rng.randint(len(X), size=CLIMBING)], relatives(w, X, RELATIVES, rng)]) for w in worst]
            each = zip(constraints, drawn, strict=True)
            ladders = [Ladder(rows, one.column, one.sign, one.heights(HEIGHTS, rng)) for one, rows in each]
        new, asked = list[np.ndarray](), list[np.ndarray]()
        for k, ladder in enumerate(ladders):
            rise = ladder.rises(partial(score, beta=beta))
            reach = float(np.ptp(np.cumsum(rise, axis=1))) or 1.0
            slopes = rise / np.diff(ladder.values)
            tie = ROUND_OFF * reach / float(np.diff(ladder.values).min())
            order = ranked(slopes.min(axis=1), tie)
            worst[k] = ladder.X[order[: RELATIVES // 3]]
            falling = order[:JOINING][rise.min(axis=1)[order[:JOINING]] < -ROUND_OFF * reach]
            if len(falling):
                steepest = (slopes[falling] <= slopes[falling].min(axis=1, keepdims=True) + tie).argmax(axis=1)
                new.append(ladder.steps(transform, falling, steepest))
                asked.append(MARGIN * reach * np.linalg.norm(new[-1], axis=1) / ladder.height(transform))
        if quiet >= QUIET and not new:
            break
        quiet = 0 if new else quiet + 1
        if new:
            kept = binding if len(G) > MANY else np.ones(len(G), bool)
            G, margin = np.vstack([G[kept], *new]), np.concatenate([margin[kept], *asked])
            beta, binding = least_distance(free.beta[:, 0], root, G, margin, farthest)
            if not beta.any():
                break
    leverage = _levelled(free.leverage, root, G[binding]) if binding.any() else free.leverage
    intercept = free.intercept + free.leverage.centre @ (free.beta[:, 0] - beta)
    found = replace(free, beta=beta[:, None], intercept=intercept, leverage=leverage)
    return MonotoneSolution(found, int(binding.sum()))


def ranked(values: np.ndarray, tie: float) -> np.ndarray:
    """Their numbers, lowest value first; values that differ by a tie from the next are in the order in which they came.

    Answers of some features are straight between kinks, so that round-off alone would tell one step from the next.
    """
    order = np.argsort(values, kind="stable")
    rank = np.cumsum(np.diff(values[order], prepend=values[order[:1]]) > tie)
    return order[np.lexsort((order, rank))]


def relatives(rows: np.ndarray, X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows that differ from these in one input, or two, which they have from rows of X, every other from an extreme."""
    if not len(rows):
        return rows
    out, lowest, highest = rows[np.arange(count) % len(rows)].copy(), np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    for _ in range(2):
        column, other = rng.randint(X.shape[1], size=count), rng.randint(len(X), size=count)
        extreme = np.where(rng.randint(2, size=count), lowest[column], highest[column])
        out[np.arange(count), column] = np.where(rng.randint(2, size=count), extreme, X[other, column])
    return out


def largest_fall(ladders: Sequence[Ladder], score: Callable[[np.ndarray], np.ndarray]) -> float:
    """The largest fall from step to step, as a share of the range of answers; 0 where none falls."""
    found = 0.0
    for ladder in ladders:
        rise = ladder.rises(score)
        reach = float(np.ptp(np.cumsum(rise, axis=1))) or 1.0
        found = max(found, -float(rise.min()) / reach)
    return found if found > ROUND_OFF else 0.0


def least_distance(
    beta: np.ndarray, root: np.ndarray, G: np.ndarray, margin: np.ndarray, farthest: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """The weights nearest to the free ones under ``Gβ ≥ margin``, and which steps bind.

    Few features may be unable to rise everywhere by a margin, or only with weights that are farther than this from the
    free ones; they can be level.
    """
    V = root.T @ G.T
    size = np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)
    low = (margin - G @ beta) / size
    unit = float(np.abs(low).max())
    if not (low > 0).any():
        return beta, np.zeros(len(G), bool)
    own = _distinct(V / size, low / unit)
    E = np.vstack([V / size, low / unit])[:, own]
    target, dual = np.append(np.zeros(len(V)), 1.0), np.zeros(len(G))
    dual[own], _ = nnls(E, target, maxiter=30 * len(G))
    rest = target - E @ dual[own]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = -unit * rest[:-1] / rest[-1]
    if margin.any() and not (rest[-1] > NEVER and np.linalg.norm(z) <= farthest):
        return least_distance(beta, root, G, np.zeros(len(G)))
    if rest[-1] <= NEVER:
        return np.zeros(len(beta)), np.ones(len(G), bool)
    found = beta + root @ z
    if not margin.any() and np.linalg.norm(found) <= LEVEL * np.linalg.norm(beta):
        found = np.zeros(len(beta))
    return found, dual > 0


def _distinct(U: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Numbers of the steps, columns of length 1, that are not parallel to one that asks for as much.

    Of parallel ones any may bind, and least squares with two of them has no digits.
    """
    order = ranked(-low, ROUND_OFF)
    parallel = np.triu(U[:, order].T @ U[:, order] >= 1.0 - PARALLEL, 1)
    return np.sort(order[~parallel.any(axis=0)])


def _root(leverage: Leverage) -> np.ndarray:
    """W with ``W Wᵀ = A⁻¹``."""
    D = len(leverage.centre)
    if leverage.spectral:
        return leverage.root
    if leverage.rows is None:
        return np.asarray(solve_triangular(leverage.root, np.eye(D), lower=True, trans=1, check_finite=False))
    s, U = eigh(leverage.inverse(np.eye(D)))
    return np.asarray(U * np.sqrt(np.maximum(s, 0.0)))


def _distance_to_level(free: Solution, root: np.ndarray) -> float:
    """``‖W⁻¹β‖``: how far weights of 0 are from the free ones."""
    leverage, beta = free.leverage, free.beta[:, 0]
    if not leverage.spectral and leverage.rows is None:
        return float(np.linalg.norm(leverage.root.T @ beta))
    size = (root**2).sum(axis=0)  # of columns that are orthogonal
    return float(np.linalg.norm((root.T @ beta)[size > 0] / size[size > 0]))


def _levelled(leverage: Leverage, root: np.ndarray, G: np.ndarray) -> Leverage:
    """Leverages among weights under which these steps stay level."""
    Q, s, _ = np.linalg.svd(root.T @ G.T, full_matrices=False)
    Q = Q[:, s > 1e-10 * s[0]]
    return replace(leverage, root=root - (root @ Q) @ Q.T, spectral=True, rows=None)
