"""Numbers with something beside them: a currency, a percent sign, a unit, a multiple.

What stands beside a number is its *mark*, with # in the number's place: ``€#``, ``#%``, ``#g/dL``, ``#/10``. Where a
column has several multiples of a mark ($1.2M beside $900K, 2 kg beside 500 g), the mark ends in ×, and numbers are
those of the mark without it: 1,200,000 and 900,000; 2,000 and 500.
"""

import re
from collections.abc import Sequence

import numpy as np

#: The end of a mark whose numbers may be written in multiples.
MULTIPLES = "×"
#: Share of texts that must be amounts of money for their currencies to be told.
AMOUNTS = 0.9
#: Digits behind a zero: a code ("00012", a postal code), which as a number would lose its zeros.
CODE = r"^0\d+$"

_CURRENCY = (
    r"(?:[A-Z]{0,3}[$€£¥₹₽₩₺₫₴₦₱₪฿]|zł|kr\.?|Rs\.?|Kč|Ft|"
    r"(?:USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|TRY|RUB|KRW|SGD|HKD))"
)
_MARKED = re.compile(
    rf"^(?P<open>\()?(?P<sign>[+-])?(?P<before>{_CURRENCY})?\s*(?P<core>[+-]?(?:\d|\.\d)[\d.,]*(?:[eE][+-]?\d+)?)\s*"
    r"(?P<after>[%‰]|/?[^\W\d_][^\W\d_]{0,11}\.?[²³23]?(?:/[^\W\d_]{1,6}[²³23]?)?|/\d{1,3}|[€$£¥₹₽₩₺]|°[CF]?)?"
    r"(?P<close>\))?$"
)
#: What says that a number is a bound, or about right; no cents: 12,- €; a sign behind: 1.234,50-.
_ABOUT = re.compile(r"^(?:[<>≤≥~≈]=?|(?:ca|circa|approx|about|etwa)\.?\s)\s*", re.IGNORECASE)
_ROUND = re.compile(r"(?<=\d)[.,][-–—]{1,2}(?=\s*\D{0,4}$)")
_MINUS_BEHIND = re.compile(r"^([^-]*\d)-$")
#: A blank, or an apostrophe, before three digits: Swiss and French thousands.
_SPACED = re.compile(r"(?<=\d)[ '’\u00a0\u202f](?=\d{3}(?:\D|$))")
#: Words for multiples; and letters, which are units elsewhere: with a currency, or, as they are here, close behind.
_WORDS = {
    **dict.fromkeys(("tsd", "tsd.", "thousand"), 1e3),
    **dict.fromkeys(("mio", "mio.", "mln", "mln.", "mn", "million", "millions"), 1e6),
    **dict.fromkeys(("bn", "mrd", "mrd.", "billion", "billions"), 1e9),
    **dict.fromkeys(("tn", "trillion"), 1e12),
    **{"lakh": 1e5, "lac": 1e5, "crore": 1e7},
}
_LETTERS = {"k": 1e3, "m": 1e6, "mm": 1e6, "b": 1e9, "t": 1e12, "cr": 1e7}
_ALONE = ("k", "K", "M", "B")
_MULTIPLE = re.compile(
    r"(?<=[\d.,])(?P<gap>\s*)(?P<word>[^\W\d_]{1,9}\.?)(?=\s*(?:\)?$|[€$£¥₹₽₩₺]|[A-Z]{3}\)?$|zł|kr|Kč))", re.UNICODE
)
#: Units and their multiples, by the unit in which numbers are read.
_UNITS = {
    "g": {"mg": 1e-3, "kg": 1e3},
    "m": {"mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "l": {"ml": 1e-3, "cl": 1e-2},
    "L": {"mL": 1e-3, "cL": 1e-2},
    "W": {"kW": 1e3, "MW": 1e6, "GW": 1e9},
    "Wh": {"kWh": 1e3, "MWh": 1e6, "GWh": 1e9},
    "Hz": {"kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "B": {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
}
_UNIT_OF = {name: (unit, factor) for unit, names in _UNITS.items() for name, factor in names.items()}


def mark_of(texts: Sequence[str], counts: np.ndarray, pattern: str) -> str:
    """What stands beside most numbers that have something beside them, as €# or #%; empty where none has.

    Numbers look like ``pattern``.
    """
    fits, mass, multiples = re.compile(pattern).match, dict[str, float](), dict[str, float]()
    factors: dict[str, set[float]] = {}
    for text, count in zip(texts, counts, strict=True):
        found = taken_apart(text)
        if found is not None and fits(found[0]) and not re.match(CODE, found[0]):
            mass[found[1]] = mass.get(found[1], 0.0) + count
        multiple = multiplied(text)
        if multiple is not None and fits(multiple[0]):
            base = multiple[1]
            multiples[base] = multiples.get(base, 0.0) + count
            factors.setdefault(base, set()).add(multiple[2])
    bare = mass.pop("#", 0.0)
    best = max(mass, key=lambda mark: mass[mark]) if mass else ""
    base = max(multiples, key=lambda mark: multiples[mark]) if multiples else ""
    if base:
        beside, one = multiples[base] + mass.get(base, 0.0), factors[base]
        several = len(one) > 1 or is_amount(base) or (base == "#" and (bare > 0 or 1e3 in one))
        if beside > mass.get(best, 0.0) or (several and beside == mass.get(best, 0.0)):
            return base + MULTIPLES
    return best


def several_currencies(texts: Sequence[str]) -> tuple[str, ...]:
    """An amount of each currency, where nearly all texts are amounts, in several of them; else nothing."""
    first, amounts = dict[str, str](), 0
    for text in texts:
        found = taken_apart(text)
        if found is not None and is_amount(found[1]):
            first.setdefault(found[1].replace("#", ""), text)
            amounts += 1
    return tuple(first.values()) if len(first) > 1 and amounts >= AMOUNTS * len(texts) else ()


def is_amount(mark: str) -> bool:
    """Whether it is a currency that stands beside numbers."""
    return bool(re.fullmatch(rf"{_CURRENCY}#|#{_CURRENCY}", mark))


def taken_apart(text: str) -> tuple[str, str] | None:
    """The number in a text, with its sign, and the text with # in its place."""
    if text[0] == "'" and not re.match(CODE, text[1:]):  # spreadsheets mark numbers that are text so
        text = text[1:]
    plain = _ROUND.sub("", _ABOUT.sub("", _SPACED.sub("", text.replace("−", "-"))))
    found = _MARKED.match(_MINUS_BEHIND.sub(r"-\1", plain))
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    core, sign = found["core"], found["sign"] or ""
    if sign and core[0] in "+-":
        return None
    negative = sign == "-" or bool(found["open"])  # (5) is -5, and so is (-5)
    return ("-" if negative else "") + core, squares(f"{found['before'] or ''}#{found['after'] or ''}")


def multiplied(text: str) -> tuple[str, str, float] | None:
    """A number in a multiple: as it is written, the mark without the multiple, and its factor; None for others."""
    word = _MULTIPLE.search(text)
    if word is not None:
        rest = taken_apart(text[: word.start()] + text[word.end() :])
        name = word["word"]
        letter = _LETTERS.get(name.lower())
        if rest is not None and (rest[1] == "#" or is_amount(rest[1])):
            alone = name in _ALONE and not word["gap"]
            factor = _WORDS.get(name.lower()) or (letter if alone or rest[1] != "#" else None)
            if factor is not None:
                return (*rest, factor)
    found = taken_apart(text)
    unit = _UNIT_OF.get(found[1].removeprefix("#")) if found is not None else None
    return None if found is None or unit is None else (found[0], f"#{unit[0]}", unit[1])


def squares(mark: str) -> str:
    """Units are the same whether their powers are raised or not."""
    return mark.replace("²", "2").replace("³", "3")


def read_beside(text: str, mark: str) -> tuple[str, float] | None:
    """The number in a text that has this beside it, as it is written, and its factor; None where it has something else.

    A number with nothing but a multiple beside it is taken as well, unless it may be in any of several units.
    """
    base = mark.removesuffix(MULTIPLES)
    several = base != mark
    found = taken_apart(text)
    if found is not None and (found[1] == (base or "#") or (found[1] == "#" and takes_bare(mark))):
        return found[0], 1.0
    multiple = multiplied(text) if several else None
    if multiple is None or not (multiple[1] == base or (multiple[1] == "#" and takes_bare(mark))):
        return None
    return multiple[0], multiple[2]


def takes_bare(mark: str) -> bool:
    """Whether a number with nothing beside it is one of a column with this mark."""
    if mark.endswith(MULTIPLES):
        return mark[:-1] == "#" or is_amount(mark[:-1])
    return "%" not in mark
