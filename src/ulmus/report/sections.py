"""The sections of a report, in their order: one row of :data:`SECTIONS` each."""

import platform
import warnings
from collections.abc import Callable
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ulmus.report import figures as draw
from ulmus.report.baselines import ranked, verdict
from ulmus.report.behind import behind_section, second_look_section
from ulmus.report.change import change_section
from ulmus.report.choice import choice_section
from ulmus.report.dependence import dependence_section
from ulmus.report.importance import importance_section
from ulmus.report.map import map_section
from ulmus.report.page import cell, figures, paragraph, plain, table
from ulmus.report.subgroups import subgroup_section, worst_section
from ulmus.report.subject import Subject
from ulmus.report.threshold import threshold_section
from ulmus.report.what_if import what_if_section
from ulmus.scores import scores

#: Columns and rows that a table lists.
MANY = 30
UNSURE = 10
#: Coverages of prediction sets that are shown.
SET_COVERAGES = (0.8, 0.9, 0.95)


def score_section(s: Subject) -> str:
    rows = [
        (x.name, x.value, f"{cell(x.low)} … {cell(x.high)}", x.better)
        for x in scores(s.estimator, s.rows(s.frame), s.y)
    ]
    rows.sort(key=lambda row: row[0] != s.context.measure)
    note = "The model was fitted to these rows, so the scores are optimistic." if s.seen else ""
    text = "Measured on held-out rows; the intervals are bootstrap intervals over those rows."
    return (
        (paragraph(note, "note") if note else paragraph(text))
        + table(("score", "value", "95 % interval", "better"), rows)
        + _beside(s)
    )


def _beside(s: Subject) -> str:
    """Other models on the same rows."""
    entries, measure = list(s.context.entries), s.context.measure
    if not entries:
        return ""
    names = [score.name for score in entries[0].scores if all(score.name in _named(e) for e in entries)]
    names.sort(key=lambda name: name != measure)
    lines = [
        (f"{e.name} (this model)" if e.ours else e.name, *(e.shown(n) for n in names), f"{e.seconds:.1f} s")
        for e in ranked(entries, measure)
    ]
    said = verdict(entries, measure)
    text = "Baselines, trained and scored on the same split:"
    return paragraph(text) + table(("model", *names, "time"), lines) + (paragraph(f"{said}.", "note") if said else "")


def _named(entry: Any) -> set[str]:
    return {score.name for score in entry.scores}


#: Kinds of NumPy's types, in words; what is not here is text.
_TYPES = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "m": "duration"}


def _type(s: Subject, name: str) -> str:
    """What the model takes a column for, or else what its type says."""
    parts = [part for _, part in s.estimator.steps] if isinstance(s.estimator, Pipeline) else [s.estimator]
    for part in parts:
        kinds = getattr(part, "kinds_", None) or getattr(getattr(part, "encoder_", None), "kinds_", {})
        if name in kinds:
            return str(kinds[name])
    return _TYPES.get(getattr(s.frame[name].dtype, "kind", "O"), "text")


def data_section(s: Subject) -> str:
    rows = []
    for name in s.frame.columns[:MANY]:
        column = s.frame[name]
        numeric = pd.api.types.is_numeric_dtype(column)
        empty = column.isna() | (column.astype(str) == "") if not numeric else column.isna()
        known = column[~empty]
        if numeric and len(known):
            says = f"{cell(float(known.min()))} … {cell(float(known.max()))}, median {cell(float(known.median()))}"
        elif pd.api.types.is_datetime64_any_dtype(column) and len(known):
            says = f"{known.min():%Y-%m-%d} … {known.max():%Y-%m-%d}"
        else:
            top = known.astype(str).value_counts().head(3)
            says = ", ".join(f"{value} ({count})" for value, count in top.items())
        distinct = (known.astype(str) if column.dtype == object else known).nunique()  # lists are values too
        rows.append((str(name), _type(s, name), int(distinct), f"{100 * empty.mean():.1f} %", says))
    more = len(s.frame.columns) - MANY
    extra = paragraph(f"… and {more:,} more columns.") if more > 0 else ""
    text = f"{len(s.y):,} rows, {s.frame.shape[1]:,} columns. {_target(s)}"
    notes = "".join(paragraph(finding, "note") for finding in s.context.findings)
    gone = list(s.context.left_out.items())
    out = paragraph("Columns left out, and why:") + table(("column", "reason"), gone[:MANY]) if gone else ""
    columns = table(("column", "type", "distinct", "missing", "values"), rows)
    return notes + paragraph(text) + columns + extra + out


def _target(s: Subject) -> str:
    if s.kind == "regression":
        return f"The target ranges from {cell(float(s.y.min()))} to {cell(float(s.y.max()))}."
    labels, counts = np.unique(s.y, return_counts=True)
    parts = ", ".join(
        f"{label} ({100 * n / len(s.y):.1f} %)" for label, n in list(zip(labels, counts, strict=True))[:10]
    )
    return f"Classes: {parts}{', …' if len(labels) > 10 else ''}."


def error_section(s: Subject) -> str:
    if s.kind == "regression":
        if not s.one_output:
            return paragraph("Not drawn for models with several outputs.")
        return figures(*draw.residuals(s)) + worst_section(s)
    if len(s.model.classes_) > draw.MAX_CLASSES:
        return paragraph(f"{len(s.model.classes_)} classes are too many for a confusion matrix.") + _confused(s)
    return draw.confusion(s) + _confused(s) + worst_section(s)


