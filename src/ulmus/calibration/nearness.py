r"""Rows left out count the more for a new row, the more similar the sizes are that their errors are predicted to have.

Scores in units of a predicted size would have one distribution everywhere if sizes were right. They are right on
average, and less so for the smallest and the largest ones. Quantiles for a new row therefore weight the rows left out
by how near they are in size (localised conformal prediction; Guan 2023): with the rank :math:`u_i` of a row among the
sizes of all rows left out, from 0 to 1, and that of the new row, u,

.. math:: w_i\left(\beta + (1 - \beta)\max(0, 1 - |u_i - u| / h)\right),\qquad h = 1/2,\quad \beta = 1/10.

Every row keeps a tenth of its weight at least. New rows are taken together in fifty classes of equal ranks, each with
the weights of its middle. Fewer than 500 rows say too little of every size: then all count alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How far in rank rows count for more than the least, the least share, classes of new rows, and rows that it takes.
REACH, LEAST, CLASSES, ENOUGH = 0.5, 0.1, 50, 500

#: New rows (places among those asked for), and the weights of the rows left out for them.
Parts = Iterator[tuple[Any, np.ndarray]]


def ranks(sizes: np.ndarray, weight: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The share of the weight of smaller sizes, and half of that of equal ones, at new sizes."""
    order = np.argsort(sizes, kind="stable")
    mass, ranked = np.append(0.0, np.cumsum(weight[order])), sizes[order]
    below, up_to = (mass[np.searchsorted(ranked, new, side=side)] for side in ("left", "right"))
    return np.asarray((below + up_to) / (2.0 * mass[-1]))


@dataclass(frozen=True)
class Nearness:
    """Predicted sizes of the errors of rows left out, and of new rows, ``[row, output]``.

    ``learned`` tells of every output whether sizes were learned at all.
    """

    held: np.ndarray
    new: np.ndarray
    learned: tuple[bool, ...]

    def parts(self, j: int, weight: np.ndarray, factor: Any = 1.0, rows: Any = slice(None)) -> Parts:
        """For output j and some of the new rows; rows left out count as so many, times a factor, to begin with."""
        weight, most, new = factor * weight, np.max(factor), self.new[rows, j]
        if not self.learned[j] or weight.sum() < ENOUGH * most:
            yield slice(None), weight
            return
        of_held, of_new = (ranks(self.held[:, j], weight, sizes) for sizes in (self.held[:, j], new))
        classes = np.minimum((CLASSES * of_new).astype(int), CLASSES - 1)
        for k in np.unique(classes):
            near = np.maximum(0.0, 1.0 - np.abs(of_held - (k + 0.5) / CLASSES) / REACH)
            share = LEAST + (1.0 - LEAST) * near
            yield np.flatnonzero(classes == k), weight * (share / share[weight > 0].max())


def near_parts(near: Nearness | None, j: int, weight: np.ndarray, factor: Any = 1.0, rows: Any = slice(None)) -> Parts:
    """The same; where there are no sizes, all new rows are alike."""
    return iter([(slice(None), factor * weight)]) if near is None else near.parts(j, weight, factor, rows)
