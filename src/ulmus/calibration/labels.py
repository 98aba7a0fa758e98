"""Probabilities of several labels of one row: each has a temperature of its own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ulmus.calibration.held_out import HeldOut
from ulmus.calibration.sets import LabelScores
from ulmus.calibration.temperature import Temperature


@dataclass(frozen=True)
class LabelTemperatures:
    """The factor of every label, what [no, yes] have at least, and the share of the training rows that have it.

    A label is a problem of two classes with scores [−s, s], so each is a :class:`Temperature`.
    """

    factor: np.ndarray
    floor: np.ndarray
    prior: np.ndarray
    left_out: LabelScores
    #: What the scores were fitted by.
    loss: ClassVar[str] = "squared"

    @classmethod
    def of(cls, held_out: HeldOut, prior: np.ndarray) -> "LabelTemperatures":
        """Those that make the labels of rows that were left out most likely."""
        yes = held_out.T > 0
        each = [
            Temperature.of(np.column_stack([-s, s]), true.astype(int), held_out.weight)
            for s, true in zip(held_out.P.T, yes.T, strict=True)
        ]
        left_out = LabelScores(held_out.P, yes.astype(int), held_out.weight, held_out.variance)
        return cls(np.array([t.factor for t in each]), np.array([t.floor for t in each]), prior, left_out)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """That a row has the label, for every label."""
        each = [
            Temperature(float(a), floor).probabilities(np.column_stack([-s, s]))[:, 1]
            for a, floor, s in zip(self.factor, self.floor, scores.T, strict=True)
        ]
        return np.column_stack(each)
