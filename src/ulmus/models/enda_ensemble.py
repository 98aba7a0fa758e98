"""ENDAEnsemble: several draws, one steady answer."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ulmus._sklearn import Interval
from ulmus.calibration import LabelScores
from ulmus.engine import Rows
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models.enda import ENDA
from ulmus.models.options import PROJECTION
from ulmus.parameters import AUTO, COUNT, THREADS, Parameter, estimator
from ulmus.solvers.convex import combine, error_products
from ulmus.solvers.procrustes import align


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
)
class ENDAEnsemble(DiscriminantModel):
    r"""Several :class:`ENDA` models with different draws, combined: steadier labels, and one picture of all of them.

    Class probabilities :math:`P_q` of the members are combined with weights a that solve the convex programme

    .. math:: \min_{a \ge 0,\ 1^Ta = 1}\ \kappa\,a^TSa + (1 - \kappa)\,a^T\mathrm{diag}(S), \qquad
        S_{qr} = \langle P_q - Y, P_r - Y\rangle,

    on training rows that are judged as if they were new. On it, the squared error of the combination is the mean error
    of the members less their diversity; members of weight 0 are pruned. The projection is the weighted mean of the
    members' projections, turned to agree with each other (Procrustes), along its principal axes.

    It costs as much as its members. For a single look at the data one :class:`ENDA` will do.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    n_components_ : int
    members_ : list of ENDA
        Members of positive weight.
    member_weights_ : ndarray of shape (n_members,)
        The weights a of all members; those of the pruned are 0.
    turns_ : ndarray of shape (n_kept, n_directions, n_components)
        What aligns each member's projection.
    shrinkage_ : float
        The value in use.
    held_out_error_ : float
        Squared error of the combined probabilities on the rows they were chosen by, per row.

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

    def _learn(self, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> None:
        given = clone(self._settings()).set_params(metric=self._metric)
        common = int(rng.randint(2**31 - 1))
        seeds: Any = rng.randint(2**31 - 1, size=self.n_members)
        chosen: dict[str, Any] = {}
        members, errors = [], []
        for seed in seeds:
            member = clone(given).set_params(random_state=int(seed), n_jobs=self.n_jobs, **chosen)
            member.n_features_in_, member._metric = self.n_features_in_, self._metric
            member._set_classes(self.classes_)
            member._learn(rows, folds, np.random.RandomState(seed), common)
            judged = member._held_out()
            member._forget()
            chosen = chosen or _choices(member)
            errors.append(member.head_.held_out(judged) - np.eye(len(self.classes_))[judged.true])
            members.append(member)
        E, mass = np.stack(errors), judged.mass
        S, self.shrinkage_ = error_products(E, mass, self.shrinkage)
        self.member_weights_ = combine(S, self.kappa)
        together = (np.tensordot(self.member_weights_, E, axes=1) ** 2).sum(axis=1)
        self.held_out_error_ = float(np.average(together, weights=mass))
        self.left_out_ = LabelScores(
            np.tensordot(self.member_weights_, E, axes=1) + np.eye(len(self.classes_))[judged.true],
            *(judged.true, mass, np.zeros(len(mass))),
        )
        self.members_ = [m for m, a in zip(members, self.member_weights_, strict=True) if a > 0]
        self._turn()

    @property
    def _weights(self) -> np.ndarray:
        return self.member_weights_[self.member_weights_ > 0]

    def _turn(self) -> None:
        """Align the members by where they put their reference rows."""
        have = self.members_[0].n_components_
        if self.n_components is not None and self.n_components > have:
            raise ValueError(
                f"n_components={self.n_components} is more than the {have} directions of the members; "
                "raise n_components of the estimator"
            )
        self.n_components_ = min(self.n_components_, have)
        rows = self.members_[0]._references
        mass = np.ones(len(rows)) if rows.weight is None else rows.weight
        pictures = np.stack([member._project(rows.X) for member in self.members_])
        self._sizes = np.sqrt(np.average((pictures**2).sum(axis=2), axis=1, weights=mass))
        self._sizes[self._sizes == 0] = 1.0
        turns = align(pictures / self._sizes[:, None, None], self._weights, mass)
        self.turns_ = turns[:, :, : self.n_components_]

    def _project(self, X: Any) -> np.ndarray:
        return np.asarray(sum(a * member._project(X) @ Q for a, member, Q in combination(self)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: the weighted mean of the members'.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        X = self._checked(X)
        parts = zip(self._weights, self.members_, strict=True)
        return np.asarray(sum(a * member.head_.probabilities(member._project(X)) for a, member in parts))


def combination(model: ENDAEnsemble) -> list[tuple[float, ENDA, np.ndarray]]:
    """The common projection as a sum over members: factor, member, turn of its coordinates."""
    parts = zip(model._weights, model.members_, model._sizes, model.turns_, strict=True)
    return [(a / size, member, Q) for a, member, size, Q in parts]


def _choices(member: ENDA) -> dict[str, Any]:
    """What the first member chose, as parameters for the others."""
    width = member._family.recipe(member).width_name
    nodes = member.map_.n_hidden if member.features == "random" else member.map_.n_lifted
    return {"n_hidden": nodes, width: getattr(member, f"{width}_"), "C": member.C_}
