"""What further columns of categories, or a linear model beside it, would bring the default adaptive model.

    python -m experiments.sections.further_columns [--cells FOLDER] [--seeds 1 2] [table ...]

Tables of R's packages and of KEEL, or development tables of the arena (inner splits), as
:mod:`experiments.sections.pace` has them; one thread. Losses (RMSE, or log loss) in units of those of the default model
by itself, for the same model with

* *crosses* of two categories, the four that tell most, on rows that did not teach it, beyond the better of the two;
* *counts*: the logarithm of how many training rows have the level, for categories of five levels and more;
* *a linear model*: a tenth of the answers (of the log-probabilities) by ridge or logistic regression.

Tables without such columns are left out of the first two.
"""

import argparse
import os
import warnings
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from experiments import keel_tables, r_tables
from experiments.runner import Cache, NotHere, markdown
from experiments.sections.members import answers, loss
from experiments.sections.pace import TABLES
from experiments.tables import load_table
from experiments.tasks import Task

#: Crosses that are added, their levels at most, and rows in which a level's mean is half believed.
CROSSES, MOST_LEVELS, SHRUNK = 4, 300, 5.0
#: Levels from which on counts are added, and the share of a linear model.
COUNTED, LINEAR = 5, 0.1
WHAT = ("crosses", "counts", "a linear model")


def categories(X: pd.DataFrame) -> list[str]:
    """Columns that are no numbers."""
    return [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]


def named(x: Any) -> Any:
    """Levels as words, of a column or of several; a hole is a level."""
    return x.astype(object).where(x.notna(), "").astype(str)


def told(levels: np.ndarray, y: np.ndarray) -> float:
    """The share of the variance of every second target that means of levels over the others tell."""
    teaching = np.arange(len(y)) % 2 == 0
    sums = pd.Series(y[teaching]).groupby(levels[teaching]).agg(["sum", "count"])
    means = (sums["sum"] + SHRUNK * y[teaching].mean()) / (sums["count"] + SHRUNK)
    errors = y[~teaching] - means.reindex(levels[~teaching]).fillna(y[teaching].mean()).to_numpy()
    return 1.0 - float(np.mean(errors**2) / max(np.var(y[~teaching]), np.finfo(float).tiny))


def with_crosses(task: Any) -> Task | None:
    """The task with crosses of categories; None where none tells more than its parts."""
    y = task.y if task.regression else task.y == np.bincount(task.y).argmax()
    both = [named(X[categories(task.X)]) for X in (task.X, task.X_test)]
    gains = {}
    for a, b in combinations(both[0].columns, 2):
        pair = (both[0][a] + "|" + both[0][b]).to_numpy()
        if len(np.unique(pair)) <= MOST_LEVELS:
            parts = (told(both[0][name].to_numpy(), y.astype(float)) for name in (a, b))
            gains[a, b] = told(pair, y.astype(float)) - max(parts)
    chosen = [pair for pair in sorted(gains, key=lambda pair: -gains[pair])[:CROSSES] if gains[pair] > 0]
    if not chosen:
        return None
    added = [pd.DataFrame({f"{a}×{b}": X[a] + "|" + X[b] for a, b in chosen}) for X in both]
    return _beside(task, *(X.astype("category") for X in added))


def with_counts(task: Any) -> Task | None:
    """The task with counts of levels; None where all categories have few."""
    X, Z = task.X, task.X_test
    some = [name for name in categories(X) if X[name].nunique() >= COUNTED]
    if not some:
        return None
    counts = {name: named(X[name]).value_counts() for name in some}
    added = (
        pd.DataFrame(
            {f"{name}, rows": np.log1p(named(rows[name]).map(counts[name]).fillna(0.0).astype(float)) for name in some}
        )
        for rows in (X, Z)
    )
    return _beside(task, *added)


def _beside(task: Any, X: pd.DataFrame, Z: pd.DataFrame) -> Task:
    """The task with further columns, of its training rows and of those to be tested on."""
    found: Task = replace(task, X=pd.concat([task.X, X], axis=1), X_test=pd.concat([task.X_test, Z], axis=1))
    return found


def mixed(task: Task, ours: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Answers of both."""
    if task.regression:
        return np.asarray((1 - LINEAR) * ours + LINEAR * linear)
    logs = [np.log(np.clip(P, 1e-12, 1.0)) for P in (ours, linear)]
    return np.asarray(softmax((1 - LINEAR) * logs[0] + LINEAR * logs[1], axis=1))


def measured(name: str, seed: int) -> dict[str, float]:
    """Losses on one table, in units of that of the default model."""
    task: Any = load_table(name, seed, inner=True)
    ours = answers(task, "Adaptive", seed)
    one, found = loss(task, ours), {}
    for what, more in (("crosses", with_crosses(task)), ("counts", with_counts(task))):
        if more is not None:
            found[what] = loss(task, answers(more, "Adaptive", seed)) / one
    return found | {"a linear model": loss(task, mixed(task, ours, answers(task, "linear", seed))) / one}


def main() -> None:
    """Print a line for every table, and what all of them say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=[*r_tables.TABLES, *keel_tables.TABLES, *TABLES])
    parser.add_argument("--cells", type=Path, default=None, help="keep measurements here")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core, whatever a library makes of the number of cores
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cache, lines, means = Cache(given.cells), list[tuple[str, ...]](), list[dict[str, float]]()
    for name in given.tables:
        found = []
        for seed in given.seeds:
            key = f"further_columns/{name}/{seed}"
            each: dict[str, float] | None = cache.get(key)
            if each is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        each = measured(name, seed)
                    except NotHere as missing:
                        print(f"{name}: {missing}")
                        break
                cache.put(key, each)
            found.append(each)
        mean = {
            what: float(np.exp(np.mean([np.log(e[what]) for e in found if what in e])))
            for what in WHAT
            if any(what in e for e in found)
        }
        means.append(mean)
        lines.append((name, *(f"{mean[what]:.3f}" if what in mean else "-" for what in WHAT)))
        print(*lines[-1], flush=True)
    columns = [np.array([mean[what] for mean in means if what in mean]) for what in WHAT]
    for name, say in (
        ("tables", lambda r: f"{len(r)}"),
        ("median", lambda r: f"{np.median(r):.3f}"),
        ("geometric mean", lambda r: f"{np.exp(np.mean(np.log(r))):.3f}"),
        ("better, worse by 1 %", lambda r: f"{(r < 0.99).sum()}, {(r > 1.01).sum()}"),
    ):
        lines.append((name, *(say(ratios) if len(ratios) else "-" for ratios in columns)))
    print(markdown(("table", *WHAT), lines))


if __name__ == "__main__":
    main()
