r"""Ridge on Nyström features: routes to the same weights, and how far those can be from the exact kernel's.

==========  ===========================================================================  ===========================
route       what is summed over the rows                                                 cost
==========  ===========================================================================  ===========================
``gram``    :math:`K_{xz}^T K_{xz}`, whitened once at the end                            :math:`n L^2`
``partial`` the same of rows whose l leading features are whitened first                 :math:`n (L^2 + 2lL - l^2)`
``whiten``  :math:`\hat F^T \hat F`, every block whitened first                          :math:`2 n L^2`
==========  ===========================================================================  ===========================

Squaring before whitening multiplies round-off by the condition number of :math:`K_{zz}`; :data:`ROUTES` holds the
limits and :func:`route_for` answers for a given case. Where the leading features are whitened first
(:mod:`ulmus.features.whitening`), the condition number that counts is that of what is left to whiten; so many
lead that it is small. Above the first limit of the ``gram`` route the round-off of a sample of rows is measured;
where it is not small (:data:`ulmus.solvers.ridge.DOUBLE`), corrections computed from the rows restore the digits.

*Certificate* (Theorem 4, corrected). With :math:`R = K - \hat K`, the residual kernel
:math:`r(x,x) = \kappa(x,x) - \|\hat F(x)\|^2`, :math:`\|t_i\| \le \tau` and :math:`\kappa(x_i,x_i) \le \delta`,

.. math:: \|\hat f(x) - f(x)\| \le C\sqrt n\,\tau\sqrt{r(x,x)\,\|R\|_2} + C^2 n\,\delta(x)\,\tau\,\|R\|_2,
   \qquad \|R\|_2 \le \operatorname{tr} R = \sum_i r(x_i,x_i),

where :math:`\delta(x) = \sqrt{\kappa(x,x)\,\delta}` is :math:`\delta` itself for kernels with a constant diagonal.
Weights turn n into :math:`\sum w_i` and the trace into :math:`\sum w_i r(x_i,x_i)`. With an intercept the theorem is
applied to the centred kernel :math:`\langle\varphi(x) - \bar\varphi, \varphi(y) - \bar\varphi\rangle` and to centred
targets; :math:`\|\bar\varphi\|\le\sqrt\delta`, and what the landmarks leave of :math:`\bar\varphi` is at most
:math:`\|R\|_2/n`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.engine import FeatureMap, Rows
from ulmus.features.nystrom import NystromMap
from ulmus.features.whitening import PartialWhitening, residual_condition
from ulmus.solvers.own_landmarks import all_landmarks
from ulmus.solvers.ridge import (
    DOUBLE,
    SINGLE,
    Gradient,
    Leverage,
    NormalEquations,
    Precision,
    Problem,
    Solution,
    fit_dual,
    fit_gram,
    fit_sums,
    fit_triangular,
)
from ulmus.solvers.round_off import FEWEST, RoundOff, SampledRoundOff, correction_work, worth_measuring
from ulmus.statistics import Statistics, Summary

#: Condition numbers of kernel matrices up to which passes that square nothing keep their digits without whitened rows.
UNSQUARED = 1e12


@dataclass(frozen=True)
class Route:
    """What is summed, and how exactly."""

    name: str
    precision: Precision = DOUBLE

    def __str__(self) -> str:
        return f"{self.name} {np.dtype(self.precision.dtype).name}"


_WATCHED = replace(DOUBLE, correct=0.0)

#: Condition numbers of what is left to whiten: sums keep the digits; some thousand rows and more seldom need to be
#: corrected; corrections restore them.
SUM_LIMIT, SOUND, GRAM_LIMIT = 1e5, 1.5e6, 3e8
#: Condition number of what is left to whiten up to which one correction restores the digits.
ONE_CORRECTION = 2e7
#: Condition number of K_zz up to which sums of partly whitened rows are corrected by raw kernel values.
RAW_LIMIT = 1e12
#: Shares of the features that may be whitened first.
LEADING = (1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 3)

#: Rows whose float32 sums are taken at once; round-off averages out over more of them.
AVERAGED_ROWS = 1024

#: Rows whose kernel diagonal is taken at once.
BLOCK_ROWS = 4096

#: (type of the rows, largest condition number of K_zz, route): the first line that fits is taken. The limit of the
#: first line is that of few rows; it grows with the root of their number.
ROUTES: tuple[tuple[str, float, Route], ...] = (
    ("float32", 180.0, Route("gram", SINGLE)),
    ("float32", 3e3, Route("gram", replace(SINGLE, correct=0.0))),
    ("float32", 1e6, Route("whiten", SINGLE)),
    ("float32", 1e9, Route("gram", replace(_WATCHED, tolerance=SINGLE.tolerance, negligible=SINGLE.negligible))),
    ("float64", SUM_LIMIT, Route("gram")),
    ("float64", SOUND, Route("gram", _WATCHED)),
    ("float64", np.inf, Route("partial", _WATCHED)),
    ("float64", np.inf, Route("whiten")),
)
SAFEST = ROUTES[-1][2]


def route_for(dtype: Any, condition: float, n_rows: int = AVERAGED_ROWS, *, triangular: bool = True) -> Route:
    """The route for this many rows of this type and a landmark kernel of this condition number.

    An eigenvector whitening (``triangular=False``) does not commute with the sum, so its blocks are always whitened.

    Examples
    --------
    >>> from ulmus.solvers.nystrom_ridge import route_for
    >>> str(route_for("float64", 1e3)), str(route_for("float64", 1e12)), str(route_for("float32", 1e3))
    ('gram float64', 'partial float64', 'gram float32')
    """
    for line, (row_type, limit, route) in enumerate(ROUTES):
        reach = limit * np.sqrt(n_rows / AVERAGED_ROWS) if line == 0 else limit
        fits = row_type == "float64" or np.dtype(dtype) == np.float32
        if fits and condition <= reach and (triangular or route.name == "whiten"):
            return route
    return SAFEST


def partly_whitened(
    features: NystromMap, sound: float, limit: float, correction: float = np.inf
) -> PartialWhitening | None:
    """With as few leading features as leave a condition number that is sound, or at least within the limit.

    Fewer lead where one correction, of so many multiplications per feature of a row, is less work than the others. None
    where a third of them does not do.
    """
    R, found = features.whitening_, dict.fromkeys((sound, ONE_CORRECTION, limit), 0)
    with engine.threads_for(1):
        for leading in sorted({int(share * len(R)) for share in LEADING} - {0}):
            condition = residual_condition(R, leading)
            found = {bound: lead or leading * (condition <= bound) for bound, lead in found.items()}
            if found[sound]:
                break
    best, few = found[sound] or found[limit], found[ONE_CORRECTION]
    if few and _leading_work(few, len(R)) + correction < _leading_work(best, len(R)):
        best = few
    return PartialWhitening.of(features.cross_kernel_, R, best) if best else None


def _leading_work(leading: int, n_features: int) -> float:
    """Multiplications per feature of a row that whitening so many first takes."""
    return 2.0 * leading - leading**2 / n_features


def _summing_route(features: NystromMap, limit: float = SUM_LIMIT) -> Route:
    """The route by which sums alone keep the digits; those of a search, which are corrected later, up to SOUND."""
    return Route("gram") if features.triangular and features.condition_ <= limit else SAFEST


def summed_form(features: NystromMap) -> tuple[FeatureMap, np.ndarray | None]:
    """What is to be summed so that no digits are lost, and the factor that whitens the sum (None: it is white)."""
    return (
        (features, None) if _summing_route(features).name == "whiten" else (features.cross_kernel_, features.whitening_)
    )


def passed_form(features: NystromMap) -> tuple[FeatureMap, np.ndarray | None, FeatureMap | None]:
    """What a pass is to evaluate, the factor that whitens its weights, and what is to be squared instead, if any.

    A pass that whitens its weights instead of its rows is cheaper by a factor of L/k and costs ``eps √cond`` of the
    digits, as nothing is squared; where sums of squares would lose theirs, the few rows of those are whitened.
    """
    summed, R = summed_form(features)
    if R is None and features.triangular and features.condition_ <= UNSQUARED:
        return features.cross_kernel_, features.whitening_, features
    return summed, R, None


def nystrom_statistics(
    features: NystromMap, rows: Rows, n_jobs: int | None = -1, limit: float = SUM_LIMIT
) -> Statistics:
    """Sums of the whitened features in float64, squared before they are (all) white only where that costs no digits.

    A search compares by them, and corrects the weights of what it chose: its limit may be :data:`SOUND`.
    """
    return NystromProblem(features, rows, None, n_jobs=n_jobs).summed(limit).statistics(np.float64)


@dataclass(frozen=True)
class NystromProblem(Problem):
    """Ridge on a fitted Nyström map; it is posed anew in the features that a route squares."""

    features: NystromMap

    def solve(self, stats: Statistics | None = None, precision: Precision | None = None) -> Solution:
        """Weights by the cheapest route that keeps the digits (from the statistics of the features, if given).

        Another ``precision`` than that of the route says how many of them are worth another pass over the rows.
        """
        features, rows = self.features, self.rows
        if len(rows) <= features.n_features_out:  # no larger, and nothing is squared
            place = all_landmarks(features, rows)
            return fit_dual(self, None if place is None else features.whitening_[place])
        solution = None if stats is None else self._of_given(stats, precision)
        if solution is not None:
            return solution
        route = route_for(rows.X.dtype, features.condition_, len(rows), triangular=features.triangular)
        for attempt in dict.fromkeys((route, SAFEST)) if stats is None else ():
            posed, wanted = self._posed(attempt), precision or _watchful(attempt, features.condition_)
            solution = None if posed is None else _by_sums(posed, self._correcting(posed), wanted)
            if solution is not None:
                return replace(solution, form=str(attempt))
        return fit_triangular(self)

    def _of_given(self, stats: Statistics, precision: Precision | None) -> Solution | None:
        """Weights by given sums, corrected where they have lost digits, in the form in which the rows would be summed.

        A coarser precision than that of the route needs no row whitened for its corrections.
        """
        features, measure, many = self.features, None, len(self.rows) >= FEWEST
        posed = self.cheapest()
        if precision is not None and features.triangular:
            posed = self._raw()
        elif many and features.triangular:
            posed = self._correcting(self._posed(route_for(np.float64, features.condition_)) or self)
        if many and worth_measuring(posed, whitened=True):
            measure = SampledRoundOff(self.summed(SOUND), stats)
        wanted = replace(DOUBLE, correct=DOUBLE.correct / self._multiplied(SOUND))
        solution = fit_gram(posed, precision or wanted, stats, measure)
        return None if solution is None else replace(solution, form=str(_summing_route(features)))

    def solve_sums(self, stats: Statistics, again: Gradient | None = None) -> Solution:
        """Weights from sums that may have been whitened after they were squared.

        What that has cost is measured on the rows here, a sample; few rows are corrected without.
        """

        def measure(system: NormalEquations, solution: Solution) -> float:
            if again is not None and len(self.rows) < FEWEST:
                return np.inf
            return SampledRoundOff(self.summed(SUM_LIMIT), stats)(system, solution)

        return fit_sums(stats, self.C, self.fit_intercept, again, self._multiplied(SUM_LIMIT), measure)

    def cheapest(self, limit: float = SUM_LIMIT) -> Problem:
        """With raw kernel values, whitened after the sum, where sums of them keep the digits."""
        return self._raw() if _summing_route(self.features, limit).name == "gram" else self

    def summed(self, limit: float) -> Problem:
        """As :func:`nystrom_statistics` sums it."""
        features = self.features
        if _summing_route(features, limit) == SAFEST and features.triangular:
            partial = partly_whitened(features, limit, limit)
            if partial is not None:
                return self._seen_as(partial, partial.remaining)
        return self.cheapest(limit)

    def _seen_as(self, features: FeatureMap, whitening: np.ndarray) -> Problem:
        """The same problem on features that are still to be whitened by this factor."""
        return Problem(features, self.rows, self.C, self.fit_intercept, self.n_jobs, whitening)

    def _raw(self) -> Problem:
        """With raw kernel values."""
        return self._seen_as(self.features.cross_kernel_, self.features.whitening_)

    def _posed(self, route: Route) -> Problem | None:
        """As the route sees it: with features that are raw, partly whitened or white; None where it is no way."""
        if route.name == "whiten":
            return self
        if route.name == "gram":
            return self._raw()
        partial = partly_whitened(self.features, SOUND, GRAM_LIMIT, correction_work(self))
        return None if partial is None else self._seen_as(partial, partial.remaining)

    def _correcting(self, posed: Problem) -> Problem:
        """The problem whose gradient corrects weights: raw kernel values stand for rows that are partly white.

        Models predict by weights on kernel values, and lose about as much there as corrections by them leave.
        """
        partial = isinstance(posed.features, PartialWhitening) and self.features.condition_ <= RAW_LIMIT
        return self._raw() if partial else posed

    def _multiplied(self, limit: float) -> float:
        """By how much whitening multiplies the round-off of sums that may have been squared before."""
        return min(self.features.condition_, limit) if self.features.triangular else 1.0


def _watchful(route: Route, condition: float) -> Precision:
    """The route's precision; whitening a sum multiplies the round-off that the solve multiplies again."""
    squared = route.name == "gram"
    return replace(route.precision, correct=route.precision.correct / condition) if squared else route.precision


