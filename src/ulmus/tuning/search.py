r"""The search: C innermost, then the width of the features, then their number.

Three parameters decide a model: the penalty C, the *width* of its features (``gamma`` of a kernel, ``slope`` of a
random layer) and their number, its *size*.

* **C**: one decomposition gives every C (:mod:`ulmus.tuning.scorer`).
* **width**: a climb on a logarithmic scale from a scale-aware start, on samples of the rows with fewer features, coarse
  first (:data:`LEVELS`).
* **size**: features nest, so one set of statistics gives every smaller model. The size doubles while the gains so far
  promise another 1 %; the smallest size within one standard error of the best (of paired differences, row by row), and
  1 %, is taken.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus._layout import html_table, text_table
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.sampling import distinct_sample
from ulmus.solvers.path import ExactPath
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.comparisons import TRIAL_HEADER, trial_rows
from ulmus.tuning.scorer import GCV, VERY_MANY, Scorer
from ulmus.tuning.surface import C_LIMITS, FLAT, Trial, climb

#: log2 of the C that are tried first; the scorer widens the grid while the best value sits at its end.
LOG2_C_GRID = np.arange(-10.0, 25.5, 1.0)
#: Levels of the climb: (rows, features, factor between neighbouring widths, rows for which that is enough, rows for
#: which it is unless the second half of the features lowered the loss by more than this share).
LEVELS = (
    (1_500, 100, 4.0, 0, 8_000, 0.05),
    (4_000, 250, 2.0, 8_000, 16_000, 0.15),
    (16_000, 500, 2.0, np.inf, np.inf, 1.0),
)
#: A model whose loss is above this share of a constant's has learned nothing yet.
BLIND = 0.9
#: (rows, features, factor between widths) with which to look whether there is anything to learn.
CLOSER = (4_000, 500, 4.0)
#: Widths tried at one level, at most.
MAX_CLIMB = 10
#: First size of the doubling sequence; its half and quarter are scored from the same statistics.
START_SIZE = 125
#: log2 C around a value that was good nearby: for a neighbouring width, for the next size, and for a very large one.
NEAR_WIDTH, NEAR_SIZE, NEAR_LARGE = np.arange(-4.0, 5.0, 2.0), np.arange(-3.0, 4.0), np.arange(-2.0, 3.0, 2.0)
#: Features up to which the whole range of C is looked at again.
MANY = 256
#: Powers of two by which the best C falls when the width doubles, about.
SHIFT = 1.5
#: The size grows while this much of the loss is still to be gained, by what the last doublings gained.
WORTH_GROWING = 0.01
#: A doubling gains at least this share of what the one before it gained.
DECAY = 0.25
#: A flatter kernel must lower the loss of a sample by this share: with more features, and more rows, sharper ones gain.
FLATTER = 0.005
#: A fall of the loss by this share of it counts, whatever its standard error.
SHARE = 0.01
#: Share of the rows that do not depend on others from which on an exact kernel is scored as such.
FULL_RANK = 0.9
#: Landmarks by which it shows whether C of an exact kernel needs more of them.
FEW_LANDMARKS = 500
#: Features that are tried even when there are fewer rows.
FEWEST = 64
#: Rows on which a full-size model is scored: a quarter of them, within these bounds; errors of regressors have no
#: bound, and a sample may miss or catch the few that weigh most.
SCORED_ROWS = {"bounded": (4_000, 20_000), "unbounded": (16_000, 20_000)}


@dataclass(frozen=True, repr=False)
class Tuning:
    """What was searched and what was chosen; it prints as a small table."""

    trials: tuple[Trial, ...]
    width: float
    size: int
    C: float
    loss: float
    seconds: float

    def surface(self) -> dict[str, np.ndarray]:
        """Every model that was scored, as columns: stage, width, size, C, loss."""
        rows = [(t.stage, t.width, t.size, C, loss) for t in self.trials for C, loss in zip(t.C, t.loss, strict=True)]
        names = ("stage", "width", "size", "C", "loss")
        return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}

    def __repr__(self) -> str:
        rows = trial_rows(self.trials, lambda t: t.stage != "width" and t.size == self.size)
        head = f"{len(self.trials)} models scored on rows they did not hold, in {self.seconds:.1f} s; * is the choice"
        return "\n".join([head, *text_table(rows, TRIAL_HEADER)])

    def _repr_html_(self) -> str:
        rows = trial_rows(self.trials, lambda t: t.stage != "width" and t.size == self.size)
        return html_table(rows, TRIAL_HEADER)


@dataclass
class Found:
    """The chosen model: its map (of an exact kernel none), size, C, and statistics where they were summed."""

    features: Any
    size: int
    C: float
    statistics: Statistics | None = None


@dataclass
class Tuner:
    """The search for one model; ``make_map(width, size)`` is an unfitted feature map."""

    scorer: Scorer
    make_map: Callable[[float, int], Any]
    rng: np.random.RandomState
    labels: Callable[[Rows], np.ndarray | None] = lambda rows: None
    log2_C: np.ndarray = field(default_factory=lambda: LOG2_C_GRID)
    verbose: bool = False
    trials: list[Trial] = field(default_factory=list)
    near: Trial | None = None
    start_size: int = START_SIZE
    #: Whether the model is that of all rows, of which no map is fitted.
    all_rows: bool = False

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        rows = self.scorer.rows
        self.n_rows = rows.effective_count
        bounded = getattr(self.scorer.coding, "bounded", True)
        self.scored_rows = SCORED_ROWS["bounded" if bounded else "unbounded"]
        count = int(np.clip(self.n_rows // 4, *self.scored_rows))
        if self.scorer.folds is None and count < self.n_rows and self.scorer.criterion != GCV:
            index, sample = distinct_sample(rows, count, self.rng)
            self.scorer = replace(self.scorer, scored=index, mass=sample.weight)

    def choose_width(self, start: float, size: int) -> float:
        """Climb to the best width, coarsely on few rows, then finer on more."""
        with engine.threads_for(1):
            return self._choose_width(start, size)

    def _choose_width(self, start: float, size: int) -> float:
        width = start
        for rows, features, factor, enough, mostly, starved in LEVELS:
            sample = self._sample(rows)
            most = max(FEWEST, int(sample.rows.effective_count))
            width = self._climb(width, factor, min(features, size, most), sample)
            if self._blind(sample, self.near):
                return self._look_closer(width, start, size)
            if self.n_rows <= enough or (self.n_rows <= mostly and not self._starved(sample, starved)):
                break
        return width

    @staticmethod
    def _blind(scorer: Scorer, trial: Trial | None) -> bool:
        """Whether a model is hardly better than a constant."""
        assert trial is not None
        return trial.best_loss > BLIND * scorer.constant_loss

    def _look_closer(self, width: float, start: float, size: int) -> float:
        """Noise, or too rough for few features? Larger widths with more of them tell; without news, the old width."""
        rows, features, step = CLOSER
        sample, before = self._sample(rows), self.near
        size = min(features, size, max(FEWEST, int(sample.rows.effective_count)))
        trials = []
        for k in range(4):
            self.near = None  # the C of a model that learned nothing says nothing
            trials.append(self._width_trial(start * step**k, size, sample))
        best = min(trials, key=lambda t: t.best_loss)
        self.near = before
        if self._blind(sample, best):
            return width
        self.near, self.start_size = best, size
        return self._climb(best.width, 2.0, size, sample)

    def _starved(self, scorer: Scorer, share: float) -> bool:
        """Whether the second half of the features gained so much that more of them may want another width."""
        whole = self.near
        assert whole is not None
        half = self._width_trial(whole.width, max(1, whole.size // 2), scorer)
        self.trials.pop()  # it was no candidate
        self.near = whole
        return scorer.gain(half, whole)[0] > share * half.best_loss

    def _climb(self, start: float, factor: float, size: int, scorer: Scorer) -> float:
        """Move to a neighbouring width while that gains more than half a standard error: smaller gains are noise.

        However sure, a gain below :data:`FLAT` is none: a polynomial or a ReLU of a given C sees only what the width
        adds to C, and its losses fall for ever, by ever smaller amounts, while the condition number grows.
        """
        trials: dict[int, Trial] = {}

        def trial_at(step: int) -> Trial:
            if step not in trials:
                trials[step] = self._width_trial(start * factor**step, size, scorer)
            return trials[step]

        def better(here: int) -> int:
            if len(trials) >= MAX_CLIMB:
                return here
            best = min((here, here + 1, here - 1), key=lambda step: trial_at(step).best_loss)
            old, new = trial_at(here), trial_at(best)
            if best == here or not scorer.gains(old, new, errors=0.5):
                return here
            enough = FLATTER if best < here and scorer is not self.scorer else FLAT
            return here if scorer.gain(old, new)[0] < enough * old.best_loss else best

        here = climb(better)
        # as good as the best, but for noise: more features, and more rows, make more of a larger width
        here = max(k for k in trials if k >= here and not scorer.gains(trials[k], trials[here], 0.5, SHARE))
        self.near = trials[here]
        return start * factor**here

    def _width_trial(self, width: float, size: int, scorer: Scorer) -> Trial:
        scorer, features = scorer.precomputed(self._fit(scorer, width, size))
        grid = self._grid(width, NEAR_WIDTH, 2)
        trial = self._record(scorer.trial("width", width, features, scorer.summarise(features), grid))
        self.near = trial
        return trial

    def _grid(self, width: float, steps: np.ndarray, stride: int) -> np.ndarray:
        """The whole grid of log2 C, or every few of it, or a few around what the last trial lets expect."""
        if len(self.log2_C) == 1 or self.near is None:
            return self.log2_C[::stride]
        expected = np.log2(self.near.best_C) - np.rint(SHIFT * np.log2(width / self.near.width))
        return np.clip(expected, C_LIMITS[0] - steps[0], C_LIMITS[1] - steps[-1]) + steps

    def choose_C(self, width: float, size: int) -> Found:
        """The best C for a given width and size."""
        with engine.threads_for(1):
            return self._choose_C(width, size)

    def _choose_C(self, width: float, size: int) -> Found:
        exact = self._exact_C(width, size) if self.all_rows and VERY_MANY < self.n_rows <= size else None
        if exact or (self.all_rows and (exact := self._few_enough(width, size))):
            return Found(None, exact.size, exact.best_C)
        fitted = self._fit(self.scorer, width, size)
        scorer, features = self.scorer.precomputed(fitted, stay=self.all_rows)
        summary = scorer.summarise(features)
        if self.near is not None and scorer.by_factors(features.n_features_out) and len(self.log2_C) > 1:
            scorer, features = scorer.kept(features)
            trial = scorer.trial("C", width, features, summary, self._grid(width, NEAR_LARGE, 1))
            trial = self._record(replace(trial, n_rows=len(self.scorer.rows)))
        else:
            trial = self._record(scorer.trial("C", width, features, summary, self.log2_C))
        return Found(fitted, trial.size, trial.best_C, None if self.all_rows else summary.total)

    def _few_enough(self, width: float, size: int) -> Trial | None:
        """The trial of few landmarks where more promise no gain: C is that of all rows, but of counted errors."""
        counted = getattr(self.scorer.coding, "bounded", True)
        if counted or self.near is None or len(self.log2_C) == 1 or size <= FEW_LANDMARKS:
            return None
        self._score_size(width, FEW_LANDMARKS, few := list[Trial]())
        return None if self._worth_growing(few) else few[-1]

    def _exact_C(self, width: float, size: int) -> Trial | None:
        """The trial of all rows, about the C that half of them choose; None where fewer landmarks say as much."""
        path = self.scorer.exact_path(self.make_map(width, size))
        if path is None:
            return None
        half = self._sample(int(self.n_rows) // 2)
        if self._fit(half, width, size).n_features_out < FULL_RANK * len(half.rows):
            return None
        self._exact("C", half, width, size)
        return self._exact("C", self.scorer, width, size, path)

    def choose_size(self, width: float, max_size: int) -> Found:
        """The smallest sufficient size and its C."""
        with engine.threads_for(1):
            return self._choose_size(width, max_size)

    def _choose_size(self, width: float, max_size: int) -> Found:
        scored: list[Trial] = []
        max_size = min(max_size, max(FEWEST, int(self.n_rows)))
        size = min(self.start_size, max_size)
        while True:
            fitted, summary = self._score_size(width, size, scored)
            if size >= max_size or fitted.n_features_out < size or not self._worth_growing(scored):
                break
            size = min(2 * size, max_size)
            if size == max_size and (every := self._exact("size", self.scorer, width, size)) is not None:
                scored.append(every)
                return self._with_all_rows(scored, fitted, summary, width)
        return self._sufficient(scored, fitted, summary)

    def _score_size(self, width: float, size: int, scored: list[Trial]) -> tuple[Any, Summary]:
        """Trials of so many features, and of half and a quarter where there were none; their map and its sums."""
        fitted = self._fit(self.scorer, width, size)
        sizes = [s for s in fitted.prefix_sizes() if not scored or s > scored[-1].size]
        scorer, features = self.scorer.precomputed(fitted)
        summary = scorer.summarise(features)
        if scorer.by_factors(features.n_features_out):
            self._by_factors(*scorer.kept(features), width, summary, sizes, scored)
        else:
            grid = self._grid(width, NEAR_SIZE, 1)
            if size <= MANY or not scored:  # larger ones would cost much, and have been seen to follow
                grid = np.union1d(grid, self.log2_C[::5])
            for trial in scorer.trials("size", width, features, summary, grid, sizes):
                scored.append(self._record(trial))
        self.near = scored[-1]
        return fitted, summary

    def _exact(
        self, stage: str, scorer: Scorer, width: float, size: int, path: ExactPath | None = None
    ) -> Trial | None:
        """The trial of all rows as landmarks, about the best C of the one before; None where that is no model."""
        if self.near is None or len(self.log2_C) == 1:
            return None
        path = scorer.exact_path(self.make_map(width, size)) if path is None else path
        if path is None or (grid := self._grid(width, NEAR_LARGE, 1)).max() > path.most:
            return None
        self.near = self._record(scorer.exact(stage, width, path, grid))
        return self.near

    def _with_all_rows(self, scored: list[Trial], features: Any, summary: Summary, width: float) -> Found:
        """The last trial, whose map is fitted if it is chosen, or one of those before it; their features and sums."""
        trial = scored[-1]
        if self._chosen(scored) is not trial:
            return self._sufficient(scored, features, summary)
        fitted = self._fit(self.scorer, width, trial.size)
        self.trials[-1] = replace(trial, size=fitted.n_features_out)  # without rows that depend on others
        return Found(fitted, fitted.n_features_out, trial.best_C)

    def _by_factors(
        self, scorer: Scorer, features: Any, width: float, summary: Summary, sizes: list[int], scored: list[Trial]
    ) -> None:
        """Trials of very many features: a few C about the best one of the size before."""
        for size in sizes:
            grid = self._grid(width, NEAR_LARGE, 1)
            trial = scorer.trial("size", width, features, summary, grid, size)
            self.near = self._record(replace(trial, n_rows=len(self.scorer.rows)))
            scored.append(self.near)

    def choose_prefix(self, width: float, features: Any, summary: Summary, sizes: list[int]) -> Found:
        """The smallest sufficient size of a fitted map, and its C, from sums of rows that need not be at hand.

        The scorer's own rows are scored: they are among those of the sums (or of the folds, by their numbers).
        """
        trials = self.scorer.trials("size", width, features, summary, self.log2_C, sizes)
        return self._sufficient([self._record(trial) for trial in trials], features, summary)

    def _chosen(self, scored: list[Trial]) -> Trial:
        """The smallest size that the best does not beat."""
        best = scored[0]
        for trial in scored[1:]:
            best = trial if self.scorer.gain(best, trial)[0] > 0 else best
        return next(t for t in scored if not self.scorer.gains(t, best, share=SHARE))

    def _sufficient(self, scored: list[Trial], features: Any, summary: Summary) -> Found:
        chosen = self._chosen(scored)
        return Found(features.prefix(chosen.size), chosen.size, chosen.best_C, summary.total.prefix(chosen.size))

    def _worth_growing(self, scored: list[Trial]) -> bool:
        """Whether twice the size would gain enough, by the gains of the last two doublings, which shrink."""
        if len(scored) < 3:
            return True
        quarter, half, whole = scored[-3:]
        first, second = self.scorer.gain(quarter, half)[0], self.scorer.gain(half, whole)[0]
        ratio = np.clip(second / first, DECAY, 1.0) if first > 0 else 1.0
        gain = max(second * ratio, (first + second) * DECAY**2 / (1 + DECAY))
        return bool(gain > WORTH_GROWING * whole.best_loss)

    def _fit(self, scorer: Scorer, width: float, size: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            return self.make_map(width, size).fit(scorer.rows.X, self.labels(scorer.rows), scorer.rows.weight)

    def _sample(self, count: int) -> Scorer:
        """The scorer of a sample of the rows."""
        if self.n_rows <= count:
            return self.scorer
        index, sample = distinct_sample(self.scorer.rows, count, self.rng)
        folds = None if self.scorer.folds is None else self.scorer.folds[index]
        scored = None if folds is not None or len(sample) <= self.scored_rows[0] else np.arange(self.scored_rows[0])
        return replace(self.scorer, rows=sample, folds=folds, scored=scored, mass=None)

    def _record(self, trial: Trial) -> Trial:
        self.trials.append(trial)
        if self.verbose:
            print(
                f"[{time.perf_counter() - self.began:6.1f} s] {trial.stage:>5}: width {trial.width:.3g}, "
                f"{trial.size} features, {trial.n_rows} rows: loss {trial.best_loss:.5g} at C = {trial.best_C:.3g}"
            )
        return trial

    def so_far(self, width: float) -> Tuning | None:
        """The record of a search that has come to a width alone; None where it has not begun."""
        near = self.near
        if near is None:
            return None
        seconds = time.perf_counter() - self.began
        return Tuning(tuple(self.trials), width, near.size, near.best_C, near.best_loss, seconds)

    def result(self, width: float, found: Found) -> Tuning:
        """The record of the search."""
        loss = next(t.best_loss for t in reversed(self.trials) if t.size == found.size)
        seconds = time.perf_counter() - self.began
        return Tuning(tuple(self.trials), width, found.size, found.C, loss, seconds)
