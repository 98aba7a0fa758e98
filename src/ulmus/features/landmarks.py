"""What rows say of a map before it is fitted: which of them become landmarks, and how wide the kernel is to begin with.

Strategies are a table. One returns an **ordered** choice, so that the first l landmarks are a sensible choice of l. All
but ``"all"`` start from a sample of distinct rows that depends on the rows and the seed alone
(:mod:`ulmus.features.sampling`).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from ulmus import engine
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernel_sampling import Pool, randomly_pivoted_cholesky, ridge_leverage, weighted_order
from ulmus.features.kernels import KERNELS, KernelLike, KernelParameters, dense, overflow, squared_norms, uses_gamma
from ulmus.features.sampling import distinct_rows, row_keys

#: Rows that a strategy looks at: this multiple of the landmarks wanted, less where the factor would pass these bytes.
POOL, POOL_BYTES = 10, 2**29
#: How near to a row the centre of that row alone is, as a share of the largest entry.
SAME = 1e-12
#: Entries of a sparse pool that k-means makes dense: ties among few rows must not hang on how the rows are given.
DENSE_POOL = 2**24


@dataclass(frozen=True)
class Draw:
    """What a strategy may use: the rows, how many are wanted, and the kernel they are wanted for."""

    X: Any
    count: int
    rng: np.random.RandomState
    weight: np.ndarray | None = None
    y: Any = None
    kernel: KernelLike = "rbf"
    parameters: KernelParameters = KernelParameters()  # noqa: RUF009 - frozen
    n_jobs: int | None = -1

    def pool(self) -> Pool:
        """Distinct rows in random order: about 10 for every landmark."""
        L = self.count
        size = max(2 * L, min(POOL * L, POOL_BYTES // (8 * L)))
        rows, weight = distinct_rows(self.X, size, self.weight, self.rng)
        return Pool(self.X[rows], weight / weight.max(), self.kernel, self.parameters, self.n_jobs)

    @property
    def positive_definite(self) -> bool:
        """What the table says of a named kernel; a callable is taken at its word."""
        return not isinstance(self.kernel, str) or KERNELS[self.kernel].positive_definite


@dataclass(frozen=True)
class Strategy:
    """A way to choose landmarks.

    ``definite``: it needs a positive definite kernel, and is uniform for others. ``labels``: it needs class labels.
    """

    name: str
    choose: Callable[[Draw], np.ndarray]
    definite: bool = False
    labels: bool = False

    def __call__(self, draw: Draw) -> np.ndarray:
        return (_uniform if self.definite and not draw.positive_definite else self.choose)(draw)


def _uniform(draw: Draw) -> np.ndarray:
    """Distinct rows, drawn uniformly (a row drawn twice would make the landmark kernel singular)."""
    return dense(draw.X[distinct_rows(draw.X, draw.count, draw.weight, draw.rng)[0]], np.float64)


def _all(draw: Draw) -> np.ndarray:
    """Every row once: the exact kernel, for small tables and for comparison. Copies are as a weight.

    Their order is that of keys which know neither the order of rows nor that of columns: where landmarks depend on
    others, those that come first are kept.
    """
    rows = np.arange(draw.X.shape[0]) if draw.weight is None else np.flatnonzero(draw.weight)
    keys, first = np.unique(row_keys(draw.X[rows], 0), return_index=True)
    Z = dense(draw.X[rows[first]], np.float64)
    return np.asarray(Z[np.lexsort((keys, row_keys(np.sort(Z, axis=1), 0)))])


def _kmeans(draw: Draw) -> np.ndarray:
    """Centres of the pool, ordered by randomly pivoted Cholesky (at random where the kernel is not definite).

    In random order the first l of L centres explain hardly more than l uniform rows; in this one, as much as l centres.
    """
    pool = draw.pool()
    if len(pool) <= draw.count:
        return dense(pool.X, np.float64)
    # One thread: the sums of k-means depend on how many there are.
    ((Z, mass),) = engine.ordered_map(lambda X: _centres(X, pool.weight, draw.count, draw.rng), [pool.X], 1)
    order = draw.rng.permutation(len(Z))
    if draw.positive_definite:
        pivots = randomly_pivoted_cholesky(replace(pool, X=Z, weight=mass), len(Z), draw.rng).rows
        order = pivots if len(pivots) else order
    return Z[order]


def _centres(X: Any, weight: np.ndarray, count: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """A few passes of mini-batch k-means, from rows far apart, and the weight of the rows around each centre."""
    X = dense(X, np.float64) if np.prod(X.shape) <= DENSE_POOL else X
    given = X
    # Far from the origin, distances lose their digits.
    offset = 0.0 if sparse.issparse(X) else X.mean(axis=0, dtype=np.float64)
    X = X.astype(np.float64) - offset if not sparse.issparse(X) else X.astype(np.float64)
    from sklearn.cluster import MiniBatchKMeans, kmeans_plusplus

    start, _ = kmeans_plusplus(X, count, sample_weight=weight, random_state=rng, n_local_trials=1)
    # Reassigned centres would be copies of rows that are centres already.
    model = MiniBatchKMeans(
        count, init=start, n_init=1, max_iter=5, batch_size=2 * count, reassignment_ratio=0, random_state=rng
    ).fit(X, sample_weight=weight)
    mass = np.bincount(model.labels_, weight, minlength=count)
    Z = model.cluster_centers_ + offset
    # The centre of a row alone is that row but for round-off, and whether a landmark is a row must not hang on that.
    single = np.flatnonzero(np.bincount(model.labels_, minlength=count)[model.labels_] == 1)
    own, place = dense(given[single], np.float64), model.labels_[single]
    same = np.abs(own - Z[place]).max(axis=1, initial=0.0) <= SAME * np.abs(own).max(initial=0.0)
    Z[place[same]] = own[same]
    return Z, np.maximum(mass, weight.min())


def _rpcholesky(draw: Draw) -> np.ndarray:
    """Randomly pivoted Cholesky: rows that the ones before them explain badly."""
    pool = draw.pool()
    pivots = randomly_pivoted_cholesky(pool, draw.count, draw.rng).rows
    return pool.rows(pivots if len(pivots) else np.arange(1))


def _leverage(draw: Draw) -> np.ndarray:
    """Approximate ridge leverage scores from half as many uniform landmarks, so that they sum to about the count."""
    pool = draw.pool()
    score = ridge_leverage(pool, -(-draw.count // 2)).total
    return pool.rows(weighted_order(score, draw.rng)[: draw.count])


def _balanced(draw: Draw) -> np.ndarray:
    """Distinct rows of every class in turn; a class that has no more leaves its turns to the others."""
    X, y, weight = draw.X, draw.y, draw.weight
    labels = np.unique(y if weight is None else y[weight > 0])
    chosen, turn = [], []
    for label in draw.rng.permutation(labels):
        members = np.flatnonzero((y == label) & (True if weight is None else weight > 0))
        rows, _ = distinct_rows(X[members], draw.count, None, draw.rng)
        chosen.append(members[rows])
        turn.append(np.arange(len(rows)))
    order = np.concatenate(chosen)[np.argsort(np.concatenate(turn), kind="stable")]
    # A row that carries two labels is one landmark.
    first = np.unique(row_keys(X[order], 0), return_index=True)[1]
    return dense(X[order[np.sort(first)[: draw.count]]], np.float64)


STRATEGIES: dict[str, Strategy] = {
    s.name: s
    for s in (
        Strategy("uniform", _uniform),
        Strategy("kmeans", _kmeans),
        Strategy("rpcholesky", _rpcholesky, definite=True),
        Strategy("leverage", _leverage, definite=True),
        Strategy("balanced", _balanced, labels=True),
        Strategy("all", _all),
    )
}


def needs_labels(strategy: str | Any) -> bool:
    """Whether a strategy needs the classes of the rows."""
    return isinstance(strategy, str) and STRATEGIES[strategy].labels


def choose_landmarks(strategy: str | Any, draw: Draw) -> np.ndarray:
    """Landmark rows by a named strategy, or the user's own rows."""
    if isinstance(strategy, str):
        return STRATEGIES[strategy](replace(draw, y=_labels(strategy, draw)) if needs_labels(strategy) else draw)
    Z = dense(strategy, np.float64)
    if Z.ndim != 2 or Z.shape[1] != draw.X.shape[1] or not len(Z):
        raise ValueError(f"landmarks must be rows with {draw.X.shape[1]} features, got an array of shape {Z.shape}")
    if not np.isfinite(Z).all():
        raise ValueError("landmarks contain NaN or infinity")
    return Z


