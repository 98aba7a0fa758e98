"""What displays share: axes to draw on, styles of lines, and tick labels that do not run into each other."""

from functools import partial
from typing import Any

#: Ticks along the horizontal axis, at most one more; numbers from which on they are written in short, and how.
ACROSS = 5
_SHORT = ((1e12, " tn"), (1e9, " bn"), (1e6, " M"))


def readable(*axes: Any) -> None:
    """Give matplotlib Axes of plain numbers fewer ticks, and labels such as 125,000 or 2.5 M."""
    from matplotlib.ticker import AutoLocator, FuncFormatter, MaxNLocator, ScalarFormatter

    as_written(*axes)
    for ax in axes:
        for axis, most in ((ax.xaxis, ACROSS), (ax.yaxis, 9)):
            if type(axis.get_major_locator()) is not AutoLocator:
                continue
            axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
            low, high = sorted(axis.get_view_interval())
            largest = max(abs(low), abs(high))
            if type(axis.get_major_formatter()) is ScalarFormatter and 1e4 <= largest < 1e15:
                axis.set_major_formatter(FuncFormatter(lambda value, _, largest=largest: label(value, largest)))


def as_written(*axes: Any) -> None:
    """Show texts on matplotlib Axes as they are: names with two dollar signs are no formulas."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    for ax in axes:
        legends = [each for each in (ax.get_legend(), *ax.figure.legends) if each is not None]
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += [text for legend in legends for text in (legend.get_title(), *legend.get_texts())]
        for axis in (ax.xaxis, ax.yaxis, *([ax.zaxis] if hasattr(ax, "zaxis") else [])):
            shown = axis.get_major_formatter()
            if isinstance(shown, FixedFormatter | FuncFormatter | StrCategoryFormatter):  # others write numbers
                axis.set_major_formatter(FuncFormatter(partial(_escaped, shown)))
            texts.append(axis.label)
        for text in texts:
            text.set_parse_math(False)


def _escaped(shown: Any, value: float, place: int | None) -> str:
    return str(shown(value, place)).replace(r"\$", "$").replace("$", r"\$")


def label(value: float, largest: float) -> str:
    """A number on an axis that reaches up to ``largest``.

    >>> label(125_000.0, 4e5), label(2.5e6, 4e6), label(0.0, 4e6), label(-2e9, 8e9)
    ('125,000', '2.5 M', '0', '−2 bn')
    """
    unit, name = next(((unit, name) for unit, name in _SHORT if largest >= unit), (1.0, ""))
    text = f"{value / unit:,.6g}" if unit > 1 else f"{value:,.12g}"
    return (text + (name if value else "")).replace("-", "−")


#: (line style, marker) of the lines of one panel, in order: they differ without colour.
STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "P"), ((0, (8, 2)), "X"))
#: How the choice is marked.
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 17,
    "color": "black",
    "markerfacecolor": "gold",
    "linestyle": "none",
    "zorder": 5,
}


def styles(count: int) -> list[Any]:
    """Styles of this many lines."""
    return [STYLES[k % len(STYLES)] for k in range(count)]


def pyplot(name: str) -> Any:
    """Matplotlib, for the display of this name."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{name} draws with matplotlib; get it with pip install "ulmus[plot]"') from error
    return plt


def axes_for(name: str, ax: Any, height: float) -> Any:
    """The axes that were given, or those of a new figure."""
    plt = pyplot(name)
    return plt.subplots(figsize=(7, height), layout="constrained")[1] if ax is None else ax
