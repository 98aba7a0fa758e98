"""The figures of a report. They differ by shape and line before they differ by colour."""

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ulmus.report.page import figure
from ulmus.report.subject import Subject

INK = "#0b4f8a"
#: Classes that a confusion matrix can show.
MAX_CLASSES = 30


def shortened(text: str, length: int) -> str:
    """A name that fits beside an axis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def axes(title: str, x: str, y: str, size: tuple[float, float] = (4.6, 3.6)) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('reports are drawn with matplotlib; get it with pip install "ulmus[plot]"') from error
    drawing = Figure(figsize=size, layout="constrained")
    ax = drawing.add_subplot()
    ax.set(title=title, xlabel=x, ylabel=y)
    ax.grid(True, alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return drawing, ax


def confusion(s: Subject) -> str:
    labels = s.model.classes_.tolist()
    drawing, ax = axes("Confusion", "predicted", "true", (0.5 * len(labels) + 2.6, 0.5 * len(labels) + 2.2))
    M = confusion_matrix(s.y, s.predicted, labels=labels)
    share = M / np.maximum(M.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    ax.grid(False)
    for i, j in np.ndindex(M.shape):
        if M[i, j] or i == j:
            ax.text(j, i, f"{M[i, j]:,}", ha="center", va="center", color="white" if share[i, j] > 0.55 else "black")
    ax.set_xticks(range(len(labels)), [str(c) for c in labels], rotation=45, ha="right")
    ax.set_yticks(range(len(labels)), [str(c) for c in labels])
    return figure(drawing, "Confusion matrix", "Rows are true classes, columns are predictions; cells count rows.")


def reliability(s: Subject) -> str:
    """How often the model was right, against how sure it was."""
    sure = s.probability.max(axis=1)
    right = s.predicted == s.y
    bins = int(np.clip(len(sure) // 40, 3, 10))
    edges = np.unique(np.quantile(sure, np.linspace(0, 1, bins + 1)))
    which = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, max(len(edges) - 2, 0))
    points = [(sure[which == b].mean(), right[which == b].mean(), (which == b).sum()) for b in np.unique(which)]
    x, y, n = map(np.array, zip(*points, strict=True))
    drawing, ax = axes("Calibration", "predicted probability", "observed accuracy")
    low = min(0.95, float(min(x.min(), y.min())) - 0.05)
    ax.plot([low, 1], [low, 1], "--", color="0.4", label="perfect")
    error = 1.96 * np.sqrt(np.maximum(y * (1 - y), 0.25 / n) / n)
    ax.errorbar(
        x, y, yerr=[np.minimum(error, y), np.minimum(error, 1 - y)], fmt="o-", color=INK, capsize=3, label="this model"
    )
    ax.set(xlim=(low, 1.02), ylim=(max(0, low - 0.05), 1.05))
    ax.legend(frameon=False)
    return figure(
        drawing,
        "Calibration of probabilities",
        "On the dashed line, predictions made with 80 % confidence are right 80 % of the time.",
    )


def residuals(s: Subject) -> tuple[str, str]:
    rows = s.sample
    y, p = s.y[rows], s.predicted[rows]
    drawing, ax = axes("Predicted against true", "true", "predicted")
    ax.plot(y, p, "o", ms=3, alpha=0.5, color=INK, rasterized=False)
    ends = [float(min(y.min(), p.min())), float(max(y.max(), p.max()))]
    ax.plot(ends, ends, "--", color="0.3")
    first = figure(drawing, "Predictions against true values", "Points on the dashed line are predicted exactly.")
    drawing, ax = axes("Residuals", "predicted", "true − predicted")
    ax.plot(p, y - p, "o", ms=3, alpha=0.5, color=INK)
    ax.axhline(0, ls="--", color="0.3")
    return first, figure(
        drawing, "Residuals against predictions", "Any pattern here is structure the model has missed."
    )


def coverage(s: Subject) -> str:
    """How often intervals held the truth, against what they promise."""
    promised = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    X, y = some_of(s.features, s.sample), s.y[s.sample]
    ends = s.model.predict_interval(X, coverage=promised.tolist())
    inside = (ends[..., 0] <= y[:, None]) & (y[:, None] <= ends[..., 1])
    held = inside.mean(axis=0)
    by_width = np.array_split(np.argsort(ends[:, 4, 1] - ends[:, 4, 0], kind="stable"), 5)
    least, widest = (100 * float(inside[part, 4].mean()) for part in (by_width[0], by_width[-1]))
    text = f"Coverage of the 90 % interval is {least:.0f} % for the narrowest fifth of the intervals and"
    drawing, ax = axes("Coverage of intervals", "nominal coverage", "observed coverage")
    ax.plot([0.45, 1], [0.45, 1], "--", color="0.4", label="perfect")
    error = 1.96 * np.sqrt(promised * (1 - promised) / len(y))
    ax.errorbar(promised, held, yerr=error, fmt="o-", color=INK, capsize=3, label="this model")
    ax.legend(frameon=False)
    note = f"On the dashed line, 90 % intervals cover 90 % of the rows. {text} {widest:.0f} % for the widest."
    return figure(drawing, "Coverage of prediction intervals", note)


def learning_curve(s: Subject) -> str | None:
    """The best loss for every size that was tried on all rows."""
    tuning: Any = getattr(s.kept, "tuning_", None)
    trials = {t.size: t for t in tuning.trials if t.stage in ("size", "C")} if tuning is not None else {}
    if len(trials) < 2:
        return None
    sizes = sorted(trials)
    losses = np.array([trials[k].best_loss for k in sizes])
    drawing, ax = axes("Learning curve", "number of features, L", "held-out loss")
    ax.plot(sizes, losses, "o-", color=INK)
    ax.plot(
        tuning.size, trials[tuning.size].best_loss if tuning.size in trials else tuning.loss, "*", ms=15, color="black"
    )
    ax.set_ylim(losses.min() - 0.1 * losses.max(), 1.1 * losses.max())  # what is small looks small
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [str(k) for k in sizes])
    ax.minorticks_off()
    return figure(drawing, "Held-out loss against the number of features", "The star marks the choice.")


def bars(names: list[str], values: np.ndarray, spread: np.ndarray | None, label: str, title: str, note: str) -> str:
    drawing, ax = axes("Importance", label, "", (5.2, 0.3 * len(names) + 1.2))
    place = np.arange(len(names))[::-1]
    ax.barh(place, values, xerr=spread, color="#b8d3ea", edgecolor=INK, capsize=2)
    ax.set_yticks(place, [shortened(n, 30) for n in names])
    ax.axvline(0, color="0.3", lw=1)
    return figure(drawing, title, note)


def some_of(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame or an array."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
