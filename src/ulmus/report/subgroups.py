"""Where a model errs: rows it missed most, and parts of the table in which it errs more."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ulmus.report.page import cell, paragraph, plain, table
from ulmus.report.subject import Subject

#: Rows and parts that are listed; rows that a part needs; levels of a category, columns that are looked at.
WORST, PARTS, ENOUGH, LEVELS, COLUMNS = 10, 15, 20, 8, 60


def losses(s: Subject) -> tuple[np.ndarray, str]:
    """The error of every row, and what it is called."""
    if s.kind == "regression":
        return np.abs(s.y - s.predicted), "absolute error"
    where = {label: k for k, label in enumerate(s.model.classes_.tolist())}
    P = np.column_stack([s.probability, np.zeros(len(s.y))])
    truth = [where.get(label, len(where)) for label in s.y.tolist()]
    return -np.log(np.maximum(P[np.arange(len(s.y)), truth], 1e-15)), "log loss"


def worst_section(s: Subject) -> str:
    """The rows with the largest errors."""
    if not s.one_output:
        return ""
    error, name = losses(s)
    rows = np.argsort(-error, kind="stable")[:WORST]
    columns = list(s.frame.columns[:8])
    lines = []
    for i in rows:
        values = [plain(s.frame.at[i, column]) for column in columns]
        lines.append((str(s.names[i]), plain(s.y[i]), plain(s.predicted[i]), float(error[i]), *values))
    return paragraph("The rows with the largest errors. Are their targets correct?") + table(
        ("row", "true", "predicted", name, *map(str, columns)), lines
    )


def subgroup_section(s: Subject) -> str:
    """Each level of each category and each quarter of each number, by how much worse it is than all rows."""
    if not s.one_output:
        return paragraph("Not computed for models with several outputs.")
    error, name = losses(s)
    overall, found = float(error.mean()), []
    for column in s.frame.columns[:COLUMNS]:
        for part, here in _parts(s.frame[column]):
            if ENOUGH <= here.sum() < len(error):
                mean = float(error[here].mean())
                spread = float(error[here].std(ddof=1) / np.sqrt(here.sum()))
                worst = int(np.flatnonzero(here)[error[here].argmax()])
                found.append(((mean - overall) / max(spread, 1e-300), str(column), part, int(here.sum()), mean, worst))
    found.sort(key=lambda line: -line[0])
    if not found:
        return paragraph(f"No subgroup has at least {ENOUGH} rows.")
    lines = [
        (column, part, rows, mean, mean / overall if overall > 0 else 1.0, str(s.names[worst]))
        for _, column, part, rows, mean, worst in found[:PARTS]
    ]
    text = (
        f"The overall mean {name} is {cell(overall)}. Subgroups are sorted by how significantly they are worse; of "
        f"{len(found)} subgroups, some will be by chance."
    )
    return paragraph(text) + table(("column", "subgroup", "rows", name, "ratio to overall", "worst row"), lines)


def _parts(column: pd.Series) -> list[tuple[str, np.ndarray]]:
    gone = (column.isna() | (column.astype(str) == "")).to_numpy()
    found = [("missing", gone)] if gone.any() else []
    there = column[~gone]
    ordered = pd.api.types.is_numeric_dtype(there) and not pd.api.types.is_bool_dtype(there)
    if (ordered or pd.api.types.is_datetime64_any_dtype(there)) and there.nunique() > LEVELS:
        edges = there.quantile([0.0, 0.25, 0.5, 0.75, 1.0], interpolation="nearest").tolist()
        for low, high in pairwise(edges):
            inside = ((column >= low) & ((column < high) if high != edges[-1] else (column <= high))).to_numpy(bool)
            found.append((f"{_word(low)} … {_word(high)}", inside & ~gone))
        return found
    words = column.astype(str)
    levels = words[~gone].value_counts().index[:LEVELS]
    called = _word if ordered else str
    return found + [(called(level)[:40], (words == level).to_numpy() & ~gone) for level in levels]


def _word(value: Any) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, pd.Timestamp) else cell(float(value))
