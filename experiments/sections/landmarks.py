"""Section (ae): which landmark strategy wins accuracy per second on real data.

Every strategy chooses L landmarks for the same rows and the same kernel; the ridge on them is the same too. Time is
landmark choice, factor and ridge, in CPU seconds of one thread, which a busy machine does not spoil. Uniform landmarks
are cheap, so a strategy has to beat not only as many uniform landmarks but the larger number that fits into its time:
*same time* compares its error with the one of the uniform curve (over L) at its time.
"""

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.runner.protocol import NotHere, markdown
from experiments.runner.report import Options, Section
from experiments.tasks import Task, random_split
from ulmus import NumericalWarning, NystromMap, engine
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.landmarks import STRATEGIES, heuristic_gamma
from ulmus.solvers.nystrom_ridge import NystromProblem

CLASSIFICATION = ("satimage", "shuttle", "ijcnn1", "letter", "pendigits")
REGRESSION = ("cal_housing", "cpu_act", "house_16H")
MAX_ROWS = 20_000
SIZES = (250, 1000)
UNIFORM_SIZES = (250, 500, 1000, 1500)
GAMMA_FACTORS = (1, 4)
NAMES = tuple(s for s in STRATEGIES if s != "all")


def load(name: str, seed: int) -> Task:
    """Standardised rows, at most ``MAX_ROWS`` of them to train on; a number to predict is standardised too."""
    task = random_split(name, seed)
    if task is None:
        raise NotHere
    task = task.first(MAX_ROWS).tested_on(MAX_ROWS).scaled("standardised")
    if not task.regression:
        return task
    mean, deviation = task.y.mean(), task.y.std()
    return replace(task, y=(task.y - mean) / deviation, y_test=(task.y_test - mean) / deviation)


def measure(task: Task, strategy: str, L: int, gamma: float, seed: int) -> tuple[float, float, float]:
    """Test error (share of wrong labels, or RMSE in standard deviations), seconds of choice, seconds in all."""
    coding = None if task.regression else OneVsAll(task.classes)
    index = np.searchsorted(task.classes, task.y)
    T = task.y[:, None] if coding is None else coding.encode(index)
    start = time.process_time()
    features = NystromMap(L, gamma=gamma, landmarks=strategy, random_state=seed, n_jobs=1)
    features.fit(task.X, None if coding is None else index)
    chosen = time.process_time()
    solution = NystromProblem(features, Rows(task.X, T), 2.0**5 if coding is None else 2.0**10, n_jobs=1).solve()
    done = time.process_time()
    scores = engine.apply(features, task.X_test, solution.beta) + solution.intercept
    if coding is None:
        error = float(np.sqrt(np.mean((scores[:, 0] - task.y_test) ** 2)))
    else:
        error = float(np.mean(coding.decode(scores) != task.y_test))
    return error, chosen - start, done - start


def measured(section: Section, options: Options) -> pd.DataFrame:
    """Mean errors and median seconds over the seeds, of every cell."""
    warnings.simplefilter("ignore", NumericalWarning)
    records: list[tuple[Any, ...]] = []
    for seed in range(options.repeats):
        for name in ("satimage",) if options.quick else (*CLASSIFICATION, *REGRESSION):
            task = load(name, seed)
            base = heuristic_gamma("rbf", task.X, None, np.random.RandomState(seed))
            measure(task, "uniform", 100, base, seed)  # warm up
            for factor in GAMMA_FACTORS:
                for strategy in NAMES:
                    if STRATEGIES[strategy].labels and task.regression:
                        continue
                    for L in UNIFORM_SIZES if strategy == "uniform" else SIZES:
                        cell = (name, factor, L, strategy)
                        found = section.kept(
                            f"{'/'.join(map(str, cell))}/{seed}",
                            lambda c=cell, t=task, b=base, s=seed: measure(t, c[3], c[2], b * c[1], s),
                        )
                        records.append((*cell, *found))
    columns = ["set", "gamma", "L", "strategy", "error", "choice_s", "total_s"]
    cells = pd.DataFrame(records, columns=columns).groupby(columns[:4])
    return cells.agg({"error": "mean", "choice_s": "median", "total_s": "median"}).reset_index()


def against_uniform(table: pd.DataFrame) -> pd.DataFrame:
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


def as_markdown(frame: pd.DataFrame) -> str:
    return markdown(list(map(str, frame.columns)), frame.itertuples(index=False))


def strategies(section: Section, options: Options) -> None:
    """Errors and seconds of every cell, and ratios to uniform landmarks."""
    with threadpool_limits(1):
        table = measured(section, options)
    section.say(
        "Test error (% wrong, or 100 RMSE / standard deviation), and seconds: choice + factor / with the ridge."
    )
    shown = table[table.L.isin(SIZES)].copy()
    shown["cell"] = [
        f"{100 * r.error:.2f} ({r.choice_s:.2f} / {r.total_s:.2f} s)" for r in shown.itertuples(index=False)
    ]
    wide = shown.pivot_table(
        index=["set", "gamma", "L"], columns="strategy", values="cell", aggfunc="first", sort=False
    )
    section.say(as_markdown(wide[[n for n in NAMES if n in wide]].fillna("-").reset_index()))
    ratios = against_uniform(table)
    section.say("Geometric means over all cells, relative to uniform landmarks (below 1 is better).")
    for L in (*SIZES, "all"):
        part = ratios if L == "all" else ratios[ratios.L == L]
        summary = part.groupby("strategy")[["error", "time", "same_time"]].agg(lambda v: np.exp(np.log(v).mean()))
        summary = summary.reindex(NAMES).dropna()
        best = part.loc[part.groupby(["set", "gamma", "L"])["same_time"].idxmin(), "strategy"].value_counts()
        summary["wins"] = best.reindex(summary.index).fillna(0).astype(int)
        section.say(f"L = {L}\n\n{as_markdown(summary.round(3).reset_index())}")
