"""Tables that are hard on intervals and probabilities: 30 pairs of inputs and responses."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rng = np.random.Generator


@dataclass(frozen=True)
class Table:
    """Rows of a table: inputs, a noise-free response, its noise, and the group of every row where there are groups."""

    X: np.ndarray
    signal: np.ndarray
    noise: np.ndarray
    groups: np.ndarray | None = None

    def take(self, rows: slice) -> "Table":
        groups = None if self.groups is None else self.groups[rows]
        return Table(self.X[rows], self.signal[rows], self.noise[rows], groups)


def gaussian(rng: Rng, n: int) -> np.ndarray:
    return rng.normal(size=(n, 5))


def one_column(rng: Rng, n: int) -> np.ndarray:
    return rng.uniform(-3, 3, (n, 1))


def wide(rng: Rng, n: int) -> np.ndarray:
    return rng.normal(size=(n, 40))


def far(rng: Rng, n: int) -> np.ndarray:
    """A row in twenty lies far from all others."""
    return rng.normal(size=(n, 4)) * np.where(rng.uniform(size=(n, 1)) < 0.05, 8.0, 1.0)


def heavy(rng: Rng, n: int) -> np.ndarray:
    return rng.standard_t(2.5, size=(n, 4))


def skewed(rng: Rng, n: int) -> np.ndarray:
    return rng.lognormal(size=(n, 4))


def rare(rng: Rng, n: int) -> np.ndarray:
    """Marks that a row in hundred has, in units of their deviation."""
    marks = (rng.uniform(size=(n, 25)) < 0.01) / 0.1
    return np.column_stack([rng.normal(size=(n, 4)), marks])


def levels(rng: Rng, n: int) -> np.ndarray:
    return rng.integers(0, 3, (n, 3)).astype(float)


def binary(rng: Rng, n: int) -> np.ndarray:
    return rng.integers(0, 2, (n, 12)).astype(float)


def repeated(rng: Rng, n: int) -> np.ndarray:
    """Every third row is a copy of another."""
    X = rng.normal(size=(n, 3))
    again = rng.uniform(size=n) < 0.33
    X[again] = X[rng.integers(0, n, again.sum())]
    return X


def collinear(rng: Rng, n: int) -> np.ndarray:
    Z = rng.normal(size=(n, 3))
    return np.column_stack([Z, Z @ rng.normal(size=(3, 3)) + 1e-6 * rng.normal(size=(n, 3))])


def clusters(rng: Rng, n: int) -> np.ndarray:
    centre = 4 * np.random.default_rng(0).normal(size=(6, 3))
    return centre[rng.integers(0, 6, n)] + 0.3 * rng.normal(size=(n, 3))


def constant_columns(rng: Rng, n: int) -> np.ndarray:
    return np.column_stack([rng.normal(size=(n, 2)), np.full((n, 2), 7.0), np.zeros(n)])


def units(rng: Rng, n: int) -> np.ndarray:
    """The column that matters is the smallest."""
    return rng.normal(size=(n, 3)) * [1.0, 3.0, 10.0]


def smooth(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f = np.sin(1.5 * X[:, 0]) + (X[:, 1] if X.shape[1] > 1 else 0.0)
    return f, 0.3 * rng.normal(size=len(X))


def exact(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return smooth(rng, X)[0], 1e-3 * rng.normal(size=len(X))


def product(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X[:, 0] * X[:, -1], 0.1 * rng.normal(size=len(X))


def step(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sign(X[:, 0] - np.median(X[:, 0])) * 2.0, 0.2 * rng.normal(size=len(X))


def nothing(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(X)), rng.normal(size=len(X))


def tails(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return smooth(rng, X)[0], 0.3 * rng.standard_t(2, size=len(X))


def one_sided(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return smooth(rng, X)[0], rng.exponential(size=len(X)) - 1.0


def widening(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return smooth(rng, X)[0], (0.1 + np.minimum(np.abs(X[:, 0]), 3.0)) * rng.normal(size=len(X))


def inflated(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts, more than half of which are 0."""
    rate = np.exp(np.clip(0.5 * X[:, 0] - 0.5, -3.0, 2.0))
    count = rng.poisson(rate) * (rng.uniform(size=len(X)) < 0.5)
    return rate / 2, count - rate / 2


def rounded(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f, noise = smooth(rng, X)
    return f, np.round(f + noise) - f


#: Name → inputs and response.
PAIRS: dict[
    str, tuple[Callable[[Rng, int], np.ndarray], Callable[[Rng, np.ndarray], tuple[np.ndarray, np.ndarray]]]
] = {
    f"{inputs.__name__} {response.__name__}": (inputs, response)
    for inputs, response in [
        (gaussian, smooth),
        (gaussian, exact),
        (gaussian, product),
        (gaussian, step),
        (gaussian, nothing),
        (gaussian, tails),
        (gaussian, one_sided),
        (gaussian, widening),
        (gaussian, inflated),
        (gaussian, rounded),
        (one_column, smooth),
        (one_column, exact),
        (one_column, widening),
        (wide, smooth),
        (wide, nothing),
        (far, smooth),
        (far, exact),
        (heavy, smooth),
        (heavy, tails),
        (skewed, smooth),
        (rare, smooth),
        (rare, step),
        (levels, smooth),
        (levels, rounded),
        (binary, product),
        (repeated, smooth),
        (collinear, smooth),
        (clusters, step),
        (constant_columns, smooth),
        (units, exact),
    ]
}


def table(name: str, rng: Rng, n: int, group_size: int = 1) -> Table:
    """``n`` rows; of groups, whose rows lie close together and share an offset, where they have more than one."""
    inputs, response = PAIRS[name]
    if group_size == 1:
        X = inputs(rng, n)
        return Table(X, *response(rng, X))
    groups = np.repeat(np.arange(-(-n // group_size)), group_size)[:n]
    X = inputs(rng, groups[-1] + 1)[groups]
    X = X + 0.02 * rng.normal(size=X.shape)
    signal, noise = response(rng, X)
    return Table(X, signal, noise + rng.normal(size=groups[-1] + 1)[groups], groups)
