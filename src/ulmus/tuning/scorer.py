"""Scoring every C of a feature map on rows the model did not see: leave-one-out, or k folds from statistics."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import FeatureMap, Precomputed, Rows
from ulmus.features.kernels import KERNELS, KernelParameters, dense, gram_matrix
from ulmus.features.nystrom import NystromMap
from ulmus.features.sampling import row_keys
from ulmus.solvers.factored_path import FactoredPath
from ulmus.solvers.nystrom_ridge import summed_form
from ulmus.solvers.path import MANY, ExactPath, RidgePath, Spectrum
from ulmus.solvers.round_off import FEWEST
from ulmus.statistics import Statistics, Summary
from ulmus.tuning.surface import C_LIMITS, FLAT, Surface, Trial

__all__ = ["C_LIMITS", "FLAT", "GCV", "Scorer", "Summary", "Trial"]

#: Losses that differ by less than this share are equal.
ROUND_OFF = 1e-9
#: Share of the rows, at either end, whose differences between two models are not believed.
TAIL = 1e-3
#: Bytes of features that are kept while every C of a model is scored.
PRECOMPUTED_BYTES = 2**27
#: Features above which a few C are scored by factors, and scored rows a feature up to which that is less work.
VERY_MANY, SCORED_EACH = 512, 8
#: How many C are a few.
FEW_C = 3
#: Rows a feature from which on whitening the sums is less work than whitening the rows.
MANY_ROWS = 4
#: The criterion that needs no row a second time.
GCV = "gcv"

StatisticsOf = Callable[[Any, Rows], Statistics]


def _drawn_in(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Values with the outermost ones, a share of :data:`TAIL` at either end, replaced by the next."""
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    ends = np.searchsorted(mass, mass[-1] * np.array([TAIL, 1 - TAIL]))
    return np.clip(values, *values[order][ends])


