"""Draw the picture of ``docs/online.md``: ``python -m experiments.sections.online_drift [FILE]``."""

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

DOCUMENT = Path(__file__).parents[2] / "docs" / "online.md"
STYLES = {1.0: "-", 0.999: "--", 0.99: ":"}


def draw(path: Path) -> None:
    """Run the document's own code and draw its rolling errors."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec("import numpy as np\n" + next(block for block in blocks if "rolling_error" in block), names)
    plt.rcParams["svg.hashsalt"] = "ulmus"
    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    for forgetting, error in names["errors"].items():
        rows = range(6000 - len(error), 6000, 20)
        ax.plot(rows, error[::20], linestyle=STYLES[forgetting], label=f"forgetting = {forgetting:g}")
    ax.axvline(3000, color="0.5", linewidth=1)
    ax.annotate("the concept turns", (3000, ax.get_ylim()[1]), xytext=(5, -12), textcoords="offset points")
    ax.set(xlabel="row", ylabel="wrong among the last 300 rows", title="Every row predicted before it is learned")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT.parent / "images" / "online_drift.svg")
