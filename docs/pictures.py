"""The pictures with which guides open: ``python docs/pictures.py [name …]`` draws them into ``docs/images``.

Seconds for all of them, on data that come with the package; ``hero`` shows a committed run of the benchmarks.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from ulmus import (
    ENDA,
    AdaptiveClassifier,
    ELMRegressor,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    RobustNKELMRegressor,
    TuningDisplay,
    datasets,
)

DOCS = Path(__file__).parent
INK, LEAF, BARK, PALE = "#1c2b20", "#2f6b3e", "#c47f17", "#b9c4bc"
PICTURES: dict[str, Callable[[], Any]] = {}
plt.rcParams.update({"svg.hashsalt": "ulmus", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False})
plt.rcParams.update({"axes.spines.right": False, "figure.constrained_layout.use": True})


def picture(draw: Callable[[], Any]) -> Callable[[], Any]:
    """One row of the table of pictures, by the function's name."""
    PICTURES[draw.__name__] = draw
    return draw


#: Where labels stand that would cover each other.
PLACES = {
    "LightGBM": ((-9, -3), "right"),
    "LightGBM, 500 trees": ((0, -16), "center"),
    "CatBoost": ((0, 8), "center"),
    "ChimeraBoost": ((0, 8), "center"),
    "Adaptive, fast": ((0, -16), "center"),
}
BOOSTERS = ("LightGBM", "LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost")
#: Drawn beside them.
FURTHER = ("XGBoost", "ChimeraBoost")


@picture
def hero() -> None:
    """What is judged, relative to the best booster of each table, against seconds to fit: medians of a run."""
    run = json.loads((DOCS / "results/arena/results.json").read_text(encoding="utf-8"))
    tables = {table["title"]: table for table in run["experiments"]["bench-arena"]["tables"]}
    scored, seconds = (
        pd.DataFrame(tables[title]["rows"], columns=tables[title]["header"]).set_index("data set").replace("-", np.nan)
        for title in (next(t for t in tables if t.startswith("Metric")), "Processor seconds to fit, one thread")
    )
    scored, seconds = scored.astype(float), seconds.astype(float)
    ratio = scored.div(scored[list(BOOSTERS)].min(axis=1), axis=0).median()
    _, ax = plt.subplots(figsize=(6, 4.2))
    for name in ["Adaptive", "Adaptive, fast", *BOOSTERS, *FURTHER]:
        ours = name.startswith("Adaptive")
        where = (seconds[name].median(), ratio[name])
        ax.plot(*where, "o" if ours else "s", color=LEAF if ours else BARK, ms=9 if ours else 7)
        place, side = PLACES.get(name, ((9, -3), "left"))
        ax.annotate(name, where, place, textcoords="offset points", ha=side, fontsize=9)
    ax.axhline(1, color=PALE, lw=1, zorder=0)
    ax.margins(x=0.3, y=0.1)
    ax.set(xscale="log", xlabel="processor seconds to fit, median")
    ax.set_ylabel("loss / loss of the best booster\nof each table, median")
    ax.set_title(f"{len(scored)} tables, one thread each, {run['date']}", loc="left", fontsize=10)
    beside = {"fontsize": 8, "va": "bottom", "color": "gray", "transform": ax.get_yaxis_transform()}
    ax.text(0.02, 1.0005, "as good as the best of four boosters", **beside)


def abalone_frame() -> tuple[pd.DataFrame, np.ndarray]:
    """The table of the guides, with the sex as text."""
    abalone = datasets.load("abalone")
    frame = pd.DataFrame(abalone.data, columns=abalone.feature_names)
    frame["Sex"] = frame["Sex"].map({0: "male", 1: "female", 2: "infant"})
    return frame, abalone.target


@picture
def adaptive() -> None:
    """Importances, and probabilities beside what came true."""
    frame, rings = abalone_frame()
    model = AdaptiveClassifier(random_state=0).fit(frame[:3000], rings[:3000] > 9)
    _, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    order = np.argsort(model.feature_importances_)
    axes[0].barh(np.array(frame.columns)[order], model.feature_importances_[order], color=LEAF)
    axes[0].set_title("which columns matter", loc="left")
    came, said = calibration_curve(rings[3000:] > 9, model.predict_proba(frame[3000:])[:, 1], n_bins=8)
    axes[1].plot([0, 1], [0, 1], color=PALE)
    axes[1].plot(said, came, "o-", color=LEAF)
    axes[1].set(xlabel="probability that was given", ylabel="share that was old")
    axes[1].set_title("are the probabilities right?", loc="left")


