"""The arena: many tables, every rival, metrics of the field, and a protocol that cannot be tuned to.

Tables are for development or for confirmation, by a hash of their name. Without flags the development tables are run;
``inner`` splits their training rows once more and leaves test rows alone, which is where decisions are made;
``confirm`` adds the confirmation tables.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from experiments import tables as arena_tables
from experiments.contestants import CONTESTANTS
from experiments.runner import Answer, Cell, Results, Settings, Table
from experiments.suites import leaderboard, pictures
from experiments.suites.suite import Suite
from experiments.tables import CONFIRMATION, DEVELOPMENT, load_table, part_of
from experiments.tasks import Task

#: How a contestant is called where it may use every core.
EVERY_CORE = " (every core)"
#: Training rows of the learning curves.
CURVE = (250, 500, 1_000, 2_000, 4_000, 8_000)
COLUMNS = (
    ("Metric: RMSE / deviation, 1 − AUC (two classes), log loss (several)", "metric", "{:.4g}"),
    ("Error: RMSE / deviation, or % wrong", "error", "{:.4g}"),
    ("Log loss", "log_loss", "{:.4g}"),
    ("Expected calibration error, 15 bins", "ece", "{:.3f}"),
    ("Seconds to fit, one thread", "fit_seconds", "{:.3g}"),
    ("Processor seconds to fit, one thread", "fit_processor", "{:.3g}"),
    ("Seconds to predict, one thread", "predict_seconds", "{:.3g}"),
    ("Microseconds to predict a row, one thread", "predict_micros", "{:.3g}"),
    ("Megabytes that it adds, at its peak", "megabytes", "{:.0f}"),
)


def judge(model: Any, task: Task) -> Answer:
    """Metrics on the test rows, wall and processor seconds of both steps; labels are the likeliest classes."""
    _, fit_seconds, fit_processor = spent(lambda: model.fit(task.X, task.y))
    ask = model.predict if task.regression else model.predict_proba
    given, predict_seconds, predict_processor = spent(lambda: np.asarray(ask(task.X_test), dtype=float))
    times = {
        **{"fit_seconds": fit_seconds, "fit_processor": fit_processor, "predict_seconds": predict_seconds},
        "predict_processor": predict_processor,
        "predict_micros": 1e6 * predict_seconds / len(task.y_test),
    }
    if task.regression:
        if not np.isfinite(given).all():
            raise ValueError("predictions are not finite")
        error = task.error(given)
        return {**times, "rmse": error * float(task.y_test.std()), "error": error, "metric": error}
    return {**times, **scores(task, given, np.asarray(getattr(model, "classes_", np.unique(task.y))))}


def scores(task: Task, given: np.ndarray, classes: np.ndarray) -> Answer:
    """Error in %, log loss, calibration error, and the AUC of two classes."""
    k = int(task.y.max()) + 1
    P = np.zeros((len(given), k))
    P[:, classes.astype(int)] = given
    if not np.isfinite(P).all():
        raise ValueError("probabilities are not finite")
    right = P.argmax(axis=1) == task.y_test
    answer = {
        "error": 100 * float(np.mean(~right)),
        "log_loss": float(log_loss(task.y_test, P / P.sum(axis=1, keepdims=True), labels=np.arange(k))),
        "ece": expected_calibration_error(P, right),
    }
    if k > 2:
        return {**answer, "metric": answer["log_loss"]}
    auc = float(roc_auc_score(task.y_test, P[:, 1]))
    return {**answer, "auc": auc, "metric": 1 - auc}


def expected_calibration_error(probabilities: np.ndarray, right: np.ndarray, n_bins: int = 15) -> float:
    """Mean distance, over rows, between the confidence in the answer and its accuracy in bins of equal width."""
    confidence = probabilities.max(axis=1)
    which = np.minimum((n_bins * confidence).astype(int), n_bins - 1)
    gaps = np.bincount(which, confidence - right, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(right))


def spent(work: Any) -> tuple[Any, float, float]:
    """A result, the seconds on the clock, and those of all processors, child processes included."""

    def used() -> float:
        return process_time() + sum(os.times()[2:4])

    began, before = perf_counter(), used()
    result = work()
    return result, perf_counter() - began, used() - before


@cache
def warm_up(contestant: str, kind: str, classes: int) -> None:
    """Fit and ask once in this process on a few rows: imports, threads and compilation are not what is measured."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "c": pd.Categorical(list("xyz") * 40)})
    y = X["a"].to_numpy() if kind == "regression" else np.arange(120) % classes
    task = Task("", kind, X, y, X, y, (2,))
    with suppress(Exception):  # what is wrong is told by the measurement
        judge(CONTESTANTS[contestant](task, 0), task)


