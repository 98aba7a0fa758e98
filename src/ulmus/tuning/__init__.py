"""Choosing C, gamma and the number of features from the data."""

from ulmus.tuning.judge import GCV, Judge, Summary, Trial, fold_numbers, summarise
from ulmus.tuning.search import Tuner, Tuning

__all__ = ["GCV", "Judge", "Summary", "Trial", "Tuner", "Tuning", "fold_numbers", "summarise"]
