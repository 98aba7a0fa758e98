r"""The nearest answers on a grid that do not fall along any of its axes.

Along one axis that is isotonic regression. Along several, Dykstra's sweeps over the axes converge to the projection;
what they leave is taken away by the mean of the smallest rising function above and the largest one below. Where the
truth rises, projecting an estimate of it brings it nearer, never further, in the mean square over the grid: the truth
lies in the convex cone that is projected on.

References
----------
R. Dykstra, T. Robertson (1982). An algorithm for isotonic regression for two or more independent variables. Annals of
Statistics 10(3).

V. Chernozhukov, I. Fernández-Val, A. Galichon (2009). Improving point and interval estimators of monotone functions by
rearrangement. Biometrika 96(3).
"""

import numpy as np

#: Sweeps over the axes, at most; they end when none changes by more than this share of the range of answers.
SWEEPS, CHANGE = 30, 1e-3


def isotonic(F: np.ndarray) -> np.ndarray:
    """For every row, the tensor of answers ``F[row]`` with the least change after which it rises along all axes.

    Rows do not hang on each other: each has as many sweeps as it needs.
    """
    axes = range(1, F.ndim)
    if len(axes) < 2:
        return isotonic_lines(F) if axes else F
    out, moving, little = F.copy(), np.arange(len(F)), CHANGE * np.ptp(F.reshape(len(F), -1), axis=1)
    taken = [np.zeros_like(F) for _ in axes]
    for _ in range(SWEEPS):
        G = out[moving]
        for axis in axes:
            before = G + taken[axis - 1][moving]
            G = np.moveaxis(isotonic_lines(np.moveaxis(before, axis, -1)), -1, axis)
            taken[axis - 1][moving] = before - G
        change = np.abs(G - out[moving]).reshape(len(G), -1).max(axis=1)
        out[moving] = G
        moving = moving[change > little[moving]]
        if not len(moving):
            break
    return between_envelopes(out)


def isotonic_lines(F: np.ndarray) -> np.ndarray:
    """Isotonic regression along the last axis: neighbours that fall are pooled, in one pass over all lines."""
    from scipy.optimize import isotonic_regression

    falls = (np.diff(F, axis=-1) < 0).any(axis=-1)
    lines = F[falls]
    if not len(lines):
        return F
    level = np.ptp(lines, axis=1)[:, None]
    raised = (lines - lines.min(axis=1, keepdims=True)) / level + 2.0 * np.arange(len(lines))[:, None]  # each apart
    starts = isotonic_regression(raised.ravel()).blocks
    count = np.diff(starts)
    pooled = np.repeat(np.add.reduceat(lines.ravel(), starts[:-1]) / count, count).reshape(lines.shape)
    out = F.copy()
    out[falls] = np.maximum.accumulate(pooled, axis=-1)  # round-off
    return out


def between_envelopes(F: np.ndarray) -> np.ndarray:
    """The mean of the smallest rising function above and the largest one below, which rises."""
    above, below = F, F
    for axis in range(1, F.ndim):
        above = np.maximum.accumulate(above, axis=axis)
        below = np.flip(np.minimum.accumulate(np.flip(below, axis), axis=axis), axis)
    return (above + below) / 2


def largest_step_down(F: np.ndarray) -> float:
    """How far answers fall from one point of the grid to the next, at most; 0 where they rise."""
    return max((float(-np.diff(F, axis=axis).min(initial=0.0)) for axis in range(1, F.ndim)), default=0.0) + 0.0
