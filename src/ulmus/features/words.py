"""Columns of words: categories, tags, free text, or names of rows; inferred from how often their values recur.

==============  ==================================================================================================
``"category"``  values recur: at most 50 are distinct, or half as many as there are rows
``"tags"``      parts recur between separators: drama|crime, red;blue
``"id"``        nearly all distinct, and one word each or different by their digits alone: names of rows
``"text"``      everything else, and values of five words or more
==============  ==================================================================================================
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ulmus.features.written import Kind

#: Words with more distinct values than this, and than half of the rows, identify rows, not kinds of rows.
MANY = 50
#: Combinations of tags from which on they are kept apart.
FEW = 10
#: Values that are distinct in more than this share of the rows, and are one word, name the rows.
NAMES = 0.95
#: Words of a value, in the median, from which on it is read as text.
WORDY = 5
#: Separators of tags; distinct tags at most; share of values that must have several, and words of a tag at most.
SEPARATORS, TAGS, SEVERAL, TAG_WORDS = ("|", ";", ","), 500, 0.2, 3
#: Names of columns that hold numbers of rows.
_ID = re.compile(
    r"(?i:(^|[\s_.-])(id|ids|uuid|guid|key|index|idx|rownum|row_?id|row_?number|serial|nr\.?|no\.|n°|number)$"
    r"|nummer$|^(n°|nr\.?|no\.)\s)|[a-z]I[dD]$"
)
#: Names of columns that have none, as an index has that was written to a file.
_UNNAMED = re.compile(r"(?i)^(|unnamed: 0|column 1)$")


def kind_of_words(texts: Sequence[str], counts: np.ndarray) -> Kind:
    """What a column of these distinct texts is, which are no numbers, dates or the like.

    Parameters
    ----------
    texts : sequence of str
        Distinct, none empty.
    counts : ndarray
        How often each occurs.
    """
    n_rows, distinct = float(counts.sum()), len(texts)
    words = np.array([text.count(" ") + 1 for text in texts])
    typical = _median(words, counts)
    if distinct > FEW:
        separator = _separator(texts, counts)
        if separator:
            return Kind("tags", separator)
    if distinct <= max(MANY, n_rows / 2) and (distinct <= MANY or typical < WORDY):
        return Kind("category")
    if distinct > NAMES * n_rows and (typical < 2 or _numbered(texts)):
        return Kind("id")
    return Kind("text")


def _numbered(texts: Sequence[str]) -> bool:
    """Whether nearly all texts differ by their digits alone: INV-0001, house 12."""
    patterns = Counter(re.sub(r"\d+", "0", text) for text in texts)
    return max(patterns.values()) > NAMES * len(texts)


def _separator(texts: Sequence[str], counts: np.ndarray) -> str:
    """What separates tags in these texts; empty where they are none."""
    for separator in SEPARATORS:
        several = np.array([separator in text for text in texts])
        if counts[several].sum() < SEVERAL * counts.sum():
            continue
        parts = {part for text in texts for part in tags_of(text, separator)}
        short = all(part.count(" ") < TAG_WORDS for part in parts)
        if short and len(parts) <= min(TAGS, len(texts) / 2):
            return separator
    return ""


def tags_of(text: str, separator: str) -> list[str]:
    """The tags in a text; brackets and quotes around a list are no part of them."""
    return [tag for tag in (part.strip(" []'\"") for part in text.split(separator)) if tag]


def numbers_rows(name: str, values: np.ndarray, mass: float) -> bool:
    """Whether whole numbers are those of the rows: all distinct, and called so or, without a name, counted from 0 or 1.

    Parameters
    ----------
    name : str
        Of the column.
    values : ndarray
        None missing.
    mass : float
        How many rows there are, copies counted.
    """
    if not len(values) or mass > len(values) or not (values == np.round(values)).all():
        return False
    if len(values) < MANY or len(np.unique(values)) < len(values):
        return False
    counted = values[0] in (0, 1) and bool((np.diff(values) == 1).all())
    return (counted and _UNNAMED.search(name) is not None) or _ID.search(name) is not None


def _median(values: np.ndarray, counts: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)
    return float(values[order][min(place, len(values) - 1)])
