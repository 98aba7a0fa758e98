"""A suite: which sets, which contestants, and how the outcome is told."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from experiments import tasks
from experiments.contestants import CONTESTANTS
from experiments.contestants.streams import Learner, prequential
from experiments.runner import Answer, Cell, Experiment, Results, Settings, Table
from experiments.runner.measure import Resident, timed
from experiments.tasks import Task

#: What every suite shows: title, number of an answer, format.
COLUMNS = (
    ("Error (RMSE / deviation, mean absolute rank error, or %)", "error", "{:.4g}"),
    ("Seconds to fit", "fit_seconds", "{:.3g}"),
    ("Seconds to predict", "predict_seconds", "{:.3g}"),
    ("Megabytes that it adds, at its peak", "megabytes", "{:.0f}"),
)
#: The title of what is shown beside the error.
SPREAD = "Deviation of the error over splits and seeds"
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


def stream(learner: Learner, task: Task) -> Answer:
    """Error on rows that were not learned yet, the seconds of both steps, and the rows a second that they allow."""
    predicted, learning, predicting = prequential(learner, task.X, task.y)
    return {
        "error": task.error(predicted),
        "fit_seconds": learning,
        "predict_seconds": predicting,
        "rows_per_second": len(task.y) / (learning + predicting),
    }


@dataclass(frozen=True)
class Suite:
    """Sets, and contestants by name: ours, the rivals that ours must beat, and others, who run on one split.

    Sets named in ``once`` are so large that everybody runs on one split of them.
    """

    name: str
    title: str
    sets: tuple[str, ...]
    quick_sets: tuple[str, ...]
    ours: tuple[str, ...]
    rivals: tuple[str, ...]
    load: Callable[[str, int], Task] = tasks.load
    seeds: int = 3
    others: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    measure: Callable[[Any, Task], Answer] = fit_and_predict
    columns: tuple[tuple[str, str, str], ...] = COLUMNS
    how: str = "Same splits, same cores; our models are called without arguments."
    judged: str = "error"

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
    def everyone(self) -> tuple[str, ...]:
        return (*self.ours, *self.rivals, *self.others)

    def of(self, names: Sequence[str] | None = None, sets: Sequence[str] | None = None) -> "Suite":
        """The suite with these contestants, and these sets, only."""
        for kind, asked, known in (("contestant", names, self.everyone), ("set of this suite", sets, self.sets)):
            unknown = [name for name in asked or () if name not in known]
            if unknown:
                raise ValueError(f"no {kind} is called {unknown[0]!r}; there are {', '.join(known)}")

        def few(group: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in group if names is None or name in names)

        return replace(
            self, ours=few(self.ours), rivals=few(self.rivals), others=few(self.others), sets=tuple(sets or self.sets)
        )

    def sets_of(self, settings: Settings) -> tuple[str, ...]:
        few = tuple(name for name in self.quick_sets if name in self.sets)
        return few if settings.quick and few else self.sets

    def cells(self, settings: Settings) -> Iterator[Cell]:
        """Contestants take turns on every split."""
        for name in self.sets_of(settings):
            for seed in range(settings.repeats(1 if name in self.once else self.seeds, 1)):
                for contestant in self.everyone if seed == 0 else (*self.ours, *self.rivals):
                    yield Cell(f"{name}/{contestant}/{seed}", partial(self._measure, name, contestant, seed, settings))

    def _measure(self, name: str, contestant: str, seed: int, settings: Settings) -> Answer:
        task = self.load(name, seed)
        if settings.quick:
            task = task.first(1000)
        model = CONTESTANTS[contestant](task, seed)
        with Resident() as memory:
            answer = self.measure(model, task)
        return {**answer, "megabytes": memory.growth}

    def over_seeds(
        self,
        results: Results,
        settings: Settings,
        key: str,
        of: Callable[[np.ndarray], Any] = np.mean,
        *,
        suffix: str = "",
        at: str = "",
    ) -> tuple[list[str], np.ndarray]:
        """Sets that anybody finished, and means (or what ``of`` is) ``[set, contestant]``; NaN where one did not.

        ``suffix`` and ``at`` are added to the names of contestants and sets.
        """
        names = [name for name in self.sets_of(settings) if results.under(f"{name}/")]
        table = np.full((len(names), len(self.everyone)), np.nan)
        for i, name in enumerate(names):
            for j, contestant in enumerate(self.everyone):
                values = results.numbers(f"{name}{at}/{contestant}{suffix}/", key)
                table[i, j] = of(values) if len(values) else np.nan
        return names, table

    def tables(self, results: Results, settings: Settings) -> list[Table]:
        """Errors, times, memory, and who wins."""
        out: list[Table] = []
        first, *others = ((*column, np.mean) for column in self.columns)
        shown: list[tuple[str, str, str, Any]] = [first, (SPREAD, self.judged, "{:.2g}", np.std), *others]
        for title, key, form, of in shown:
            values = self.over_seeds(results, settings, key, of)
            out.append(self.table(title, *values, form, () if out else self._absent(results)))
        return [*out, self._standing(results, settings)]

    def table(self, title: str, names: list[str], values: np.ndarray, form: str, notes: Sequence[str] = ()) -> Table:
        """One number of every contestant on every set."""
        rows = [[name, *("-" if np.isnan(v) else form.format(v) for v in line)] for name, line in zip(names, values)]
        return Table(title, ["data set", *self.everyone], rows, notes)

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
        _, errors = self.over_seeds(results, settings, self.judged)
        _, seconds = self.over_seeds(results, settings, "fit_seconds")
        filled = np.where(np.isnan(errors), np.inf, errors)
        there = np.isfinite(errors).any(axis=0)  # who never took part has no rank, and takes none from the others
        ranks = np.full(errors.shape[1], np.nan)
        ranks[there] = np.array([rankdata(line[there]) for line in filled]).reshape(len(errors), -1).mean(axis=0)
        n_ours = len(self.ours)
        against = self.rivals or self.ours[:1]
        rival = filled[:, [self.everyone.index(name) for name in against]].min(axis=1, initial=np.inf)
        rows = []
        for j, name in enumerate(self.everyone):
            cells = [name, f"{ranks[j]:.2f}", f"{median(seconds[:, j]):.3g}", "", ""] if there[j] else [name, *4 * "-"]
            if j < n_ours and there[j]:
                judged = np.isfinite(errors[:, j]) & np.isfinite(rival)
                ratio = errors[judged, j] / np.maximum(rival[judged], 1e-12)
                ratio = np.where((errors[judged, j] == 0) & (rival[judged] == 0), 1.0, ratio)
                won, lost = int((ratio < 1 - TIE).sum()), int((ratio > 1 + TIE).sum())
                cells[3] = f"{won}/{len(ratio) - won - lost}/{lost}"
                cells[4] = f"{median(ratio):.3f} ({ratio.max():.3f})" if len(ratio) else "-"
            rows.append(cells)
        header = ["contestant", "mean rank", "median seconds", "won/tied/lost", "error ratio: median (worst)"]
        best = f"the best of {', '.join(against)} on each set, picked by its test error, which favours them"
        note = "Won, tied (within 1 %) and lost, and the error ratio, are against "
        note += f"{best if self.rivals else against[0]}."
        return Table("Standing", header, rows, [note])

    def figures(self, results: Results, settings: Settings) -> dict[str, Any]:
        """Error, relative to the best of the set, against time."""
        import matplotlib.pyplot as plt

        _, errors = self.over_seeds(results, settings, self.judged)
        _, seconds = self.over_seeds(results, settings, "fit_seconds")
        lowest = np.where(np.isnan(errors), np.inf, errors).min(axis=1, keepdims=True)
        relative = errors / np.maximum(lowest, 1e-12)
        figure, ax = plt.subplots(figsize=(8, 5), constrained_layout=True)
        for j, (name, marker) in enumerate(zip(self.everyone, "osD^v<>PXphd*8", strict=False)):
            ours = j < len(self.ours)
            x, y = median(seconds[:, j]), median(relative[:, j])
            ax.plot(x, y, marker, color="black" if ours else "tab:gray", markersize=9, mfc="gold" if ours else "none")
            ax.annotate(name, (x, y), textcoords="offset points", xytext=(7, 4), fontsize=8)
        ax.set(xscale="log", xlabel="median seconds to fit", ylabel="median error / lowest error of the set")
        plt.close(figure)
        return {"Error against time: down and left is better; filled marks are ours": figure}


def median(values: np.ndarray) -> float:
    """Median of what is there; NaN when nothing is."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else float("nan")
