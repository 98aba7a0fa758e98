r"""The log loss of scores: softmax for several classes, logistic for two.

Targets are the ±1 codes of the classes, :math:`y = (1 + t)/2`: k columns for k ≥ 3 classes, one for two. A mean of
codes (equal rows merged into one) is a target like any other. With scores f,

.. math:: \ell = \log\textstyle\sum_c e^{f_c} - y^Tf \quad\text{or}\quad \log(1 + e^f) - yf,\qquad
   \frac{\partial\ell}{\partial f} = p - y,\qquad \frac{\partial^2\ell}{\partial f^2} = \operatorname{diag}p - pp^T
   \quad\text{or}\quad p(1-p).

All is computed from differences of scores, so that nothing overflows, however sure a model is.
"""

import numpy as np
from scipy.special import expit, softmax


def targets(T: np.ndarray) -> np.ndarray:
    """Shares ``y`` of ±1 codes."""
    return 0.5 * (1.0 + T)


def proportions(F: np.ndarray) -> np.ndarray:
    """``p``: of every class, or of the second of two."""
    return expit(F) if F.shape[-1] == 1 else softmax(F, axis=-1)


def class_proportions(F: np.ndarray) -> np.ndarray:
    """``p`` of every class, also for two."""
    return np.concatenate([expit(-F), expit(F)], axis=-1) if F.shape[-1] == 1 else softmax(F, axis=-1)


def losses(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """One loss per row."""
    if F.shape[-1] == 1:
        return (np.logaddexp(0.0, F) - Y * F)[..., 0]
    # shares add to 1, so a score may be measured from the largest
    F = F - F.max(axis=-1, keepdims=True)
    return np.log(np.exp(F).sum(axis=-1)) - (Y * F).sum(axis=-1)


def curvature(P: np.ndarray) -> np.ndarray:
    """Trace of the second derivative: how unsure a row is."""
    return (P * (1.0 - P)).sum(axis=-1)


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


def frequencies(n_classes: int, indices: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Frequencies of the classes, and the least share of them in probabilities.

    One more row, which is of every class, keeps the ones away from 0 and the others away from certainty.
    """
    total = float(weight.sum())
    count = max(total, float(len(weight)))
    seen = np.bincount(indices, weight, minlength=n_classes) / total * count
    return (seen + 1.0 / n_classes) / (count + 1.0), 1.0 / (count + 1.0)
