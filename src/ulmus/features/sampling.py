"""Samples of rows that depend on what the rows are, not on where they stand.

Every distinct row gets a pseudo-random key, a hash of its values and of the seed; a sample is the rows with the
smallest keys. It is uniform over the distinct rows, comes in random order (so that prefixes are samples too), and is
the same whether a row is repeated k times or weighs k, however rows are permuted, for dense and sparse input alike.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ulmus import engine
from ulmus.engine import Rows

_U = np.uint64
#: Rows whose keys are held at a time.
PIECE_ROWS = 2**19
#: Rows of a learner whose keys are made at once.
KEYED_ROWS = 2**14
#: Tiles whose keys a thread makes in one go.
TILES_EACH = 16
#: Rows up to which copies are looked for: one row among more has so little leverage that its copies do not matter.
MOST_COMPARED = 2**22
#: Rows of a sample from which others are drawn, and how many times as many there must be.
DRAWN_FROM, MANY_TIMES = 2**18, 16
#: Distinct rows below which rows may be equal by chance.
FEW = 30
#: Sums of weights that differ by this share are the same.
EQUAL = 1e-9


def _mix(h: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words that spreads every bit and keeps 0."""
    h ^= h >> _U(32)
    h *= _U(0xD6E8FEB86659FD93)
    h ^= h >> _U(32)
    h *= _U(0xD6E8FEB86659FD93)
    h ^= h >> _U(32)
    return h


def _words(values: Any) -> np.ndarray:
    """Bit patterns of float64 values with their upper half spread downwards; 0 and -0 both become 0."""
    h = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    h ^= h >> _U(32)
    return h


@lru_cache(maxsize=64)
def key_constants(n_features: int, seed: int) -> tuple[np.ndarray, np.uint64]:
    """The odd factors of the features and the offset that make the keys of a seed."""
    rng = np.random.RandomState(seed)
    odd = rng.randint(0, 2**63 - 1, size=n_features, dtype=np.int64).astype(np.uint64) * _U(2) + _U(1)
    return odd, _U(rng.randint(1, 2**31))


def row_keys(X: Any, seed: int, n_jobs: int | None = -1) -> np.ndarray:
    """A 64-bit key per row; equal rows have equal keys."""
    odd, offset = key_constants(X.shape[1], seed)
    factors = odd * _U(0xD6E8FEB86659FD93)
    if sparse.issparse(X):
        terms = np.append(_words(X.data) * factors[X.indices], _U(0))
        keys = np.add.reduceat(terms, X.indptr[:-1])
        keys[np.diff(X.indptr) == 0] = 0
    else:
        keys = np.empty(X.shape[0], np.uint64)

        height = engine.tile_rows(X.shape[1], np.float64)

        def work(share: slice) -> None:
            for start in range(share.start, share.stop, height):
                tile = slice(start, min(start + height, share.stop))
                some = X[tile]
                keys[tile] = some.words_by(factors) if isinstance(some, _Pairs) else _words(some) @ factors  # mod 2⁶⁴

        # a tile stays in cache, but takes too little time to be a task
        engine.on_threads(work, list(engine.pieces(X.shape[0], TILES_EACH * height)), n_jobs)
    return _mix(keys + offset)


def column_ranks(X: np.ndarray) -> np.ndarray:
    """Values as their ranks among those of the column, which no units change."""
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in X.T]).astype(np.float64)


def keys_in_any_order(X: np.ndarray) -> np.ndarray:
    """Keys of a few rows that are the same in whatever order columns come; equal rows have equal keys.

    A column is known by the values in it, and by what stands beside them; copies of a row say nothing more. Where
    columns may change places without changing the set of rows, rows that then change places have equal keys too.
    """
    distinct = _mix(_words(X[np.unique(row_keys(X, 0), return_index=True)[1]]))
    column = np.zeros(X.shape[1], np.uint64)
    for _ in range(3):
        keys = _mix(distinct * (column | _U(1))).sum(axis=1, dtype=np.uint64)
        column = _mix(_mix(distinct + keys[:, None]).sum(axis=0, dtype=np.uint64))
    return _mix(_mix(_mix(_words(X)) * (column | _U(1))).sum(axis=1, dtype=np.uint64))


