"""``ulmus.report``."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ulmus.report.page import Section, page, paragraph
from ulmus.report.sections import SECTIONS, reproduce_section
from ulmus.report.subject import Subject


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    seen: bool = False,
    command: str = "",
) -> None:
    """Write a report on a fitted model: one HTML page that needs no network.

    It tells what the data are, what was chosen and why, how good the model is and how sure that is, where it errs and
    where it is unsure, which columns matter, and how to do it again.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model of Ulmus, or a pipeline that ends in one.
    X : array or frame of shape (n_samples, n_features)
        Rows that the model has not seen, as it takes them.
    y : array of shape (n_samples,)
        Their targets.
    path : str or path-like
        Where to write.
    title : str, optional
    seen : bool, default=False
        Whether the model was fitted to these rows; the report then says that its scores flatter.
    command : str, optional
        The command that made the model, for the section on how to do it again.

    Examples
    --------
    >>> import pathlib, tempfile, ulmus
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = ulmus.NKELMClassifier(random_state=0).fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.html"
    ...     ulmus.report(model, X[1::2], y[1::2], path)
    ...     "Confusion" in path.read_text()
    True
    """
    check_is_fitted(model)
    subject = Subject.of(model, X, y, seen)
    if len(subject.frame) != len(subject.y) or not len(subject.y):
        raise ValueError(f"X and y must have the same number of rows, got {len(subject.frame)} and {len(subject.y)}")
    sections = [Section(key, name, make(subject)) for key, name, make in SECTIONS]
    sections.append(Section("again", "How to do it again", reproduce_section(subject, command)))
    name = type(subject.model).__name__
    lead = paragraph(f"{name}, {subject.kind}, on {len(np.atleast_1d(subject.y)):,} rows.")
    Path(path).write_text(page(title or f"Report on {name}", lead, sections), encoding="utf-8")
