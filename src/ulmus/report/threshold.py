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
        return paragraph("The rows have only one class, so no threshold can be evaluated.")
    drawing, ax = draw.axes("ROC curve", "false positive rate", "true positive rate")
    ax.plot(*roc_curve(truth, p)[:2], color=draw.INK)
    ax.plot([0, 1], [0, 1], "--", color="0.4")
    first = figure(drawing, "ROC curve", "Closer to the upper left is better; the dashed line is chance.")
    precision, recall, _ = precision_recall_curve(truth, p)
    drawing, ax = draw.axes("Precision and recall", "recall", "precision")
    ax.plot(recall, precision, color=draw.INK)
    ax.axhline(truth.mean(), ls="--", color="0.4")
    ax.set_ylim(0, 1.05)
    both = figures(first, figure(drawing, "Precision and recall", "The dashed line is the prevalence of the class."))
    rows = s.sample
    data = json.dumps({"p": np.round(p[rows], 4).tolist(), "y": truth[rows].astype(int).tolist()})
    text = (
        f"A row is classified as {second} when its probability reaches the threshold. Enter the cost of a false "
        f"positive and of a false negative to get the cheapest threshold on these {len(rows):,} rows, or move the "
        "slider. It is tuned on the rows that score it, so expect slightly worse on new data."
    )
    panel = (
        f'<div id="threshold-box" class="panel" data-rows=\'{data}\'>'
        '<label>cost of a false positive <input id="cost-alarm" type="number" value="1" min="0" step="any"></label> '
        '<label>cost of a false negative <input id="cost-miss" type="number" value="1" min="0" step="any"></label> '
        '<label>threshold <input id="threshold" type="range" min="0" max="1" step="0.005" value="0.5"></label>'
        f'<output id="threshold-out"></output></div>'
    )
    return both + paragraph(text) + panel
