"""Dates as features: the day itself, and where it stands in the year, in the week and in the day."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

#: Name of a period → its length in days.
PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}


class DateParts(TransformerMixin, BaseEstimator):
    """Turns dates into numbers: days since 1970, and a sine and a cosine of the year, the week and the day.

    Periods that are longer than the time that the training rows span, or that their dates do not divide (the day, for
    dates without a time), are left out. A missing date gives NaN.

    Parameters
    ----------
    None

    Attributes
    ----------
    periods_ : list of lists of str
        The periods of every column.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus.features.dates import DateParts
    >>> when = np.array(["2024-01-01", "2024-01-04", "2024-01-20"], dtype="datetime64[D]")[:, None]
    >>> DateParts().fit_transform(when).shape  # the day, and two numbers for the week
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def fit(self, X: Any, y: Any = None) -> Self:
        """See which periods the dates span.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Of dates, or of numbers, which are days since 1970.
        y : ignored

        Returns
        -------
        self
        """
        self._note_names(X)
        days = as_days(X)
        self.n_features_in_ = days.shape[1]
        self.periods_ = []
        for column in days.T:
            seen = column[np.isfinite(column)]
            span = float(np.ptp(seen)) if len(seen) else 0.0
            whole = bool((seen == np.floor(seen)).all())
            self.periods_.append([n for n, p in PERIODS.items() if span > p and not (n == "day" and whole)])
        return self

    def _note_names(self, X: Any) -> None:
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray([str(c) for c in X.columns], dtype=object)

    def transform(self, X: Any) -> np.ndarray:
        """The numbers.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
        """
        days = self._days(X)
        return np.column_stack([c for j, day in enumerate(days.T) for c in (day, *self._cycles(day, j))])

    def cycles(self, X: Any) -> np.ndarray:
        """The sines and cosines alone.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out - n_features)
        """
        days = self._days(X)
        return np.column_stack([days[:, :0], *(c for j, day in enumerate(days.T) for c in self._cycles(day, j))])

    def _days(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        days = as_days(X)
        if days.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {days.shape[1]} columns of dates, DateParts was fitted with {self.n_features_in_}")
        return days

    def _cycles(self, day: np.ndarray, j: int) -> list[np.ndarray]:
        angles = [2 * np.pi / PERIODS[name] * _phase(day, PERIODS[name]) for name in self.periods_[j]]
        return [turn(angle) for angle in angles for turn in (np.sin, np.cos)]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the numbers."""
        names = input_features if input_features is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        found = []
        for name, periods in zip(names, self.periods_, strict=True):
            found.append(str(name))
            found += [f"{name} {part} of the {period}" for period in periods for part in ("sine", "cosine")]
        return np.asarray(found, dtype=object)


def _phase(days: np.ndarray, period: float) -> np.ndarray:
    """Days since the period began: the same number, to the last bit, for every Monday."""
    return days - period * np.floor(days / period)


def as_days(X: Any) -> np.ndarray:
    """Dates, or numbers, as days since 1970; NaN where missing."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [X.iloc[:, i].to_numpy() for i in range(X.shape[1])]
    else:
        columns = list(np.atleast_2d(np.asarray(X)).T)
    return np.column_stack([_days(np.asarray(c)) for c in columns])


def _days(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind != "M":
        if column.dtype.kind != "O":
            return column.astype(np.float64)
        column = column.astype("datetime64[us]")
    micro = column.astype("datetime64[us]")
    days = micro.astype(np.int64) / 86_400e6
    days[np.isnat(micro)] = np.nan
    return days
