"""Codings: labels → target columns, scores → labels, and how wrong a score is.

A coding judges predictions by ``losses(T, P, criterion)``: targets ``T[row, output]``, predictions
``P[..., row, output]``, one loss per row. That is what tuning minimises.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

#: Softness of the error count, on ±1 codes: a margin of ±MARGIN counts as 27 % or 73 % of an error.
MARGIN = 0.1


class Coding(Protocol):
    """What tuning needs to know of the task. Losses that have no bound say so: ``bounded = False``."""

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """One loss per row."""


@dataclass(frozen=True)
class Plain:
    """Targets as they are, judged in units of each output's deviation."""

    deviation: np.ndarray

    bounded: ClassVar[bool] = False
    criteria: ClassVar[dict[str, Callable[[np.ndarray], np.ndarray]]] = {"squared": np.square, "absolute": np.abs}

    @classmethod
    def of(cls, T: np.ndarray, weight: np.ndarray | None) -> "Plain":
        mean = np.average(T, axis=0, weights=weight)
        deviation = np.sqrt(np.average((T - mean) ** 2, axis=0, weights=weight))
        return cls(np.where(deviation > 0, deviation, 1.0))

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        error = (P - T) / self.deviation
        return self.criteria["squared" if criterion == "auto" else criterion](error).mean(axis=-1)


@dataclass(frozen=True)
class OneVsAll:
    """±1 per class; two classes need one column."""

    classes: np.ndarray

    def encode(self, indices: np.ndarray) -> np.ndarray:
        """Target columns of class indices."""
        if len(self.classes) == 2:
            return np.where(indices[:, None] == 1, 1.0, -1.0)
        return np.where(indices[:, None] == np.arange(len(self.classes)), 1.0, -1.0)

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Labels of the largest score."""
        return self.classes[self.class_scores(scores).argmax(axis=-1)]

    @staticmethod
    def class_scores(scores: np.ndarray) -> np.ndarray:
        """One score per class, also for two classes."""
        return scores if scores.shape[-1] > 1 else np.concatenate([-scores, scores], axis=-1)

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """``"auto"`` is the error count with soft edges: nearly the error, without its jumps."""
        if criterion == "squared":
            return ((P - T) ** 2).mean(axis=-1)
        margin = self._margins(T, P)
        return (margin <= 0).astype(float) if criterion == "error" else expit(-margin / MARGIN)

    @staticmethod
    def _margins(T: np.ndarray, P: np.ndarray) -> np.ndarray:
        """Score of the true class less the best of the others."""
        if T.shape[-1] == 1:
            return (2 * T * P)[..., 0]
        true = np.broadcast_to(T.argmax(axis=-1)[:, None], (*P.shape[:-1], 1))
        right = np.take_along_axis(P, true, axis=-1)[..., 0]
        others = P.copy()
        np.put_along_axis(others, true, -np.inf, axis=-1)
        return right - others.max(axis=-1)
