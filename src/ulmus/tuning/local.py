r"""Choosing the local stage: its width and penalty, and whether it pays at all.

Leaves are fitted to what a global model leaves over, so they are judged on rows that the global model never saw: on its
own rows the remainder looks like noise where it is not.
"""

from dataclasses import dataclass

import numpy as np

from ulmus import engine
from ulmus.codings import Coding
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.features.partition import Partition
from ulmus.solvers.local import leaf_kernel, solve_leaf

#: Penalties, from weak to strong.
RIDGES = 10.0 ** np.arange(-4.0, 2.01, 0.5)
#: Where the climb starts.
FIRST_RIDGE = 7
#: Widths of the local kernel, in units of the global one.
WIDTHS = (1.0, 2.0, 4.0)
#: The stage is left out when it gains less than this share of the loss.
GAIN = 0.01
#: Among penalties within this share of the best, the weakest is taken... or the strongest, when none is better.
NEAR = 0.01


@dataclass(frozen=True)
class Remainder:
    """Rows to learn from and held-out rows to be judged on: coordinates, what is left to explain, weights."""

    U: np.ndarray
    R: np.ndarray
    weight: np.ndarray | None
    U_held: np.ndarray
    T_held: np.ndarray
    P_held: np.ndarray
    weight_held: np.ndarray | None


@dataclass(frozen=True)
class LocalChoice:
    """The chosen stage, its loss and the loss without it on the same rows, and the predictions of those rows."""

    width: float
    ridge: float
    loss: float
    loss_without: float
    rows: np.ndarray
    P: np.ndarray

    @property
    def pays(self) -> bool:
        return self.loss < (1 - GAIN) * self.loss_without


class LocalSearch:
    """Judges (width, ridge) on some leaves of one partition."""

    def __init__(
        self,
        kernel: str,
        gamma: float,
        data: Remainder,
        partition: Partition,
        coding: Coding,
        *,
        n_leaves: int,
        criterion: str = "auto",
        n_jobs: int | None = -1,
    ) -> None:
        self.kernel, self.gamma, self.data, self.partition, self.n_jobs = kernel, gamma, data, partition, n_jobs
        self.coding, self.criterion = coding, criterion
        found = partition.leaves(data.U_held)
        counts = np.bincount(found, minlength=partition.n_leaves)
        asked = (
            np.argsort(-counts, kind="stable")[:n_leaves] if partition.n_leaves > n_leaves else np.arange(len(counts))
        )
        self.tasks = [(leaf, np.flatnonzero(found == leaf)) for leaf in asked if counts[leaf]]
        self.rows = np.concatenate([rows for _, rows in self.tasks])
        self.tried: dict[tuple[float, int], tuple[float, np.ndarray]] = {}

    def choose(self) -> LocalChoice:
        """The best width and the weakest penalty that is nearly best."""
        without = self._loss(self.data.P_held[self.rows])
        best = min(((width, self._climb(width)) for width in WIDTHS), key=lambda found: self.tried[found][0])
        loss, P = self.tried[best]
        return LocalChoice(best[0], float(RIDGES[best[1]]), loss, without, self.rows, P)

    def _climb(self, width: float) -> int:
        here = FIRST_RIDGE
        self._try(width, (here - 1, here, here + 1))
        while True:
            steps = [step for step in (here - 1, here, here + 1) if 0 <= step < len(RIDGES)]
            self._try(width, steps)
            best = min(steps, key=lambda step: self.tried[width, step][0])
            if best == here:
                return here
            here = best

    def _try(self, width: float, steps: "tuple[int, ...] | list[int]") -> None:
        """Judge several penalties at once: the kernels of a leaf are evaluated once."""
        new = [step for step in steps if (width, step) not in self.tried and 0 <= step < len(RIDGES)]
        if not new:
            return
        data, gamma = self.data, width * self.gamma
        out = np.empty((len(new), len(self.rows), data.R.shape[1]))
        starts = np.append(0, np.cumsum([len(rows) for _, rows in self.tasks]))

        def work(task: int) -> None:
            leaf, held = self.tasks[task]
            rows = self.partition.rows(leaf)
            w = None if data.weight is None else data.weight[rows]
            K = leaf_kernel(self.kernel, gamma, data.U[rows])
            K_held = np.empty((len(held), len(rows)))
            CrossKernel(self.kernel, data.U[rows], KernelParameters(gamma)).lift(data.U_held[held], K_held)
            for i, step in enumerate(new):
                alpha = solve_leaf(K.copy(), data.R[rows], w, float(RIDGES[step]))
                out[i, starts[task] : starts[task + 1]] = data.P_held[held] + K_held @ alpha

        for _ in engine.ordered_map(work, list(range(len(self.tasks))), self.n_jobs):
            pass
        for i, step in enumerate(new):
            self.tried[width, step] = self._loss(out[i]), out[i]

    def _loss(self, P: np.ndarray) -> float:
        weight = None if self.data.weight_held is None else self.data.weight_held[self.rows]
        losses = self.coding.losses(self.data.T_held[self.rows], P, self.criterion)
        return float(np.average(losses, weights=weight))
