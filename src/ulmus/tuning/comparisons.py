"""What a search chose, its loss, and the losses of what else it tried: for people, in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ulmus._numbers import number
from ulmus.tuning.surface import Trial

if TYPE_CHECKING:
    from ulmus.tuning.search import Tuning

#: Alternatives that are named, at most: those nearest to the choice.
NAMED = 3


@dataclass(frozen=True)
class Decision:
    """A choice with its held-out loss, others with theirs, and on what they were compared; or why there is no other."""

    name: str
    chosen: str
    loss: float
    others: tuple[tuple[str, float], ...] = ()
    where: str = ""
    why: str = ""

    @property
    def against(self) -> str:
        """The others, in words."""
        return ", ".join(f"{label}: {number(loss)}" for label, loss in self.others) or self.why


#: Columns of a table of trials.
TRIAL_HEADER = ("stage", "rows", "width", "size", "best C", "loss", "")


def trial_rows(trials: Iterable[Trial], chosen: Callable[[Trial], bool]) -> list[tuple[str, ...]]:
    """Trials as lines of a table, with a star at the last of those that may be the chosen one."""
    trials = list(trials)
    star = max((k for k, t in enumerate(trials) if chosen(t)), default=-1)
    return [
        (
            t.stage,
            f"{t.n_rows:,}",
            f"{t.width:.4g}",
            f"{t.size}",
            f"{t.best_C:.4g}",
            number(t.best_loss),
            "*" * (k == star),
        )
        for k, t in enumerate(trials)
    ]


def of_search(tuning: "Tuning", width: str, size: str) -> list[Decision]:
    """The decisions of a search for C, the width and the size, which go by these names."""
    found, trials = [], tuning.trials
    sizes = {t.size: t for t in trials if t.stage in ("size", "C")}
    by_log = {stage: [t for t in trials if t.stage == f"log {stage}"] for stage in ("C", "width")}
    last = by_log["C"][-1] if by_log["C"] else sizes.get(tuning.size)
    if last is not None and len(last.C) > 1:
        C = dict(zip(last.C.tolist(), last.loss.tolist(), strict=True))
        found.append(_near("C", tuning.C, C, f"{len(C)} values, {_rows(last)}"))
    widths = by_log["width"] or [t for t in trials if t.stage == "width"]
    if widths:
        level = [t for t in widths if (t.n_rows, t.size) == (widths[-1].n_rows, widths[-1].size)]
        losses = {t.width: t.best_loss for t in level}
        found.append(_near(width, tuning.width, losses, f"{len(widths)} trials, {_rows(level[-1])}"))
    if len(sizes) > 1:
        losses = {s: t.best_loss for s, t in sizes.items()}
        found.append(_near(size, tuning.size, losses, "the smallest that is as good as any"))
    return found


def _near(name: str, chosen: float, losses: dict[Any, float], where: str) -> Decision:
    """The choice among numbers, beside its neighbours on either side."""
    values = sorted(losses)
    place = int(np.argmin(np.abs(np.log(values) - np.log(chosen))))
    beside = [values[k] for k in (place - 1, place + 1) if 0 <= k < len(values)]
    others = tuple((f"{value:.4g}", losses[value]) for value in beside)
    return Decision(name, f"{chosen:.4g}", losses[values[place]], others, where)


def _rows(trial: Trial) -> str:
    return f"{trial.n_rows:,} rows"


def of_views(trials: Sequence[Trial], preparation: str, kernel: str, metric: str) -> list[Decision]:
    """The decisions of an adaptive model: how columns are prepared, the kernel, and whether a metric is learned.

    Each is known from the last trials that compare: on as many rows, with as many landmarks. Files of before name none.
    """
    named = [t for t in trials if t.stage == "view" and t.preparation]
    plain = [t for t in named if t.kernel == named[0].kernel and t.metric == "plain"]
    own = [t for t in named if t.preparation == preparation]
    of_kernel = [t for t in own if t.kernel.partition(",")[0] == kernel]
    asked = (
        ("columns", preparation, plain, "preparation"),
        ("kernel", kernel, own, "kernel"),
        ("metric", metric, of_kernel, "metric"),
    )
    found = (_compared(name, chosen, some, by) for name, chosen, some, by in asked)
    return [decision for decision in found if decision is not None]


def _compared(name: str, chosen: str, trials: Iterable[Trial], by: str) -> Decision | None:
    """The choice among names, on the largest of the samples on which the chosen one met others."""
    samples: dict[tuple[int, int], dict[str, float]] = {}
    for t in trials:
        losses = samples.setdefault((t.n_rows, t.size), {})
        label = str(getattr(t, by))
        losses[label] = min(losses.get(label, np.inf), t.best_loss)
    met = [(sample, losses) for sample, losses in samples.items() if len(losses) > 1 and chosen in losses]
    if not met:
        return None
    (rows, size), losses = max(met, key=lambda each: each[0])
    others = sorted(((label, loss) for label, loss in losses.items() if label != chosen), key=lambda each: each[1])
    return Decision(name, chosen, losses[chosen], tuple(others[:NAMED]), f"{rows:,} rows, {size} landmarks")
