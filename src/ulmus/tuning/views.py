r"""Choosing how a kernel looks at a table: preparation, kernel, width and metric, by exact leave-one-out on a sample.

A *view* turns rows into the coordinates that the kernel sees, :math:`u = A\,\text{prepare}(x)`, and says which kernel
and which ``gamma`` to use on them.

1. The L1-Laplacian on every preparation, then Matérn-3/2 on the best of them, the width by climbing on a logarithmic
   scale (for other preparations only when the best at the heuristic width leaves it); and the L1-Laplacian so flat that
   it is an additive model. Where all of this is hardly better than a constant, but nearest neighbours have like
   targets, once more with more rows and landmarks: few of them see nothing of what varies fast.
2. The metric, for every kernel that may be the best: gradients of the last predictor, on a larger sample, give the next
   ``A`` (:mod:`ulmus.features.metric`).
3. Kernels are compared with their metrics, and with more landmarks: which one is better often turns with either. Few
   landmarks favour the smoother kernel, whose spectrum ends sooner, and the local stage will use every row. Where there
   are rows enough, they are compared on some from which no metric was learned; otherwise few landmarks do when half of
   them tell that the lead hardly hangs on their number. No more are tried where half are as good as all. For a log
   model (``by_log``) rougher ones than the chosen one get another chance, by the log loss of small log models on rows
   held out. Of very many rows that leaves tell more of than landmarks, the metric goes on from leaves, and they compare
   the kernels (:mod:`ulmus.tuning.leaf_metric`).
4. Cuts (:mod:`ulmus.features.cuts`) are added where they lower the loss of rows that did not teach them.
5. Where half of the landmarks are as good as all, and rows are not many more than were sampled, or where leaves tell a
   log model far more, it needs no more than half of the landmarks that it may have (``saturated``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.engine import Rows
from ulmus.features.cuts import Cuts
from ulmus.features.metric import through
from ulmus.features.preparation import Preparation
from ulmus.features.sampling import fewer, shuffled_sample
from ulmus.tuning.candidates import Candidate, ViewCandidates, hopeful
from ulmus.tuning.leaf_metric import SAMPLE_ROWS, CutRows, searched
from ulmus.tuning.metric import LOG2_C, Climb, MetricSearch, quietly
from ulmus.tuning.neighbours import told_by_neighbours
from ulmus.tuning.parts import apart, later_rows, parts_of
from ulmus.tuning.scorer import Trial
from ulmus.tuning.view_budget import Budget
from ulmus.tuning.view_log import lowest_by_log

#: The kernels that are tried; preparations are compared by the first.
KERNELS = ("laplacian_l1", "matern32")
#: Width, in units of the heuristic one, at which the L1-Laplacian is as good as 1 - gamma sum |x_j - z_j|: additive.
ADDITIVE = 2.0**-6
#: A view is tried further while its loss is below this many times the best: the additive one on few rows, and all of
#: them on rows that no metric knows.
HOPEFUL = 1.05
#: Another preparation is not climbed with where, at the width of the best, it loses so many times as much.
HOPELESS = 1.1
#: Plain standardisation must be better by this factor: outliers hurt it more on rows that were not sampled.
HANDICAP = {"standard": 1.05}
#: The smoother kernel is ahead for good when its lead is above this many times its standard error and what the last
#: doubling of the landmarks gained for the rougher one.
CHANCE, AHEAD = 3.0, 1.5
#: Cuts are taken where they lower the loss by this share, on at least twice so many rows that did not teach them, and
#: by this much: of rows that are all told apart there is nothing to gain.
CUTS_CLEAR, CUTS_ROWS, CUTS_LOSS = 0.02, 100, 1e-4
#: One half of the rows must show so much of this that the other may show the rest.
CUTS_HOPE = 0.99
#: Standard errors that this must be; and rounds of the metric that cuts get, and rows that teach them, at most.
CUTS_CHANCE, CUTS_ROUNDS, CUTS_TAUGHT = 2.0, 2, 200_000
#: Views that are better than a constant by less than this share have found nothing, and there is something to be found
#: where nearest neighbours tell so much of the targets' variance.
NOTHING, TOLD = 0.05, 0.2
#: Landmarks are too many when half of them lose less than this share more, or leaves less than this share of theirs.
WORTH, TOLD_BY_LEAVES = 0.005, 0.5
#: Steps of log2 C from that of few landmarks; more landmarks want a smaller one.
FINAL = np.arange(-4.0, 5.0)


@dataclass(frozen=True)
class View:
    """How a kernel looks at a table."""

    preparation: Preparation
    metric: np.ndarray
    kernel: str
    gamma: float

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of new rows."""
        return self.preparation.transform(X, self.metric)

    def transform_learned(self, rows: Rows, part: np.ndarray) -> np.ndarray:
        """Coordinates of the rows that the preparation has learned from."""
        return self.preparation.transform_learned(rows.X, rows.T, rows.weight, part, self.metric)


