"""Generalised Procrustes alignment: many pictures of the same points, turned to agree."""

import numpy as np
from scipy.linalg import eigh, svd

#: Rounds of turning to the mean; the first few do nearly all.
ROUNDS = 20
#: Relative change of the disagreement at which turning stops.
STILL = 1e-10


def turn(A: np.ndarray, B: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The orthogonal matrix Q that brings ``A Q`` nearest to ``B``, points weighed by ``mass``."""
    U, _, Vt = svd(A.T @ (mass[:, None] * B), full_matrices=False, check_finite=False)
    return U @ Vt


def align(pictures: np.ndarray, weight: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """One orthogonal matrix per centred picture ``[picture, point, axis]``, so that the turned pictures agree best.

    ``weight`` is that of the pictures in their mean, ``mass`` that of the points. The mean picture is laid along its
    own principal axes, longest first, each pointing to where its third moment is positive: the frame does not depend
    on which picture came first.
    """
    mean = pictures[int(np.argmax(weight))]
    before = np.inf
    for _ in range(ROUNDS):
        turns = np.stack([turn(Z, mean, mass) for Z in pictures])
        turned = pictures @ turns
        mean = np.tensordot(weight, turned, axes=1) / weight.sum()
        apart = float((mass[:, None] * (turned - mean) ** 2).sum())
        if apart >= before * (1 - STILL):
            break
        before = apart
    axes = eigh(mean.T @ (mass[:, None] * mean))[1][:, ::-1]
    axes = axes * np.where(mass @ (mean @ axes) ** 3 < 0, -1.0, 1.0)
    return turns @ axes


def distance(A: np.ndarray, B: np.ndarray) -> float:
    """Procrustes distance of two pictures of the same points: 0 equal but for place, size and turn, 1 unrelated."""
    A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    s = svd(A.T @ B, compute_uv=False, check_finite=False).sum()
    return float(1 - s**2 / ((A**2).sum() * (B**2).sum()))
