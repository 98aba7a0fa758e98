"""Columns of frames, pandas or polars: what they are, and their values as numbers or as levels.

==============  ============================================================================================
``"number"``    numbers
``"date"``      dates and moments, with a zone or without, as a type of the frame, as Python's, or periods
``"duration"``  lengths of time
``"time"``      times of a day
``"empty"``     no values at all
``"category"``  everything else: text, categories, booleans
==============  ============================================================================================

Whatever is about time becomes days: those since 1970 in UTC (a period is its first moment), or as a length.
"""

import datetime
from typing import Any

import narwhals as nw
import numpy as np

from ulmus.features.dates import as_days

#: The kinds that become days.
IN_DAYS = ("date", "duration", "time")
_MICROSECONDS = 86_400e6
_BY_TYPE = ((nw.Datetime, "date"), (nw.Date, "date"), (nw.Duration, "duration"), (nw.Time, "time"))
_BY_VALUE: tuple[tuple[Any, str], ...] = (
    ((datetime.date, np.datetime64), "date"),
    ((datetime.timedelta, np.timedelta64), "duration"),
    (datetime.time, "time"),
)


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """A frame; None where this is none."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def columns_of(frame: nw.DataFrame[Any] | None) -> dict[str, Any]:
    """The columns of a frame by name."""
    return {} if frame is None else dict(zip(frame.columns, frame.iter_columns(), strict=True))


def kind_of(column: Any) -> str:
    """What a column is."""
    if column.dtype.is_numeric():
        return "number"
    for dtype, kind in _BY_TYPE:
        if column.dtype == dtype:
            return kind
    values = _present(column)
    if not len(values):
        return "empty"
    if column.dtype in (nw.Object, nw.Unknown):
        for types, kind in _BY_VALUE:
            if all(isinstance(value, types) or (kind == "date" and _is_period(value)) for value in values):
                return kind
    return "category"


def days_of(column: Any) -> np.ndarray:
    """A column that is about time in days; NaN where missing."""
    if column.dtype in (nw.Datetime, nw.Date):
        return np.asarray(column.dt.timestamp("us").cast(nw.Float64).to_numpy()) / _MICROSECONDS
    if column.dtype == nw.Duration:
        return np.asarray(column.dt.total_microseconds().cast(nw.Float64).to_numpy()) / _MICROSECONDS
    days = np.full(len(column), np.nan)
    values = _present(column)
    if len(values):
        days[~_missing(column)] = [_day(value) for value in values]
    return days


def levels_of(column: Any) -> tuple[str, ...]:
    """The levels of a category as text, sorted; a missing value is a level too."""
    return tuple(sorted({str(value) for value in column.to_list()}))


def _missing(column: Any) -> np.ndarray:
    return np.asarray(column.is_null().to_numpy(), dtype=bool)


def _present(column: Any) -> list[Any]:
    """The values that are not missing."""
    return [value for value, gone in zip(column.to_list(), _missing(column), strict=True) if not gone]


def _is_period(value: Any) -> bool:
    return hasattr(value, "start_time") and hasattr(value, "freq")


def _day(value: Any) -> float:
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return float(np.timedelta64(value, "us").astype(np.int64)) / _MICROSECONDS
    if isinstance(value, datetime.time):
        since = datetime.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        return since / datetime.timedelta(1)
    if _is_period(value):
        value = value.start_time
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return float(as_days(np.array([[np.datetime64(value, "us")]]))[0, 0])
