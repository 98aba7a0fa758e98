"""The suites: which sets, which contestants, and how the outcome is told."""

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ulmus.bench import contestants, streams, tasks
from ulmus.bench.contestants import Make
from ulmus.bench.tasks import Task
from ulmus.reproduce.protocol import Answer, Cell, Experiment, Results, Settings, Table, timed

#: What every suite shows: title, number of an answer, format.
COLUMNS = (
    ("Error (RMSE / deviation, mean absolute rank error, or %)", "error", "{:.4g}"),
    ("Seconds to fit", "fit_seconds", "{:.3g}"),
    ("Seconds to predict", "predict_seconds", "{:.3g}"),
    ("Megabytes that it adds, at its peak", "megabytes", "{:.0f}"),
)
#: Beside the error: the same, and what is taken over seeds instead of the mean.
SPREAD = ("Deviation of the error over splits and seeds", "error", "{:.2g}", np.std)
#: Errors within this share of each other are a tie.
TIE = 0.01


def fit_and_predict(model: Any, task: Task) -> Answer:
    """Error on the test rows, and the seconds of both steps."""
    _, fit_seconds = timed(lambda: model.fit(task.X, task.y))
    predicted, predict_seconds = timed(lambda: model.predict(task.X_test))
    return {
        "error": task.error(np.asarray(predicted)),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
    }


def stream(learner: streams.Learner, task: Task) -> Answer:
    """Error on rows that were not learned yet, the seconds of both steps, and the rows a second that they allow."""
    predicted, learning, predicting = streams.prequential(learner, task.X, task.y)
    return {
        "error": task.error(predicted),
        "fit_seconds": learning,
        "predict_seconds": predicting,
        "rows_per_second": len(task.y) / (learning + predicting),
    }


