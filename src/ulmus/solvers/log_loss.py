r"""The log loss of scores: softmax for several classes, logistic for two.

Targets are the ±1 codes of the classes, :math:`y = (1 + t)/2`: k columns for k ≥ 3 classes, one for two. A mean of
codes (equal rows merged into one) is a target like any other. With scores f,

.. math:: \ell = \log\textstyle\sum_c e^{f_c} - y^Tf \quad\text{or}\quad \log(1 + e^f) - yf,\qquad
   \frac{\partial\ell}{\partial f} = p - y,\qquad \frac{\partial^2\ell}{\partial f^2} = \operatorname{diag}p - pp^T
   \quad\text{or}\quad p(1-p).

All is computed from differences of scores, so that nothing overflows, however sure a model is.
"""

import numpy as np
from scipy.special import expit

#: Classes from which on it does not matter in which order numbers lie.
MANY_CLASSES = 64


def targets(T: np.ndarray) -> np.ndarray:
    """Shares ``y`` of ±1 codes."""
    return 0.5 * (1.0 + T)


def proportions(F: np.ndarray) -> np.ndarray:
    """``p``: of every class, or of the second of two."""
    return expit(F) if F.shape[-1] == 1 else softmax(F)


def softmax(F: np.ndarray) -> np.ndarray:
    """``e^f / Σ e^f`` of every row. Few classes lie one after the other, as sums of few numbers take their time."""
    E = _apart(F)
    E -= E.max(axis=0)
    np.exp(E, out=E)
    E /= E.sum(axis=0)
    return E.T if E.ndim == 2 else np.moveaxis(E, 0, -1)


def _by_class(F: np.ndarray) -> np.ndarray:
    """``[class, ..., row]``, without the time that ``moveaxis`` takes for few rows."""
    return F.T if F.ndim == 2 else np.moveaxis(F, -1, 0)


def _apart(F: np.ndarray) -> np.ndarray:
    """A copy ``[class, ..., row]``; few classes lie one after the other, many row by row."""
    return np.array(_by_class(F), order="C" if F.shape[-1] < MANY_CLASSES else "K")


def class_proportions(F: np.ndarray) -> np.ndarray:
    """``p`` of every class, also for two."""
    return np.concatenate([expit(-F), expit(F)], axis=-1) if F.shape[-1] == 1 else softmax(F)


def losses(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """One loss per row."""
    if F.shape[-1] == 1:
        return (np.logaddexp(0.0, F) - Y * F)[..., 0]
    # shares add to 1, so a score may be measured from the largest
    F = _apart(F)
    F -= F.max(axis=0)
    ahead = (_by_class(Y) * F).sum(axis=0)
    return np.log(np.exp(F, out=F).sum(axis=0)) - ahead


def curvature(P: np.ndarray) -> np.ndarray:
    """Trace of the second derivative: how unsure a row is."""
    return (P * (1.0 - P)).sum(axis=-1)


def curved(P: np.ndarray, U: np.ndarray) -> np.ndarray:
    """``(diag p − ppᵀ) u`` of every row."""
    if P.shape[1] == 1:
        return P * (1.0 - P) * U
    E = P.T * U.T
    E -= P.T * E.sum(axis=0)
    return E.T


def second_derivative(P: np.ndarray) -> np.ndarray:
    """``diag p − ppᵀ`` of every row, ``[row, class, class]``."""
    if P.shape[1] == 1:
        return (P * (1.0 - P))[:, :, None]
    return P[:, :, None] * (np.eye(P.shape[1]) - P[:, None, :])


def log_odds(y: np.ndarray) -> np.ndarray:
    """Scores, with mean 0 over the classes, whose proportions are ``y``; none is below 1e-12."""
    y = np.clip(y, 1e-12, 1.0 - 1e-12)
    if y.shape[-1] == 1:
        return np.log(y) - np.log1p(-y)
    f = np.log(y)
    return f - f.mean(axis=-1, keepdims=True)


class WeightedLogLoss:
    """``Σ w ℓ(F)`` of rows with shares ``Y`` and weights ``w``, and its derivative by the scores."""

    Y: np.ndarray
    w: np.ndarray

    def loss(self, F: np.ndarray) -> float:
        """The sum at these scores."""
        return float(self.w @ losses(self.Y, F))

    def pull(self, F: np.ndarray) -> np.ndarray:
        """``w (p − y)`` of every row."""
        return (proportions(F) - self.Y) * self.w[:, None]

    def slope(self, F: np.ndarray, shift: np.ndarray) -> float:
        """Derivative of the sum where scores are shifted like this."""
        return float(np.vdot(self.pull(F), shift))


def frequencies(n_classes: int, indices: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Frequencies of the classes, and the least share of them in probabilities.

    One more row, which is of every class, keeps the ones away from 0 and the others away from certainty.
    """
    total = float(weight.sum())
    count = max(total, float(len(weight)))
    seen = np.bincount(indices, weight, minlength=n_classes) / total * count
    return (seen + 1.0 / n_classes) / (count + 1.0), 1.0 / (count + 1.0)
