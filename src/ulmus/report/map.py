"""A map: rows in the plane in which their classes lie furthest apart, found by ENDA; each tells its values."""

from html import escape
from typing import Any

import numpy as np
import pandas as pd

import ulmus
from ulmus._numbers import number
from ulmus.report.page import paragraph
from ulmus.report.subject import Subject

#: Rows that fit and that are drawn, at most; classes with a shape of their own; groups of a numeric target.
FIT_ROWS, DRAWN, SHAPES, GROUPS = 2_000, 600, 8, 5
#: Rows from which on the plane is found on other rows than those that are drawn.
HALVED = 60
WIDTH, HEIGHT, EDGE = 640, 480, 24
COLOURS = ("#0b4f8a", "#b34700", "#1a7a3c", "#7a1a6b", "#8a6d00", "#333333", "#c2185b", "#00838f")
#: Shapes around the origin, of radius 5: classes differ without colour.
_PATHS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0",
    "M-4.2,-4.2h8.4v8.4h-8.4z",
    "M0,-5.5L5,4H-5z",
    "M0,-6L5,0L0,6L-5,0z",
    "M-5,-5L5,5M5,-5L-5,5",
    "M0,-6V6M-6,0H6",
    "M0,5.5L5,-4H-5z",
    "M-5,0H5M-2.5,-4.5L2.5,4.5M2.5,-4.5L-2.5,4.5",
)
_OPEN = (4, 5, 7)


def map_section(s: Subject) -> str:
    """The section of a report."""
    if not s.one_output:
        return paragraph("Not drawn for models with several outputs.")
    rows = s.sample
    classes, index = grouped(s.y[rows], None if s.kind == "regression" else s.model.classes_)
    values = s.frame.iloc[rows].set_axis(s.names[rows], axis=0)
    picture = project(s.coordinates(rows), classes, index, values, {"predicted": s.predicted[rows]})
    if picture is None:
        return paragraph("The rows have only one class, so there is no map.")
    groups, hard = ("ranges of the target", "predict") if s.kind == "regression" else ("classes", "classify")
    text = (
        f"Each mark is a row, projected onto the plane that best separates the {groups} (ENDA). Hover over a mark, or "
        f"tap it, for its values. Rows among marks of another shape are hard to {hard} from these columns."
    )
    return paragraph(f"{text} {shown(len(rows))}") + picture


def shown(n_rows: int) -> str:
    """Which rows a map of this many draws."""
    fitted, drawn = _halves(n_rows)
    if len(fitted) == n_rows:
        return (
            f"All {n_rows:,} rows are drawn, and the plane was fitted to the same rows, so it looks better than it is."
        )
    return f"{len(drawn):,} of {n_rows:,} rows are drawn; the plane was fitted to {len(fitted):,} others."


def _halves(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows by which the plane is found, and rows that are drawn in it: others, where there are enough."""
    order = np.random.RandomState(0).permutation(n_rows)
    if n_rows < HALVED:
        return np.arange(n_rows), np.arange(n_rows)
    drawn = min(DRAWN, n_rows // 2)
    return np.sort(order[drawn:][:FIT_ROWS]), np.sort(order[:drawn])


def grouped(y: np.ndarray, classes: np.ndarray | None) -> tuple[list[str], np.ndarray]:
    """Names of the groups, in their order, and the group of every row: its class, or its fifth of a numeric target."""
    if classes is not None:
        names = [str(c) for c in classes.tolist()]
        where = {name: k for k, name in enumerate(names)}
        index = np.array([where.get(str(v), len(names)) for v in y.tolist()])
        return [*names, "another"], index
    index = np.searchsorted(np.unique(np.quantile(y, np.linspace(0, 1, GROUPS + 1)[1:-1])), y, side="right")
    present, index = np.unique(index, return_inverse=True)
    return [f"{number(y[index == k].min())} … {number(y[index == k].max())}" for k in range(len(present))], index


def project(
    features: np.ndarray, classes: list[str], index: np.ndarray, values: pd.DataFrame, more: dict[str, Any]
) -> str | None:
    """The map as SVG with a legend; None when there is only one class."""
    fitted, drawn = _halves(len(index))
    n_classes = len(np.unique(index[fitted]))
    if n_classes < 2:
        return None
    Z = ulmus.ENDA(random_state=0).fit(features[fitted], index[fitted]).transform(features)
    Z = np.column_stack([Z, np.zeros(len(Z))])[:, :2] if Z.shape[1] < 2 else Z[:, :2]
    if n_classes == 2:  # one direction tells two classes apart: spread the rows along the other
        Z[:, 1] = np.random.RandomState(0).uniform(-1, 1, len(Z))
    low, high = np.quantile(Z[drawn], 0.005, axis=0), np.quantile(Z[drawn], 0.995, axis=0)
    unit = np.clip((Z - low) / np.where(high > low, high - low, 1.0), 0, 1)
    x, y = EDGE + unit[:, 0] * (WIDTH - 2 * EDGE), HEIGHT - EDGE - unit[:, 1] * (HEIGHT - 2 * EDGE)
    marks = []
    for i in drawn:
        lines = [f"row {values.index[i]}: {classes[index[i]]}", *(f"{k}: {v[i]}" for k, v in more.items())]
        lines += [f"{c}: {values.iloc[i][c]}" for c in values.columns[:8]]
        tip = escape("\n".join(str(t)[:60] for t in lines), quote=True)
        mark = _mark(int(index[i]))
        marks.append(f'<g tabindex="0" transform="translate({x[i]:.1f},{y[i]:.1f})" data-tip="{tip}">{mark}</g>')
    drawing = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Map of the rows">'
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" fill="none" stroke="#999"/>{"".join(marks)}</svg>'
    )
    return f'<figure class="map">{drawing}<figcaption>{_legend(classes, index[drawn])}</figcaption></figure>'


def _mark(k: int) -> str:
    """A shape, a colour and a filling: 64 classes differ, the first eight by their shapes."""
    shape, turn = k % SHAPES, k // SHAPES
    colour = COLOURS[(k + turn) % len(COLOURS)]
    fill = "none" if shape in _OPEN or turn % 2 else colour
    return f'<path d="{_PATHS[shape]}" fill="{fill}" fill-opacity=".6" stroke="{colour}" stroke-width="1.2"/>'


def _legend(classes: list[str], index: np.ndarray) -> str:
    parts = []
    for k, label in enumerate(classes[:20]):
        if not (index == k).any():
            continue
        icon = f'<svg class="icon" viewBox="-8 -8 16 16">{_mark(k)}</svg>'
        parts.append(f'<span class="entry">{icon}&nbsp;{escape(str(label))} ({int((index == k).sum())})</span>')
    return " · ".join(parts) + (" · …" if len(classes) > 20 else "")
