r"""Robust regression from start to end: a sample first, then all rows.

A full Newton run costs a sweep over the rows per iteration, and a start from zero some ten of them. So everything that
a sample can tell is taken from a sample: the Tikhonov solution, the scale of its residuals, the robust solution from
there, the scale again, and once more the solution. All rows then need the last two or three iterations only.

*Scale.* The transition is :math:`c = k\cdot 1.4826\,\mathrm{MAD}(e_{-i})` with leave-one-out residuals (those of the
training shrink as features are added), without those beyond six deviations (a third of outliers would stretch the
median by half), and the k at which the loss is 95 % efficient for Gaussian errors.

*Leave-one-out.* With :math:`\ell = \phi^T(\Phi^TD\Phi + I/C)^{-1}\phi`, one Newton step away from the solution without
one copy (weight u) of row i lies the residual

.. math:: e_{-i} \approx e_i + \frac{u\,\ell_i f'(e_i)}{1 - u\,\ell_i f''(e_i)},

exact for the squared loss. A row that leaves as a landmark too has the residual :math:`e'_i` and the leverage
:math:`\ell'_i` once the landmark has left (:mod:`ulmus.solvers.own_landmarks`); the step that leaves out both comes to

.. math:: e_{-i} \approx e_i + \frac{e'_i - e_i + u\,\ell'_i f'(e_i)}{1 - u\,\ell'_i f''(e_i)},

with the slope at :math:`e_i`, where the step begins, and the curvature that the leverage knows of (which was taken
there, or a step before), so that what is divided by is not below 0.
"""

from dataclasses import dataclass, replace

import numpy as np

from ulmus import engine
from ulmus.features.sampling import distinct_sample
from ulmus.losses import LOSSES, Loss
from ulmus.solvers.dual_rows import FEW, ROWS_EACH, DualRows
from ulmus.solvers.nearby import NearbyRows
from ulmus.solvers.newton import NewtonOptions, NewtonResult
from ulmus.solvers.newton_rows import FEW_PRODUCTS, HeldRows, StreamedRows
from ulmus.solvers.objective import NewtonRows, Objective
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.ridge import EPS, Problem
from ulmus.solvers.span import minimise

#: Bytes of features that are kept rather than computed again: of a sample, and of all rows.
HELD_BYTES, KEPT_BYTES = 2**26, 2**27
#: Rows of a sample for each feature.
SAMPLE_RATIO = 8
FEWEST_ROWS = 2_048
SAMPLE_TOLERANCE = 1e-2
#: Rows on which the noise is measured, at least.
NOISE_ROWS = 1_024
#: The transition is at least this share of the deviation of the targets: below it is round-off, not noise.
LEAST_NOISE = 1e-3
#: MAD → deviation of Gaussian errors; errors beyond this many deviations are gross; rounds of leaving them out.
GAUSSIAN, GROSS, MAX_TRIMS = 1.4826, 6.0, 5
#: Accuracy of solutions that only lead on to others, and steps towards them at most.
ROUGH, ROUGH_STEPS = 1e-4, 100
#: When a factor is used again on the way to a solution whose leverages nobody asks for (:class:`NewtonOptions`).
HASTE = 0.2
#: Deviations below this share of what nearly all values lie within, or of the values themselves, are round-off.
SAME, BULK, ROUND_OFF = 1e-10, 0.95, 1e-14


@dataclass(frozen=True)
class Penalty:
    """C as given, or ``relative`` to the transition: C/c is then the C of a ridge model."""

    value: float
    relative: bool = False
    #: Targets are counted in these: C in their own units is larger by them.
    units: np.ndarray | float = 1.0

    def of(self, c: np.ndarray) -> np.ndarray:
        """C of each output."""
        return self.value * c if self.relative else np.full(len(c), float(self.value)) / self.units

    def times(self, factor: float) -> "Penalty":
        return replace(self, value=factor * self.value)


