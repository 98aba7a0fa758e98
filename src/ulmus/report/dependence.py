"""How predictions move with one column: partial dependence, the mean prediction with the column set to each value."""

from typing import Any

import numpy as np
import pandas as pd

from ulmus.report import figures as draw
from ulmus.report.page import cell, figure, figures, paragraph
from ulmus.report.subject import Subject

#: Columns that are shown, rows behind a mean, points of a curve, levels of a category.
COLUMNS, ROWS, POINTS, LEVELS = 4, 200, 15, 8


def dependence_section(s: Subject) -> str:
    if not s.one_output:
        return paragraph("Not drawn for models with several outputs.")
    names = leading(s, COLUMNS)
    text = (
        f"The mean prediction over {min(ROWS, len(s.frame)):,} rows when one column is set to the same value in all "
        "of them and the others are left alone; bands and bars show the interquartile range. Correlated columns are "
        "varied independently here, so read their curves with care."
    )
    return paragraph(text) + figures(*(_curve(s, name) for name in names))


def leading(s: Subject, count: int) -> list[Any]:
    """The columns that matter most, by shuffling."""
    if s.shuffled is None:
        return []
    names = [s.frame.columns[j] for j in np.argsort(s.shuffled.importances_mean, kind="stable")[::-1]]
    return [name for name in names if grid(s.frame[name], 2)][:count]


def grid(column: pd.Series, points: int) -> list[Any]:
    """Values of a column to try: quantiles of numbers and dates, frequent levels of others; none where it has one."""
    there = column.dropna()
    if pd.api.types.is_bool_dtype(there) or not (
        pd.api.types.is_numeric_dtype(there) or pd.api.types.is_datetime64_any_dtype(there)
    ):
        words = there[there.astype(str) != ""]
        if not len(words) or not all(isinstance(value, str | bool | np.bool_) for value in words):
            return []
        found = words.value_counts().index[: max(points, 2)].tolist()
    else:
        levels = np.linspace(0.02, 0.98, points) if points > 2 else [0.25, 0.75]
        found = list(dict.fromkeys(there.quantile(levels, interpolation="nearest").tolist()))
    return found if len(found) > 1 else []


def answers(s: Subject, X: pd.DataFrame) -> np.ndarray:
    """What is drawn of predictions: the number, the rank, or the probability of the last of two classes."""
    rows = s.rows(X)
    if s.kind == "regression":
        return np.asarray(s.estimator.predict(rows), dtype=np.float64)
    P = np.asarray(s.estimator.predict_proba(rows))
    if s.kind == "ordinal":
        return P @ np.arange(P.shape[1])
    return P[:, shown_class(s)]


def shown_class(s: Subject) -> int:
    """The second of two classes, the most frequent of several."""
    labels = s.model.classes_
    if len(labels) == 2:
        return 1
    return int(np.argmax([np.sum(s.y == label) for label in labels]))


def called(s: Subject) -> str:
    """What the answers are."""
    if s.kind == "regression":
        return "prediction"
    if s.kind == "ordinal":
        return "mean rank (0 is the lowest)"
    return f"probability of {s.model.classes_[shown_class(s)]}"


def _curve(s: Subject, name: Any) -> str:
    some = s.frame.iloc[s.sample[:: max(1, len(s.sample) // ROWS)][:ROWS]]
    is_number = pd.api.types.is_numeric_dtype(s.frame[name]) and not pd.api.types.is_bool_dtype(s.frame[name])
    is_date = pd.api.types.is_datetime64_any_dtype(s.frame[name])
    values = grid(s.frame[name], POINTS if is_number or is_date else LEVELS)
    found = np.array([answers(s, some.assign(**{str(name): _like(value, some[name])})) for value in values])
    low, middle, high = np.quantile(found, 0.25, axis=1), found.mean(axis=1), np.quantile(found, 0.75, axis=1)
    drawing, ax = draw.axes(draw.shortened(str(name), 40), "", draw.shortened(called(s), 36), (4.2, 3.0))
    if is_number or is_date:
        ax.fill_between(values, low, high, color="#b8d3ea", alpha=0.6, lw=0)
        ax.plot(values, middle, "o-", ms=3, color=draw.INK)
        if is_date:
            drawing.autofmt_xdate()
    else:
        place = np.arange(len(values))[::-1]
        ax.hlines(place, low, high, color="#b8d3ea", lw=6)
        ax.plot(middle, place, "o", color=draw.INK)
        ax.set_yticks(place, [draw.shortened(str(value), 24) for value in values])
        ax.set(xlabel=draw.shortened(called(s), 48), ylabel="")
    ends = f"{cell(float(middle.min()))} to {cell(float(middle.max()))}"
    return figure(drawing, f"Partial dependence on {name}: {ends}")


def _like(value: Any, column: pd.Series) -> Any:
    """A column of one value, of the type of another."""
    return pd.Series([value] * len(column), index=column.index).astype(column.dtype)
