"""From a model and rows to the text of a page."""

import warnings
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus.exceptions import DataWarning
from ulmus.labels import refuse_several
from ulmus.report.page import Section, page, paragraph
from ulmus.report.sections import SECTIONS, reproduce_section
from ulmus.report.subject import Context, Subject, TrainingTable


def document(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None,
    seen: bool,
    command: str,
    saved: Any = None,
    context: Context | None = None,
    training: tuple[Any, Any, Any] | None = None,
) -> str:
    """The report as HTML."""
    check_is_fitted(model)
    last = model[-1] if isinstance(model, Pipeline) else model
    refuse_several(getattr(getattr(last, "fitted_", None), "targets", None), "a report")
    table = None if training is None else TrainingTable.of(model, *training)
    subject = Subject.of(model, X, y, seen, saved, context, table)
    if len(subject.frame) != len(subject.y) or not len(subject.y):
        raise ValueError(f"X and y must have the same number of rows, got {len(subject.frame)} and {len(subject.y)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of rows with values exchanged
        sections = [Section(key, name, make(subject)) for key, name, make in SECTIONS]
    sections.append(Section("again", "Reproduce", reproduce_section(subject, command)))
    name = type(subject.model).__name__
    known = subject.context
    goal = f" of {known.target}" if known.target else ""
    source = f" of {known.file}" if known.file else ""
    lead = paragraph(f"{name}, {subject.kind}{goal}, on {len(subject.y):,} rows{source}.")
    if known.n_rows:
        lead += paragraph(
            f"{known.n_rows:,} rows of the file have a target; {known.n_fitted:,} trained the scored model."
        )
    if subject.refitted:
        lead += paragraph(
            "The saved model was refitted to all rows; “Model selection” describes it. Scores, "
            "errors and importances come from the same kind of model trained without the rows shown here, which "
            "were held out.",
            "note",
        )
    return page(title or (f"Report on {known.target}" if known.target else f"Report on {name}"), lead, sections)
