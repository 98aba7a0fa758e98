r"""What is explained: scores as a function of coordinates, each of which belongs to one input.

The scores of a kernel model are a sum :math:`\sum_l w_l\,\kappa(u, z_l)`. For the kernels of :data:`FACTORS` every term
is a product with one factor for each input,

.. math:: \kappa(u, z) = \prod_g k_g(u_g, z_g),\qquad
   k_g = e^{-\gamma\sum_{j \in g}(u_j - z_j)^2} \text{ (rbf)},\quad e^{-\gamma\sum_{j \in g}|u_j - z_j|}
   \text{ (L1-Laplacian)},

where g holds the coordinates that an input has become (0/1 columns of a category, cycles of a date). A leaf of a local
stage answers for the rows in a box, which is one more factor, 0 or 1, for each input.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ulmus.features.kernels import CrossKernel
from ulmus.solvers.boosted import BoostedTrees
from ulmus.solvers.local import LocalKernels

#: Kernel → what every coordinate adds to the exponent, over gamma.
FACTORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"rbf": np.square, "laplacian_l1": np.abs}


@dataclass(frozen=True)
class Products:
    """``Σ_l w_l κ(u, z_l)`` for a product kernel, for rows ``low < u ≤ high``; 0 for all others."""

    kernel: str
    gamma: float
    Z: np.ndarray
    weights: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def factors(self, U: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        """``k_g(u_g, z_g)``, without the box: ``[landmark, group, row]``."""
        out = np.empty((len(self.Z), len(groups), len(U)))
        each = FACTORS[self.kernel]
        for g, columns in enumerate(groups):
            exponent = np.zeros((len(self.Z), len(U)))
            for j in columns:
                exponent += each(self.Z[:, j, None] - U[:, j])
            np.exp(-self.gamma * exponent, out=out[:, g])
        return out

    def inside(self, U: np.ndarray, groups: list[np.ndarray]) -> np.ndarray | None:
        """Whether the coordinates of a group lie within the box, ``[row, group]``; None where there is no box."""
        if self.low is None or self.high is None:
            return None
        within = np.greater(U, self.low) & np.less_equal(U, self.high)
        return np.column_stack([within[:, columns].all(axis=1) for columns in groups])


@dataclass(frozen=True)
class Game:
    """Scores of rows as the game of their inputs.

    ``see`` turns rows into coordinates, ``owner`` is the input of every coordinate, ``score`` gives the scores of
    coordinates (``[row, output]``). ``products`` are the terms of the scores beside ``constant``, where these are
    product kernels (None otherwise), and ``trees``. ``background`` are coordinates of rows that the model holds.
    """

    see: Callable[[Any], np.ndarray]
    owner: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]
    constant: np.ndarray
    products: tuple[Products, ...] | None = None
    background: np.ndarray | None = None
    trees: BoostedTrees | None = None

    def grouped(self, groups: Any, n_inputs: int) -> "Game":
        """The game in which inputs of one number are one player; the number -1 is for inputs that do not play."""
        number = np.asarray(groups)
        if number.shape != (n_inputs,) or number.dtype.kind not in "iu":
            raise ValueError(
                f"groups must be {n_inputs} whole numbers, one for each input; got an array of shape {number.shape} "
                f"and type {number.dtype}"
            )
        return replace(self, owner=number[self.owner])

    def players(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The inputs that have a coordinate, and the coordinates of each."""
        present = np.unique(self.owner[self.owner >= 0])
        return present, [np.flatnonzero(self.owner == g) for g in present]


class Comparison(NamedTuple):
    """Rows to explain and rows to compare them with: what values and interactions are computed from.

    ``groups`` are the coordinates of every player, ``U`` those of the rows to explain; rows of the ``background`` stand
    for "not known", and the sum of their ``weight`` is 1.
    """

    groups: list[np.ndarray]
    U: np.ndarray
    background: np.ndarray
    weight: np.ndarray


def kernel_products(cross: CrossKernel, weights: np.ndarray) -> tuple[Products, ...] | None:
    """The scores ``κ(u, Z) · weights`` as products; None where the kernel is none."""
    if cross.kernel is None or cross.kernel.name not in FACTORS:
        return None
    return (Products(cross.kernel.name, cross.parameters.gamma, np.asarray(cross.Z, np.float64), weights),)


def local_products(local: LocalKernels) -> tuple[Products, ...] | None:
    """The local stage as products, one for every leaf; None where its kernel, or the shape of a leaf, is none."""
    if local.kernel not in FACTORS or any(len(p.directions) for p in local.partitions):
        return None
    out = []
    for partition, alpha in zip(local.partitions, local.alphas, strict=True):
        for leaf, (low, high) in _boxes(partition, local.U.shape[1]):
            weights = alpha[partition.starts[leaf] : partition.starts[leaf + 1]] / len(local.partitions)
            out.append(Products(local.kernel, local.gamma, local.U[partition.rows(leaf)], weights, low, high))
    return tuple(out)


def _boxes(partition: Any, n_coordinates: int) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    """Every leaf with the box of rows that it answers for: ``low < u ≤ high``."""
    everything = np.full(n_coordinates, -np.inf), np.full(n_coordinates, np.inf)
    stack = [(0 if len(partition.feature) else -1, everything)]
    while stack:
        node, (low, high) = stack.pop()
        if node < 0:
            yield -1 - node, (low, high)
            continue
        j, cut = partition.feature[node], partition.threshold[node]
        left, right = high.copy(), low.copy()
        left[j], right[j] = min(high[j], cut), max(low[j], cut)
        stack += [(partition.children[node, 0], (low, left)), (partition.children[node, 1], (right, high))]