@picture
def closed_form() -> None:
    """Three models of one real set: the acceleration of a helmet after an impact."""
    mcycle = datasets.load("mcycle")
    X, y = mcycle.data, mcycle.target
    grid = np.linspace(X.min(), X.max(), 200)[:, None]
    _, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
    models = (ELMRegressor(random_state=0), KELMRegressor(random_state=0), NKELMRegressor(random_state=0))
    for ax, model in zip(axes, models, strict=True):
        low, high = model.fit(X, y).predict_interval(grid, coverage=0.9).T
        ax.fill_between(grid[:, 0], low, high, color=LEAF, alpha=0.15, lw=0)
        ax.plot(X, y, ".", color=PALE)
        ax.plot(grid, model.predict(grid), color=INK)
        ax.set_title(type(model).__name__ + "()", loc="left")
        ax.set_xlabel("milliseconds after the impact")
    axes[0].set_ylabel("acceleration, g")


@picture
def tuning() -> None:
    """What was searched."""
    abalone = datasets.load("abalone")
    X = StandardScaler().fit_transform(abalone.data)
    TuningDisplay.from_estimator(NKELMRegressor(random_state=0).fit(X[:3000], abalone.target[:3000]))


@picture
def losses() -> None:
    """Probabilities by squares and by the log loss, beside those that drew the labels."""
    rng = np.random.RandomState(0)
    X, grid = rng.uniform(-3, 3, (600, 1)), np.linspace(-3, 3, 200)[:, None]

    def truth(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-4 * np.sin(1.5 * x[:, 0]) - 3 * (x[:, 0] > 1)))

    y = rng.rand(600) < truth(X)
    _, ax = plt.subplots(figsize=(7, 3.2))
    ax.plot(grid, truth(grid), color=PALE, lw=5, label="the labels were drawn with")
    for loss, color, style in (("squared", BARK, "--"), ("log", LEAF, "-")):
        model = NKELMClassifier(loss=loss, random_state=0).fit(X, y)
        ax.plot(grid, model.predict_proba(grid)[:, 1], style, color=color, lw=2, label=f'loss="{loss}"')
    ax.set(xlabel="x", ylabel="probability")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


@picture
def ordinal() -> None:
    """Probabilities of ordered classes along one input."""
    abalone = datasets.load("abalone")
    weight = abalone.data[:, list(abalone.feature_names).index("Shell weight")][:, None]
    names = ["young", "grown", "old", "ancient"]
    y = np.array(names)[np.digitize(abalone.target, [8, 10, 13])]
    model = NKELMOrdinalClassifier(categories=names, random_state=0).fit(weight[:3000] / 0.3, y[:3000])
    grid = np.linspace(0.01, 0.7, 120)[:, None]
    _, ax = plt.subplots(figsize=(6.5, 3.2))
    shades = plt.get_cmap("YlGn")(np.linspace(0.25, 0.9, 4))
    ax.stackplot(grid[:, 0], model.predict_proba(grid / 0.3).T, labels=names, colors=shades)
    ax.set(xlabel="weight of the shell", ylabel="probability", xlim=(0.01, 0.7), ylim=(0, 1))
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True)


@picture
def robust() -> None:
    """Two gross outliers."""
    X, y = datasets.make_sinc(300, noise=0.1, outliers=True, random_state=0)
    grid = np.linspace(-15, 15, 300)[:, None]
    _, ax = plt.subplots(figsize=(7, 3.4))
    ax.plot(X, y, ".", color=PALE, label="rows, two of them far off")
    ax.plot(grid, NKELMRegressor(random_state=0).fit(X, y).predict(grid), color=BARK, label="least squares")
    ax.plot(grid, RobustNKELMRegressor(random_state=0).fit(X, y).predict(grid), "--", color=LEAF, lw=2, label="robust")
    ax.legend(frameon=False)


