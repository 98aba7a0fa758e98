"""From class probabilities to a class: the likeliest, the most above its frequency, or that of least expected cost."""

from typing import Any

import numpy as np


def decide(P: np.ndarray, decision: Any = "accuracy", frequencies: np.ndarray | None = None) -> np.ndarray:
    """Positions of the classes that probabilities ``P[row, class]`` decide for.

    ``"accuracy"`` takes the likeliest class, ``"balanced"`` that which is most above its frequency (it maximises the
    mean recall of the classes), and a matrix ``cost[true, predicted]`` the class of least expected cost.
    """
    if isinstance(decision, str):
        if decision == "accuracy":
            return P.argmax(axis=1)
        if decision == "balanced":
            if frequencies is None:
                raise ValueError('decision="balanced" needs the class frequencies')
            return (P / np.maximum(frequencies, np.finfo(float).tiny)).argmax(axis=1)
        raise ValueError(f'decision must be "accuracy", "balanced" or a cost matrix, got {decision!r}')
    cost, k = np.asarray(decision, float), P.shape[1]
    if cost.shape != (k, k) or not np.isfinite(cost).all():
        raise ValueError(
            f"a cost matrix has one finite cost[true, predicted] for every two of the {k} classes, "
            f"got an array of shape {cost.shape}"
        )
    return (P @ cost).argmin(axis=1)
