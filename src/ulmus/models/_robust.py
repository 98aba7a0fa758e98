"""The robust task: what robust regressors do with targets, whatever their features are."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ulmus import engine
from ulmus.calibration import CALIBRATION_ROWS, HeldOut, RobustSpread, residual_kernel, variance_terms
from ulmus.calibration.held_out import LEAST_REMAINDER
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.sampling import distinct_sample
from ulmus.losses import LOSSES, Loss
from ulmus.models._tasks import Regression
from ulmus.models.choice import Training
from ulmus.solvers.line_search import WolfePowell
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.own_landmarks import OwnLandmarks
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import (
    Penalty,
    RobustSolution,
    Units,
    begin,
    gross,
    leave_one_out,
    polish,
    tempered,
)
from ulmus.tuning.robust import CRITERIA, TEMPER, TOO_FAR, PenaltySearch, Pilot, pilot_sample

#: Features of the rough fit that tempers targets.
PILOT_SIZE = 200


class _NotOffered:
    """Says why a model does not have what others of its family have."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__} has no {self.name}: its weights depend on every residual, not on sums of rows; "
            f"use OSELMRegressor(loss=...) for streams"
        )


class Robust(Regression):
    """What robust regressors share; the family they are mixed with knows the features."""

    _target_sizes: ClassVar[tuple[float, float]] = (1e-290, 1e290)  # they are fitted in units of their own
    _size_name: ClassVar[str]
    _width_name: ClassVar[str]
    weights_: np.ndarray
    C_: Any

    # Sums of rows do not suffice for a robust loss, so that none of what lives on them is offered.
    partial_fit, unlearn, merge, blank_copy = (_NotOffered() for _ in range(4))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Dense arrays, pandas and polars frames, or CSR rows.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.
        groups : array of shape (n_samples,), optional
            Rows of one group are kept in one fold when parameters are chosen.

        Returns
        -------
        self
        """
        super().fit(X, y, sample_weight, groups)
        if sample_weight is not None and len(self.weights_) < np.size(weight := np.asarray(sample_weight)):
            seen, kept = weight > 0, self.weights_
            self.weights_ = np.zeros((len(seen), *kept.shape[1:]))
            self.weights_[seen] = kept
        return self

    @property
    def _intercept(self) -> bool:
        """A constant unless it is refused: without one, robust residuals have no centre."""
        return self.fit_intercept == "auto" or bool(self.fit_intercept)

    def _transitions(self, loss: Loss, n_outputs: int, scale: Any = 1.0) -> np.ndarray | None:
        """The transition c of every output as given by h or tau, in units of ``scale``; None where the data tell."""
        given = {"h": self.h, "tau": self.tau}
        for name, value in given.items():
            if name != loss.parameter and value != "auto":
                use = f"its scale is {loss.parameter}" if loss.parameter else "it has no scale"
                raise ValueError(f'{name}={value!r} has no meaning for loss="{loss.name}": {use}')
        if loss.parameter is None:
            return np.ones(n_outputs)
        value = given[loss.parameter]
        return None if value == "auto" else np.full(n_outputs, loss.transition(value)) / scale

    def _newton_options(self) -> NewtonOptions:
        search = WolfePowell(self.delta1, self.delta2, self.beta, self.rho, self.rho1)
        tol = None if self.tol == "auto" else self.tol
        return NewtonOptions(tol, self.max_iter, search, self.intercept_penalty)

    def _train(self, training: Training) -> HeldOut:
        rows, folds, rng = training.rows, training.folds, training.rng
        loss, options = LOSSES[self.loss], self._newton_options()
        units = Units.of(rows.T, rows.weight, self._intercept and not self.intercept_penalty)
        targets, rows = rows.T, replace(rows, T=units.inside(rows.T))
        scale = units.size if loss.parameter else 1.0
        c = self._transitions(loss, rows.T.shape[1], scale)
        mild = None
        if loss.parameter and self._leaves_to_the_data():
            mild, near = self._tempered(rows, scale, rng)
            mildly = replace(rows, T=mild).take(near)
            self._begin(self._training(mildly, None if folds is None else folds[near], rng))
        else:
            self._begin(self._training(rows, folds, rng))
        penalty = Penalty(self.C_, self.C == "auto", scale)
        problem, streamed = self._problems(rows)
        newton_rows, start = begin(problem, streamed, loss, c, penalty, options, rng, mild)
        if self.C == "auto":
            search = PenaltySearch(newton_rows, problem, CRITERIA[self.criterion], options, folds, rng)
            start, penalty, self.penalty_tuning_ = search.choose(start, penalty)
        solution = units.outside(polish(newton_rows, loss, start, options))
        rows = replace(rows, T=targets)
        self._keep(solution, rows)
        return self._held_out(solution, rows, rng)

    def _tempered(self, rows: Rows, scale: Any, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Targets whose outliers, by a rough robust fit to a sample, are brought near; rows without gross ones."""
        sample, seed = pilot_sample(rows, rng), int(rng.randint(2**31 - 1))
        size, width = getattr(self, self._size_name), getattr(self, self._width_name)
        size = min(PILOT_SIZE, int(sample.effective_count)) if size == "auto" else size

        def problem_of(width: float) -> Problem:
            rough = clone(self).set_params(C=1.0, random_state=seed, **{self._size_name: size, self._width_name: width})
            rough._begin(rough._training(sample, None, rng))
            return rough._problems(sample)[0]

        loss, search = LOSSES[self.loss], width == "auto"
        c = self._transitions(loss, rows.T.shape[1], scale)
        penalty = Penalty(1.0 if self.C == "auto" else self.C, self.C == "auto", scale)
        options = NewtonOptions(bias_penalty=self.intercept_penalty)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            pilot = Pilot(sample, problem_of, loss, c, penalty, options, rng)
            problem, found = pilot.choose(self._first_width(sample, rng) if search else width, climb=search)
        fitted = engine.apply(problem.features, rows.X, found.beta, n_jobs=self.n_jobs) + found.intercept
        near = ~gross(rows.T, rows.weight, fitted, TOO_FAR)
        return tempered(rows.T, rows.weight, fitted, TEMPER), np.flatnonzero(near)

    def _keep(self, solution: RobustSolution, rows: Rows) -> None:
        """Weights, scales and the record of the run as attributes."""
        loss, results = solution.loss, solution.results
        single = self._single_output
        self.beta_, self.intercept_ = solution.beta, solution.intercept
        self.C_ = float(solution.C[0]) if single else solution.C
        self.transition_ = float(solution.c[0]) if single else solution.c
        if loss.parameter is not None:
            values = np.array([loss.parameter_at(c) for c in solution.c])
            setattr(self, f"{loss.parameter}_", float(values[0]) if single else values)
        residual = solution.residual
        self.weights_ = self._shape(loss.relative_weight(residual, solution.c))
        self.n_iter_ = max(r.n_iter for r in results)
        self.converged_ = all(r.converged for r in results)
        self.path_ = results[0].path if single else [r.path for r in results]
        total = float(len(rows)) if rows.weight is None else float(rows.weight.sum())
        self._bend = np.array([r.curvature_sum for r in results]) / total
        self._leverages = [r.leverage for r in results]
        self._ready_to_predict(np.ptp(rows.T + residual, axis=0) / 2)
        for r in results:
            if not r.converged:
                warnings.warn(
                    f"Newton's method stopped after {len(r.path.step_length)} steps: the next one would have length "
                    f"{r.path.step_norm[-1]:.2g}, above tol·max(transition_, ‖β‖) = {r.threshold:.2g} (gradient norm "
                    f"{r.path.gradient_norm[-1]:.2g}); raise max_iter={self.max_iter}, or lower C",
                    NumericalWarning,
                    stacklevel=2,
                )

    def _held_out(self, solution: RobustSolution, rows: Rows, rng: np.random.RandomState) -> HeldOut:
        """Approximate leave-one-out predictions of a sample of the rows."""
        index, sample = np.arange(len(rows)), rows
        if rows.effective_count > CALIBRATION_ROWS:
            index, sample = distinct_sample(rows, CALIBRATION_ROWS, rng)
        Phi = np.empty((len(sample), self.map_.n_lifted))
        engine.transform(self.map_, sample.X, Phi, n_jobs=self.n_jobs)
        residual, h = solution.residual[index], solution.leverages(Phi)
        rest = residual_kernel(self.map_, sample.X, np.einsum("ij,ij->i", Phi, Phi))
        own = OwnLandmarks.of(self.map_, sample)
        if own is not None:
            (residual, h), rest = solution.without_landmark(own, residual, h), own.residual_kernel(rest)
        e = leave_one_out(solution.loss, solution.c, residual, h, sample.unit)
        unit = 1.0 if sample.unit is None else sample.unit[:, None]
        held = np.clip(unit * self._bend * h, 0.0, 1.0 - LEAST_REMAINDER)
        variance = held / (1.0 - held) / unit + self._bend * np.reshape(self.C_, (1, -1)) * rest[:, None]
        return HeldOut.by_others(sample, sample.T + e, variance)

    def _calibrate(self, held_out: HeldOut) -> None:
        self.spread_: Any = RobustSpread.of(held_out)

    def _leaning(self) -> Any:
        raise ValueError(
            'method="jackknife+" is exact for models by squares; robust losses leave rows out approximately: use '
            'method="normalised"'
        )

    def _variance_factors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        terms = [variance_terms(self.map_, X, leverage, self.n_jobs) for leverage in self._leverages]
        h, r = self._bend * np.column_stack([h for h, _ in terms]), terms[0][1]
        return h, self._bend * np.reshape(self.C_, (1, -1)) * r[:, None]

    def outlier_scores(self, X: Any, y: Any) -> np.ndarray:
        """How many deviations of the noise every target lies from its prediction.

        The deviation is that of clean rows: outliers among the training rows do not stretch it. Scores above 3 are
        unlikely, above 5 practically impossible for Gaussian noise.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray of the shape of ``y``
        """
        predicted = self.predict(X)
        y = np.asarray(y, dtype=float)
        if y.shape != predicted.shape:
            raise ValueError(f"y must have the shape of the predictions, {predicted.shape}, got {y.shape}")
        return np.abs(y - predicted) / self._shape(self.spread_.noise[None, :])[0]

    @abstractmethod
    def _first_width(self, rows: Rows, rng: np.random.RandomState) -> float:
        """Where the search for the width of the features starts."""

    @abstractmethod
    def _leaves_to_the_data(self) -> bool:
        """Whether targets have a say in the features or in C."""

    @abstractmethod
    def _problems(self, rows: Rows) -> tuple[Problem, Problem]:
        """The problem on the features of ``map_``, and the same in the form that is cheapest to stream."""

    @abstractmethod
    def _ready_to_predict(self, scale: np.ndarray) -> None:
        """Weights in the form in which predictions are made, for answers of this size."""


def any_auto(values: Sequence[Any]) -> bool:
    """Whether one of the values is ``"auto"``."""
    return any(isinstance(value, str) and value == "auto" for value in values)
