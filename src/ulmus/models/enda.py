"""ENDA: random layer (or Nyström map) + discriminant analysis."""

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus._sklearn import StrOptions, fit_context
from ulmus.backend import Host
from ulmus.codings import one_kind
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import KERNEL, LANDMARKS
from ulmus.features.random_layer import LAYER
from ulmus.features.recipes import NystromFeatures, RandomFeatures
from ulmus.models._between import learns, side_of
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._metric import importances_in_use, metric_for_blocks, metric_in_use
from ulmus.models._references import Division, References
from ulmus.models.choice import Choice, RidgeSearch, Training, choose_from_sums
from ulmus.models.families import MapFamily
from ulmus.models.options import (
    DISCRIMINANT_SEARCH,
    HEAD,
    HIDDEN_NODES,
    MAX_HIDDEN,
    METRIC,
    PENALTY_OR_NONE,
    PROJECTION,
    RUN_ON_CPU,
)
from ulmus.parameters import COUNT, Parameter, estimator
from ulmus.solvers.discriminant import solve_discriminant, with_classes
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.judge import FLAT
from ulmus.tuning.search import LOG2_C


class DiscriminantFamily(MapFamily):
    """The features of a discriminant analysis: a random layer, or landmarks."""

    def recipe(self, model: Any, metric: np.ndarray | None = None) -> Any:
        if model.features == "random":
            return RandomFeatures.of(model)
        given = not isinstance(model.landmarks, str)
        landmarks = model._shown(np.asarray(model.landmarks, dtype=np.float64)) if given else model.landmarks
        return NystromFeatures.of(
            model, n_landmarks=model.n_hidden, max_landmarks=model.max_hidden, landmarks=landmarks, rank=None
        )

    def begin(self, model: Any, training: Training, *, spare: bool = False) -> Choice:
        model._seed = int(training.rng.randint(2**31 - 1))
        return super().begin(model, training, spare=spare)


