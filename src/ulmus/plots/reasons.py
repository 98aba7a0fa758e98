"""Pictures of explanations: one prediction as a waterfall, many as swarms. Need matplotlib, imported when drawing."""

from typing import Any, Self

import numpy as np

from ulmus._numbers import number
from ulmus.explain import Explanation
from ulmus.plots.axes import axes_for, readable

UP, DOWN = "tab:red", "tab:blue"


def _one_output(explanation: Explanation, output: Any) -> Explanation:
    if explanation.values.ndim == 2:
        return explanation
    if output is None:
        names = explanation.output_names or [str(k) for k in range(explanation.values.shape[2])]
        raise ValueError(f"there are several outputs; choose one with output=, one of {names}")
    return explanation[:, :, output]


def _short(value: Any) -> str:
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return str(value)[:20]


class WaterfallDisplay:
    """One prediction, from the mean of the background up and down to the score, an input at a time.

    Create it with :meth:`from_explanation`.

    Parameters
    ----------
    names : list of str
        What is written beside the bars: inputs and what they were; the last bar holds the smallest together.
    values : ndarray
        Their Shapley values, from the largest down.
    base_value : float
        Where the bars begin.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ulmus import NKELMRegressor, WaterfallDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NKELMRegressor(random_state=0).fit(X, y)
    >>> display = WaterfallDisplay.from_explanation(model.explain(X[:5], X[:50]), row=0)
    >>> len(display.values)
    10
    """

    def __init__(self, names: list[str], values: np.ndarray, base_value: float) -> None:
        self.names = names
        self.values = values
        self.base_value = base_value

    @classmethod
    def from_explanation(
        cls, explanation: Explanation, row: int = 0, *, output: Any = None, max_display: int = 10, ax: Any = None
    ) -> Self:
        """Draw one row of an explanation.

        Parameters
        ----------
        explanation : Explanation
        row : int, default=0
        output : int or str, optional
            Which score, where there are several.
        max_display : int, default=10
            Bars, at most; what is left is one bar.
        ax : matplotlib Axes, optional

        Returns
        -------
        WaterfallDisplay
        """
        one = _one_output(explanation, output)
        values, data = one.values[row], one.data[row]
        order = np.argsort(-np.abs(values), kind="stable")
        names = [f"{one.feature_names[j]} = {_short(data[j])}" for j in order]
        values = values[order]
        if len(values) > max_display:
            rest = max_display - 1
            names = [*names[:rest], f"{len(values) - rest} others"]
            values = np.append(values[:rest], values[rest:].sum())
        return cls(names, values, float(one.base_values[row])).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = axes_for("WaterfallDisplay", ax, 1.2 + 0.36 * len(self.values))
        self.ax_, self.figure_ = ax, ax.figure
        after = self.base_value + np.cumsum(self.values[::-1])[::-1]  # the largest comes in last, at the top
        places = np.arange(len(self.values))[::-1]
        colours = [UP if value > 0 else DOWN for value in self.values]
        self.bars_ = ax.barh(places, self.values, left=after - self.values, color=colours, height=0.7)
        for place, value, end in zip(places, self.values, after, strict=True):
            away, side = (4, "left") if value >= 0 else (-4, "right")
            beside = {"textcoords": "offset points", "ha": side, "va": "center", "fontsize": "small"}
            ax.annotate(f"{value:+,.0f}" if abs(value) >= 1e3 else f"{value:+.3g}", (end, place), (away, 0), **beside)
        ax.axvline(self.base_value, color="0.5", linewidth=1, linestyle=":", zorder=0)
        ax.set_yticks(places, self.names)
        end = self.base_value + float(self.values.sum())
        ax.set(xlabel="score", title=f"from {number(self.base_value)} (background) to {number(end)}")
        ax.use_sticky_edges = False
        ax.margins(x=0.15)
        ax.spines[["top", "right"]].set_visible(False)
        readable(ax)
        return self