def _by_sums(problem: Problem, corrected: Problem, precision: Precision) -> Solution | None:
    """Weights by sums of the rows, corrected by another form of them where a sample says that digits were lost."""
    sums = engine.gram_statistics(problem.features, problem.rows, dtype=precision.dtype, n_jobs=problem.n_jobs)
    return fit_gram(corrected, precision, problem.whitened(sums), RoundOff(problem, sums, precision, corrected))


@dataclass(frozen=True)
class Certificate:
    """What the bound needs of the training rows: ``n`` (their weight), ``τ``, ``δ`` and ``tr R``; and ``Σ κ(x,x)``."""

    C: float
    n: float
    tau: float
    delta: float
    residual_trace: float
    centred: bool
    diagonal_sum: float = 0.0

    @classmethod
    def of(
        cls, features: NystromMap, rows: Rows | Summary, C: float, solution: Solution, *, fit_intercept: bool
    ) -> "Certificate":
        """From the rows, or their sums, and the factor of their solve, which holds ``tr F̂ᵀWF̂``."""
        if isinstance(rows, Summary):
            return cls._of_sums(features, rows, C, solution, fit_intercept)
        w = rows.weights
        T = rows.T - np.average(rows.T, axis=0, weights=w) if fit_intercept else rows.T
        n, total, delta = float(w.sum()), 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow end in an infinite bound
            for piece in engine.pieces(len(rows), BLOCK_ROWS):
                diagonal = features.cross_kernel_.diagonal(rows.X[piece])
                total, delta = total + float(w[piece] @ diagonal), max(delta, float(diagonal.max()))
            left = total - explained_trace(solution.leverage, C, n)
            tau = float(np.sqrt(np.einsum("ij,ij->i", T, T).max()))
        trace = max(left, trace_round_off(features.condition_, solution.form) * total) if np.isfinite(left) else np.inf
        return cls(C, n, tau, delta, trace, fit_intercept, total)

    @classmethod
    def _of_sums(
        cls, features: NystromMap, summary: Summary, C: float, solution: Solution, fit_intercept: bool
    ) -> "Certificate":
        """``τ`` is then the corner of the box that holds the targets."""
        stats, extent = summary.total, summary.extent
        assert extent is not None
        mean = stats.target_mean if fit_intercept else np.zeros(stats.n_outputs)
        with np.errstate(over="ignore", invalid="ignore"):
            tau = float(np.linalg.norm(np.maximum(extent.high - mean, mean - extent.low)))
            left = extent.diagonal_sum - explained_trace(solution.leverage, C, stats.weight)
        least = trace_round_off(features.condition_, solution.form) * extent.diagonal_sum
        trace = max(left, least) if np.isfinite(left) else np.inf
        return cls(C, stats.weight, tau, extent.diagonal_max, trace, fit_intercept, extent.diagonal_sum)

    def bound(self, diagonal: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Bound of ``‖f̂(x) − f(x)‖`` from ``κ(x,x)`` and ``r(x,x)`` of every row."""
        C, n, tau, R = self.C, self.n, self.tau, self.residual_trace
        r, delta = np.sqrt(residual), np.sqrt(diagonal * self.delta)
        if self.centred:
            r = r + np.sqrt(R / n)
            delta = (np.sqrt(diagonal) + np.sqrt(self.delta)) * 2 * np.sqrt(self.delta)
        with np.errstate(over="ignore", invalid="ignore"):
            bound = C * np.sqrt(n) * tau * r * np.sqrt(R) + C * C * n * delta * tau * R
        return np.where(np.isnan(bound), np.inf, bound)


def explained_trace(leverage: Leverage, C: float, n: float) -> float:
    """``tr ΦᵀWΦ``, from the factor of ``Φ̃ᵀWΦ̃ + I/C`` or the rows of ``Φ̃``, and the mean of ``Φ``."""
    if leverage.spectral:  # columns are eigenvectors over the roots of their eigenvalues
        centred = float(np.sum(1.0 / np.sum(leverage.root**2, axis=0))) - leverage.root.shape[1] / C
    elif leverage.rows is None:
        centred = float(np.sum(leverage.root**2)) - len(leverage.root) / C
    else:
        centred = float(np.sum(leverage.rows**2))
    return centred + n * float(leverage.centre @ leverage.centre)


def trace_round_off(condition: float, form: str) -> float:
    """Relative error of ``tr F̂ᵀF̂``: that of a triangular solve, whose condition number squares when sums are whitened.

    Above a condition number of 1e9 every block is whitened first (:data:`ROUTES`).
    """
    eps = float(np.finfo(np.float32 if form.endswith("float32") else np.float64).eps)
    squared = form.startswith("gram") and condition <= 1e9
    return eps * (condition if squared else float(np.sqrt(condition)))
