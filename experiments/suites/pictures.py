"""What the arena draws: error ratios of every table, time against accuracy, learning curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.suites.leaderboard import LEAST
from experiments.suites.suite import median

MARKERS = "osD^v<>PXphd*8"


def _look(name: str, ours: Sequence[str]) -> dict[str, Any]:
    mine = name in ours
    return {"color": "black" if mine else "tab:gray", "mfc": "gold" if mine else "none"}


def _relative(errors: np.ndarray) -> np.ndarray:
    """Errors over the lowest of the table."""
    lowest = np.where(np.isnan(errors), np.inf, errors).min(axis=1, keepdims=True)
    return np.maximum(errors, LEAST) / np.maximum(lowest, LEAST)


def ratios(
    names: Sequence[str], who: Sequence[str], ours: Sequence[str], boosters: Sequence[str], errors: np.ndarray
) -> dict[str, Any]:
    """Every model of ours over the best booster of the table."""
    import matplotlib.pyplot as plt

    here = [who.index(name) for name in boosters if name in who]
    floor = np.where(np.isnan(errors[:, here]), np.inf, errors[:, here]).min(axis=1, initial=np.inf)
    shown = np.maximum(errors, LEAST) / np.maximum(floor, LEAST)[:, None]
    shown[~np.isfinite(floor)] = np.nan
    order = np.argsort(shown[:, who.index(ours[0])])
    figure, ax = plt.subplots(figsize=(8, 1.5 + 0.2 * len(names)), constrained_layout=True)
    for name, marker in zip(ours, MARKERS, strict=False):
        ax.plot(shown[order, who.index(name)], range(len(names)), marker, label=name, **_look(name, ours[:1]))
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", xlabel="metric / best booster's", yticks=range(len(names)), ylim=(-1, len(names)))
    ax.set_yticklabels([names[i] for i in order], fontsize=7)
    ax.grid(axis="x", alpha=0.25)
    ax.legend()
    plt.close(figure)
    return {"Our metric over that of the best booster of each table: left of 1 is won": figure}


def pareto(who: Sequence[str], ours: Sequence[str], errors: np.ndarray, seconds: np.ndarray) -> dict[str, Any]:
    """Median time and median error, and the front of those that nobody beats in both."""
    import matplotlib.pyplot as plt

    relative = _relative(errors)
    there = [j for j in range(len(who)) if np.isfinite(relative[:, j]).any()]
    points = np.array([(median(seconds[:, j]), median(relative[:, j])) for j in there]).reshape(-1, 2)
    figure, ax = plt.subplots(figsize=(8, 5), constrained_layout=True)
    for j, (x, y), marker in zip(there, points, 2 * MARKERS, strict=False):
        ax.plot(x, y, marker, markersize=9, **_look(who[j], ours))
        ax.annotate(who[j], (x, y), textcoords="offset points", xytext=(7, 4), fontsize=8)
    edge = points[front(points)]
    ax.plot(edge[:, 0], edge[:, 1], drawstyle="steps-post", color="tab:blue", linewidth=0.8)
    ax.set(xscale="log", xlabel="median processor seconds to fit, one thread", ylabel="median metric / lowest")
    plt.close(figure)
    return {"Time against accuracy: the line is the front, filled marks are ours": figure}


def front(points: np.ndarray) -> list[int]:
    """Which points no other one beats in both coordinates, from left to right."""
    best, kept = np.inf, []
    for i in np.lexsort((points[:, 1], points[:, 0])):
        if points[i, 1] < best:
            best = points[i, 1]
            kept.append(int(i))
    return kept


def curves(who: Sequence[str], ours: Sequence[str], found: dict[int, np.ndarray]) -> dict[str, Any]:
    """Geometric mean over tables of the metric at n rows over the lowest of the table at any n."""
    import matplotlib.pyplot as plt

    sizes = list(found)
    errors = np.maximum(np.stack([found[n] for n in sizes]), LEAST)  # [n, table, contestant]
    lowest = np.where(np.isnan(errors), np.inf, errors).min(axis=(0, 2), keepdims=True)
    relative = np.log(errors / lowest)
    figure, ax = plt.subplots(figsize=(8, 5), constrained_layout=True)
    for j, (name, marker) in enumerate(zip(who, 2 * MARKERS, strict=False)):
        there = np.isfinite(relative[:, :, j])
        if there.any():
            mean = [np.exp(relative[i, there[i], j].mean()) if there[i].any() else np.nan for i in range(len(sizes))]
            ax.plot(sizes, mean, f"{marker}-", label=name, **_look(name, ours))
    ax.set(xscale="log", yscale="log", xlabel="training rows", ylabel="metric / lowest of the table, geometric mean")
    ax.legend(fontsize=8)
    plt.close(figure)
    return {"Learning curves, over all tables: those of fewer rows with all they have": figure}
