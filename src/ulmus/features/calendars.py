"""Dates as people write them, brought to a form that :meth:`datetime.datetime.strptime` knows.

Names of months in several languages, ordinal numbers (May 3rd), and time zones behind a time: UTC, GMT+1.
"""

import re

_NAMES = {
    "jan": "january januar jänner jän janvier janv enero ene gennaio gen janeiro januari",
    "feb": "february februar februari février févr fév fevrier febrero febbraio fevereiro fev",
    "mar": "march märz mär mrz mars marzo março marco maart mrt",
    "apr": "april avril avr abril abr aprile",
    "may": "mai mayo maggio mag maio mei",
    "jun": "june juni juin junio giugno giu junho",
    "jul": "july juli juillet juil julio luglio lug julho",
    "aug": "august août aout agosto ago augustus",
    "sep": "september sept septembre septiembre setiembre settembre set setembro",
    "oct": "oktober okt octobre octubre ottobre ott outubro out october",
    "nov": "november novembre noviembre novembro",
    "dec": "december dezember dez décembre déc decembre diciembre dic dicembre dezembro",
}
_ENGLISH = {other: name for name, others in _NAMES.items() for other in (name, *others.split())}
_WORD = re.compile(r"[^\W\d_]+\.?")
_ORDINAL = re.compile(r"(?<=\d)(?:(?:st|nd|rd|th)(?=,|\s)|(?:er|\.)(?=\s+[^\W\d_]))", re.IGNORECASE)
_OF = re.compile(r"(?<=\s)(?:de|of)\s+", re.IGNORECASE)
_ZONE = re.compile(r"(?<=[\d:mM])\s*(?:UTC|GMT)(?:([+-])(\d{1,2})(?::?(\d\d))?)?$")
_COMMA = re.compile(r",(?=\s*\d{1,2}:\d\d)")


def with_english_months(text: str) -> str:
    """The same with the day and the month as English abbreviates them: ``"1er août 2023"`` is ``"1 aug 2023"``."""
    plain = _OF.sub("", _ORDINAL.sub("", text))
    return _WORD.sub(lambda word: _ENGLISH.get(word[0].lower().rstrip("."), word[0]), plain)


def without_zone(text: str) -> tuple[str, float]:
    """A moment without the zone that stands behind it, and how many days its clock is ahead of UTC.

    A comma before the time goes too: ``"5/28/2024, 10:03 PM GMT+1"`` is ``"5/28/2024 10:03 PM"``, 1/24.
    """
    zone = _ZONE.search(text)
    ahead = 0.0
    if zone is not None:
        text = text[: zone.start()]
        minutes = 60 * int(zone[2] or 0) + int(zone[3] or 0)
        ahead = (-minutes if zone[1] == "-" else minutes) / 1440
    return _COMMA.sub("", text), ahead
