r"""Choosing the local stage: its width and penalty, and whether it pays at all.

Leaves are fitted to what a global model leaves over, so they are scored on rows that the global model never saw: on its
own rows the remainder looks like noise where it is not.

Width and penalty hardly depend on the size of the leaves, the cost of scoring them does: they are sought on leaves of
half the size, and only what was found is scored on leaves of full size, beside no local stage at all, where the small
ones gained anything.

A *stage* says what a leaf fits and what counts as loss: squares, or the log loss with the global scores as offset.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.features.partition import Partition
from ulmus.solvers.local import COMPARED_REACH, LARGE, precision_of, solve_leaf, symmetric
from ulmus.solvers.log_kernel import fit_kernel_softmax
from ulmus.tuning.log_path import criterion_of
from ulmus.tuning.surface import climb

#: Penalties, from weak to strong.
RIDGES = 10.0 ** np.arange(-4.0, 2.01, 0.5)
#: Widths of the local kernel, in units of the global one.
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Where the climb starts: the place of a width, and of penalties far apart, as there may be two valleys.
FIRST_WIDTH, FIRST_RIDGES = 2, (1, 4, 7, 10)
#: A width is left for its neighbour only when that is better by this share.
CLEAR = 0.002
#: The stage is left out when one partition gains less than this share of the loss; the mean of several gains more.
GAIN = 0.005
#: The same for the log loss: widths, penalties, where the climb starts, and the share.
LOG_WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
LOG_RIDGES = 10.0 ** np.arange(-2.0, 1.01, 0.5)
LOG_FIRST_WIDTH, LOG_FIRST_RIDGES, LOG_GAIN = 3, (2, 4, 6), 0.01
#: Other widths are not tried where the first one wants one of so many penalties that leave hardly anything of a leaf,
#: and gains less than this part of the share that it takes.
STRONGEST, FAINT = 2, 0.2
#: Large leaves are tried where the loss of small ones is below this share of that without them: of squares they gain
#: little more, by log loss they may gain where small ones do not.
HOPE, LOG_HOPE = 0.995, 1.01
#: What may be left of a leaf's log loss while stages are compared.
LOG_TOLERANCE = 5e-3
#: Bytes of distances, in single precision, that are kept while widths are sought.
KEPT_BYTES = 2**28


@dataclass(frozen=True)
class Remainder:
    """Rows to learn from and held-out rows to be scored on: coordinates, what is left to explain, weights.

    For the log loss what is left to explain are the codes themselves, beside the ``offset``, the global scores.
    """

    U: np.ndarray
    R: np.ndarray
    weight: np.ndarray | None
    U_held: np.ndarray
    T_held: np.ndarray
    P_held: np.ndarray
    weight_held: np.ndarray | None
    offset: np.ndarray | None = None


@dataclass(frozen=True)
class Stage:
    """What a leaf fits: where its width and penalty are sought, weights of its rows, and the loss of predictions.

    ``solve`` may overwrite the kernel matrix of the leaf; ``tolerance`` is what it may leave of a log loss, None for
    squares.
    """

    widths: tuple[float, ...]
    ridges: np.ndarray
    first_width: int
    first_ridges: tuple[int, ...]
    gain: float
    hope: float
    solve: Callable[[np.ndarray, Remainder, np.ndarray, float], np.ndarray]
    loss: Callable[[Coding, str, np.ndarray, np.ndarray, np.ndarray | None], float]
    tolerance: float | None = None


def _solve_squares(K: np.ndarray, data: Remainder, rows: np.ndarray, ridge: float) -> np.ndarray:
    return solve_leaf(K, data.R[rows], None if data.weight is None else data.weight[rows], ridge)


def _mean_loss(coding: Coding, criterion: str, T: np.ndarray, P: np.ndarray, weight: np.ndarray | None) -> float:
    return float(np.average(coding.losses(T, P, criterion), weights=weight))


def _solve_log(K: np.ndarray, data: Remainder, rows: np.ndarray, ridge: float) -> np.ndarray:
    assert data.offset is not None
    weight = None if data.weight is None else data.weight[rows]
    found = fit_kernel_softmax(K, data.R[rows], 1.0 / ridge, weight=weight, offset=data.offset[rows], tol=LOG_TOLERANCE)
    return found.alpha


def _log_criterion(coding: Coding, criterion: str, T: np.ndarray, P: np.ndarray, weight: np.ndarray | None) -> float:
    return criterion_of(criterion, T, P, weight)


SQUARES = Stage(WIDTHS, RIDGES, FIRST_WIDTH, FIRST_RIDGES, GAIN, HOPE, _solve_squares, _mean_loss)
LOG = Stage(
    *(LOG_WIDTHS, LOG_RIDGES, LOG_FIRST_WIDTH, LOG_FIRST_RIDGES, LOG_GAIN, LOG_HOPE, _solve_log, _log_criterion),
    LOG_TOLERANCE,
)


@dataclass(frozen=True)
class LocalChoice:
    """The chosen stage, its loss and the loss without it on the same rows, and the predictions of those rows."""

    width: float
    ridge: float
    loss: float
    loss_without: float
    rows: np.ndarray
    P: np.ndarray
    gain: float = GAIN

    @property
    def pays(self) -> bool:
        return self.loss < (1 - self.gain) * self.loss_without

    def pooled(self, others: Sequence["LocalChoice"], weights: Sequence[float]) -> "LocalChoice":
        """The same stage with the mean loss over several sets of held-out rows, of these weights; rows stay."""
        every = (self, *others)
        loss, without = (
            float(np.average([getattr(one, name) for one in every], weights=weights))
            for name in ("loss", "loss_without")
        )
        return replace(self, loss=loss, loss_without=without)


@dataclass(frozen=True)
class LocalSearch:
    """Scores (width, ridge) on some leaves of a partition; ``trials`` does so elsewhere (``ulmus.devices.trials``)."""

    kernel: str
    gamma: float
    data: Remainder
    coding: Coding
    criterion: str = "auto"
    n_jobs: int | None = -1
    stage: Stage = SQUARES
    trials: Callable[..., np.ndarray] | None = None

    def leaves(self, partition: Partition, n_leaves: int, like: "_Leaves | None" = None) -> "_Leaves":
        """The leaves of a partition that are asked; ``like`` are those of another search in the same coordinates."""
        return _Leaves(self, partition, n_leaves, like)

    def on_full_leaves(
        self, leaves: "_Leaves", found: tuple[int, int], partition: Partition, n_leaves: int
    ) -> LocalChoice:
        """The width and penalty found on smaller leaves, scored on those of full size."""
        one_set = LeavesOfSets([leaves])
        one_set.score(found[0], [found[1]])
        return one_set.at_full_size(found, lambda: LeavesOfSets([_Leaves(self, partition, n_leaves)]))[0]

    def scored(self, choice: LocalChoice, partition: Partition, n_leaves: int) -> LocalChoice:
        """A stage that was chosen on other rows, scored on these."""
        leaves = _Leaves(self, partition, n_leaves)
        width = self.stage.widths.index(choice.width)
        ridge = int(np.argmin(np.abs(self.stage.ridges - choice.ridge)))
        leaves.score(width, [ridge])
        loss, P = leaves.tried[width, ridge]
        return replace(choice, loss=loss, loss_without=leaves.without, rows=leaves.rows, P=P)

    def loss(self, P: np.ndarray, rows: np.ndarray) -> float:
        """The mean loss of these predictions of some held-out rows."""
        weight = None if self.data.weight_held is None else self.data.weight_held[rows]
        return self.stage.loss(self.coding, self.criterion, self.data.T_held[rows], P, weight)


class _Leaves:
    """The leaves of one partition in which most held-out rows lie, and what was tried on them."""

    stage = SQUARES

    def __init__(self, search: LocalSearch, partition: Partition, n_leaves: int, like: "_Leaves | None" = None) -> None:
        self.search, self.partition, self.stage = search, partition, search.stage
        found = partition.leaves(search.data.U_held)
        counts = np.bincount(found, minlength=partition.n_leaves)
        asked = np.sort(np.argsort(-counts, kind="stable")[:n_leaves])
        self.tasks = [(leaf, np.flatnonzero(found == leaf)) for leaf in asked if counts[leaf]]
        self.rows = np.concatenate([rows for _, rows in self.tasks])
        self.without = search.loss(search.data.P_held[self.rows], self.rows)
        self.tried: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
        self.base = KernelParameters(search.gamma)
        size = sum(len(partition.rows(leaf)) * (len(partition.rows(leaf)) + len(held)) for leaf, held in self.tasks)
        self._keeps = 4 * size <= KEPT_BYTES
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {} if like is None else like._kept

    def _type(self, task: int) -> Any:
        """The type of kernel values: single in large leaves, which compare well enough by it."""
        return np.float32 if len(self.partition.rows(self.tasks[task][0])) >= LARGE else np.float64

    def _distances(self, task: int) -> tuple[np.ndarray, np.ndarray]:
        """Between the rows of a leaf, and from held-out ones to them: the same for every width."""
        if task in self._kept:
            return self._kept[task]
        (leaf, held), data = self.tasks[task], self.search.data
        U = data.U[self.partition.rows(leaf)]
        cross = CrossKernel(self.search.kernel, U, self.base)
        dtype, aside = self._type(task), np.empty((len(held), len(U)))
        cross.arguments(data.U_held[held], aside)
        found = symmetric(cross.arguments, U, np.empty((len(U), len(U)), dtype)), aside.astype(dtype, copy=False)
        if self._keeps:
            self._kept[task] = found
        return found

    def climb(self, start: tuple[int, int] | None = None) -> tuple[int, int]:
        """Places of the best width and of its best penalty."""
        width, ridges = self.stage.first_width, self.stage.first_ridges
        if start is not None:
            width, ridges = start[0], (start[1],)
        self.score(width, list(ridges))
        losses = [self.tried[width, step][0] for step in ridges]
        ridge = ridges[int(np.argmin(losses))]
        if len(ridges) > 1 and min(losses) >= self.without:
            if losses == sorted(losses, reverse=True):
                return width, ridge  # even a strong penalty turns nothing to the better
            ridge = ridges[int(np.argmin(losses[:-1]))]  # weaker ones have a valley of their own
        found = {width: self._climb_ridge(width, ridge)}
        if start is None and self._faint(width, found[width]):
            return width, found[width]  # another width would not make it enough

        def better(here: int) -> int:
            for near in (here + 1, here - 1):  # what is better to one side is not sought on the other
                if near in range(len(self.stage.widths)) and near not in found:
                    found[near] = self._climb_ridge(near, found[here])
                    if self.tried[near, found[near]][0] < (1 - CLEAR) * self.tried[here, found[here]][0]:
                        return near
            return here

        width = climb(better, width)
        return width, found[width]

    def _faint(self, width: int, ridge: int) -> bool:
        """Whether a strong penalty is the best, and gains next to nothing."""
        strong = ridge >= len(self.stage.ridges) - STRONGEST
        return strong and self.tried[width, ridge][0] > (1 - FAINT * self.stage.gain) * self.without

    def _climb_ridge(self, width: int, here: int) -> int:
        def better(here: int) -> int:
            steps = self.ridges(here - 1, here, here + 1)
            self.score(width, steps)
            return min(steps, key=lambda step: self.tried[width, step][0])

        return climb(better, here)

    def choice(self, best: tuple[int, int]) -> LocalChoice:
        """The stage of this width and penalty, as these leaves score it."""
        (width, ridge), (loss, P), stage = best, self.tried[best], self.stage
        return LocalChoice(
            stage.widths[width], float(stage.ridges[ridge]), loss, self.without, self.rows, P, stage.gain
        )

    def ridges(self, *steps: int) -> list[int]:
        """Those that are places of penalties."""
        return [step for step in steps if 0 <= step < len(self.stage.ridges)]

    def score(self, width: int, steps: list[int]) -> None:
        """Score several penalties at once: the kernels of a leaf are evaluated once."""
        new = [step for step in steps if (width, step) not in self.tried]
        if not new:
            return
        found = self._here(width, new) if self.search.trials is None else self._there(width, new, self.search.trials)
        for step, P in zip(new, found, strict=True):
            self.tried[width, step] = self.search.loss(P, self.rows), P

    def _there(self, width: int, steps: list[int], trials: Callable[..., np.ndarray]) -> np.ndarray:
        """Predictions ``[penalty, row, output]``, made where another backend works."""
        search, stage = self.search, self.stage
        ridges = [float(stage.ridges[step]) for step in steps]
        tasks = [(self.partition.rows(leaf), held) for leaf, held in self.tasks]
        gamma = stage.widths[width] * search.gamma
        return trials(search.kernel, gamma, ridges, search.data, tasks, stage.tolerance)

    def _here(self, width: int, new: list[int]) -> np.ndarray:
        """Predictions ``[penalty, row, output]``, by threads."""
        search, data = self.search, self.search.data
        out = np.empty((len(new), len(self.rows), data.R.shape[1]))
        starts = np.append(0, np.cumsum([len(rows) for _, rows in self.tasks]))
        workspace = engine.Workspace()

        def work(task: int) -> None:
            leaf, held = self.tasks[task]
            rows = self.partition.rows(leaf)
            K = workspace.array("K", (len(rows), len(rows)), self._type(task))
            K_held = workspace.array("held", (len(held), len(rows)), self._type(task))
            for distances, values in zip(self._distances(task), (K, K_held), strict=True):
                values[:] = distances
                KERNELS[search.kernel].values(values, self.base, self.stage.widths[width])
            for i, step in enumerate(new):
                ridge = float(self.stage.ridges[step])
                weight = None if data.weight is None else data.weight[rows]
                dtype = precision_of(len(K), ridge, weight, COMPARED_REACH)
                system = workspace.array("system", K.shape, dtype)
                system[:] = K
                alpha = self.stage.solve(system, data, rows, ridge)
                out[i, starts[task] : starts[task + 1]] = data.P_held[held] + K_held @ alpha.astype(K.dtype, copy=False)

        largest_first = sorted(range(len(self.tasks)), key=lambda task: -len(self.partition.rows(self.tasks[task][0])))
        for _ in engine.ordered_map(work, largest_first, search.n_jobs):
            pass
        return out


class LeavesOfSets(_Leaves):
    """Leaves without each of several sets of rows; losses are means over the rows of all sets."""

    def __init__(self, each: Sequence[_Leaves]) -> None:
        self.each, self.stage, self.tried = each, each[0].stage, {}
        self.without = self._mean([one.without for one in each])

    def _mean(self, losses: Sequence[float]) -> float:
        return float(np.average(losses, weights=[len(one.rows) for one in self.each]))

    def score(self, width: int, steps: list[int]) -> None:
        """Score several penalties on every set."""
        for one in self.each:
            one.score(width, steps)
        for step in steps:
            self.tried[width, step] = self._mean([one.tried[width, step][0] for one in self.each]), np.empty(0)

    def at_full_size(self, found: tuple[int, int], whole: "Callable[[], LeavesOfSets]") -> list[LocalChoice]:
        """What the width found on these leaves comes to on those of full size, with the better of two penalties."""
        leaves, (width, ridge) = self, found
        steps, loss = [ridge], self.tried[found][0]
        idle = ridge == len(self.stage.ridges) - 1 and loss >= self.without  # the least that leaves can do is too much
        if loss < self.stage.hope * self.without and not idle:  # otherwise large ones have nothing to hope for
            leaves = whole()
            steps = leaves.ridges(ridge - 1, ridge)
        leaves.score(width, steps)
        ridge = min(steps, key=lambda step: leaves.tried[width, step][0])
        return [one.choice((width, ridge)) for one in leaves.each]


def _leaves_of_sets(searches: Sequence[LocalSearch], partitions: Sequence[Partition], n_leaves: int) -> LeavesOfSets:
    """Leaves of a partition for every set of rows held out."""
    return LeavesOfSets([one.leaves(part, n_leaves) for one, part in zip(searches, partitions, strict=True)])


def chosen_by_all(
    searches: Sequence[LocalSearch], halves: Sequence[Partition], partitions: Sequence[Partition], n_leaves: int
) -> list[LocalChoice]:
    """One stage for several sets of rows held out, and what it comes to on each of them.

    Width and penalty are those that are best, over all sets, on leaves of half the size.
    """
    leaves = _leaves_of_sets(searches, halves, 2 * n_leaves)
    return leaves.at_full_size(leaves.climb(), lambda: _leaves_of_sets(searches, partitions, n_leaves))
