r"""Ridge on Nyström features: routes to the same weights.

==========  ===========================================================================  =======================
route       what is summed over the rows                                                 cost
==========  ===========================================================================  =======================
``gram``    :math:`K_{xz}^T K_{xz}`, whitened once at the end                            :math:`n L^2`
``whiten``  :math:`\hat F^T \hat F`, every block whitened first                          :math:`2 n L^2`
==========  ===========================================================================  =======================

Squaring before whitening multiplies round-off by the condition number of :math:`K_{zz}`; :data:`ROUTES` holds the
limits and :func:`choose_route` answers for a given case. Above the first limit of the ``gram`` route, corrections
computed from the rows restore the digits.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.engine import Lift, Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.ridge import DOUBLE, SINGLE, Precision, Problem, Solution, fit_dual, fit_gram, fit_triangular
from ulmus.statistics import Statistics


@dataclass(frozen=True)
class Route:
    """What is summed, and how exactly."""

    name: str
    precision: Precision = DOUBLE

    def __str__(self) -> str:
        return f"{self.name} {np.dtype(self.precision.dtype).name}"


_ALWAYS_CORRECT = replace(DOUBLE, correct=0.0)

#: Rows whose float32 sums are taken at once; round-off averages out over more of them.
AVERAGED_ROWS = 1024

#: (type of the rows, largest condition number of K_zz, route): the first line that fits is taken. The limit of the
#: first line is that of few rows; it grows with the root of their number.
ROUTES: tuple[tuple[str, float, Route], ...] = (
    ("float32", 180.0, Route("gram", SINGLE)),
    ("float32", 3e3, Route("gram", replace(SINGLE, correct=0.0))),
    ("float32", 1e6, Route("whiten", SINGLE)),
    ("float32", 1e9, Route("gram", replace(_ALWAYS_CORRECT, tolerance=SINGLE.tolerance))),
    ("float64", 1e5, Route("gram")),
    ("float64", 3e8, Route("gram", _ALWAYS_CORRECT)),
    ("float64", np.inf, Route("whiten")),
)
SAFEST = ROUTES[-1][2]


def choose_route(dtype: Any, condition: float, n_rows: int = AVERAGED_ROWS, *, triangular: bool = True) -> Route:
    """The route for so many rows of this type and a landmark kernel of this condition number.

    An eigenvector whitening (``triangular=False``) does not commute with the sum, so its blocks are always whitened.

    Examples
    --------
    >>> from ulmus.solvers.nystrom_ridge import choose_route
    >>> str(choose_route("float64", 1e3)), str(choose_route("float64", 1e12)), str(choose_route("float32", 1e3))
    ('gram float64', 'whiten float64', 'gram float32')
    """
    for line, (row_type, limit, route) in enumerate(ROUTES):
        reach = limit * np.sqrt(n_rows / AVERAGED_ROWS) if line == 0 else limit
        fits = row_type == "float64" or np.dtype(dtype) == np.float32
        if fits and condition <= reach and (triangular or route.name == "whiten"):
            return route
    return SAFEST


def _posed(problem: Problem, features: NystromMap, route: Route) -> Problem:
    """The problem as the route sees it: raw kernel values whitened at the end, or whitened features."""
    if route.name == "whiten":
        return problem
    return replace(problem, features=features.cross_kernel_, whitening=features.whitening_)


def _summing_route(features: NystromMap) -> Route:
    """The route by which sums alone keep the digits."""
    route = choose_route(np.float64, features.condition_, triangular=features.triangular)
    return SAFEST if route.precision.correct == 0.0 else route


def _watchful(route: Route, condition: float) -> Precision:
    """The route's precision; whitening a sum multiplies the round-off that the solve multiplies again."""
    squared = route.name == "gram"
    return replace(route.precision, correct=route.precision.correct / condition) if squared else route.precision


def summed_form(features: NystromMap) -> tuple[Lift, np.ndarray | None]:
    """What is to be summed so that no digits are lost, and the factor that whitens the sum (None: it is white)."""
    return (
        (features, None) if _summing_route(features).name == "whiten" else (features.cross_kernel_, features.whitening_)
    )


def nystrom_statistics(features: NystromMap, rows: Rows, n_jobs: int | None = -1) -> Statistics:
    """Sums of the whitened features in float64, squared before whitening only where that costs no digits."""
    return summing_problem(Problem(features, rows, None, n_jobs=n_jobs), features).statistics(np.float64)


def summing_problem(problem: Problem, features: NystromMap) -> Problem:
    """The problem with raw kernel values, whitened after the sum, where sums of them keep the digits."""
    return _posed(problem, features, _summing_route(features))


def fit_nystrom_ridge(
    features: NystromMap,
    rows: Rows,
    C: float | None,
    *,
    fit_intercept: bool = False,
    n_jobs: int | None = -1,
    stats: Statistics | None = None,
    precision: Precision | None = None,
) -> Solution:
    """Weights of a fitted Nyström map by the cheapest route that keeps the digits (from its statistics, if given).

    Another ``precision`` than that of the route says how many of them are worth another pass over the rows.
    """
    problem = Problem(features, rows, C, fit_intercept, n_jobs)
    if len(rows) <= features.n_lifted:  # no larger, and nothing is squared
        return fit_dual(problem)
    route = choose_route(rows.X.dtype, features.condition_, len(rows), triangular=features.triangular)
    for attempt in dict.fromkeys((route, SAFEST)) if stats is None else (_summing_route(features),):
        wanted = precision or _watchful(attempt, features.condition_)
        solution = fit_gram(_posed(problem, features, attempt), wanted, stats)
        if solution is not None:
            return replace(solution, form=str(attempt))
    return fit_triangular(problem)
