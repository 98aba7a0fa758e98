"""From a model and rows to the text of a page."""

import warnings
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus.exceptions import DataWarning
from ulmus.labels import refuse_several
from ulmus.report.page import Section, page, paragraph
from ulmus.report.sections import SECTIONS, reproduce_section
from ulmus.report.subject import Context, Subject


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
) -> str:
    """The report as HTML."""
    check_is_fitted(model)
    last = model[-1] if isinstance(model, Pipeline) else model
    refuse_several(getattr(getattr(last, "fitted_", None), "targets", None), "a report")
    subject = Subject.of(model, X, y, seen, saved, context)
    if len(subject.frame) != len(subject.y) or not len(subject.y):
        raise ValueError(f"X and y must have the same number of rows, got {len(subject.frame)} and {len(subject.y)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of rows with values exchanged
        sections = [Section(key, name, make(subject)) for key, name, make in SECTIONS]
    sections.append(Section("again", "How to do it again", reproduce_section(subject, command)))
    name = type(subject.model).__name__
    known = subject.context
    goal = f" of {known.target}" if known.target else ""
    source = f" of {known.file}" if known.file else ""
    lead = paragraph(f"{name}, {subject.kind}{goal}, on {len(subject.y):,} rows{source}.")
    if known.n_rows:
        lead += paragraph(
            f"The file has {known.n_rows:,} rows with a target; {known.n_fitted:,} were fitted for the scores."
        )
    if subject.refitted:
        lead += paragraph(
            "The model that is kept was fitted again to all rows, and is described under “What was chosen”. Scores, "
            "errors and importances are those of the same kind of model fitted without the rows of this page, which "
            "were held out.",
            "note",
        )
    return page(title or (f"Report on {known.target}" if known.target else f"Report on {name}"), lead, sections)
