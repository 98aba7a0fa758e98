"""Which landmark strategy wins accuracy per second on real data.

``ULMUS_DATA=folder python benchmarks/landmarks.py [--seeds 3] [--sets letter shuttle]``

Every strategy chooses L landmarks for the same rows and the same kernel; the ridge on them is the same too. Time is
landmark choice, factor and ridge, in CPU seconds of one thread, which a busy machine does not spoil. Uniform landmarks
are cheap, so a strategy has to beat not only as many uniform landmarks but the larger number that fits into its time:
*same time* compares its error with the one of the uniform curve (over L) at its time.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ulmus import NumericalWarning, NystromMap, engine
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.landmarks import STRATEGIES
from ulmus.features.widths import heuristic_gamma
from ulmus.solvers.nystrom_ridge import fit_nystrom_ridge

CLASSIFICATION = ("satimage", "shuttle", "ijcnn1", "letter", "pendigits")
REGRESSION = ("cal_housing", "cpu_act", "house_16H")
MAX_ROWS = 20_000
SIZES = (250, 1000)
UNIFORM_SIZES = (250, 500, 1000, 1500)
GAMMA_FACTORS = (1, 4)
NAMES = tuple(s for s in STRATEGIES if s != "all")


def load(name, seed):
    """Standardised rows, at most ``MAX_ROWS`` of them to train on; the targets; the classes, if they are classes."""
    frame = pd.read_parquet(Path(os.environ["ULMUS_DATA"]) / f"{name}.parquet")
    y = frame.pop("target").to_numpy()
    X = frame.drop(columns=[c for c in frame if c.startswith("split")]).to_numpy(np.float64)
    order = np.random.RandomState(seed).permutation(len(X))
    n_train = min(MAX_ROWS, 2 * len(X) // 3)
    train, test = order[:n_train], order[n_train : n_train + MAX_ROWS]
    scaler = StandardScaler().fit(X[train])
    if name in CLASSIFICATION:
        classes, y = np.unique(y, return_inverse=True)
    else:
        classes, y = None, (y - y[train].mean()) / y[train].std()
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test], classes


def measure(data, strategy, L, gamma, seed):
    """Test error (share of wrong labels, or RMSE in standard deviations), seconds of choice, seconds in all."""
    X, y, X_test, y_test, classes = data
    T = y[:, None] if classes is None else OneVsAll(classes).encode(y)
    start = time.process_time()
    features = NystromMap(L, gamma=gamma, landmarks=strategy, random_state=seed, n_jobs=1)
    features.fit(X, None if classes is None else y)
    chosen = time.process_time()
    solution = fit_nystrom_ridge(features, Rows(X, T), 2.0**5 if classes is None else 2.0**10, n_jobs=1)
    done = time.process_time()
    scores = engine.apply(features, X_test, solution.beta) + solution.intercept
    if classes is None:
        error = float(np.sqrt(np.mean((scores[:, 0] - y_test) ** 2)))
    else:
        error = float(np.mean(OneVsAll(np.arange(len(classes))).decode(scores) != y_test))
    return error, chosen - start, done - start


def run(sets, n_seeds):
    warnings.simplefilter("ignore", NumericalWarning)
    records = []
    for seed in range(n_seeds):
        for name in sets:
            data = load(name, seed)
            base = heuristic_gamma("rbf", data[0], None, np.random.RandomState(seed))
            measure(data, "uniform", 100, base, seed)  # warm up
            for factor in GAMMA_FACTORS:
                for strategy in NAMES:
                    if STRATEGIES[strategy].labels and data[-1] is None:
                        continue
                    for L in UNIFORM_SIZES if strategy == "uniform" else SIZES:
                        records.append((name, factor, L, strategy, *measure(data, strategy, L, base * factor, seed)))
                        print(seed, *records[-1], file=sys.stderr, flush=True)
    columns = ["set", "gamma", "L", "strategy", "error", "choice_s", "total_s"]
    cells = pd.DataFrame(records, columns=columns).groupby(columns[:4])
    return cells.agg({"error": "mean", "choice_s": "median", "total_s": "median"}).reset_index()


def against_uniform(table):
    """Ratios of every cell to as many uniform landmarks, and to uniform ones in the same time."""
    rows = []
    for (name, gamma), cells in table.groupby(["set", "gamma"], sort=False):
        curve = cells[cells.strategy == "uniform"].sort_values("total_s")
        for cell in cells[cells.L.isin(SIZES)].itertuples():
            twin = curve[curve.L == cell.L].iloc[0]
            tiny = 1e-9
            same_time = np.exp(
                np.interp(np.log(cell.total_s), np.log(curve.total_s), np.log(np.maximum(curve.error, tiny)))
            )
            error = max(cell.error, tiny)
            rows.append(
                (name, gamma, cell.L, cell.strategy, error / max(twin.error, tiny), cell.total_s / twin.total_s,
                 error / same_time)
            )  # fmt: skip
    return pd.DataFrame(rows, columns=["set", "gamma", "L", "strategy", "error", "time", "same_time"])


def markdown(frame):
    lines = ["| " + " | ".join(map(str, frame.columns)) + " |", "|" + "---|" * len(frame.columns)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in frame.itertuples(index=False)])


def report(table):
    print("Test error (% wrong, or 100 RMSE / standard deviation), and seconds: choice + factor / with the ridge\n")
    shown = table[table.L.isin(SIZES)].copy()
    shown["cell"] = [
        f"{100 * r.error:.2f} ({r.choice_s:.2f} / {r.total_s:.2f} s)" for r in shown.itertuples(index=False)
    ]
    wide = shown.pivot_table(
        index=["set", "gamma", "L"], columns="strategy", values="cell", aggfunc="first", sort=False
    )
    print(markdown(wide[[n for n in NAMES if n in wide]].fillna("-").reset_index()))
    ratios = against_uniform(table)
    geometric = lambda v: np.exp(np.log(v).mean())  # noqa: E731
    print("\nGeometric means over all cells, relative to uniform landmarks (below 1 is better)\n")
    for L in (*SIZES, "all"):
        part = ratios if L == "all" else ratios[ratios.L == L]
        summary = part.groupby("strategy")[["error", "time", "same_time"]].agg(geometric).reindex(NAMES).dropna()
        best = part.loc[part.groupby(["set", "gamma", "L"])["same_time"].idxmin(), "strategy"].value_counts()
        summary["wins"] = best.reindex(summary.index).fillna(0).astype(int)
        print(f"L = {L}\n\n{markdown(summary.round(3).reset_index())}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=[*CLASSIFICATION, *REGRESSION])
    arguments = parser.parse_args()
    with threadpool_limits(1):
        report(run(arguments.sets, arguments.seeds))
