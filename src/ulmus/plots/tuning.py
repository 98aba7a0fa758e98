"""Pictures of a search: what was tried, and where the choice lies. Needs matplotlib, which is imported when drawing."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.isotonic import isotonic_regression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus.plots.axes import STAR, pyplot, styles
from ulmus.plots.views import ViewsDisplay
from ulmus.tuning import Trial, Tuning

#: Attribute that tells the family → name of its width, and what its size counts.
FAMILIES = {
    "n_hidden_": ("slope", "hidden nodes"),
    "n_landmarks_": ("gamma", "landmarks"),
    "alpha_": ("gamma", "landmarks of the search"),
}
#: (whether a classifier, criterion) → what the loss is.
LOSSES = {
    (False, "auto"): "squared error / variance",
    (False, "squared"): "squared error / variance",
    (False, "absolute"): "absolute error / deviation",
    (True, "auto"): "error, soft at the margin",
    (True, "error"): "error",
    (True, "squared"): "squared error of the scores",
}


class TuningDisplay:
    """What a self-tuning model tried: loss against C, against size and against width.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    tuning : Tuning
        The ``tuning_`` of a fitted model.
    width_name, size_name, loss_name : str
        What the axes are called.

    Attributes
    ----------
    axes_ : ndarray of three matplotlib Axes
        Loss against C (one line per size), best loss against size, best loss against width (one line per sample).
        A star marks the choice.
    figure_ : matplotlib Figure
    lines_ : dict of str to list of matplotlib Line2D
        The lines of each panel: ``"C"``, ``"size"``, ``"width"``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ulmus import NKELMClassifier, TuningDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NKELMClassifier(random_state=0).fit(X, y)
    >>> display = TuningDisplay.from_estimator(model)
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['C', 'landmarks', 'gamma']
    """

    def __init__(self, tuning: Tuning, *, width_name: str, size_name: str, loss_name: str) -> None:
        self.tuning = tuning
        self.width_name = width_name
        self.size_name = size_name
        self.loss_name = loss_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Sequence[Any] | None = None) -> "Self | ViewsDisplay":
        """Draw the search of a fitted model.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted ELM, KELM, NKELM or adaptive model that chose something, or a pipeline that ends in one.
        ax : sequence of three matplotlib Axes, optional
            Where to draw: loss against C, against size, against width; of an adaptive model by preparation of the
            columns, by kernel and metric, against the width. A new figure when not given.

        Returns
        -------
        TuningDisplay
            Or, of an adaptive model, an object with the same attributes.
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        check_is_fitted(model)
        name = type(model).__name__
        if not isinstance(getattr(model, "tuning_", None), Tuning):
            if any(trial.preparation for trial in getattr(model, "trials_", ())):
                return ViewsDisplay(model.trials_, model.view_).plot(_three_axes(ax))
            if hasattr(model, "trials_"):
                raise ValueError(f"this {name} was saved by an earlier version, which kept no trials; fit it again")
            given = {p: v for p, v in model.get_params(deep=False).items() if p in ("C", "gamma", "slope")}
            values = ", ".join(f"{p}={v!r}" for p, v in given.items())
            raise ValueError(
                f"nothing was tuned: {name}({values}) has no record of a search; "
                'leave C, the width or the size at "auto" and fit again'
            )
        width, size = next(names for attribute, names in FAMILIES.items() if hasattr(model, attribute))
        loss = LOSSES[is_classifier(model), model.criterion]
        return cls(model.tuning_, width_name=width, size_name=size, loss_name=f"held-out {loss}").plot(ax=ax)

    def plot(self, *, ax: Sequence[Any] | None = None) -> Self:
        """Draw the three panels.

        Parameters
        ----------
        ax : sequence of three matplotlib Axes, optional

        Returns
        -------
        self
        """
        self.axes_ = _three_axes(ax)
        self.figure_ = self.axes_[0].figure
        self.lines_ = {
            "C": self._draw_C(self.axes_[0]),
            "size": self._draw_size(self.axes_[1]),
            "width": self._draw_width(self.axes_[2]),
        }
        return self

    @property
    def _sizes(self) -> dict[int, Trial]:
        """The last full trial of every size, with the chosen width on all rows."""
        found = {trial.size: trial for trial in self.tuning.trials if trial.stage in ("size", "C")}
        return dict(sorted(found.items()))

    def _draw_C(self, ax: Any) -> list[Any]:
        lines = []
        for (size, trial), (line, marker) in zip(self._sizes.items(), styles(len(self._sizes)), strict=True):
            every = max(1, len(trial.C) // 8)
            lines += ax.plot(
                trial.C, trial.loss, linestyle=line, marker=marker, markevery=every, markersize=4, label=f"{size}"
            )
        self._dress(ax, "C", f"Loss against C, by {self.size_name}")
        _label_ends(ax, lines)
        ax.plot(self.tuning.C, self.tuning.loss, label="chosen", **STAR)
        return lines

    def _draw_size(self, ax: Any) -> list[Any]:
        trials = list(self._sizes.values())
        sizes = [trial.size for trial in trials]
        lines = ax.plot(sizes, [trial.best_loss for trial in trials], "-o", markersize=5, label="best C")
        ax.plot(self.tuning.size, self.tuning.loss, label="chosen", **STAR)
        self._dress(ax, self.size_name, "Best loss against size")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        if len(sizes) == 1:
            _note(ax, "the size was not searched")
        return lines

    def _draw_width(self, ax: Any) -> list[Any]:
        levels: dict[tuple[int, int], list[Trial]] = {}
        for trial in self.tuning.trials:
            if trial.stage == "width":
                levels.setdefault((trial.n_rows, trial.size), []).append(trial)
        lines = []
        for ((rows, size), trials), (line, marker) in zip(levels.items(), styles(len(levels)), strict=True):
            ordered = sorted(trials, key=lambda trial: trial.width)
            widths, losses = [t.width for t in ordered], [t.best_loss for t in ordered]
            label = f"{rows} rows, {self.size_name.split(' of ')[0]}: {size}"
            lines += ax.plot(widths, losses, linestyle=line, marker=marker, markersize=5, label=label)
        self._dress(ax, self.width_name, f"Best loss against {self.width_name}")
        ax.axvline(self.tuning.width, color="0.5", linewidth=1, zorder=0, label=f"chosen: {self.tuning.width:.3g}")
        if not levels:
            _note(ax, f"{self.width_name} was not searched")
        ax.margins(y=0.3)
        ax.legend(fontsize="small", frameon=False)
        return lines

    def _dress(self, ax: Any, x: str, title: str) -> None:
        """Powers of two along the bottom, plain numbers for the loss (logarithmic when it spans decades), names."""
        from matplotlib.ticker import StrMethodFormatter

        ax.set_xscale("log", base=2)
        losses = np.concatenate([line.get_ydata() for line in ax.lines] or [[1.0]])
        if losses.min() > 0 and losses.max() > 10 * losses.min():
            ax.set_yscale("log")
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.set(xlabel=x, ylabel=self.loss_name, title=title)
        ax.grid(True, alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)


def _three_axes(ax: Sequence[Any] | None) -> np.ndarray:
    plt = pyplot("TuningDisplay")
    if ax is None:
        return np.asarray(plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")[1])
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != 3:
        raise ValueError(f"ax takes three matplotlib Axes (C, size, width), got {len(axes)}")
    return axes


def _note(ax: Any, text: str) -> None:
    ax.text(0.5, 0.05, text, transform=ax.transAxes, ha="center", color="0.3", fontsize="small")


def _label_ends(ax: Any, lines: list[Any], gap: float = 0.06) -> None:
    """Write each line's label to the right of the panel, as near to its end as ``gap`` between labels allows."""
    ends = [line.get_xydata()[-1] for line in lines]
    heights = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    order = np.argsort(heights)
    steps = gap * np.arange(len(lines))
    for i, height in zip(order, isotonic_regression(heights[order] - steps) + steps, strict=True):
        ax.annotate(
            lines[i].get_label(),
            ends[i],
            xytext=(1.02, height),
            textcoords="axes fraction",
            va="center",
            fontsize="small",
            color=lines[i].get_color(),
            arrowprops={"arrowstyle": "-", "color": lines[i].get_color(), "linewidth": 0.5, "relpos": (0, 0.5)},
        )