def _labels(strategy: str, draw: Draw) -> np.ndarray:
    """The classes of the rows, where there are such."""
    advice = "pass one class label per row; for other targets choose another strategy, such as landmarks='uniform'"
    if draw.y is None:
        raise ValueError(f"landmarks={strategy!r} requires y to be passed, but the target y is None; {advice}")
    kind = type_of_target(draw.y, input_name="y", raise_unknown=True)
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"landmarks={strategy!r} needs class labels as y, got targets of type {kind!r}; {advice}")
    y = column_or_1d(draw.y)
    if len(y) != draw.X.shape[0]:
        raise ValueError(f"y has {len(y)} labels for {draw.X.shape[0]} rows; {advice}")
    return y


def heuristic_gamma(
    kernel: KernelLike,
    X: Any,
    weight: np.ndarray | None,
    rng: np.random.RandomState,
    max_rows: int = 500,
) -> float:
    """A scale-aware start: one over the median (squared) distance, or over the mean squared norm."""
    if not uses_gamma(kernel):
        return 1.0
    assert isinstance(kernel, str)
    rows, w = distinct_rows(X, max_rows, weight, rng)
    S = dense(X[rows], np.float64)
    embedding = KERNELS[kernel].embedding
    with np.errstate(over="ignore"):
        if embedding in ("inner", "arc"):
            spread = float(np.average(squared_norms(S), weights=w))
        else:
            distances = pdist(S, {"rbf": "sqeuclidean", "laplacian_l1": "cityblock"}.get(kernel, "euclidean"))
            pairs = None if (w == w[0]).all() else np.multiply(*w[np.array(np.triu_indices(len(w), 1))])
            spread = _weighted_median(distances, pairs)
    if not np.isfinite(spread):
        raise ValueError(overflow(S))
    if spread > 1 / np.finfo(float).max:
        return 1.0 / spread
    if np.ptp(S, axis=0).any():
        warnings.warn(
            f"the rows differ by at most {np.ptp(S, axis=0).max():.3g}, too little for the kernel {kernel!r}, which "
            "sees them as one; standardise the features (sklearn.preprocessing.StandardScaler)",
            NumericalWarning,
            stacklevel=2,
        )
    return 1.0


def _weighted_median(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Median of the positive values; 0 when there is none."""
    keep = values > 0
    v = values[keep]
    if not len(v):
        return 0.0
    if weight is None:
        middle = (len(v) - 1) // 2
        return float(np.partition(v, middle)[middle])
    order = np.argsort(v)
    mass = np.cumsum(weight[keep][order])
    return float(v[order][np.searchsorted(mass, mass[-1] / 2)])
