"""NNDA: a trained network whose last hidden layer is the projection."""

import warnings
from collections.abc import Iterator
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ulmus._sklearn import Interval, StrOptions
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._heads import ScoredFolds
from ulmus.models._references import Division, References
from ulmus.models.attributes import NETWORK
from ulmus.models.choice import Training
from ulmus.models.discriminant_fit import NetworkProjection, fit_head, scored_folds
from ulmus.models.fitted import Fitted
from ulmus.models.options import HEAD, PROJECTION
from ulmus.parameters import COUNT, POSITIVE, THREADS, Parameter, estimator

#: Name of an activation here → there.
_THEIRS = {"sigmoid": "logistic", "tanh": "tanh"}


@estimator(
    {
        "n_hidden": Parameter(100, (COUNT,), "int", "Nodes of the first hidden layer."),
        "activation": Parameter("sigmoid", (StrOptions(set(_THEIRS)),), '{"sigmoid", "tanh"}'),
    }
    | PROJECTION
    | {
        "learning_rate": Parameter(0.7, (POSITIVE,), "float"),
        "momentum": Parameter(0.3, (Interval(Real, 0, 1, closed="left"),), "float"),
        "max_iter": Parameter(
            5000, (COUNT,), "int", "Passes over the rows, at most; a warning tells when they were not enough."
        ),
        "goal": Parameter(
            0.001, (Interval(Real, 0, None, closed="left"),), "float", "Training ends when the loss is below it."
        ),
        "patience": Parameter(
            50, (COUNT,), "int", "Training ends when the loss has not fallen by 1 % for this many passes."
        ),
    }
    | HEAD
    | {"random_state": THREADS["random_state"]},
    positional=1,
    shows=NETWORK,
)
class NNDA(DiscriminantModel):
    r"""Discriminant analysis by a network with two hidden layers, trained by back-propagation.

    The second hidden layer has as many nodes as the projection has directions; the weights behind it are trained and
    then not used. It is the rival that :class:`ENDA` replaces: slower by orders of magnitude, with local minima, and
    here for comparison. Standardise the features first.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    See Also
    --------
    ENDA : The model that replaces it: one eigenproblem, and no training.

    Notes
    -----
    The projection is :math:`z(x) = W_2^T g(W_1^Tx + b_1) + b_2`, the second hidden layer **before** its activation g,
    where it is linear in the first. All weights are trained together with a softmax layer on top:
    :math:`\min \sum_i -\log P(y_i \mid g(z(x_i)))`.

    The document trains with a learning rate of 0.7, momentum 0.3, 5000 iterations, until an error of 0.001, and makes
    the second hidden layer linear. The network here is scikit-learn's ``MLPClassifier``, whose hidden layers share one
    activation, so that training goes through it. Training is by mini-batches of 200 rows on the cross-entropy; an
    iteration is a pass over the rows, and the error is that loss. With ``head="mean"`` probabilities are calibrated on
    rows that ten more networks have not seen, each without a tenth of the rows.

    References
    ----------
    J. Mao, A. K. Jain (1995). Artificial neural networks for feature extraction and multivariate data projection.
    IEEE Trans. Neural Networks 6(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from ulmus import NNDA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNDA(20, max_iter=50, random_state=0).fit(StandardScaler().fit_transform(X), y)
    >>> model.transform(StandardScaler().fit_transform(X)).shape
    (150, 2)
    """

    _leaves_projection = False

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network and fit the classifier in its projection.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Class labels.

        Returns
        -------
        self
        """
        return super().fit(X, y)

    def _learn(self, training: Training) -> Fitted:
        rows, rng, targets = training.rows, training.rng, training.targets
        seed, references = int(rng.randint(2**31 - 1)), References(rows.X, rows.T.argmax(axis=1))
        every, n_classes = np.ones(len(references), bool), len(targets.classes)
        projection, reached = train_network(self, references, every, targets, rng)
        if not reached:
            _warn_that_loss_still_falls(self, projection.loss_curve[-1])
        Z, means, scatter = _placed(projection, references, every, n_classes)

        def others(divisions: list[Division]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            """Networks without the rows, in units in which their classes are as wide as those of this one."""
            for division in divisions:
                kept = division.lost == 0
                other = train_network(self, references, kept, targets, np.random.RandomState(seed))[0]
                placed, centres, wide = _placed(other, references, kept, n_classes)
                unit = np.sqrt(scatter / wide)
                yield unit * placed, unit * centres

        def scored() -> ScoredFolds:
            if self.head == "mean":
                return scored_folds(references, seed, n_classes, others)
            # the network has seen the rows; the neighbours among which they are placed have not
            return scored_folds(references, seed, n_classes, lambda divisions: ((Z, means) for _ in divisions))

        return Fitted(projection, targets, fit_head(self, references, Z, means, 0.5 / scatter, scored))


def train_network(
    model: NNDA, references: References, kept: np.ndarray, targets: Any, rng: np.random.RandomState
) -> tuple[NetworkProjection, bool]:
    """A network of some of the rows, and whether it came to an end before its last pass."""
    network = MLPClassifier(
        (model.n_hidden, targets.n_components),
        activation=_THEIRS[model.activation],
        solver="sgd",
        alpha=0.0,
        learning_rate_init=model.learning_rate,
        momentum=model.momentum,
        nesterovs_momentum=False,
        random_state=rng,
    )
    X, labels, numbers = references.X[kept], references.labels[kept], np.arange(len(targets.classes))
    losses, best, since, reached = list[float](), np.inf, 0, False
    while not reached and len(losses) < model.max_iter:
        network.partial_fit(X, labels, classes=numbers)
        losses.append(float(network.loss_))
        best, since = (network.loss_, 0) if network.loss_ < 0.99 * best else (best, since + 1)
        reached = network.loss_ <= model.goal or since >= model.patience
    return NetworkProjection(model.activation, network.coefs_[:2], network.intercepts_[:2], losses), reached


def _warn_that_loss_still_falls(model: NNDA, loss: float) -> None:
    warnings.warn(
        f"training ended after max_iter={model.max_iter} passes at a loss of {loss:.3g}, above goal={model.goal:g} and "
        f"still falling within patience={model.patience}; raise max_iter, or see loss_curve_ whether it matters",
        ConvergenceWarning,
        stacklevel=3,
    )


def _placed(
    projection: NetworkProjection, references: References, kept: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Projections of all rows, class means of those kept (NaN for a class without), and the scatter about them."""
    Z, labels = projection(references.X, None), references.labels
    means = np.full((n_classes, Z.shape[1]), np.nan)
    for k in np.unique(labels[kept]):
        means[k] = Z[kept & (labels == k)].mean(axis=0)
    scatter = float(((Z - means[labels])[kept] ** 2).mean())
    return Z, means, max(scatter, np.finfo(float).tiny)
