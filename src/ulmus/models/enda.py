"""ENDA: random layer (or Nyström map) + discriminant analysis."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
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
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._heads import ScoredFolds
from ulmus.models._metric import importances_in_use, metric_for_blocks, metric_in_use
from ulmus.models._references import Division, References
from ulmus.models.attributes import PROJECTED_MAP
from ulmus.models.choice import Choice, RidgeSearch, Training, choose_from_sums
from ulmus.models.discriminant_fit import HeadFit, Indicators, MapProjection, fit_head, scored_folds
from ulmus.models.families import MapFamily
from ulmus.models.fitted import Fitted
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
from ulmus.models.reading import checked_weight, columns_restored, of_positive_weight, seen_through
from ulmus.online.guard import guard_of, teaching
from ulmus.parameters import COUNT, Parameter, estimator
from ulmus.solvers.discriminant import solve_discriminant, with_classes
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.scorer import FLAT
from ulmus.tuning.search import LOG2_C_GRID


class DiscriminantFamily(MapFamily):
    """The features of a discriminant analysis: a random layer, or landmarks."""

    def recipe(self, model: Any, metric: np.ndarray | None = None) -> Any:
        if model.features == "random":
            return RandomFeatures.of(model)
        given = not isinstance(model.landmarks, str)
        landmarks = seen_through(metric, np.asarray(model.landmarks, dtype=np.float64)) if given else model.landmarks
        return NystromFeatures.of(
            model, n_landmarks=model.n_hidden, max_landmarks=model.max_hidden, landmarks=landmarks, rank=None
        )

    def begin(self, model: Any, training: Training, *, oversize: bool = False) -> Choice:
        seed = int(training.rng.randint(2**31 - 1))
        return replace(super().begin(model, training, oversize=oversize), seed=seed)


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
            text=r"""Inverse strength of the penalty, :math:`\gamma = 1/C`. None adds only what round-off makes
            necessary."""
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
    shows=PROJECTED_MAP,
)
class ENDA(DiscriminantModel):
    r"""Discriminant analysis on a layer of random hidden nodes: a projection for seeing and for classifying.

    Called without arguments it chooses the width and number of the features and C by leave-one-out. With
    ``features="nystrom"`` it is kernel discriminant analysis made linear in the number of rows.

    Different draws give different pictures; :class:`ENDAEnsemble` gives nearly the same one. When a straight line
    separates the classes, ``sklearn.discriminant_analysis.LinearDiscriminantAnalysis`` is enough. When only labels are
    wanted and memory is short, :class:`ELMClassifier` keeps no rows (nor does ``head="mean"``).

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    ENDAEnsemble : Several of them combined: nearly the same picture whatever the draw.
    KLDA : Exact kernel discriminant analysis, for up to some 10,000 rows.
    ELMClassifier : Labels alone, from a layer of random nodes.

    Notes
    -----
    Rows are projected to :math:`z(x) = W^T(h(x) - \mu)` with :math:`h_j(x) = g(w_j\cdot x + b_j)` and the mean
    :math:`\mu` of the features. The columns of W are the directions of largest :math:`\lambda` in
    :math:`S_b w = \lambda (S_w + I/C) w`, with the scatter :math:`S_b` between the classes and :math:`S_w` within them.
    They take one Cholesky factor and an eigenproblem as large as there are classes. The ridge regression on ±1 targets
    spans the same space, and parameters are chosen on it.

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

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)

    def _settings(self) -> Any:
        if self.metric is not None and self.features != "nystrom":
            raise ValueError(
                f"metric needs features='nystrom', got features={self.features!r}: a random layer standardises what it "
                "is given, which undoes a metric"
            )
        return self

    def _learn(self, training: Training, seed: int | None = None) -> Fitted:
        """Projection and head; models of the same ``seed`` are scored by the same rows."""
        rows, plan = training.rows, self._family.begin(self, training)
        plan = plan if seed is None else replace(plan, seed=seed)
        stats = Host(self.n_jobs).statistics(plan.features, rows) if plan.statistics is None else plan.statistics
        return self._solved(plan, stats, References.of(rows, training.folds), training.targets, training.metric)

    # The steps of a fit, for drivers that read rows block by block: begin, summarise, finish.

    _family: ClassVar[Any] = DiscriminantFamily()

    @property
    def _ridge_search(self) -> RidgeSearch:
        """The ridge regression of the class indicators, which spans the same space, and by which C is found."""
        return RidgeSearch(self.C, True, self.criterion, bool(self.verbose))

    def _finish(
        self, plan: Choice, summary: Summary, sample: Training, *, choose: bool = False, again: Any = None
    ) -> None:
        """Directions from sums; the sample's rows, which are among those summed, become the neighbours.

        With ``choose``, what the model leaves open among C and its size is chosen first.
        """
        with engine.threads_for(summary.total.n_features):
            if choose:
                plan, summary = choose_from_sums(plan, self._family.recipe(self), self._ridge_search, sample, summary)
            references = References.of(sample.rows, sample.folds)
            self.fitted_ = self._solved(plan, summary.total, references, sample.targets, sample.metric)

    def _check_criterion(self) -> None:
        """Every criterion that may be given is one of classifiers."""

    def _solved(
        self,
        plan: Choice,
        stats: Statistics,
        references: References,
        targets: Indicators,
        metric: np.ndarray | None,
    ) -> Fitted:
        """Directions from sums, and the head."""
        found, p = solve_discriminant(stats, 0.0 if plan.C is None else 1.0 / plan.C), targets.n_components
        width = float(self._family.recipe(self, metric).in_use(plan.features)[0])
        projection = MapProjection(
            features=plan.features,
            weights=np.ascontiguousarray(found.weights[:, :p]),
            centre=found.centre,
            eigenvalues=found.eigenvalues[:p],
            C=plan.C,
            width=width,
            statistics=stats,
            ridge=found.gamma,
            tuning=plan.tuning,
        )
        assert plan.seed is not None
        references = references.limited(self.max_references, plan.seed)
        fitted = Fitted(projection, targets, HeadFit(None, None, None, plan.seed, references), metric)
        sharpness, Z = max(stats.weight - len(targets.classes), 1.0) / 2, self._project(references.X, fitted)
        head = fit_head(self, references, Z, found.means[:, :p], sharpness, partial(self._scored, fitted))
        return replace(fitted, certainty=replace(head, seed=plan.seed, references=references))

    def _scored(self, fitted: Fitted) -> ScoredFolds:
        """Training rows to score by."""
        known, without = fitted.certainty, partial(self._without, fitted)
        return scored_folds(known.references, known.seed, len(fitted.targets.classes), without)

    @fit_context(prefer_skip_nested_validation=True)
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
        with teaching(self), columns_restored(self):
            self.fitted_ = self._with_block(X, y, classes, sample_weight)
        return self

    def __getstate__(self) -> dict[str, Any]:
        with guard_of(self).lock:  # a copy waits for the block that is being learned
            return dict(super().__getstate__())

    def _with_block(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Fitted:
        """The model with some more rows, or of the first ones."""
        known: Fitted | None = getattr(self, "fitted_", None)
        metric = metric_for_blocks(self._settings()) if known is None else known.metric
        X, y = self._validate(X, y, reset=known is None)
        weight, X, y = of_positive_weight(checked_weight(sample_weight, X), seen_through(metric, X), y)
        named = np.unique(y if classes is None else np.concatenate([np.asarray(classes), y]))
        if known is None:
            targets = Indicators.of(self, named)
        else:
            known = self._with_classes(known, named)
            targets = known.targets
        rows = Rows(X, targets.encode(y), weight, None if weight is None else np.minimum(weight, 1.0))
        with engine.threads_for(X.shape[0]):
            if known is None:
                return self._learn(
                    self._training(targets, rows, None, check_random_state(self.random_state), metric=metric)
                )
            before, head = known.weights, known.certainty
            stats = before.statistics + Host(self.n_jobs).statistics(before.features, rows)
            C = penalty_by_gcv(stats) if self.C == "auto" else self.C
            plan = Choice(before.width, C, before.features, tuning=before.tuning, seed=head.seed)
            references = head.references.joined(References.of(rows))
            return replace(self._solved(plan, stats, references, targets, metric), n_rows=known.n_rows)

    def _with_classes(self, known: Fitted, named: np.ndarray) -> Fitted:
        """The same model with these classes among its own."""
        before = known.targets.classes
        if np.isin(named, before).all():
            return known
        one_kind(before, named)
        classes = np.union1d(before, named)
        places = np.searchsorted(classes, before)
        statistics = with_classes(known.weights.statistics, places, len(classes))
        head = replace(known.certainty, references=known.certainty.references.renumbered(places))
        weights, targets = replace(known.weights, statistics=statistics), Indicators.of(self, classes)
        return replace(known, weights=weights, targets=targets, certainty=head)

    def _without(self, fitted: Fitted, divisions: list[Division]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Projections of the references, and class means, by models without the rows of each fold."""
        references, p, projection = fitted.certainty.references, fitted.targets.n_components, fitted.weights
        models = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            for division in divisions:
                lost = references.losing(division.lost, len(fitted.targets.classes))
                part = Host(self.n_jobs).statistics(projection.features, lost) if len(lost) else None
                stats = projection.statistics if part is None else projection.statistics - part
                models.append(solve_discriminant(stats, projection.ridge))
        # one pass over the rows for all folds
        W = np.concatenate([found.weights[:, :p] for found in models], axis=1)
        Z = engine.apply(projection.features, references.X, W, n_jobs=self.n_jobs)
        for i, found in enumerate(models):
            yield Z[:, i * p : (i + 1) * p] - found.centre @ found.weights[:, :p], found.means[:, :p]


def penalty_by_gcv(stats: Statistics) -> float:
    """The smallest C whose generalised cross-validation score is practically the lowest."""
    C = 2.0**LOG2_C_GRID
    score = RidgePath(stats, fit_intercept=True).gcv(C).sum(axis=1)
    return float(C[np.flatnonzero(score <= (1 + FLAT) * score.min())[0]])
