"""Dates as features are those of every table, :mod:`ulmus.features.dates`; files know them by this place."""

from ulmus.features.dates import PERIODS, DateParts, as_days

__all__ = ["PERIODS", "DateParts", "as_days"]