@picture
def discriminant() -> None:
    """Three classes of waves in 21 measurements: drawn with rows that the models did not see."""
    waves = datasets.load("waveform21")
    X, y = StandardScaler().fit_transform(waves.data), waves.target
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8))
    models = {"linear": LinearDiscriminantAnalysis(n_components=2), "ENDA": ENDA(300, n_components=2, random_state=0)}
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        seen = model.fit(X[:2000], y[:2000]).transform(X[2000:2600])
        for label, mark, color in zip(np.unique(y), "osv", (LEAF, BARK, "#54508f"), strict=True):
            ax.plot(*seen[y[2000:2600] == label].T, mark, ms=3.5, color=color, alpha=0.7)
        ax.set_title(f"{name}: {model.score(X[2600:], y[2600:]):.1%} right", loc="left")
        ax.set(xticks=[], yticks=[])


@picture
def gpu() -> None:
    """Seconds on one H200, as measured in the guide."""
    done = {
        "a million rows, adaptive model": 2,
        "ten million rows, adaptive model": 31,
        "ten million rows, 10,000 landmarks, C chosen": 25,
        "a billion rows, 10,000 landmarks": 170,
    }
    _, ax = plt.subplots(figsize=(7, 2.2))
    ax.barh(list(done), list(done.values()), color=LEAF)
    ax.bar_label(ax.containers[0], [f"{seconds} s" for seconds in done.values()], padding=4)
    ax.set(xlim=(0, 190), xlabel="seconds to fit")
    ax.invert_yaxis()


#: Ways of section (ai): what they are called, and how they are drawn.
GROWTH = {
    "memory": ("adaptive, one thread", {"color": LEAF, "marker": "o"}),
    "stream": ("adaptive, one thread, from files", {"color": LEAF, "marker": "o", "ls": ":", "mfc": "white"}),
    "cuda": ("adaptive, one H200", {"color": INK, "marker": "s"}),
    "lightgbm": ("LightGBM, one thread", {"color": BARK, "marker": "^"}),
}


@picture
def growth() -> None:
    """Seconds, memory and error against the number of rows: section (ai) of the results."""
    found = json.loads((DOCS / "results/growth.json").read_text(encoding="utf-8"))
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.5))
    for way, (name, style) in GROWTH.items():
        for ax, key in zip(panels, ("seconds", "peak", "error"), strict=True):
            points = [(one["rows"], one[key]) for one in found if one["way"] == way and one[key] is not None]
            ax.plot(*zip(*points, strict=True), label=name, ms=4, lw=1.3, **style)
    for ax, label in zip(panels, ("seconds to fit", "memory beyond the rows, MB", "error (RMSE)"), strict=True):
        ax.set(xscale="log", xlabel="rows", title=label)
    panels[0].set(yscale="log")
    panels[1].set(yscale="log")
    panels[2].axhline(0.3, color=PALE, lw=1)
    panels[2].annotate("noise", (1e4, 0.3), (0, 3), textcoords="offset points", color="gray", fontsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def boxes(columns: list[list[str]], arrows: list[str], size: tuple[float, float]) -> None:
    """Columns of boxes with arrows between them."""
    _, ax = plt.subplots(figsize=size)
    for k, column in enumerate(columns):
        for j, text in enumerate(column):
            where = (3 * k, (len(column) - 1) / 2 - j)
            last = k == len(columns) - 1
            frame = {"boxstyle": "round,pad=0.5", "facecolor": "#e4efe6" if last else "white", "edgecolor": LEAF}
            ax.text(*where, text, ha="center", va="center", fontsize=10, bbox=frame)
    for k, text in enumerate(arrows):
        ax.annotate("", (3 * k + 2.1, 0), (3 * k + 0.95, 0), arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.5})
        ax.text(3 * k + 1.52, 0.18, text, ha="center", fontsize=9, color="gray")
    ax.set(xlim=(-1.3, 3 * len(arrows) + 1.3), ylim=(-1.7, 1.7))
    ax.axis("off")


@picture
def streaming() -> None:
    """Rows become sums, sums add, and a model comes out."""
    parts = ["January.parquet", "February.parquet", "March.parquet"]
    sums = ["sums, L × L", "sums, L × L", "sums, L × L"]
    boxes([parts, sums, ["an ordinary\nmodel"]], ["read once,\nforget", "add, solve"], (8, 2.4))


@picture
def saving() -> None:
    """One model, two kinds of files."""
    boxes(
        [["fitted model"], ["model.ulmus", "model.onnx"], ["Python, any machine", "C++, Java, a browser"]],
        ["save\nexport", "load\nrun"],
        (8, 2.0),
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
        plt.savefig(DOCS / "images" / f"{name}.svg", metadata={"Date": None})
        plt.close("all")
