"""How values are written in text: numbers, amounts and shares, truth values, dates, times of a day, lengths of time.

A column of text is what at least nine tenths of its values are; the rest count as missing. Frames and files are read by
the same rules, those of this module, value by value: callers hand over distinct texts and how often each occurs.

==============  ==================================================================================================
``"boolean"``   true, false
``"number"``    plain, with thousands separators, or with decimal commas; with one currency before or behind, a percent
                sign or one unit behind: € 12.30, 42.1%, 1.234,50 EUR, (1,200), 36 months, 13.7 g/dL; a bound or an
                estimate is its number: <0.5, ca. 85 m²
``"date"``      ISO 8601 and the forms of :data:`DATES`, one or several of them
``"time"``      14:05, 14:05:30, 2:05 pm; a share of the day
``"duration"``  36:10:05, 1 days 02:00:00, 1h 30m, PT15M; in days
==============  ==================================================================================================
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from ulmus.features.amounts import CODE, MULTIPLES, mark_of, read_beside, squares, takes_bare
from ulmus.features.calendars import with_english_months, without_zone
from ulmus.features.separators import separates_thousands, separator_in_doubt

#: Texts that mean that a value is missing, whatever its column is.
MISSING = frozenset(
    [
        *("", "NA", "N/A", "n/a", "na", "n.a.", "N.A.", "n. a.", "k.A.", "k. A.", "NaN", "nan", "NaT", "NULL", "null"),
        *("(null)", "(blank)", "None", "none", "<NA>", "?", "-", "--", "---", "–", "—", ".", "#N/A", "#NA", "#DIV/0!"),
        *("#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
    ]
)
#: Share of the values that must be of a kind for a column to be of it.
MOSTLY = 0.9
#: The same for numbers, where all others are one of this many words ("refused", "not measured").
MOST, WORDS = 0.7, 3
#: Texts by which forms of dates are shortlisted.
FIRST = 200
#: Forms of dates; among those that fit as many values, the first wins. The empty one is ISO 8601.
DATES = (
    *("", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y"),
    *("%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y", "%Y-%m", "%b %Y", "%B %Y"),
    *("%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M"),
    *("%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p"),
    *(
        "%d %b %Y %H:%M",
        "%d %b %Y %H:%M:%S",
        "%b %d, %Y %H:%M",
        "%b %d, %Y %I:%M %p",
        "%d-%b-%Y %H:%M",
        "%d %B %Y %H:%M",
    ),
    *("%d-%m-%Y %H:%M", "%d-%m-%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S %z"),
    *("%Y/%m/%d %I:%M:%S %p", "%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p", "%d/%m/%Y %I:%M %p", "%d/%m/%Y %I:%M:%S %p"),
    *("%m/%Y", "%m.%Y", "%b %d %Y", "%a, %d %b %Y", "%a, %d %b %Y %H:%M:%S", "%a, %d %b %Y %H:%M:%S %z"),
)
#: Form of a number → its pattern, the characters that go, and the one that becomes a point.
NUMBERS: dict[str, tuple[str, str, str]] = {
    "plain": (r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$", "", ""),
    "thousands": (r"^[+-]?(\d{1,3}(,\d{3})+|\d{1,2}(,\d{2})+,\d{3}|\d+)(\.\d*)?$", ",", ""),  # 1,234,567 or 12,34,567
    "decimal comma": (r"^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?([eE][+-]?\d+)?$", ".", ","),
}
#: What separates whole from broken parts, as it is given to a command → the forms of numbers that are looked for.
DECIMALS = {"auto": tuple(NUMBERS), ".": ("plain", "thousands"), ",": ("decimal comma",)}
#: A month with its year, which could be a number.
MONTH = r"^0[1-9]\.(?:19|20)\d\d$"
#: Digits that a float holds for sure; what is between the forms of dates that are written in several.
DIGITS, FORMS = 15, "|"
BOOLEANS = {"true": 1.0, "false": 0.0}
#: Beside these, what numbers write for truth values that have become numbers elsewhere.
ONES = {**BOOLEANS, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}

_DIGIT = re.compile(r"\d")
_CLOCK = re.compile(r"^(-)?(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$")
_HALVES = re.compile(r"^(0?[1-9]|1[0-2]):([0-5]\d)(?::([0-5]\d))?\s*([ap])\.?m\.?$", re.IGNORECASE)
_DAYS = re.compile(r"^(-?\d+) days?,? ?\+?(?:(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?))?$")
_UNITS = {"w": 7.0, "d": 1.0, "h": 1 / 24, "m": 1 / 1440, "min": 1 / 1440, "s": 1 / 86400, "sec": 1 / 86400}
_SPOKEN = re.compile(r"^(?:(\d+(?:\.\d+)?)\s*(w|d|h|min|m|sec|s)\s*)(?:(\d+(?:\.\d+)?)\s*(w|d|h|min|m|sec|s)\s*)+$")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(w|d|h|min|m|sec|s)")
_ISO = re.compile(r"^P(?!$)(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$")


@dataclass(frozen=True)
class Kind:
    """What a column is; ``form`` says how a number, a date or tags are written.

    ``name`` is number, boolean, date, time, duration, category, tags, text, id, constant or empty.
    """

    name: str
    form: str = ""

    @property
    def is_single(self) -> bool:
        """Whether these are numbers, none of which is written in multiples."""
        return self.name == "number" and not self.form.endswith(MULTIPLES)

    def __str__(self) -> str:
        if self.name != "number":
            forms = [form or "ISO 8601" for form in self.form.split(FORMS)] if self.name == "date" else [self.form]
            return f"{self.name} ({', '.join(forms)})" if forms != [""] else self.name
        form, _, mark = self.form.partition(": ")
        form = {"": "", "plain": "", "thousands": "thousands separators"}.get(form, form)
        beside = mark.removesuffix(MULTIPLES).replace("#", " ").strip()
        several = ("multiples of " + beside if beside else "multiples") if mark.endswith(MULTIPLES) else beside
        more = ", ".join(part for part in (form, several) if part)
        return f"number ({more})" if more else "number"


def kind_of_texts(texts: Sequence[str], counts: np.ndarray, decimal: str = "auto") -> Kind | None:
    """What a column of these distinct texts is; None where it is nothing of the above, but words.

    Parameters
    ----------
    texts : sequence of str
        Distinct, trimmed, none empty.
    counts : ndarray
        How often each occurs.
    decimal : {"auto", ".", ","}
    """
    if all(text.lower() in BOOLEANS for text in texts[:3]) and all(text.lower() in BOOLEANS for text in texts):
        return Kind("boolean")

    def share(values: np.ndarray) -> float:
        return float(counts[: len(values)][~np.isnan(values)].sum() / counts[: len(values)].sum())

    def read_as(forms: Iterable[str]) -> tuple[str | None, float]:
        """The form by which most are numbers, the first of several, and which share; few may need a comma."""
        best, read = None, 0.0
        for form in forms:
            for some in (texts[:FIRST], texts):
                found = numbers(some, form)
                if share(found) < (MOST if _few_words(some, found) else MOSTLY):
                    break
            else:
                if share(found) > read:
                    best, read = form, share(found)
            if read == 1:
                break
        return best, read

    if any(re.match(MONTH, text) for text in texts[:FIRST]) and share(dates(texts, "%m.%Y")) >= MOSTLY:
        return Kind("date", "%m.%Y")
    codes = any(re.match(CODE, text) for text in texts) or _are_long(texts)
    decimals = () if codes else DECIMALS[decimal]
    form, read = read_as(decimals)
    if form is None:
        for name, values in (("time", times), ("duration", durations)):
            if share(values(texts[:FIRST])) >= MOSTLY and share(values(texts)) >= MOSTLY:
                return Kind(name)
        written = _form_of_dates(texts, counts)
        if written is not None:
            return Kind("date", written)
    if read < 1:
        marks = ((form, mark_of(texts, counts, NUMBERS[form][0])) for form in decimals)
        marked, more = read_as(f"{form}: {mark}" for form, mark in marks if mark)
        form = marked if more > read else form
    kind = None if form is None else Kind("number", form)
    if kind is None or not kind.is_single or decimal != "auto" or separator_in_doubt(texts) != ".":
        return kind
    return Kind("number", kind.form.replace("plain", "decimal comma")) if separates_thousands(texts) else kind


def _few_words(texts: Sequence[str], found: np.ndarray) -> bool:
    """Whether what is no number among many is one of a few words without digits, which say why there is none."""
    words = [text for text, value in zip(texts, found, strict=True) if np.isnan(value)]
    return len(words) <= WORDS and len(texts) - len(words) >= 10 and not any(map(_DIGIT.search, words))


def _are_long(texts: Sequence[str]) -> bool:
    """Whether these are whole numbers of one length with more digits than a float holds: names, not amounts.

    Seconds since 1970 have so many digits in millionths and billionths, and are numbers.
    """
    length = len(texts[0])
    if length <= DIGITS or not all(len(text) == length and text.isdecimal() for text in texts):
        return False
    return length not in (16, 19) or not all(text[0] == "1" for text in texts)


def _form_of_dates(texts: Sequence[str], counts: np.ndarray) -> str | None:
    """The form in which most dates are written; where it takes several, these, with ``|`` between them.

    Of two forms that differ in the place of day and month alone only one is taken. Where all days could be months, it
    is the one by which the dates fall into more months: the first days of months are more common than a month's first
    twelve days.
    """
    mass, chosen, left = counts.sum(), list[str](), np.ones(len(texts), bool)
    forms = list(DATES)
    while forms and counts[left].sum() > (1 - MOSTLY) * mass:
        rest = [text for text, open_ in zip(texts, left, strict=True) if open_]
        few = (1 - MOSTLY) / 2 * len(rest[:FIRST])
        first = [form for form in forms if np.count_nonzero(~np.isnan(dates(rest[:FIRST], form))) > few]
        read = {form: dates(rest, form) for form in first}
        fits = {form: float(counts[left][~np.isnan(days)].sum()) for form, days in read.items()}
        best = max(fits, key=lambda form: (fits[form], _months(read[form])), default=None)
        if best is None or fits[best] < (1 - MOSTLY) * mass:
            return None
        chosen.append(best)
        left[np.flatnonzero(left)[~np.isnan(read[best])]] = False
        forms = [form for form in forms if sorted(form) != sorted(best)]
    return FORMS.join(chosen) if chosen else None


def _months(days: np.ndarray) -> int:
    """In how many months of the calendar dates fall."""
    there = days[~np.isnan(days)]
    return len(np.unique(there.astype("datetime64[D]").astype("datetime64[M]")))


def ambiguous(texts: Sequence[str], form: str) -> str:
    """A date whose day and month may be exchanged, where all of them may; empty where the form is sure."""
    other = form.translate(str.maketrans("dm", "md"))
    if other not in DATES or other == form or np.isnan(dates(texts, other)[~np.isnan(dates(texts, form))]).any():
        return ""
    return next((text for text in texts if dates([text], form)[0] != dates([text], other)[0]), "")


def numbers(texts: Sequence[str], form: str) -> np.ndarray:
    """Texts as numbers of this form; NaN where one is none.

    ``form`` is one of :data:`NUMBERS`, then, behind a colon, what stands beside a number. A number that has nothing
    beside it is taken as well, unless percents or several units are written.
    """
    form, _, mark = (form or "plain").partition(": ")
    mark = squares(mark)
    pattern, gone, point = NUMBERS[form]
    fits, bare = re.compile(pattern).match, takes_bare(mark)
    out = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        core, factor = text, 1.0
        if not fits(core):
            found = read_beside(text, mark)
            if found is None:
                continue
            core, factor = found
        elif not bare:
            continue
        if fits(core):
            core = core.replace(gone, "") if gone else core
            out[i] = factor * float(core.replace(point, ".") if point else core)
    out[np.isinf(out)] = np.nan
    return out


def booleans(texts: Sequence[str], form: str = "") -> np.ndarray:
    """Texts as 1 and 0; NaN where one is neither true nor false."""
    return np.array([ONES.get(text.lower(), np.nan) for text in texts], dtype=np.float64)


def dates(texts: Sequence[str], form: str) -> np.ndarray:
    """Texts as days since 1970, in UTC where they have a zone; NaN where one is no date of this form, or of these."""
    first, *more = form.split(FORMS)
    found = np.array([_date(text, first) for text in texts], dtype=np.float64)
    for other in more:
        found = np.where(np.isnan(found), [_date(text, other) for text in texts], found)
    return found


def known_dates(texts: Sequence[str], form: str) -> np.ndarray:
    """The same for a column whose form is known; ISO 8601, which can be read in one way only, is taken as well."""
    return dates(texts, form if "" in form.split(FORMS) else f"{form}{FORMS}")


def dates_like(form: str) -> str:
    """How dates of a column may be written, by an example each."""
    day = datetime(2024, 12, 31, 14, 5)
    forms = dict.fromkeys([*form.split(FORMS), ""])
    return " or ".join(day.strftime(each or "%Y-%m-%d") for each in forms)


@lru_cache(maxsize=1 << 16)
def _date(text: str, form: str) -> float:
    ahead = 0.0
    if ":" in text:
        text, ahead = without_zone(text)
    if "%b" in form or "%B" in form:
        text = with_english_months(text)
        form = form.replace("%B", "%b")
    try:
        if not form and (len(text) < 8 or text[4] != "-"):
            return np.nan
        if form and (":" in text) != (":" in form):
            return np.nan
        when = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    if when.tzinfo is not None:
        when = when.astimezone(UTC).replace(tzinfo=None)
    return float(np.datetime64(when, "us").astype(np.int64)) / 86_400e6 - ahead


def times(texts: Sequence[str], form: str = "") -> np.ndarray:
    """Texts as shares of a day; NaN where one is no time of a day."""
    return np.array([_time(text) for text in texts], dtype=np.float64)


def _time(text: str) -> float:
    found = _HALVES.match(text)
    if found is not None:
        hour = int(found[1]) % 12 + 12 * (found[4].lower() == "p")
        return (3600 * hour + 60 * int(found[2]) + int(found[3] or 0)) / 86_400
    clock = _CLOCK.match(text)
    if clock is None or clock[1] or int(clock[2]) > 23:
        return float("nan")
    return (3600 * int(clock[2]) + 60 * int(clock[3]) + float(clock[4] or 0)) / 86_400


def durations(texts: Sequence[str], form: str = "") -> np.ndarray:
    """Texts as days; NaN where one is no length of time."""
    return np.array([_duration(text) for text in texts], dtype=np.float64)


def _duration(text: str) -> float:
    clock = _CLOCK.match(text)
    if clock is not None:
        length = (3600 * int(clock[2]) + 60 * int(clock[3]) + float(clock[4] or 0)) / 86_400
        return -length if clock[1] else length
    days = _DAYS.match(text)
    if days is not None:
        return int(days[1]) + (3600 * int(days[2] or 0) + 60 * int(days[3] or 0) + float(days[4] or 0)) / 86_400
    if _SPOKEN.match(text):
        return sum(float(value) * _UNITS[unit] for value, unit in _PART.findall(text))
    iso = _ISO.match(text)
    if iso is None:
        return float("nan")
    lengths = (7.0, 1.0, 1 / 24, 1 / 1440, 1 / 86400)
    return sum(float(value or 0) * length for value, length in zip(iso.groups(), lengths, strict=True))


#: Kind → its texts as numbers.
READ: dict[str, Callable[[Sequence[str], str], np.ndarray]] = {
    "number": numbers,
    "boolean": booleans,
    "date": known_dates,
    "time": times,
    "duration": durations,
}
