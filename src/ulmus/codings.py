"""Codings: labels → target columns, and scores → labels."""

from dataclasses import dataclass

import numpy as np


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
        if len(self.classes) == 2:
            return self.classes[(scores[:, 0] > 0).astype(int)]
        return self.classes[scores.argmax(axis=1)]
