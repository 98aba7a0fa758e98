"""Why some rows get their answers: what every column adds to them."""

import numpy as np

from ulmus.explain import explain
from ulmus.plots import BeeswarmDisplay
from ulmus.report import figures as draw
from ulmus.report.page import figure, paragraph
from ulmus.report.subject import Subject

#: Rows that are explained, rows that they are compared with, and columns beyond which neither is done.
ROWS, BACKGROUND, TOO_MANY = 40, 12, 100
#: Columns that are drawn.
SHOWN = 12


def reasons_part(s: Subject) -> str:
    """A swarm for every column: what it adds to the scores of some rows."""
    if not hasattr(s.model, "explain") or s.frame.shape[1] > TOO_MANY or len(s.y) < 2:
        return ""
    order = np.random.RandomState(0).permutation(s.sample)
    some, usual = (s.rows(s.frame.iloc[np.sort(part)]) for part in (order[:ROWS], order[-BACKGROUND:]))
    found = explain(s.estimator, some, usual)
    if found.values.ndim == 3:
        which = int(np.abs(found.values).mean(axis=(0, 1)).argmax())
        name = found.output_names[which] if found.output_names else f"output {which}"
        found, of = found[:, :, which], f" of {name}"
    else:
        of = f" of {s.model.classes_[1]}" if s.kind == "classification" else ""
    names = [str(name) for name in s.frame.columns]
    height = 1.2 + 0.36 * min(SHOWN, len(names))
    drawing, ax = draw.axes("", "", "", (5.6, height))
    BeeswarmDisplay.from_explanation(found, max_display=SHOWN, ax=ax)
    how = "exact" if found.exact else "sampled"
    text = (
        f"Each point is a row: how much the column moves its score{of} away from the mean of {len(usual)} other rows "
        f"({how} Shapley values). Contributions add up to the prediction. Red: the column has a high value."
    )
    return paragraph(text) + figure(
        drawing, "Shapley values of the columns", "The most influential columns are at the top."
    )
