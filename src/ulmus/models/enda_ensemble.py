"""ENDAEnsemble: several draws, one steady answer."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ulmus._sklearn import Interval
from ulmus.calibration import LabelScores
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models.attributes import MEMBERS
from ulmus.models.choice import Training
from ulmus.models.discriminant_fit import HeadFit, Indicators
from ulmus.models.enda import ENDA
from ulmus.models.fitted import Fitted
from ulmus.models.options import PROJECTION
from ulmus.parameters import AUTO, COUNT, THREADS, Parameter, estimator
from ulmus.solvers.convex import combine, error_products
from ulmus.solvers.procrustes import align


@dataclass(frozen=True)
class Members:
    """The members of positive weight, the weights of all, and what makes one projection of theirs.

    Projections are divided by their ``sizes`` and turned. ``held_out_error`` is that of the combination.
    """

    members: list[Any]
    member_weights: np.ndarray
    sizes: np.ndarray
    turns: np.ndarray
    shrinkage: float
    held_out_error: float

    @property
    def weights(self) -> np.ndarray:
        """Weights of the members that are kept."""
        return self.member_weights[self.member_weights > 0]

    @property
    def combination(self) -> list[tuple[float, Any, np.ndarray]]:
        """The common projection as a sum over members: factor, member, turn of its coordinates."""
        parts = zip(self.weights, self.members, self.sizes, self.turns, strict=True)
        return [(a / size, member, Q) for a, member, size, Q in parts]

    def __call__(self, X: Any, n_jobs: int | None) -> np.ndarray:
        return np.asarray(sum(a * member._project(X, member.fitted_) @ Q for a, member, Q in self.combination))


@estimator(
    {
        "estimator": Parameter(
            None,
            (ENDA, None),
            "ENDA",
            """What the members are; ``ENDA()`` by default. What it leaves to ``"auto"`` is chosen by the first member
            for all; its ``metric`` is learned once.""",
        ),
        "n_members": Parameter(10, (COUNT,), "int"),
        "kappa": Parameter(
            1.0,
            (Interval(Real, 0, None, closed="left"),),
            "float",
            """1 is the squared error of the combination; more rewards diversity, less prunes harder, 0 keeps one
            member.""",
        ),
        "shrinkage": Parameter(
            "auto",
            (AUTO, Interval(Real, 0, 1, closed="both")),
            'float or "auto"',
            """How far S is drawn towards that of members which differ by chance only, and weights with it towards equal
            ones: from 0 (S as measured) to 1. ``"auto"`` is the share of their differences that chance explains.""",
        ),
        "n_components": PROJECTION["n_components"].but(
            text="""Directions of the common projection, at most one less than there are classes (the default). Members
            classify in as many as ``estimator`` says."""
        ),
    }
    | THREADS,
    positional=2,
    shows=MEMBERS,
)
class ENDAEnsemble(DiscriminantModel):
    r"""Several :class:`ENDA` models with different draws, combined: steadier labels, and one picture of all of them.

    It costs as much as its members. For a single look at the data one :class:`ENDA` will do.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    ENDA : One member: enough for a single look at the data.

    Notes
    -----
    Class probabilities :math:`P_q` of the members are combined with weights a that solve the convex programme

    .. math:: \min_{a \ge 0,\ 1^Ta = 1}\ \kappa\,a^TSa + (1 - \kappa)\,a^T\mathrm{diag}(S), \qquad
        S_{qr} = \langle P_q - Y, P_r - Y\rangle,

    on training rows that are scored as if they were new. On it, the squared error of the combination is the mean error
    of the members less their diversity; members of weight 0 are pruned. The projection is the weighted mean of the
    members' projections, turned to agree with each other (Procrustes), along its principal axes.

    References
    ----------
    Q. Xie, S. Chen (2018). Extreme nonlinear discriminant analysis network. Journal of Data Acquisition and Processing
    33(3), 446-454 (ensembles are named as future work).

    O. Ledoit, M. Wolf (2004). Honey, I shrunk the sample covariance matrix. Journal of Portfolio Management 30(4).

    X.-C. Yin, K. Huang, H.-W. Hao, K. Iqbal, Z.-B. Wang (2014). A novel classifier ensemble method with sparsity and
    diversity. Neurocomputing 134.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from ulmus import ENDA, ENDAEnsemble
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ENDAEnsemble(ENDA(100), n_members=5, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    """

    metric_, feature_importances_ = property(metric_in_use), property(importances_in_use)

    def _settings(self) -> Any:
        return (ENDA() if self.estimator is None else self.estimator)._settings()

    def _learn(self, training: Training) -> Fitted:
        given = clone(self._settings()).set_params(metric=training.metric)
        common = int(training.rng.randint(2**31 - 1))
        seeds: Any = training.rng.randint(2**31 - 1, size=self.n_members)
        chosen: dict[str, Any] = {}
        members, errors, labels = [], [], np.eye(len(training.targets.classes))
        for seed in seeds:
            member = clone(given).set_params(random_state=int(seed), n_jobs=self.n_jobs, **chosen)
            member.n_features_in_ = self.n_features_in_
            targets = Indicators.of(member, training.targets.classes)
            own = replace(training, rng=np.random.RandomState(seed), targets=targets)
            member.fitted_ = member._learn(own, common)
            scored = member._scored(member.fitted_)
            chosen = chosen or _choices(member)
            errors.append(member.head_.held_out(scored) - labels[scored.true])
            members.append(member)
        E, mass = np.stack(errors), scored.mass
        S, shrinkage = error_products(E, mass, self.shrinkage)
        a = combine(S, self.kappa)
        together = np.tensordot(a, E, axes=1)
        error = float(np.average((together**2).sum(axis=1), weights=mass))
        left_out = LabelScores(together + labels[scored.true], scored.true, mass, np.zeros(len(mass)))
        kept = [m for m, weight in zip(members, a, strict=True) if weight > 0]
        targets = _targets_among(self, kept[0], training.targets)
        sizes, turns = _turned(kept, a[a > 0], targets.n_components)
        found = Members(kept, a, sizes, turns, shrinkage, error)
        return Fitted(found, targets, HeadFit(None, None, left_out), training.metric)

    def _probabilities(self, X: Any, fitted: Fitted) -> np.ndarray:
        found: Members = fitted.weights
        parts = zip(found.weights, found.members, strict=True)
        return np.asarray(sum(a * member._probabilities(X, member.fitted_) for a, member in parts))


def _choices(member: ENDA) -> dict[str, Any]:
    """What the first member chose, as parameters for the others."""
    width = member._family.recipe(member).width_name
    nodes = member.map_.n_hidden if member.features == "random" else member.map_.n_features_out
    return {"n_hidden": nodes, width: getattr(member, f"{width}_"), "C": member.C_}


def _targets_among(model: ENDAEnsemble, member: ENDA, targets: Indicators) -> Indicators:
    """With no more directions than members have."""
    have = member.n_components_
    if model.n_components is not None and model.n_components > have:
        raise ValueError(
            f"n_components={model.n_components} is more than the {have} directions of the members; "
            "raise n_components of the estimator"
        )
    return replace(targets, n_components=min(targets.n_components, have))


def _turned(members: list[ENDA], a: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of the members' projections, and what aligns them, by where they put their reference rows."""
    rows = members[0].fitted_.certainty.references
    mass = rows.weights()
    pictures = np.stack([member._project(rows.X, member.fitted_) for member in members])
    sizes = np.sqrt(np.average((pictures**2).sum(axis=2), axis=1, weights=mass))
    sizes[sizes == 0] = 1.0
    return sizes, align(pictures / sizes[:, None, None], a, mass)[:, :, :p]
