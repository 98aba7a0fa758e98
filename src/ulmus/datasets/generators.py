"""Artificial data with a known answer: a curve with outliers, rings, spirals, and a stream whose concept drifts."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

Part = tuple[np.ndarray, np.ndarray]

#: The two gross outliers of the robust regression document, as (x, y).
SINC_OUTLIERS = ((-11.0, 2.5), (0.0, -1.5))


def sinc(x: Any) -> np.ndarray:
    """``sin(x)/x``, 1 at 0."""
    return np.sinc(np.asarray(x, dtype=np.float64) / np.pi)


def make_sinc(n_samples: int = 300, *, noise: float = 0.1, outliers: bool = False, random_state: Any = None) -> Part:
    """Noisy ``sin(x)/x`` at random points of [-15, 15].

    Parameters
    ----------
    n_samples : int, default=300
    noise : float, default=0.1
        Standard deviation of Gaussian noise on the targets.
    outliers : bool, default=False
        Append the two gross outliers (-11, 2.5) and (0, -1.5).
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, 1), or two rows more
    y : ndarray

    Examples
    --------
    >>> from ulmus import datasets
    >>> X, y = datasets.make_sinc(outliers=True, random_state=0)
    >>> X.shape, y[-2:]
    ((302, 1), array([ 2.5, -1.5]))
    """
    rng = check_random_state(random_state)
    x = rng.uniform(-15.0, 15.0, n_samples)
    y = sinc(x) + noise * rng.standard_normal(n_samples)
    if outliers:
        far_x, far_y = np.array(SINC_OUTLIERS).T
        x, y = np.concatenate([x, far_x]), np.concatenate([y, far_y])
    return x[:, None], y


def make_rings(n_samples: int = 600, *, n_classes: int = 3, noise: float = 0.1, random_state: Any = None) -> Part:
    """Concentric rings in the plane, of radius 1, 2, 3, ...: no straight line separates them.

    Parameters
    ----------
    n_samples : int, default=600
    n_classes : int, default=3
    noise : float, default=0.1
        Standard deviation of the radius.
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from ulmus import datasets
    >>> X, y = datasets.make_rings(6, noise=0.0, random_state=0)
    >>> bool(abs((X**2).sum(axis=1) - (1.0 + y) ** 2).max() < 1e-12)
    True
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    radius = 1.0 + y + noise * rng.standard_normal(n_samples)
    angle = rng.uniform(0.0, 2 * np.pi, n_samples)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def make_spirals(
    n_samples: int = 600, *, n_classes: int = 2, turns: float = 2.0, noise: float = 0.02, random_state: Any = None
) -> Part:
    """Interleaved spirals in the plane, one per class.

    Parameters
    ----------
    n_samples : int, default=600
    n_classes : int, default=2
    turns : float, default=2
        How often each spiral goes round.
    noise : float, default=0.02
        Standard deviation of Gaussian noise on both coordinates; the spirals end at radius 1.
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from ulmus import datasets
    >>> X, y = datasets.make_spirals(100, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 2), [0, 1])
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    radius = np.sqrt(rng.uniform(0.02, 1.0, n_samples))
    angle = 2 * np.pi * (turns * radius + y / n_classes)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + noise * rng.standard_normal(X.shape), y


def make_drift(
    n_samples: int = 10_000,
    *,
    task: str = "classification",
    kind: str = "gradual",
    n_features: int = 5,
    noise: float = 0.05,
    random_state: Any = None,
) -> Part:
    """A stream, in order, whose concept turns by 180 degrees from the first row to the last.

    The concept is ``sin(3 u·x) + u⊥·x`` with a direction u that turns in the plane of the first two features; the other
    features are noise. Its sign is the class.

    Parameters
    ----------
    n_samples : int, default=10000
    task : {"classification", "regression"}, default="classification"
    kind : {"gradual", "abrupt"}, default="gradual"
        Turn steadily, or by a sudden half turn at the middle.
    n_features : int, default=5
        At least 2.
    noise : float, default=0.05
        Standard deviation of noise on a regression target; share of flipped labels in classification.
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from ulmus import datasets
    >>> X, y = datasets.make_drift(1000, kind="abrupt", noise=0.0, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 5), [0, 1])
    """
    if task not in {"classification", "regression"}:
        raise ValueError(f'task must be "classification" or "regression", got {task!r}')
    if kind not in {"gradual", "abrupt"}:
        raise ValueError(f'kind must be "gradual" or "abrupt", got {kind!r}')
    if n_features < 2:
        raise ValueError(f"n_features must be at least 2 (the concept turns in a plane), got {n_features}")
    rng = check_random_state(random_state)
    X = rng.uniform(-1.0, 1.0, (n_samples, n_features))
    time = np.arange(n_samples) / max(n_samples - 1, 1)
    angle = np.pi * (time if kind == "gradual" else time > 0.5)
    along = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]
    across = np.cos(angle) * X[:, 1] - np.sin(angle) * X[:, 0]
    concept = np.sin(3 * along) + across
    if task == "regression":
        return X, concept + noise * rng.standard_normal(n_samples)
    return X, ((concept > 0) ^ (rng.uniform(size=n_samples) < noise)).astype(np.int64)
