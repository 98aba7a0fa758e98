"""What adaptive models cost, and what that buys, beside boosted trees, on rows that no report uses.

    python -m experiments.sections.pace --cells FOLDER --name now [--against before] [--seeds 1 2] [table ...]
    python -m experiments.sections.pace --r classification --cells FOLDER --name now [--against before]
    python -m experiments.sections.pace --keel regression --cells FOLDER --name now [--against before]

Development tables of the arena, split once more inside their training rows, or tables of R's packages
(:mod:`experiments.r_tables`) or of KEEL (:mod:`experiments.keel_tables`), by name or all of a kind; one thread. Prints,
per table, processor seconds to fit and microseconds to predict a row of the default and the fast models and of both
boosters, and the loss (RMSE, or log loss, and 1 − AUC of two classes) of ours. A regression table is one of two classes
as ``"flights>"``: above the median or not; as ``"flights>0.99"`` one of them is rare. Several of ours (``--ours``) are
compared with the first of them. Measurements are kept in the folder under ``--name`` and taken from there when they
exist, so that a run resumes, and two versions are compared by giving the name of the other.
"""

import argparse
import os
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from experiments import keel_tables, r_tables
from experiments.contestants import CONTESTANTS
from experiments.runner import Cache, NotHere, Unavailable, markdown
from experiments.tables import load_table

TABLES = (
    *("cpu_act", "delta_ailerons", "503_wind", "diamonds", "flights", "movies", "Computers"),
    *("phoneme", "churn", "credit_data", "wine_quality_white", "satimage", "ann_thyroid", "pendigits", "covtype"),
)
OURS = ("Adaptive", "Adaptive, fast")
BOOSTERS = ("LightGBM, 500 trees", "HistGradientBoosting, 500")
#: Rows that predictions are timed on, at most.
ASKED = 5_000


def measured(name: str, who: str, seed: int) -> dict[str, float]:
    """Processor seconds to fit, microseconds to predict a row, and the loss on the inner test rows."""
    task: Any = load_table(name, seed, inner=True)
    model = CONTESTANTS[who](task, seed)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    began = process_time()
    model.fit(task.X, task.y)
    fitted = process_time()
    X, y = task.X_test[:ASKED], task.y_test[:ASKED]
    given = np.asarray(model.predict(X) if task.regression else model.predict_proba(X), dtype=float)
    asked = process_time() - fitted
    if task.regression:
        loss = float(np.sqrt(np.mean((given - y) ** 2)))
    else:
        loss = float(log_loss(y, given, labels=np.arange(given.shape[1])))
    found = {"fit": fitted - began, "row": 1e6 * asked / len(y), "loss": loss}
    two = not task.regression and given.shape[1] == 2
    return found | ({"1 − AUC": 1 - float(roc_auc_score(y, given[:, 1]))} if two else {})


def kept(cache: Cache, label: str, name: str, who: str, seed: int) -> dict[str, float] | None:
    """The measurement of this label, from the folder or made now; None where the contestant is not installed.

    Nor where it takes no such table: HistGradientBoosting has no split for a class of one row.
    """
    key = f"{label}/{name}/{who}/{seed}"
    found = cache.get(key)
    if found is None:
        try:
            found = measured(name, who, seed)
        except NotHere:
            raise
        except (Unavailable, ImportError):
            return None
        except ValueError as error:
            if who not in BOOSTERS:
                raise
            print(f"{who} takes no {name}: {error}")
            return None
        cache.put(key, found)
    return found


def main() -> None:
    """Print the table, and medians of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--r", choices=r_tables.KINDS, help="all tables of R's packages of this kind, instead")
    parser.add_argument("--keel", choices=r_tables.KINDS, help="all tables of KEEL of this kind, instead")
    parser.add_argument("--cells", type=Path, default=None, help="keep measurements here")
    parser.add_argument("--name", default="now", help="of this version")
    parser.add_argument("--against", help="the name of another version, measured before")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--ours", nargs="+", default=OURS)
    given = parser.parse_args()
    if given.r:
        given.tables = [name for name, (_, kind, _) in r_tables.TABLES.items() if kind == given.r]
    if given.keel:
        given.tables = [name for name, source in keel_tables.TABLES.items() if source.kind == given.keel]
    if hasattr(os, "sched_setaffinity"):  # one core for everybody, whatever a library makes of the number of cores
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cache = Cache(given.cells)
    lines: list[tuple[str, ...]] = []
    ratios: dict[str, list[float]] = {}
    for name in given.tables:
        for seed in given.seeds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trees = {who: kept(cache, "boosters", name, who, seed) for who in BOOSTERS}
                every: dict[str, Any] = {who: kept(cache, given.name, name, who, seed) for who in given.ours}
                first = given.ours[0]
                for who, ours in every.items():
                    other = given.against and cache.get(f"{given.against}/{name}/{who}/{seed}")
                    line, found = compared(who, ours, other or None, trees)
                    if who != first:
                        found |= {f"{what} / {first}": ours[what] / every[first][what] for what in ours}
                    lines.append((name, *line))
                    for what, value in found.items():
                        ratios.setdefault(f"{who}: {what}", []).append(value)
                    print(name, seed, *line, flush=True)
    print(markdown(("table", "model", "seconds", "µs a row", "loss", "/ the other: seconds", "loss"), lines))
    for what, values in ratios.items():
        middle, mean = np.median(values), np.exp(np.mean(np.log(values)))
        extremes = f"from {min(values):.4g} to {max(values):.4g} ({len(values)})"
        print(f"{what}: median {middle:.4g}, geometric mean {mean:.4g}, {extremes}")


def compared(who: str, ours: Any, other: Any, trees: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, float]]:
    """A line of the table, and ratios to the boosters and to another version."""
    found: dict[str, float] = {}
    for rival, their in trees.items():
        if their is not None:
            found |= {f"fit / {rival}": ours["fit"] / their["fit"], f"row / {rival}": ours["row"] / their["row"]}
            found[f"loss / {rival}"] = ours["loss"] / their["loss"]
    seconds = "".join(f" ({their['fit']:.2f})" for their in trees.values() if their is not None)
    before = ("", "")
    if other is not None:
        found |= {f"{what} / before": ours[what] / other[what] for what in ours if what in other}
        before = (f"{found['fit / before']:.2f}", f"{found['loss / before']:.4f}")
    return (who, f"{ours['fit']:.2f}{seconds}", f"{ours['row']:.0f}", f"{ours['loss']:.4f}", *before), found


if __name__ == "__main__":
    main()
