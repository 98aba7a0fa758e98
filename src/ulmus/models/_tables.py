"""Frames of every kind of column: :class:`~ulmus.features.table_encoder.TableEncoder` makes them numbers and codes.

Missing values stay what they are; :mod:`ulmus.features.preparation` sees to them. Arrays are taken as they are.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ulmus.features.frames import frame_of
from ulmus.features.table_encoder import TableEncoder
from ulmus.models.adaptive_fit import TableColumns


def read_table(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, TableColumns]:
    """Numbers and targets of the rows that a model is fitted to, and what the columns are."""
    if sparse.issparse(X):
        raise TypeError(f"Sparse data is not supported by {type(model).__name__}; pass a dense table (X.toarray())")
    frame, encoder = frame_of(X), None
    if frame is not None and len(frame) and frame.columns:
        encoder = encoder_for(model, [str(name) for name in frame.columns]).fit(X, sample_weight=sample_weight)
        X = encoder.transform(X)
    return read_numbers(model, X, y, encoder)


def read_numbers(
    model: Any, X: Any, y: Any, encoder: TableEncoder | None
) -> tuple[np.ndarray, np.ndarray, TableColumns]:
    """The same of rows that are numbers and codes already, by the encoder if there is one."""
    X, y = model._validate(X, y)
    if encoder is None:
        return X, y, TableColumns(None, named(model.categorical_features, X.shape[1], []), np.arange(X.shape[1]))
    model.n_features_in_ = encoder.n_features_in_
    if hasattr(encoder, "feature_names_in_"):
        model.feature_names_in_ = encoder.feature_names_in_
    return X, y, TableColumns(encoder, encoder.categorical_, encoder.inputs_)


def encoder_for(model: Any, names: list[str]) -> TableEncoder:
    """The encoder that was given, or a new one; columns that are named categories are some."""
    given = TableEncoder(random_state=0) if model.encoder is None else clone(model.encoder)
    is_named = named(model.categorical_features, len(names), names)
    codes = [name for name, is_code in zip(names, is_named, strict=True) if is_code]
    return given.set_params(prepared=False, kinds={**(given.kinds or {}), **dict.fromkeys(codes, "category")})


def named(categorical_features: Any, width: int, known: list[str]) -> np.ndarray:
    """Which columns ``categorical_features`` names."""
    out = np.zeros(width, bool)
    if isinstance(categorical_features, str) or not width:
        return out
    given = np.asarray(categorical_features)
    if given.dtype == bool and len(given) != width:
        raise ValueError(f"categorical_features is a mask of {len(given)} columns, but there are {width} columns")
    for column in np.flatnonzero(given) if given.dtype == bool else categorical_features:
        if isinstance(column, str) and column not in known:
            raise ValueError(f"categorical_features names the column {column!r}, but the columns are {known}")
        place = known.index(column) if isinstance(column, str) else int(column)
        if not -width <= place < width:
            raise ValueError(f"categorical_features names column {place}, but there are {width} columns")
        out[place] = True
    return out
