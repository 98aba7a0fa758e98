"""How much adaptive models spend on what."""

from dataclasses import dataclass, replace

from ulmus.solvers.boosted import RATE
from ulmus.tuning.view_budget import Budget

#: Up to this many rows, leaves are wide: the cost of all is that of the rows times the square of a leaf. Of more, a fit
#: costs so much that the search for its view may be that of labels.
FEW_ROWS = 20_000
#: From this many rows on, trees may join.
TREE_ROWS = 50
#: Metrics of fewer rows are taken halfway: they follow the noise.
WARY_ROWS = 1_000
#: From this many rows on, leaves have a say in the metric.
MANY_ROWS = 200_000
#: The share of the landmarks that a model gets where noise hides the rest.
NOISY_LANDMARKS = 2 / 3


@dataclass(frozen=True)
class Effort:
    """How much is spent on what; leaves hold ``leaf_rows``, and more, ``wide_leaf_rows``, where rows are few.

    The global model ``grows`` where leaves do not pay. Where targets are ``numbers``, and rows not many, fewer of them
    tell as much of a view as labels do; ``few_labels`` are shown by fewer landmarks. The metric of very many rows is
    that of leaves, unless it is a ``quick`` one. Trees join where there are ``tree_parts``, and are grown without each,
    by steps of ``tree_rate``.
    """

    budget: Budget
    landmarks: int
    leaf_rows: int
    wide_leaf_rows: int
    partitions: int
    scored_leaves: int
    grows: bool = True
    numbers: Budget | None = None
    few_labels: bool = False
    quick: bool = False
    tree_parts: int = 0
    tree_rate: float = RATE

    def search(self, n_rows: int, *, numbers: bool, trees: bool = False) -> Budget:
        """What choosing a view of this many rows may spend, by what targets are.

        Where trees answer too no additive view is needed, nor cuts of numbers: trees have both.
        """
        if n_rows >= MANY_ROWS and self.partitions and not self.quick:
            return replace(self.budget, leaves=True, lean=None)
        if n_rows > FEW_ROWS:
            return replace(self.budget, lean=None)
        trees = trees and n_rows >= TREE_ROWS
        if not numbers:
            found = self.budget.of_labels(n_rows) if self.few_labels else self.budget
            return replace(found, additive=False) if trees else found
        found = self.numbers or self.budget
        return replace(found, cuts=False, additive=False) if trees else found

    def landmarks_of(self, *, saturated: bool, noisy: bool) -> int:
        """Landmarks of the global model, by what the search for the view has found."""
        few = self.landmarks * NOISY_LANDMARKS if noisy else self.landmarks
        return int(few) // (2 if saturated else 1)

    def leaf(self, n_rows: int) -> int:
        """Rows of a leaf of this many rows."""
        return self.wide_leaf_rows if n_rows <= FEW_ROWS else self.leaf_rows


#: What is spent on a view where the first trials miss so much that noise hides the rest.
LEAN_LABELS = Budget(
    2_000, 150, 2_000, 150, rounds=2, rounds_again=1, final_landmarks=(250, 250), kernels=1, cuts=False
)
LEAN_NUMBERS = replace(LEAN_LABELS, rows=1_200, landmarks=128, metric_rows=1_200, metric_landmarks=128)

DEFAULT = Effort(
    Budget(final_landmarks=(350, 350), noise=0.65, lean=LEAN_LABELS),
    *(600, 1_500, 1_600, 4, 8),
    numbers=Budget(1_200, 128, 2_400, 192, final_landmarks=(400, 400), noise=0.15, lean=LEAN_NUMBERS),
    few_labels=True,
    tree_parts=5,
)

EFFORTS = {
    "fast": Effort(
        Budget(800, 100, 1_200, 128, rounds=2, rounds_again=1, final_landmarks=(250, 250), kernels=1),
        *(300, 600, 600, 2, 8),
        grows=False,
        quick=True,
        tree_parts=3,
    ),
    "default": DEFAULT,
    "best": replace(  # in the same view: one that is sought with more landmarks follows the noise
        DEFAULT,
        landmarks=2_000,
        leaf_rows=2_000,
        wide_leaf_rows=2_500,
        partitions=8,
        scored_leaves=16,
        tree_parts=10,
        tree_rate=0.07,
    ),
}
