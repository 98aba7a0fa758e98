"""What other models would bring beside an adaptive one: other random states, larger sizes, boosted trees.

    python -m experiments.sections.members [--cells FOLDER] [--seed 1] [table ...]

Inner splits of the arena's development tables, or tables of R's packages, as :mod:`experiments.sections.pace` has them;
one thread. Losses (RMSE, or log loss) of means of answers, in units of that of the default model by itself. Boosters
get three tenths; which of them is best on a table is told by its test error, so that their column is a bound.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from experiments.contestants import CONTESTANTS
from experiments.runner import Cache, Unavailable, markdown
from experiments.sections.pace import TABLES
from experiments.tables import load_table

BOOSTERS = ("LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost")
DEFAULT, BEST = "Adaptive", "Adaptive, best"
#: The share of boosters beside ours, and how many random states are taken the mean of.
SHARE, STATES = 0.3, 3


def answers(task: Any, who: str, seed: int) -> np.ndarray:
    """Numbers, or probabilities, for the inner test rows."""
    model = CONTESTANTS[who](task, seed)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    model.fit(task.X, task.y)
    return np.asarray(model.predict(task.X_test) if task.regression else model.predict_proba(task.X_test), dtype=float)


def loss(task: Any, given: np.ndarray) -> float:
    """RMSE, or log loss."""
    if task.regression:
        return float(np.sqrt(np.mean((given - task.y_test) ** 2)))
    return float(log_loss(task.y_test, given, labels=np.arange(given.shape[1])))


def measured(name: str, seed: int) -> dict[str, float]:
    """Losses of all mixes on one table, in units of that of the default model."""
    task: Any = load_table(name, seed, inner=True)
    ours = {who: [answers(task, who, state) for state in range(1, STATES + 1)] for who in (DEFAULT, BEST)}
    theirs = []
    for who in BOOSTERS:
        try:
            theirs.append(answers(task, who, seed))
        except (Unavailable, ImportError, ValueError) as error:
            print(f"{who} takes no {name}: {error}")
    found = {"best": ours[BEST][0]}
    found |= {f"mean of {STATES}, {who}": np.mean(each, axis=0) for who, each in ours.items()}
    one = loss(task, ours[DEFAULT][0])
    ratios = {what: loss(task, given) / one for what, given in found.items()}
    boosted: dict[str, list[float]] = {"a booster alone": [], "default and a booster": [], "all, and a booster": []}
    for their in theirs:
        for what, mine in (
            ("a booster alone", their),
            ("default and a booster", ours[DEFAULT][0]),
            ("all, and a booster", np.mean(ours[DEFAULT] + ours[BEST], axis=0)),
        ):
            boosted[what].append(loss(task, (1 - SHARE) * mine + SHARE * their) / one)
    return ratios | {what: min(each) for what, each in boosted.items() if each}


def main() -> None:
    """Print a line for every table, and medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--cells", type=Path, default=None, help="keep measurements here")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core for everybody, whatever a library makes of the number of cores
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cache, lines, found = Cache(given.cells), list[tuple[str, ...]](), list[dict[str, float]]()
    for name in given.tables:
        key = f"members/{name}/{given.seed}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each: dict[str, float] | None = cache.get(key)
            if each is None:
                cache.put(key, each := measured(name, given.seed))
        found.append(each)
        lines.append((name, *(f"{value:.3f}" for value in each.values())))
        print(*lines[-1], flush=True)
    what = max(found, key=len)
    columns = [np.array([each[w] for each in found if w in each]) for w in what]
    lines.append(("median", *(f"{np.median(values):.3f}" for values in columns)))
    lines.append(("geometric mean", *(f"{np.exp(np.mean(np.log(values))):.3f}" for values in columns)))
    print(markdown(("table", *what), lines))


if __name__ == "__main__":
    main()
