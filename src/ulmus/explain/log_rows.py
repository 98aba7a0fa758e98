r"""Log models without a row, by one Newton step.

At the solution of :math:`\sum_i w_i\ell_i + \|\beta\|^2/2C` a log model is a ridge model of itself: with the shares p,
the weights :math:`d = w\,p(1 - p)` and the working targets :math:`z = f + (y - p)/p(1 - p)` the ridge regression of z
with weights d and the same C has the scores f. What a row does to that regression, exactly (:mod:`ulmus.explain.
smoother`), is one Newton step with the Hessian of the other rows towards the log model without it: an approximation,
good to the second order in what the row moves. Of several classes every score is taken against the rest, without the
curvature between classes.

Leaves behind a global model g are the same, each with its own shares at :math:`s = g + \ell`: kernel ridge on
:math:`z - g`. Without a row the global model moves, and the working targets of the leaf with it, as those of squares do
(:mod:`ulmus.explain.stages`). At the solution :math:`\lambda\alpha = w(y - p)`, which tells the penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.engine import Rows
from ulmus.explain.influence import LeavesRows, OwnEffects, other_rows
from ulmus.explain.smoother import OneStage, Smoother
from ulmus.explain.stages import LeafTargets, TwoStages
from ulmus.solvers.local import LocalKernels
from ulmus.solvers.own_landmarks import landmarks_among

#: Least ``p(1 − p)``: what is below it is certain, and moves nothing.
LEAST = 1e-9

#: Scores → shares of classes.
Shares = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LogRows:
    """A stage, or two, for every score; the working targets of the first and of all of it, and the codes of rows."""

    stages: tuple[LeavesRows, ...]
    first: np.ndarray
    working: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, share: Shares, rows: Rows, make: Callable[..., Smoother]) -> "LogRows":
        """From scores of training rows; ``make(targets, weights)`` smooths one column."""
        z, d = _working(scores, share, rows.T)
        each = zip(z.T, (rows.weights * d.T), strict=True)
        return cls(tuple(OneStage(make(column[:, None], weight)) for column, weight in each), z, z, rows.T)

    def behind(self, local: LocalKernels, scores: np.ndarray, share: Shares, rows: Rows) -> "LogRows":
        """The same with leaves behind the global model, of which these are the ``scores``."""
        weight = rows.weights
        added = [local.of_partition(number, rows.X) for number in range(len(local.partitions))]
        ridge = penalty_of(local, [share(scores + leaf) for leaf in added], rows)
        fits = [_working(scores + leaf, share, rows.T) for leaf in added]
        stages = []
        for k, stage in enumerate(self.stages):
            assert isinstance(stage, OneStage)
            mine = [LeafTargets((z - scores)[:, [k]], weight * d[:, k]) for z, d in fits]
            stages.append(TwoStages.of(stage.smoother, local, rows.X, ridge, mine))
        return replace(self, stages=tuple(stages), working=np.mean([z for z, _ in fits], axis=0))

    def answers(self, X: Any, T: np.ndarray) -> np.ndarray:
        """Scores of rows, from the working targets."""
        each = zip(self.stages, self.first.T, strict=True)
        return np.column_stack([stage.answers(X, z[:, None])[:, 0] for stage, z in each])

    def effects(self, X: Any) -> np.ndarray:
        return np.concatenate([one.effects(X) for one in self.stages], axis=2)

    def own_effects(self, rows: np.ndarray) -> OwnEffects:
        each = [one.own_effects(rows) for one in self.stages]
        return lambda X: np.concatenate([effects(X) for effects in each], axis=1)

    @property
    def left_out(self) -> np.ndarray:
        """Codes of training rows less their scores by the models without them."""
        missed = np.column_stack([one.left_out[:, 0] for one in self.stages])
        return self.codes - (self.working - missed)

    def left_out_pairs(self, rows: slice) -> np.ndarray:
        """The same without the row and another: ``[row, the other, output]``."""
        missed = np.concatenate([one.left_out_pairs(rows) for one in self.stages], axis=2)
        return self.codes[rows, None] - (self.working[rows, None] - missed)


def penalty_of(local: LocalKernels, shares: list[np.ndarray], rows: Rows) -> float:
    """The penalty of leaves, from their weights and the shares of rows by each partition: ``λ α = w (y − p)``."""
    index, place = landmarks_among(local.U, rows)
    weight, truth = rows.weights[index, None], 0.5 * (1.0 + rows.T[index])
    across, along = 0.0, 0.0
    for partition, alpha, p in zip(local.partitions, local.alphas, shares, strict=True):
        mine = np.empty_like(alpha)
        mine[partition.order] = alpha
        pull = weight * (truth - p[index])
        total = np.column_stack([np.bincount(place, column, len(mine)) for column in pull.T])
        there = np.bincount(place, minlength=len(mine)) > 0
        across += float((total * mine)[there].sum())
        along += float((mine**2)[there].sum())
    if not across > 0 or not along > 0:
        raise other_rows("the weights of the leaves do not follow from them")
    return across / along


def _working(scores: np.ndarray, share: Shares, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Working targets and curvatures of every score."""
    p = share(scores)
    d = np.maximum(p * (1.0 - p), LEAST)
    return scores + (0.5 * (1.0 + codes) - p) / d, d
