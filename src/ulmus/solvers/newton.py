r"""Newton's method for robust losses on features.

The weights minimise :math:`L(\beta, b) = \frac12\|\beta\|^2 + C\sum_i w_i f(\phi_i\beta + b - t_i)`, one run for each
output. The direction solves :math:`(I + C\,\Phi^TD\Phi)\,d = -\nabla L`, :math:`D = \operatorname{diag} w f''(e)`,
by Cholesky, the step length is found by Wolfe–Powell, and the run stops at
:math:`\|d\| \le \varepsilon\max(c, \|\beta\|)`, whatever the units of the targets (for squares, which have no
transition c, their largest target stands in for it).

What a sweep over the rows costs decides the rest:

* A sweep evaluates the point at the **end** of the full step, with all that the next iteration needs. The residuals at
  both ends give those at every other length, so the search reads no rows; a shorter step costs one more sweep. (A
  stream, which holds nothing per row, sums once more for every length that is tried but 1.)
* A sweep without D costs a fraction. While a step moves residuals by less than a fifth of the loss's transition, f''
  hardly changes (that of squares never does), and the factor at hand is used again, as long as steps shrink threefold.
* The gradient is exact, the curvature only points the way: with very many rows it is summed from some of them.
* Far from the solution f'' may vanish for every row. Where that leaves a singular system, or a step that had to be
  shortened below a tenth, the next direction takes :math:`D = \operatorname{diag} w f'(e)/e` instead (reweighted least
  squares), which is positive wherever there is an error, or the largest f'' where there is none.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError

from ulmus import engine
from ulmus.losses import Loss
from ulmus.solvers.line_search import Phi, Step, WolfePowell
from ulmus.solvers.objective import Evaluation, Leverages, Objective, Request, System, Way

#: Steps that take less than this share of the full one are followed by a reweighted one.
SHORT = 0.1
#: A factor is used again while directions shrink at least like this.
STEADY = 0.3
#: What stands in for f'' where it vanishes for every row; the last never does.
SUBSTITUTES = ("weight", "bound")
#: Tenfold smaller C, so often at most, for a curvature that has no Cholesky factor in float64.
MAX_JITTERS = 12
#: Steps below this share of the constant are round-off.
ROUND_OFF = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class NewtonOptions:
    """Stop rule (``tol=None``: the tolerance that suits the rows), search, and the penalty on the constant."""

    tol: float | None = None
    max_iter: int = 100
    search: WolfePowell = field(default_factory=WolfePowell)
    bias_penalty: float = 0.0
    #: A factor is used again while residuals move by less than this, in transitions (None: what suits the rows).
    reuse: float | None = None


@dataclass(frozen=True)
class NewtonPath:
    """What every iteration saw and did.

    ``objective`` and ``gradient_norm`` at its point, ``step_norm`` of its direction; then, for all but the last,
    ``step_length`` and the slopes of the objective along it at both ends.
    """

    objective: np.ndarray
    gradient_norm: np.ndarray
    step_norm: np.ndarray
    step_length: np.ndarray
    slope: np.ndarray
    end_slope: np.ndarray

    def in_units(self, size: float) -> "NewtonPath":
        """That of targets that are larger by ``size``."""
        objective, slope, end_slope = (size * (size * a) for a in (self.objective, self.slope, self.end_slope))
        return NewtonPath(
            objective, size * self.gradient_norm, size * self.step_norm, self.step_length, slope, end_slope
        )


@dataclass(frozen=True)
class NewtonResult:
    """Weights of one output, residuals ``φβ + b − t`` (none of a stream) and the path.

    Leverages are those under the last curvature, whose sum is ``curvature_sum``. It was taken where weights and
    constant differed from these by ``lag``: 0, unless its factor was used again.
    """

    beta: np.ndarray
    intercept: float
    residual: np.ndarray
    leverage: Leverages
    curvature_sum: float
    path: NewtonPath
    converged: bool
    threshold: float
    lag: tuple[np.ndarray, float]

    @property
    def n_iter(self) -> int:
        """Number of directions computed: one more than steps taken."""
        return len(self.path.objective)

    def in_units(self, size: float, middle: float, scale: float) -> "NewtonResult":
        """That of the targets ``size · t + middle``, under a loss whose c and C have grown by ``scale``."""
        with np.errstate(over="ignore", under="ignore"):  # the objective is of the order of squares
            path = self.path.in_units(size)
        return replace(
            self,
            beta=size * self.beta,
            intercept=size * self.intercept + middle,
            residual=size * self.residual,
            leverage=self.leverage.scaled(scale),
            curvature_sum=self.curvature_sum / scale,
            path=path,
            threshold=size * self.threshold,
            lag=(size * self.lag[0], size * self.lag[1]),
        )


@dataclass
class _Record:
    points: list[tuple[float, float, float]] = field(default_factory=list)
    steps: list[tuple[float, float, float]] = field(default_factory=list)

    def path(self) -> NewtonPath:
        points, steps = (np.array(a, float).reshape(-1, 3).T for a in (self.points, self.steps))
        return NewtonPath(*points, *steps)


def newton(
    rows: Objective,
    loss: Loss,
    c: np.ndarray,
    C: np.ndarray,
    beta: np.ndarray,
    intercept: np.ndarray,
    options: NewtonOptions,
) -> list[NewtonResult]:
    """Minimise from a start ``beta[feature, output]``, ``intercept[output]``; ``c`` and ``C`` are those of each output.

    Outputs run side by side and share every sweep.
    """
    units = least_steps(loss, c, rows.largest_targets)
    runs = [_Run(rows, loss, c, j, float(C[j]), float(units[j]), options) for j in range(beta.shape[1])]
    generators = {j: run.descend(beta[:, j], float(intercept[j])) for j, run in enumerate(runs)}
    requests = {j: next(generator) for j, generator in generators.items()}
    results: dict[int, NewtonResult] = {}
    with engine.threads_for(rows.n_features):
        while requests:
            found = rows.sweep(loss, c, requests)
            requests = {}
            for j, evaluation in found.items():
                try:
                    requests[j] = generators[j].send(evaluation)
                except StopIteration as stop:
                    results[j] = stop.value
    return [results[j] for j in range(len(runs))]


def least_steps(loss: Loss, c: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """What steps are compared with where weights vanish, for every output: the transition, or the largest target."""
    return c if loss.parameter else largest


@dataclass
class _Run:
    """Newton's method for one output, as a dialogue: points go out, evaluations come in."""

    rows: Objective
    loss: Loss
    transitions: np.ndarray
    output: int
    C: float
    unit: float
    options: NewtonOptions

    @property
    def c(self) -> float:
        """The transition of this output."""
        return float(self.transitions[self.output])

    def descend(self, beta: np.ndarray, b: float) -> Generator[Request, Evaluation, NewtonResult]:
        options, record = self.options, _Record()
        tol = self.rows.tolerance if options.tol is None else options.tol
        reuse = self.rows.reuse if options.reuse is None else options.reuse
        reuse = reuse if self.loss.parameter else np.inf
        here = yield Request(beta, b, "curvature")
        wanted: str | None = "curvature"
        system: System | None = None
        bent = beta, b
        converged, thorough, previous, age, was_new = False, False, np.inf, 0, False
        while True:
            age += 1
            if wanted is not None or system is None:
                age, system, bent = 0, self._system(here), (beta, b)
                for substitute in SUBSTITUTES:
                    if system is None:
                        here = yield Request(beta, b, substitute, thorough)
                        wanted, system = substitute, self._system(here)
            assert system is not None
            gradient, gradient_b = here.gradient + beta / self.C, here.gradient_b + options.bias_penalty * b / self.C
            d, d_b = self._direction(system, gradient, gradient_b)
            size = float(np.hypot(np.linalg.norm(d), d_b))
            # L is C times what the sums hold
            steepness = self.C * float(np.hypot(np.linalg.norm(gradient), gradient_b))
            record.points.append((self.C * self._objective(here, beta, b), steepness, size))
            threshold = self._threshold(tol, beta, b)
            if size == 0.0 or (wanted not in SUBSTITUTES and size <= threshold):
                converged = True
                break
            if len(record.steps) == options.max_iter:
                break
            decrement = -float(d @ gradient + d_b * gradient_b)
            steady = wanted not in SUBSTITUTES and size <= STEADY * previous
            bend = self.rows.bend(self.loss, self.c, here)
            moved = np.sqrt(max(decrement, 0.0) / max(bend, 1e-300)) / self.c
            # a new factor that fails near the solution was summed from too few rows
            thorough |= not steady and was_new and moved <= reuse
            wanted = None if steady and moved <= reuse else "curvature"
            previous, was_new = size, age == 0
            there = yield Request(beta + d, b + d_b, wanted, thorough)
            phi = self._along(Way(self.output, here, there, beta, b, d, d_b))
            step = options.search.search(phi)
            if step.length != 1.0:
                full, asked = there, wanted
                wanted = "weight" if step.length < SHORT else "curvature"
                there = yield Request(beta + step.length * d, b + step.length * d_b, wanted, thorough)
                reached = self._objective(there, beta + step.length * d, b + step.length * d_b)
                # beyond the full step φ is extrapolated, and its round-off with it: the rows have the last word
                if step.length > 1.0 and reached > self._objective(full, beta + d, b + d_b):
                    step, there, wanted = Step(1.0, *phi(0.0), *phi(1.0)), full, asked
            record.steps.append((step.length, self.C * step.slope, self.C * step.end_slope))
            beta, b, here = beta + step.length * d, b + step.length * d_b, there
        bend = self.rows.bend(self.loss, self.c, here)
        leverage, lag = system.leverage, (bent[0] - beta, bent[1] - b)
        return NewtonResult(beta, b, here.residual, leverage, bend, record.path(), converged, threshold, lag)

    def _threshold(self, tol: float, beta: np.ndarray, b: float) -> float:
        """The length of a step that is none. A free constant moves with the targets, so only its round-off counts."""
        counted = float(np.hypot(np.linalg.norm(beta), b if self.options.bias_penalty else 0.0))
        return max(tol * max(self.unit, counted), ROUND_OFF * abs(b))

    def _system(self, here: Evaluation) -> System | None:
        """The factored curvature; where float64 cannot factor it, that of a smaller C, which still points downhill.

        None where no row has any.
        """
        C = self.C
        for _ in range(MAX_JITTERS):
            try:
                return self.rows.system(here, C, self.options.bias_penalty)
            except LinAlgError:
                C /= 10
        return None

    def _direction(self, system: System, gradient: np.ndarray, gradient_b: float) -> tuple[np.ndarray, float]:
        if not self.rows.fit_intercept:
            return -system.inverse(gradient[:, None])[:, 0], 0.0
        d = -system.inverse((gradient - system.centre * gradient_b)[:, None])[:, 0]
        return d, -gradient_b / system.weight - float(system.centre @ d)

    def _penalty(self, beta: np.ndarray, b: float) -> float:
        return (float(beta @ beta) + self.options.bias_penalty * b * b) / (2 * self.C)

    def _objective(self, found: Evaluation, beta: np.ndarray, b: float) -> float:
        return self._penalty(beta, b) + self.rows.value(self.loss, self.c, found)

    def _along(self, way: Way) -> Phi:
        """φ and φ' of every share of the full step."""
        sums, p = self.rows.along(self.loss, self.transitions, way), self.options.bias_penalty

        def phi(alpha: float) -> tuple[float, float]:
            at = way.point(alpha)
            value, slope = sums(alpha)
            pull = float(at.beta @ way.d + p * at.intercept * way.d_b) / self.C
            return self._penalty(at.beta, at.intercept) + value, pull + slope

        return phi
