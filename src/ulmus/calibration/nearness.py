r"""Rows left out count the more for a new row, the more similar the sizes are that their errors are predicted to have.

Scores in units of a predicted size would have one distribution everywhere if sizes were right. They are right on
average, and less so for the smallest and the largest ones. Quantiles for a new row therefore weight the rows left out
by how near they are in size (localised conformal prediction; Guan 2023): with the rank :math:`u_i` of a row among the
sizes of all rows left out, from 0 to 1, and that of the new row, u,

.. math:: w_i\left(\beta + (1 - \beta)\max(0, 1 - |u_i - u| / h)\right),\qquad h = 1/2,\quad \beta = 1/10.

Every row keeps a tenth of its weight at least. New rows are taken together in fifty classes of equal ranks, each with
the weights of its middle. Fewer than 500 rows say too little of every size: then all count alike.

Sizes that differ by less than 5 % are nearly the same for ranks: a row weighs :math:`(1 + t/\delta)/2` of its weight in
the rank of another, with the difference t of both logarithms, and :math:`\delta = 0.05`. Where errors have one size
everywhere, left-out sizes differ in the third digit alone, and these digits tell the error of the very row: the mean of
the others is the smaller, the larger its own is. Ranks without a tolerance would choose rows by their errors there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How far in rank rows count for more than the least, the least share, classes of new rows, and rows that it takes.
REACH, LEAST, CLASSES, ENOUGH = 0.5, 0.1, 50, 500
#: Relative differences of sizes that hardly count.
SAME = 0.05

#: New rows (places among those asked for), and the weights of the rows left out for them.
Parts = Iterator[tuple[Any, np.ndarray]]


def ranks(sizes: np.ndarray, weight: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The share of the weight of smaller sizes at new sizes, where nearly equal ones count in part."""
    at, x = (np.log(np.maximum(each, np.finfo(float).tiny)) for each in (sizes, new))
    order, middle = np.argsort(at, kind="stable"), np.median(at)
    at, x, w = at[order] - middle, x - middle, weight[order]
    mass, moment = (np.append(0.0, np.cumsum(each)) for each in (w, w * at))
    first, last = np.searchsorted(at, x - SAME), np.searchsorted(at, x + SAME)
    among = mass[last] - mass[first]
    part = 0.5 * (among + (among * x - (moment[last] - moment[first])) / SAME)
    return np.asarray(np.clip((mass[first] + part) / mass[-1], 0.0, 1.0))


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
