"""A fit in steps, for whoever reads rows block by block: read → begin → summarise → finish.

``fit`` takes the same steps on rows in memory. Here the caller brings the rows: sums of blocks add, whoever made them,
so that they may come from files, from partitions or from other machines.
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ulmus.engine import Lift, Rows
from ulmus.losses import LOSSES, Loss
from ulmus.models._robust import Robust
from ulmus.models.choice import Training
from ulmus.solvers.newton import NewtonOptions
from ulmus.solvers.ridge import Gradient, Problem
from ulmus.solvers.robust import RobustSolution
from ulmus.statistics import Extent, Summary

#: What ``begin`` fixes, by name.
FIXED = ("map_", "C_", "tuning_", "gamma_", "slope_", "n_landmarks_", "n_hidden_", "_seed")


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

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "_summed_form") or not hasattr(model, "cv"):
            raise TypeError(
                f"{type(model).__name__} cannot be fitted to a stream: it needs all rows at once; take a model with a "
                "feature map, such as NKELM or ELM"
            )
        self.model = model

    def check(self) -> None:
        """Refuse parameters that are not valid."""
        self.model._validate_params()
        self.model._check_criterion()

    def validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Inputs and targets by scikit-learn's checks; the model then knows what inputs are."""
        checked: tuple[Any, np.ndarray] = self.model._validate(X, y)
        return checked

    def read(self, X: Any, y: Any, classes: Any = None) -> Rows:
        """Check a sample, and learn from it what inputs and targets are; ``classes`` are all labels that will come."""
        X, y = self.validate(X, y)
        self.announce(y if classes is None else np.unique(classes))
        return self.rows(X, y)

    def announce(self, y: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Tell the model its classes and their weights (or targets): target columns, and the weight of each class."""
        coded: tuple[np.ndarray, np.ndarray | None] = self.model._encode(y, weight)
        return coded

    def rows(self, X: Any, y: Any, weight: np.ndarray | None = None) -> Rows:
        """A block of rows with target columns."""
        T, balance = self.model._encode_more(np.asarray(y))
        rows = Rows(X, T, weight, None if weight is None else np.minimum(weight, 1.0))
        return rows if balance is None else rows.reweighted(balance)

    @property
    def fit_intercept(self) -> bool:
        """Whether a constant is fitted."""
        return bool(self.model._intercept)

    def most_features(self, rows: Rows) -> int:
        """Features that a fit may come to use."""
        return int(self.model._recipe.most(rows))

    def begin(
        self,
        sample: Rows,
        folds: np.ndarray | None = None,
        rng: Any = None,
        backend: Any = None,
        *,
        spare: bool = False,
        chosen: dict[str, Any] | None = None,
    ) -> None:
        """Fix the map, and what else is left to the data, on a sample; or take what was ``chosen`` before.

        With ``spare`` a size that is to be chosen is fixed twice as large as the sample asks for, so that
        :meth:`finish` can choose it on all rows.
        """
        rng = check_random_state(self.model.random_state if rng is None else rng)
        self.training = self.model._training(sample, folds, rng, backend)
        if hasattr(self.model, "stream_"):  # of an online model that has learned other rows
            del self.model.stream_
        if chosen is None:
            self.model._begin(self.training, spare=spare)
            self.training.backend.release(self.model.map_)
            return
        for name, value in chosen.items():
            setattr(self.model, name, value)

    @property
    def chosen(self) -> dict[str, Any]:
        """What :meth:`begin` has fixed."""
        return {name: getattr(self.model, name) for name in FIXED if hasattr(self.model, name)}

    def summed_form(self) -> tuple[Lift, np.ndarray | None]:
        """What may be summed instead of the map, and the triangular factor that whitens the sum at the end."""
        form: tuple[Lift, np.ndarray | None] = self.model._summed_form()
        return form

    def extent(self, rows: Rows) -> Extent:
        """How far targets reach, and what else the end needs of rows beside their sums."""
        extent: Extent = self.model._extent(rows)
        return extent

    def summarise(self, rows: Rows, folds: np.ndarray | None = None, n_folds: int | None = None) -> Summary:
        """Sums of a block of rows, per fold where the rows have fold numbers. They add."""
        sums: Summary = self.model._summarise(rows, folds, n_folds)
        return sums

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
        training = self.training
        if sample is not None:
            training = self.model._training(sample, folds, training.rng, training.backend)
        self.model._finish(summary, training, choose=choose, again=again)
        return self.model

    def __getstate__(self) -> dict[str, Any]:
        """What workers need: not the sample."""
        return {"model": self.model}


class RobustSteps:
    """The steps of fitting a robust model by passes: a pilot on a sample, Newton's method, the end."""

    def __init__(self, model: Robust) -> None:
        self.model: Any = model

    @property
    def method(self) -> tuple[Loss, NewtonOptions]:
        """The loss, and how Newton's method goes."""
        return LOSSES[self.model.loss], self.model._newton_options()

    def targets(self, sample: Rows) -> np.ndarray:
        """Targets in the shape in which they came."""
        return sample.T[:, 0] if self.model._single_output else sample.T

    def problems(self, sample: Rows) -> tuple[Problem, Problem]:
        """The problem on the features of the map, and the same in the form that is cheapest to stream."""
        problems: tuple[Problem, Problem] = self.model._problems(sample)
        return problems

    def finish(self, solution: RobustSolution, sample: Rows, rng: np.random.RandomState) -> None:
        """Keep a solution, and calibrate it on the sample."""
        self.model._keep(solution, sample)
        self.model._calibrate(self.model._held_out(solution, sample, rng))
