"""Columns of frames, pandas or polars, and of arrays: what their type says, and their values as numbers or as words.

==============  ============================================================================================
``"number"``    numbers
``"boolean"``   true and false
``"date"``      dates and moments, with a zone or without, as a type of the frame, as Python's, or periods
``"duration"``  lengths of time
``"time"``      times of a day
``"level"``     categories by type
``"list"``      lists
``"words"``     everything else
``"empty"``     no values at all
==============  ============================================================================================

Whatever is about time becomes days: those since 1970 in UTC (a period is its first moment), or as a length.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from ulmus.features.spelling import MICROSECONDS, day_of, is_period, of_number, spelled
from ulmus.features.written import DIGITS

#: Whole numbers from which on floats may lose digits; the types that become days.
LONG, IN_DAYS = 10**DIGITS, ("date", "duration", "time")
_BY_TYPE = (
    *((nw.Boolean, "boolean"), (nw.Datetime, "date"), (nw.Date, "date"), (nw.Duration, "duration"), (nw.Time, "time")),
    *((nw.Categorical, "level"), (nw.Enum, "level"), (nw.List, "list"), (nw.Array, "list")),
)
_BY_VALUE: tuple[tuple[Any, str], ...] = (
    (str, "words"),
    ((bool, np.bool_), "boolean"),
    ((Real, Decimal, np.number), "number"),
    ((datetime.date, np.datetime64), "date"),
    ((datetime.timedelta, np.timedelta64), "duration"),
    (datetime.time, "time"),
    ((list, tuple, set, frozenset, np.ndarray), "list"),
)


@dataclass(frozen=True)
class Column:
    """A column as it was given: floats with NaN where missing, or distinct values with the place of each row's.

    ``place`` is -1 where a value is missing; ``dtype`` is what messages call the type. ``given`` are the values of a
    column of objects that are all numbers, or moments, here: beside words they would be written as what they are.
    """

    type: str
    dtype: str
    floats: np.ndarray | None = None
    distinct: tuple[Any, ...] = ()
    place: np.ndarray | None = None
    given: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.floats) if self.floats is not None else len(self.place) if self.place is not None else 0

    @property
    def there(self) -> np.ndarray:
        """Which values are not missing."""
        if self.floats is not None:
            return ~np.isnan(self.floats)
        return self.place >= 0 if self.place is not None else np.zeros(0, bool)

    def as_words(self) -> "Column":
        """The same with its values as words, as a category of them is kept."""
        if self.floats is None:
            return self
        there = ~np.isnan(self.floats)
        if self.given is not None:
            return _coded("words", self.dtype, self.given, ~there)
        values, place = np.unique(self.floats[there], return_inverse=True)
        where = np.full(len(self.floats), -1)
        where[there] = place
        return Column("words", self.dtype, None, tuple(of_number(self.type, value) for value in values), where)


class NamedArrays(dict[str, np.ndarray]):
    """The columns of a table as arrays, by name: for a few rows a data frame costs more than their predictions."""


def given_rows(X: Any) -> Any:
    """Rows as they are; masked numbers are missing ones, and rows that have not been read are refused."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise TypeError(f"X is a {type(X).__name__}, whose rows have not been read; pass X.collect()")
    if not isinstance(X, np.ma.MaskedArray):
        return X
    found, mask = X.data, np.ma.getmaskarray(X)
    if mask.any():
        found = found.astype(np.float64 if found.dtype.kind in "biuf" else object)
        found[mask] = np.nan if found.dtype == np.float64 else None
    return found


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """A frame; None where this is none."""
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in X.columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"{names.count(twice)} columns of the frame are called {twice!r}; give each column a name of its own"
        ) from None
    return frame if isinstance(frame, nw.DataFrame) else None


def columns_of(frame: nw.DataFrame[Any] | None) -> dict[str, Any]:
    """The columns of a frame by name."""
    return {} if frame is None else dict(zip(frame.columns, frame.iter_columns(), strict=True))


def values_of(frame: nw.DataFrame[Any]) -> np.ndarray:
    """All values of a frame; columns of different types share none but that of objects."""
    if all(dtype.is_numeric() for dtype in frame.schema.values()):
        return np.asarray(frame.to_numpy())
    out = np.empty(frame.shape, dtype=object)
    for j, column in enumerate(frame.iter_columns()):
        for i, value in enumerate(column.to_list()):  # which may be a list itself
            out[i, j] = value
    return out


def kind_of(column: Any) -> str:
    """What the type of a column of a frame says."""
    if column.dtype.is_numeric():
        return "number"
    if column.dtype == nw.String:
        return "empty" if _missing(column).all() else "words"
    kind = next((kind for dtype, kind in _BY_TYPE if column.dtype == dtype), "words")
    if kind == "level":
        return "empty" if _missing(column).all() else kind
    return _by_values(_present(column)) if kind == "words" else kind


def _by_values(values: Any) -> str:
    if not len(values):
        return "empty"
    for types, kind in _BY_VALUE:
        if all(isinstance(value, types) or (kind == "date" and is_period(value)) for value in values):
            return kind
    return "words"


