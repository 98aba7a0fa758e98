"""Two classes: at which probability to say yes, when mistakes cost differently."""

import json

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from ulmus.report import figures as draw
from ulmus.report.page import figure, figures, paragraph
from ulmus.report.subject import Subject


def threshold_section(s: Subject) -> str:
    """Curves, and a panel in which costs are set and the best threshold is found."""
    second = s.model.classes_[1]
    truth, p = s.y == second, s.probability[:, 1]
    if truth.all() or not truth.any():
        return paragraph("The rows are of one class only, so that no threshold can be judged.")
    drawing, ax = draw.axes("ROC curve", "share of false alarms", "share found")
    ax.plot(*roc_curve(truth, p)[:2], color=draw.INK)
    ax.plot([0, 1], [0, 1], "--", color="0.4")
    first = figure(drawing, "ROC curve", "Towards the upper left is better; the dashed line is chance.")
    precision, recall, _ = precision_recall_curve(truth, p)
    drawing, ax = draw.axes("Precision and recall", "recall: share found", "precision: share of alarms that are right")
    ax.plot(recall, precision, color=draw.INK)
    ax.axhline(truth.mean(), ls="--", color="0.4")
    ax.set_ylim(0, 1.05)
    both = figures(first, figure(drawing, "Precision and recall", "The dashed line is the share of the class."))
    rows = s.sample
    data = json.dumps({"p": np.round(p[rows], 4).tolist(), "y": truth[rows].astype(int).tolist()})
    text = (
        f"A row is called {second} when its probability reaches the threshold. Set what a false alarm and a miss cost: "
        f"the threshold of least cost on these {len(rows):,} rows is found; move it to see others. It was found on the "
        "rows that judge it, so expect a little less elsewhere."
    )
    panel = (
        f'<div id="threshold-box" class="panel" data-rows=\'{data}\'>'
        '<label>a false alarm costs <input id="cost-alarm" type="number" value="1" min="0" step="any"></label> '
        '<label>a miss costs <input id="cost-miss" type="number" value="1" min="0" step="any"></label> '
        '<label>threshold <input id="threshold" type="range" min="0" max="1" step="0.005" value="0.5"></label>'
        f'<output id="threshold-out"></output></div>'
    )
    return both + paragraph(text) + panel
