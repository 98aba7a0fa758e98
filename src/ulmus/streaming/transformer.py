"""The user's transformer: fitted before the first pass, used on every batch."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ulmus.features.sampling import row_keys
from ulmus.streaming.arrays import joined, taken
from ulmus.streaming.batches import Batch, RowSource, batches, read_ahead
from ulmus.streaming.progress import Progress, Show


def fit_transformer(
    transformer: Any, source: RowSource, *, batch_rows: int, sample_rows: int, seed: int, progress: Show
) -> Any:
    """A fitted copy: as it is when fitted already, by ``partial_fit`` on all rows, or by ``fit`` on a sample."""
    try:
        check_is_fitted(transformer)
        return transformer
    except NotFittedError:
        transformer = clone(transformer)
    sample = Sample(sample_rows, seed)
    with Progress("preprocess", source.n_rows, progress) as bar:
        for batch in read_ahead(batches(source, batch_rows)):
            if hasattr(transformer, "partial_fit"):
                transformer.partial_fit(batch.X, batch.y)
            else:
                sample.add(batch)
            bar.advance(len(batch))
    return transformer if hasattr(transformer, "partial_fit") else transformer.fit(sample.X, sample.y)


class Sample:
    """A uniform sample of rows of any kind, by keys of their numbers."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self.keys: np.ndarray = np.empty(0, np.uint64)
        self.X: Any = None
        self.y: Any = None

    def add(self, batch: Batch) -> None:
        """Take the rows with the smallest keys so far."""
        keys = row_keys(batch.numbers.astype(np.float64)[:, None], self.seed)
        near = np.flatnonzero(keys < self.keys[-1]) if len(self.keys) == self.count else np.arange(len(keys))
        if not len(near):
            return
        X, y = taken(batch.X, near), None if batch.y is None else batch.y[near]
        all_keys = np.append(self.keys, keys[near])
        order = np.argsort(all_keys, kind="stable")[: self.count]
        self.keys = all_keys[order]
        self.X = taken(X if self.X is None else joined([self.X, X]), order)
        self.y = None if y is None else (y if self.y is None else np.concatenate([self.y, y]))[order]
