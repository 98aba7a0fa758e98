"""From the features that a model sees back to the columns of the table that they were made of."""

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from ulmus.features.dates import DateParts
from ulmus.features.table_encoder import TableEncoder


def sources(transformer: Any, n_inputs: int) -> np.ndarray | None:
    """The input behind every output of a fitted transformer; None where one may have several, or it is not known."""
    if transformer is None or transformer == "passthrough":
        return np.arange(n_inputs)
    if isinstance(transformer, Pipeline):
        found: np.ndarray | None = np.arange(n_inputs)
        for _, step in transformer.steps:
            assert found is not None
            here = sources(step, len(found))
            found = None if here is None else found[here]
            if found is None:
                return None
        return found
    if isinstance(transformer, ColumnTransformer):
        return _of_columns(transformer)
    if isinstance(transformer, OneHotEncoder):
        return np.repeat(np.arange(n_inputs), _levels(transformer))
    if isinstance(transformer, SimpleImputer):
        return _imputed(transformer)
    if isinstance(transformer, TableEncoder):
        return np.asarray(transformer.inputs_)
    if isinstance(transformer, DateParts):
        return np.repeat(np.arange(n_inputs), [1 + 2 * len(periods) for periods in transformer.periods_])
    if isinstance(transformer, OneToOneFeatureMixin):
        return np.arange(n_inputs)
    return None


def _of_columns(transformer: ColumnTransformer) -> np.ndarray | None:
    names = list(getattr(transformer, "feature_names_in_", []))
    out = np.full(max((where.stop for where in transformer.output_indices_.values()), default=0), -1)
    for name, fitted, columns in transformer.transformers_:
        where = transformer.output_indices_[name]
        if where.stop == where.start:
            continue
        inputs = np.atleast_1d(np.asarray(_positions(columns, names, transformer.n_features_in_)))
        found = np.zeros(where.stop - where.start, np.intp) if len(inputs) == 1 else sources(fitted, len(inputs))
        if found is None or len(found) != where.stop - where.start:
            return None
        out[where] = inputs[found]
    return out


def _positions(columns: Any, names: list[str], width: int) -> np.ndarray:
    """Places of columns that are given by name, number, mask or slice."""
    if isinstance(columns, slice):
        ends = [names.index(end) if isinstance(end, str) else end for end in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):
            ends[1] += 1
        return np.arange(width)[ends[0] : ends[1] : columns.step]
    given = np.atleast_1d(np.asarray(columns))
    if given.dtype.kind in "UO":
        return np.array([names.index(name) for name in given])
    return np.arange(width)[given]


def _levels(encoder: OneHotEncoder) -> list[int]:
    """Outputs of every input: its levels, rare ones together, less one that is dropped."""
    rare = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    counts = [
        len(levels) if few is None else len(levels) - len(few) + 1
        for levels, few in zip(encoder.categories_, rare, strict=True)
    ]
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(counts)
    return [count - (which is not None) for count, which in zip(counts, dropped, strict=True)]


def _imputed(imputer: SimpleImputer) -> np.ndarray:
    """Inputs that are not empty, then marks of those in which some are missing."""
    kept = np.arange(imputer.n_features_in_)
    if not imputer.keep_empty_features:
        empty = [value is None or (isinstance(value, float) and np.isnan(value)) for value in imputer.statistics_]
        kept = kept[~np.array(empty)]
    marks = imputer.indicator_.features_ if imputer.add_indicator else np.empty(0, np.intp)
    return np.append(kept, marks).astype(np.intp)
