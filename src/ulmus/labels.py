"""Several labels of one row: a coding of 0/1 columns, any number of which may be 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ulmus.codings import MARGIN


@dataclass(frozen=True)
class SeveralLabels:
    """±1 for every label; a row may have none, one or several. ``classes`` are the names of the columns."""

    classes: np.ndarray

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Target columns of 0/1 columns."""
        return np.where(y != 0, 1.0, -1.0)

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """0/1 columns of scores."""
        return (scores > 0).astype(np.int64)

    def class_scores(self, scores: np.ndarray) -> np.ndarray:
        """Every label has a score of its own."""
        return scores

    def numbers(self, T: np.ndarray) -> None:
        """Rows are of no one class."""
        return

    def identity(self, T: np.ndarray) -> np.ndarray:
        return T

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """The share of labels that are wrong (``"error"``), with soft edges (``"auto"``), or squared errors."""
        if criterion == "squared":
            return ((P - T) ** 2).mean(axis=-1)
        margin = 2 * T * P
        wrong = (margin <= 0).astype(float) if criterion == "error" else expit(-margin / MARGIN)
        return wrong.mean(axis=-1)


def refuse_several(targets: Any, what: str) -> None:
    """Refuse what is defined for one label a row only."""
    if isinstance(targets, SeveralLabels):
        raise ValueError(
            f"{what} needs a single label per row, and this model was fitted to {len(targets.classes)} labels"
        )
