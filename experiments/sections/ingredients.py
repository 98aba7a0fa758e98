"""Adaptive models beside boosters, and without one ingredient each, on rows that no report uses.

    python -m experiments.sections.ingredients [--rows 4000] [--seeds 1] [--who NAME ...] [--cells FILE] [table ...]

Development tables of the arena, split once more inside their training rows. The loss is RMSE in units of the deviation,
or log loss. Cells are kept in a file and not measured twice; remove those of a contestant to measure it anew.
"""

import argparse
import json
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from experiments.contestants import CONTESTANTS
from experiments.runner.protocol import markdown
from experiments.tables import DEVELOPMENT, FURTHER, SETS, load_table, part_of

#: Images are no table, and cost more than all others.
TABLES = tuple(name for name in (*SETS, *FURTHER) if part_of(name) == DEVELOPMENT and name != "mnist")
BOOSTERS = ("LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost")
Cells = dict[str, list[float]]


def measured(name: str, who: str, rows: int, seed: int) -> list[float]:
    """Loss, error (the same in regression, else percent) and processor seconds of fit and of prediction."""
    task: Any = load_table(f"{name}@{rows}", seed, inner=True)
    model = CONTESTANTS[who](task, seed)
    began = process_time()
    model.fit(task.X, task.y)
    fitted = process_time()
    if task.regression:
        error = task.error(model.predict(task.X_test))
        return [error, error, fitted - began, process_time() - fitted]
    P = np.asarray(model.predict_proba(task.X_test))
    predicted = process_time()
    wrong = 100 * float(np.mean(P.argmax(axis=1) != task.y_test))
    loss = log_loss(task.y_test, P / P.sum(axis=1, keepdims=True), labels=np.arange(P.shape[1]))
    return [float(loss), wrong, fitted - began, predicted - fitted]


def gather(tables: list[str], everyone: list[str], rows: int, seeds: list[int], file: Path) -> Cells:
    """All cells, those of the file and new ones."""
    cells: Cells = json.loads(file.read_text()) if file.exists() else {}
    for seed in seeds:
        for name in tables:
            for who in everyone:
                key = f"{name}@{rows}/{who}/{seed}"
                if key not in cells:
                    with warnings.catch_warnings(), threadpool_limits(1):
                        warnings.simplefilter("ignore")
                        cells[key] = measured(name, who, rows, seed)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(json.dumps(cells, indent=0))
    return cells


def summary(cells: Cells, tables: list[str], everyone: list[str], rows: int, seeds: list[int]) -> str:
    """Losses, and their ratio to that of the best booster; then medians."""
    means = {
        name: {who: np.mean([cells[f"{name}@{rows}/{who}/{seed}"] for seed in seeds], axis=0) for who in everyone}
        for name in tables
    }
    ours = [who for who in everyone if who not in BOOSTERS]
    boosters = [who for who in everyone if who in BOOSTERS]
    ratios: dict[str, list[float]] = {who: [] for who in ours}
    lines = []
    for name, mean in means.items():
        best = min(mean[who][0] for who in boosters)
        for who in ours:
            ratios[who].append(mean[who][0] / best)
        shown = [f"{mean[who][0]:.4f}, {mean[who][1]:.4g}, {mean[who][2]:.1f} s" for who in everyone]
        lines.append((name, *shown, *(f"{ratios[who][-1]:.3f}" for who in ours)))
    table = markdown(("table", *everyone, *(f"{who} / best booster" for who in ours)), lines)
    found = [
        f"{who}: median {np.median(r):.3f}, lower on {np.mean(np.array(r) < 1):.0%}, above 1.03 on "
        f"{np.mean(np.array(r) > 1.03):.0%}, seconds {sum(m[who][2] for m in means.values()):.0f}"
        for who, r in ratios.items()
    ]
    return "\n\n".join((table, *found))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--who", nargs="+", default=["Adaptive", *BOOSTERS])
    parser.add_argument("--cells", type=Path, default=Path("experiments/.cells/ingredients.json"))
    given = parser.parse_args()
    wanted = list(given.tables), list(given.who), given.rows, given.seeds
    print(summary(gather(*wanted, given.cells), *wanted))


if __name__ == "__main__":
    main()
