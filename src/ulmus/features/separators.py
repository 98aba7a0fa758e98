"""Whether a point or a comma separates thousands or decimals, where a number alone does not say: 12.345.

A column says so itself where numbers below a thousand stand without a separator beside others that have one before
exactly three digits: decimals would end in a zero now and then, and would hardly ever be whole. Where it does not, the
columns beside it may: 3,5 and 1.133.350 are numbers of a table with decimal commas, 3.5 and 0.125 are not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

#: One separator, before three digits; and no separator, below a thousand. Something may stand beside the number.
EITHER = r"^[^\d.,]*[1-9]\d{0,2}([.,])\d{3}(?:\D*|[^\d.,]+[23])$"
BARE = r"^[^\d.,]*\d{1,3}(?:[^\d.,]*|[^\d.,]+[23])$"
#: Different numbers without a separator, and with one, from which on a column says itself what it separates.
WITHOUT, WITH = 3, 5

_EITHER, _BARE, _DIGIT, _NOT_ZERO = (re.compile(pattern) for pattern in (EITHER, BARE, r"\d", "[1-9]"))


def _shows(d: str, t: str) -> re.Pattern[str]:
    """Numbers that show what separates decimals, as 3,5 and 0,125 and 1.234,567, and thousands, as 1.133.350."""
    groups = rf"\d{{1,3}}(?:{t}\d{{3}})"
    number = rf"\d+{d}(?:\d{{1,2}}|\d{{4,}})|0?{d}\d+|{groups}{{2,}}(?:{d}\d+)?|{groups}+{d}\d+"
    return re.compile(rf"^[^\d.,]*(?:{number})(?:[^\d.,].*)?$")


#: Decimal separator → numbers that show it.
SHOWS = {",": _shows(",", r"\."), ".": _shows(r"\.", ",")}


def may_be_either(texts: Iterable[str]) -> bool:
    """Whether no number among the texts says what its separator is; words without digits are none."""
    return all(_EITHER.match(text) or _BARE.match(text) or not _DIGIT.search(text) for text in texts)


def separator_in_doubt(texts: Sequence[str]) -> str:
    """The separator of numbers that can be read in two ways, all of them; empty where one of them says which."""
    if not may_be_either(texts):
        return ""
    found = {one[1] for one in map(_EITHER.match, texts) if one is not None}
    return found.pop() if len(found) == 1 else ""


def separates_thousands(texts: Sequence[str]) -> bool:
    """Whether the separator of numbers that can be read in two ways is one of thousands, by these numbers alone."""
    separated = sum(1 for text in texts if _EITHER.match(text))
    bare = sum(1 for text in texts if _BARE.match(text) and _NOT_ZERO.search(text))
    return bare >= WITHOUT and separated >= WITH


def in_doubt(columns: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    """Columns of numbers that can be read in two ways, by themselves, and the decimal separator that all others show.

    Parameters
    ----------
    columns : dict
        The texts of columns of numbers, each once, by the name of the column.
    """
    found = [name for name, texts in columns.items() if separator_in_doubt(texts) and not separates_thousands(texts)]
    return found, shown_decimal(columns.values()) if found else ""


def shown_decimal(columns: Iterable[Sequence[str]]) -> str:
    """The decimal separator that numbers of some columns show, where all that show one show the same; else empty."""
    found = set[str]()
    for texts in columns:
        found |= {decimal for decimal, shows in SHOWS.items() if any(map(shows.match, texts))}
    return found.pop() if len(found) == 1 else ""
