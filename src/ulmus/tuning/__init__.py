"""Choosing C, gamma and the number of features from the data."""

from ulmus.tuning.judge import Judge, Trial, fold_numbers, summarise
from ulmus.tuning.search import Tuner, Tuning

__all__ = ["Judge", "Trial", "Tuner", "Tuning", "fold_numbers", "summarise"]
