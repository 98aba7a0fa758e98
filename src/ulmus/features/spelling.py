"""How values that are no text are written where a column takes them as words, whatever type or batch they come in.

A category knows its levels by these words. So 5, 5.0 and Decimal("5.00") are one level, beside words or among numbers
alone, and so are a date and its midnight.
"""

import datetime
import re
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from ulmus.features.dates import as_days

MICROSECONDS = 86_400e6  # of a day
#: Whole numbers of this size and more are written as floats are.
LARGE = 1e15
_WHOLE = re.compile(r"^-?(?:0|[1-9]\d*)$")
_BROKEN = re.compile(r"^(-?(?:0|[1-9]\d*))\.0$")
_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d))?$")


def spelled(value: Any) -> str:
    """The word for a value of any type."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, Real | Decimal | np.floating):
        return of_number("number", float(value))
    if isinstance(value, datetime.time):
        return of_number("time", day_of(value))
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return of_number("duration", day_of(value))
    if isinstance(value, datetime.date | np.datetime64) or is_period(value):
        return of_number("date", day_of(value))
    return str(value).strip()


def of_number(kind: str, value: float) -> str:
    """The same for the number, or the days, that a value of this type has become."""
    if kind == "boolean":
        return str(bool(value))
    if kind == "date":
        when = np.datetime64(round(value * MICROSECONDS), "us")
        return str(when.astype("datetime64[D]") if value == np.floor(value) else when.astype("datetime64[s]"))
    if kind in ("time", "duration"):
        since = datetime.timedelta(microseconds=round(value * MICROSECONDS))
        return str((datetime.datetime.min + since).time() if kind == "time" else since)
    return str(int(value)) if value == np.floor(value) and abs(value) < LARGE else repr(float(value))


def other_spellings(word: str) -> tuple[str, ...]:
    """Other ways to write the same number or moment, among them those of earlier versions."""
    if _WHOLE.match(word):
        return (f"{word}.0",)
    broken = _BROKEN.match(word)
    if broken:
        return (broken[1],)
    moment = _MOMENT.match(word)
    if not moment:
        return ()
    day, clock = moment[1], moment[2] or "00:00:00"
    all_ways = (f"{day} {clock}", f"{day}T{clock}", *([day] if clock == "00:00:00" else []))
    return tuple(way for way in all_ways if way != word)


def codes_of(levels: tuple[str, ...]) -> dict[str, int]:
    """The place of every level, however it is written; a spelling that is a level itself is that one."""
    found = {way: k for k, level in enumerate(levels) for way in other_spellings(level)}
    return found | {level: k for k, level in enumerate(levels)}


def is_period(value: Any) -> bool:
    return hasattr(value, "start_time") and hasattr(value, "freq")


def day_of(value: Any) -> float:
    """Days since 1970 of a moment, in UTC; a length of time, or a time of the day, in days."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return float(np.timedelta64(value, "us").astype(np.int64)) / MICROSECONDS
    if isinstance(value, datetime.time):
        since = datetime.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        return since / datetime.timedelta(1)
    if is_period(value):
        value = value.start_time
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return float(as_days(np.array([[np.datetime64(value, "us")]]))[0, 0])
