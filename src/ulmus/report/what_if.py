"""What if: the columns that matter most are changed in a row, and the prediction moves.

Answers are computed beforehand for all combinations of some values, so that the page needs no model.
"""

import json
from html import escape
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ulmus.report.dependence import answers, called, grid, leading
from ulmus.report.page import cell, paragraph
from ulmus.report.subject import Subject

#: Columns that can be changed, values of each, rows that can be chosen.
COLUMNS, VALUES, ROWS = 3, 7, 6


def what_if_section(s: Subject) -> str:
    if not s.one_output:
        return paragraph("Not available for models with several outputs.")
    names = leading(s, COLUMNS)
    if not names:
        return paragraph("No column has more than one value to choose from.")
    spread = np.linspace(0, len(s.frame) - 1, ROWS).astype(int)
    rows = np.unique(np.argsort(answers(s, s.frame), kind="stable")[spread])
    values, at, answered, others = [], [], [], []
    for i in rows:
        choices = [_choices(s.frame[name], s.frame.at[i, name]) for name in names]
        combined = list(product(*choices))
        X = pd.concat([s.frame.iloc[[i]]] * len(combined), ignore_index=True)
        for j, name in enumerate(names):
            X[name] = _like_all([c[j] for c in combined], s.frame[name])
        values.append([[_word(value) for value in choice] for choice in choices])
        at.append([_place(choice, s.frame.at[i, name]) for choice, name in zip(choices, names, strict=True)])
        answered.append([cell(float(value)) for value in answers(s, X)])
        rest = [f"{c}: {_word(s.frame.at[i, c])}" for c in s.frame.columns if c not in names][:12]
        others.append("; ".join(rest))
    data = json.dumps({"values": values, "at": at, "answered": answered, "others": others, "called": called(s)})
    options = "".join(f'<option value="{k}">row {escape(str(s.names[i]))}</option>' for k, i in enumerate(rows))
    fields = "".join(
        f'<label>{escape(str(name))} <input type="range" min="0" max="{VALUES - 1}" step="1" value="0">'
        f'<b id="what-if-{j}"></b></label>'
        for j, name in enumerate(names)
    )
    text = (
        "Pick a row and change its most important columns; the others keep their values. All predictions are the "
        "model's own, computed in advance."
    )
    panel = (
        f'<div id="what-if-box" class="panel" data-answers="{escape(data, quote=True)}">'
        f'<label>row <select id="what-if-row">{options}</select></label>{fields}'
        f'<output id="what-if-out"></output><p class="small" id="what-if-was"></p></div>'
    )
    return paragraph(text) + panel


def _choices(column: pd.Series, own: Any) -> list[Any]:
    """Values to choose from, that of the row among them, in their order."""
    found = grid(column, VALUES)
    if not _gone(own) and own not in found:
        found = [*found[: VALUES - 1], own]
    found = sorted(found) if all(not isinstance(value, str) for value in found) else sorted(found, key=str)
    return [own, *found] if _gone(own) else found


def _place(choices: list[Any], own: Any) -> int:
    return 0 if _gone(own) else choices.index(own)


def _gone(value: Any) -> bool:
    return value is None or value is pd.NaT or value == "" or (isinstance(value, float) and np.isnan(value))


def _word(value: Any) -> str:
    if _gone(value):
        return "missing"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return cell(float(value)) if isinstance(value, float | np.floating) else str(value)[:40]


def _like_all(values: list[Any], column: pd.Series) -> pd.Series:
    return pd.Series(values).astype(column.dtype)
