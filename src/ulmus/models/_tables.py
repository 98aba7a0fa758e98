"""Frames of every kind of column: categories become codes, and dates days, the same ones at every call.

Where dates stand in the year, the week and the day (:mod:`ulmus.features.dates`) comes after the columns that were
given. Missing values stay what they are; :mod:`ulmus.features.preparation` sees to them.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ulmus.features.dates import DateParts
from ulmus.features.frames import IN_DAYS, columns_of, days_of, frame_of, kind_of, levels_of

#: Code of a level that was not there in training.
UNKNOWN = -1.0


class TableInput:
    """Mixed data frames in, numbers out; put before the task in the list of parents."""

    categorical_features: Any
    _all_finite: ClassVar[Any] = "allow-nan"
    #: Which columns are codes, and the input behind every column.
    _categorical: np.ndarray
    _inputs: np.ndarray
    #: The columns that were about time, by name, as what; which of the columns are dates; and their periods.
    _timed: Any = None
    _dated: Any = ()
    _dates: DateParts | None = None

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        columns = columns_of(frame_of(X))
        names = list(columns)
        named = [name for name, is_code in zip(names, self._named(len(names), names), strict=True) if is_code]
        kinds = {name: kind_of(column) for name, column in columns.items()}
        self._timed = {name: kind for name, kind in kinds.items() if kind in IN_DAYS and name not in named}
        numbers = {name for name, kind in kinds.items() if kind == "number"} | self._timed.keys()
        self._levels = {name: levels_of(column) for name, column in columns.items() if name not in numbers}
        X, y = super()._validate(self._coded(X, names), y, reset)  # type: ignore[misc]
        is_code = self._named(X.shape[1], names)
        is_code[[names.index(name) for name in self._levels]] = True
        self._dated = [names.index(name) for name, kind in self._timed.items() if kind == "date"]
        self._dates = DateParts().fit(X[:, self._dated]) if self._dated else None
        self._inputs = np.arange(X.shape[1])
        if self._dates is not None:
            cycles = np.repeat(self._dated, [2 * len(periods) for periods in self._dates.periods_])
            self._inputs = np.append(self._inputs, cycles)
        X = self._with_dates(X)
        self._categorical = np.append(is_code, np.zeros(X.shape[1] - len(is_code), bool))
        return X, y

    def _checked(self, X: Any, fitted: Any = None) -> Any:
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        return self._with_dates(super()._checked(self._coded(X, known), fitted))  # type: ignore[misc]

    def _with_dates(self, X: Any) -> Any:
        """The columns, then where their dates stand in their periods."""
        if self._dates is None:
            return X
        return np.concatenate([X, self._dates.cycles(X[:, self._dated])], axis=1)

    def _coded(self, X: Any, names: Sequence[str] | None) -> Any:
        """The same frame with codes in place of levels, and days in place of dates, in the columns of these names.

        None stands for all of them.
        """
        if sparse.issparse(X):
            raise TypeError(f"Sparse data is not supported by {type(self).__name__}; pass a dense table (X.toarray())")
        frame = frame_of(X)
        if frame is None:
            return X
        timed, new = self._timed or {}, []
        for name, column in columns_of(frame).items():
            if names is not None and name not in names:  # the check of names tells
                continue
            kind = kind_of(column)
            was = timed.get(name, "category" if name in self._levels else "number")
            if kind not in (was, "empty") and not (was == "category" and kind in ("number", *IN_DAYS)):
                raise ValueError(f"column {name!r} held {_CALLED[was]} in training and holds {column.dtype} now")
            if was == kind == "number":
                continue
            values: Any = np.full(len(column), np.nan)
            if was == "category":
                code = {level: float(k) for k, level in enumerate(self._levels[name])}
                values = [code.get(str(value), UNKNOWN) for value in column.to_list()]
            elif kind != "empty":
                values = days_of(column)
            new.append(nw.new_series(name, values, nw.Float64, backend=frame.implementation))
        return frame.with_columns(*new).to_native() if new else X

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


_CALLED = {"number": "numbers", "date": "dates", "duration": "durations", "time": "times", "category": "categories"}