def row_hashes(rows: Rows, identity: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
    """One key per row, of its inputs, its target's ``identity`` and its weight; none is 0."""
    keys = np.empty(len(rows), np.uint64)
    for piece in engine.pieces(len(rows), KEYED_ROWS):  # so that no more than the keys grows with the rows
        part = rows[piece]
        weight = part.weights
        beside = np.column_stack([identity[piece], weight])
        keys[piece] = row_keys(part.X, 0, n_jobs) + _U(3) * row_keys(beside, 1, n_jobs)
    keys[keys == 0] = 1
    return keys


def distinct_sample(rows: Rows, count: int, rng: np.random.RandomState) -> tuple[np.ndarray, Rows]:
    """Indices of up to ``count`` distinct rows in random order, and those rows, each with the weight of its copies."""
    index, mass = distinct_rows(rows.X, count, rows.weight, rng)
    return index, _weighted(rows, index, mass)


def _weighted(rows: Rows, index: np.ndarray, mass: np.ndarray) -> Rows:
    """These rows, each with the weight of its copies."""
    sample = rows.take(index)
    if rows.weight is None and (mass == 1).all():
        return sample
    unit = np.ones(len(index)) if sample.unit is None else sample.unit
    return replace(sample, weight=mass, unit=unit)


@dataclass(frozen=True)
class _Pairs:
    """Inputs beside what distinguishes equal ones, as keys see them."""

    X: np.ndarray
    targets: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.X), self.X.shape[1] + self.targets.shape[1]

    def __getitem__(self, rows: slice) -> "_Pairs":
        return _Pairs(self.X[rows], self.targets[rows])

    def words_by(self, factors: np.ndarray) -> np.ndarray:
        """Sums of words times factors, modulo 2⁶⁴."""
        d = self.X.shape[1]
        return np.asarray(_words(self.X) @ factors[:d] + _words(self.targets) @ factors[d:])


def _targets_and_folds(rows: Rows) -> np.ndarray:
    """What distinguishes rows with equal inputs: their targets, and the folds in which they are tested."""
    return rows.T if rows.fold is None else np.column_stack([rows.T, rows.fold])