@dataclass(frozen=True)
class Arena(Suite):
    """The suite of both parts, or of one."""

    inner: bool = False
    curves: bool = False
    boosters: tuple[str, ...] = ()
    every_core: bool = True

    def protocol(
        self,
        *,
        inner: bool = False,
        confirm: bool = False,
        curves: bool = False,
        once: bool = False,
        every_core: bool = False,
    ) -> "Arena":
        """The arena as it is to be run: the whole on every core as well, one split where that is asked for."""
        if inner and confirm:
            raise ValueError("inner splits are for decisions, and confirmation tables for none: give one of the two")
        sets = tuple(name for name in self.sets if confirm or part_of(name) == DEVELOPMENT)
        name, how = self.name, f"{self.how} {_PROTOCOL[inner, confirm]}"
        if inner:
            name += "-inner"
        if once:
            how += " One split of each table, one thread" + (", and every core." if every_core else ".")
        return replace(
            self,
            name=name,
            how=how,
            sets=sets,
            seeds=1 if once else self.seeds,
            inner=inner,
            curves=curves,
            every_core=every_core or not once,
            load=partial(load_table, inner=inner),
        )

    def of(self, names: Sequence[str] | None = None, sets: Sequence[str] | None = None) -> "Suite":
        """The arena with these contestants, and these tables, only."""
        for name in sets or ():
            if name not in self.sets and name in arena_tables.SETS + arena_tables.FURTHER:
                raise ValueError(f"{name} is a confirmation table: it takes part in a run with --confirm only")
        return super().of(names, sets)

    def cells(self, settings: Settings) -> Iterator[Cell]:
        """Everybody on one thread; then, on the first split, on every core; then the learning curves."""
        yield from (replace(cell, cores="one") for cell in super().cells(settings))
        sets = self.sets_of(settings)
        if self.every_core and (os.cpu_count() or 1) > 1 and not settings.quick:
            for name in sets:
                for who in self.everyone:
                    work = partial(self._measure, name, who, 0, settings)
                    yield Cell(f"{name}/{who}{EVERY_CORE}/0", work, cores="all")
        if self.curves:
            for name in sets:
                for n in CURVE:
                    for who in (*self.ours, *self.rivals):
                        work = partial(self._measure, f"{name}@{n}", who, 0, settings)
                        yield Cell(f"{name}@{n}/{who}/0", work, cores="one")

    def _measure(self, name: str, contestant: str, seed: int, settings: Settings) -> Answer:
        task = self.load(name, seed)
        warm_up(contestant, task.kind, min(len(np.unique(task.y)), 3))
        return super()._measure(name, contestant, seed, settings)

    def tables(self, results: Results, settings: Settings) -> list[Table]:
        """Per table and contestant, then leaderboards of each part."""
        out = super().tables(results, settings)[:-1]
        out.insert(0, self._parts(settings))
        every = self.over_seeds(results, settings, "fit_seconds", suffix=EVERY_CORE)
        if not np.isnan(every[1]).all():
            _, one = self.over_seeds(results, settings, "fit_seconds")
            out.append(self.table("Seconds to fit, every core", *every, "{:.3g}"))
            out.append(leaderboard.every_core(self.everyone, one, every[1], self._sizes(every[0])))
        names, errors = self.over_seeds(results, settings, self.judged)
        _, seconds = self.over_seeds(results, settings, "fit_processor")
        kinds = self._kinds(results, names)
        if self.curves:
            boosters = {f"{len(group)} boosters": group for group in (self.boosters, self.rivals)}
            found, sizes = self._with_fewer_rows(results, settings), self._sizes(names)
            out.append(leaderboard.by_rows(self.ours, boosters, self.everyone, found, sizes))
        out.append(leaderboard.each(self.ours, self.rivals, self.everyone, errors, seconds))
        groups = {"All tables": np.ones(len(names), dtype=bool)}
        for part in (DEVELOPMENT, CONFIRMATION):
            groups[f"Tables for {part}"] = np.array([part_of(name) == part for name in names], dtype=bool)
        for title, chosen in groups.items():
            if chosen.any() and (title == "All tables" or not chosen.all()):
                out.append(leaderboard.standing(title, self.everyone, errors[chosen], seconds[chosen]))
        out.append(leaderboard.against(self.ours, self.boosters, self.everyone, kinds, errors, seconds))
        return out

    def _with_fewer_rows(self, results: Results, settings: Settings) -> dict[int, np.ndarray]:
        """What is judged, by table and contestant, of so many rows to learn from."""
        return {n: self.over_seeds(results, settings, self.judged, at=f"@{n}")[1] for n in CURVE}

    def _sizes(self, names: Sequence[str]) -> np.ndarray:
        """Rows to learn from of each table."""
        return np.array([len(self.load(name, 0).y) for name in names])

    def _parts(self, settings: Settings) -> Table:
        sets = self.sets_of(settings)
        rows = [
            [part, str(sum(part_of(name) == part for name in sets)), ", ".join(n for n in sets if part_of(n) == part)]
            for part in (DEVELOPMENT, CONFIRMATION)
        ]
        return Table("Which tables", ["for", "tables", "names"], [row for row in rows if row[1] != "0"])

    def _kinds(self, results: Results, names: list[str]) -> list[str]:
        """Regression, two classes or several, told from what was measured."""
        first = [results.under(f"{name}/")[0] for name in names]
        return ["regression" if "rmse" in a else "two classes" if "auc" in a else "several classes" for a in first]

    def figures(self, results: Results, settings: Settings) -> dict[str, Any]:
        """Ratios of every table, time against accuracy, and learning curves."""
        names, errors = self.over_seeds(results, settings, self.judged)
        _, seconds = self.over_seeds(results, settings, "fit_processor")
        out: dict[str, Any] = {}
        if self.boosters and self.ours:
            out |= pictures.ratios(names, self.everyone, self.ours, self.boosters, errors)
        out |= pictures.pareto(self.everyone, self.ours, errors, seconds)
        if self.curves:
            out |= pictures.curves(self.everyone, self.ours, self._with_fewer_rows(results, settings))
        return out