def _confused(s: Subject) -> str:
    wrong = s.predicted != s.y
    pairs = pd.Series(list(zip(s.y[wrong].tolist(), s.predicted[wrong].tolist(), strict=True))).value_counts().head(8)
    rows = [(str(t), str(p), int(n)) for (t, p), n in pairs.items()]
    return table(("true", "predicted", "rows"), rows) if rows else paragraph("No row was misclassified.")


def calibration_section(s: Subject) -> str:
    if s.kind != "regression":
        two = s.kind == "classification" and len(s.model.classes_) == 2
        return draw.reliability(s) + _sets(s) + (threshold_section(s) if two else "")
    if not s.one_output or not hasattr(s.model, "predict_interval"):
        return paragraph("This model has no prediction intervals.")
    return draw.coverage(s)


def _sets(s: Subject) -> str:
    """How often prediction sets held the true class, and how large they are; nothing where a model has none."""
    X, true = draw.some_of(s.features, s.sample), np.equal(s.y[s.sample][:, None], s.model.classes_)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            for coverage in SET_COVERAGES:
                inside = s.model.predict_set(X, coverage)
                held, size = 100 * (inside & true).any(axis=1).mean(), inside.sum(axis=1).mean()
                rows.append((f"{100 * coverage:g} %", f"{held:.1f} %", f"{size:.2f}"))
        except ValueError:  # no rows were left out
            return ""
    return paragraph(
        "Prediction sets (predict_set) hold the true class with a nominal probability. They are never empty, so they "
        "hold it more often where the most likely class is right more often than that."
    ) + table(("nominal coverage", "observed", "classes in a set"), rows)


def learning_section(s: Subject) -> str:
    curve = draw.learning_curve(s)
    if curve is None and hasattr(s.kept, "view_"):
        landmarks = f"The global model has {s.kept.map_.n_features_out:,} landmarks. "
        if s.kept.local_ is None:
            return paragraph(landmarks + "Local kernels, which would add detail, did not lower the held-out loss.")
        return paragraph(
            landmarks + "The local stage, which uses every training row, adds the detail that more landmarks would."
        )
    if curve is None:
        return paragraph("The number of features was given, so there is no curve to show.")
    return curve + paragraph(
        "Where the curve is flat, more features would not help; where it is still falling, they might."
    )


def unsure_section(s: Subject) -> str:
    if s.kind == "regression":
        if not s.one_output or not hasattr(s.model, "spread_"):
            return paragraph("This model does not estimate its uncertainty.")
        X = draw.some_of(s.features, s.sample)
        doubt = s.model.predict(X, return_std=True)[1]
        text, title = (
            "The rows with the largest predictive standard deviation, far from the training data.",
            "deviation",
        )
        if not np.ptp(doubt) > 0:
            doubt = np.abs(s.y[s.sample] - s.predicted[s.sample])
            text, title = (
                "The predictive standard deviation is the same everywhere; these rows have the largest errors.",
                "error",
            )
    else:
        top = np.sort(s.probability[s.sample], axis=1)
        doubt = -(top[:, -1] - top[:, -2])
        text, title = "The rows whose two most likely classes are closest in probability.", "margin"
    worst = np.argsort(doubt)[::-1][:UNSURE]
    rows = s.sample[worst]
    shown = list(s.frame.columns[:8])
    lines = [
        (
            str(s.names[i]),
            plain(s.y[i]),
            plain(s.predicted[i]),
            float(abs(doubt[w])),
            *(plain(s.frame.at[i, c]) for c in shown),
        )
        for i, w in zip(rows, worst, strict=True)
    ]
    return paragraph(text) + table(("row", "true", "predicted", title, *map(str, shown)), lines) + _far(s)


def _far(s: Subject) -> str:
    """How many rows are unlike those of the training."""
    if not hasattr(s.model, "is_far"):
        return ""
    try:
        far = s.model.is_far(draw.some_of(s.features, s.sample))
    except ValueError:  # no rows were left out
        return ""
    return paragraph(
        f"{int(far.sum()):,} of {len(far):,} rows are unlike any training row (is_far): predictions there are guesses. "
        "Among rows like those of the training, about 1 % are flagged."
    )


def reproduce_section(s: Subject, command: str) -> str:
    names = ("ulmus", "scikit-learn", "numpy", "scipy")
    rows = [(name, version(name)) for name in names] + [("python", platform.python_version())]
    code = command or f"import ulmus\n\nmodel = {s.estimator!r}\nmodel.fit(X, y)"
    seed = getattr(s.model, "random_state", None)
    note = (
        ""
        if isinstance(seed, int)
        else paragraph("random_state is not fixed, so another fit will differ slightly.", "note")
    )
    return f"<pre>{escape(code)}</pre>" + note + table(("package", "version"), rows)


#: Key, title, and what fills it.
SECTIONS: tuple[tuple[str, str, Callable[[Subject], str]], ...] = (
    ("scores", "Scores", score_section),
    ("data", "Data", data_section),
    ("choice", "Model selection", choice_section),
    ("errors", "Errors", error_section),
    ("parts", "Errors by subgroup", subgroup_section),
    ("calibration", "Calibration", calibration_section),
    ("learning", "Would a larger model help?", learning_section),
    ("importance", "Feature importance", importance_section),
    ("dependence", "Partial dependence", dependence_section),
    ("what_if", "What if", what_if_section),
    ("change", "What would change the prediction", change_section),
    ("map", "Map of the rows", map_section),
    ("unsure", "Least certain rows", unsure_section),
    ("behind", "Rows behind a prediction", behind_section),
    ("second_look", "Rows worth a second look", second_look_section),
)
