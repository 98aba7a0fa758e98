"""Small data sets with known make-up, and which cases of a table run when; shared by all tests."""

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse


def cases(names, *kept):
    """Parameters of a test: ``make test`` runs those that are kept (or the first), ``make test-all`` the others too."""
    names = list(names)
    kept = kept or names[:1]
    assert all(name in names for name in kept)
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


def examples(count):
    """Examples of a property: as many in ``make test-all``, two fifths of them (of more than five) in ``make test``."""
    return max(min(count, 5), count * settings().max_examples // 100)


def rows(n, m, seed=0):
    """Standard normal rows."""
    return np.random.RandomState(seed).normal(size=(n, m))


def sparse_rows(n, m, seed=0, density=0.3):
    """Rows of which most entries are zero, and some are zero altogether, as a dense array."""
    X = sparse.random(n, m, density, random_state=np.random.RandomState(seed)).toarray()
    X[:2] = 0.0
    return X


def regression(n, m=3, outputs=1, noise=0.1, seed=0):
    """Inputs and smooth noisy targets."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, m))
    T = np.column_stack([np.sin((j + 1) * X).sum(axis=1) + j for j in range(outputs)])
    T += noise * rng.normal(size=T.shape)
    return X, (T[:, 0] if outputs == 1 else T)


def classification(n, m=3, classes=3, seed=0):
    """Inputs and integer labels that depend on them."""
    X = rows(n, m, seed)
    score = X[:, 0] + np.sin(2 * X[:, 1])
    cuts = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return X, np.searchsorted(cuts, score)


def relative_error(actual, expected):
    """Largest difference over the largest expected value."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    return np.abs(actual - expected).max() / max(np.abs(expected).max(), np.finfo(float).tiny)
