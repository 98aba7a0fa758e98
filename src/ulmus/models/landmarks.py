"""What models of landmarks offer beside their task: what landmarks explain, a bound, landmarks that come later."""

from copy import deepcopy
from typing import Any

import numpy as np

from ulmus.features.kernels import KERNELS
from ulmus.online import teaching


def residual_kernel(self: Any, X: Any) -> np.ndarray:
    r""":math:`\kappa(x,x) - \|\hat F(x)\|^2` of every row: what the landmarks leave unexplained.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples,)
        0 on the span of the landmarks; near :math:`\kappa(x,x)` far from all of them.
    """
    fitted = self._now("weights")
    return np.asarray(fitted.weights.features.residual_kernel(self._checked(X, fitted)))


def error_bound(self: Any, X: Any) -> np.ndarray:
    r"""How far this model can be from the exact kernel model (KELM with the same parameters), at every row.

    .. math:: \|\hat f(x) - f(x)\| \le C\sqrt n\,\tau\sqrt{r(x,x)\operatorname{tr} R}
       + C^2 n\,\delta\,\tau\operatorname{tr} R,

    with the largest target norm :math:`\tau`, the largest :math:`\delta = \kappa(x_i,x_i)`, the residual kernel r
    and its sum :math:`\operatorname{tr} R` over the training rows. It holds for every data set, so it is coarse: it
    says something only while :math:`C\operatorname{tr} R < 2`, and is 0, up to round-off, with all rows as
    landmarks. With an intercept it is a few times larger.
    For classifiers it bounds ``decision_function``.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples,)
        Euclidean norm over the outputs.
    """
    if getattr(self, "loss", "squared") != "squared":
        raise ValueError(f'error_bound holds for the closed form: it needs loss="squared", got {self.loss!r}')
    fitted = self._now("factor")
    X, weights = self._checked(X, fitted), fitted.weights
    if isinstance(self.kernel, str) and not KERNELS[self.kernel].positive_definite:
        raise ValueError(
            f"error_bound needs a positive definite kernel, and kernel={self.kernel!r} is not one; "
            'compare with a KELM model instead, or use e.g. kernel="rbf"'
        )
    if weights.certificate is None:
        raise ValueError(
            f"error_bound needs the direct route, and this model was fitted by the route {weights.route!r}; fit it "
            'with solver="direct"'
        )
    diagonal, rest = weights.features.cross_kernel_.diagonal(X), weights.features.residual_kernel(X)
    return np.asarray(weights.certificate.bound(diagonal, rest))


def partial_fit(
    self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, novelty: float | None = None
) -> Any:
    """Learn a block of rows, or one row.

    Landmarks and all else that is open are chosen from the first 500 rows (more, if there are to be more landmarks)
    or from those of an earlier ``fit``; until then predictions come from a model of the rows so far.

    Parameters
    ----------
    X, y, classes, sample_weight : arrays
        As :meth:`OSELMClassifier.partial_fit` takes them; ``classes`` are all that will come, if they are known.
    novelty : float, optional
        After the warm-up, rows of which the landmarks leave more than this share of κ(x,x) unexplained
        (:meth:`residual_kernel`) become landmarks first, up to ``max_landmarks``. Rows learned before count as 0 in
        the new features: approximate for the past, exact from here on.

    Returns
    -------
    self
    """
    if getattr(self, "solver", "auto") == "iterative":
        raise ValueError(
            'partial_fit adds rows to sums, which only the direct solver keeps, got solver="iterative"; set '
            'solver="auto" or "direct", or call fit with all rows'
        )
    with teaching(self):
        learner = vars(self).get("stream_")
        if novelty is not None and learner is not None and learner.learning:
            if not 1e-3 <= novelty < 1:
                raise ValueError(f"novelty must lie between 0.001 and 1, got {novelty!r}")
            rows, _ = self._block(learner, X, y, sample_weight)
            features = learner.plan.features.grown(rows.X, novelty, self.max_landmarks)
            if features is not learner.plan.features:
                learner = deepcopy(learner)  # a block that is refused leaves no landmark
                learner.widen(features)
        self._learn_block(X, y, classes, sample_weight, learner)
    return self
