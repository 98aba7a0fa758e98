"""The picture of an adaptive model's search: how columns are prepared, which kernel and metric, and which width."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ulmus.plots.axes import STAR, styles
from ulmus.tuning import Trial


class ViewsDisplay:
    """What an adaptive model tried: loss by preparation of the columns, by kernel and metric, and against the width.

    Parameters
    ----------
    trials : sequence of Trial
        The ``trials_`` of the model.
    view : View
        Its ``view_``.
    """

    def __init__(self, trials: Sequence[Trial], view: Any) -> None:
        self.trials, self.view = [t for t in trials if t.preparation and t.stage == "view"], view

    def plot(self, axes: np.ndarray) -> Self:
        """Draw the three panels."""
        self.axes_, self.figure_ = axes, axes[0].figure
        self.lines_ = {
            "preparation": self._draw_preparation(axes[0]),
            "kernel": self._draw_kernel(axes[1]),
            "width": self._draw_width(axes[2]),
        }
        for ax in axes:
            ax.set_ylabel("held-out loss")
            ax.grid(True, alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
        return self

    @property
    def _looks(self) -> dict[str, list[Trial]]:
        """Trials of the chosen preparation by kernel and metric."""
        found: dict[str, list[Trial]] = {}
        for t in self.trials:
            if t.preparation == self._kind:
                found.setdefault(f"{t.kernel}, {t.metric} metric", []).append(t)
        return found

    @property
    def _kind(self) -> str:
        return str(self.view.preparation.columns.kind)

    @property
    def _chosen_look(self) -> str:
        return f"{self.view.kernel}, {'learned' if (self.view.metric != 1).any() else 'plain'} metric"

    def _draw_preparation(self, ax: Any) -> list[Any]:
        first = self.trials[0]
        like = (first.n_rows, first.size, first.kernel, first.metric)
        alike = [t for t in self.trials if (t.n_rows, t.size, t.kernel, t.metric) == like]
        kinds = list(dict.fromkeys(t.preparation for t in alike))
        losses = [min(t.best_loss for t in alike if t.preparation == kind) for kind in kinds]
        lines = ax.plot(range(len(kinds)), losses, "o", markersize=7)
        ax.set_xticks(range(len(kinds)), kinds)
        ax.margins(x=0.2)
        ax.plot(kinds.index(self._kind), losses[kinds.index(self._kind)], **STAR)
        ax.set(xlabel="preparation of the columns", title=f"{first.n_rows:,} rows, {first.size} landmarks")
        return list(lines)

    def _draw_kernel(self, ax: Any) -> list[Any]:
        samples = sorted({(t.n_rows, t.size) for t in self.trials})
        lines = []
        for (label, trials), (line, marker) in zip(self._looks.items(), styles(len(self._looks)), strict=True):
            best: dict[int, float] = {}
            for t in trials:
                k = samples.index((t.n_rows, t.size))
                best[k] = min(best.get(k, np.inf), t.best_loss)
            lines += ax.plot(sorted(best), [best[k] for k in sorted(best)], linestyle=line, marker=marker, label=label)
            if label == self._chosen_look:
                ax.plot(max(best), best[max(best)], **STAR)
        ax.set_xticks(range(len(samples)), [f"{rows:,}\n{size}" for rows, size in samples])
        ax.margins(x=0.1)
        ax.set(xlabel="rows, and landmarks, of the trial", title="Kernels and metrics")
        ax.legend(fontsize="small", frameon=False)
        return lines

    def _draw_width(self, ax: Any) -> list[Any]:
        lines = []
        for (label, trials), (_, marker) in zip(self._looks.items(), styles(len(self._looks)), strict=True):
            ordered = sorted(trials, key=lambda t: t.width)
            some = [t.width for t in ordered], [t.best_loss for t in ordered]
            lines += ax.plot(*some, linestyle="none", marker=marker, label=label)
        ax.axvline(self.view.gamma, color="0.5", linewidth=1, zorder=0)
        ax.set_xscale("log", base=2)
        ax.set(xlabel=f"gamma (chosen: {self.view.gamma:.3g})", title="Widths")
        return lines
