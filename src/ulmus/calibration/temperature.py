"""Probabilities from the scores of rows under models that did not see them."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax


def fit_temperature(class_scores: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> float:
    """Factor ``a`` that makes ``softmax(a · scores)`` most likely; the order of the classes does not change."""
    rows = np.arange(len(indices))

    def negative_log_likelihood(log_a: float) -> float:
        return -float(np.average(log_softmax(np.exp(log_a) * class_scores, axis=1)[rows, indices], weights=weight))

    return float(np.exp(minimize_scalar(negative_log_likelihood, bounds=(-6.0, 8.0), method="bounded").x))


def probabilities(class_scores: np.ndarray, temperature: float) -> np.ndarray:
    """``softmax(temperature · scores)``."""
    return softmax(temperature * class_scores, axis=1)
