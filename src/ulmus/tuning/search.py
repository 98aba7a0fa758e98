r"""The search: C innermost, then the width of the features, then their number.

Three parameters decide a model: the penalty C, the *width* of its features (``gamma`` of a kernel, ``slope`` of a
random layer) and their number, its *size*.

* **C**: one decomposition gives every C (:mod:`ulmus.tuning.judge`).
* **width**: a climb on a logarithmic scale from a scale-aware start, on samples of the rows with fewer features, coarse
  first (:data:`LEVELS`).
* **size**: features nest, so one set of statistics gives every smaller model. The size doubles while the loss falls by
  more than the standard error of its fall (of paired differences, row by row), or by more than 1 %; the smallest size
  within one such error, and 1 %, of the best is taken.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.sampling import distinct_sample
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.judge import C_LIMITS, Judge, Trial

#: log2 of the C that are tried first; the judge widens the grid while the best value sits at its end.
LOG2_C = np.arange(-10.0, 25.5, 1.0)
#: (rows, features, factor between neighbouring widths) of each level of the climb on widths.
LEVELS = ((2_000, 200, 4.0), (8_000, 500, 2.0), (32_000, 1_000, 2.0))
#: Widths tried at one level, at most.
MAX_CLIMB = 10
#: First size of the doubling sequence; its half and quarter are judged from the same statistics.
FIRST_SIZE = 500
#: A fall of the loss by this share of it counts, whatever its standard error.
SHARE = 0.01
#: Features that are tried even when there are fewer rows.
FEWEST = 64
#: Rows on which a full-size model is judged: a quarter of them, within these bounds.
SCORED_ROWS = (4_000, 20_000)


@dataclass(frozen=True)
class Tuning:
    """What was searched and what was chosen."""

    trials: tuple[Trial, ...]
    width: float
    size: int
    C: float
    loss: float
    seconds: float

    def surface(self) -> dict[str, np.ndarray]:
        """Every model that was judged, as columns: stage, width, size, C, loss."""
        rows = [(t.stage, t.width, t.size, C, loss) for t in self.trials for C, loss in zip(t.C, t.loss, strict=True)]
        names = ("stage", "width", "size", "C", "loss")
        return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@dataclass
class Found:
    """The chosen model: its fitted map, size, C and statistics."""

    features: Any
    size: int
    C: float
    statistics: Statistics


@dataclass
class Tuner:
    """The search for one model; ``make_map(width, size)`` is an unfitted feature map."""

    judge: Judge
    make_map: Callable[[float, int], Any]
    rng: np.random.RandomState
    labels: Callable[[Rows], np.ndarray | None] = lambda rows: None
    log2_C: np.ndarray = field(default_factory=lambda: LOG2_C)
    verbose: bool = False
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        rows = self.judge.rows
        self.n_rows = rows.effective_count
        count = int(np.clip(self.n_rows // 4, *SCORED_ROWS))
        if self.judge.folds is None and count < self.n_rows:
            index, sample = distinct_sample(rows, count, self.rng)
            self.judge = replace(self.judge, scored=index, mass=sample.weight)

    def choose_width(self, start: float, size: int) -> float:
        """Climb to the best width, coarsely on few rows, then finer on more."""
        width = start
        for rows, features, factor in LEVELS:
            sample = self._sample(rows)
            most = max(FEWEST, int(sample.rows.effective_count))
            width = self._climb(width, factor, min(features, size, most), sample)
            if self.n_rows <= 2 * rows:
                break
        return width

    def _climb(self, start: float, factor: float, size: int, judge: Judge) -> float:
        """Move to a neighbouring width while that gains more than half a standard error: smaller gains are noise."""
        trials: dict[int, Trial] = {}
        near: list[float] = []

        def trial_at(step: int) -> Trial:
            if step not in trials:
                width = start * factor**step
                features = self._fit(judge, width, size)
                grid = self._grid(near[-1] if near else None, np.arange(-6.0, 7.0, 2.0))
                trial = self._record(judge.trial("width", width, features, judge.summarise(features), grid))
                near.append(float(np.log2(trial.best_C)))
                trials[step] = trial
            return trials[step]

        here = 0
        while len(trials) < MAX_CLIMB:
            best = min((here, here + 1, here - 1), key=lambda step: trial_at(step).best_loss)
            if best == here or not judge.gains(trial_at(here), trial_at(best), errors=0.5):
                break
            here = best
        return start * factor**here

    def _grid(self, near: float | None, steps: np.ndarray) -> np.ndarray:
        """The whole grid of log2 C (every other one, at first), or a few around a known good value."""
        if len(self.log2_C) == 1 or near is None:
            return self.log2_C[::2]
        return np.clip(near, C_LIMITS[0] - steps[0], C_LIMITS[1] - steps[-1]) + steps

    def choose_C(self, width: float, size: int) -> Found:
        """The best C for a given width and size."""
        features = self._fit(self.judge, width, size)
        summary = self.judge.summarise(features)
        trial = self._record(self.judge.trial("C", width, features, summary, self.log2_C))
        return Found(features, trial.size, trial.best_C, summary.total)

    def choose_size(self, width: float, max_size: int) -> Found:
        """The smallest sufficient size and its C."""
        judged: list[Trial] = []
        max_size = min(max_size, max(FEWEST, int(self.n_rows)))
        size, grid = min(FIRST_SIZE, max_size), self.log2_C
        while True:
            features = self._fit(self.judge, width, size)
            summary = self.judge.summarise(features)
            have = features.n_lifted
            for prefix in features.prefix_sizes() if not judged else [have]:
                judged.append(self._record(self.judge.trial("size", width, features, summary, grid, prefix)))
            grid = self._grid(float(np.log2(judged[-1].best_C)), np.arange(-4.0, 5.0))
            exhausted = size >= max_size or have < size
            if exhausted or (len(judged) > 1 and not self.judge.gains(judged[-2], judged[-1], share=SHARE)):
                break
            size = min(2 * size, max_size)
        return self._sufficient(judged, features, summary)

    def choose_prefix(self, width: float, features: Any, summary: Summary, sizes: list[int]) -> Found:
        """The smallest sufficient size of a fitted map, and its C, from sums of rows that need not be at hand.

        The judge's own rows are scored: they are among those of the sums (or of the folds, by their numbers).
        """
        judged = [self._record(self.judge.trial("size", width, features, summary, self.log2_C, size)) for size in sizes]
        return self._sufficient(judged, features, summary)

    def _sufficient(self, judged: list[Trial], features: Any, summary: Summary) -> Found:
        best = min(judged, key=lambda t: t.best_loss)
        chosen = next(t for t in judged if not self.judge.gains(t, best, share=SHARE))
        return Found(features.prefix(chosen.size), chosen.size, chosen.best_C, summary.total.prefix(chosen.size))

    def _fit(self, judge: Judge, width: float, size: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            return self.make_map(width, size).fit(judge.rows.X, self.labels(judge.rows), judge.rows.weight)

    def _sample(self, count: int) -> Judge:
        """The judge of a sample of the rows."""
        if self.n_rows <= count:
            return self.judge
        index, sample = distinct_sample(self.judge.rows, count, self.rng)
        folds = None if self.judge.folds is None else self.judge.folds[index]
        scored = None if folds is not None or len(sample) <= SCORED_ROWS[0] else np.arange(SCORED_ROWS[0])
        return replace(self.judge, rows=sample, folds=folds, scored=scored, mass=None)

    def _record(self, trial: Trial) -> Trial:
        self.trials.append(trial)
        if self.verbose:
            print(
                f"[{time.perf_counter() - self.began:6.1f} s] {trial.stage:>5}: width {trial.width:.3g}, "
                f"{trial.size} features, {trial.n_rows} rows: loss {trial.best_loss:.5g} at C = {trial.best_C:.3g}"
            )
        return trial

    def result(self, width: float, found: Found) -> Tuning:
        """The record of the search."""
        loss = next(t.best_loss for t in reversed(self.trials) if t.size == found.size)
        seconds = time.perf_counter() - self.began
        return Tuning(tuple(self.trials), width, found.size, found.C, loss, seconds)
