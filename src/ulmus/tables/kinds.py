"""What a column of a file is, by all its values, and its values as that.

The rules are those of frames (:mod:`ulmus.features.columns`, :mod:`ulmus.features.written`); Arrow reads what is plain.
"""

import datetime
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ulmus.features.columns import kind_of, written_as
from ulmus.features.frames import LONG, Column
from ulmus.features.separators import in_doubt, may_be_either, separates_thousands, separator_in_doubt
from ulmus.features.written import CODE, DECIMALS, DIGITS, MISSING, MONTH, READ, Kind

__all__ = ["DECIMALS", "Kind", "Values", "infer", "values", "written"]

#: Rows by which decimal separators are known.
HEAD = 10_000
#: Kind → values that are no numbers.
_WORDS = ("category", "tags", "text")


@dataclass
class Values:
    """The values of a column, and the positions of those that are not what the column is."""

    values: np.ndarray
    wrong: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


def infer(column: Any, decimal: str = "auto", name: str = "") -> Kind:
    """What a column of an Arrow table is; ``decimal`` is ``"."`` or ``","`` where it is known."""
    read = _read(column, decimal)
    kind = kind_of(name, read, np.ones(len(column)), decimal)
    return Kind("number", "plain") if kind == Kind("number") else kind


def written(column: Any, decimal: str = "auto") -> Kind:
    """How the values are written, whether or not they recur: words are a category."""
    read = _read(column, decimal)
    if read.type == "empty":
        return Kind("empty")
    kind = written_as(read, np.ones(len(column)), decimal) or Kind("category")
    return Kind("number", "plain") if kind == Kind("number") else kind


def _read(column: Any, decimal: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    t = column.type
    if pa.types.is_null(t) or column.null_count == len(column):
        return Column("empty", str(t), None, (), np.full(len(column), -1))
    if pa.types.is_boolean(t):
        return Column("boolean", str(t), _booleans(column).values)
    if (pa.types.is_integer(t) and not _beyond_floats(column)) or pa.types.is_floating(t) or pa.types.is_decimal(t):
        return Column("number", str(t), _numbers(column, "").values)
    for name, (is_type, _) in TIMED.items():
        if is_type(t):
            found = TIMED[name][1](column)
            return Column(name, str(t), np.where(np.isnat(found), np.nan, found.astype(np.int64) / 86_400e6))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return Column("list", str(t), None, *_listed(column))
    text = _text(column)
    there = text.drop_null()
    plain = _parsed(text) if "plain" in DECIMALS[decimal] and len(there) else None
    if (
        plain is not None
        and not pc.any(pc.match_substring_regex(there, rf"{CODE}|{MONTH}|^\d{{{DIGITS + 1},}}$")).as_py()
        and not (decimal == "auto" and separates_thousands(in_two_ways(column)))
    ):
        floats = np.array(plain.fill_null(np.nan).to_numpy(), dtype=np.float64)
        return Column("number", str(t), np.where(np.isinf(floats), np.nan, floats))
    distinct, place = _coded(text)
    kind = "level" if pa.types.is_dictionary(t) else "words"
    return Column(kind if distinct else "empty", str(t), None, tuple(distinct), place)


def _beyond_floats(column: Any) -> bool:
    """Whether whole numbers have more digits than a float holds: as words they keep them."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    return max(abs(ends["min"]), abs(ends["max"])) >= LONG


def values(column: Any, kind: Kind) -> Values:
    """The values of a column, as what it is: floats, moments, or texts with ``""`` where they are missing."""
    import pyarrow as pa

    t = column.type
    if kind.name in _WORDS:
        return _words(column)
    blank = pa.types.is_null(t) or column.null_count == len(column)
    if kind.name in ("id", "constant", "empty", "drop"):
        return Values(np.full(len(column), np.nan))
    if kind.name in TIMED:
        return _timed(column, kind, blank)
    if blank:
        return Values(np.full(len(column), np.nan))
    if kind.name == "boolean":
        return _booleans(column)
    return _numbers(column, kind.form)


def _is_text(t: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_dictionary(t))


def _text(column: Any) -> Any:
    """As trimmed strings; those that say so are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "true", "false")
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # structs, bytes
        text = pa.chunked_array([pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())])
    return pc.if_else(pc.is_in(text, pa.array(sorted(MISSING))), pa.scalar(None, pa.string()), text)


def _coded(text: Any) -> tuple[list[str], np.ndarray]:
    """Distinct texts, and the place of each row's; -1 where it is missing."""
    coded = text.combine_chunks() if hasattr(text, "combine_chunks") else text
    coded = coded.dictionary_encode()
    if hasattr(coded, "combine_chunks"):
        coded = coded.combine_chunks()
    place = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
    return coded.dictionary.to_pylist(), place


def distinct_texts(column: Any) -> list[str]:
    """The values of a column as texts, each once."""
    return _coded(_text(column))[0]


def in_two_ways(column: Any) -> list[str]:
    """Distinct texts of a column of numbers that may all be read in two ways (12.345); none where one says which."""
    if not _is_text(column.type) or not may_be_either(distinct_texts(column[:HEAD])):
        return []
    texts = distinct_texts(column)
    return texts if separator_in_doubt(texts) else []


def unambiguous(columns: dict[str, Any], kinds: dict[str, Kind]) -> dict[str, Kind]:
    """The kinds of columns of numbers that can be read in two ways, as the other columns of the table show."""
    texts = {
        name: in_two_ways(columns[name]) or distinct_texts(columns[name][:HEAD])
        for name, kind in kinds.items()
        if kind.is_single and _is_text(columns[name].type)
    }
    doubtful, decimal = in_doubt(texts)
    return {name: written(columns[name], decimal) for name in doubtful} if decimal else {}