_PROTOCOL = {
    (False, False): "Development tables, a fifth of each to be tested on.",
    (True, False): "Development tables; their training rows are split once more, and test rows are not looked at: what "
    "is decided is decided here.",
    (False, True): "All tables, a fifth of each to be tested on; the confirmation tables among them are run once a "
    "version is done, and nothing is decided on them.",
}
ARENA = Arena(
    "arena",
    "The arena: tables that nobody tuned to",
    (*arena_tables.SETS, *arena_tables.FURTHER),
    ("satimage", "image_segmentation", "abalone"),
    ("Adaptive", "Adaptive, fast", "Adaptive, best"),
    ("LightGBM", "LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost", "XGBoost", "ChimeraBoost"),
    load=load_table,
    others=("RealMLP-TD", "TabM-D", "xRFM", "SVC/SVR, tuned", "linear", "class frequencies"),
    once=arena_tables.tasks.LARGE,
    measure=judge,
    columns=COLUMNS,
    how=f"Defaults on frames with categories and holes as they come, each contestant in its documented way; at most "
    f"{arena_tables.MAX_TRAIN:,} rows to learn from and {arena_tables.MAX_TEST:,} to be tested on; one thread each, in "
    "a process of its own that has run before, and on every core where that is said.",
    judged="metric",
    boosters=("LightGBM", "LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost"),
)
