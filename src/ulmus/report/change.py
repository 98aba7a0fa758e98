"""What would have to change for another prediction: counterfactuals of two rows."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ulmus.report.page import paragraph, plain, table
from ulmus.report.subject import Subject

#: Rows that say what is possible, columns beyond which the search takes too long, and how near rows are taken: the
#: share of the rows on their side that are nearer to the other side.
DATA, TOO_MANY, NEAR = 1_000, 100, 0.25
#: Digits to which changed numbers are rounded, until the prediction stays changed.
DIGITS = (3, 4, 5, 6, 8, 10, 12)


def change_section(s: Subject) -> str:
    """Two rows, one of each side, and the smallest changes by which their predictions change sides."""
    why_not = _refused(s)
    if why_not:
        return paragraph(why_not)
    known = s.frame if s.training is None else s.training.frame
    some = np.sort(np.random.RandomState(0).permutation(len(known))[:DATA])
    data = s.rows(known.iloc[some])
    parts = []
    for i, wanted, goal in _cases(s):
        try:
            changed = s.model.counterfactuals(s.rows(s.frame.iloc[[i]]), data, **wanted)
        except ValueError as error:
            parts.append(paragraph(f"{_told(s, i)} No row was found that is predicted {goal}: {error}."))
            continue
        parts.append(_case(s, i, wanted, goal, pd.DataFrame(changed, columns=s.frame.columns)))
    if not parts:
        return paragraph("All rows have the same prediction here, so that there is no other side for one to change to.")
    text = (
        "For a row of each side that is near the other: the smallest change found that moves its prediction across "
        "(counterfactuals). Numbers stay within the range of the data, other columns take values that rows have. This "
        "says what the model would answer to such a row, and not what would happen if somebody changed it."
    )
    return paragraph(text) + "".join(parts)


def _refused(s: Subject) -> str:
    if not s.one_output or not hasattr(s.model, "counterfactuals"):
        return (
            "Not computed: models of ordered classes, discriminant models and models with several outputs have no "
            "counterfactuals."
        )
    if isinstance(s.estimator, Pipeline) and len(s.estimator.steps) > 1:
        return (
            "Not computed: steps of the pipeline prepare the columns before the model sees them, and its "
            "counterfactuals would be rows of prepared columns. Adaptive models take the table as it is."
        )
    if s.frame.shape[1] > TOO_MANY or getattr(s.model, "monotonic_cst", None) is not None:
        return (
            f"Not computed: with more than {TOO_MANY} columns, or with monotonic_cst, the search would take long. "
            "model.counterfactuals has no such limit."
        )
    return ""


def _cases(s: Subject) -> list[tuple[int, dict[str, Any], str]]:
    """A row, what is asked of its counterfactual, and that in words; of each side one, not far from the other."""
    if s.kind == "regression":
        middle = float(np.median(s.y))
        away = s.predicted - middle
        sides = [(np.flatnonzero(away < 0), "at least"), (np.flatnonzero(away > 0), "at most")]
        return [
            (_near(np.abs(away), rows), {"threshold": middle}, f"{word} {plain(middle)}, the median of the targets")
            for rows, word in sides
            if len(rows)
        ]
    classes = s.model.classes_
    given = np.searchsorted(classes, s.predicted)
    rest = s.probability.copy()
    rest[np.arange(len(rest)), given] = -1.0
    margin = s.probability[np.arange(len(rest)), given] - rest.max(axis=1)
    found = []
    for k in np.argsort(-np.bincount(given, minlength=len(classes)), kind="stable")[:2]:
        rows = np.flatnonzero(given == k)
        if len(rows):
            i = _near(margin, rows)
            other = classes[rest[i].argmax()]
            found.append((i, {"target": other}, str(other)))
    return found


def _near(distance: np.ndarray, rows: np.ndarray) -> int:
    order = rows[np.argsort(distance[rows], kind="stable")]
    return int(order[int(NEAR * len(order))])


def _told(s: Subject, i: int) -> str:
    return f"Row {plain(s.names[i])}: predicted {plain(s.predicted[i])}."


def _case(s: Subject, i: int, wanted: dict[str, Any], goal: str, changed: pd.DataFrame) -> str:
    lines = []
    shown = _readable(s, i, wanted, changed)
    for name in s.frame.columns:
        old, new = s.frame.at[i, name], shown[name].iloc[0]
        if not (old == new or (pd.isna(old) and pd.isna(new))):
            lines.append((str(name), *_apart(old, new)))
    return paragraph(f"{_told(s, i)} To be predicted {goal}:") + table(("column", "now", "instead"), lines)


def _readable(s: Subject, i: int, wanted: dict[str, Any], changed: pd.DataFrame) -> pd.DataFrame:
    """The row with as few digits as the prediction allows, so that what is read does what is said."""

    def holds(row: pd.DataFrame) -> bool:
        answer = s.estimator.predict(s.rows(row))[0]
        if "target" in wanted:
            return bool(answer == wanted["target"])
        return bool((answer - wanted["threshold"]) * (s.predicted[i] - wanted["threshold"]) <= 0)

    own = s.frame.iloc[[i]].reset_index(drop=True)
    changed = changed.reset_index(drop=True)
    moved = [name for name in own if pd.api.types.is_float_dtype(changed[name]) and not own[name].equals(changed[name])]
    for digits in DIGITS:
        rounded = changed.assign(**{str(name): changed[name].map(lambda v: float(f"{v:.{digits}g}")) for name in moved})  # noqa: B023
        if holds(rounded):
            return rounded
    return changed


def _apart(old: Any, new: Any) -> tuple[str, str]:
    """Two values; numbers with all digits that they have."""
    if not isinstance(new, float | np.floating):
        return plain(old), plain(new)
    found = f"{new:,.15g}"
    return plain(old) if plain(old) != found else f"{old:,.15g}", found
