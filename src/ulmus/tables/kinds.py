"""What a column is (number, boolean, date, category), told from all its values, and its values as that.

A column of text is a number when at least nine tenths of its values are; the rest count as missing, and the first of
them is told. Decimal commas, thousands separators and common forms of dates are known.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Share of the values that must be numbers for a column to be numeric.
MOSTLY = 0.9
#: Forms of dates, the first that fits all values wins. The empty one is ISO 8601.
DATES = (
    *("", "%Y-%m-%d %H:%M", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y"),
    *(
        "%Y/%m/%d %H:%M:%S",
        "%d.%m.%Y %H:%M",
        "%d.%m.%Y %H:%M:%S",
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %H:%M",
        "%d/%m/%Y %H:%M:%S",
    ),
)
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?([eE][+-]?\d+)?$"
THOUSANDS = r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?$"
#: Form of a number → the pattern, and the characters that go and those that become a point.
NUMBERS: dict[str, tuple[str, str, str]] = {
    "plain": (NUMBER, "", ""),
    "thousands": (THOUSANDS, ",", ""),
    "decimal comma": (DECIMAL_COMMA, ".", ","),
}
#: Digits behind a zero: a code ("00012", a postal code), which as a number would lose its zeros.
CODE = r"^0\d+$"
BOOLEANS = {"true": 1.0, "false": 0.0}
#: What separates whole from broken parts, as it is given to a command → the forms of numbers that are looked for.
DECIMALS = {"auto": tuple(NUMBERS), ".": ("plain", "thousands"), ",": ("decimal comma",)}


@dataclass(frozen=True)
class Kind:
    """``name`` is number, boolean, date, category or empty; ``form`` says how a number or a date is written."""

    name: str
    form: str = ""


@dataclass
class Values:
    """The values of a column, and the positions of those that are not what the column is."""

    values: np.ndarray
    wrong: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


def infer(column: Any, decimal: str = "auto") -> Kind:
    """What a column of an Arrow table is; ``decimal`` is ``"."`` or ``","`` where it is known."""
    import pyarrow as pa
    import pyarrow.compute as pc

    t = column.type
    if pa.types.is_null(t) or column.null_count == len(column):
        return Kind("empty")
    if pa.types.is_boolean(t):
        return Kind("boolean")
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t):
        return Kind("number", "plain")
    if pa.types.is_date(t) or pa.types.is_timestamp(t):
        return Kind("date")
    text = _text(column).drop_null()
    if not len(text):
        return Kind("empty")
    forms = DECIMALS[decimal]
    if "plain" in forms and _parsed(text) is not None:
        return Kind("category") if pc.any(pc.match_substring_regex(text, CODE)).as_py() else Kind("number", "plain")
    first = text.slice(0, 10_000)
    sample = pc.unique(first)
    if all(set(pc.utf8_lower(pc.unique(t)).to_pylist()) <= set(BOOLEANS) for t in (sample, text)):
        return Kind("boolean")
    for form in forms:
        pattern = NUMBERS[form][0]
        share = pc.mean(pc.match_substring_regex(first, pattern).cast(pa.int8())).as_py()
        if share >= MOSTLY and pc.mean(pc.match_substring_regex(text, pattern).cast(pa.int8())).as_py() >= MOSTLY:
            return Kind("number", form)
    for form in DATES:
        if _dates(sample, form).null_count == 0 and _dates(text, form).null_count == 0:
            return Kind("date", form)
    return Kind("category")


def values(column: Any, kind: Kind) -> Values:
    """The values of a column, as what it is: floats, dates, or texts with ``""`` where they are missing."""
    return VALUES[kind.name](column, kind)


def _text(column: Any) -> Any:
    """As trimmed strings; an empty one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "true", "false")
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _parsed(text: Any) -> Any:
    """As numbers, or None when some are not."""
    import pyarrow as pa

    try:
        return text.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _numbers(column: Any, kind: Kind) -> Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    t = column.type
    if pa.types.is_null(t):
        return Values(np.full(len(column), np.nan))
    if pa.types.is_temporal(t):
        return Values(np.full(len(column), np.nan), np.arange(len(column)))
    if not (pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_dictionary(t)):
        floats = column.cast(pa.float64(), safe=False)
    else:
        text = _text(column)
        floats = _parsed(text) if (kind.form or "plain") in DECIMALS["."] else None  # "1.234" may be a thousand
        if floats is None:
            pattern, gone, point = NUMBERS[kind.form or "plain"]
            good = pc.match_substring_regex(text, pattern)
            text = pc.if_else(good, text, pa.scalar(None, pa.string()))
            text = pc.replace_substring(text, gone, "") if gone else text
            text = pc.replace_substring(text, point, ".") if point else text
            floats = pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())
    found = np.array(floats.fill_null(np.nan).to_numpy(), dtype=np.float64)
    found[np.isinf(found)] = np.nan
    if not np.isnan(found).any():
        return Values(found)
    nan_given = column.is_null(nan_is_null=True).to_numpy() if pa.types.is_floating(t) else column.is_null().to_numpy()
    return Values(found, np.flatnonzero(np.isnan(found) & ~nan_given & ~_blank(column)))