def names_rows(column: Any) -> list[str] | None:
    """The values of a column as texts, where all are there and none comes twice; else None."""
    texts = _text(column)
    return texts.to_pylist() if not texts.null_count and len(texts.unique()) == len(texts) else None


def _listed(column: Any) -> tuple[tuple[Any, ...], np.ndarray]:
    codes: dict[Any, int] = {}
    place = np.full(len(column), -1)
    for i, value in enumerate(column.to_pylist()):
        if value is not None:
            place[i] = codes.setdefault(tuple(str(part) for part in value if part is not None), len(codes))
    return tuple(codes), place


def _parsed(text: Any) -> Any:
    """As numbers, or None when some are not."""
    import pyarrow as pa

    try:
        return text.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _by_texts(text: Any, kind: Kind) -> Values:
    """Distinct texts read one by one."""
    distinct, place = _coded(text)
    found = np.append(READ[kind.name](distinct, kind.form), np.nan)[place]
    return Values(found, np.flatnonzero(np.isnan(found) & (place >= 0)))


def _numbers(column: Any, form: str) -> Values:
    import pyarrow as pa

    t = column.type
    if pa.types.is_temporal(t) or pa.types.is_nested(t):
        return Values(np.full(len(column), np.nan), np.flatnonzero(~np.asarray(column.is_null().to_numpy())))
    if not _is_text(t):
        floats = column.cast(pa.float64(), safe=False)
        found = np.array(floats.fill_null(np.nan).to_numpy(), dtype=np.float64)
        given = ~(column.is_null(nan_is_null=True) if pa.types.is_floating(t) else column.is_null()).to_numpy()
    else:
        text = _text(column)
        plain = _parsed(text) if (form or "plain") in DECIMALS["."] else None  # "1.234" may be a thousand
        if plain is None:
            return _by_texts(text, Kind("number", form))
        found = np.array(plain.fill_null(np.nan).to_numpy(), dtype=np.float64)
        given = ~text.is_null().to_numpy()
    found[np.isinf(found)] = np.nan
    return Values(found, np.flatnonzero(np.isnan(found) & given))


def _booleans(column: Any) -> Values:
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        return Values(np.full(len(column), np.nan), np.flatnonzero(~np.asarray(column.is_null().to_numpy())))
    return _by_texts(_text(column), Kind("boolean"))


def _timed(column: Any, kind: Kind, blank: bool) -> Values:
    is_type, cast = TIMED[kind.name]
    unit = "datetime64[us]" if kind.name == "date" else "timedelta64[us]"
    if blank:
        found = Values(np.full(len(column), "NaT", dtype=unit))
    elif is_type(column.type):
        found = Values(cast(column))
    elif not _is_text(column.type):
        found = Values(np.full(len(column), "NaT", unit), np.flatnonzero(~np.asarray(column.is_null().to_numpy())))
    else:
        text = _text(column)
        iso = _iso(text) if kind == Kind("date") else None
        if iso is not None:
            found = Values(iso)
        else:
            read = _by_texts(text, kind)
            gone = np.isnan(read.values)
            days = np.round(np.where(gone, 0.0, read.values) * 86_400e6).astype(np.int64).astype(unit)
            found = Values(np.where(gone, np.array("NaT", unit), days), read.wrong)
    return Values(_clock(found.values), found.wrong) if kind.name == "time" else found


def _clock(since: np.ndarray) -> np.ndarray:
    """Times of a day as objects, which frames know them by."""
    out = np.full(len(since), None, dtype=object)
    for i in np.flatnonzero(~np.isnat(since)):
        out[i] = (datetime.datetime.min + since[i].item()).time()
    return out


def _iso(text: Any) -> np.ndarray | None:
    """As moments, where Arrow reads them all."""
    import pyarrow as pa

    for zone in (None, "UTC"):
        try:
            times = text.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
        return np.asarray(times.cast(pa.timestamp("us")).to_numpy()).astype("datetime64[us]")
    return None


def _moments(column: Any) -> np.ndarray:
    import pyarrow as pa

    t = column.type
    times = column.cast(pa.timestamp("us", None if pa.types.is_date(t) else t.tz), safe=False)
    return np.asarray(times.to_numpy()).astype("datetime64[us]")


def _lengths(column: Any) -> np.ndarray:
    import pyarrow as pa

    return np.asarray(column.cast(pa.duration("us"), safe=False).to_numpy()).astype("timedelta64[us]")


def _since_midnight(column: Any) -> np.ndarray:
    import pyarrow as pa

    return _lengths(column.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.duration("us")))


def _is_moment(t: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(t) or pa.types.is_timestamp(t))


def _is_length(t: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_duration(t))


def _is_clock(t: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_time(t))


#: Kind → which types are it, and how these are read.
TIMED = {"date": (_is_moment, _moments), "duration": (_is_length, _lengths), "time": (_is_clock, _since_midnight)}


def _words(column: Any) -> Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    t = column.type
    if pa.types.is_null(t):
        return Values(np.full(len(column), "", dtype=object))
    if pa.types.is_nested(t):
        out = np.full(len(column), "", dtype=object)
        for i, value in enumerate(column.to_pylist()):
            out[i] = "" if value is None else list(value) if isinstance(value, list) else str(value)
        return Values(out)
    if pa.types.is_floating(t):  # 3.0 was written 3
        whole = pc.equal(pc.floor(column), column)
        if pc.all(whole).as_py() is not False:
            column = column.cast(pa.int64(), safe=False)
    return Values(np.asarray(_text(column).fill_null("").to_numpy(), dtype=object))