@dataclass(frozen=True)
class Suite:
    """Sets, contestants (ours first), the rivals that ours must beat, and others, who run on one split.

    Sets named in ``once`` are so large that everybody runs on one split of them.
    """

    name: str
    title: str
    sets: tuple[str, ...]
    quick_sets: tuple[str, ...]
    ours: Mapping[str, Make]
    rivals: Mapping[str, Make]
    load: Callable[[str, int], Task] = tasks.load
    seeds: int = 3
    others: Mapping[str, Make] = field(default_factory=dict)
    once: tuple[str, ...] = ()
    measure: Callable[[Any, Task], Answer] = fit_and_predict
    columns: tuple[tuple[str, str, str], ...] = COLUMNS
    how: str = "Same splits, same cores; our models are called without arguments."

    def experiment(self) -> Experiment:
        """The suite as an experiment: cells, tables, a figure."""
        return Experiment(
            f"bench-{self.name}",
            self.title,
            self.how,
            self.cells,
            self.tables,
            self.figures,
        )

    @property
    def everyone(self) -> dict[str, Make]:
        return {**self.ours, **self.rivals, **self.others}

    def of(self, names: Sequence[str] | None = None, sets: Sequence[str] | None = None) -> "Suite":
        """The suite with these contestants, and these sets, only."""
        for kind, asked, known in (("contestant", names, tuple(self.everyone)), ("set of this suite", sets, self.sets)):
            unknown = [name for name in asked or () if name not in known]
            if unknown:
                raise ValueError(f"no {kind} is called {unknown[0]!r}; there are {', '.join(known)}")

        def few(group: Mapping[str, Make]) -> dict[str, Make]:
            return {name: make for name, make in group.items() if names is None or name in names}

        return replace(
            self, ours=few(self.ours), rivals=few(self.rivals), others=few(self.others), sets=tuple(sets or self.sets)
        )

    def _sets(self, settings: Settings) -> tuple[str, ...]:
        return self.quick_sets if settings.quick else self.sets

    def cells(self, settings: Settings) -> Iterator[Cell]:
        """Contestants take turns on every split."""
        for name in self._sets(settings):
            for seed in range(settings.repeats(1 if name in self.once else self.seeds, 1)):
                for contestant in self.everyone if seed == 0 else {**self.ours, **self.rivals}:
                    yield Cell(f"{name}/{contestant}/{seed}", partial(self._measure, name, contestant, seed, settings))

    def _measure(self, name: str, contestant: str, seed: int, settings: Settings) -> Answer:
        task = self.load(name, seed)
        if settings.quick:
            task = task.first(1000)
        model = self.everyone[contestant](task, seed)
        with _PeakMemory() as memory:
            answer = self.measure(model, task)
        return {**answer, "megabytes": memory.megabytes}

    def _over_seeds(
        self, results: Results, settings: Settings, key: str, of: Callable[[np.ndarray], Any] = np.mean
    ) -> tuple[list[str], np.ndarray]:
        """Sets that anybody finished, and means (or what ``of`` is) ``[set, contestant]``; NaN where one did not."""
        names = [name for name in self._sets(settings) if results.under(f"{name}/")]
        table = np.full((len(names), len(self.everyone)), np.nan)
        for i, name in enumerate(names):
            for j, contestant in enumerate(self.everyone):
                values = results.numbers(f"{name}/{contestant}/", key)
                table[i, j] = of(values) if len(values) else np.nan
        return names, table

    def tables(self, results: Results, settings: Settings) -> list[Table]:
        """Errors, times, memory, and who wins."""
        who = list(self.everyone)
        out: list[Table] = []
        first, *others = ((*column, np.mean) for column in self.columns)
        shown: list[tuple[str, str, str, Any]] = [first, SPREAD, *others]
        for title, key, form, of in shown:
            names, values = self._over_seeds(results, settings, key, of)
            rows = [
                [name, *("-" if np.isnan(v) else form.format(v) for v in line)] for name, line in zip(names, values)
            ]
            out.append(Table(title, ["data set", *who], rows, () if out else self._absent(results)))
        return [*out, self._standing(results, settings)]

    def _absent(self, results: Results) -> list[str]:
        """Who did not take part, where, and why."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for key, answer in results.answers.items():
            name, contestant = key.rpartition("/")[0].split("/", 1)
            if "missing" in answer:
                sets = reasons.setdefault((contestant, answer["missing"]), [])
                sets += [] if name in sets else [name]
        return [f"{contestant}: {reason} ({', '.join(sets)})" for (contestant, reason), sets in reasons.items()]

    def _standing(self, results: Results, settings: Settings) -> Table:
        """Mean ranks, and each of ours against the best rival of every set."""
        _, errors = self._over_seeds(results, settings, "error")
        _, seconds = self._over_seeds(results, settings, "fit_seconds")
        filled = np.where(np.isnan(errors), np.inf, errors)
        there = np.isfinite(errors).any(axis=0)  # who never took part has no rank, and takes none from the others
        ranks = np.full(errors.shape[1], np.nan)
        ranks[there] = np.array([rankdata(line[there]) for line in filled]).reshape(len(errors), -1).mean(axis=0)
        n_ours = len(self.ours)
        against = list(self.rivals) or list(self.ours)[:1]
        rival = filled[:, [list(self.everyone).index(name) for name in against]].min(axis=1, initial=np.inf)
        rows = []
        for j, name in enumerate(self.everyone):
            cells = [name, f"{ranks[j]:.2f}", f"{_median(seconds[:, j]):.3g}", "", ""] if there[j] else [name, *4 * "-"]
            if j < n_ours and there[j]:
                judged = np.isfinite(errors[:, j]) & np.isfinite(rival)
                ratio = errors[judged, j] / np.maximum(rival[judged], 1e-12)
                ratio = np.where((errors[judged, j] == 0) & (rival[judged] == 0), 1.0, ratio)
                won, lost = int((ratio < 1 - TIE).sum()), int((ratio > 1 + TIE).sum())
                cells[3] = f"{won}/{len(ratio) - won - lost}/{lost}"
                cells[4] = f"{_median(ratio):.3f} ({ratio.max():.3f})" if len(ratio) else "-"
            rows.append(cells)
        header = ["contestant", "mean rank", "median seconds", "won/tied/lost", "error ratio: median (worst)"]
        best = f"the best of {', '.join(against)} on each set, picked by its test error, which favours them"
        note = "Won, tied (within 1 %) and lost, and the error ratio, are against "
        note += f"{best if self.rivals else against[0]}."
        return Table("Standing", header, rows, [note])

    def figures(self, results: Results, settings: Settings) -> dict[str, Any]:
        """Error, relative to the best of the set, against time."""
        import matplotlib.pyplot as plt

        _, errors = self._over_seeds(results, settings, "error")
        _, seconds = self._over_seeds(results, settings, "fit_seconds")
        lowest = np.where(np.isnan(errors), np.inf, errors).min(axis=1, keepdims=True)
        relative = errors / np.maximum(lowest, 1e-12)
        figure, ax = plt.subplots(figsize=(8, 5), constrained_layout=True)
        for j, (name, marker) in enumerate(zip(self.everyone, "osD^v<>PXphd*8", strict=False)):
            ours = j < len(self.ours)
            x, y = _median(seconds[:, j]), _median(relative[:, j])
            ax.plot(x, y, marker, color="black" if ours else "tab:gray", markersize=9, mfc="gold" if ours else "none")
            ax.annotate(name, (x, y), textcoords="offset points", xytext=(7, 4), fontsize=8)
        ax.set(xscale="log", xlabel="median seconds to fit", ylabel="median error / lowest error of the set")
        plt.close(figure)
        return {"Error against time: down and left is better; filled marks are ours": figure}


def _median(values: np.ndarray) -> float:
    """Median of what is there; NaN when nothing is."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else float("nan")


