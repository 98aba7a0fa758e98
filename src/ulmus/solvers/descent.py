r"""Newton's method with conjugate gradients, for convex losses of scores that are linear in the weights.

The objective is :math:`J(v) = \sum_i w_i\,\ell(F_i) + \frac{1}{2C}\|v\|^2`, the scores F an offset plus a linear
*image* of v. Newton's direction solves :math:`Hd = -g` by conjugate gradients, in a *metric* M near the Hessian H for
which there is a factor. Conjugate gradients sum the image of the direction as they go, so that the search for a step
length reads no rows. A pass over the rows is a product with H, or a gradient.

* Directions are as exact as the point deserves: :math:`\|r\|_{M^{-1}} \le \eta\|g\|_{M^{-1}}`, with
  :math:`\eta^2` what is left of the objective, so that the last steps converge faster than any rate; and no more exact
  than it takes to end there.
* M is made anew where the last direction took more passes than that costs, or took all that it may; and is a finer
  one from then on where there is one and directions are long.
* The run ends where :math:`\frac12 g^TM^{-1}g`, what the objective would still fall by if M were H, times the factor
  by which the last direction fell short of that (M is of other points, where the loss was more curved), is below a
  share ``tol`` of J, or of what J was to begin with (with separable classes and a weak penalty J itself goes to
  nothing); or where no fall is distinguishable from round-off.

Weights may be vectors of a space of which only inner products are known (dual weights of a kernel). So vectors and
gradients are kept apart: a gradient pairs with a vector, and M⁻¹ takes gradients to vectors.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ulmus.solvers.line_search import EPS, Step, WolfePowell

#: Products with H in one direction, at most.
MAX_INNER = 60
#: Products in one direction from which on a finer metric, if there is one, is worth its price.
MANY = 30
#: Directions are at least, and need not be more than, so exact.
ROUGH, FINE = 0.3, 1e-3
#: A direction that leaves so small a part of what may be left ends the run.
ENOUGH = 4.0
#: Where no more than this may be left of the objective, this many further steps are taken while the gradient falls.
EXACT, POLISH = 1e-8, 3
#: Falls of the objective below this share of it are round-off.
ROUND_OFF = 64 * EPS
#: An objective that has fallen to this share of what it was counts as that: with separable classes it goes to nothing.
SMALL = 1e-6
#: An objective below this has nothing left to fall: every row is sure, and right.
NOTHING = 1e-100
#: So many steps that together lower the objective by round-off alone are the last.
STALLED = 20


class ConvexObjective(Protocol):
    """A convex objective of vectors v with scores ``offset + image(v)``."""

    #: Passes that cost as much as a new metric.
    metric_cost: float

    def scores(self, v: np.ndarray) -> np.ndarray:
        """Scores at ``v``."""

    def loss(self, F: np.ndarray) -> float:
        """``Σ w ℓ(F)``."""

    def slope(self, F: np.ndarray, shift: np.ndarray) -> float:
        """Derivative of the loss where scores are shifted like this."""

    def gradient(self, F: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Gradient at ``v``, whose scores are F."""

    def curve(self, F: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``Hd`` at scores F, and the image of d."""

    def inner(self, u: np.ndarray, v: np.ndarray) -> float:
        """``⟨u, v⟩ / C``."""

    def pair(self, g: np.ndarray, v: np.ndarray) -> float:
        """A gradient applied to a vector."""

    def metric(self, F: np.ndarray) -> None:
        """Make M anew at these scores."""

    def finer(self) -> bool:
        """Make finer metrics from now on; whether there is one that is worth its price."""

    def direction(self, g: np.ndarray) -> np.ndarray:
        """``M⁻¹g``."""


@dataclass(frozen=True)
class Minimum:
    """Where the run ended; ``gap`` is ``½gᵀM⁻¹g / J``, the share of the objective that is left to fall."""

    v: np.ndarray
    F: np.ndarray
    gradient: np.ndarray
    value: float
    gap: float
    converged: bool
    n_steps: int
    n_passes: int
    n_metrics: int


def minimise(
    objective: ConvexObjective,
    v: np.ndarray,
    *,
    tol: float = 1e-10,
    max_passes: int = 500,
    fresh: bool = True,
    search: WolfePowell = WolfePowell(),  # noqa: B008 (frozen)
) -> Minimum:
    """Descend from ``v``; a metric is made first when ``fresh``, otherwise there is one."""
    F = objective.scores(v)
    value = first = objective.loss(F) + 0.5 * objective.inner(v, v)
    steps, passes, metrics, spent = 0, 1, 0, np.inf if fresh else 0.0
    before, stalled = value, False  # some steps ago
    ratio = 1.0  # by which an M of other points understates what is left, as the last direction showed
    while True:
        if spent > objective.metric_cost or spent >= MAX_INNER:
            objective.metric(F)
            metrics, spent, ratio = metrics + 1, 0.0, 1.0
        g = objective.gradient(F, v)
        Mg = objective.direction(g)
        by_metric = 0.5 * objective.pair(g, Mg)
        gap, passes = ratio * by_metric, passes + 1
        converged = gap <= tol * max(value, SMALL * first) or value <= NOTHING
        if converged or stalled or passes >= max_passes:
            break
        enough = tol * max(value, SMALL * first) / (ENOUGH * gap)
        eta = np.clip(max(np.sqrt(gap / max(value, SMALL * first)), np.sqrt(enough)), FINE, ROUGH)
        d, shift, inner = newton_direction(objective, F, g, Mg, float(eta))
        passes, spent = passes + inner, spent + inner
        if inner >= MANY and objective.finer():
            spent = np.inf
        ratio = max(ratio, -0.5 * objective.pair(g, d) / by_metric) if by_metric > 0 else ratio
        if -objective.pair(g, d) <= ROUND_OFF * value:
            converged = gap <= max(tol, np.sqrt(EPS)) * value
            break
        step = step_length(objective, F, shift, v, d, search)
        if not step.length > 0 or not step.end_value <= value * (1 + ROUND_OFF):
            break
        v, F, value, steps = v + step.length * d, F + step.length * shift, step.end_value, steps + 1
        if steps % STALLED == 0:
            stalled, before = before - value <= ROUND_OFF * before, value
    if converged and tol <= EXACT:
        for _ in range(POLISH):  # steps too small to be seen in J are seen in its gradient
            d, shift, inner = newton_direction(objective, F, g, Mg, FINE)
            g_end = objective.gradient(F + shift, v + d)
            Mg_end = objective.direction(g_end)
            gap_end, passes = 0.5 * objective.pair(g_end, Mg_end), passes + inner + 1
            if not gap_end < gap:
                break
            v, F, g, Mg, gap, steps = v + d, F + shift, g_end, Mg_end, gap_end, steps + 1
        value = objective.loss(F) + 0.5 * objective.inner(v, v)
    share = gap / value if value > 0 else 0.0
    return Minimum(v, F, g, value, float(share), bool(converged), steps, passes, metrics)


def step_length(
    objective: ConvexObjective,
    F: np.ndarray,
    shift: np.ndarray,
    v: np.ndarray,
    d: np.ndarray,
    search: WolfePowell = WolfePowell(),  # noqa: B008 (frozen)
) -> Step:
    """How far to go along d, which shifts the scores like this; no row is read."""

    def phi(t: float) -> tuple[float, float]:
        F_t, v_t = F + t * shift, v + t * d
        slope = objective.slope(F_t, shift) + objective.inner(v_t, d)
        return objective.loss(F_t) + 0.5 * objective.inner(v_t, v_t), slope

    return search.search(phi)


def newton_direction(
    objective: ConvexObjective, F: np.ndarray, g: np.ndarray, Mg: np.ndarray, eta: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Newton's direction, its image, and the passes it took."""
    d, shift = np.zeros_like(Mg), 0.0 * F  # scores may be on a device
    r, z = -g, -Mg
    p, size = z, objective.pair(r, z)
    enough = eta**2 * size
    for count in range(1, MAX_INNER + 1):
        Hp, image = objective.curve(F, p)
        bend = objective.pair(Hp, p)
        if not bend > 0:  # nothing but round-off bends this way
            return (-Mg, objective.curve(F, -Mg)[1], count + 1) if count == 1 else (d, shift, count)
        a = size / bend
        d += a * p
        shift = shift + a * image
        r = r - a * Hp
        z = objective.direction(r)
        new = objective.pair(r, z)
        if new <= enough:
            break
        p, size = z + (new / size) * p, new
    return d, shift, count