class BeeswarmDisplay:
    """Many explanations at once: a line for every input, a point for every row, its colour the input's value.

    Create it with :meth:`from_explanation`.

    Parameters
    ----------
    names : list of str
        Inputs, from the most important (by mean absolute value) down.
    values : ndarray of shape (n_samples, n_shown)
        Their Shapley values.
    levels : ndarray of shape (n_samples, n_shown)
        Ranks of the inputs' values, between 0 and 1; NaN where these are no numbers.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ulmus import BeeswarmDisplay, NKELMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NKELMRegressor(random_state=0).fit(X, y)
    >>> BeeswarmDisplay.from_explanation(model.explain(X[:50], X[:20])).names[:2]
    ['bmi', 's5']
    """

    def __init__(self, names: list[str], values: np.ndarray, levels: np.ndarray) -> None:
        self.names = names
        self.values = values
        self.levels = levels

    @classmethod
    def from_explanation(
        cls, explanation: Explanation, *, output: Any = None, max_display: int = 15, ax: Any = None
    ) -> Self:
        """Draw all rows of an explanation.

        Parameters
        ----------
        explanation : Explanation
        output : int or str, optional
            Which score, where there are several.
        max_display : int, default=15
            Inputs, at most.
        ax : matplotlib Axes, optional

        Returns
        -------
        BeeswarmDisplay
        """
        one = _one_output(explanation, output)
        order = np.argsort(-one.importance(), kind="stable")[:max_display]
        levels = np.column_stack([_ranks(one.data[:, j]) for j in order])
        return cls([one.feature_names[j] for j in order], one.values[:, order], levels).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = axes_for("BeeswarmDisplay", ax, 1.2 + 0.4 * len(self.names))
        self.ax_, self.figure_ = ax, ax.figure
        reach = float(np.abs(self.values).max(initial=0.0)) or 1.0
        for line, (values, levels) in enumerate(zip(self.values.T, self.levels.T, strict=True)):
            place = len(self.names) - 1 - line + _swarm(values, reach)
            grey = np.isnan(levels)
            ax.scatter(values[grey], place[grey], s=8, color="0.6", linewidths=0)
            points = ax.scatter(values[~grey], place[~grey], s=8, c=levels[~grey], cmap="coolwarm", vmin=0, vmax=1,
                                linewidths=0)  # fmt: skip
        ax.axvline(0.0, color="0.5", linewidth=1, zorder=0)
        ax.set_yticks(np.arange(len(self.names))[::-1], self.names)
        ax.set(xlabel="what the input adds to the score", title="Shapley values")
        ax.spines[["top", "right", "left"]].set_visible(False)
        bar = self.figure_.colorbar(points, ax=ax, ticks=[0, 1], aspect=40, pad=0.01)
        bar.ax.set_yticklabels(["low", "high"])
        bar.outline.set_visible(False)
        readable(ax)
        return self


def _ranks(column: np.ndarray) -> np.ndarray:
    """Ranks between 0 and 1, equal values in the middle; NaN for what is no number."""
    try:
        numbers = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(len(column), np.nan)
    out, there = np.full(len(numbers), np.nan), np.isfinite(numbers)
    if there.any():
        levels, place, count = np.unique(numbers[there], return_inverse=True, return_counts=True)
        middle = (np.cumsum(count) - count / 2) / count.sum()
        out[there] = middle[place] if len(levels) > 1 else 0.5
    return out


def _swarm(values: np.ndarray, reach: float) -> np.ndarray:
    """How far points are moved up or down so that those in the same place lie side by side."""
    bins = np.floor(values / reach * 50).astype(int)
    out = np.zeros(len(values))
    most = max(np.bincount(bins - bins.min(initial=0)).max(initial=1), 12)
    for which in np.unique(bins):
        here = np.flatnonzero(bins == which)
        turn = np.arange(len(here))
        out[here] = ((turn + 1) // 2) * np.where(turn % 2, 1, -1) * 0.8 / most
    return out
