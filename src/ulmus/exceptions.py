"""Warnings of the library, and how they are told: with the line of the user's program that they come from."""

import os
import sys
import warnings
from pathlib import Path

#: Folders and files whose lines are not meant.
_INSIDE = (f"{Path(__file__).parent}{os.sep}", *(f"{os.sep}{part}" for part in (f"sklearn{os.sep}", "contextlib.py")))


def warn(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the first line, on the way up, that is neither ours nor scikit-learn's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class NumericalWarning(UserWarning):
    """Digits were lost, a rank was cut or an iteration stopped early; the message carries the number."""


class DataWarning(UserWarning):
    """Something about the data that a result should not be read without; the message carries the number."""


class LeftOutWarning(DataWarning):
    """Columns were left out: they name the rows, hold one value only, or none."""


class UnreadableWarning(DataWarning):
    """Some values are not what their column is, and count as missing."""


class DateWarning(DataWarning):
    """Dates may be read in two ways, as their days and months may be exchanged."""


class UnseenLevelWarning(DataWarning):
    """Rows hold more levels that were not there in training than training itself lets one expect."""


class LeakWarning(DataWarning):
    """A column tells the target nearly by itself: it may not be known when a prediction is asked for."""


class PlaceholderWarning(DataWarning):
    """A number such as -999 lies far from all others of its column, again and again: it may stand for none."""


class SpellingWarning(DataWarning):
    """Levels differ in upper and lower case only, and count as different ones."""


class ScaleWarning(DataWarning):
    """One column dwarfs the others, so that a kernel of distances sees it alone."""


class DriftWarning(DataWarning):
    """New rows are not distributed as those of the training were."""


class DuplicateWarning(DataWarning):
    """Rows held out are copies of rows of the training, so that scores flatter."""


class PartWarning(UserWarning):
    """An answer is about a part of the model, and the rest is held as it is; the message says which."""


class UnansweredWarning(UserWarning):
    """No answer was found for some rows, which are as they were given: ``rows``, by position, and ``why``."""

    def __init__(self, text: str, rows: list[int] | None = None, why: str = "") -> None:
        super().__init__(text)
        self.rows, self.why = rows or [], why
