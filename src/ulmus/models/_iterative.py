"""Nyström models whose ``fit`` may take the iterative route."""

from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.models._nystrom import NystromFamily
from ulmus.models._routes import fit_iteratively, route_of
from ulmus.solvers.ridge import Solution
from ulmus.statistics import Summary


class IterativeFamily(NystromFamily):
    """The direct route in the steps of the family, or conjugate gradients; ``partial_fit`` and streams are direct."""

    def _train(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        if route_of(self, rows, self._size(rows)) == "iterative":
            return self._iterate(rows, folds, rng)
        return super()._train(rows, folds, rng)

    def _iterate(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> HeldOut:
        """Weights by conjugate gradients; the map kept is that of the first landmarks."""
        for name in ("stream_", "beta_", "_fitted_on", "_fitted_keys"):
            self.__dict__.pop(name, None)
        size = self._size(rows)
        map_of, _ = self._search(rows, folds, rng, min(size, self.max_landmarks))
        fit = fit_iteratively(self, rows, map_of(size), self.C_, rng)
        self.cross_kernel_, self.map_, self.route_ = fit.cross, fit.companion, fit.route
        self.gamma_, self.n_landmarks_ = fit.companion.gamma_, fit.cross.n_lifted
        self.landmark_weights_, self.intercept_ = fit.found.a, fit.intercept
        self.n_iter_, self.residual_ = fit.found.n_iter, fit.found.residual
        self._leverage, self._certificate = fit.leverage, None
        # there are no whitened weights to fall back on
        self._folds_in = tuple(dict.fromkeys((np.float64, *self._types_kept(rows.target_reach))))
        return fit.held_out

    def _check_learns_on(self) -> None:
        if self.solver == "iterative":
            raise ValueError(
                'partial_fit adds to sums, which are those of the direct route, got solver="iterative"; set '
                'solver="auto" or "direct", or call fit with all rows'
            )

    def _go_on_from_fit(self, stream: Any) -> None:
        if "_fitted_on" not in self.__dict__:
            raise ValueError(
                f"the route {self.route_!r} keeps no sums that more rows could be added to or taken from; fit with "
                'solver="direct", or start a new model with partial_fit'
            )
        super()._go_on_from_fit(stream)

    def _settle(self, solution: Solution, source: Rows | Summary) -> None:
        super()._settle(solution, source)
        self.n_iter_ = 1
        self.__dict__.pop("residual_", None)
