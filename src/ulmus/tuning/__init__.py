"""Choosing C, gamma and the number of features from the data."""

from ulmus.tuning.folds import fold_numbers, summarise
from ulmus.tuning.judge import GCV, Judge, by_squares
from ulmus.tuning.search import Tuner, Tuning
from ulmus.tuning.surface import Trial

__all__ = ["GCV", "Judge", "Trial", "Tuner", "Tuning", "by_squares", "fold_numbers", "summarise"]