@dataclass(frozen=True)
class RobustSolution:
    """The solution of every output, with its transition c and C."""

    loss: Loss
    c: np.ndarray
    C: np.ndarray
    results: list[NewtonResult]

    @property
    def beta(self) -> np.ndarray:
        return np.column_stack([r.beta for r in self.results])

    @property
    def intercept(self) -> np.ndarray:
        return np.array([r.intercept for r in self.results])

    @property
    def residual(self) -> np.ndarray:
        """``φβ + b − t`` of every row and output."""
        return np.column_stack([r.residual for r in self.results])

    def leverages(self, Phi: np.ndarray) -> np.ndarray:
        """``φᵀ(ΦᵀDΦ + I/C)⁻¹φ``, ``[row, output]``."""
        with engine.threads_for(Phi.shape[1]):
            return np.column_stack([r.leverage(Phi) for r in self.results])

    def without_landmark(
        self, own: OwnLandmarks, residual: np.ndarray, leverage: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and leverages of rows, for those that are landmarks without the landmark, by one Newton step."""
        parts = []
        for j, r in enumerate(self.results):
            at = r.leverage
            parts.append(own.without(at.inverse, at.centre, r.beta[:, None], residual[:, [j]], leverage[:, j]))
        return np.hstack([e for e, _ in parts]), np.column_stack([h for _, h in parts])

    def _curvature(self, Phi: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """``f''`` where the curvature behind the leverages was taken, ``[row, output]``."""
        lag = np.column_stack([Phi @ r.lag[0] + r.lag[1] for r in self.results])
        return self.loss.curvature(residual + lag, self.c)

    def leave_one_out(
        self, Phi: np.ndarray, residual: np.ndarray, unit: np.ndarray | None, own: OwnLandmarks | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Residuals of these training rows under the model without one copy of them, by one Newton step; leverages.

        Rows that are landmarks of their ``own`` leave as such too.
        """
        moved, leverage = residual, self.leverages(Phi)
        if own is not None:
            moved, leverage = self.without_landmark(own, residual, leverage)
        u = 1.0 if unit is None else unit[:, None]
        bent = u * self._curvature(Phi, residual)
        remainder = np.maximum(1.0 - leverage * bent, self._least_remainder(Phi, bent))
        step = moved - residual + u * leverage * self.loss.slope(residual, self.c)
        return residual + step / remainder, leverage

    def leave_landmarks_out(
        self, Phi: np.ndarray, residual: np.ndarray, unit: np.ndarray | None, rest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same where all rows are landmarks, with ``r'`` of each: weights without a row are in the others' span.

        So its landmark has left with it, and of the leverage without both, ``ℓ₋``, a share of ``C r'`` is that of the
        landmark.
        """
        e, leverage = self.leave_one_out(Phi, residual, unit)
        bent = (1.0 if unit is None else unit[:, None]) * self._curvature(Phi, residual)
        remainder = np.maximum(1.0 - leverage * bent, self._least_remainder(Phi, bent))
        left = np.maximum(leverage / remainder - self.C * rest[:, None], 0.0)
        return e, left / (1.0 + bent * left)

    def _least_remainder(self, Phi: np.ndarray, bent: np.ndarray) -> np.ndarray:
        """``1/(1 + u f'' ℓ₋)`` for the largest ``ℓ₋`` that the penalty allows: ``C‖φ̃₋‖²``, and the constant's share.

        Below it, what is left beside a leverage of nearly 1 is round-off.
        """
        out = np.empty_like(bent)
        for j, r in enumerate(self.results):
            d, constant = bent[:, j], np.zeros(len(bent))
            if r.leverage.constant:
                constant = d / np.maximum(r.curvature_sum - d, np.maximum(EPS * d, np.finfo(float).tiny))
            away = ((Phi - r.leverage.centre) ** 2).sum(axis=1) * (1.0 + constant) ** 2
            out[:, j] = 1.0 / (1.0 + self.C[j] * d * away + constant)
        return np.maximum(out, EPS)


def weighted_median(values: np.ndarray, weight: np.ndarray | None) -> float:
    """The value with half of the weight on either side (the mean of two, where there are two)."""
    return float(np.median(values)) if weight is None else weighted_quantile(values, weight, 0.5)


def weighted_quantile(values: np.ndarray, weight: np.ndarray | None, share: float) -> float:
    """The value with this share of the weight below (the mean of two, where there are two)."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    low, high = np.searchsorted(mass, share * mass[-1] * np.array([1 - 1e-12, 1 + 1e-12]))
    return float(values[order[low]] + values[order[min(high, len(values) - 1)]]) / 2


def deviations(E: np.ndarray, weight: np.ndarray | None, T: np.ndarray | None = None) -> np.ndarray:
    """``1.4826 MAD`` of every column, gross outliers left out.

    E are errors of the targets T. Where more than half of these are one value (no claims, no spending), the median says
    how well that one is met and nothing of the noise: it is then taken over the other rows, times their share.
    """
    if T is None:
        return np.array([_deviation(e, weight) for e in E.T])
    return np.array([_tied_deviation(e, t, weight) or _deviation(e, weight) for e, t in zip(E.T, T.T, strict=True)])


def _tied_deviation(e: np.ndarray, t: np.ndarray, weight: np.ndarray | None) -> float:
    """That of errors whose targets more than half of the rows share; 0 where no value has so many."""
    other = t != weighted_median(t, weight)
    share = float(np.average(other, weights=weight))
    if not 0 < share < 0.5:
        return 0.0
    away = np.abs(e[other] - weighted_median(e, weight))
    return share * GAUSSIAN * weighted_median(away, None if weight is None else weight[other])


def _deviation(e: np.ndarray, weight: np.ndarray | None) -> float:
    """The deviation of the values within six of it; where half of the values are equal, their mean distance, or 1."""
    for _ in range(MAX_TRIMS):
        middle = weighted_median(e, weight)
        away = np.abs(e - middle)
        size = GAUSSIAN * weighted_median(away, weight)
        # not the widest distance: a single value may be any distance away
        if size <= max(SAME * weighted_quantile(away, weight, BULK), ROUND_OFF * abs(middle)):
            size = float(np.average(away, weights=weight))
            break
        near = away <= GROSS * size
        if near.all():
            break
        e, weight = e[near], None if weight is None else weight[near]
    return size if size > 0 else 1.0


def tempered(
    T: np.ndarray, weight: np.ndarray | None, fitted: np.ndarray | None = None, factor: float = 5.0
) -> np.ndarray:
    """Targets within ``factor`` deviations of ``fitted`` (None: of their median); those beyond are brought back."""
    fitted, residual, deviation = _about(T, weight, fitted)
    return fitted + np.clip(residual, -factor * deviation, factor * deviation)


def gross(T: np.ndarray, weight: np.ndarray | None, fitted: np.ndarray, factor: float) -> np.ndarray:
    """Which rows have a target farther than ``factor`` deviations from ``fitted``: never the half that is nearest."""
    _, residual, deviation = _about(T, weight, fitted)
    worst = (np.abs(residual) / deviation).max(axis=1)
    return worst > max(factor, weighted_median(worst, weight))


def _about(
    T: np.ndarray, weight: np.ndarray | None, fitted: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fitted values moved to the middle of the errors, about which deviations are taken; errors; deviations."""
    fitted = np.zeros((1, T.shape[1])) if fitted is None else fitted
    fitted = fitted + np.array([weighted_median(e, weight) for e in (T - fitted).T])
    return fitted, T - fitted, deviations(T - fitted, weight, T)


def sample_rows(n_features: int) -> int:
    """Rows of a sample: several for each feature, as far as memory that is small allows."""
    held = HELD_BYTES // (8 * n_features)
    return max(FEWEST_ROWS, 2 * n_features, min(SAMPLE_RATIO * n_features, held))


def newton_rows(problem: Problem, streamed: Problem) -> NewtonRows:
    """Rows whose features are kept where that is little, or has to be: fewer rows than features."""
    n, D = len(problem.rows), problem.features.n_features_out
    return HeldRows.of(problem) if n < D or 8 * n * D <= HELD_BYTES else StreamedRows(streamed)


def rows_for_runs(problem: Problem, streamed: Problem) -> NewtonRows:
    """The same for several runs that lie near each other, in the form in which these are less work."""
    n, D = len(problem.rows), problem.features.n_features_out
    if FEW <= n <= ROWS_EACH * D and 8 * n * n <= KEPT_BYTES:
        return DualRows.of(problem)
    if n >= D and n * D * D > FEW_PRODUCTS and 8 * n * D <= KEPT_BYTES:
        return NearbyRows.of(problem)
    return newton_rows(problem, streamed)


def begin(
    problem: Problem,
    streamed: Problem,
    loss: Loss,
    c: np.ndarray | None,
    penalty: Penalty,
    options: NewtonOptions,
    rng: np.random.RandomState,
    mild: np.ndarray | None = None,
) -> tuple[NewtonRows, RobustSolution]:
    """The rows, and a rough solution from (a sample of) them; ``c=None`` estimates the transitions.

    ``streamed`` is the same problem in the form in which sums over many rows are cheapest; ``mild`` are targets whose
    outliers were tempered, for the Tikhonov solution (None: tempered from their median).
    """
    rows, count = rows_for_runs(problem, streamed), sample_rows(problem.features.n_features_out)
    if problem.rows.effective_count <= 2 * count:
        return rows, pilot(rows, loss, c, penalty, options, mild)
    index, sample = distinct_sample(problem.rows, count, rng)
    share = problem.rows.total_weight / sample.total_weight
    held = HeldRows.of(replace(problem, rows=sample))
    options = replace(options, tol=SAMPLE_TOLERANCE)  # a sample is no closer to all rows
    start = pilot(held, loss, c, penalty.times(share), options, None if mild is None else mild[index])
    return rows, replace(start, C=start.C / share)


def fit_robust(
    problem: Problem,
    loss: Loss,
    c: np.ndarray | None,
    penalty: Penalty,
    options: NewtonOptions,
    rng: np.random.RandomState,
) -> RobustSolution:
    """Robust weights of a feature map; ``c=None`` estimates the transitions."""
    rows, start = begin(problem, problem, loss, c, penalty, options, rng)
    return finished(rows, loss, start, options)


def roughly(options: NewtonOptions) -> NewtonOptions:
    """The options of runs that only lead on to others: less exact, and as long as it takes."""
    return replace(options, tol=max(ROUGH, options.tol or 0.0), max_iter=max(ROUGH_STEPS, options.max_iter))


def polish(rows: Objective, loss: Loss, start: RobustSolution, options: NewtonOptions) -> RobustSolution:
    """From a start to the solution for its c and C."""
    results = minimise(rows, loss, start.c, start.C, start.beta, start.intercept, options)
    return replace(start, results=results)


def finished(rows: NewtonRows, loss: Loss, start: RobustSolution, options: NewtonOptions) -> RobustSolution:
    """The same for the last run, whose leverages are asked for: they are by features, where these are fewer."""
    if isinstance(rows, DualRows):
        start = polish(rows, loss, start, options)
        kind = NearbyRows if len(rows.Phi) >= rows.n_features else HeldRows
        rows = kind(rows.Phi, rows.rows, rows.fit_intercept, rows.n_jobs)
    return polish(rows, loss, start, options)


def pilot(
    rows: NewtonRows,
    loss: Loss,
    c: np.ndarray | None,
    penalty: Penalty,
    options: NewtonOptions,
    mild: np.ndarray | None = None,
) -> RobustSolution:
    """Tikhonov, and where the transition is to be estimated: scale, robust solution, scale again, and solution."""
    T, weight = rows.rows.T, rows.rows.weight
    rough = roughly(options)
    known = c is not None or loss.parameter is None
    widest = deviations(T, weight, T)
    at = c if c is not None else np.ones(T.shape[1]) if known else loss.efficient * widest
    if loss.parameter is None:
        mild = T
    elif mild is None:
        mild = tempered(T, weight)
    soft = rows.with_targets(mild)
    start = tikhonov(soft, penalty.of(at) / at, rough)
    if known:
        return replace(start, loss=loss, c=at, C=penalty.of(at))
    noise = _noise(soft, start, mild - T)
    for last in (False, True):
        at = loss.efficient * np.maximum(noise, LEAST_NOISE * widest)
        way = replace(rough, reuse=HASTE) if last else rough
        start = polish(rows, loss, replace(start, loss=loss, c=at, C=penalty.of(at)), way)
        noise = noise if last else _noise(rows, start)
    return start


def _noise(rows: NewtonRows, solution: RobustSolution, extra: np.ndarray | None = None) -> np.ndarray:
    """Deviations of leave-one-out residuals where features are kept (of some rows); of many rows, as in training.

    ``extra`` is added to the residuals: by how much the targets were moved.
    """
    extra = np.zeros((1, 1)) if extra is None else extra
    if not isinstance(rows, HeldRows):
        return deviations(solution.residual + extra, rows.rows.weight, rows.rows.T - extra)
    some = slice(None, None, max(1, len(rows.Phi) // NOISE_ROWS))
    kept = rows.rows.take(some)
    left_out, _ = solution.leave_one_out(rows.Phi[some], solution.residual[some], kept.unit)
    return deviations(left_out + extra[some], kept.weight, kept.T - extra[some])


def tikhonov(rows: NewtonRows, C: np.ndarray, options: NewtonOptions) -> RobustSolution:
    """The ridge solution: one Newton step of the squared loss."""
    D, s = rows.n_features, rows.rows.T.shape[1]
    results = minimise(rows, LOSSES["squared"], np.ones(s), C, np.zeros((D, s)), np.zeros(s), options)
    return RobustSolution(LOSSES["squared"], np.ones(s), C, results)


@dataclass(frozen=True)
class Units:
    """In which targets are fitted: about their middle, in powers of four near their deviation, which lose no digit.

    In units of their own, targets of any size are fitted alike, and no sum of squares overflows.
    """

    middle: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, T: np.ndarray, weight: np.ndarray | None, centred: bool) -> "Units":
        """Those of targets; the middle stays where it is unless an intercept is free to move it."""
        middle = np.array([weighted_median(t, weight) if centred else 0.0 for t in T.T])
        size = deviations(T - middle, weight, T) if centred else np.abs(T).max(axis=0)
        return cls(middle, 4.0 ** np.round(np.log2(np.where(size > 0, size, 1.0)) / 2))

    def inside(self, T: np.ndarray) -> np.ndarray:
        """Targets in these units."""
        return (T - self.middle) / self.size

    def outside(self, solution: RobustSolution) -> RobustSolution:
        """The solution for the targets as they were: c and C of a loss with a scale are in their units too."""
        scale = self.size if solution.loss.parameter else np.ones(len(self.size))
        found = [
            r.in_units(s, m, k) for r, s, m, k in zip(solution.results, self.size, self.middle, scale, strict=True)
        ]
        return replace(solution, c=scale * solution.c, C=scale * solution.C, results=found)