@estimator(
    {
        "n_hidden": HIDDEN_NODES["n_hidden"].but(
            text="""Number of features L: hidden nodes, or landmarks under ``features="nystrom"``. ``"auto"`` doubles it
            while that lowers the leave-one-out loss by more than its standard error or 1 %, up to ``max_hidden``."""
        ),
        "features": Parameter(
            "random",
            (StrOptions({"random", "nystrom"}),),
            '{"random", "nystrom"}',
            """``activation`` to ``direct_links`` belong to the first, ``kernel`` to ``landmarks`` and
            ``metric`` to the second.""",
        ),
    }
    | LAYER
    | KERNEL
    | METRIC
    | {"landmarks": LANDMARKS["landmarks"]}
    | PROJECTION
    | {
        "C": PENALTY_OR_NONE["C"].but(
            text=r"""Penalty; larger is weaker, :math:`\gamma = 1/C`. None adds only what round-off makes necessary."""
        )
    }
    | HEAD
    | {
        "n_neighbors": HEAD["n_neighbors"].but(
            text="""``"auto"`` is chosen by 10-fold cross-validation: rows that are left out are projected by directions
            that they had no part in."""
        )
    }
    | MAX_HIDDEN
    | {
        "max_references": Parameter(
            50_000, (COUNT,), "int", "Rows that are kept for the neighbours; of more rows a sample is taken."
        )
    }
    | DISCRIMINANT_SEARCH
    | RUN_ON_CPU,
    positional=1,
)
class ENDA(DiscriminantModel):
    r"""Discriminant analysis on a layer of random hidden nodes: a projection for seeing and for classifying.

    :math:`z(x) = W^T(h(x) - \mu)` with :math:`h_j(x) = g(w_j\cdot x + b_j)` and the directions W of largest
    :math:`\lambda` in :math:`S_b w = \lambda (S_w + I/C) w`: one Cholesky factor and an eigenproblem as large as there
    are classes. With ``features="nystrom"`` it is kernel discriminant analysis made linear in the number of rows.
    Called without arguments it chooses the width and number of the features and C by leave-one-out on the ridge
    regression that spans the same space.

    Different draws give different pictures; :class:`ENDAEnsemble` gives nearly the same one. When a straight line
    separates the classes, ``sklearn.discriminant_analysis.LinearDiscriminantAnalysis`` is enough. When only labels are
    wanted and memory is short, :class:`ELMClassifier` keeps no rows (nor does ``head="mean"``).

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    n_components_ : int
    C_, slope_ or gamma_, n_hidden_ or n_landmarks_, n_neighbors_ : float, float, int, int
        The values in use.
    tuning_ : Tuning
        What was searched (when something was).
    map_ : RandomLayer or NystromMap
        The feature map.
    weights_ : ndarray of shape (n_hidden, n_components)
        The directions W, with :math:`W^T(S_w + I/C)W = I`.
    centre_ : ndarray of shape (n_hidden,)
        The mean :math:`\mu` of the features.
    eigenvalues_ : ndarray of shape (n_components,)
        :math:`\lambda`: scatter between classes over (penalised) scatter within, along each direction.
    means_ : ndarray of shape (n_classes, n_components)
        Projected class means.
    statistics_ : Statistics
        The sums that the model is made of; they add over blocks of rows.
    head_ : Neighbours or Means
        The classifier in the projection.

    References
    ----------
    Q. Xie, S. Chen (2018). Extreme nonlinear discriminant analysis network. Journal of Data Acquisition and Processing
    33(3), 446-454.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from ulmus import ENDA
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ENDA(random_state=0).fit(X[::2], y[::2])
    >>> model.transform(X).shape
    (178, 2)
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    """

    _transient: ClassVar[tuple[str, ...]] = ("_Z", "_gamma")

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)

    def _settings(self) -> Any:
        if self.metric is not None and self.features != "nystrom":
            raise ValueError(
                f"metric needs features='nystrom', got features={self.features!r}: a random layer standardises what it "
                "is given, which undoes a metric"
            )
        return self

    def _learn(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, seed: int | None = None) -> None:
        """Fit the projection and the head; models of the same ``seed`` are judged by the same rows."""
        plan = self._family.begin(self, self._training(self.classes_, rows, folds, rng))
        self._seed = self._seed if seed is None else seed
        self._keep(plan)
        stats = Host(self.n_jobs).statistics(self.map_, rows) if plan.statistics is None else plan.statistics
        self._solve(stats, References.of(rows, folds))

    # The steps of a fit, for drivers that read rows block by block: begin, summarise, finish.

    _family: ClassVar[Any] = DiscriminantFamily()

    @property
    def _ridge_search(self) -> RidgeSearch:
        """The ridge regression of the class indicators, which spans the same space, and by which C is found."""
        return RidgeSearch(self.C, True, self.criterion, bool(self.verbose))

    def _training(
        self,
        targets: Any,
        rows: Rows,
        folds: np.ndarray | None,
        rng: np.random.RandomState,
        backend: Any = None,
    ) -> Training:
        backend = Host(self.n_jobs) if backend is None else backend
        return Training(rows, self._coding(rows), folds, rng, backend, getattr(self, "_metric", None), targets)

    def _keep(self, plan: Choice) -> None:
        self.map_, self.C_ = plan.features, plan.C
        if plan.tuning is not None:
            self.tuning_ = plan.tuning
        recipe = self._family.recipe(self)
        setattr(self, f"{recipe.width_name}_", float(recipe.in_use(self.map_)[0]))
        setattr(self, f"{recipe.size_name}_", int(self.map_.n_lifted))

    def _finish(
        self, plan: Choice, summary: Summary, sample: Training, *, choose: bool = False, again: Any = None
    ) -> None:
        """Directions from sums; the sample's rows, which are among those summed, become the neighbours.

        With ``choose``, what the model leaves open among C and its size is chosen first.
        """
        with engine.threads_for(summary.total.n_features):
            if choose:
                plan, summary = choose_from_sums(plan, self._family.recipe(self), self._ridge_search, sample, summary)
            self._keep(plan)
            self._solve(summary.total, References.of(sample.rows, sample.folds))
        self._forget()

    def _check_criterion(self) -> None:
        """Every criterion that may be given is one of classifiers."""

    def _solve(self, stats: Statistics, references: References) -> None:
        """Solve for the directions and set the head."""
        self.statistics_ = stats
        found = solve_discriminant(stats, 0.0 if self.C_ is None else 1.0 / self.C_)
        p = self.n_components_
        self.weights_, self.centre_ = np.ascontiguousarray(found.weights[:, :p]), found.centre
        self.eigenvalues_, self._gamma = found.eigenvalues[:p], found.gamma
        references = references.limited(self.max_references, self._seed)
        self._set_head(references, found.means[:, :p], max(stats.weight - len(self.classes_), 1.0) / 2)

    @fit_context(prefer_skip_nested_validation=True)
    @learns
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the model; new classes may come at any time.

        The first call fixes the feature map (and chooses its width and size, where they are ``"auto"``) from its rows.
        After it, ``C="auto"`` is chosen by generalised cross-validation, which needs no rows. Each call solves anew:
        blocks much shorter than ``n_hidden`` cost more than they bring.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array, optional
            Classes that will come. Those that are not named are added when they do.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not hasattr(self, "map_")
        if not hasattr(self, "_metric"):
            self._metric = metric_for_blocks(self._settings())
        X, y = self._validate(X, y, reset=first)
        X, y, weight, _ = self._weighed(self._shown(X), y, sample_weight, None)
        named = np.unique(y if classes is None else np.concatenate([np.asarray(classes), y]))
        if first:
            self._set_classes(named)
        elif not np.isin(named, self.classes_).all():
            one_kind(self.classes_, named)
            self._add_classes(np.union1d(self.classes_, named))
        rows = Rows(X, self._indicators(y), weight, None if weight is None else np.minimum(weight, 1.0))
        with engine.threads_for(X.shape[0]):
            if first:
                self._learn(rows, None, check_random_state(self.random_state))
            else:
                stats = self.statistics_ + Host(self.n_jobs).statistics(self.map_, rows)
                self.C_ = penalty_by_gcv(stats) if self.C == "auto" else self.C
                self._solve(stats, self._references.joined(References.of(rows)))
        self._forget()
        return self

    def __getstate__(self) -> dict[str, Any]:
        with side_of(self).lock:  # not in the middle of a block
            return dict(super().__getstate__())

    def _add_classes(self, classes: np.ndarray) -> None:
        places = np.searchsorted(classes, self.classes_)
        self._set_classes(classes)
        self.statistics_ = with_classes(self.statistics_, places, len(classes))
        self._references = self._references.renumbered(places)

    def _project(self, X: Any) -> np.ndarray:
        return engine.apply(self.map_, X, self.weights_, n_jobs=self.n_jobs) - self.centre_ @ self.weights_

    def _without(self, divisions: list[Division]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        references, p = self._references, self.n_components_
        models = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            for division in divisions:
                lost = references.losing(division.lost, len(self.classes_))
                part = Host(self.n_jobs).statistics(self.map_, lost) if len(lost) else None
                stats = self.statistics_ if part is None else self.statistics_ - part
                models.append(solve_discriminant(stats, self._gamma))
        # one pass over the rows for all folds
        W = np.concatenate([found.weights[:, :p] for found in models], axis=1)
        Z = engine.apply(self.map_, references.X, W, n_jobs=self.n_jobs)
        for i, found in enumerate(models):
            yield Z[:, i * p : (i + 1) * p] - found.centre @ found.weights[:, :p], found.means[:, :p]


def penalty_by_gcv(stats: Statistics) -> float:
    """The smallest C whose generalised cross-validation score is practically the lowest."""
    C = 2.0**LOG2_C
    score = RidgePath(stats, fit_intercept=True).gcv(C).sum(axis=1)
    return float(C[np.flatnonzero(score <= (1 + FLAT) * score.min())[0]])
