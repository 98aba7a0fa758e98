"""Frames of every kind of column: :class:`~ulmus.features.table_encoder.TableEncoder` makes them numbers and codes.

Missing values stay what they are; :mod:`ulmus.features.preparation` sees to them. Arrays are taken as they are.
"""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ulmus.features.columns import UNKNOWN, Reader
from ulmus.features.dates import DateParts
from ulmus.features.frames import frame_of
from ulmus.features.table_encoder import TableEncoder
from ulmus.features.written import Kind
from ulmus.models.base import Model


class TableInput:
    """Mixed data frames in, numbers out; put before the task in the list of parents."""

    categorical_features: Any
    encoder: Any
    random_state: Any
    feature_names_in_: np.ndarray
    n_features_in_: int
    _all_finite: ClassVar[Any] = "allow-nan"
    #: How the columns of a frame become numbers; None where the model was given an array.
    encoder_: TableEncoder | None = None
    #: Which columns are codes, and the input behind every column.
    _categorical: np.ndarray
    _inputs: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        if sparse.issparse(X):
            raise TypeError(f"Sparse data is not supported by {type(self).__name__}; pass a dense table (X.toarray())")
        frame, self.encoder_ = frame_of(X), None
        if frame is not None and len(frame) and frame.columns:
            self.encoder_ = self._encoder_for([str(name) for name in frame.columns])
            self.encoder_.fit(X, sample_weight=sample_weight)
        return super().fit(X, y, sample_weight, groups)  # type: ignore[misc]

    fit.__doc__ = Model.fit.__doc__

    def _encoder_for(self, names: list[str]) -> TableEncoder:
        """The encoder that was given, or a new one; columns that are named categories are some."""
        given = TableEncoder(random_state=0) if self.encoder is None else clone(self.encoder)
        codes = [name for name, is_code in zip(names, self._named(len(names), names), strict=True) if is_code]
        return given.set_params(prepared=False, kinds={**(given.kinds or {}), **dict.fromkeys(codes, "category")})

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        encoder = self.encoder_
        return self._validate_numbers(X if encoder is None else encoder.transform(X), y, reset)

    def _validate_numbers(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        """Rows that are numbers and codes already, by the encoder if there is one."""
        encoder = self.encoder_
        X, y = super()._validate(X, y, reset)  # type: ignore[misc]
        if encoder is None:
            self._categorical, self._inputs = self._named(X.shape[1], []), np.arange(X.shape[1])
            return X, y
        self._categorical, self._inputs = encoder.categorical_, encoder.inputs_
        self.n_features_in_ = encoder.n_features_in_
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        return X, y

    def _checked(self, X: Any, fitted: Any = None) -> Any:
        check_is_fitted(self)
        if self.encoder_ is None:
            return super()._checked(X, fitted)  # type: ignore[misc]
        return self.encoder_.transform(X)

    def _named(self, width: int, known: list[str]) -> np.ndarray:
        """Which columns ``categorical_features`` names."""
        out = np.zeros(width, bool)
        if isinstance(self.categorical_features, str) or not width:
            return out
        named = np.asarray(self.categorical_features)
        if named.dtype == bool and len(named) != width:
            raise ValueError(f"categorical_features is a mask of {len(named)} columns, but there are {width} columns")
        for column in np.flatnonzero(named) if named.dtype == bool else self.categorical_features:
            if isinstance(column, str) and column not in known:
                raise ValueError(f"categorical_features names the column {column!r}, but the columns are {known}")
            place = known.index(column) if isinstance(column, str) else int(column)
            if not -width <= place < width:
                raise ValueError(f"categorical_features names column {place}, but there are {width} columns")
            out[place] = True
        return out

    @classmethod
    def _migrated(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Files of before: levels, days and cycles of a frame's columns were kept by the model itself."""
        state = super()._migrated(state)  # type: ignore[misc]
        if "_levels" not in state:
            return state
        now = {key: value for key, value in state.items() if key not in ("_levels", "_timed", "_dated", "_dates")}
        if "feature_names_in_" in state:
            now["encoder_"] = _encoder_of_before(state)
        return now


#: What a missing value was called as a level, in files of before.
_WAS_MISSING = ("None", "nan", "<NA>", "NaT")


def _encoder_of_before(state: dict[str, Any]) -> TableEncoder:
    names, levels = [str(name) for name in state["feature_names_in_"]], state["_levels"]
    timed, dates, readers = state.get("_timed") or {}, state.get("_dates"), []
    for name, is_code in zip(names, state["_categorical"], strict=False):
        kind = Kind(*{"time": ("time", "share")}.get(timed.get(name, ""), (timed.get(name, "number"),)))
        reader = Reader(name, Kind("category") if is_code else kind)
        if name in levels:
            missing = next((float(levels[name].index(gone)) for gone in _WAS_MISSING if gone in levels[name]), UNKNOWN)
            reader = replace(reader, levels=tuple(levels[name]), missing=missing, rare=1.0)
        if kind.name == "date" and not is_code and dates is not None:
            own = DateParts()
            own.n_features_in_, own.periods_ = 1, [dates.periods_[list(state["_dated"]).index(names.index(name))]]
            reader = replace(reader, dates=own)
        readers.append(reader)
    encoder = TableEncoder(prepared=False)
    encoder.readers_, encoder.preparation_, encoder.left_out_ = tuple(readers), None, {}
    encoder.kinds_ = {reader.name: reader.kind.name for reader in readers}
    encoder.n_features_in_, encoder.feature_names_in_ = len(names), np.asarray(names, dtype=object)
    encoder.names_ = tuple(names)
    encoder._lay_out(names)
    return encoder