def _best(trials: dict[str, Trial]) -> str:
    """The preparation with the lowest loss."""
    return min(trials, key=lambda kind: HANDICAP.get(kind, 1.0) * trials[kind].best_loss)


def _enough(half: list[Trial], climbs: list[Climb]) -> bool:
    """Whether each of several views is as good with half of its landmarks: then more of them tell nothing new."""
    whole = [climb.best.best_loss for climb in climbs]
    return all(few.best_loss <= (1 + WORTH) * loss for few, loss in zip(half, whole, strict=True))


def _decided(half: list[Trial], climbs: list[Climb]) -> bool:
    """Whether the last view leads by more than chance, and more landmarks for the rougher ones, will take."""
    *others, smooth = (climb.best for climb in climbs)
    for rough, before in zip(others, half, strict=False):
        difference = rough.row_losses - smooth.row_losses
        chance = difference.std() / np.sqrt(len(difference))
        gained = max(before.best_loss - rough.best_loss, 0.0)
        if rough.best_loss - smooth.best_loss < CHANCE * chance + AHEAD * gained:
            return False
    return True


class ViewSearch:
    """The search for one table; every trial is kept in ``trials``, the C of the chosen view's in ``C``."""

    def __init__(
        self,
        rows: Rows,
        coding: Coding,
        categorical: np.ndarray,
        rng: np.random.RandomState,
        *,
        fit_intercept: bool,
        criterion: str = "auto",
        budget: Budget = Budget(),  # noqa: B008 (frozen)
        n_jobs: int | None = -1,
        by_log: bool = False,
        leaves_elsewhere: Callable[..., CutRows] | None = None,
        wary: bool = False,
    ) -> None:
        self.categorical, self.rng, self.n_jobs, self.budget, self.given = categorical, rng, n_jobs, budget, budget
        self.by_log, self.leaves_elsewhere, self.rows, self.drawn = by_log, leaves_elsewhere, rows, fewer(rows, rng)
        self.whole = Preparation.of("standard", rows.X, rows.T, rows.weight, categorical)
        self.search = MetricSearch(coding, int(rng.randint(2**31 - 1)), fit_intercept, criterion, wary=wary)
        self.saturated, self.noisy, self.C, self.trials = False, False, 1.0, list[Trial]()
        self._good_C: dict[tuple[str, float], float] = {}  # of views on few rows, by kernel and width

    def choose(self) -> View:
        """The view with the lowest leave-one-out loss."""
        # once, around the threads: filters of warnings are shared by all of them
        with quietly(), engine.threads_for(self.budget.metric_landmarks):
            views = self._plain()
            if self._missed() > 1 - NOTHING and self._neighbours_tell(views[0]):
                self.budget = self.given.wider
                views = self._plain()
            if not self._learns(views[0].metric):
                return views[0]
            chosen = self._with_metric(views)
            if self.noisy and self._missed() <= self.given.noise:  # it was no noise: a metric tells
                self.noisy, self.budget = False, replace(self.given, lean=None)
                chosen = self._with_metric(self._plain())
            return chosen

    def _of_leaves(self, views: list[View], climbs: list[Climb]) -> tuple[View, Climb] | None:
        """The view that is best in leaves, with their metric and a width; None where landmarks do better alone."""
        shown = self._posed(views[0].preparation.columns.kind, self._sample(SAMPLE_ROWS))[1]
        how = self.search.criterion, self.search.seed, self.n_jobs, self.leaves_elsewhere
        found = searched([(view.kernel, view.metric) for view in views], shown, self.search.coding, *how)
        best = min(range(len(views)), key=lambda k: min(found[k][1]))
        (A, losses), view, factor = found[best], views[best], climbs[best].factor
        some, known = shown[: self.budget.metric_rows], min(climb.best.best_loss for climb in climbs)
        if min(losses) > known and np.array_equal(A, view.metric):
            return None
        given = view.kernel, factor, self.budget.metric_landmarks, self.n_jobs
        climb = self.search.through(A).climb(replace(some, X=through(some.X, A)), *given)
        self.trials += climb.trials
        better = min(*losses, climb.best.best_loss) <= known  # leaves of a sample are coarse
        self.saturated = better and self.by_log and min(losses) < TOLD_BY_LEAVES * climb.best.best_loss
        return (replace(view, metric=A, gamma=climb.best.width), climb) if better else None

    def _missed(self) -> float:
        """The least that a trial misses, as a share of what a constant misses."""
        T, weight = self.rows.T, self.rows.weight
        constant = np.broadcast_to(np.average(T, axis=0, weights=weight), T.shape)
        loss = float(np.average(self.search.coding.losses(T, constant, self.search.criterion), weights=weight))
        least = min(trial.best_loss for trial in self.trials)
        return least / loss if loss > 0 else 0.0

    def _neighbours_tell(self, view: View) -> bool:
        """Whether rows side by side are alike, so that there is something to find: it varies too fast to be seen."""
        shown = self._posed(view.preparation.columns.kind, self._sample(self.budget.wider.rows))[1]
        return told_by_neighbours(shown.X, shown.T) > TOLD

    def _learns(self, metric: np.ndarray) -> bool:
        """Whether there is a metric to learn."""
        return self.budget.rounds > 0 and len(metric) > 1

    def _plain(self) -> list[View]:
        """The best preparation with every kernel that may be the best, the rougher first."""
        sample, kinds = self._sample(self.budget.rows), self.budget.preparations
        part = parts_of(sample, self.rng)
        prepared = {kind: self._prepare(kind, sample) for kind in kinds}
        posed = {
            kind: replace(sample, X=preparation.transform_learned(sample.X, sample.T, sample.weight, part))
            for kind, preparation in prepared.items()
        }
        climbs = self._climbs(posed)
        kind = _best({kind: climb.best for kind, climb in climbs.items()})
        rough, self.search = climbs[kind], replace(self.search, preparation=kind)
        smooth = self.search.climb(posed[kind], KERNELS[1], rough.factor, self.budget.landmarks, self.n_jobs)
        flat = self._flat(posed[kind])
        self.trials += [trial for found in (*climbs.values(), smooth) for trial in found.trials] + [flat]
        # where nothing is found it need not be noise: of what several columns only tell together, a metric sees more
        if self.budget.lean is not None and self.budget.noise < self._missed() <= 1 - NOTHING:
            self.noisy, self.budget = True, self.budget.lean
        metric, self.C = np.ones(posed[kind].X.shape[1]), rough.best.best_C
        best = (rough.best, smooth.best)
        views = [View(prepared[kind], metric, k, t.width) for k, t in zip(KERNELS, best, strict=True)]
        self._good_C = {(view.kernel, view.gamma): t.best_C for view, t in zip(views, best, strict=True)}
        if self.budget.kernels < len(KERNELS) or not self._learns(metric):
            views = [views[self._best_of(posed[kind], None, views, [rough, smooth], self.budget.landmarks)]]
        hopeful = flat.width < rough.best.width and flat.best_loss < HOPEFUL * min(t.best_loss for t in best)
        if self.budget.additive and hopeful:
            views.append(View(prepared[kind], metric, KERNELS[0], flat.width))
            self._good_C[KERNELS[0], flat.width] = flat.best_C
        return views

    def _climbs(self, posed: dict[str, Rows]) -> dict[str, Climb]:
        """The best width on every preparation; where the first one is the best, on the best of them alone."""
        kernel, landmarks, width = KERNELS[0], self.budget.landmarks, self.budget.first_width
        called = {kind: replace(self.search, preparation=kind) for kind in posed}

        def first(kind: str) -> Trial:
            gamma = width * self.search.unit(kernel, posed[kind])
            return called[kind].score(posed[kind], kernel, gamma, landmarks, LOG2_C, n_jobs=1).trial

        def climb(kind: str) -> Climb:
            given = posed[kind], kernel, leader.factor, landmarks, self.n_jobs, {width: begun[kind]}
            return called[kind].climb(*given, hopeless=HOPELESS * leader.best.best_loss)

        begun = dict(zip(posed, engine.ordered_map(first, posed, self.n_jobs), strict=True))
        best = _best(begun)
        leader = called[best].climb(posed[best], kernel, width, landmarks, self.n_jobs, {width: begun[best]})
        others = [kind for kind in posed if kind != best]
        if leader.factor == width:
            return {best: leader} | {kind: Climb((begun[kind],), begun[kind], width) for kind in others}
        return {best: leader} | dict(zip(others, engine.ordered_map(climb, others, self.n_jobs), strict=True))

    def _flat(self, rows: Rows) -> Trial:
        """The additive model of these rows."""
        gamma = ADDITIVE * self.search.unit(KERNELS[0], rows)
        trial = self.search.score(rows, KERNELS[0], gamma, self.budget.landmarks, LOG2_C, self.n_jobs).trial
        return replace(trial, kernel=f"{KERNELS[0]}, additive")

    def _sample(self, count: int) -> Rows:
        return shuffled_sample(self.drawn, count, self.rng)

    def _prepare(self, kind: str, rows: Rows, cuts: Cuts | None = None) -> Preparation:
        return Preparation.of(kind, rows.X, rows.T, rows.weight, self.categorical, self.whole, cuts)

    def _with_metric(self, views: list[View]) -> View:
        """The best view of a larger sample, when each has a metric of its own."""
        kind, most = views[0].preparation.columns.kind, self.budget.metric_rows
        drawn = self._sample(2 * most)
        known, others = apart(drawn, most)
        # the metrics know the rows from which they are learned
        enough = self.budget.fresh and len(drawn) >= 3 * most // 2 and len(others) > 0
        raw = known if enough else drawn[:most]
        preparation, shown = self._posed(kind, raw)
        fresh = self._posed(kind, others)[1] if enough else None
        asked = [Candidate(view.kernel, view.gamma, self._good_C[view.kernel, view.gamma]) for view in views]
        candidates = ViewCandidates(self.search, self.budget, asked, shown, self.n_jobs)
        found = candidates.sharpened()
        self.trials += candidates.trials
        sharp = [
            replace(views[k], preparation=preparation, metric=A, gamma=climb.best.width)
            for k, (A, climb) in found.items()
        ]
        climbs, landmarks = [climb for _, climb in found.values()], self.budget.metric_landmarks
        by_leaves = self._of_leaves(sharp, climbs) if self.budget.leaves and shown.fold is None else None
        if by_leaves is None:
            best = self._best_of(shown, fresh, sharp, climbs, landmarks)
            if self.by_log and best > 0:  # few landmarks favour the smoother one: it needs no help
                by_log = list(zip(sharp[: best + 1], (climb.best.best_C for climb in climbs), strict=False))
                best = lowest_by_log(shown if fresh is None else fresh, by_log, landmarks, self.rng, self.n_jobs)
        chosen, climb = by_leaves or (sharp[best], climbs[best])
        if self.budget.cuts and self._cuts_pay(raw, shown, chosen, climb):
            chosen, climb, shown = self._cut(raw, chosen, climb)
        self.C = climb.best.best_C
        if len(self.rows) <= 2 * most and climb.best.size > 1:
            half = self._trials(shown, [chosen], [climb], climb.best.size // 2)[0]
            self.saturated = half.best_loss <= (1 + WORTH) * climb.best.best_loss
        return chosen

    def _cuts_pay(self, raw: Rows, shown: Rows, view: View, near: Climb) -> bool:
        """Whether cuts lower the loss of rows that did not teach them, by more than chance; either half teaches once.

        ``shown`` are the ``raw`` rows as the view prepares them. Cuts are added to its metric, which may do without.
        """
        later = later_rows(raw, len(raw) // 2)
        if min(later.sum(), (~later).sum()) < CUTS_ROWS:
            return False
        losses = []
        for scored, teaching in ((later, raw.take(~later)), (~later, raw.take(later))):
            cuts = self.whole.learn_cuts(teaching.X, teaching.T, teaching.weight)
            if not view.metric[cuts.column].any():
                return False
            some, columns = shown.take(scored), self.whole.cut_columns(raw.X[scored], cuts)
            with_cuts = replace(some, X=np.concatenate([some.X, columns], axis=1))
            both = (some, view.metric), (with_cuts, np.append(view.metric, cuts.shares(view.metric)))
            losses.append([self._near(rows, A, view.kernel, near).row_losses for rows, A in both])
            if losses[0][1].mean() > CUTS_HOPE * losses[0][0].mean():
                return False
        without, cut = np.concatenate(losses, axis=1)
        gain = without - cut
        chance = CUTS_CHANCE * gain.std() / np.sqrt(len(gain))
        return bool(gain.mean() > max(CUTS_CLEAR * without.mean(), chance, CUTS_LOSS))

    def _near(self, rows: Rows, metric: np.ndarray, kernel: str, near: Climb) -> Trial:
        """A trial in a metric, at the width, relative to the heuristic one, and around the C of another."""
        seen = replace(rows, X=through(rows.X, metric))
        gamma, log2_C = near.factor * self.search.unit(kernel, seen), np.log2(near.best.best_C) + FINAL
        landmarks = min(self.budget.metric_landmarks, len(rows) // 2)
        by_squares = replace(self.search.through(metric), criterion="squared")  # which tell more than who is right
        trial = by_squares.score(seen, kernel, gamma, landmarks, log2_C, self.n_jobs).trial
        self.trials.append(replace(trial, stage="cuts"))
        return self.trials[-1]

    def _cut(self, raw: Rows, view: View, near: Climb) -> tuple[View, Climb, Rows]:
        """The view with cuts, which begin with shares of their column's weight; and the rows as it prepares them."""
        teaching = self.rows if len(self.rows) <= CUTS_TAUGHT else self._sample(CUTS_TAUGHT)
        cuts = self.whole.learn_cuts(teaching.X, teaching.T, teaching.weight)
        preparation, shown = self._posed(view.preparation.columns.kind, raw, cuts)
        first = len(preparation.numeric) + len(preparation.gaps.shown)
        A = np.insert(view.metric, [first] * len(cuts), cuts.shares(view.metric))
        given = (near.factor, self.budget.metric_landmarks, min(self.budget.rounds, CUTS_ROUNDS), self.n_jobs)
        seen = replace(shown, X=shown.X * A)
        more, climb = self.search.sharpest(seen, view.kernel, *given, near=near.best.best_C)
        self.trials += [replace(trial, stage="cuts") for trial in climb.trials]
        return replace(view, preparation=preparation, metric=A * more, gamma=climb.best.width), climb, shown

    def _posed(self, kind: str, rows: Rows, cuts: Cuts | None = None) -> tuple[Preparation, Rows]:
        """A preparation of these rows, and what it makes of them."""
        preparation, part = self._prepare(kind, rows, cuts), parts_of(rows, self.rng)
        return preparation, replace(rows, X=preparation.transform_learned(rows.X, rows.T, rows.weight, part))

    def _best_of(self, rows: Rows, fresh: Rows | None, views: list[View], climbs: list[Climb], landmarks: int) -> int:
        """Which of several views, the rougher first, is the best with as many landmarks as it takes to tell."""
        losses = [climb.best.best_loss for climb in climbs]
        best = int(np.argmin(losses))
        # rougher ones than the best have more landmarks to hope for, smoother ones that its metric knows these rows
        asked = hopeful(losses, HOPEFUL if fresh is not None else 0.0)
        views, climbs = [views[k] for k in asked], [climbs[k] for k in asked]
        if len(asked) == 1 or (fresh is None and landmarks >= len(rows)):
            return best
        half = self._trials(rows, views, climbs, max(min(climb.best.size for climb in climbs) // 2, 1))
        enough = _enough(half, climbs)
        if fresh is None and (enough or _decided(half, climbs)):
            return best
        known, unknown = self.budget.final_landmarks
        unknown = landmarks if enough else unknown
        trials = self._trials(*((rows, views, climbs, known) if fresh is None else (fresh, views, climbs, unknown)))
        return asked[int(np.argmin([trial.best_loss for trial in trials]))]

    def _trials(self, rows: Rows, views: list[View], climbs: list[Climb], landmarks: int) -> list[Trial]:
        """Trials of the views with this many landmarks."""
        count = min(landmarks, len(rows))

        def score(each: tuple[View, Climb]) -> Trial:
            view, climb = each
            seen = replace(rows, X=through(rows.X, view.metric))
            near = np.log2(climb.best.best_C) + FINAL
            return self.search.through(view.metric).score(seen, view.kernel, view.gamma, count, near, n_jobs=1).trial

        self.trials += (trials := list(engine.ordered_map(score, zip(views, climbs, strict=False), self.n_jobs)))
        return trials