def read(column: Any) -> Column:
    """A column of a frame."""
    kind, dtype = kind_of(column), str(column.dtype)
    if kind == "number" and _beyond_floats(column):
        return _coded("words", dtype, column.to_list(), _missing(column))
    if kind in ("number", "boolean"):
        if column.dtype in (nw.Object, nw.Unknown):
            values = tuple(column.to_list())
            return Column(kind, dtype, _floats(values, _missing(column)), given=values)
        return Column(kind, dtype, np.array(column.cast(nw.Float64).to_numpy(), dtype=np.float64))
    if kind in IN_DAYS:
        listed = tuple(column.to_list()) if column.dtype in (nw.Object, nw.Unknown) else None
        return Column(kind, dtype, days_of(column), given=listed)
    return _coded(kind, dtype, column.to_list(), _missing(column))


def _beyond_floats(column: Any) -> bool:
    """Whether whole numbers have more digits than a float holds: as words they keep them."""
    if column.dtype in (nw.Object, nw.Unknown):
        present = _present(column)
        return bool(present) and all(isinstance(value, int) for value in present) and max(map(abs, present)) >= LONG
    if not column.dtype.is_integer() or _missing(column).all():
        return False
    return bool(max(abs(int(column.min())), abs(int(column.max()))) >= LONG)


def read_array(values: np.ndarray) -> Column:
    """A column of an array."""
    kind = values.dtype.kind
    if kind in "iu" and len(values) and max(abs(int(values.min())), abs(int(values.max()))) >= LONG:
        return _coded("words", str(values.dtype), values.tolist(), np.zeros(len(values), bool))
    if kind in "biuf":
        return Column("boolean" if kind == "b" else "number", str(values.dtype), values.astype(np.float64))
    if kind in "Mm":
        days = values.astype("datetime64[us]" if kind == "M" else "timedelta64[us]")
        gone = np.isnat(days)
        return Column(
            "date" if kind == "M" else "duration",
            str(values.dtype),
            np.where(gone, np.nan, days.astype(float) / MICROSECONDS),
        )
    listed = values.tolist()
    gone = np.array([value is None or (isinstance(value, float) and isnan(value)) for value in listed], bool)
    found = _by_values([value for value, missing in zip(listed, gone, strict=True) if not missing])
    if found in ("number", "boolean"):
        return Column(found, str(values.dtype), _floats(listed, gone), given=tuple(listed))
    if found in IN_DAYS:
        days = np.full(len(listed), np.nan)
        days[~gone] = [day_of(value) for value, missing in zip(listed, gone, strict=True) if not missing]
        return Column(found, str(values.dtype), days, given=tuple(listed))
    return _coded(found, str(values.dtype), listed, gone)


def _floats(values: Sequence[Any], gone: np.ndarray) -> np.ndarray:
    return np.array([np.nan if missing else float(value) for value, missing in zip(values, gone, strict=True)])


def _coded(kind: str, dtype: str, values: Sequence[Any], gone: np.ndarray) -> Column:
    """Distinct words, trimmed, or lists of them; what is empty is missing."""
    codes: dict[Any, int] = {}
    place = np.full(len(values), -1)
    present = [value for value, missing in zip(values, gone.tolist(), strict=True) if not missing]
    if kind != "list" and set(map(type, present)) == {str}:  # every word is looked at once
        words = {word: word.strip() for word in dict.fromkeys(present)}
        known = {word: codes.setdefault(key, len(codes)) if key else -1 for word, key in words.items()}
        place[~gone] = [known[word] for word in present]
        return Column(kind if codes else "empty", dtype, None, tuple(codes), place)
    for i, value in enumerate(values):
        if gone[i]:
            continue
        if isinstance(value, complex):
            raise ValueError(f"Complex data not supported, got {value!r}; pass real and imaginary parts as two columns")
        key: Any = tuple(spelled(part) for part in value if part is not None) if kind == "list" else spelled(value)
        if key or kind == "list":
            place[i] = codes.setdefault(key, len(codes))
    return Column(kind if codes else "empty", dtype, None, tuple(codes), place)


def days_of(column: Any) -> np.ndarray:
    """A column that is about time in days; NaN where missing."""
    if column.dtype in (nw.Datetime, nw.Date):
        return np.asarray(column.dt.timestamp("us").cast(nw.Float64).to_numpy()) / MICROSECONDS
    if column.dtype == nw.Duration:
        return np.asarray(column.dt.total_microseconds().cast(nw.Float64).to_numpy()) / MICROSECONDS
    days = np.full(len(column), np.nan)
    values = _present(column)
    if len(values):
        days[~_missing(column)] = [day_of(value) for value in values]
    return days


def _missing(column: Any) -> np.ndarray:
    return np.asarray(column.is_null().to_numpy(), dtype=bool)


def _present(column: Any) -> list[Any]:
    """The values that are not missing."""
    return [value for value, gone in zip(column.to_list(), _missing(column), strict=True) if not gone]
