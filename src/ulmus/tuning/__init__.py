"""Choosing C, gamma and the number of features from the data."""

from ulmus.tuning.folds import fold_numbers
from ulmus.tuning.scorer import GCV, Scorer
from ulmus.tuning.search import Tuner, Tuning
from ulmus.tuning.surface import Trial

__all__ = ["GCV", "Scorer", "Trial", "Tuner", "Tuning", "fold_numbers"]