class _PeakMemory:
    """Growth of resident memory while something runs, sampled a hundred times a second."""

    megabytes = float("nan")

    def __enter__(self) -> "_PeakMemory":
        gc.collect()
        _give_back()
        self._done, self._start, self._peak = threading.Event(), self._resident(), 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._peak = max(self._peak, self._resident())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.megabytes = max(self._peak, self._resident()) - self._start

    @staticmethod
    def _resident() -> float:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        except OSError:
            return float("nan")


def _give_back() -> None:
    """Return freed memory to the system, where its library can: what earlier work left would hide what is used now."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "tabular",
            "Tables: adaptive models beside boosted trees",
            (*tasks.REGRESSION, *tasks.ORDINAL_LARGE, *tasks.CLASSIFICATION, *tasks.LARGE),
            tasks.EMBEDDED,
            contestants.OURS,
            contestants.BOOSTERS,
            others=contestants.OTHERS,
            once=tasks.LARGE,
        ),
        Suite(
            "ablation",
            "Adaptive models without one of their ingredients",
            tasks.ABLATED,
            tasks.EMBEDDED,
            contestants.ABLATIONS,
            {},
        ),
        Suite(
            "core",
            "Closed-form models beside kernel machines",
            ("satimage", "pendigits", "letter", "ijcnn1", "shuttle", "cal_housing", "cpu_act", "house_16H", "abalone"),
            tasks.EMBEDDED,
            {"NKELM": contestants.nkelm, "ELM": contestants.elm},
            {name: contestants.OTHERS[name] for name in ("SVC/SVR", "KernelRidge", "Nystroem + Ridge", "MLP")},
        ),
        Suite(
            "ordinal",
            "Ordered labels",
            tasks.ORDINAL,
            ("abalone",),
            contestants.ORDINAL_OURS,
            contestants.ORDINAL_RIVALS,
            load=tasks.load_ordinal,
            seeds=5,
        ),
        Suite(
            "robust",
            "Regression with a tenth of the targets replaced by gross outliers",
            tasks.REGRESSION,
            ("abalone",),
            {"RobustNKELM": contestants.robust, "NKELM": contestants.nkelm},
            contestants.ROBUST_RIVALS,
            load=tasks.load_contaminated,
        ),
        Suite(
            "online",
            "Streams: every row is predicted before it is learned",
            tasks.STREAMS,
            ("satimage", "abalone"),
            streams.OURS,
            streams.RIVALS,
            load=streams.load_stream,
            measure=stream,
            columns=(*COLUMNS, ("Rows a second, predicted and learned", "rows_per_second", "{:,.0f}")),
            how=f"Rows in random order, at most {streams.MAX_ROWS:,}. Ours and pyoselm predict and learn "
            f"{streams.BLOCK} rows at a time (single ones at the start), river's models one; all scale inputs by their "
            "running mean and deviation. Ours choose their parameters on the first rows. Seconds are those of the "
            "whole stream, errors those of all its rows, the first included.",
        ),
    )
}
