"""What was chosen, and the search behind it."""

from typing import Any

import numpy as np

from ulmus.models.summary import chosen
from ulmus.plots import TuningDisplay
from ulmus.report import figures as draw
from ulmus.report.page import cell, figure, figures, paragraph, table
from ulmus.report.subject import Subject
from ulmus.tuning import Tuning

#: Parameters that are shown when they were given.
SHOWN = (
    "kernel",
    "activation",
    "C",
    "gamma",
    "n_landmarks",
    "n_hidden",
    "loss",
    "decoding",
    "effort",
    "features",
    "head",
)


def choice_section(s: Subject) -> str:
    rows = _values(s.kept)
    body = table(("parameter", "value", ""), rows)
    if hasattr(s.kept, "view_"):
        return body + _views(s.kept)
    tuning = getattr(s.kept, "tuning_", None)
    if not isinstance(tuning, Tuning):
        return body + paragraph("All parameters were given; nothing was searched.")
    pairs = [draw.axes("", "", "") for _ in range(3)]
    TuningDisplay.from_estimator(s.kept, ax=[ax for _, ax in pairs])
    names = ("against C", "against size", "against width")
    search = figures(*(figure(d, f"Held-out loss {n}") for (d, _), n in zip(pairs, names, strict=True)))
    text = (
        f"{len(tuning.trials)} models were compared by held-out loss in {tuning.seconds:.1f} s. "
        "The star marks the choice: the lowest loss and, among equals, the simplest model."
    )
    return body + paragraph(text) + search


def _values(model: Any) -> list[tuple[str, str, str]]:
    given = model.get_params(deep=False)
    left = {name for name, value in given.items() if isinstance(value, str) and value == "auto"}
    found = [(n, v, "chosen from the data") for n, v in chosen(model).items() if n in left or n not in given]
    known = {name for name, _, _ in found}
    for name in SHOWN:
        value = given.get(name)
        if value is not None and name not in known | left:
            plain = value if isinstance(value, int | float | str) else type(value).__name__
            found.append((name, cell(plain), "given"))
    return found


def _views(model: Any) -> str:
    """The search of an adaptive model: every way of looking at the table, in the order in which they were tried."""
    trials = model.trials_
    drawing, ax = draw.axes("Model selection", "trial", "held-out loss")
    sizes = sorted({t.n_rows for t in trials})
    for n, marker in zip(sizes, "os^", strict=False):
        some = [k for k, t in enumerate(trials) if t.n_rows == n]
        ax.plot([k + 1 for k in some], [trials[k].best_loss for k in some], marker, ms=5, color=draw.INK, mfc="none",
                label=f"on {n:,} rows")  # fmt: skip
    last = [k for k, t in enumerate(trials) if t.n_rows == sizes[-1]]
    best = min(last, key=lambda k: trials[k].best_loss)
    ax.plot(best + 1, trials[best].best_loss, "*", ms=15, color="black", label="lowest")
    ax.set_ylim(0, 1.1 * float(np.max([t.best_loss for t in trials])))
    ax.legend(frameon=False)
    text = (
        f"{len(trials)} candidates were compared by leave-one-out loss: how the columns are "
        "prepared, the kernel, its width, and a metric that stretches the features along which the model varies most. "
        "The local stage (exact kernels in small regions, fitted to the residuals) was compared on held-out rows "
        "and kept only if it lowered the loss."
    )
    return paragraph(text) + figure(
        drawing, "Held-out loss of every trial", "Lower is better; the star marks the best."
    )
