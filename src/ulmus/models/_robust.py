"""Robust regression: the task, and the family that fits a robust loss by Newton's method on the features of another."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ulmus import engine
from ulmus.calibration import HeldOut, RobustSpread, calibration_sample, residual_kernel
from ulmus.calibration.held_out import LEAST_REMAINDER
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.losses import LOSSES, Loss
from ulmus.models._regression import Regression
from ulmus.models.choice import Choice, Training
from ulmus.models.fitted import Fitted, Outcome, RobustFit
from ulmus.solvers.line_search import WolfePowell
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.own_landmarks import OwnLandmarks, only_landmarks
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import (
    Penalty,
    RobustSolution,
    Units,
    begin,
    finished,
    gross,
    tempered,
)
from ulmus.tuning.robust_choice import CRITERIA, PILOT_C, TEMPER, TOO_FAR, PenaltySearch, Pilot, pilot_sample

#: Features of the rough fit that tempers targets.
PILOT_SIZE = 200


class NotOffered:
    """Says why a model does not have what others of its features have."""

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__} has no partial_fit: its weights depend on every residual, not on sums of rows; "
            "use OSELMRegressor(loss=...) for streams"
        )


class Robust(Regression):
    """What robust regressors share, whatever their features are."""

    partial_fit = NotOffered()
    _family: ClassVar["RobustFamily"]
    _target_sizes: ClassVar[tuple[float, float]] = (1e-290, 1e290)  # they are fitted in units of their own

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
        found: RobustFit = self.fitted_.weights
        if sample_weight is not None and len(found.row_weights) < np.size(weight := np.asarray(sample_weight)):
            every = np.zeros((len(weight), *found.row_weights.shape[1:]))
            every[weight > 0] = found.row_weights
            self.fitted_ = replace(self.fitted_, weights=replace(found, row_weights=every))
        return self

    @property
    def _intercept(self) -> bool:
        """A constant unless it is refused: without one, robust residuals have no centre."""
        return self.fit_intercept == "auto" or bool(self.fit_intercept)

    def _certainty(self, targets: Any, held_out: HeldOut, rows: Rows) -> Any:
        return RobustSpread.of(held_out)

    def _leaning(self, fitted: Fitted) -> Any:
        raise ValueError(
            'method="jackknife+" needs exact leave-one-out predictions; robust losses leave rows out approximately. '
            'Use method="normalised"'
        )

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
        fitted: Fitted = self._now("certainty")
        predicted = fitted.targets.shaped(self._scores_of(X, fitted))
        y = np.asarray(y, dtype=float)
        if y.shape != predicted.shape:
            raise ValueError(f"y must have the shape of the predictions, {predicted.shape}, got {y.shape}")
        return np.abs(y - predicted) / fitted.targets.shaped(fitted.certainty.noise[None, :])[0]


class RobustFamily:
    """The features of another family under a robust loss."""

    def __init__(self, plain: Any, width_name: str, size_name: str) -> None:
        self.plain, self.width_name, self.size_name = plain, width_name, size_name

    def recipe(self, model: Any, metric: np.ndarray | None = None) -> Any:
        return self.plain.recipe(model, metric)

    def most_features(self, model: Any, rows: Rows) -> int:
        return int(self.plain.most_features(model, rows))

    def problems(self, model: Any, features: Any, rows: Rows) -> tuple[Problem, Problem]:
        return self.plain.problems(model, features, rows)

    def open(self, model: Any) -> bool:
        """Whether targets have a say in the features or in C."""
        return any_auto((model.C, getattr(model, self.width_name), getattr(model, self.size_name)))

    def adapts(self, model: Any, found: Outcome) -> bool:
        """Whether errors of few rows left out one by one say too little."""
        return self.open(model) or self.is_crowded(found.held_out)

    def is_crowded(self, held_out: HeldOut) -> bool:
        """Whether the plain family is."""
        return bool(self.plain.is_crowded(held_out))

    def fit(self, model: Any, training: Training) -> Outcome:
        """Temper targets, choose the map by them, then C and the weights under the robust loss."""
        rows, folds, rng = training.rows, training.folds, training.rng
        loss, options = LOSSES[model.loss], newton_options(model)
        units = Units.of(rows.T, rows.weight, model._intercept and not model.intercept_penalty)
        T, rows = rows.T, replace(rows, T=units.inside(rows.T))
        scale = units.size if loss.parameter else 1.0
        c = transitions(model, loss, rows.T.shape[1], scale)
        mild = None
        if loss.parameter and self.open(model):
            mild, near = self._tempered(model, rows, training, scale)
            mildly = replace(rows, T=mild).take(near)
            sample = model._training(training.targets, mildly, None if folds is None else folds[near], rng)
        else:
            sample = model._training(training.targets, rows, folds, rng)
        plan = self.plain.begin(model, sample)
        penalty = Penalty(plan.C, model.C == "auto", scale)
        problem, streamed = self.problems(model, plan.features, rows)
        newton_rows, start = begin(problem, streamed, loss, c, penalty, options, rng, mild)
        penalty_tuning = None
        if model.C == "auto":
            search = PenaltySearch(newton_rows, problem, CRITERIA[model.criterion], options, folds, rng)
            start, penalty, penalty_tuning = search.choose(start, penalty)
        solution = units.outside(finished(newton_rows, loss, start, options))
        rows = replace(rows, T=T)
        found = self.weights(model, plan, solution, rows, training.targets.single)
        held_out = self.held_out(model, found, solution, rows, rng)
        return Outcome(replace(found, penalty_tuning=penalty_tuning), held_out)

    def _tempered(self, model: Any, rows: Rows, training: Training, scale: Any) -> tuple[np.ndarray, np.ndarray]:
        """Targets whose outliers, by a rough robust fit to a sample, are brought near; rows without gross ones.

        The rough fit draws from a stream of its own: how much it draws depends on how many widths it tries, and the
        features of the model itself must not.
        """
        rng = np.random.RandomState(training.rng.randint(2**31 - 1))
        sample, seed = pilot_sample(rows, rng), int(rng.randint(2**31 - 1))
        size, width = getattr(model, self.size_name), getattr(model, self.width_name)
        size = min(PILOT_SIZE, int(sample.effective_count)) if size == "auto" else size

        def problem_of(width: float) -> Problem:
            given = {self.size_name: size, self.width_name: width}
            rough = clone(model).set_params(C=1.0, random_state=seed, **given)
            plan = self.plain.begin(rough, rough._training(training.targets, sample, None, rng))
            return self.plain.problems(rough, plan.features, sample)[0]

        loss, search = LOSSES[model.loss], width == "auto"
        c = transitions(model, loss, rows.T.shape[1], scale)
        penalty = Penalty(PILOT_C if model.C == "auto" else model.C, model.C == "auto", scale)
        options = NewtonOptions(bias_penalty=model.intercept_penalty)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            pilot = Pilot(sample, problem_of, loss, c, penalty, options, rng)
            start = float(self.recipe(model).start(sample, rng)) if search else width
            problem, found = pilot.choose(start, climb=search)
        fitted = engine.apply(problem.features, rows.X, found.beta, n_jobs=model.n_jobs) + found.intercept
        near = ~gross(rows.T, rows.weight, fitted, TOO_FAR)
        return tempered(rows.T, rows.weight, fitted, TEMPER), np.flatnonzero(near)

    def weights(self, model: Any, plan: Choice, solution: RobustSolution, rows: Rows, single: bool) -> RobustFit:
        """Weights, scales and the record of the run."""
        loss, results, residual = solution.loss, solution.results, solution.residual
        scale = np.ptp(rows.T + residual, axis=0) / 2
        relative = loss.relative_weight(residual, solution.c)
        for r in results:
            if not r.converged:
                warnings.warn(
                    f"Newton's method stopped after {len(r.path.step_length)} steps: the next one would have length "
                    f"{r.path.step_norm[-1]:.2g}, above tol·max(transition_, ‖β‖) = {r.threshold:.2g} (gradient norm "
                    f"{r.path.gradient_norm[-1]:.2g}); raise max_iter={model.max_iter}, or lower C",
                    NumericalWarning,
                    stacklevel=2,
                )
        return RobustFit(
            plain=self.plain.of_beta(plan, solution.beta, solution.intercept, scale, "newton"),
            C=_single(solution.C, single),
            leverages=[r.leverage for r in results],
            bend=np.array([r.curvature_sum for r in results]) / rows.total_weight,
            transition=_single(solution.c, single),
            **{name: _scale(loss, name, solution.c, single) for name in ("h", "tau")},
            row_weights=relative[:, 0] if single else relative,
            n_iter=max(r.n_iter for r in results),
            converged=all(r.converged for r in results),
            path=results[0].path if single else [r.path for r in results],
        )

    def held_out(
        self, model: Any, found: RobustFit, solution: RobustSolution, rows: Rows, rng: np.random.RandomState
    ) -> HeldOut:
        """Approximate leave-one-out predictions of a sample of the rows."""
        features, bend = found.plain.features, found.bend
        index, sample = calibration_sample(rows, rng)
        residual = solution.residual[index]
        every = only_landmarks(features, sample) if len(sample) == len(rows) else None
        if every is not None:
            Phi, rest = every
            e, h = solution.leave_landmarks_out(Phi, residual, sample.unit, rest)
        else:
            Phi = engine.transform(features, sample.X, n_jobs=model.n_jobs)
            rest = residual_kernel(features, sample.X, np.einsum("ij,ij->i", Phi, Phi))
            own = OwnLandmarks.of(features, sample)
            e, h = solution.leave_one_out(Phi, residual, sample.unit, own)
            rest = rest if own is None else own.residual_kernel(rest)
        unit = 1.0 if sample.unit is None else sample.unit[:, None]
        held = np.clip(unit * bend * h, 0.0, 1.0 - LEAST_REMAINDER)
        variance = held / (1.0 - held) / unit + bend * np.reshape(found.C, (1, -1)) * rest[:, None]
        return replace(HeldOut.by_others(sample, sample.T + e, variance), residual=-residual)


def transitions(model: Any, loss: Loss, n_outputs: int, scale: Any = 1.0) -> np.ndarray | None:
    """The transition c of every output as given by h or tau, in units of ``scale``; None where it is estimated."""
    given = {"h": model.h, "tau": model.tau}
    for name, value in given.items():
        if name != loss.parameter and value != "auto":
            use = f"its scale is {loss.parameter}" if loss.parameter else "it has no scale"
            raise ValueError(f'{name}={value!r} has no meaning for loss="{loss.name}": {use}')
    if loss.parameter is None:
        return np.ones(n_outputs)
    value = given[loss.parameter]
    return None if value == "auto" else np.full(n_outputs, loss.transition(value)) / scale


def newton_options(model: Any) -> NewtonOptions:
    """How Newton's method goes."""
    search = WolfePowell(model.delta1, model.delta2, model.beta, model.rho, model.rho1)
    tol = None if model.tol == "auto" else model.tol
    return NewtonOptions(tol, model.max_iter, search, model.intercept_penalty)


def _single(values: np.ndarray, single: bool) -> Any:
    return float(values[0]) if single else values


def _scale(loss: Loss, name: str, c: np.ndarray, single: bool) -> Any:
    """The scale of the loss by this name, if that is its own."""
    return _single(np.array([loss.parameter_at(each) for each in c]), single) if loss.parameter == name else None


def any_auto(values: Sequence[Any]) -> bool:
    """Whether one of the values is ``"auto"``."""
    return any(isinstance(value, str) and value == "auto" for value in values)
