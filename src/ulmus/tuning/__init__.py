"""Choosing C, gamma and the number of features from the data."""

from ulmus.tuning.folds import fold_numbers, summarise
from ulmus.tuning.judge import GCV, Judge
from ulmus.tuning.search import Tuner, Tuning
from ulmus.tuning.surface import Trial

__all__ = ["GCV", "Judge", "Trial", "Tuner", "Tuning", "fold_numbers", "summarise"]
