"""Draw the pictures of ``docs/doubt.md``, and one of ``docs/reasons.md``.

python -m experiments.sections.doubt_picture [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor

DOCUMENT = Path(__file__).parents[2] / "docs" / "doubt.md"


def draw(file: Path) -> None:
    """The prices of the guide with their 90 % intervals: plain, and as they follow the noise."""
    rng = np.random.RandomState(0)
    size = rng.uniform(20, 200, 2000)
    price = 3_000 * size * np.exp(0.05 * size / 100 * rng.normal(size=2000))
    model = NKELMRegressor(random_state=0).fit(size[:, None] / 100, price)
    grid = np.linspace(20, 200, 200)
    _, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for ax, method in zip(panels, ("plain", "normalised"), strict=True):
        low, high = model.predict_interval(grid[:, None] / 100, 0.9, method=method).T / 1000
        ax.plot(size[:600], price[:600] / 1000, ".", ms=2, color="0.55")
        ax.plot(grid, model.predict(grid[:, None] / 100) / 1000, color="black", lw=1)
        ax.plot(grid, low, "--", color="tab:blue")
        ax.plot(grid, high, "--", color="tab:blue")
        ax.set_title(f'method="{method}"')
        ax.set_xlabel("square metres")
    panels[0].set_ylabel("price, thousands")
    plt.tight_layout()
    plt.savefig(file)


def draw_quantiles(file: Path) -> None:
    """Noise that is skewed upwards on the left and downwards on the right: by squares, and by a quantile loss."""
    rng = np.random.RandomState(0)
    x = rng.uniform(-2, 2, 2000)
    up = rng.uniform(-2, 2, 2000) > x
    y = np.sin(2 * x) + 0.6 * np.where(up, 1, -1) * (rng.exponential(size=2000) - 0.7)
    grid = np.linspace(-2, 2, 200)
    _, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for ax, loss in zip(panels, ("squared", "quantile"), strict=True):
        model = NKELMRegressor(loss=loss, random_state=0).fit(x[:, None], y)
        ax.plot(x[:800], y[:800], ".", ms=2, color="0.55")
        for curve, style in zip(model.predict_quantiles(grid[:, None]).T, ("--", "-", "--"), strict=True):
            ax.plot(grid, curve, style, color="tab:blue", lw=1.3)
        ax.set_title(f'loss="{loss}"')
    plt.tight_layout()
    plt.savefig(file)


def draw_monotone(file: Path) -> None:
    """Prices that rise with the size of a flat, from 60 rows: freely, and under ``monotonic_cst``."""
    rng = np.random.RandomState(1)
    size = np.sort(rng.uniform(20, 200, 60))
    price = 150 + 250 * np.tanh((size - 60) / 50) + 50 * rng.normal(size=60)
    grid = np.linspace(size[0], size[-1], 300)
    plt.figure(figsize=(6, 3.4))
    plt.plot(size, price, ".", color="0.55")
    for cst, name, style in ((None, "free", "--"), ([1], "monotonic_cst=[1]", "-")):
        model = NKELMRegressor(40, gamma=15.0, C=1000.0, fit_intercept=True, monotonic_cst=cst, random_state=0)
        plt.plot(grid, model.fit(size[:, None] / 100, price).predict(grid[:, None] / 100), style, label=name)
    plt.legend()
    plt.xlabel("square metres")
    plt.ylabel("price, thousands")
    plt.tight_layout()
    plt.savefig(file)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "ulmus"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT.parent / "images"
    draw(folder / "doubt.svg")
    draw_quantiles(folder / "quantiles.svg")
    draw_monotone(folder / "monotone.svg")
