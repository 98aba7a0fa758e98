"""A fit in steps, for whoever reads rows block by block: read → begin → summarise → finish.

``fit`` takes the same steps on rows in memory. Here the caller brings the rows: sums of blocks add, whoever made them,
so that they may come from files, from partitions or from other machines.

*By the log loss* (:class:`LogSteps`) a sample chooses the map and C, and its own minimum is where the passes begin.
Every pass then gives the log loss of all rows and its gradient at some weights, sums that add
(:func:`ulmus.solvers.log_passes.log_sums`), and the Hessian of the sample says where to go from there.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ulmus.calibration import HeldOut
from ulmus.engine import FeatureMap, Rows
from ulmus.features.kept import KEPT_BYTES
from ulmus.features.sampling import distinct_sample
from ulmus.losses import LOSSES, Loss
from ulmus.models._robust import Robust, newton_options
from ulmus.models.by_log import chosen_plan, fit_on_map, held_scores, with_variances
from ulmus.models.choice import Choice, Training
from ulmus.models.fitted import Fitted
from ulmus.solvers.log_passes import PassMinimum, minimise_by_passes
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.ridge import Gradient, Problem
from ulmus.solvers.robust import RobustSolution
from ulmus.solvers.softmax import METRIC_ROWS, LogSolution, fit_softmax, warn_unfinished
from ulmus.statistics import Extent, Summary
from ulmus.tuning.log_choice import TOLERANCE, posed_in_double
from ulmus.tuning.metric import quietly


class Steps:
    """The steps of fitting a model that has a feature map.

    Parameters
    ----------
    model : estimator
        An ELM, NKELM or other model with a feature map; it is fitted in place.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import NKELMRegressor
    >>> from ulmus.streaming import Steps
    >>> X = np.random.RandomState(0).uniform(-3, 3, (1000, 1))
    >>> y = np.sin(X[:, 0])
    >>> steps = Steps(NKELMRegressor(30, gamma=1.0, C=1e3, random_state=0))
    >>> steps.begin(steps.read(X[:200], y[:200]))
    >>> halves = [steps.summarise(steps.rows(X[k::2], y[k::2])) for k in range(2)]
    >>> model = steps.finish(halves[0] + halves[1])
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.01)
    True
    """

    training: Training
    #: What :meth:`begin` has chosen: the map, C, and how they were found.
    plan: Choice
    #: What is known of targets.
    targets: Any
    #: Shares of the classes in the weight of all rows, where they were counted.
    prior: np.ndarray | None = None

    def __init__(self, model: Any) -> None:
        if not hasattr(getattr(model, "_family", None), "problems"):
            raise TypeError(
                f"{type(model).__name__} cannot be fitted to a stream: it needs all rows at once; take a model with a "
                "feature map, such as NKELM or ELM"
            )
        self.model, self.targets = model, model._known("targets")

    def check(self) -> None:
        """Refuse parameters that are not valid."""
        self.model._validate_params()
        self.model._check_criterion()

    def validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Inputs and targets by scikit-learn's checks; the model then knows what inputs are."""
        return self.model._validate(X, y)

    def read(self, X: Any, y: Any, classes: Any = None) -> Rows:
        """Check a sample, and learn from it what inputs and targets are; ``classes`` are all labels that will come."""
        X, y = self.validate(X, y)
        self.announce(y if classes is None else np.unique(classes))
        return self.rows(X, y)

    def announce(self, y: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Learn what targets are from their classes (or values): target columns, and the weight of each class."""
        self.targets = self.model._targets_of(y, y)
        codes, balance = self.model._code(self.targets, y, weight)
        if weight is not None:
            mass = weight if balance is None else weight * balance
            self.prior = mass / mass.sum()
        return codes, balance

    def certainty(self, held_out: HeldOut, sample: Rows) -> Any:
        """How sure answers are, from rows left out; the shares of classes are those of all rows."""
        return self._with_prior(self.model._certainty(self.targets, held_out, sample))

    def _with_prior(self, certainty: Any) -> Any:
        known = self.prior is not None and hasattr(self.model, "decision")
        return replace(certainty, prior=self.prior) if known else certainty

    def rows(self, X: Any, y: Any, weight: np.ndarray | None = None) -> Rows:
        """A block of rows with target columns."""
        T, balance = self.model._code(self.targets, np.asarray(y), None, block=True)
        rows = Rows(X, T, weight, None if weight is None else np.minimum(weight, 1.0))
        return rows if balance is None else rows.reweighted(balance)

    @property
    def fit_intercept(self) -> bool:
        """Whether a constant is fitted."""
        return bool(self.model._intercept)

    def most_features(self, rows: Rows) -> int:
        """Features that a fit may come to use."""
        return int(self.model._family.most_features(self.model, rows))

    def begin(
        self,
        sample: Rows,
        folds: np.ndarray | None = None,
        rng: Any = None,
        backend: Any = None,
        *,
        oversize: bool = False,
        chosen: dict[str, Any] | None = None,
    ) -> None:
        """Fix the map, and what else is left to the data, on a sample; or take what was ``chosen`` before.

        With ``oversize`` a size that is to be chosen is fixed twice as large as the sample asks for, so that
        :meth:`finish` can choose it on all rows.
        """
        rng = check_random_state(self.model.random_state if rng is None else rng)
        self.training = self.model._training(self.targets, sample, folds, rng, backend)
        if chosen is not None:
            self.plan = replace(chosen["plan"], seed=chosen["seed"])
            return
        self.plan = self._chosen_plan(oversize)
        self.training.backend.release(self.plan.features)

    def _chosen_plan(self, oversize: bool) -> Choice:
        return replace(self.model._family.begin(self.model, self.training, oversize=oversize), statistics=None)

    @property
    def chosen(self) -> dict[str, Any]:
        """What :meth:`begin` has fixed, for a file."""
        return {"plan": self.plan, "seed": self.plan.seed}

    def summed_form(self) -> tuple[FeatureMap, np.ndarray | None]:
        """What may be summed instead of the map, and the triangular factor that whitens the sum at the end."""
        return self.model._family.summed_form(self.plan.features)

    def extent(self, rows: Rows) -> Extent:
        """How far targets reach, and what else the end needs of rows beside their sums."""
        return self.model._family.extent(self.plan.features, rows)

    def summarise(self, rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None) -> Summary:
        """Sums of a block of rows, per fold where the rows have fold numbers. They add."""
        return self.model._family.summarise(self.model, self.plan, rows, folds, n_folds)

    def finish(
        self,
        summary: Summary,
        sample: Rows | None = None,
        folds: np.ndarray | None = None,
        *,
        choose: bool = False,
        again: Gradient | None = None,
    ) -> Any:
        """The model, with weights from sums and calibrated on the sample, whose rows are among those summed.

        The sample is that of :meth:`begin` unless another is given. With ``choose``, what is left open among C and the
        size is chosen from the sums first. ``again`` wins back digits that they have lost.
        """
        training, model = self.training, self.model
        if sample is not None:
            training = model._training(self.targets, sample, folds, training.rng, training.backend)
        model._finish(self.plan, summary, training, choose=choose, again=again)
        if hasattr(model, "decision"):
            model.fitted_ = replace(model.fitted_, certainty=self._with_prior(model.fitted_.certainty))
        return model

    def __getstate__(self) -> dict[str, Any]:
        """What workers need: not the sample."""
        return {name: value for name, value in vars(self).items() if name != "training"}


class RobustSteps:
    """The steps of fitting a robust model by passes: a pilot on a sample, Newton's method, the end."""

    def __init__(self, model: Robust) -> None:
        self.model: Any = model

    @property
    def method(self) -> tuple[Loss, NewtonOptions]:
        """The loss, and how Newton's method goes."""
        return LOSSES[self.model.loss], newton_options(self.model)

    def problems(self, sample: Rows) -> tuple[Problem, Problem]:
        """The problem on the features of the pilot, and the same in the form that is cheapest to stream."""
        features = self.model.fitted_.weights.features
        return self.model._family.problems(self.model, features, sample)

    def finish(self, solution: RobustSolution, sample: Rows, rng: np.random.RandomState) -> None:
        """Keep a solution in place of the pilot's, and calibrate it on the sample."""
        model, pilot = self.model, self.model.fitted_
        plain, targets = pilot.weights.plain, pilot.targets
        plan = Choice(plain.width, plain.C, plain.features, tuning=plain.tuning)
        found = model._family.weights(model, plan, solution, sample, targets.single)
        held_out = model._family.held_out(model, found, solution, sample, rng)
        found = replace(found, penalty_tuning=pilot.weights.penalty_tuning)
        model._adopt(Fitted(found, targets, model._certainty(targets, held_out, sample)))


#: Passes over all rows, at most, those for the last digits, and how near to its minimum the sample is at the start.
MAX_PASSES, POLISH, BEGUN = 100, 6, 1e-5


class LogSteps(Steps):
    """The steps of a classifier with a feature map and ``loss="log"``; it is fitted in place."""

    def _chosen_plan(self, oversize: bool) -> Choice:
        return chosen_plan(self.model, self.training)[0]

    def fit_whole(self) -> Any:
        """The model of a sample that holds every row, as ``fit`` makes it."""
        model, training = self.model, self.training
        found = fit_on_map(model, training, self.plan)
        model._adopt(Fitted(found.weights, self.targets, self.certainty(found.held_out, training.rows)))
        return model

    def minimise(self, sweep: Any, total: float) -> PassMinimum:
        """The weights of all rows, of this total weight; ``sweep`` gives their loss and its gradient at ``[β; b]``."""
        rows, L = self.training.rows, self.plan.features.n_features_out
        most = min(METRIC_ROWS * max(L, 64), KEPT_BYTES // (8 * L))
        rows = rows if len(rows) <= most else distinct_sample(rows, most, self.training.rng)[1]
        folds = self.training.folds
        self.few = replace(rows, fold=folds if folds is not None and len(rows) == len(folds) else None)
        weight = rows.weights
        scaled = replace(self.few, weight=weight * (total / weight.sum()))
        self.problem = posed_in_double(self.plan.features, scaled, self.plan.C, self.fit_intercept, self.model.n_jobs)
        with quietly():
            begun = fit_softmax(self.problem, tol=BEGUN)
        start = np.vstack([begun.beta, begun.intercept]) if self.fit_intercept else begun.beta
        self.objective = self.problem.objective()
        found = minimise_by_passes(self.objective, start, sweep, tol=TOLERANCE, max_passes=MAX_PASSES, polish=POLISH)
        warn_unfinished(found, self.plan.C)
        return found

    def finish_at(self, found: PassMinimum) -> Any:
        """The model with these weights, calibrated on the sample."""
        v, model, L = found.v, self.model, self.plan.features.n_features_out
        b = np.zeros(v.shape[1])
        if self.fit_intercept:
            b = v[L] - (v[L].mean() if v.shape[1] > 1 else 0.0)
        F = self.objective.scores(v)
        solution = LogSolution(v[:L], b, F, found.value, found.gap, np.nan, found.converged, found.n_passes, 0, None)
        held_out = held_scores(self.problem, solution, self.few, self.training.rng)
        weight = self.problem.weight  # that of all rows, on those of the sample
        leverage, held_out = with_variances(model, self.plan, held_out, float(weight.sum()))
        weights = model._family.of_beta(self.plan, v[:L], b, 1.0, "newton", leverage)
        model._adopt(Fitted(weights, self.targets, self.certainty(held_out, self.training.rows)))
        return model
