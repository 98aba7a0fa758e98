"""Labels of axes do not overlap, and large numbers are written as people write them."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ulmus import WaterfallDisplay
from ulmus.plots.axes import readable

ROOM = 0.25


def drawn(values, size=(4.2, 3.0)):
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.plot(values, values)
    return ax


def boxes(ax):
    ax.figure.canvas.draw()
    shown = [tick.label1 for tick in ax.xaxis.get_major_ticks() if tick.label1.get_text()]
    low, high = ax.get_xlim()
    return [text.get_window_extent() for text in shown if low <= text.get_position()[0] <= high]


def room(found):
    """Between labels, as a share of their width: browsers have other fonts, and wider ones."""
    return min((right.x0 - left.x1) / max(left.width, right.width) for left, right in pairwise(found))


@pytest.mark.parametrize("largest", [0.003, 1.0, 9_500, 625_000, 128_000, 8.4e6, 3.7e11])
@pytest.mark.parametrize("low", [0, -1])
def test_labels_of_no_axis_overlap(largest, low):
    ax = drawn(np.linspace(low * largest, largest, 9))
    readable(ax)
    found = sorted(boxes(ax), key=lambda box: box.x0)
    assert 3 <= len(found) <= 7
    assert room(found) > ROOM


def test_the_labels_that_matplotlib_would_write_have_too_little_room():
    assert room(sorted(boxes(drawn(np.linspace(-31_000, 128_000, 9), (5.6, 5.5))), key=lambda box: box.x0)) < ROOM


def test_dates_and_named_ticks_are_left_as_they_are():
    ax = drawn(np.arange("2024-01", "2025-01", dtype="datetime64[M]").astype("datetime64[D]"))
    ax.set_yticks([19_800, 20_000], ["then", "now"])
    before = [type(ax.xaxis.get_major_locator()), type(ax.yaxis.get_major_locator())]
    readable(ax)
    assert [type(ax.xaxis.get_major_locator()), type(ax.yaxis.get_major_locator())] == before


def test_a_waterfall_of_money_has_no_exponents():
    display = WaterfallDisplay(["area", "age"], np.array([125_000.0, -2_500.0]), 180_000.0).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["+125,000", "-2,500"]
    assert any("," in text.get_text() for text in display.ax_.get_xticklabels())