@dataclass(frozen=True)
class Scorer:
    """Rows, how they are divided, which of them are scored (with which weights), and what counts as loss.

    With a ``whitening`` rows are raw kernel values, and sums those of whitened ones, or ``raw`` too. A ``rough`` scorer
    takes leverages in single precision more often: it compares, and nothing is calibrated by it. No log2 C above
    ``most`` is tried: the sums have no digits for it.
    """

    rows: Rows
    coding: Coding
    statistics_of: StatisticsOf
    fit_intercept: bool
    criterion: str = "auto"
    folds: np.ndarray | None = None
    scored: np.ndarray | None = None
    mass: np.ndarray | None = None
    n_jobs: int | None = -1
    whitening: np.ndarray | None = None
    rough: bool = False
    most: float = np.inf
    raw: bool = False

    def summarise(self, features: FeatureMap) -> Summary:
        """Statistics of the rows, and of each fold."""
        return Summary.of(partial(self.statistics_of, features), self.rows, self.folds)

    def precomputed(
        self, features: FeatureMap, *, raw: bool = False, stay: bool = False
    ) -> tuple["Scorer", FeatureMap]:
        """The same scorer with the features themselves as rows, where most rows are scored and memory allows.

        Otherwise features are evaluated once for the sums and once more for the scored rows. With ``raw`` no row is
        whitened, where that costs few digits; of very many features sums ``stay`` so too, where nobody else wants them.
        """
        n, D = len(self.rows), features.n_features_out
        if n * D * 8 > PRECOMPUTED_BYTES or 2 * len(self.scored_rows) < n:
            return self, features
        raw = raw or (D <= MANY and n > MANY_ROWS * D)  # of more features, white rows are rotated in single precision
        stay = stay and n >= FEWEST and self.by_factors(D)  # fewer rows may be passed through: every digit counts
        summed, R = summed_form(features) if (raw or stay) and isinstance(features, NystromMap) else (features, None)
        Phi = engine.transform(summed, self.rows.X, n_jobs=self.n_jobs)

        def sums(features: FeatureMap, rows: Rows) -> Statistics:
            stats = engine.gram_statistics(features, rows, n_jobs=self.n_jobs)
            return stats if R is None or stay else stats.whitened(R)

        rows, stay = replace(self.rows, X=Phi), stay and R is not None
        return replace(self, rows=rows, statistics_of=sums, whitening=R, raw=stay), Precomputed(D)

    def white(self, stats: Statistics) -> Statistics:
        """Sums of whitened features of these, of which there may be fewer."""
        R = self.whitening
        return stats if R is None or not self.raw else stats.whitened(_corner(R, stats.n_features), self.n_jobs)

    def kept(self, features: FeatureMap) -> tuple["Scorer", FeatureMap]:
        """The same scorer of the scored rows alone, with their features kept, where memory allows."""
        index, D = self.scored_rows, features.n_features_out
        if isinstance(features, Precomputed) or len(index) * D * 8 > PRECOMPUTED_BYTES:
            return self, features
        rows = self.rows.take(index)
        Phi = engine.transform(features, rows.X, n_jobs=self.n_jobs)
        return replace(self, rows=replace(rows, X=Phi), scored=None, mass=self.scored_weight), Precomputed(D)

    def trial(
        self,
        stage: str,
        width: float,
        features: FeatureMap,
        summary: Summary,
        log2_C: np.ndarray,
        size: int | None = None,
    ) -> Trial:
        """Losses of the model that uses the first ``size`` features, for every C of the grid and beyond its ends."""
        sizes = [features.n_features_out if size is None else size]
        return self.trials(stage, width, features, summary, log2_C, sizes)[0]

    def trials(
        self, stage: str, width: float, features: FeatureMap, summary: Summary, log2_C: np.ndarray, sizes: list[int]
    ) -> list[Trial]:
        """Losses of the models of these ``sizes`` (their first features), for every C, from one pass over the rows."""
        began = time.perf_counter()
        few = len(log2_C) <= FEW_C and self.by_factors(max(sizes))
        paths = self._factored if few else self._paths
        surfaces = [Surface(paths(summary, size), size, sparing=few, most=self.most) for size in sizes]
        weight = self.scored_weight
        while any(len(s.wanted(log2_C)) for s in surfaces):
            asked = [(s, s.wanted(log2_C)) for s in surfaces]
            for (surface, more), losses in zip(asked, self._row_losses(asked, features), strict=True):
                surface.add(more, losses, weight)
        seconds = (time.perf_counter() - began) / len(sizes)
        return [
            Trial(stage, width, s.size, len(self.rows), 2.0**s.grid, s.loss, s.row_losses[s.best], seconds)
            for s in surfaces
        ]

    def exact(self, stage: str, width: float, path: ExactPath, log2_C: np.ndarray) -> Trial:
        """Losses of the model whose landmarks are all the rows, for a few C and those beside the best."""
        began = time.perf_counter()
        surface = Surface([path], len(self.rows), sparing=True, most=path.most)
        while len(more := surface.wanted(log2_C)):
            P = path.left_out(2.0**more)
            losses = self.coding.losses(self.rows.T, np.nan_to_num(P), self.criterion)
            losses[np.isnan(P).any(axis=(1, 2))] = np.inf
            surface.add(more, losses, self.scored_weight)
        s, seconds = surface, time.perf_counter() - began
        return Trial(stage, width, s.size, len(self.rows), 2.0**s.grid, s.loss, s.row_losses[s.best], seconds)

    def exact_path(self, features: Any) -> ExactPath | None:
        """That of a Nyström map, fitted or not, whose landmarks are all the rows; None where it is none, or would not
        be scored so.
        """
        rows = self.rows
        if not (isinstance(features, NystromMap) and self.by_factors(len(rows)) and self.scored is None):
            return None
        kernel, drawn = features.kernel, features.landmarks
        plain = isinstance(kernel, str) and KERNELS[kernel].positive_definite and features.rank is None
        every = isinstance(drawn, str) and drawn in ("uniform", "all") and features.n_landmarks >= len(rows)
        if not (plain and every) or len(np.unique(row_keys(rows.X, 0))) < len(rows):
            return None
        parameters = KernelParameters(features.gamma, features.degree, features.coef0)
        K = gram_matrix(kernel, dense(rows.X, np.float64), parameters)
        return ExactPath(K, rows, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs)

    @property
    def scored_rows(self) -> np.ndarray:
        if self.criterion == GCV:
            return np.empty(0, int)
        if self.scored is not None:
            return self.scored
        return np.arange(len(self.rows)) if self.folds is None else np.flatnonzero(self.folds >= 0)

    @property
    def scored_weight(self) -> np.ndarray:
        if self.criterion == GCV:
            return np.ones(1)
        if self.mass is not None:
            return self.mass
        weight = self.rows.weight
        return np.ones(len(self.scored_rows)) if weight is None else weight[self.scored_rows]

    @property
    def constant_loss(self) -> float:
        """The loss of the mean target."""
        criterion = "squared" if self.criterion == GCV else self.criterion
        P = np.broadcast_to(np.average(self.rows.T, axis=0, weights=self.rows.weight), self.rows.T.shape)
        return float(np.average(self.coding.losses(self.rows.T, P, criterion), weights=self.rows.weight))

    def gain(self, old: Trial, new: Trial) -> tuple[float, float]:
        """How much lower the new model's loss is, and the standard error of that, from the differences row by row.

        Differences beyond the outermost :data:`TAIL` are drawn in: no handful of rows decides.
        """
        weight = self.scored_weight
        difference = _drawn_in(old.row_losses - new.row_losses, weight)
        gain = np.average(difference, weights=weight)
        deviation = np.sqrt(np.average((difference - gain) ** 2, weights=weight))
        return float(gain), float(deviation / np.sqrt(weight.sum()))

    def gains(self, old: Trial, new: Trial, errors: float = 1.0, share: float = np.inf) -> bool:
        """Whether the new model's loss is lower by more than this many standard errors of the paired differences.

        A fall by more than ``share`` of the loss counts in any case: errors with heavy tails have a large deviation.
        One that is round-off never does, however sure it looks: models that are the same differ by their last digits.
        """
        gain, error = self.gain(old, new)
        if self.criterion == GCV:  # one number for all rows: its error is not known
            return gain > (share if np.isfinite(share) else FLAT) * old.best_loss
        return gain > max(min(errors * error, share * old.best_loss), ROUND_OFF * old.best_loss)

    def by_factors(self, size: int) -> bool:
        """Whether a few C of this many features are scored by factors."""
        leave_one_out = self.folds is None and self.criterion != GCV and (self.raw or self.whitening is None)
        return leave_one_out and size > VERY_MANY and len(self.scored_rows) <= SCORED_EACH * size

    def _factored(self, summary: Summary, size: int) -> list[Any]:
        how: dict[str, Any] = {"fit_intercept": self.fit_intercept, "n_jobs": self.n_jobs}
        R = None if self.whitening is None else _corner(self.whitening, size)
        return [FactoredPath(summary.total.prefix(size), whitening=R, **how)]

    def _paths(self, summary: Summary, size: int) -> list[Any]:
        trained = [summary.total - part for part in summary.folds] or [summary.total]
        R = None if self.whitening is None else _corner(self.whitening, size)
        how: dict[str, Any] = {"fit_intercept": self.fit_intercept, "whitening": R, "rough": self.rough}
        return [RidgePath(self.white(s.prefix(size)), **how) for s in trained]

    def _row_losses(self, asked: list[tuple[Surface, np.ndarray]], features: FeatureMap) -> list[np.ndarray]:
        """Losses ``[C, scored row]`` of every surface at the log2 C asked of it; by GCV one loss for all rows."""
        if self.criterion == GCV:
            return [self._gcv(s.paths[0], 2.0**more) for s, more in asked]
        if any(s.sparing for s, _ in asked):
            rows = [_ScoredRows(self, features, s.size) for s, _ in asked]
            return [self._factored_losses(s.paths[0], 2.0**more, r) for (s, more), r in zip(asked, rows, strict=True)]
        asked_for = [(self._held_out(s.paths, 2.0**more), s.size, len(more)) for s, more in asked]
        index = self.scored_rows
        out = [np.empty((count, len(index))) for _, _, count in asked_for]
        width = max(features.n_features_out, max(count for *_, count in asked_for) * self.rows.T.shape[1])

        def work(piece: slice, Phi: np.ndarray, rows: Rows) -> None:
            for losses, (predict, size, count) in zip(out, asked_for, strict=True):
                if count:
                    P = predict(np.ascontiguousarray(Phi[:, :size]), rows, index[piece])
                    losses[:, piece] = self.coding.losses(rows.T, P, self.criterion)

        self.each(features, width, work)
        return out

    def each(self, features: FeatureMap, width: int, work: Callable[[slice, np.ndarray, Rows], None]) -> None:
        """Call with pieces of the scored rows, which they are, their features, and the rows; on threads."""
        index, workspace = self.scored_rows, engine.Workspace()
        every = len(index) == len(self.rows) and self.scored is None  # in their order: nothing has to be gathered

        def of_piece(piece: slice) -> None:
            rows = self.rows.take(piece if every else index[piece])
            Phi = rows.X
            if not isinstance(features, Precomputed):
                Phi = workspace.array("features", (len(rows), features.n_features_out), np.float64)
                features.transform_block(rows.X, Phi)
            work(piece, Phi, rows)

        pieces = engine.shares(len(index), engine.BLOCK_BYTES // (16 * width))
        engine.on_threads(of_piece, pieces, self.n_jobs)

    def _factored_losses(self, path: FactoredPath, C: np.ndarray, rows: "_ScoredRows") -> np.ndarray:
        if not len(C):
            return np.empty((0, len(rows)))
        P, T = path.left_out(C, rows), self.rows.T[self.scored_rows]
        return self.coding.losses(T, P, self.criterion)

    def _gcv(self, path: Spectrum, C: np.ndarray) -> np.ndarray:
        """GCV of every C; infinite where it is not to be trusted, as the model spends more than half of the rows."""
        spent = path.degrees_of_freedom(C) / path.total
        score = np.where(spent <= max(0.5, spent.min(initial=1.0)), path.gcv(C).T, np.inf).T
        error = np.sqrt(score)[:, None, :]
        return self.coding.losses(np.zeros(error.shape[1:]), error, "squared")

    def _held_out(self, paths: list[RidgePath], C: np.ndarray) -> Callable[[np.ndarray, Rows, np.ndarray], np.ndarray]:
        """Predictions ``[C, row, output]`` of rows by models that did not see them."""
        if self.folds is None:
            leave_one_out = paths[0].leave_one_out(C, self.rows.unit)
            return lambda Phi, rows, _: leave_one_out(Phi, rows.T, rows.unit)[0]
        weights = [path.row_weights(C) for path in paths]
        folds = self.folds

        def predict(Phi: np.ndarray, rows: Rows, index: np.ndarray) -> np.ndarray:
            P = np.empty((len(C), *rows.T.shape))
            for k in np.unique(folds[index]):
                beta, intercept = weights[k]
                tested = folds[index] == k
                P[:, tested] = np.tensordot(Phi[tested], beta, axes=1).transpose(1, 0, 2) + intercept[:, None]
            return P

        return predict


def _corner(R: np.ndarray, size: int) -> np.ndarray:
    return R[:size, :size]


@dataclass(frozen=True)
class _ScoredRows:
    """The scored rows with the first ``size`` of their features."""

    scorer: Scorer
    features: FeatureMap
    size: int

    def __len__(self) -> int:
        return len(self.scorer.scored_rows)

    @property
    def unit(self) -> np.ndarray | None:
        unit = self.scorer.rows.unit
        return None if unit is None else unit[self.scorer.scored_rows]

    def each(self, work: Callable[[slice, np.ndarray, Rows], None]) -> None:
        D = self.features.n_features_out
        self.scorer.each(self.features, D, lambda piece, Phi, rows: work(piece, Phi[:, : self.size], rows))

    def some(self, places: np.ndarray) -> np.ndarray:
        X = self.scorer.rows.X[self.scorer.scored_rows[places]]
        if isinstance(self.features, Precomputed):
            return np.asarray(X)[:, : self.size]
        Phi = engine.transform_rows(self.features, X)
        return Phi[:, : self.size]
