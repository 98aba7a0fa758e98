"""Recipes of feature maps: what is given of a map, and what is left to the data.

A map is made from a *width* (``slope`` of a random layer, ``gamma`` of a kernel) and a *size* (nodes, landmarks). A
recipe says which of them are open, where the search for the width starts, and makes maps of any width and size with one
seed, so that they nest.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from ulmus.engine import Rows
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import uses_gamma
from ulmus.features.landmarks import heuristic_gamma
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer

#: Width and size → an unfitted map.
MakeMap = Callable[[float, int], Any]
#: A size that does for most data, where nothing is searched.
FIRST_SIZE = 500


@dataclass(frozen=True)
class Recipe:
    """What the recipes share: how they come from parameters, and which of these a map takes."""

    #: What width, size and the bound of the size are called.
    width_name: ClassVar[str]
    size_name: ClassVar[str]
    most_name: ClassVar[str]

    @classmethod
    def of(cls, settings: Any, **changes: Any) -> Self:
        """From an object that has parameters as attributes, an estimator; what it lacks has its default."""
        found = {each.name: getattr(settings, each.name, each.default) for each in fields(cls)}
        return cls(**(found | changes))

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that a map takes besides its width and size."""
        apart = (self.width_name, self.size_name, self.most_name)
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in apart}

    @property
    def max_size(self) -> int:
        """Bound of a size that is chosen."""
        return int(getattr(self, self.most_name))


@dataclass(frozen=True)
class RandomFeatures(Recipe):
    """A layer of random hidden nodes (:class:`~ulmus.RandomLayer`)."""

    n_hidden: Any = "auto"
    activation: str = "tanh"
    weights: str = "uniform"
    scale: Any = "auto"
    slope: Any = "auto"
    direct_links: bool = False
    max_hidden: int = 2000
    n_jobs: int | None = -1

    width_name: ClassVar[str] = "slope"
    size_name: ClassVar[str] = "n_hidden"
    most_name: ClassVar[str] = "max_hidden"

    def maker(self, seed: int) -> MakeMap:
        """Unfitted layers of any slope and size."""
        return lambda slope, size: RandomLayer(size, slope=slope, random_state=seed, **self.given)

    @property
    def open_width(self) -> bool:
        """Whether the slope is to be searched."""
        return isinstance(self.slope, str)

    def start(self, rows: Rows, rng: np.random.RandomState) -> float:
        """The slope, or where the search for it starts."""
        return 1.0 if self.open_width else self.slope

    @property
    def open_size(self) -> bool:
        """Whether the number of nodes is to be chosen."""
        return isinstance(self.n_hidden, str)

    def size(self, rows: Rows, C: Any) -> Any:
        """The number of nodes; ``"auto"`` where it is to be chosen, which needs a penalty to choose by."""
        return plain_size(rows) if self.open_size and C is None else self.n_hidden

    def most(self, rows: Rows) -> int:
        """Features that a fit may come to use."""
        return int(self.max_hidden if self.open_size else self.n_hidden)

    def warm_up(self, rows: int, C: Any) -> int:
        """Rows before the map can be fixed, where so many do; 1 where nothing is left to them."""
        left = "auto" in (self.scale, self.slope, self.n_hidden, C)
        radial = ACTIVATIONS[self.activation].argument == "distance"
        return rows if (left or radial) and C is not None else 1

    @staticmethod
    def in_use(features: RandomLayer) -> tuple[float, int]:
        """Slope and number of nodes of a fitted layer."""
        return features.slope, features.n_hidden


@dataclass(frozen=True)
class NystromFeatures(Recipe):
    """A kernel through landmark rows (:class:`~ulmus.NystromMap`)."""

    n_landmarks: Any = "auto"
    kernel: Any = "rbf"
    gamma: Any = "auto"
    degree: float = 3
    coef0: float = 1.0
    landmarks: Any = "uniform"
    rank: int | None = None
    max_landmarks: int = 2000
    n_jobs: int | None = -1

    width_name: ClassVar[str] = "gamma"
    size_name: ClassVar[str] = "n_landmarks"
    most_name: ClassVar[str] = "max_landmarks"

    def maker(self, seed: int) -> MakeMap:
        """Unfitted maps of any gamma and size."""
        return lambda gamma, size: NystromMap(size, gamma=gamma, random_state=seed, **self.given)

    @property
    def open_width(self) -> bool:
        """Whether gamma is to be searched."""
        return isinstance(self.gamma, str) and uses_gamma(self.kernel)

    def start(self, rows: Rows, rng: np.random.RandomState) -> float:
        """Gamma, or where the search for it starts."""
        return heuristic_gamma(self.kernel, rows.X, rows.weight, rng) if isinstance(self.gamma, str) else self.gamma

    @property
    def drawn(self) -> bool:
        """Whether landmarks are so many of the rows, drawn by a rule."""
        return isinstance(self.landmarks, str) and self.landmarks != "all"

    @property
    def open_size(self) -> bool:
        """Whether the number of landmarks is to be chosen."""
        return isinstance(self.n_landmarks, str) and self.rank is None and self.drawn

    def size(self, rows: Rows, C: Any) -> Any:
        """The number of landmarks; ``"auto"`` where it is to be chosen, which needs a penalty to choose by."""
        if not self.drawn:
            return min(len(rows), self.max_landmarks)
        if isinstance(self.n_landmarks, str) and self.rank is not None:
            return max(FIRST_SIZE, 2 * self.rank)
        return plain_size(rows) if self.open_size and C is None else self.n_landmarks

    def most(self, rows: Rows) -> int:
        """Features that a fit may come to use."""
        return self.max_landmarks if isinstance(self.n_landmarks, str) else min(self.n_landmarks, len(rows))

    def warm_up(self, rows: int, C: Any) -> int:
        """Rows before the map can be fixed, where so many do; never fewer than landmarks."""
        return max(rows, 0 if isinstance(self.n_landmarks, str) else self.n_landmarks)

    @staticmethod
    def in_use(features: NystromMap) -> tuple[float, int]:
        """Gamma and number of landmarks of a fitted map."""
        return features.gamma_, len(features.landmarks_)


def plain_size(rows: Rows) -> int:
    """A size for rows that nothing is chosen on."""
    return min(FIRST_SIZE, max(1, len(rows) // 4))