def _blank(column: Any) -> np.ndarray:
    """Texts of spaces only, which are missing as well."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return np.zeros(len(column), bool)
    return np.asarray(_text(column).is_null().to_numpy())


def _booleans(column: Any, kind: Kind) -> Values:
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return Values(np.full(len(column), np.nan))
    coded = _text(column).combine_chunks().dictionary_encode()
    table = {**BOOLEANS, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    levels = np.array([table.get(w.lower(), np.nan) for w in coded.dictionary.to_pylist()] + [np.nan])
    index = np.asarray(coded.indices.fill_null(len(levels) - 1).to_numpy(zero_copy_only=False))
    found = levels[index]
    return Values(found, np.flatnonzero(np.isnan(found) & (index < len(levels) - 1)))


def _dates(text: Any, form: str) -> Any:
    """As timestamps; null where a text is not a date of this form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if form:
        return pc.strptime(text, format=form, unit="us", error_is_null=True)
    try:
        return text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        try:
            return text.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return _iso_where_possible(text)


def _iso_where_possible(text: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    good = pc.match_substring_regex(text, r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ]\d{2}:\d{2}(:\d{2})?)?$")
    try:
        return pc.if_else(good, text, pa.scalar(None, pa.string())).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pa.nulls(len(text), pa.timestamp("us"))


def _moments(column: Any, kind: Kind) -> Values:
    import pyarrow as pa

    t = column.type
    if pa.types.is_null(t):
        return Values(np.full(len(column), np.datetime64("NaT"), dtype="datetime64[us]"))
    if pa.types.is_date(t):
        times = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(t):
        times = column.cast(pa.timestamp("us", t.tz), safe=False)
    else:
        column = _text(column)
        times = _dates(column, kind.form)
    found = np.asarray(times.to_numpy()).astype("datetime64[us]")
    return Values(found, np.flatnonzero(np.isnat(found) & ~column.is_null().to_numpy()))


def _categories(column: Any, kind: Kind) -> Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return Values(np.full(len(column), "", dtype=object))
    if pa.types.is_floating(column.type):  # 3.0 was written 3
        whole = pc.equal(pc.floor(column), column)
        if pc.all(whole).as_py() is not False:
            column = column.cast(pa.int64(), safe=False)
    return Values(np.asarray(_text(column).fill_null("").to_numpy(), dtype=object))


VALUES: dict[str, Callable[[Any, Kind], Values]] = {
    "number": _numbers,
    "boolean": _booleans,
    "date": _moments,
    "category": _categories,
    "empty": lambda column, kind: Values(np.full(len(column), np.nan)),
}
