"""NNDA: a trained network whose last hidden layer is the projection."""

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ulmus._sklearn import Interval, StrOptions
from ulmus.models._discriminant import DiscriminantModel
from ulmus.models._heads import ScoredFolds
from ulmus.models._references import References
from ulmus.models.choice import Training
from ulmus.models.discriminant_fit import NETWORK_SHOWN, NetworkProjection, fit_head, scored_folds
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
            50, (COUNT,), "int", "Training ends when the loss has not fallen by 1 % for so many passes."
        ),
    }
    | HEAD
    | {"random_state": THREADS["random_state"]},
    positional=1,
    shows=NETWORK_SHOWN,
)
class NNDA(DiscriminantModel):
    r"""Discriminant analysis by a network with two hidden layers, trained by back-propagation.

    The second hidden layer has as many nodes as the projection has directions; the weights behind it are trained and
    then not used. It is the rival that :class:`ENDA` replaces: slower by orders of magnitude, with local minima, and
    here for comparison. Standardise the features first.

    The document trains with a learning rate of 0.7, momentum 0.3, 5000 iterations, until an error of 0.001, and makes
    the second hidden layer linear. The network is scikit-learn's ``MLPClassifier``, whose hidden layers share one
    activation: the projection is read **before** the activation of the second layer, where it is linear in the
    first, but training goes through the activation. Training is by mini-batches of 200 rows on the cross-entropy; an
    iteration is a pass over the rows, and the error is that loss.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
    n_components_, n_neighbors_ : int
    coefs_, intercepts_ : list of ndarray
        Weights into the first and into the second hidden layer.
    n_iter_ : int
        Passes over the rows.
    loss_curve_ : list of float
        Loss after each pass.
    means_ : ndarray of shape (n_classes, n_components)
        Projected class means.
    head_ : Neighbours or Means
        The classifier in the projection.

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
        rows, rng, targets, losses = training.rows, training.rng, training.targets, list[float]()
        seed, labels, numbers = int(rng.randint(2**31 - 1)), rows.T.argmax(axis=1), np.arange(len(targets.classes))
        network = MLPClassifier(
            (self.n_hidden, targets.n_components),
            activation=_THEIRS[self.activation],
            solver="sgd",
            alpha=0.0,
            learning_rate_init=self.learning_rate,
            momentum=self.momentum,
            nesterovs_momentum=False,
            random_state=rng,
        )
        best, since = np.inf, 0
        for _ in range(self.max_iter):
            network.partial_fit(rows.X, labels, classes=numbers)
            losses.append(float(network.loss_))
            best, since = (network.loss_, 0) if network.loss_ < 0.99 * best else (best, since + 1)
            if network.loss_ <= self.goal or since >= self.patience:
                break
        else:
            warnings.warn(
                f"training ended after max_iter={self.max_iter} passes at a loss of {network.loss_:.3g}, above "
                f"goal={self.goal:g} and still falling within patience={self.patience}; raise max_iter, or see "
                "loss_curve_ whether it matters",
                ConvergenceWarning,
                stacklevel=2,
            )
        projection = NetworkProjection(self.activation, network.coefs_[:2], network.intercepts_[:2], losses)
        Z, references = projection(rows.X, None), References(rows.X, labels)
        means = np.stack([Z[labels == k].mean(axis=0) for k in numbers])
        sharpness = 0.5 / max(float(((Z - means[labels]) ** 2).mean()), np.finfo(float).tiny)

        def score() -> ScoredFolds:
            """By the network itself: it has seen the rows, their neighbours have not."""
            return scored_folds(references, seed, len(numbers), lambda divisions: ((Z, means) for _ in divisions))

        return Fitted(projection, targets, fit_head(self, references, Z, means, sharpness, score))
