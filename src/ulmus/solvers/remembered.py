"""Rows that are not squared again where they were: penalties that are compared start from the same point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ulmus.losses import Loss
from ulmus.solvers.objective import Evaluation, Objective, Request, System, Way

#: Points whose curvature is kept, the last ones: each has a matrix of the order of the features.
KEPT = 2


@dataclass
class Remembered:
    """Rows for several runs of Newton's method with one loss and its transitions, each from where another has ended."""

    rows: Objective
    kept: list[tuple[int, Request, Evaluation]] = field(default_factory=list)
    reuse: ClassVar[float] = 0.2

    @property
    def tolerance(self) -> Any:
        return self.rows.tolerance

    @property
    def fit_intercept(self) -> bool:
        return self.rows.fit_intercept

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    @property
    def largest_targets(self) -> np.ndarray:
        return self.rows.largest_targets

    def value(self, loss: Loss, c: float, found: Evaluation) -> float:
        return self.rows.value(loss, c, found)

    def bend(self, loss: Loss, c: float, found: Evaluation) -> float:
        return self.rows.bend(loss, c, found)

    def along(self, loss: Loss, c: np.ndarray, way: Way) -> Callable[[float], tuple[float, float]]:
        return self.rows.along(loss, c, way)

    def sweep(self, loss: Loss, c: np.ndarray, requests: Mapping[int, Request]) -> dict[int, Evaluation]:
        """What is known of the points, and a pass for the others."""
        found = {j: known for j, request in requests.items() if (known := self._known(j, request)) is not None}
        if len(found) == len(requests):
            return found
        new = self.rows.sweep(loss, c, {j: request for j, request in requests.items() if j not in found})
        for j, evaluation in new.items():
            if requests[j].wanted == "curvature":
                self.kept.append((j, requests[j], evaluation))
        del self.kept[: -KEPT * max(1, len(c))]
        return found | new

    def _known(self, output: int, request: Request) -> Evaluation | None:
        if request.wanted == "curvature":
            for j, point, evaluation in self.kept:
                same = j == output and point.intercept == request.intercept and point.thorough >= request.thorough
                if same and np.array_equal(point.beta, request.beta):
                    return evaluation
        return None

    def system(self, found: Evaluation, C: float, bias_penalty: float) -> System:
        return self.rows.system(found, C, bias_penalty)
