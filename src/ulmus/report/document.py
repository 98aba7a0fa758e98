"""From a model and rows to the text of a page."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ulmus.report.page import Section, page, paragraph
from ulmus.report.sections import SECTIONS, reproduce_section
from ulmus.report.subject import Subject


def document(model: Any, X: Any, y: Any, *, title: str | None, seen: bool, command: str, saved: Any = None) -> str:
    """The report as HTML."""
    check_is_fitted(model)
    subject = Subject.of(model, X, y, seen, saved)
    if len(subject.frame) != len(subject.y) or not len(subject.y):
        raise ValueError(f"X and y must have the same number of rows, got {len(subject.frame)} and {len(subject.y)}")
    sections = [Section(key, name, make(subject)) for key, name, make in SECTIONS]
    sections.append(Section("again", "How to do it again", reproduce_section(subject, command)))
    name = type(subject.model).__name__
    lead = paragraph(f"{name}, {subject.kind}, on {len(subject.y):,} rows.")
    if subject.refitted:
        lead += paragraph(
            "The model that is kept was fitted again to all rows, and is described under “What was chosen”. Scores, "
            "errors and importances are those of the same kind of model fitted without the rows of this page, which "
            "were held out.",
            "note",
        )
    return page(title or f"Report on {name}", lead, sections)