def distinct_pairs(rows: Rows, count: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`distinct_rows`, but rows with equal inputs and other targets, or folds, are rows of their own."""
    return distinct_rows(_Pairs(rows.X, _targets_and_folds(rows)), count, rows.weight, rng)


def shuffled_sample(rows: Rows, count: int, rng: np.random.RandomState) -> Rows:
    """Up to ``count`` rows in random order, the first of which may be landmarks, whatever is done to the columns."""
    if rows.effective_count > count:
        index, mass = distinct_pairs(rows, count, rng)
        return _weighted(rows, index, mass)
    index, _ = distinct_rows(rows.X, len(rows), None, rng)
    copies = np.setdiff1d(np.arange(len(rows)), index)
    return rows.take(np.append(index, copies))


def fewer(rows: Rows, rng: np.random.RandomState) -> Rows:
    """The rows, or of very many a sample from which others are drawn: keys of all rows are made once."""
    return rows if len(rows) < MANY_TIMES * DRAWN_FROM else shuffled_sample(rows, DRAWN_FROM, rng)


def distinct_rows(
    X: Any, count: int, weight: np.ndarray | None, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of up to ``count`` distinct rows in random order, and the total weight of the copies of each."""
    seed = int(rng.randint(2**31 - 1))
    if hasattr(X, "rows_of_small_keys"):  # rows elsewhere, whose keys are best made where they are
        near = X.rows_of_small_keys(count, *key_constants(X.shape[1], seed), weight)
        index, mass = _distinct(X[near], count, None if weight is None else weight[near], seed)
        return near[index], mass
    return _distinct(X, count, weight, seed)


def _distinct(X: Any, count: int, weight: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    keys, index = np.empty(0, np.uint64), np.empty(0, np.intp)
    mass: np.ndarray = np.empty(0)
    # few rows first: most of the others then need not be sorted
    begin = min(PIECE_ROWS, 8 * count)
    pieces = [slice(0, min(begin, X.shape[0]))]
    pieces += [slice(begin + p.start, begin + p.stop) for p in engine.pieces(X.shape[0] - begin, PIECE_ROWS)]
    for piece in pieces:
        new = row_keys(X[piece], seed)
        w = np.ones(len(new)) if weight is None else weight[piece]
        # a key that is not among the smallest so far never will be
        wanted = np.flatnonzero((w > 0) & (new <= keys[-1])) if len(keys) == count else np.flatnonzero(w > 0)
        keys, first, place = np.unique(np.append(keys, new[wanted]), return_index=True, return_inverse=True)
        index = np.append(index, piece.start + wanted)[first]
        mass = np.bincount(place, weights=np.append(mass, w[wanted]), minlength=len(keys))
        keys, index, mass = keys[:count], index[:count], mass[:count]
    return index, mass


def left_out_together(
    X: Any, T: np.ndarray, weight: np.ndarray | None, one: np.ndarray | None = None
) -> np.ndarray | None:
    """The weight that goes when a row is left out: that of all its copies. None means 1 for every row.

    Rows with equal inputs and equal targets are copies of one, as a weight is: were only one of them left out, models
    would be scored on rows that they know. But inputs of few levels meet by chance: where there are only such columns
    (:func:`meet_by_chance`), or most rows with equal inputs differ in their targets, equal rows are observations of
    their own, and leave one at a time. ``one`` is the weight of a single one, where it is known: weights may be counts
    times class weights, and rows are then counted by what one weighs.
    """
    count = np.ones(len(T)) if weight is None else weight if one is None else weight / one
    if one is None and weight is not None:
        one = np.minimum(weight, 1.0)
    if len(T) > MOST_COMPARED:
        return one
    X = np.asarray(X) if hasattr(X, "rows_of_small_keys") else X
    keys = row_keys(X, 0)
    if weight is None and not _meet(keys):
        return None
    copy = _copies(X, T, keys, count)
    return one if copy is None else np.asarray(np.bincount(copy, weight)[copy], dtype=np.float64)


def _copies(X: Any, T: np.ndarray, keys: np.ndarray, count: np.ndarray) -> np.ndarray | None:
    """The number of the row that each one is a copy of; None where equal rows are observations of their own."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    if meet_by_chance(X[first]):
        return None
    _, copy = np.unique(_keys_of_both(keys, T), return_inverse=True)
    of_inputs, of_copies = (np.bincount(number, count)[number] for number in (place, copy))
    return copy if copies_agree(count, of_inputs, of_copies) else None


def are_observations(rows: Rows) -> bool:
    """Whether there are rows with equal inputs, and they are observations of their own (:func:`left_out_together`)."""
    unit = 1.0 if rows.unit is None else rows.unit
    count = rows.weights / unit if (unit < (1 - EQUAL) * rows.weights).any() else rows.weights
    keys = row_keys(rows.X, 0)
    if len(rows) > MOST_COMPARED or not (_meet(keys) or (count > 1 + EQUAL).any()):
        return False
    return _copies(rows.X, rows.T, keys, count) is None


def alone(rows: Rows) -> np.ndarray:
    """Whether no row of the same inputs is left when this one is left out."""
    X = np.asarray(rows.X) if hasattr(rows.X, "rows_of_small_keys") else rows.X
    _, place = np.unique(row_keys(X, 0), return_inverse=True)
    unit = 1.0 if rows.unit is None else rows.unit
    return np.asarray(unit >= (1 - EQUAL) * np.bincount(place, rows.weight)[place])


def _keys_of_both(keys: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Keys of inputs and targets together, from those of the inputs."""
    return joint_keys(keys, row_keys(T, 1))


def joint_keys(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Keys of pairs, from the keys of either."""
    return _mix(keys * _U(0x9E3779B97F4A7C15) + others)


def label_keys(y: np.ndarray) -> np.ndarray:
    """A 64-bit key per target: of numbers by their values, of other labels by what they are called."""
    if y.dtype.kind in "biuf":
        return row_keys(y.reshape(len(y), -1), 1)
    labels, place = np.unique(y.astype(str), return_inverse=True)
    called = [hashlib.blake2b(label.encode(), digest_size=8).digest() for label in labels]
    return np.frombuffer(b"".join(called), np.uint64)[place.reshape(len(y), -1)].sum(axis=1, dtype=np.uint64)


def _has_copies(X: Any) -> bool:
    """Whether any two rows are equal."""
    return _meet(row_keys(X, 0))


def _meet(keys: np.ndarray) -> bool:
    """Whether any two keys are equal."""
    keys = np.sort(keys)
    return any((keys[p][1:] == keys[p][:-1]).any() for p in _overlapping(len(keys)))


def distinct_keys(X: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The key of every row, and those that there are, sorted."""
    keys = row_keys(X, seed)
    known = np.sort(keys)
    return keys, known[np.append(True, known[1:] != known[:-1])[: len(known)]]


def distinct_count(X: Any, enough: int) -> int:
    """Number of distinct rows, or some number above ``enough`` where there are so many."""
    rows = 2 * enough
    while True:
        count = len(distinct_keys(X[:rows], 0)[1])
        if count >= enough or rows >= X.shape[0]:
            return count
        rows *= 8


def _overlapping(n: int) -> Iterator[slice]:
    """Pieces that share one row with the next."""
    return (slice(p.start, p.stop + 1) for p in engine.pieces(n, PIECE_ROWS))


def meet_by_chance(X: Any) -> bool:
    """Whether distinct rows are so few, or have so few levels in every column, that equal rows may be a chance.

    Rows of continuous columns meet because they are copies.
    """
    n = X.shape[0]
    if sparse.issparse(X):
        C = sparse.csc_array(X)
        columns = (C.data[a:b] for a, b in pairwise(C.indptr.tolist()))
    else:
        columns = (X[:, j] for j in range(X.shape[1]))
    return n < FEW or all(2 * (len(np.unique(column)) + (len(column) < n)) <= n for column in columns)


def copies_agree(weight: np.ndarray, of_inputs: np.ndarray, of_copies: np.ndarray) -> bool:
    """Whether most rows that share their inputs share their targets too: the weights of both, for every row."""
    several = of_inputs > 1 + EQUAL
    differ = several & (of_copies < (1 - EQUAL) * of_inputs)
    return bool(2 * weight[differ].sum() <= weight[several].sum())


def gathered(rows: Rows) -> Rows:
    """Rows with equal inputs and equal targets as one that weighs as much; then weights are the same as copies.

    Rows of different folds stay apart.
    """
    plain = rows.weight is None or bool((rows.weight == 1).all())
    if plain and not _has_copies(rows.X):
        return Rows(rows.X, rows.T, fold=rows.fold)
    keys = _keys_of_both(row_keys(rows.X, 0), _targets_and_folds(rows))
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return replace(rows.take(first), weight=np.bincount(place, rows.weight).astype(np.float64))


def merged(rows: Rows, rng: np.random.RandomState) -> Rows:
    """Equal rows as one, with their mean target, their total weight, and the place of the first."""
    keys = row_keys(rows.X, int(rng.randint(2**31 - 1)))
    if not _meet(keys):
        if rows.weight is None:
            return rows
        first = np.argsort(keys)  # the order in which copies would be
        T, mass = rows.T[first], rows.weight[first]
    else:
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        w = rows.weights
        mass = np.bincount(place, weights=w)
        T = np.column_stack([np.bincount(place, weights=w * t) / mass for t in rows.T.T])
    return Rows(rows.X[first], T, mass, place=None if rows.place is None else rows.place[first])
